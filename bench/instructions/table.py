"""What was counted, as text for people and as JSON for programs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bench.instructions.counter import Count
from bench.instructions.profile import Line, per_operation
from bench.instructions.site import Site
from bench.instructions.verdict import Comparison, Verdict
from bench.instructions.workload import YARDSTICK, by_name


def render(compared: Comparison) -> str:
    """The table of all figures, and what is to be done about them."""
    return "\n".join([*_rows(compared.verdicts), "", *_sentences(compared)])


def _rows(verdicts: Sequence[Verdict]) -> Iterator[str]:
    limit = next((verdict.figure for verdict in verdicts if verdict.name == YARDSTICK), None)
    yield f"{'instructions an operation':<28}{'now':>9}  {'× limit':>7}  {'recorded':>9}  {'change':>7}"
    for verdict in verdicts:
        times = f"{verdict.figure / limit:.2f}" if limit else "-"
        before = "-" if verdict.recorded is None else f"{verdict.recorded:,.0f}"
        change = "-" if verdict.change is None else f"{verdict.change:+.1%}"
        word = "" if verdict.word == "ok" else f"  {verdict.word.upper()}"
        yield f"  {verdict.name:<26}{verdict.figure:>9,.0f}  {times:>7}  {before:>9}  {change:>7}{word}"


def _sentences(compared: Comparison) -> Iterator[str]:
    if compared.beside is None:
        yield "Nothing is recorded yet: --record does it."
        return
    if not compared.is_known:
        yield (
            "Nothing is recorded for this Python, these compilers and libraries: compared are the ratios to `limit`, "
            f"with those of {', '.join(compared.beside.site.values())}."
        )
    if worse := compared.having("worse"):
        yield f"Worse than the margin allows: {_names(worse)}. --show NAME says where the instructions go."
    if better := compared.having("better"):
        yield f"Better by more than the margin: {_names(better)}. Record it (--record), or it can be lost again unseen."
    if unrecorded := compared.having("unrecorded"):
        names = ", ".join(verdict.name for verdict in unrecorded)
        yield f"Not recorded, so not compared: {names}. --record does it."
    if not worse:
        yield "No workload takes more than it may."


def _names(verdicts: Sequence[Verdict]) -> str:
    return ", ".join(f"{verdict.name} ({verdict.margin:.0%})" for verdict in verdicts)


def as_json(compared: Comparison, site: Site) -> dict[str, object]:
    beside = compared.beside
    return {
        "site": dict(site),
        "beside": None if beside is None else dict(beside.site),
        "is_known": compared.is_known,
        "workloads": {
            verdict.name: {
                "what": by_name(verdict.name).what,
                "figure": verdict.figure,
                "recorded": verdict.recorded,
                "change": verdict.change,
                "margin": verdict.margin,
                "verdict": verdict.word,
            }
            for verdict in compared.verdicts
        },
    }


def functions(count: Count, top: int) -> str:
    """Where the instructions of one operation go: by what functions take themselves, then with those they call."""
    lines = per_operation(count.shorter, count.longer, count.workload.size)
    with_callees = sorted(lines, key=lambda line: -line.inclusive)
    return "\n".join(
        [
            f"{count.workload.name}: {count.figure:,.1f} instructions an operation ({count.workload.what})",
            "",
            "by themselves",
            *_lines(lines[:top], count.figure),
            "",
            "with what they call (a recursion counts each time it goes round)",
            *_lines(with_callees[:top], count.figure),
        ]
    )


def _lines(lines: Sequence[Line], figure: float) -> Iterator[str]:
    yield f"{'own':>9} {'of all':>6} {'inclusive':>10} {'calls':>7}  function"
    for line in lines:
        yield f"{line.own:>9.1f} {line.own / figure:>6.1%} {line.inclusive:>10.1f} {line.calls:>7.2f}  {line.name}"
