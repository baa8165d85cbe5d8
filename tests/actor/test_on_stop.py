"""`on_stop` for every kind of end."""

from __future__ import annotations

import asyncio
import gc
import logging
from asyncio import CancelledError, Event
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from bandstand.actor import Actor, ActorSystem, ask, child, id_of, tell
from bandstand.core import ActorStatus, ExitReason
from bandstand.errors import NoSuchActorError, TargetEndedError
from bandstand.supervision import Shutdown, SupervisorSpec, spawn_supervisor
from bandstand.testing import VirtualClock
from tests.actor.asking import outcome
from tests.actor.players import ENDS, Book, Lively, Noter, Slow, ride, spin, turns
from tests.core.support import Boom, RecordingObserver, check_statistics, settle

pytestmark = pytest.mark.guarantee("G65")


LoopMaker = Callable[..., ActorSystem]

# --- on_stop ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ENDS)
def test_on_stop_is_called_once_for_every_end(loop: ActorSystem, diary: RecordingObserver, end: str) -> None:
    deed, reason = ENDS[end]
    book: Book = []
    handle = loop.spawn(Lively, book)
    deed(loop, handle)
    settle(loop)
    assert [entry[:2] for entry in book[1:]] == [("stop", reason)]
    if reason == "PANIC":
        assert book[1][2] == "Boom"
    assert [why.name for _, why in diary.stopped] == [reason]
    handle.stop()
    handle.kill()
    settle(loop)
    assert len(book) == 2


@pytest.mark.parametrize("end", ENDS)
def test_an_actor_is_stopping_during_on_stop(loop: ActorSystem, diary: RecordingObserver, end: str) -> None:
    deed, reason = ENDS[end]
    book: Book = []
    handle = loop.spawn(Slow, book)
    spin(loop)
    actor = id_of(handle)
    book.clear()
    deed(loop, handle)
    for _ in range(10):
        loop.poll_once()
        if book:
            break
    assert [entry[:2] for entry in book] == [("stopping", reason)]
    assert loop.status(actor) is ActorStatus.STOPPING
    assert diary.stopped == []
    with pytest.raises(NoSuchActorError):
        handle.note("too late")
    handle.stop()
    handle.stop(drain=True)
    spin(loop)
    assert book[1:] == ["stopped"]
    assert [why.name for _, why in diary.stopped] == [reason]


def test_a_kill_ends_an_actor_during_its_on_stop(loop: ActorSystem, diary: RecordingObserver) -> None:
    book: Book = []
    handle = loop.spawn(Slow, book)
    spin(loop)
    handle.stop()
    loop.poll_once()
    assert "stopped" not in book
    handle.kill()
    assert len(diary.stopped) == 1
    spin(loop)
    assert "stopped" not in book
    assert len(diary.stopped) == 1


@pytest.mark.parametrize("is_async", [False, True])
def test_what_on_stop_raises_is_logged_and_changes_nothing(
    loop: ActorSystem, diary: RecordingObserver, caplog: pytest.LogCaptureFixture, is_async: bool
) -> None:
    class Rude(Noter):
        def on_stop(self, reason: ExitReason, cause: BaseException | None) -> Any:
            if is_async:
                return self.fail_slowly()
            raise Boom("goodbye")

        async def fail_slowly(self) -> None:
            await turns()
            raise Boom("goodbye")

    loop.options(name="rude").spawn(Rude, []).stop()
    spin(loop)
    assert [why for _, why in diary.stopped] == [ExitReason.NORMAL]
    (error,) = [entry for entry in caplog.records if entry.levelno >= logging.ERROR]
    assert "rude" in error.getMessage()
    assert "Boom: goodbye" in caplog.text


@pytest.mark.parametrize("kind", [Lively, Slow])
@pytest.mark.parametrize("is_asked", [False, True])
def test_on_stop_runs_at_the_end_of_a_block(loop: ActorSystem, kind: type[Noter], is_asked: bool) -> None:
    book: Book = []

    async def body() -> None:
        await loop.spawn(kind, book).count()
        book.clear()
        if is_asked:
            loop.request_stop()

    ride(loop, body)
    assert book[0][:2] in {("stop", "NORMAL"), ("stopping", "NORMAL")}
    assert book[1:] == ([] if kind is Lively else ["stopped"])


class Lasting(Noter):
    """Only its on_stop is async."""

    async def on_stop(self, reason: ExitReason, cause: BaseException | None) -> None:
        self.book.append("stopping")
        await turns()
        self.book.append("stopped")


@pytest.mark.slow
def test_on_stop_runs_when_a_loop_that_never_ran_is_destroyed(make_loop: LoopMaker, book: Book) -> None:
    """An async one has no event loop to run in: the actor ends, without a warning about a coroutine that was never awaited."""
    diary = RecordingObserver()
    loop = make_loop()
    loop.set_observer(diary)
    loop.spawn(Lively, book)
    loop.spawn(Lasting, [])
    loop.destroy()
    gc.collect()
    assert book == ["start", ("stop", "NORMAL", None)]
    assert [why for _, why in diary.stopped] == [ExitReason.NORMAL] * 2


