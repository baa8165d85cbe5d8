"""The messages of a worker that crashes."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from bandstand.actor import Actor, ActorSystem, ask, tell
from bandstand.core import ExitReason
from bandstand.errors import IgnoreChild, RestartLimitError, StartError, TargetEndedError
from bandstand.pool import ByKey, OnDeath, Pool, pooled
from tests.actor.players import ride
from tests.core.support import Boom, RecordingObserver, settle
from tests.pool.workers import Calm, Hand, balanced, buried


def kill_first(loop: ActorSystem, pool: Pool[Any]) -> None:
    actor = pool.status().workers[0].actor
    assert actor is not None
    loop.kill_actor(actor)


@pytest.mark.guarantee("G226")
async def test_messages_of_a_crashed_worker(loop: ActorSystem, diary: RecordingObserver) -> None:
    book: list[Any] = []
    letters = buried(loop)
    pool = pooled(loop, 1, ahead=3).spawn(Hand, book)
    asked = pool.handle.slowly(1, asyncio.Event())
    for number in range(5):
        pool.handle.note(number)
    await asyncio.sleep(0.001)
    kill_first(loop, pool)
    with pytest.raises(TargetEndedError):
        await asked
    await asyncio.sleep(0.001)
    assert [entry for entry in book if entry[0] == 1] == [(1, number) for number in range(5)]
    assert [(letter.what, letter.target is not None) for letter in letters] == [("Hand.slowly()", True)]
    status = pool.status()
    assert (status.handled, status.dead, status.requeued) == (5, 1, 0)
    assert diary.dead == []


class Slow(Hand):
    """Takes its time to end."""

    async def on_stop(self, reason: ExitReason, cause: BaseException | None) -> None:
        await asyncio.sleep(0.05)
        self.book.append("bye")


@pytest.mark.guarantee("G222", "G226")
@pytest.mark.parametrize("on_death", [OnDeath.REQUEUE_WAITING, OnDeath.REQUEUE_ALL])
async def test_a_slowly_ending_worker_gets_no_messages(loop: ActorSystem, on_death: OnDeath) -> None:
    book: list[Any] = []
    letters = buried(loop)
    pool = pooled(loop, 2, on_death=on_death, max_tries=1).spawn(Slow, book)
    pool.handle.crash("boom")
    await asyncio.sleep(0.001)
    for number in range(4):
        pool.handle.note(number)
    await asyncio.sleep(0.001)
    assert "bye" not in book
    assert [entry for entry in book if entry != "made"] == [
        (0, "boom"),
        *((1, number) for number in range(4)),
    ]
    assert [letter.data for letter in letters] == ["boom"]
    await asyncio.sleep(0.1)
    assert book.count("made") == 3
    balanced(pool)


@pytest.mark.guarantee("G226")
def test_requeue_all_gives_up_a_poison_message(loop: ActorSystem) -> None:
    book: list[Any] = []
    letters = buried(loop)
    pool = pooled(loop, 2, on_death=OnDeath.REQUEUE_ALL, max_tries=3, max_restarts=5).spawn(Hand, book)
    pool.handle.crash("poison")
    pool.handle.note("fine")
    settle(loop)
    assert sum("poison" in entry for entry in book if entry != "made") == 3
    assert [letter.data for letter in letters] == ["poison"]
    status = pool.status()
    assert (status.handled, status.dead, status.requeued) == (1, 1, 2)
    balanced(pool)


@pytest.mark.guarantee("G226")
async def test_a_requeued_ask_is_answered_by_another_worker(loop: ActorSystem) -> None:
    book: list[Any] = []
    gate = asyncio.Event()
    pool = pooled(loop, 2, on_death=OnDeath.REQUEUE_ALL).spawn(Hand, book)
    reply = pool.handle.slowly(7, gate)
    await asyncio.sleep(0.001)
    kill_first(loop, pool)
    await asyncio.sleep(0.001)
    gate.set()
    assert await reply == 7
    with pytest.raises(TargetEndedError) as caught:
        await pool.handle.broken()
    assert isinstance(caught.value.__cause__, Boom)


@pytest.mark.guarantee("G223", "G226")
async def test_a_requeued_message_keeps_the_order_of_its_key(loop: ActorSystem) -> None:
    book: list[Any] = []
    gate = asyncio.Event()
    pool = pooled(loop, 1, routing=ByKey(lambda *_: "k"), on_death=OnDeath.REQUEUE_ALL).spawn(Hand, book)
    reply = pool.handle.slowly(0, gate)
    for number in range(1, 4):
        pool.handle.note(number)
    await asyncio.sleep(0.001)
    kill_first(loop, pool)
    gate.set()
    assert await reply == 0
    await asyncio.sleep(0.001)
    done = [entry for entry in book if entry not in ("made", (0, "cancelled"))]
    assert done == [(0, 0), (1, 0), (1, 1), (1, 2), (1, 3)]


@pytest.mark.guarantee("G226")
async def test_dead_letter_drops_messages_of_the_worker(loop: ActorSystem, diary: RecordingObserver) -> None:
    book: list[Any] = []
    pool = pooled(loop, 1, ahead=3, on_death=OnDeath.DEAD_LETTER).spawn(Hand, book)
    pool.handle.hold(asyncio.Event())
    asked = pool.handle.half(4)
    for number in range(3):
        pool.handle.note(number)
    await asyncio.sleep(0.001)
    kill_first(loop, pool)
    with pytest.raises(TargetEndedError):
        await asked
    await asyncio.sleep(0.001)
    assert [entry for entry in book if entry[0] == 1] == [(1, 1), (1, 2)]
    status = pool.status()
    assert (status.handled, status.dead) == (2, 3)
    # Those in its mailbox the loop has buried.
    assert [letter[2] for letter in diary.dead] == [4, 0]


@pytest.mark.guarantee("G227")
def test_a_pool_that_gives_up_ends(loop: ActorSystem, caplog: pytest.LogCaptureFixture) -> None:
    book: list[Any] = []

    async def body() -> None:
        pool = pooled(loop, 2, max_restarts=1, name="tired").spawn(Hand, book)
        replies = [pool.handle.slowly(number, asyncio.Event()) for number in range(4)]
        await asyncio.sleep(0.001)
        kill_first(loop, pool)
        await asyncio.sleep(0.001)
        kill_first(loop, pool)
        assert await pool.ended(1000)
        assert await pool.handle.ended() is ExitReason.FAIL
        for reply in replies:
            with pytest.raises(TargetEndedError):
                await reply
        status = pool.status()
        assert (status.dead, status.waiting, status.outstanding) == (4, 0, 0)
        balanced(pool)

    with caplog.at_level(logging.ERROR):
        ride(loop, body)
    assert any("tired" in record.getMessage() for record in caplog.records)
    assert RestartLimitError.code == -108


class Stubborn(Hand):
    """Takes no notice of being cancelled, and has something to say when nobody listens any more."""

    @ask(raises=Calm)
    async def late(self, gate: asyncio.Event, *, is_calm: bool) -> int:
        while not gate.is_set():
            try:
                await gate.wait()
            except asyncio.CancelledError:
                self.book.append("ignored")
        self.book.append("late")
        if is_calm:
            raise Calm("late")
        return 1


@pytest.mark.guarantee("G226", "G221")
@pytest.mark.parametrize("is_calm", [False, True])
async def test_the_result_of_a_killed_worker_is_ignored(loop: ActorSystem, is_calm: bool) -> None:
    book: list[Any] = []
    gate = asyncio.Event()
    pool = pooled(loop, 1).spawn(Stubborn, book)
    asked = pool.handle.late(gate, is_calm=is_calm)
    await asyncio.sleep(0.001)
    kill_first(loop, pool)
    with pytest.raises(TargetEndedError):
        await asked
    gate.set()
    await asyncio.sleep(0.001)
    assert book.index("ignored") < book.index("late")
    status = pool.status()
    assert (status.accepted, status.handled, status.failed, status.dead) == (1, 0, 0, 1)


class Unneeded(Actor):
    """A worker that wants to be ignored."""

    def __init__(self) -> None:
        raise IgnoreChild("not needed")

    @tell
    def work(self) -> None:
        """Never called."""


@pytest.mark.guarantee("G279")
def test_a_pool_cannot_ignore_a_worker(loop: ActorSystem) -> None:
    with pytest.raises(StartError, match="a worker of the pool 'pool of Unneeded' raised IgnoreChild"):
        pooled(loop).spawn(Unneeded)


class Unable(Actor):
    """A worker of which some starts fail, after an await."""

    def __init__(self, starts: list[int], failing: range) -> None:
        self.starts = starts
        self.failing = failing

    async def on_start(self) -> None:
        number = len(self.starts)
        self.starts.append(number)
        await asyncio.sleep(0.001)
        if number in self.failing:
            raise Boom("no database")

    @ask
    def work(self) -> str:
        return "done"


@pytest.mark.guarantee("G227")
@pytest.mark.parametrize("size", [1, 3])
async def test_a_pool_whose_workers_never_start_ends(loop: ActorSystem, size: int) -> None:
    starts: list[int] = []
    pool = pooled(loop, size, max_restarts=4).spawn(Unable, starts, range(1000))
    replies = [pool.handle.work() for _ in range(4)]
    assert await pool.ended(10_000)
    assert await pool.handle.ended() is ExitReason.FAIL
    for reply in replies:
        with pytest.raises(TargetEndedError) as caught:
            await reply
        assert isinstance(caught.value.__cause__, RestartLimitError)
    status = pool.status()
    assert (status.dead, status.waiting, status.outstanding) == (4, 0, 0)
    balanced(pool)


@pytest.mark.guarantee("G227")
async def test_a_worker_whose_first_start_fails_is_started_again(loop: ActorSystem) -> None:
    starts: list[int] = []
    pool = pooled(loop, 1).spawn(Unable, starts, range(1))
    assert await pool.handle.work() == "done"
    assert starts == [0, 1]
    balanced(pool)
