"""The report as JSON: everything that is known of a run, for programs, for the chart and for the page."""

from __future__ import annotations

from typing import Any

from bench import ranking
from bench.case import Case
from bench.report import JUDGED, Report, heading
from bench.system import SYSTEMS, systems_of, table_of


def record(report: Report) -> dict[str, Any]:
    """Say all of it: rates, ratios, ranking, every round's reading, the machine, the versions."""
    return {
        "machine": dict(report.machine),
        "versions": dict(report.versions),
        "rounds": report.rounds,
        "scale": report.scale,
        "partial": report.is_partial,
        "systems": [
            {
                "name": system.name,
                "heading": heading(system.name),
                "what": system.what,
                "table": system.table,
                "refusal": report.refusals.get(system.name),
            }
            for system in SYSTEMS
        ],
        "ranking": [place.as_json() for place in ranking.rank(report)],
        "cases": [_case(report, case) for case in report.cases],
        "failures": [
            {"case": case, "system": system, "failure": failure}
            for (case, system), failure in report.failures.items()
        ],
    }


def _case(report: Report, case: Case) -> dict[str, Any]:
    table = table_of(case)
    return {
        "name": case.name,
        "title": case.title,
        "what": case.what,
        "savina": case.savina,
        "unit": case.unit,
        "table": table,
        "baseline": report.baseline(case),
        "targets": {system: _target(report, case, system) for system in JUDGED[table]},
        "cells": {system.name: _cell(report, case, system.name) for system in systems_of(table)},
    }


def _target(report: Report, case: Case, system: str) -> dict[str, Any] | None:
    target = report.target(case, system)
    if target is None:
        return None
    return {
        "reads": target.reads(),
        "most": target.most,
        "unit": target.unit,
        "ahead_of": target.rival,
        "rates": dict(target.rates),
        "verdict": report.verdict(case, system),
    }


def _cell(report: Report, case: Case, system: str) -> dict[str, Any] | None:
    cell = report.cell(case, system)
    if cell is None:
        return None
    return {
        "value": cell.value,
        "rate": report.rate(case, system),
        "ratio": report.ratio(case, system),
        "multiple": report.multiple(case, system),
        "is_checked": cell.best is not None,
        "failure": cell.failure,
        "best": cell.best,
        "readings": cell.readings,
    }
