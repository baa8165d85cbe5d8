"""The pods' rows of the benchmark: who stands beside them, what they are judged by, and that a wrong result has no figure."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path

import pytest

from bandstand import _build_mode
from bandstand.actor import ask, tell
from bandstand.errors.validation import Seconds
from bandstand.pod import PodStats, Troupe, directory, pod
from bench import buffers, latency, pods, processes
from bench.case import Outcome, Setting, WrongResultError
from bench.cases import by_name, pods_inside, pods_work
from bench.report import Report
from bench.runner import Cell
from bench.system import by_name as system_by_name
from bench.table import render

ROOT = Path(__file__).resolve().parents[2]
REAL = "threads and processes of the machine are what is measured"
MACHINE: dict[str, str] = dict.fromkeys(
    ("machine", "load", "python", "bandstand", "cython", "uvloop", "host"), "x"
)
OURS = replace(system_by_name("pod"), mode=_build_mode.mode())


# --- verdicts ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "figures", "verdict"),
    [
        ("pods-process", {"pod": 2000.0, "mp.Queue": 10_000.0}, "met"),
        ("pods-process", {"pod": 2001.0, "mp.Queue": 10_000.0}, "missed"),
        ("pods-process", {"pod": 2001.0, "Ray": 10_000.0}, None),
        ("pods-process-ask", {"pod": 20_000.0, "bare": 10_000.0, "mp.Queue": 1.0}, "met"),
        ("pods-process-ask", {"pod": 20_001.0, "bare": 10_000.0}, "missed"),
        ("pods-buffer-1", {"pod": 999.0, "executor": 1000.0, "shared": 1.0}, "met"),
        ("pods-buffer-50", {"pod": 1001.0, "executor": 1000.0}, "missed"),
        ("pods-work", {"pod": 500.0, "one": 900.0}, "met"),
        ("pods-work", {"pod": 501.0, "one": 900.0}, "missed"),
        ("pods-inside", {"pod": 1.0, "bare": 1.0}, None),
    ],
)
def test_pods_are_judged_by_targets(name: str, figures: dict[str, float], verdict: str | None) -> None:
    case = by_name(name)
    cells = {(name, system): Cell([{"value": value}]) for system, value in figures.items()}
    report = Report(cases=[case], cells=cells, machine=MACHINE, rounds=5)
    assert report.verdict(case, "pod") == verdict
    (row,) = [line for line in render(report).splitlines() if line.startswith(case.title)]
    assert row.endswith(verdict) if verdict else "met" not in row


def test_a_median_is_the_figure_and_the_slow_ones_are_in_the_details() -> None:
    outcome = latency.outcome([5, 1, 3, 2, 900], 5)
    assert outcome.value == 3
    assert outcome.details == {"p50_ns": 3.0, "p99_ns": 900.0, "p999_ns": 900.0}
    many = latency.outcome([*range(2000, 0, -1)], 2000)
    assert many.details == {"p50_ns": 1001.0, "p99_ns": 1981.0, "p999_ns": 1999.0}
    assert latency.outcome([*range(1, 2001)], 2000, "p99_ns").value == 1981
    with pytest.raises(WrongResultError, match="5 were sent and 4 handled"):
        latency.outcome([5, 1, 3, 2, 900], 4).check()


# --- what is wrong has no figure --------------------------------------------------------------------------------------


somebodys: ContextVar[str] = ContextVar("somebodys")
LOG: list[str] = []
"""What was done, in its order."""


class Told(pods.Adder):
    @tell
    def add(self, one: int) -> None:
        LOG.append("handled")


class Telling(pods.Sender):
    @ask
    def burst(self) -> None:
        for _ in range(3):
            self._adder.add(1)
            LOG.append("sent")


class LoggingPod(Troupe):
    together = pod()
    adder = together.expose(Told)
    sender = together.of(Telling, directory(pods.Peers))
    conductor = together.expose(pods.Conductor, directory(pods.Crew))


@pytest.mark.real_time(reason=REAL)
def test_what_is_measured_inside_a_pod_are_direct_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    LOG.clear()
    somebodys.set("something")
    monkeypatch.setattr(pods, "OnePod", LoggingPod)
    # At its first message a handle finds out who is there: that burst may be queued.
    pods_inside.inside(Setting(2 * pods_inside.BURST))
    assert LOG[6:] == ["handled", "sent"] * 3
    assert pods.BURST == pods_inside.BURST


@pytest.mark.slow
@pytest.mark.real_time(reason=REAL)
def test_work_that_is_not_done_has_no_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    # What is expected here, and not what is done in the process.
    monkeypatch.setattr(pods, "piece", abs)
    with pytest.raises(WrongResultError, match="10 were sent and 0 handled"):
        pods_work.worked(Setting(10), is_alone=True).check()


@pytest.mark.real_time(reason=REAL)
def test_a_troupe_that_has_lost_something_has_no_figure() -> None:
    class Lost(pods.OnePod):
        def stats(self, *, timeout: Seconds = 0.5) -> PodStats:
            return replace(super().stats(timeout=timeout), dead=1)

    with (
        pytest.raises(WrongResultError, match=r"the message counts of Lost are PodStats\(.*dead=1"),
        pods.playing(Lost()),
    ):
        pass


# --- the peers --------------------------------------------------------------------------------------------------------


@pytest.mark.once
@pytest.mark.slow
@pytest.mark.parametrize("way", [processes.tell, processes.ask, processes.echo])
def test_the_standard_library_gives_every_message_once(way: Callable[[int], Outcome]) -> None:
    outcome = way(50)
    outcome.check()
    assert (outcome.sent, outcome.operations) == (50, 50)


@pytest.mark.parametrize(("answer", "is_whole"), [((3, b"abc", b"abd"), True), ((3, b"abc", b"abc"), False)])
def test_a_buffer_that_arrives_changed_has_no_figure(answer: buffers.Ends, is_whole: bool) -> None:
    buffers.timed(2, lambda: (3, b"abc", b"abc"), (3, b"abc", b"abc"), lambda: True).check()
    with pytest.raises(WrongResultError):
        buffers.timed(2, lambda: answer, (3, b"abc", b"abc"), lambda: is_whole).check()
