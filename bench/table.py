"""The report as text for people: a caption, the tables, the ranking, and what stands behind them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bench import figure, ranking, scale
from bench.case import Case
from bench.report import JUDGED, Report, heading
from bench.system import SYSTEMS, Table, systems_of, table_of

TITLES: dict[Table, str] = {
    "channels": "channels",
    "pods": "pods",
    "bus": "the bus",
    "journal": "the journal",
    "persistence": "durable state",
}
"""The tables of one system of ours, whose rate is divided by that of each peer."""
SCALES = {
    "quick": "; --quick: tiny sizes, the figures mean nothing",
    "brief": "; --brief: a part of the cases, and few rounds",
    "full": "",
}


def render(report: Report) -> str:
    """Lay a report out in lines."""
    lines = [*_caption(report)]
    if cases := [case for case in report.cases if table_of(case) == "actors"]:
        lines += ["", *_grid(_rows(report, cases), words={0})]
        if targets := _target_rows(report, cases):
            lines += ["", *_grid(targets, words={0, 1, 6, 7})]
        if places := ranking.rank(report):
            lines += ["", *_grid(_ranking_rows(places), words={0})]
    for table, title in TITLES.items():
        if cases := [case for case in report.cases if table_of(case) == table]:
            rows = _rate_rows(report, cases, table, title)
            lines += ["", *_grid(rows, words={0, 1, len(rows[0]) - 2, len(rows[0]) - 1})]
    return "\n".join([*lines, "", *_legend(report)])


def _caption(report: Report) -> Iterator[str]:
    machine = report.machine
    yield "bandstand and its peers, side by side in one run: operations a second, and the ratio to bandstand; other figures with their unit"
    yield f"{machine['machine']}; load {machine['load']} before the run"
    yield (
        f"{machine['python']}, bandstand {machine['bandstand']}, Cython {machine['cython']}; "
        f"bandstand rides {machine['host']}"
    )
    if report.versions:
        yield "peers: " + ", ".join(f"{name} {version}" for name, version in report.versions.items())
    rounds = (
        "1 round" if report.rounds == 1 else f"best of {report.rounds} rounds (fewer where a row is long)"
    )
    yield f"{rounds}, each cell in a process of its own, {scale.reads(report.scale)}" + SCALES[report.scale]
    if report.is_partial:
        yield "INTERRUPTED: what had been measured until then, some of it in fewer rounds or not at all"


def _rows(report: Report, cases: Sequence[Case]) -> list[list[str]]:
    """The table of the actors; what nobody was measured on has no column."""
    systems = [
        system.name
        for system in systems_of("actors")
        if any(report.cell(case, system.name) for case in cases)
    ]
    rates = {
        (case.name, system): _rate(report, case, system)
        for case in cases
        for system in systems
        if case.unit == "ns"
    }
    rows = [["case", *map(heading, systems)]]
    for case in cases:
        row = [case.title]
        for system in systems:
            if case.unit != "ns":
                row.append(_figure(report, case, system, with_unit=True))
                continue
            text, ratio = rates[case.name, system]
            # Ratios stand below each other, whatever is before them.
            row.append(f"{text} {ratio:>5}" if ratio else text)
        rows.append(row)
    return rows


def _rate(report: Report, case: Case, system: str) -> tuple[str, str]:
    rate, ratio = report.rate(case, system), report.ratio(case, system)
    if rate is None:
        return _figure(report, case, system), ""
    return figure.rate(rate), "" if ratio is None else figure.ratio(ratio)


def _target_rows(report: Report, cases: Sequence[Case]) -> list[list[str]]:
    """What must be reached, what is, and what the two that it is measured by take; nothing where no case has a target."""
    rows = [["targets", "", "figure", "unit", "× limit", "Erlang", "target", ""]]
    for case in cases:
        for system in JUDGED["actors"]:
            target = report.target(case, system)
            if target is None or report.cell(case, system) is None:
                continue
            multiple = report.multiple(case, system)
            rows.append(
                [
                    case.title,
                    "typed" if system == "typed" else "raw",
                    _figure(report, case, system),
                    case.unit,
                    "" if multiple is None else figure.ratio(multiple),
                    _figure(report, case, "erlang"),
                    target.reads(),
                    report.verdict(case, system) or "",
                ]
            )
    return rows if len(rows) > 1 else []


def _ranking_rows(places: Sequence[ranking.Place]) -> list[list[str]]:
    rows = [["ranking", "× bandstand", "cases", "Savina alone", "cases"]]
    for place in places:
        savina = place.savina
        rows.append(
            [
                heading(place.system),
                figure.ratio(place.all.ratio),
                str(place.all.cases),
                figure.NONE if savina is None else figure.ratio(savina.ratio),
                figure.NONE if savina is None else str(savina.cases),
            ]
        )
    return rows


def _rate_rows(report: Report, cases: Sequence[Case], table: Table, title: str) -> list[list[str]]:
    systems = systems_of(table)
    (judged,) = JUDGED[table]
    peers = [system.name for system in systems if system.name != judged]
    header = [title, "unit", *(heading(system.name) for system in systems), "a second"]
    rows = [[*header, *(f"÷ {heading(peer)}" for peer in peers), "target", ""]]
    for case in cases:
        row = [case.title, case.unit, *(_figure(report, case, system.name) for system in systems)]
        ours = report.rate(case, judged)
        row.append("" if ours is None else f"{ours:,.0f}")
        for peer in peers:
            theirs = report.rate(case, peer)
            row.append("" if ours is None or theirs is None else figure.ratio(ours / theirs))
        target = report.target(case, judged)
        rows.append([*row, target.reads() if target else "", report.verdict(case, judged) or ""])
    return rows


def _figure(report: Report, case: Case, system: str, *, with_unit: bool = False) -> str:
    cell = report.cell(case, system)
    if cell is not None and cell.failure is not None:
        return "FAILED"
    if cell is None or cell.value is None:
        return figure.NONE
    return figure.value(cell.value, case.unit) if with_unit else figure.plain(cell.value, case.unit)


def _grid(rows: list[list[str]], words: set[int]) -> Iterator[str]:
    """Align the columns: words to the left, figures to the right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for number, row in enumerate(rows):
        texts = [
            text.ljust(width) if column in words else text.rjust(width)
            for column, (text, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield "  ".join(texts).rstrip()
        if number == 0:
            yield "-" * (sum(widths) + 2 * (len(widths) - 1))


def _legend(report: Report) -> Iterator[str]:
    """What the columns are, and what the numbers are not. Only what was measured is explained."""
    present = {name for _, name in report.cells}
    for system in SYSTEMS:
        if system.name in present:
            yield f"{heading(system.name)}: {system.what}."
    yield "Behind a rate stands its ratio to bandstand's (the raw loop's; typed actors' where the raw loop has no figure): above 1 is faster."
    yield "× limit: how many times as long as the plain Python loop; ÷: our rate divided by theirs."
    yield "Ranking: the geometric mean of those ratios over the cases that both have a figure for, each counting once. It is no prediction"
    yield "for a program, and two systems that were measured by other cases are not comparable by it. More: bench/__init__.py"
    if not report.failures:
        yield "Every figure was checked: all that was sent was handled."
    for name, refusal in report.refusals.items():
        yield f"Not measured: {heading(name)} ({refusal})."
    for (case, name), failure in report.failures.items():
        yield f"FAILED: {case} on {name}: {failure}"