def test_an_on_stop_longer_than_the_stop_timeout_is_abandoned(
    make_loop: LoopMaker, clock: VirtualClock, caplog: pytest.LogCaptureFixture, book: Book
) -> None:
    loop = make_loop(loop_factory=clock.new_event_loop, stop_timeout=0.05)

    class Forever(Noter):
        async def on_stop(self, reason: ExitReason, cause: BaseException | None) -> None:
            self.book.append("stopping")
            await asyncio.sleep(3600)
            self.book.append("stopped")

    async def body() -> None:
        loop.options(name="forever").spawn(Forever, book)

    start = clock.now_ns()
    ride(loop, body)
    assert book == ["stopping"]
    assert clock.now_ns() - start < 3600 * 10**9
    assert "forever" in caplog.text


@pytest.mark.parametrize(
    ("shutdown", "expected"),
    [
        (1, ["stopping", "stopped"]),
        (Shutdown.INFINITY, ["stopping", "stopped"]),
        (0.02, ["stopping"]),
        (Shutdown.KILL, []),
    ],
)
def test_on_stop_has_the_shutdown_time_of_its_supervisor(
    make_loop: LoopMaker, clock: VirtualClock, shutdown: float | Shutdown, expected: Book, book: Book
) -> None:
    loop = make_loop(loop_factory=clock.new_event_loop)

    class Tidy(Noter):
        async def on_stop(self, reason: ExitReason, cause: BaseException | None) -> None:
            self.book.append("stopping")
            await asyncio.sleep(0.1)
            self.book.append("stopped")

    root = spawn_supervisor(loop, SupervisorSpec(children=[child("tidy", shutdown=shutdown).of(Tidy, book)]))
    loop.run(until_idle=True)
    root.stop_child("tidy")
    loop.run(until_idle=True)
    assert book == expected
    assert root.child("tidy") is None


class Asking(Noter):
    """Asks another actor in its on_stop."""

    def __init__(self, book: Book, other: Noter) -> None:
        super().__init__(book)
        self.other = other

    async def on_stop(self, reason: ExitReason, cause: BaseException | None) -> None:
        with pytest.raises(NoSuchActorError):
            self.me.note("to itself")
        self.other.note("goodbye")
        self.book.append(await self.other.count())

    @tell
    async def tidy(self) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            self.other.note("interrupted")
            self.book.append(await self.other.count())


@pytest.mark.parametrize("is_busy", [False, True])
def test_an_ending_actor_can_ask_others(make_loop: LoopMaker, clock: VirtualClock, is_busy: bool) -> None:
    loop = make_loop(loop_factory=clock.new_event_loop)
    book: Book = []

    async def body() -> None:
        handle = loop.spawn(Asking, book, loop.spawn(Noter, []))
        if is_busy:
            handle.tidy()
        await turns()
        handle.stop()
        # Not awaited: if it did not end, this would hang.
        await turns(20)
        assert loop.status(id_of(handle)) is ActorStatus.STOPPED
        assert book == ([1, 2] if is_busy else [1])

    ride(loop, body)
    check_statistics(loop)


def test_the_end_of_a_loop_waits_for_on_stop_only(make_loop: LoopMaker, clock: VirtualClock) -> None:
    # Otherwise every program with an async on_stop would take the whole stop timeout to end.
    loop = make_loop(loop_factory=clock.new_event_loop)
    book: Book = []

    class Tidy(Noter):
        async def on_stop(self, reason: ExitReason, cause: BaseException | None) -> None:
            await asyncio.sleep(0.1)
            self.book.append("stopped")

    async def body() -> None:
        for _ in range(3):
            await loop.spawn(Tidy, book).count()

    start = clock.now_ns()
    ride(loop, body)
    assert book == ["stopped"] * 3
    assert clock.now_ns() - start <= 200_000_000  # they run concurrently, and nothing else is awaited


class Fragile(Actor):
    """Fails when asked, and has a long on_stop."""

    def __init__(self, log: Book, gate: Event) -> None:
        self.log = log
        self.gate = gate

    @ask
    def broken(self) -> int:
        raise Boom("sync")

    @ask
    async def broken_later(self) -> int:
        await asyncio.sleep(0)
        raise Boom("async")

    async def on_stop(self, reason: ExitReason, cause: BaseException | None) -> None:
        try:
            await self.gate.wait()
        except CancelledError:
            self.log.append("cancelled")
            raise
        self.log.append("stopped")


@pytest.mark.guarantee("G60")
@pytest.mark.parametrize("is_cancelled", [False, True])
@pytest.mark.parametrize("name", ["broken", "broken_later"])
async def test_an_ask_of_a_failed_actor_ends_before_its_on_stop(
    virtual_system: ActorSystem, name: str, is_cancelled: bool
) -> None:
    """Cancelling the ask does not cancel `on_stop`."""
    log: Book = []
    gate = Event()
    fragile = virtual_system.spawn(Fragile, log, gate)
    reply = getattr(fragile, name)()
    if is_cancelled:
        await turns()
        reply.cancel()
        await turns()
    else:
        error = await outcome(reply)
        assert isinstance(error, TargetEndedError)
        assert isinstance(error.__cause__, Boom)
    assert log == []
    gate.set()
    assert await fragile.ended() is ExitReason.PANIC
    assert log == ["stopped"]


async def test_on_stop_may_return_any_awaitable(loop: ActorSystem, book: Book) -> None:
    async def write() -> None:
        await turns()
        book.append("written")

    class Gathering(Actor):
        def on_stop(self, reason: ExitReason, cause: BaseException | None) -> Awaitable[Any]:
            return asyncio.gather(write(), write())

    handle = loop.spawn(Gathering)
    handle.stop()
    await handle.ended()
    assert book == ["written", "written"]
