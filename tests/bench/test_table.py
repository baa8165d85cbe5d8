"""What becomes of figures: verdicts on their targets, and the table that shows both."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from bench import figure, ranking
from bench.case import Case, Outcome, Setting, Size
from bench.report import Report
from bench.runner import Cell
from bench.scale import Scale
from bench.table import render
from bench.target import at_most, at_rate, times_limit

MACHINE: dict[str, str] = dict.fromkeys(
    ("machine", "load", "python", "bandstand", "cython", "uvloop", "host"), "x"
)


def nothing(setting: Setting) -> Outcome:
    return Outcome(total=setting.size, operations=1, sent=1, handled=1)


def report_of(case: Case, scale: Scale = "full", /, **values: float) -> Report:
    cells = {(case.name, system): Cell([{"value": value}]) for system, value in values.items()}
    return Report(cases=[case], cells=cells, machine=MACHINE, rounds=5, scale=scale)


def rows_of(report: Report, title: str = "the x") -> list[str]:
    return [line for line in render(report).splitlines() if line.startswith(title)]


def case_with(target: Any = None, **fields: Any) -> Case:
    fields = {"name": "x", "title": "the x", "measures": {"limit": nothing}, "target": target, **fields}
    return Case(what="x", size=Size(1, 1, 1), **fields)


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
    assert report.multiple(case, "compiled") == compiled / 100
    figure, *targets = rows_of(report)
    assert "met" not in figure
    assert "missed" not in figure
    assert [row.split()[-1] for row in targets] == ([] if verdict is None else [verdict])


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
    case = case_with(at_rate(echo=0.4, uvicorn=10), measures={"bus": nothing})
    report = report_of(case, **figures)
    assert report.verdict(case, "bus") == verdict
    (row,) = rows_of(report)
    assert "≥ 0.4 × echo's rate, ≥ 10 × uvicorn's rate" in row
    assert row.endswith(verdict or "rate")
    assert f"{1e9 / figures['bus']:,.0f}" in row
    assert "targets" not in render(report)


def test_a_bound_of_the_run_itself_comes_before_the_target() -> None:
    case = case_with()
    report = report_of(case, limit=1.0, compiled=2.31)
    assert report.verdict(case, "compiled") is None
    for bound, verdict in ((2.311, "met"), (2.301, "missed")):
        report.cells["x", "compiled"].readings[0]["bound"] = bound
        assert report.verdict(case, "compiled") == verdict
    assert "≤ 2.3 ns" in render(report)


def test_the_best_round_counts_unless_one_was_wrong() -> None:
    cell = Cell([{"value": 3.0}, {"value": 2.0}, {"value": 5.0}])
    assert cell.value == 2.0
    cell = Cell(cell.readings, "9 were sent and 8 handled")
    assert cell.value is None
    refusals = {"uvloop": "uvloop is not installed"}
    report = Report(
        cases=[case_with()], cells={("x", "limit"): cell}, machine=MACHINE, rounds=5, refusals=refusals
    )
    text = render(report)
    assert "FAILED: x on limit: 9 were sent and 8 handled" in text
    assert "Not measured: uvloop (uvloop is not installed)." in text
    assert "Every figure was checked" not in text


# --- how figures are written ------------------------------------------------------------------------------------------


def test_figures_are_written_with_three_digits_or_a_unit() -> None:
    rates = {4_710_000: "4.71M", 152_300: "152k", 15_230: "15.2k", 1_523: "1.52k", 98.23: "98.2"}
    rates |= {9.996: "10.0", 999.4: "999", 999.6: "1.00k", 999_600: "1.00M", 2.5e9: "2.50G"}
    assert {number: figure.rate(number) for number in rates} == rates
    # A small ratio still says something.
    ratios = {1.0: "1.00", 0.031: "0.03", 0.0042: "0.004", 12.34: "12.3", 123.4: "123", 9.996: "10.0"}
    assert {times: figure.ratio(times) for times in ratios} == ratios
    values = {("bytes", 1024.4): "1,024 B", ("ms", 2.314): "2.31 ms", ("ns", 12_345.6): "12,346 ns"}
    assert {(unit, amount): figure.value(amount, unit) for unit, amount in values} == values
    assert figure.value(3.14, "ns") == "3.1 ns"


# --- the table --------------------------------------------------------------------------------------------------------


def test_a_cell_is_a_rate_and_its_ratio_to_bandstand() -> None:
    report = report_of(case_with(), compiled=200.0, typed=400.0, asyncio=6_500.0, erlang=100.0)
    (row,) = rows_of(report)
    assert row.split() == ["the", "x", "5.00M", "1.00", "2.50M", "0.50", "154k", "0.03", "10.0M", "2.00"]
    (header,) = rows_of(report, "case")
    assert header.split() == ["case", "bandstand", "typed", "asyncio", "Erlang"]
    # Typed actors are the measure where the raw loop has no figure.
    (row,) = rows_of(report_of(case_with(), typed=400.0, asyncio=800.0))
    assert row.split() == ["the", "x", "2.50M", "1.00", "1.25M", "0.50"]


# --- the ranking ------------------------------------------------------------------------------------------------------


def test_the_ranking_is_the_geometric_mean_over_the_cases_that_both_have() -> None:
    cases = [
        replace(case_with(), name=name, title=name, savina=savina)
        for name, savina in (("a", 1), ("b", 2), ("c", None), ("d", None))
    ]
    values = {
        "a": {"compiled": 100.0, "typed": 200.0, "asyncio": 1_000.0},
        "b": {"compiled": 100.0, "asyncio": 4_000.0, "erlang": 50.0},
        "c": {"compiled": 100.0, "typed": 800.0, "erlang": 800.0},
        "d": {"typed": 100.0, "asyncio": 100.0},
    }
    cells = {
        (name, system): Cell([{"value": value}])
        for name, row in values.items()
        for system, value in row.items()
    }
    report = Report(cases=cases, cells=cells, machine=MACHINE, rounds=1)
    found = {place.system: place for place in ranking.rank(report)}
    assert list(found) == ["compiled", "erlang", "typed", "asyncio"]
    ratios = {system: place.all.ratio for system, place in found.items()}
    # Typed actors are not compared with themselves, where they are what is divided by.
    assert ratios == pytest.approx(
        {"compiled": 1.0, "erlang": 0.5, "typed": 0.25, "asyncio": (0.1 * 0.025 * 1.0) ** (1 / 3)}
    )
    assert [place.all.cases for place in found.values()] == [3, 2, 2, 3]
    savina = {system: place.savina.ratio for system, place in found.items() if place.savina}
    assert savina == pytest.approx({"compiled": 1.0, "erlang": 2.0, "typed": 0.5, "asyncio": 0.05})
    assert [place.savina.cases for place in found.values() if place.savina] == [2, 1, 1, 2]
    (row,) = [line for line in rows_of(report, "Erlang") if ":" not in line]
    assert row.split() == ["Erlang", "0.50", "2", "2.00", "1"]


# --- JSON -------------------------------------------------------------------------------------------------------------
