"""Draw the charts of the documentation from a run's JSON: an SVG and a PNG of each.

    python -m bench.chart build/bench.json docs/charts

`savina` shows operations a second of every case of the Savina suite, a mark for each system; `growth` what a message costs the more
actors there are. They are drawn by matplotlib, which is in the peers' environment: where this Python has none, that one is asked. The same
figures give the same bytes. Ends with 0; with 1 and a sentence where figures or matplotlib are missing; with 2 for a wrong option.
"""

from __future__ import annotations

import re
import subprocess
import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from textwrap import fill
from typing import Any

from bench import figure, scale
from bench.figures import Figures, NoFiguresError, Row, load
from bench.threads import PYTHON

ROOT = Path(__file__).resolve().parent.parent
INK, GREY, PALE = "#1f2328", "#6e7781", "#e4e7eb"
# The colours of Okabe and Ito, which the colour-blind can tell apart; the shapes say the same once more.
STYLES: dict[str, tuple[str, str]] = {
    "limit": (GREY, "|"),
    "compiled": ("#0072b2", "o"),
    "typed": ("#56b4e9", "D"),
    "asyncio": ("#e69f00", "s"),
    "uvloop": ("#d55e00", "P"),
    "pykka": ("#cc79a7", "v"),
    "pykka-1": ("#cc79a7", "^"),
    "thespian": ("#8c6d00", "X"),
    "xoscar": ("#009e73", "p"),
    "erlang": ("#000000", "*"),
    "erlang-all": ("#000000", "x"),
}
SPARE = ((GREY, "h"), (GREY, "<"), (GREY, ">"), (GREY, "d"))
"""For systems that nobody has given a style."""
UNSHOWN = {"interpreted"}
"""Systems that would only be in the way: they are in the tables."""
COLUMNS = 7
"""Of the legend."""
GROWTH = "growth-"
"""How the cases begin whose names end with a number of actors."""
SETTINGS: dict[str, object] = {
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "text.color": INK,
    "axes.edgecolor": PALE,
    "axes.labelcolor": INK,
    "xtick.color": GREY,
    "ytick.color": INK,
    "figure.facecolor": "white",
    "axes.facecolor": "white",
    # Otherwise the names inside an SVG are drawn by lot.
    "svg.hashsalt": "bandstand",
    "svg.fonttype": "path",
}


def draw(figures: Figures, folder: Path) -> list[Path]:
    """Draw what there are figures for.

    Raises:
        NoFiguresError: there are none for any of the charts.
    """
    matplotlib: Any = import_module("matplotlib")
    matplotlib.use("Agg")
    plot: Any = import_module("matplotlib.pyplot")
    painters: dict[str, tuple[list[Row], Callable[[Any, Figures, list[Row]], Any]]] = {
        "savina": (figures.savina, _savina),
        "growth": ([row for row in figures.actors if _actors(row)], _growth),
    }
    folder.mkdir(parents=True, exist_ok=True)
    drawn: list[Path] = []
    with matplotlib.rc_context(SETTINGS):
        for name, (rows, paint) in painters.items():
            if not rows:
                continue
            picture = paint(plot, figures, rows)
            for kind, metadata in (("svg", {"Date": None}), ("png", {"Software": None})):
                path = folder / f"{name}.{kind}"
                picture.savefig(path, metadata=metadata, dpi=160, bbox_inches="tight", pad_inches=0.25)
                drawn.append(path)
            plot.close(picture)
    if not drawn:
        raise NoFiguresError("the run has neither a case of Savina nor one of growth: nothing to draw")
    return drawn


def _savina(plot: Any, figures: Figures, rows: list[Row]) -> Any:
    systems = [system for system in figures.present(rows) if system not in UNSHOWN]
    picture, axes = plot.subplots(figsize=(10.5, 1.6 + 0.42 * len(rows)))
    places = range(len(rows))
    for place, row in zip(places, rows, strict=True):
        rates = [rate for system in systems if (rate := row.rate(system)) is not None]
        axes.plot([min(rates), max(rates)], [place, place], color=PALE, linewidth=1.2, zorder=1)
    for number, system in enumerate(systems):
        points = [
            (rate, place)
            for place, row in zip(places, rows, strict=True)
            if (rate := row.rate(system)) is not None
        ]
        _scatter(axes, points, system, figures.headings[system], 10 - number / 100)
    axes.set_yticks(places, [f"{row.title}  ({row.savina})" for row in rows])
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_xscale("log")
    axes.set_xlabel("operations a second, on a log scale: further right is faster", color=GREY)
    return _finish(picture, axes, figures, "Savina: actors on one machine, message for message", "x")


