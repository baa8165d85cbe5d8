"""How a typed actor starts: its constructor and `on_start`."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from bandstand.actor import Actor, ActorSystem, is_alive
from bandstand.core import ExitReason
from bandstand.errors import NoSuchActorError, StartError, TargetEndedError
from tests.actor.players import Book, Brief, BriefLater, Lively, Noter, Slow, spin, turns
from tests.core.support import Boom, RecordingObserver

LoopMaker = Callable[..., ActorSystem]

# --- the constructor ----------------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G64")
def test_what_a_constructor_raises_comes_out_of_spawn(loop: ActorSystem, diary: RecordingObserver) -> None:
    """There is no actor, and no object is left."""
    error = Boom("in __init__")
    kept: list[weakref.ref[Any]] = []

    class Unmade(Actor):
        def __init__(self) -> None:
            kept.append(weakref.ref(self))
            raise error

        def on_start(self) -> None:
            raise AssertionError("there is nobody to start")

        def on_stop(self, reason: ExitReason, cause: BaseException | None) -> None:
            raise AssertionError("there is nobody to stop")

    with pytest.raises(Boom) as caught:
        loop.spawn(Unmade)
    assert caught.value is error
    assert loop.statistics().spawned == 0
    assert diary.entries == []
    assert list(loop.tree()) == []
    del caught
    error.__traceback__ = None
    gc.collect()
    assert [one() for one in kept] == [None]


# --- on_start -----------------------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G64")
def test_a_plain_on_start_that_fails_is_a_start_error(loop: ActorSystem, diary: RecordingObserver) -> None:
    error = Boom("start")
    stopped: Book = []

    class Bad(Lively):
        def on_start(self) -> None:
            raise error

    with pytest.raises(StartError, match=r"Bad 'name'|Bad name") as caught:
        loop.options(name="name").spawn(Bad, stopped)
    assert caught.value.__cause__ is error
    assert [reason for _, reason in diary.stopped] == [ExitReason.PANIC]
    assert stopped == []  # it never started, so on_stop is not called
    assert loop.statistics().alive == 0


@pytest.mark.guarantee("G64")
def test_an_on_start_that_returns_a_value_is_refused(loop: ActorSystem) -> None:
    class Odd(Noter):
        def on_start(self) -> Any:
            return 7

    with pytest.raises(StartError, match="must return nothing"):
        loop.spawn(Odd, [])


@pytest.mark.guarantee("G65")
def test_messages_wait_for_an_async_start(loop: ActorSystem, book: Book) -> None:
    handle = loop.spawn(Slow, book)
    handle.note(1)
    handle.urgent("first")
    assert book == []
    loop.run(until_idle=True)
    assert book == ["starting", "started", "first", 1]


class BadSlow(Slow):
    async def on_start(self) -> None:
        await turns()
        raise Boom("start")


@pytest.mark.guarantee("G64")
async def test_an_async_start_that_fails_ends_the_actor_and_answers_those_who_wait(
    loop: ActorSystem, diary: RecordingObserver, book: Book
) -> None:
    handle = loop.spawn(BadSlow, book)
    handle.note("dead letter")
    first, second = handle.count(), handle.count()
    for reply in (first, second):
        with pytest.raises(TargetEndedError, match=r"PANIC.*Boom.*count") as caught:
            await reply
        assert isinstance(caught.value.__cause__, Boom)
    assert await handle.ended() is ExitReason.PANIC
    with pytest.raises(NoSuchActorError):
        handle.note("too late")
    assert book == []  # neither a message nor on_stop
    assert len(diary.dead) == 3
    assert [reason for _, reason in diary.stopped] == [ExitReason.PANIC]


@pytest.mark.guarantee("G65")
def test_a_stop_during_an_async_start_calls_no_on_stop(loop: ActorSystem, diary: RecordingObserver) -> None:
    book: Book = []
    handle = loop.spawn(Slow, book)
    loop.poll_once()
    assert book == ["starting"]
    handle.stop()
    spin(loop)
    assert book == ["starting"]
    assert [reason for _, reason in diary.stopped] == [ExitReason.NORMAL]


@pytest.mark.slow
@pytest.mark.guarantee("G65")
@pytest.mark.parametrize("end", ["stop", "destroy"])
def test_an_async_on_start_that_never_began_is_closed_without_a_warning(
    make_loop: LoopMaker, book: Book, end: str
) -> None:
    # Warnings are errors here: "coroutine was never awaited" is one.
    loop = make_loop()
    handle = loop.spawn(Slow, book)
    if end == "stop":
        handle.stop()
        spin(loop)
    loop.destroy()
    gc.collect()
    assert book == []


@pytest.mark.guarantee("G65")
@pytest.mark.parametrize("kind", [Brief, BriefLater])
def test_an_actor_that_stops_in_on_start_gets_its_on_stop(loop: ActorSystem, kind: type[Brief]) -> None:
    book: Book = []
    handle = loop.spawn(kind, book)
    spin(loop)
    assert book == ["start", (ExitReason.NORMAL, None)]
    assert not is_alive(handle)
