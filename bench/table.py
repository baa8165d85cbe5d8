"""The report as text for people: a caption, one table, and what stands behind it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bench.case import Case
from bench.report import JUDGED, Report
from bench.system import Table, systems_of, table_of

HEADINGS = {
    "limit": "limit",
    "compiled": "bandstand",
    "typed": "typed",
    "interpreted": "interpreted",
    "asyncio": "asyncio",
    "uvloop": "uvloop",
    "pykka": "Pykka",
    "erlang": "Erlang",
    "channel": "channel",
    "Queue": "Queue",
    "anyio": "anyio",
    "pod": "pod",
    "queued": "queued",
    "one": "one",
    "bare": "bare",
    "mp.Queue": "mp.Queue",
    "Pykka": "Pykka",
    "Ray": "Ray",
    "bus": "bus",
    "echo": "echo",
    "uvicorn": "uvicorn",
}
WORDS: dict[Table, int] = {"actors": 4, "channels": 2, "pods": 2, "bus": 2}
"""How many of a table's last columns are words."""
TITLES: dict[Table, str] = {"channels": "channels", "pods": "pods", "bus": "the bus"}
"""The tables of rates."""


def render(report: Report) -> str:
    """Lay a report out in lines."""
    lines = [*_caption(report)]
    if cases := [case for case in report.cases if table_of(case) == "actors"]:
        lines += ["", *_grid(_rows(report, cases), WORDS["actors"])]
    for table, title in TITLES.items():
        if cases := [case for case in report.cases if table_of(case) == table]:
            lines += ["", *_grid(_rate_rows(report, cases, table, title), WORDS[table])]
    return "\n".join([*lines, "", *_legend(report)])


def _caption(report: Report) -> Iterator[str]:
    machine = report.machine
    yield "bandstand: raw loop, typed actors, pods and bus, side by side in one run; nanoseconds an operation unless the row says otherwise"
    yield f"{machine['machine']}; load {machine['load']} before the run"
    yield (
        f"{machine['python']}, bandstand {machine['bandstand']}, Cython {machine['cython']}, uvloop {machine['uvloop']}; "
        f"bandstand rides {machine['host']}"
    )
    rounds = (
        "1 round"
        if report.is_quick or report.rounds == 1
        else f"best of {report.rounds} rounds (fewer where a row is long)"
    )
    yield f"{rounds}, each cell in a process of its own" + (
        "; --quick: tiny sizes, the figures mean nothing" if report.is_quick else ""
    )


def _rows(report: Report, cases: Sequence[Case]) -> list[list[str]]:
    systems = systems_of("actors")
    header = ["case", "unit"]
    for system in systems:
        header.append(HEADINGS[system.name])
        if system.mode is not None:
            header.append("× limit")
    rows = [[*header, "target", "", "typed target", ""]]
    for case in cases:
        row = [case.title, case.unit]
        for system in systems:
            row.append(_figure(report, case, system.name))
            if system.mode is not None:
                ratio = report.ratio(case, system.name)
                row.append("" if ratio is None else f"{ratio:.2f}" if ratio < 10 else f"{ratio:.1f}")
        rows.append(row + _judged(report, case))
    return rows


def _rate_rows(report: Report, cases: Sequence[Case], table: Table, title: str) -> list[list[str]]:
    """A table of one system of ours, whose rate is divided by that of each peer."""
    systems = systems_of(table)
    (judged,) = JUDGED[table]
    peers = [system.name for system in systems if system.name != judged]
    header = [title, "unit", *(HEADINGS[system.name] for system in systems), "a second"]
    rows = [[*header, *(f"÷ {HEADINGS[peer]}" for peer in peers), "target", ""]]
    for case in cases:
        row = [case.title, case.unit, *(_figure(report, case, system.name) for system in systems)]
        ours = report.rate(case, judged)
        row.append("" if ours is None else f"{ours:,.0f}")
        for peer in peers:
            theirs = report.rate(case, peer)
            row.append("" if ours is None or theirs is None else f"{ours / theirs:.2f}")
        rows.append(row + _judged(report, case))
    return rows


def _judged(report: Report, case: Case) -> list[str]:
    """What each column that is judged must reach, and whether it does."""
    texts: list[str] = []
    for judged in JUDGED[table_of(case)]:
        target = report.target(case, judged)
        texts += [target.reads() if target else "", report.verdict(case, judged) or ""]
    return texts


def _figure(report: Report, case: Case, system: str) -> str:
    cell = report.cell(case, system)
    if cell is None:
        return "–"
    if cell.value is None:
        return "FAILED"
    return f"{cell.value:.2f}" if case.unit == "ms" else f"{cell.value:,.0f}"


def _grid(rows: list[list[str]], last: int) -> Iterator[str]:
    """Align the columns: words to the left, figures to the right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    words = {0, 1, *range(len(widths) - last, len(widths))}
    for number, row in enumerate(rows):
        texts = [
            text.ljust(width) if column in words else text.rjust(width)
            for column, (text, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield "  ".join(texts).rstrip()
        if number == 0:
            yield "-" * (sum(widths) + 2 * (len(widths) - 1))


def _legend(report: Report) -> Iterator[str]:
    yield "limit: a plain Python loop over a deque, the same handlers. bandstand: compiled; interpreted: BANDSTAND_PURE=1."
    yield "typed: classes and handles on the compiled loop. Pykka: a thread for each actor, asked and told by its reference."
    yield "asyncio, uvloop: a task with an asyncio.Queue for each actor. What is comparable and what is not: bench/__init__.py"
    yield "channel, Queue, anyio: one task sends and another receives; ÷ Queue, ÷ anyio: our rate divided by theirs."
    yield "pod: actors of a troupe; queued: never called directly; one: on one process instead of two; ÷: our rate divided by theirs."
    yield "bare: a deque, a queue.Queue between threads, a pair of sockets between processes; medians are in the rows that say so."
    yield "bus: a node behind a Unix socket, its caller in another process; ÷ echo, ÷ uvicorn: its rate divided by theirs."
    yield "echo: a bare asyncio.Protocol with msgspec and joined writes on the same event loop; uvicorn: Starlette, JSON over HTTP."
    if not report.failures:
        yield "Every figure was checked: all that was sent was handled."
    for system, refusal in report.refusals.items():
        yield f"Not measured: {system} ({refusal})."
    for (case, system), failure in report.failures.items():
        yield f"FAILED: {case} on {system}: {failure}"
