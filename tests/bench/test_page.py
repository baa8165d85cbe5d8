"""What is made of a run's JSON: the figures in the pages, and the charts."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from bench import page
from bench.case import Case, Outcome, Setting, Size
from bench.figures import NoFiguresError, load
from bench.record import record
from bench.report import Report
from bench.runner import Cell
from bench.scale import Scale

ROOT = Path(__file__).resolve().parents[2]
MACHINE: dict[str, str] = dict.fromkeys(
    ("machine", "load", "python", "bandstand", "cython", "uvloop", "host"), "the machine"
)
VALUES: dict[str, dict[str, float]] = {
    "ping": {"limit": 100.0, "compiled": 200.0, "erlang": 400.0, "interpreted": 900.0},
    "growth-1e2": {"compiled": 200.0, "asyncio": 4_000.0},
    "growth-1e4": {"compiled": 250.0, "asyncio": 5_000.0},
    "room": {"compiled": 612.0},
}

Write = Callable[..., Path]


def nothing(setting: Setting) -> Outcome:
    return Outcome(total=setting.size, operations=1, sent=1, handled=1)


def case(name: str) -> Case:
    return Case(
        name=name,
        title=f"the {name}",
        what=name,
        size=Size(1, 1, 1),
        measures={"limit": nothing},
        unit="bytes" if name == "room" else "ns",
        savina=1 if name == "ping" else None,
    )


@pytest.fixture
def written(tmp_path: Path) -> Write:
    """Write a run's JSON."""

    def write(scale: Scale = "full", *, is_partial: bool = False, only: str | None = None) -> Path:
        names = [name for name in VALUES if only in {None, name}]
        report = Report(
            cases=[case(name) for name in names],
            cells={(name, who): Cell([{"value": v}]) for name in names for who, v in VALUES[name].items()},
            machine=MACHINE,
            versions={"Erlang/OTP": "25"},
            rounds=5,
            scale=scale,
            is_partial=is_partial,
        )
        path = tmp_path / "bench.json"
        path.write_text(json.dumps(record(report)), "utf-8")
        return path

    return write


# --- reading ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (None, "there is no .*`make bench` or `make bench-full` measures it"),
        ("", "is not what `python -m bench --json` writes"),
        ("[]", "is not what `python -m bench --json` writes"),
        ('{"machine": {}}', "is not what `python -m bench --json` writes .*versions"),
    ],
)
def test_what_is_no_run_is_refused(text: str | None, sentence: str, tmp_path: Path) -> None:
    path = tmp_path / "bench.json"
    if text is not None:
        path.write_text(text, "utf-8")
    with pytest.raises(NoFiguresError, match=sentence):
        load(path)


def test_figures_that_mean_nothing_are_refused(written: Write) -> None:
    with pytest.raises(NoFiguresError, match="--quick run"):
        load(written("quick"))
    with pytest.raises(NoFiguresError, match="interrupted"):
        load(written(is_partial=True))
    assert load(written("brief")).command == "make bench"
    assert load(written()).command == "make bench-full"


# --- the pages --------------------------------------------------------------------------------------------------------


def test_a_part_stands_between_its_marks_and_nothing_else_changes(written: Write) -> None:
    figures = load(written())
    text = "before\n<!-- bench:savina -->\nold\n<!-- /bench -->\nafter <!-- a remark -->\n"
    new = page.filled(text, figures)
    assert new == (
        "before\n<!-- bench:savina -->\n"
        "| | limit | bandstand | interpreted | Erlang |\n| --- | ---: | ---: | ---: | ---: |\n"
        "| the ping | 10.0M (2.00) | 5.00M (1.00) | 1.11M (0.22) | 2.50M (0.50) |\n"
        "<!-- /bench -->\nafter <!-- a remark -->\n"
    )
    assert page.filled(new, figures) == new


def test_every_part_says_what_the_run_says(written: Write) -> None:
    figures = load(written())
    said = {name: part(figures) for name, part in page.PARTS.items()}
    assert "the machine" in said["where"]
    assert "Erlang/OTP 25" in said["where"]
    assert "| the room | – | 612 B | – | – | – |" in said["costs"]
    assert "| the growth-1e4 | – | 250 ns | – | 5,000 ns | – |" in said["costs"]
    assert said["headline"].startswith("| | limit | bandstand | Erlang |\n")
    assert set(page.HEADLINE) < set(figures.headings), (
        "a column that nobody is measured for would be missed by nobody"
    )
    assert "| Erlang | 0.50 | 1 | 0.50 | 1 |" in said["ranking"]
    assert "| asyncio | 0.05 | 2 | – | 0 |" in said["ranking"]
    assert "of limit, bandstand, Erlang](charts/savina.svg)" in said["chart-savina"]
    assert "of bandstand, asyncio](charts/growth.svg)" in said["chart-growth"]
    mark = "<!-- bench:chart-savina -->\n<!-- /bench -->"
    assert "](docs/charts/savina.svg)" in page.filled(mark, figures, "docs/")
    bare = load(written(only="room"))
    assert page.savina(bare) == page.chart_savina(bare) == page.chart_growth(bare) == page.MISSING


def test_the_real_pages_have_marks_of_names_that_are_known() -> None:
    for name in page.PAGES:
        found = [found["name"] for found in page.MARK.finditer((ROOT / name).read_text("utf-8"))]
        assert found, name
        assert set(found) <= set(page.PARTS)


# --- the charts -------------------------------------------------------------------------------------------------------
