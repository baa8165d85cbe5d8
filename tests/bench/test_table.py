"""What becomes of figures: verdicts on their targets, and the table that shows both."""

from __future__ import annotations

import pytest

from bench.case import Case, Outcome, Setting, Size
from bench.report import Report
from bench.runner import Cell
from bench.table import render
from bench.target import Target, ahead_of, at_most, at_rate, times_limit

MACHINE: dict[str, str] = dict.fromkeys(
    ("machine", "load", "python", "bandstand", "cython", "uvloop", "host"), "x"
)


def nothing(setting: Setting) -> Outcome:
    return Outcome(total=setting.size, operations=1, sent=1, handled=1)


def report_of(case: Case, *, is_quick: bool = False, **values: float) -> Report:
    cells = {(case.name, system): Cell([{"value": value}]) for system, value in values.items()}
    return Report([case], cells, {}, MACHINE, 5, is_quick)


def case_with(target: object) -> Case:
    size = Size(1, 1, 1)
    return Case(name="x", title="the x", what="x", size=size, measures={"limit": nothing}, target=target)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("target", "compiled", "verdict"),
    [
        (times_limit(1.5), 150.0, "met"),
        (times_limit(1.5), 150.1, "missed"),
        (at_most(300, "ns"), 300.0, "met"),
        (at_most(300, "ns"), 301.0, "missed"),
        (None, 1.0, None),
    ],
)
def test_verdicts(target: object, compiled: float, verdict: str | None) -> None:
    case = case_with(target)
    report = report_of(case, limit=100.0, compiled=compiled, interpreted=1.0)
    assert report.verdict(case, "compiled") == verdict
    assert report.ratio(case, "compiled") == compiled / 100
    assert (verdict or "") in render(report)


@pytest.mark.parametrize(
    ("target", "figures", "verdict"),
    [
        (times_limit(2.5), {"typed": 250.0}, "met"),
        (times_limit(2.5), {"typed": 250.1}, "missed"),
        (at_most(900, "ns", ahead_of="erlang"), {"typed": 900.0, "erlang": 901.0}, "met"),
        (at_most(900, "ns", ahead_of="erlang"), {"typed": 900.0, "erlang": 900.0}, "missed"),
        (at_most(900, "ns", ahead_of="erlang"), {"typed": 901.0, "erlang": 999.0}, "missed"),
        (at_most(900, "ns", ahead_of="erlang"), {"typed": 900.0}, "met"),
        (ahead_of("erlang"), {"typed": 1.0, "erlang": 1.1}, "met"),
        (ahead_of("erlang"), {"typed": 1.0, "erlang": 1.0}, "missed"),
        (ahead_of("erlang"), {"typed": 1.0}, None),
    ],
)
def test_typed_actors_have_a_verdict_of_their_own(
    target: Target, figures: dict[str, float], verdict: str | None
) -> None:
    case = Case(
        name="x",
        title="the x",
        what="x",
        size=Size(1, 1, 1),
        measures={"limit": nothing},
        typed_target=target,
    )
    report = report_of(case, is_quick=False, limit=100.0, compiled=1.0, **figures)
    assert report.verdict(case, "typed") == verdict
    assert report.verdict(case, "compiled") is None
    row = next(line for line in render(report).splitlines() if line.startswith("the x"))
    assert target.reads() in row
    assert row.endswith(verdict or target.reads())


@pytest.mark.parametrize(
    ("figures", "verdict"),
    [
        ({"bus": 500.0, "echo": 200.0, "uvicorn": 5000.0}, "met"),
        ({"bus": 500.1, "echo": 200.0, "uvicorn": 9999.0}, "missed"),
        ({"bus": 500.0, "echo": 200.0, "uvicorn": 4999.0}, "missed"),
        ({"bus": 500.0, "echo": 200.0}, "met"),
        ({"bus": 500.0}, None),
    ],
)
def test_the_bus_is_judged_by_the_rates_of_its_peers(figures: dict[str, float], verdict: str | None) -> None:
    case = Case(
        name="x",
        title="the x",
        what="x",
        size=Size(1, 1, 1),
        measures={"bus": nothing},
        target=at_rate(echo=0.4, uvicorn=10),
    )
    report = report_of(case, is_quick=False, **figures)
    assert report.verdict(case, "bus") == verdict
    (row,) = [line for line in render(report).splitlines() if line.startswith("the x")]
    assert "≥ 0.4 × echo's rate, ≥ 10 × uvicorn's rate" in row
    assert row.endswith(verdict or "rate")
    assert f"{1e9 / figures['bus']:,.0f}" in row
    assert "typed target" not in render(report)


def test_a_bound_of_the_run_itself_comes_before_the_target() -> None:
    case = case_with(None)
    report = report_of(case, limit=1.0, compiled=2.31)
    assert report.verdict(case, "compiled") is None
    for bound, verdict in ((2.311, "met"), (2.301, "missed")):
        report.cells["x", "compiled"].readings[0]["bound"] = bound
        assert report.verdict(case, "compiled") == verdict
    assert "≤ 2.3 ns" in render(report)


def test_no_verdict_on_tiny_sizes_nor_without_a_limit() -> None:
    case = case_with(times_limit(1.5))
    assert report_of(case, is_quick=True, limit=100.0, compiled=1.0).verdict(case, "compiled") is None
    assert report_of(case, compiled=1.0).verdict(case, "compiled") is None


def test_the_best_round_counts_unless_one_was_wrong() -> None:
    cell = Cell([{"value": 3.0}, {"value": 2.0}, {"value": 5.0}])
    assert cell.value == 2.0
    cell = Cell(cell.readings, "9 were sent and 8 handled")
    assert cell.value is None
    case = case_with(None)
    report = Report(
        [case], {("x", "limit"): cell}, {"uvloop": "uvloop is not installed"}, MACHINE, 5, is_quick=False
    )
    text = render(report)
    assert "FAILED: x on limit: 9 were sent and 8 handled" in text
    assert "Not measured: uvloop (uvloop is not installed)." in text
    assert "Every figure was checked" not in text
