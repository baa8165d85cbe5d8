"""Put a run's figures into the pages that show them, between the marks that are there for them.

    python -m bench.page build/bench.json            docs/performance.md and README.md
    python -m bench.page build/bench.json --check    write nothing; fail if a page does not say what the run says

A mark is `<!-- bench:NAME -->`, and what belongs to it ends with `<!-- /bench -->`; the names are those of `PARTS`. So a page never shows a figure
that somebody typed. Ends with 0; with 1 and a sentence where there are no figures, or no such mark; with 2 for a wrong option.
"""

from __future__ import annotations

import re
import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Callable, Container, Sequence
from pathlib import Path

from bench import figure
from bench.chart import GROWTH, caption
from bench.figures import Figures, NoFiguresError, Row, load

ROOT = Path(__file__).resolve().parent.parent
PAGES = ("docs/performance.md", "README.md")
MISSING = "*The last run measured none of these.*"
CHARTS = "charts"
"""Where in docs `bench.chart` draws them."""
UNSHOWN = {"interpreted"}
"""In the table of the cases, but in no chart's words."""
HEADLINE = ("limit", "compiled", "typed", "uvloop", "pykka-1", "thespian", "xoscar", "erlang")
"""For whoever looks only once: each system in the way that is best on the whole on one core, which is what bandstand has. The others are on the page."""
MARK = re.compile(r"(?P<begin><!-- bench:(?P<name>[\w-]+) -->\n).*?(?P<end><!-- /bench -->)", re.DOTALL)


def where(figures: Figures) -> str:
    """Where, with what and how it was measured."""
    return caption(figures)


def costs(figures: Figures) -> str:
    """Every case with actors: what each system takes for it, in nanoseconds or the unit of the row."""
    return _grid(figures, figures.actors, _cost)


def savina(figures: Figures) -> str:
    """Operations a second in Savina's cases, and the ratio to bandstand."""
    return _grid(figures, figures.savina, _rate)


def headline(figures: Figures) -> str:
    """The same for whoever looks only once: as many columns as can be read."""
    return _grid(figures, figures.savina, _rate, HEADLINE)


def ranking(figures: Figures) -> str:
    """The systems by the geometric mean of their ratios."""
    rows = [["", "× bandstand", "cases", "Savina alone", "cases"]]
    for place in figures.ranking:
        savina = place["savina_ratio"]
        rows.append(
            [
                figures.headings[place["system"]],
                figure.ratio(place["ratio"]),
                str(place["cases"]),
                figure.NONE if savina is None else figure.ratio(savina),
                str(place["savina_cases"]),
            ]
        )
    return _table(rows)


def chart_savina(figures: Figures) -> str:
    """The chart of Savina's cases, with words for who cannot see it."""
    return _chart(
        figures, figures.savina, "savina", "Operations a second in Savina's cases, a mark for each of"
    )


def chart_growth(figures: Figures) -> str:
    """The chart of growth, likewise."""
    rows = [row for row in figures.actors if row.name.startswith(GROWTH)]
    return _chart(
        figures, rows, "growth", "What a message costs the more actors there are, a line for each of"
    )


def _chart(figures: Figures, rows: list[Row], name: str, what: str) -> str:
    if not rows:
        return MISSING
    shown = [figures.headings[system] for system in figures.present(rows) if system not in UNSHOWN]
    return f"![{what} {', '.join(shown)}]({CHARTS}/{name}.svg)"


PARTS: dict[str, Callable[[Figures], str]] = {
    "chart-savina": chart_savina,
    "chart-growth": chart_growth,
    "where": where,
    "costs": costs,
    "savina": savina,
    "headline": headline,
    "ranking": ranking,
}


def filled(text: str, figures: Figures, above: str = "") -> str:
    """Return a page with its figures in place; `above` leads from the page to the folder docs.

    Raises:
        NoFiguresError: it has no mark, or one of a name that nobody knows.
    """
    names = [found["name"] for found in MARK.finditer(text)]
    if not names:
        raise NoFiguresError("there is no <!-- bench:NAME --> with its <!-- /bench --> in it")
    if unknown := [name for name in names if name not in PARTS]:
        raise NoFiguresError(f"nothing is called {unknown[0]!r}; the parts are {', '.join(PARTS)}")

    def part(found: re.Match[str]) -> str:
        told = PARTS[found["name"]](figures).replace(f"({CHARTS}/", f"({above}{CHARTS}/")
        return f"{found['begin']}{told}\n{found['end']}"

    return MARK.sub(part, text)


def _rate(row: Row, system: str) -> str:
    rate, ratio = row.rate(system), row.ratios.get(system)
    if rate is None:
        return figure.NONE
    return figure.rate(rate) + ("" if ratio is None else f" ({figure.ratio(ratio)})")


def _cost(row: Row, system: str) -> str:
    value = row.values.get(system)
    return figure.NONE if value is None else figure.value(value, row.unit)


def _grid(
    figures: Figures, rows: list[Row], write: Callable[[Row, str], str], shown: Container[str] | None = None
) -> str:
    """A table of these rows, with a column for each system that has a figure; of those that are `shown`, if some are to be."""
    if not rows:
        return MISSING
    systems = [system for system in figures.present(rows) if shown is None or system in shown]
    header = ["", *(figures.headings[system] for system in systems)]
    return _table([header, *([row.title, *(write(row, system) for system in systems)] for row in rows)])


def _table(rows: Sequence[Sequence[str]]) -> str:
    header, *body = rows
    ruler = ["---", *("---:" for _ in header[1:])]
    return "\n".join(f"| {' | '.join(row)} |".replace("|  |", "| |") for row in (header, ruler, *body))


def main(arguments: list[str] | None = None, folder: Path = ROOT) -> int:
    parser = ArgumentParser(
        prog="python -m bench.page", description=__doc__, formatter_class=RawDescriptionHelpFormatter
    )
    parser.add_argument("json", type=Path, help="what `python -m bench --json` has written")
    parser.add_argument("--check", action="store_true", help="write nothing, only compare")
    options = parser.parse_args(arguments)
    stale: list[str] = []
    try:
        figures = load(options.json)
        for name in PAGES:
            page = folder / name
            text = page.read_text("utf-8")
            try:
                new = filled(text, figures, "" if name.startswith("docs/") else "docs/")
            except NoFiguresError as error:
                raise NoFiguresError(f"{name}: {error}") from None
            if new != text:
                stale.append(name)
                if not options.check:
                    page.write_text(new, "utf-8")
    except NoFiguresError as error:
        print(f"bench.page: {error}", file=sys.stderr)
        return 1
    for name in stale:
        print(f"{name}: {'is not what the run says' if options.check else 'written'}")
    return 1 if options.check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
