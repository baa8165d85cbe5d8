"""A pool behaves like one actor."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from bandstand.actor import Actor, ActorSystem, ask, id_of, is_alive, peek, ping, status_of, tell
from bandstand.core import ActorId, ChildExit, ExitReason
from bandstand.core.events import Unhandled
from bandstand.errors import (
    AskCycleError,
    AskTimeoutError,
    InvalidArgumentError,
    LoopClosedError,
    MailboxFullError,
    NoSuchActorError,
    StartError,
    TargetEndedError,
    WrongThreadError,
)
from bandstand.pool import OnDeath, Pool, Routing, pooled
from tests.actor.players import elsewhere, ride, spin
from tests.core.support import check_statistics, settle
from tests.pool.workers import Calm, Hand, balanced

pytestmark = pytest.mark.guarantee("G220")


async def test_the_handle_of_a_pool_sends_and_asks(loop: ActorSystem) -> None:
    book: list[Any] = []
    pool = pooled(loop, 2).spawn(Hand, book)
    pool.handle.note("a")
    assert pool.handle.note.try_send("b")
    await pool.handle.note.when_room("c")
    assert await pool.handle.half(8) == 4
    with pytest.raises(Calm):
        await pool.handle.half(7)
    assert sorted(what for _, what in book[2:]) == ["a", "b", "c"]
    status = pool.status()
    assert (status.accepted, status.handled, status.failed, status.size) == (5, 4, 1, 2)
    assert repr(pool) == "<Pool 'pool of Hand' of 2>"
    assert pool.name == "pool of Hand"


async def test_other_threads_can_use_a_pool(loop: ActorSystem) -> None:
    book: list[Any] = []
    pool = pooled(loop, 2).spawn(Hand, book)
    answers: list[int] = []

    def work() -> None:
        pool.handle.note("far")
        answers.append(pool.handle.half.blocking(6))
        future = pool.handle.half.future(10)
        answers.append(future.result(20))

    thread = threading.Thread(target=work)
    thread.start()
    while thread.is_alive():  # noqa: ASYNC110 -- a thread, which knows no events
        await asyncio.sleep(0)
    assert answers == [3, 5]
    assert book[2:] == [(0, "far")]
    balanced(pool)


@pytest.mark.guarantee("G230")
@pytest.mark.parametrize("place", ["at hand", "with a worker", "in the pool"])
async def test_a_cancelled_ask_of_a_pool(loop: ActorSystem, place: str) -> None:
    book: list[Any] = []
    gate = asyncio.Event()
    pool = pooled(loop, 1, ahead=2).spawn(Hand, book)
    replies = [pool.handle.slowly(number, gate) for number in range(3)]
    await asyncio.sleep(0.001)
    which = ["at hand", "with a worker", "in the pool"].index(place)
    assert replies[which].cancel()
    with pytest.raises(asyncio.CancelledError):
        await replies[which]
    await asyncio.sleep(0.001)
    assert ((0, "cancelled") in book) == (which == 0)
    gate.set()
    left = [number for number in range(3) if number != which]
    assert [await replies[number] for number in left] == left
    assert [what for _, what in book[1:] if isinstance(what, int)] == (
        [0, 1, 2] if which == 0 else [0, 3 - which]
    )
    status = pool.status()
    assert (status.handled, status.withdrawn, status.outstanding, status.waiting) == (2, 1, 0, 0)
    assert [worker.name for worker in status.workers] == ["Hand-1"]
    assert book.count("made") == 1


@pytest.mark.guarantee("G230")
async def test_a_deadline_does_not_affect_the_worker(loop: ActorSystem) -> None:
    book: list[Any] = []
    gate = asyncio.Event()
    pool = pooled(loop, 1, ask_timeout=0.02).spawn(Hand, book)
    with pytest.raises(AskTimeoutError):
        await pool.handle.slowly(1, gate)
    assert pool.status().outstanding == 1
    gate.set()
    await asyncio.sleep(0.001)
    assert pool.status().handled == 1


class Selfish(Actor):
    """Asks the pool that it is in, or whoever it is told to."""

    @ask
    async def ask_back(self, pool: Pool[Selfish]) -> str:
        try:
            return await pool.handle.name.within(0.05)()
        except AskTimeoutError:
            return "late"

    @ask
    async def ask_other(self, other: Other) -> str:
        try:
            return await other.answer()
        except AskCycleError:
            return "a cycle"

    @ask
    def name(self) -> str:
        return "me"


class Other(Actor):
    def __init__(self, pool: Pool[Selfish]) -> None:
        self.pool = pool

    @ask
    async def begin(self) -> str:
        return await self.pool.handle.ask_other(self.me)

    @ask
    def answer(self) -> str:
        return "never"


@pytest.mark.guarantee("G230")
async def test_a_cycle_through_a_pool_is_an_error_at_once(loop: ActorSystem) -> None:
    pool = pooled(loop, 1).spawn(Selfish)
    assert await loop.spawn(Other, pool).begin() == "a cycle"


@pytest.mark.guarantee("G225")
async def test_a_full_pool_refuses_or_waits(loop: ActorSystem) -> None:
    book: list[Any] = []
    gate = asyncio.Event()
    # Ten slots, four of them the system's: six messages, waiting or with workers.
    pool = pooled(loop, 2, ahead=2, mailbox=6).spawn(Hand, book)
    for _ in range(6):
        pool.handle.hold(gate)
    await asyncio.sleep(0.001)
    status = pool.status()
    assert (status.outstanding, status.waiting) == (4, 2)
    with pytest.raises(MailboxFullError):
        pool.handle.note("too much")
    assert not pool.handle.note.try_send("too much")
    pool.handle.urgent("another lane")
    landing = pool.handle.note.when_room("patient")
    await asyncio.sleep(0.001)
    assert not landing.done()
    gate.set()
    await landing
    await asyncio.sleep(0.001)
    assert (0, "patient") in book or (1, "patient") in book
    status = pool.status()
    assert (status.handled, status.waiting, status.outstanding) == (8, 0, 0)


def test_a_pool_needs_workers_that_start(loop: ActorSystem) -> None:
    with pytest.raises(StartError):
        pooled(loop, 2).spawn(Hand, None)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]  # it cannot count
    settle(loop)
    assert loop.statistics().alive == 0


def test_wrong_arguments_of_a_pool_are_refused(loop: ActorSystem) -> None:
    wrong: list[tuple[str, dict[str, Any]]] = [
        ("size is 0", {"size": 0}),
        ("size is True", {"size": True}),
        ("routing is 'x'", {"routing": "x"}),
        ("on_death", {"on_death": 3}),
        ("ahead is 0", {"ahead": 0}),
        ("max_tries is None", {"max_tries": None}),
        ("ask_timeout", {"ask_timeout": -1}),
        ("REQUEUE_ALL.*ahead at 1", {"on_death": OnDeath.REQUEUE_ALL, "ahead": 2}),
    ]
    for words, options in wrong:
        with pytest.raises(InvalidArgumentError, match=words):
            pooled(loop, **options)
    with pytest.raises(InvalidArgumentError):
        pooled(loop).spawn(int)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]  # what it is about
    assert loop.statistics().spawned == 0


def test_another_thread_may_use_the_handle_and_nothing_else(loop: ActorSystem) -> None:
    pool = pooled(loop, 1).spawn(Hand, [])
    deeds = (pool.status, pool.stop, lambda: pool.resize(2))
    for deed in deeds:
        with pytest.raises(WrongThreadError):
            elsewhere(deed)


def test_a_message_past_the_handle_is_logged(loop: ActorSystem) -> None:
    pool = pooled(loop, 1).spawn(Hand, [])
    told: list[Any] = []
    loop.events.listen(told.append)
    loop.send(pool.__actor_id__(), "raw")
    settle(loop)
    assert [(event.data, event.what) for event in told if isinstance(event, Unhandled)] == [("raw", "str")]
    assert pool.status().accepted == 0
    balanced(pool)


class Boss(Actor):
    def __init__(self, book: list[Any]) -> None:
        self.book = book

    def on_signal(self, signal: object) -> None:
        self.book.append(signal)

    @tell
    def nothing(self) -> None: ...


@pytest.mark.parametrize("is_id", [False, True])
def test_the_parent_hears_of_the_end_of_a_pool(loop: ActorSystem, *, is_id: bool) -> None:
    signals: list[Any] = []
    boss = loop.spawn(Boss, signals)
    pool = pooled(loop, 1, supervisor=id_of(boss) if is_id else boss).spawn(Hand, [])
    pool.stop()
    spin(loop)
    assert signals == [ChildExit(pool.__actor_id__(), ExitReason.NORMAL, None)]
    assert isinstance(pool.__actor_id__(), ActorId)


@pytest.mark.guarantee("G229")
def test_stop_drops_waiting_messages(loop: ActorSystem) -> None:
    book: list[Any] = []

    async def body() -> None:
        pool = pooled(loop, 1, routing=Routing.LEAST_LOADED).spawn(Hand, book)
        replies = [pool.handle.slowly(number, asyncio.Event()) for number in range(2)]
        await asyncio.sleep(0.001)
        pool.handle.note("waits")
        pool.stop()
        assert await pool.ended(1000)
        for reply in replies:
            with pytest.raises(TargetEndedError):
                await reply
        assert not is_alive(pool.handle)
        with pytest.raises(NoSuchActorError):
            pool.handle.note("late")
        with pytest.raises(NoSuchActorError, match="has ended"):
            _ = pool.resize(2)
        pool.stop()
        balanced(pool)
        assert pool.status().handled == 0

    ride(loop, body)
    check_statistics(loop)


@pytest.mark.guarantee("G229")
@pytest.mark.parametrize("way", ["handle", "pool"])
def test_drain_handles_everything_and_accepts_nothing(loop: ActorSystem, way: str) -> None:
    book: list[Any] = []

    async def body() -> None:
        pool = pooled(loop, 2).spawn(Hand, book)
        for number in range(20):
            pool.handle.note(number)
        if way == "handle":
            pool.handle.stop(drain=True)
            assert await pool.ended(1000)
        else:
            assert await pool.drain()
        with pytest.raises(NoSuchActorError):
            pool.handle.note("late")
        assert sorted(what for _, what in book[2:]) == list(range(20))
        status = pool.status()
        assert (status.handled, status.dead) == (20, 0)
        assert all(worker.actor is None for worker in status.workers)

    ride(loop, body)
    check_statistics(loop)


@pytest.mark.guarantee("G229")
async def test_a_drain_has_an_end(loop: ActorSystem) -> None:
    book: list[Any] = []
    pool = pooled(loop, 1).spawn(Hand, book)
    pool.handle.hold(asyncio.Event())
    pool.handle.note("waits")
    with pytest.raises(InvalidArgumentError, match="timeout is -"):
        await pool.drain(-0.001)
    assert not await pool.drain(timeout=0.03)
    status = pool.status()
    assert (status.handled, status.dead, status.outstanding, status.waiting) == (0, 2, 0, 0)


@pytest.mark.guarantee("G229")
def test_the_end_of_the_loop_is_the_end_of_the_pool(loop: ActorSystem) -> None:
    book: list[Any] = []
    pools: list[Pool[Hand]] = []

    async def body() -> None:
        pool = pooled(loop, 2).spawn(Hand, book)
        pools.append(pool)
        pool.handle.hold(asyncio.Event())
        for number in range(4):
            pool.handle.note(number)
        await asyncio.sleep(0)

    ride(loop, body)
    balanced(pools[0])
    assert pools[0].status().waiting == pools[0].status().outstanding == 0
    with pytest.raises((LoopClosedError, NoSuchActorError)):
        pools[0].handle.note("late")
    check_statistics(loop)


@pytest.mark.guarantee("G248", "G249")
async def test_a_pool_answers_status_and_ping(loop: ActorSystem) -> None:
    gate = asyncio.Event()
    pool = pooled(loop, 1, name="hands").spawn(Hand, [])
    pool.handle.hold(gate)
    await ping(pool.handle, timeout=0.1)
    report = await status_of(pool.handle, timeout=0.1)
    assert (report.actor, report.name, report.kind) == (pool.__actor_id__(), "hands", "Hand")
    assert (report.waiting, report.children) == (0, ("hands-1",))
    assert pool.status().accepted == 1
    with pytest.raises(NoSuchActorError, match=r"Pool\.status"):
        peek(pool.handle)
    gate.set()
    assert await pool.drain()
