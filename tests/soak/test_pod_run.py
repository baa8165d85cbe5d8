"""A short run of pods, and the faults that it must find: each test breaks something on purpose."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bandstand.actor.enums import HELD
from bandstand.errors import PodDownError
from bandstand.pod import address_book
from bandstand.pod.address_book import RoleRef
from bandstand.pod.pod_runtime import PodRuntime
from bandstand.pod.status import PodStats
from tests.soak import pod_senders
from tests.soak.checks import unexpected_errors
from tests.soak.pod_record import MOST, ROLES, Count, Record
from tests.soak.pod_run import PodRun

REAL = "it needs threads of the machine"
LoopFactory = Callable[[], asyncio.AbstractEventLoop]


class ThreadsOnly(PodRun):
    """Threads only, a restart every few milliseconds, and senders of all kinds."""

    def __init__(self, loop_factory: LoopFactory) -> None:
        super().__init__("threads only", 1.0, loop_factory)
        self._has_no_processes, self._kills_processes, self._ends_by_failure = True, False, False
        self._pause, self._is_async = 0.01, True
        self._threads = [pod_senders.Thread(self, number) for number in range(3)]
        self._tasks = [pod_senders.Task(self, number) for number in range(3, 6)]


def found(run: PodRun) -> str:
    """Return the failures of a run as one text."""
    failures: list[str] = []
    with unexpected_errors(failures.append):
        run.play(failures.append)
    return "\n".join(failures)


@pytest.mark.slow
@pytest.mark.real_time(reason=REAL)
def test_a_run_without_faults_finds_none(loop_factory: LoopFactory) -> None:
    run = ThreadsOnly(loop_factory)
    assert found(run) == ""
    assert run.counts["starts"] > 10
    assert run.counts["ask_answered"] > 50


# --- faults that it must find -----------------------------------------------------------------------------------------


def deliver_twice(deliver: Any) -> Any:
    def twice(handle: Any, actor: Any, method: Any, data: Any, asked: Any, context: Any) -> int:
        if asked is None:
            deliver(handle, actor, method, data, asked, context)
        return int(deliver(handle, actor, method, data, asked, context))

    return twice


def refuse_and_deliver(hold: Any) -> Any:
    def lie(*arguments: Any) -> int:
        if hold(*arguments) == HELD:
            raise PodDownError("no")
        return HELD

    return lie


def count_dead_as_handled(stats: Any) -> Any:
    def without_dead(runtime: PodRuntime) -> PodStats:
        true = stats(runtime)
        counted: PodStats = replace(true, handled=true.handled + true.dead, dead=0)
        return counted

    return without_dead


def forget_dead(stats: Any) -> Any:
    def forgetful(runtime: PodRuntime) -> PodStats:
        counted: PodStats = replace(stats(runtime), dead=0)
        return counted

    return forgetful


OPENED: list[int] = []


def leave_descriptor(run: Any) -> Any:
    def leaky(runtime: PodRuntime) -> Any:
        OPENED.append(os.open(os.devnull, os.O_RDONLY))
        return run(runtime)

    return leaky


def swap_answers(settle: Any) -> Any:
    def swapped(sender: pod_senders.Sender, number: int, outcome: object) -> None:
        settle(sender, number + 1, outcome)

    return swapped


@pytest.mark.once
@pytest.mark.slow
@pytest.mark.real_time(reason=REAL)
@pytest.mark.parametrize(
    ("owner", "name", "fault", "sentence"),
    [
        (address_book, "deliver", deliver_twice, "which was begun before"),
        (RoleRef, "hold", refuse_and_deliver, "which was handled nevertheless"),
        (PodRuntime, "stats", count_dead_as_handled, "were accepted and not handled, and the counts are"),
        (PodRuntime, "stats", forget_dead, "the counts do not balance"),
        (PodRuntime, "run", leave_descriptor, "is still open (/dev/null)"),
        (pod_senders.Sender, "settle", swap_answers, "and was answered"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_it_finds_a_fault(
    owner: Any,
    name: str,
    fault: Callable[[Any], Any],
    sentence: str,
    loop_factory: LoopFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(owner, name, fault(getattr(owner, name)))
    text = found(ThreadsOnly(loop_factory))
    for fd in OPENED:
        os.close(fd)
    OPENED.clear()
    assert sentence in text


# --- the record -------------------------------------------------------------------------------------------------------


def test_a_record_finds_messages_out_of_order_and_repeated(tmp_path: Path) -> None:
    record = Record.create(str(tmp_path / "record"))
    record.begin(0, 3, 1, 0)
    record.begin(0, 3, 2, 0)
    # Another lane, another role, another source: each has an order of its own.
    record.begin(0, 3, 4, 1)
    record.begin(1, 3, 3, 0)
    record.begin(0, 15, MOST - 1, 0)
    assert record.complaints() == []
    record.begin(0, 3, 1, 0)
    assert record.complaints() == [
        f"{ROLES[0]} was given 3/1 after 3/2: out of order",
        f"{ROLES[0]} was given 3/1, which was begun before",
    ]
    assert record.count(Count.BEGUN) == 6
    assert [record.was_begun(3, number) for number in range(6)] == [False, True, True, True, True, False]
    record.close()


def test_a_record_is_shared_by_all_who_open_it(tmp_path: Path) -> None:
    here = Record.create(str(tmp_path / "record"))
    make, arguments = here.__reduce__()
    there = make(*arguments)
    there.begin(2, 7, 9, 1)
    there.complain("something")
    assert (here.was_begun(7, 9), here.count(Count.BEGUN), here.complaints()) == (True, 1, ["something"])
    assert there.home == os.getpid()
    here.close()
    there.close()
