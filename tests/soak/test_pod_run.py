"""A short run of pods, and the faults that it must find: each test breaks something on purpose."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextvars import Context
from dataclasses import replace
from pathlib import Path

import pytest

from bandstand.actor.dispatch import Method
from bandstand.actor.enums import HELD
from bandstand.actor.handle import Handle, deliver
from bandstand.actor.reply import ReplyCallback
from bandstand.core import ActorId
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


@pytest.mark.once
@pytest.mark.slow
@pytest.mark.real_time(reason=REAL)
class TestFaults:
    def test_it_finds_messages_that_are_delivered_twice(
        self, loop_factory: LoopFactory, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def twice(
            handle: Handle,
            actor: ActorId,
            method: Method,
            data: object,
            asked: ReplyCallback | None,
            context: Context,
        ) -> int:
            if asked is None:
                deliver(handle, actor, method, data, asked, context)
            return deliver(handle, actor, method, data, asked, context)

        monkeypatch.setattr(address_book, "deliver", twice)
        assert "which was begun before" in found(ThreadsOnly(loop_factory))

    def test_it_finds_messages_that_are_refused_and_delivered_nevertheless(
        self, loop_factory: LoopFactory, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        hold = RoleRef.hold

        def lie(
            self: RoleRef,
            handle: Handle,
            method: Method,
            data: object,
            asked: ReplyCallback | None,
            may_wait: bool,
        ) -> int:
            if hold(self, handle, method, data, asked, may_wait) == HELD:
                raise PodDownError("no")
            return HELD

        monkeypatch.setattr(RoleRef, "hold", lie)
        assert "which was handled nevertheless" in found(ThreadsOnly(loop_factory))

    def test_it_finds_dead_letters_that_are_counted_as_handled(
        self, loop_factory: LoopFactory, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        stats = PodRuntime.stats

        def without_dead(self: PodRuntime) -> PodStats:
            true = stats(self)
            return replace(true, handled=true.handled + true.dead, dead=0)

        monkeypatch.setattr(PodRuntime, "stats", without_dead)
        assert "were accepted and not handled, and the counts are" in found(ThreadsOnly(loop_factory))

    def test_it_finds_counts_that_do_not_balance(
        self, loop_factory: LoopFactory, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        stats = PodRuntime.stats

        def forgetful(self: PodRuntime) -> PodStats:
            return replace(stats(self), dead=0)

        monkeypatch.setattr(PodRuntime, "stats", forgetful)
        assert "the counts do not balance" in found(ThreadsOnly(loop_factory))

    def test_it_finds_a_descriptor_that_is_left_open(
        self, loop_factory: LoopFactory, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        opened: list[int] = []
        run = PodRuntime.run

        async def leaky(self: PodRuntime) -> object:
            opened.append(os.open(os.devnull, os.O_RDONLY))
            return await run(self)

        monkeypatch.setattr(PodRuntime, "run", leaky)
        text = found(ThreadsOnly(loop_factory))
        for fd in opened:
            os.close(fd)
        assert "is still open (/dev/null)" in text

    def test_it_finds_an_answer_to_another_question(
        self, loop_factory: LoopFactory, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        settle = pod_senders.Sender.settle

        def swapped(self: pod_senders.Sender, number: int, outcome: object) -> None:
            settle(self, number + 1, outcome)

        monkeypatch.setattr(pod_senders.Sender, "settle", swapped)
        assert "and was answered" in found(ThreadsOnly(loop_factory))


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
