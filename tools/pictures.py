"""Draw the pictures of the documentation: each text in docs/pictures becomes an SVG beside it.

    python -m tools.pictures            draw all of them, as `make pictures` does
    python -m tools.pictures --check    draw nothing; fail if a picture does not match its text

A text is a grid of characters. Box-drawing characters become lines, arrow heads become triangles that touch the line they point at, and
everything else stays text at its place in the grid, whatever the font. The same text gives the same bytes. The colours follow the
reader's preference, light or dark.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from xml.sax.saxutils import escape

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "pictures"

# The size of a cell of the grid, and the margin around the picture, in pixels.
WIDTH, HEIGHT, MARGIN = 8, 18, 12

# The sides of its cell that a line reaches: up, right, down, left.
ARMS = {
    "─": "rl",
    "│": "ud",
    "┌": "rd",
    "┐": "dl",
    "└": "ur",
    "┘": "ul",
    "├": "urd",
    "┤": "udl",
    "┬": "rdl",
    "┴": "url",
    "┼": "urdl",
}
# The direction of an arrow head: steps to the right, and down.
HEADS = {"▶": (1, 0), "◀": (-1, 0), "▼": (0, 1), "▲": (0, -1)}
LENGTH, HALF = 8, 5

_BOX = re.compile("[\u2500-\u257f]")
_WORDS = re.compile(f"[^{''.join(ARMS)}{''.join(HEADS)} ]+(?: [^{''.join(ARMS)}{''.join(HEADS)} ]+)*")

STYLE = """\
  .paper { fill: #ffffff }
  .line { stroke: #5c6bc0; stroke-width: 1.5; fill: none }
  .head { fill: #5c6bc0 }
  text { fill: #1f2328; font: 13px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace }
  @media (prefers-color-scheme: dark) {
    .paper { fill: #1e2129 }
    .line { stroke: #9fa8da }
    .head { fill: #9fa8da }
    text { fill: #e2e4e9 }
  }"""


def draw(text: str) -> str:
    """Return the SVG of a text.

    Raises:
        ValueError: the text contains an unsupported box-drawing character.
    """
    rows = text.rstrip("\n").split("\n")
    width = max(map(len, rows)) * WIDTH + 2 * MARGIN
    height = len(rows) * HEIGHT + 2 * MARGIN
    body = [f'<path class="line" d="{_lines(rows)}"/>']
    body += _heads(rows)
    for y, row in enumerate(rows):
        body += _words(y, row)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">',
            f"<style>\n{STYLE}\n</style>",
            f'<rect class="paper" width="{width}" height="{height}" rx="6"/>',
            *body,
            "</svg>\n",
        ]
    )


def _lines(rows: Sequence[str]) -> str:
    """Return the lines of a grid as the data of one path: first the horizontal ones, then the vertical ones."""
    across: dict[int, list[int]] = {}
    down: dict[int, list[int]] = {}
    for y, row in enumerate(rows):
        for x, character in enumerate(row):
            if _BOX.match(character) and character not in ARMS:
                raise ValueError(
                    f"line {y + 1} has a {character!r}, which cannot be drawn: use {' '.join(ARMS)}"
                )
            arms = ARMS.get(character, "")
            # Halves of cells: 2x is the left one, 2x + 1 the right one.
            across.setdefault(y, []).extend(2 * x + half for half, arm in enumerate("lr") if arm in arms)
            down.setdefault(x, []).extend(2 * y + half for half, arm in enumerate("ud") if arm in arms)
    parts = [
        f"M{_x(first / 2)} {_y(y + 0.5)}H{_x(last / 2)}"
        for y in sorted(across)
        for first, last in _runs(across[y])
    ]
    parts += [
        f"M{_x(x + 0.5)} {_y(first / 2)}V{_y(last / 2)}"
        for x in sorted(down)
        for first, last in _runs(down[x])
    ]
    return "".join(parts)


def _runs(halves: Iterable[int]) -> list[tuple[int, int]]:
    """Join half cells that touch; return the begin and the end of each run."""
    runs: list[tuple[int, int]] = []
    for half in halves:
        if runs and runs[-1][1] == half:
            runs[-1] = (runs[-1][0], half + 1)
        else:
            runs.append((half, half + 1))
    return runs


def _heads(rows: Sequence[str]) -> list[str]:
    """Return the arrow heads of a grid, each with the part of its shaft in its own cell."""
    found: list[str] = []
    for y, row in enumerate(rows):
        for x, character in enumerate(row):
            if character in HEADS:
                found += _head(rows, x, y, *HEADS[character])
    return found


def _head(rows: Sequence[str], x: int, y: int, right: int, down: int) -> list[str]:
    # From the edge where the shaft enters the cell to the crossing line in the next cell, or to the other edge.
    reach = 1 if _is_across(rows, x + right, y + down, is_flat=bool(down)) else 0.5
    tail_x, tail_y = _x(x + 0.5 - right / 2), _y(y + 0.5 - down / 2)
    tip_x, tip_y = _x(x + 0.5 + right * reach), _y(y + 0.5 + down * reach)
    neck_x, neck_y = tip_x - right * LENGTH, tip_y - down * LENGTH
    points = (
        (neck_x - down * HALF, neck_y - right * HALF),
        (tip_x, tip_y),
        (neck_x + down * HALF, neck_y + right * HALF),
    )
    head = f'<polygon class="head" points="{" ".join(f"{px},{py}" for px, py in points)}"/>'
    shaft = f'<path class="line" d="M{tail_x} {tail_y}L{neck_x} {neck_y}"/>'
    return [head] if (tail_x, tail_y) == (neck_x, neck_y) else [shaft, head]


def _is_across(rows: Sequence[str], x: int, y: int, *, is_flat: bool) -> bool:
    """Return whether a line crosses this cell: a horizontal one (`is_flat`) or a vertical one."""
    arms = ARMS.get(rows[y][x], "") if 0 <= y < len(rows) and 0 <= x < len(rows[y]) else ""
    return set("lr" if is_flat else "ud") <= set(arms)


def _words(y: int, row: str) -> list[str]:
    """Return the words of a row as text elements, each as wide as its cells."""
    return [
        f'<text x="{_x(found.start())}" y="{_y(y) + 13}" textLength="{len(found[0]) * WIDTH}">{escape(found[0])}</text>'
        for found in _WORDS.finditer(row)
    ]


def _x(column: float) -> int:
    return int(MARGIN + column * WIDTH)


def _y(row: float) -> int:
    return int(MARGIN + row * HEIGHT)


def draw_all(folder: Path) -> list[Path]:
    """Draw every text of a folder, and return the paths of the pictures."""
    drawn: list[Path] = []
    for source in sorted(folder.glob("*.txt")):
        picture = source.with_suffix(".svg")
        picture.write_text(draw(source.read_text("utf-8")), "utf-8")
        drawn.append(picture)
    return drawn


def problems(folder: Path) -> list[str]:
    """Return a sentence for each picture of a folder that is missing, outdated or left over."""
    found: list[str] = []
    for source in sorted(folder.glob("*.txt")):
        picture = source.with_suffix(".svg")
        if not picture.exists():
            found.append(f"{source.name} has no picture: run make pictures")
        elif picture.read_text("utf-8") != draw(source.read_text("utf-8")):
            found.append(f"{picture.name} does not match {source.name}: run make pictures")
    found += [
        f"{picture.name} has no source text: remove it, or write {picture.stem}.txt"
        for picture in sorted(folder.glob("*.svg"))
        if not picture.with_suffix(".txt").exists()
    ]
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description="Draw the pictures of the documentation from their texts.")
    parser.add_argument("--check", action="store_true", help="draw nothing; fail if a picture is out of date")
    if parser.parse_args().check:
        found = problems(FOLDER)
        for sentence in found:
            print(f"pictures: {sentence}", file=sys.stderr)
        return 1 if found else 0
    print(f"pictures: {len(draw_all(FOLDER))} drawn in {FOLDER.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
