"""The storm over pods notices what it is there for: each of these breaks something on purpose."""

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
from tests.soak import pods_crowd
from tests.soak.alarms import listening
from tests.soak.pods import Storm
from tests.soak.pods_ledger import MOST, ROLES, Count, Ledger

REAL = "threads of the machine are what a storm is about"
LoopFactory = Callable[[], asyncio.AbstractEventLoop]

noticed = [pytest.mark.once, pytest.mark.slow, pytest.mark.real_time(reason=REAL)]


class Tame(Storm):
    """Threads only, a restart every few milliseconds, and guests of all manners."""

    def __init__(self, loop_factory: LoopFactory) -> None:
        super().__init__("tame", 1.0, loop_factory)
        self._is_tame, self._is_rough, self._ends_by_failure = True, False, False
        self._pause, self._rides = 0.01, True
        self._threads = [pods_crowd.Thread(self, number) for number in range(3)]
        self._tasks = [pods_crowd.Task(self, number) for number in range(3, 6)]


def found(storm: Storm) -> str:
    """What a storm finds, in one text."""
    failures: list[str] = []
    with listening(failures.append):
        storm.play(failures.append)
    return "\n".join(failures)


@pytest.mark.slow
@pytest.mark.real_time(reason=REAL)
def test_nothing_is_wrong_where_nothing_is_broken(loop_factory: LoopFactory) -> None:
    storm = Tame(loop_factory)
    assert found(storm) == ""
    assert storm.counts["incarnations"] > 10
    assert storm.counts["ask answered"] > 50


class TestBroken:
    pytestmark = noticed

    def test_it_notices_messages_that_are_delivered_twice(
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
        assert "which was begun before" in found(Tame(loop_factory))

    def test_it_notices_messages_that_are_refused_and_delivered_all_the_same(
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
        assert "which was handled all the same" in found(Tame(loop_factory))

    def test_it_notices_counts_that_call_the_dead_handled(
        self, loop_factory: LoopFactory, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        stats = PodRuntime.stats

        def pretty(self: PodRuntime) -> PodStats:
            true = stats(self)
            return replace(true, handled=true.handled + true.dead, dead=0)

        monkeypatch.setattr(PodRuntime, "stats", pretty)
        assert "were accepted and not handled, and the counts are" in found(Tame(loop_factory))

    def test_it_notices_counts_that_do_not_balance(
        self, loop_factory: LoopFactory, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        stats = PodRuntime.stats

        def forgetful(self: PodRuntime) -> PodStats:
            return replace(stats(self), dead=0)

        monkeypatch.setattr(PodRuntime, "stats", forgetful)
        assert "the counts do not balance" in found(Tame(loop_factory))

    def test_it_notices_what_is_left_open(
        self, loop_factory: LoopFactory, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        opened: list[int] = []
        run = PodRuntime.run

        async def leaky(self: PodRuntime) -> object:
            opened.append(os.open(os.devnull, os.O_RDONLY))
            return await run(self)

        monkeypatch.setattr(PodRuntime, "run", leaky)
        text = found(Tame(loop_factory))
        for fd in opened:
            os.close(fd)
        assert "is still open (/dev/null)" in text

    def test_it_notices_an_answer_to_another_question(
        self, loop_factory: LoopFactory, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        settle = pods_crowd.Guest.settle

        def swapped(self: pods_crowd.Guest, number: int, outcome: object) -> None:
            settle(self, number + 1, outcome)

        monkeypatch.setattr(pods_crowd.Guest, "settle", swapped)
        assert "and was answered" in found(Tame(loop_factory))


# --- the ledger -------------------------------------------------------------------------------------------------------


def test_a_ledger_knows_what_is_out_of_order_or_twice(tmp_path: Path) -> None:
    ledger = Ledger.create(str(tmp_path / "ledger"))
    ledger.begin(0, 3, 1, 0)
    ledger.begin(0, 3, 2, 0)
    # Another lane, another role, another source: each has an order of its own.
    ledger.begin(0, 3, 4, 1)
    ledger.begin(1, 3, 3, 0)
    ledger.begin(0, 15, MOST - 1, 0)
    assert ledger.complaints() == []
    ledger.begin(0, 3, 1, 0)
    assert ledger.complaints() == [
        f"{ROLES[0]} was given 3/1 after 3/2: out of order",
        f"{ROLES[0]} was given 3/1, which was begun before",
    ]
    assert ledger.count(Count.BEGUN) == 6
    assert [ledger.was_begun(3, number) for number in range(6)] == [False, True, True, True, True, False]
    ledger.close()


def test_a_ledger_is_the_same_wherever_it_is_opened(tmp_path: Path) -> None:
    here = Ledger.create(str(tmp_path / "ledger"))
    make, arguments = here.__reduce__()
    there = make(*arguments)
    there.begin(2, 7, 9, 1)
    there.complain("something")
    assert (here.was_begun(7, 9), here.count(Count.BEGUN), here.complaints()) == (True, 1, ["something"])
    assert there.home == os.getpid()
    here.close()
    there.close()
