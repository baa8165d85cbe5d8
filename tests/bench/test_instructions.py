"""Counts of instructions: the arithmetic, what is said of a figure, and one workload that is really counted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.instructions import counter, record, table
from bench.instructions.__main__ import main
from bench.instructions.counter import Count, CountError, NotReadyError
from bench.instructions.profile import Profile, per_operation, read, readable
from bench.instructions.record import Record
from bench.instructions.verdict import WIDE_MARGIN, compare, judge
from bench.instructions.workload import MARGIN, WORKLOADS, YARDSTICK, Workload, by_name

ROOT = Path(__file__).resolve().parents[2]

HERE = {"architecture": "x86_64", "python": "CPython 3.11.7", "uvloop": "0.23"}
OTHER = {**HERE, "uvloop": "0.24"}
RECORDS = [Record(HERE, {"limit": 1000.0, "ask": 4000.0, "create": 9000.0})]

DUMP = """# callgrind format
version: 1
positions: line
events: Ir
summary: 130

ob=(1) /usr/bin/python
fl=(1) ceval.c
fn=(1) eval
16 40
+3 10
cfn=(2) __pyx_f_9bandstand_4core_3hot_4ring_4Ring_push
calls=5 100
+1 70
cfn=(1)
calls=2 16
* 25
fn=(2)
100 50
fi=(2) object.h
-5 20
fn=(3) eval'2
16 10
totals: 130
"""


# --- what callgrind wrote ---------------------------------------------------------------------------------------------


def test_a_dump_is_read_function_by_function() -> None:
    profile = read(DUMP)
    push = "__pyx_f_9bandstand_4core_3hot_4ring_4Ring_push"
    assert profile.total == 130
    # What is called is not one's own; what recurs is one function, and its own calls do not count twice.
    assert profile.own == {"eval": 60, push: 70}
    assert profile.inclusive == {"eval": 130, push: 70}
    assert profile.calls == {push: 5, "eval": 2}


def test_the_figure_is_what_n_more_operations_take_and_leaves_out_what_only_begins() -> None:
    shorter, longer = Profile(), Profile()
    for profile, times in ((shorter, 1), (longer, 2)):
        profile.own.update({"start": 500, "eval": 100 * times, "push": 300 * times})
        profile.inclusive.update({"start": 500, "eval": 400 * times, "push": 300 * times})
        profile.calls.update({"start": 1, "eval": 10 * times, "push": 20 * times})
    first, second = per_operation(shorter, longer, 10)
    assert (first.name, first.own, first.inclusive, first.calls) == ("push", 30, 30, 2)
    assert (second.name, second.own, second.inclusive, second.calls) == ("eval", 10, 40, 1)
    assert Count(Workload("x", "pingpong", "ping-pong", "raw", 10, "x"), shorter, longer).figure == 40


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("_PyEval_EvalFrameDefault", "_PyEval_EvalFrameDefault"),
        ("__Pyx_PyObject_Call", "__Pyx_PyObject_Call"),
        ("__pyx_f_9bandstand_4core_6kernel_6Kernel__visit", "core.kernel.Kernel._visit"),
        ("__pyx_f_9bandstand_4core_11timer_wheel_lowest_bit", "core.timer_wheel.lowest_bit"),
        # A running number stands before what Python calls: as long as the word or not.
        ("__pyx_pw_9bandstand_4core_4loop_4Loop_5send", "core.loop.Loop.send (called from Python)"),
        ("__pyx_pw_9bandstand_4core_4loop_4Loop_4send", "core.loop.Loop.send (called from Python)"),
        ("__pyx_pf_9bandstand_4core_4loop_4Loop_12send", "core.loop.Loop.send"),
        ("__pyx_tp_dealloc_9bandstand_4core_7mailbox_ActorCell", "core.mailbox.ActorCell.tp_dealloc"),
        ("__pyx_f_6uvloop_4loop_4Loop__on_idle", "uvloop.loop.Loop._on_idle"),
    ],
)
def test_names_of_cython_are_made_readable(name: str, shown: str) -> None:
    assert readable(name) == shown


# --- what is said of it -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("figure", "word"),
    [(1000.0, "ok"), (1100.0, "ok"), (1100.5, "worse"), (900.0, "ok"), (899.5, "better")],
)
def test_a_figure_may_move_by_the_margin(figure: float, word: str) -> None:
    judged = judge("ask", figure, 1000.0, 0.10)
    assert judged.word == word
    assert judged.change == pytest.approx(figure / 1000 - 1)


def test_at_a_known_site_a_regression_and_an_improvement_are_told() -> None:
    compared = compare({"limit": 1010.0, "ask": 4500.0, "create": 8000.0}, RECORDS, HERE)
    assert compared.is_known
    assert {each.margin for each in compared.verdicts} == {MARGIN}
    assert [each.word for each in compared.verdicts] == ["ok", "worse", "better"]
    text = table.render(compared)
    assert "Worse than the margin allows: ask (10%)." in text
    assert "Better by more than the margin: create (10%). Record it (--record)" in text
    assert "No workload" not in text


def test_at_an_unknown_site_the_ratio_to_the_yardstick_is_compared() -> None:
    # Everything takes twice as much there, the yardstick too; one workload takes more than that.
    compared = compare({"limit": 2000.0, "ask": 8000 * 1.34, "create": 18000 * 1.36}, RECORDS, OTHER)
    assert (compared.is_known, compared.beside) == (False, RECORDS[0])
    assert {each.margin for each in compared.verdicts} == {WIDE_MARGIN}
    assert [(each.word, each.recorded) for each in compared.verdicts] == [
        ("ok", 2000.0),
        ("ok", 8000.0),
        ("worse", 18000.0),
    ]
    text = table.render(compared)
    assert "compared are the ratios to `limit`, with those of x86_64, CPython 3.11.7, 0.23." in text


def test_recording_replaces_this_sites_figures_and_no_others(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    assert record.load(path) == []
    records = record.with_figures(RECORDS, HERE, {"ask": 3000.04})
    records = record.with_figures(records, OTHER, {"limit": 5.0})
    record.save(records, path)
    assert record.load(path) == [
        Record(HERE, {"limit": 1000.0, "ask": 3000.0, "create": 9000.0}),
        Record(OTHER, {"limit": 5.0}),
    ]


def test_every_workload_is_recorded_and_none_that_is_gone() -> None:
    names = [workload.name for workload in WORKLOADS]
    records = record.load()
    assert records
    for entry in records:
        assert sorted(entry.figures) == sorted(names)
        assert min(entry.figures.values()) > 0
        assert record.known_at(records, entry.site) is entry


def test_every_workload_finds_its_case() -> None:
    for workload in WORKLOADS:
        assert callable(workload.measure())
    assert by_name(YARDSTICK).kind == "limit"
    with pytest.raises(LookupError, match="no workload 'asks'; the workloads are limit, ping-pong"):
        by_name("asks")


# --- the program ------------------------------------------------------------------------------------------------------


def as_count(name: str, figure: int) -> Count:
    longer = Profile()
    longer.own["eval"] = figure * by_name(name).size
    return Count(by_name(name), Profile(), longer)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> tuple[list[dict[str, int]], list[list[str]]]:
    """The figures that are counted one time after the other, and what was counted. The last figures stay."""
    figures: list[dict[str, int]] = []
    names: list[list[str]] = []

    def count_all(workloads: list[Workload], _tell: object) -> dict[str, Count]:
        found = figures[min(len(names), len(figures) - 1)]
        names.append([each.name for each in workloads])
        return {each.name: as_count(each.name, found[each.name]) for each in workloads}

    monkeypatch.setattr(counter, "prepare", lambda: None)
    monkeypatch.setattr(counter, "count_all", count_all)
    monkeypatch.setattr("bench.instructions.site.here", lambda: HERE)
    monkeypatch.setattr(record, "load", lambda: RECORDS)
    return figures, names


@pytest.mark.parametrize(("ask", "code"), [(4000, 0), (4399, 0), (4401, 1)])
def test_the_program_ends_with_1_for_a_regression_alone(
    ask: int,
    code: int,
    counted: tuple[list[dict[str, int]], list[list[str]]],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = tmp_path / "counts.json"
    counted[0].append({"limit": 1000, "ask": ask, "create": 5000})
    assert main(["--workload", "ask", "--workload", "create", "--json", str(file)]) == code
    shown = capsys.readouterr().out
    assert ("WORSE" in shown) is (code == 1)
    assert "BETTER" in shown
    found = json.loads(file.read_text("utf-8"))
    assert found["is_known"] is True
    assert found["workloads"]["ask"]["figure"] == ask
    assert found["workloads"]["create"]["verdict"] == "better"


@pytest.mark.parametrize(("second", "code"), [(4000, 0), (4500, 1)])
def test_what_takes_too_much_is_counted_again_and_the_lower_count_holds(
    second: int,
    code: int,
    counted: tuple[list[dict[str, int]], list[list[str]]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    figures, names = counted
    figures += ({"limit": 1000, "ask": ask, "create": 5000} for ask in (6000, second))
    assert main(["--workload", "ask", "--workload", "create"]) == code
    assert names[1:] == [["ask"]]
    assert f"{second:,}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--show", "pingpong"), "no workload 'pingpong'; the workloads are limit, "),
        (("--workload", "x"), "no workload 'x'"),
        (("--top", "0"), "--top is 0: pass a number from 1 to 10000"),
        (("--json", "/nowhere/x.json"), "--json is '/nowhere/x.json': there is no such folder"),
    ],
)
def test_a_wrong_option_is_a_sentence_and_code_2(
    arguments: tuple[str, ...], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main([*arguments])
    assert caught.value.code == 2
    assert sentence in capsys.readouterr().err


@pytest.mark.once
@pytest.mark.slow
def test_a_workload_is_really_counted_and_twice_the_same_and_one_that_fails_is_no_figure() -> None:
    try:
        counter.prepare()
    except NotReadyError as error:
        pytest.skip(str(error))
    first, second = (counter.count(by_name("ping-pong")) for _ in range(2))
    assert first.figure == pytest.approx(second.figure, rel=MARGIN / 2)
    names = [line.name for line in per_operation(first.shorter, first.longer, first.workload.size)]
    # One message is sent and handled: the compiled functions that do it are called once each.
    assert "core.kernel.Kernel._visit" in names
    shown = table.functions(first, 10)
    assert "instructions an operation" in shown
    assert len(shown.splitlines()) == 2 + 2 * (2 + 10) + 1
    gone = Workload("gone", "pingpong", "ping-pong", "raw", 10, "x")
    with pytest.raises(CountError, match="gone ended with code 1: LookupError: no workload 'gone'"):
        counter.count(gone)