def _growth(plot: Any, figures: Figures, rows: list[Row]) -> Any:
    rows = sorted(rows, key=lambda row: _actors(row) or 0)
    systems = [system for system in figures.present(rows) if system not in UNSHOWN]
    picture, axes = plot.subplots(figsize=(10.5, 5))
    axes.set_xscale("log")
    axes.set_yscale("log")
    for number, system in enumerate(systems):
        colour, _ = _style(system)
        points = [(_actors(row), row.values[system]) for row in rows if system in row.values]
        is_ours = system == "compiled"
        axes.plot(*zip(*points, strict=True), color=colour, linewidth=2.2 if is_ours else 1.1, zorder=3)
        _scatter(axes, points, system, figures.headings[system], 10 - number / 100)
    axes.set_xlabel("actors that are alive", color=GREY)
    axes.set_ylabel("nanoseconds a message: lower is faster", color=GREY)
    return _finish(picture, axes, figures, "What a message costs, the more actors there are", "both")


def _scatter(axes: Any, points: list[tuple[Any, Any]], system: str, label: str, order: float) -> None:
    colour, marker = _style(system)
    is_line = marker in {"|", "x"}
    axes.scatter(
        *zip(*points, strict=True),
        label=label,
        marker=marker,
        s={"compiled": 95, "erlang": 95, "limit": 130}.get(system, 50),
        color=colour,
        linewidths=1.8 if is_line else 0.7,
        # A rim of paper keeps marks apart that lie on each other.
        **({} if is_line else {"edgecolors": "white"}),
        zorder=order + (1 if system == "compiled" else 0),
    )


def _finish(picture: Any, axes: Any, figures: Figures, title: str, grid: str) -> Any:
    axes.grid(visible=True, axis=grid, which="major", color=PALE, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(which="both", length=0)
    axes.minorticks_off()
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    short = import_module("matplotlib.ticker").FuncFormatter(_tick)
    axes.xaxis.set_major_formatter(short)
    if axes.get_yscale() == "log":
        axes.yaxis.set_major_formatter(short)
    # Everything begins where the labels do, which is known only when they are laid out.
    picture.canvas.draw()
    extent = axes.get_tightbbox().transformed(picture.transFigure.inverted())
    left, inch = extent.x0, 1 / picture.get_figheight()
    handles, labels = axes.get_legend_handles_labels()
    lines = -(-len(labels) // COLUMNS)
    top = extent.y1 + 0.12 * inch
    picture.legend(
        *(handles, labels),
        loc="lower left",
        bbox_to_anchor=(left, top),
        ncols=min(len(labels), COLUMNS),
        frameon=False,
        handletextpad=0.2,
        columnspacing=1.4,
        borderpad=0,
        borderaxespad=0,
    )
    above = top + (0.22 + 0.21 * lines) * inch
    picture.text(left, above, title, fontsize=14, fontweight="bold", ha="left", va="bottom")
    below = extent.y0 - 0.15 * inch
    text = fill(caption(figures), 165)
    picture.text(left, below, text, fontsize=7.5, color=GREY, ha="left", va="top", linespacing=1.5)
    return picture


def caption(figures: Figures) -> str:
    """Say where, with what and how it was measured."""
    machine = figures.machine
    versions = ", ".join(f"{name} {version}" for name, version in figures.versions.items())
    rounds = "1 round" if figures.rounds == 1 else f"the best of {figures.rounds} rounds"
    return (
        f"{machine['machine']}; {machine['python']}; bandstand {machine['bandstand']} on {machine['host']}; {versions}. "
        f"Measured in one run by `{figures.command}`, {rounds}, each mark in a process of its own, {scale.reads(figures.scale)}; "
        f"every result checked."
    )


def _tick(number: float, _place: object) -> str:
    return re.sub(r"\.0+(?=\D|$)", "", figure.rate(number))


def _style(system: str) -> tuple[str, str]:
    return STYLES.get(system) or SPARE[sum(map(ord, system)) % len(SPARE)]


def _actors(row: Row) -> int | None:
    """How many actors a case of growth has, by its name; None where it is none."""
    _, found, number = row.name.partition(GROWTH)
    try:
        return int(float(number)) if found else None
    except ValueError:
        return None


def _elsewhere(arguments: list[str]) -> int:
    """Have the peers' Python draw; it has matplotlib where `make bench` could install it."""
    has_it = [str(PYTHON), "-c", "import matplotlib"]
    if not PYTHON.exists() or subprocess.run(has_it, capture_output=True, check=False).returncode:
        print(
            "bench.chart: matplotlib is not installed; `python tools/environment.py --peers` puts it into .venvs/bench",
            file=sys.stderr,
        )
        return 1
    return subprocess.run([str(PYTHON), "-m", "bench.chart", *arguments], check=False).returncode


def main(arguments: list[str] | None = None) -> int:
    parser = ArgumentParser(
        prog="python -m bench.chart", description=__doc__, formatter_class=RawDescriptionHelpFormatter
    )
    parser.add_argument("json", type=Path, help="what `python -m bench --json` has written")
    parser.add_argument("folder", type=Path, help="where the charts go")
    options = parser.parse_args(arguments)
    try:
        figures = load(options.json)
        if find_spec("matplotlib") is None:
            return _elsewhere([str(options.json), str(options.folder)])
        drawn = draw(figures, options.folder)
    except NoFiguresError as error:
        print(f"bench.chart: {error}", file=sys.stderr)
        return 1
    print("\n".join(map(str, drawn)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
