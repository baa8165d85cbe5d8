"""Channel actors: one call per element, one at a time, fair to other actors, and no cost while idle."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any
from weakref import ref

import pytest

from bandstand.core import ActorId, ActorStatus, Loop
from bandstand.errors import (
    ChannelTimeoutError,
    InvalidArgumentError,
    LoopClosedError,
    MaxActorsError,
    ScopeClosedError,
)
from bandstand.scope import UNBOUNDED, CancelToken, Channel, EndedBy, Scope, consume
from bandstand.testing import VirtualClock
from tests.core.support import LoopMaker, RecordingObserver, check_statistics, settle
from tests.scope.support import OutcomeRecorder, filled_channel, wait_until

# --- once for each element ----------------------------------------------------------------------------------------------


async def waits_a_turn(got: list[int], number: int) -> None:
    await asyncio.sleep(0)
    got.append(number)


class Callable_:  # noqa: N801  # not the type
    def __init__(self, got: list[int]) -> None:
        self.got = got

    async def __call__(self, number: int) -> None:
        await waits_a_turn(self.got, number)


def giving(got: list[int]) -> Callable[[int], Any]:
    def give(number: int) -> Any:
        return waits_a_turn(got, number)

    return give


FUNCTIONS: dict[str, Callable[[list[int]], Any]] = {
    "a def": lambda got: got.append,
    "a partial of an async def": lambda got: partial(waits_a_turn, got),
    "a def that gives a coroutine": giving,
    "an object with an async call": Callable_,
}


@pytest.mark.spec("K1")
@pytest.mark.parametrize("make", FUNCTIONS.values(), ids=FUNCTIONS.keys())
async def test_any_callable_works(make: Callable[[list[int]], Any]) -> None:
    got: list[int] = []
    channel = filled_channel(1, 2, 3)
    actor = consume(channel, make(got))
    channel.close()
    assert (await actor.ended()).ended_by is EndedBy.CLOSED
    assert got == [1, 2, 3]


# --- fairness ----------------------------------------------------------------------------------------------------------


@pytest.mark.spec("K2")
@pytest.mark.guarantee("G107")
def test_two_busy_consumers_alternate_element_by_element(loop: Loop) -> None:
    got: list[str] = []
    for name in "ab":
        consume(filled_channel(*[name] * 50), got.append, loop=loop)
    settle(loop)
    assert got == ["a", "b"] * 50


@pytest.mark.spec("K2")
@pytest.mark.guarantee("G107")
async def test_a_busy_consumer_delays_neither_tasks_nor_timers(clock: VirtualClock) -> None:
    channel = Channel[int](UNBOUNDED)
    channel.try_send(0)

    def process(number: int) -> None:
        clock.advance(0.001)
        channel.try_send(number + 1)

    actor = consume(channel, process)
    await wheel_sleep(20)
    assert 20 <= actor.processed < 100
    await actor.stop()


# --- no cost while idle --------------------------------------------------------------------------------------------------


def idle_element(_item: object) -> None:
    """Do nothing with an element."""


async def wheel_sleep(ms: float) -> None:
    with suppress(ChannelTimeoutError):
        await Channel[None]().receive(timeout=ms / 1000)


# --- id, name and loop ---------------------------------------------------------------------------------------------------


@pytest.mark.spec("K1")
@pytest.mark.guarantee("G106")
def test_it_is_an_actor_with_an_id_and_a_name(loop: Loop, diary: RecordingObserver) -> None:
    actor = consume(Channel[int](), idle_element, loop=loop, name="orders")
    assert isinstance(actor.id, ActorId)
    assert loop.status(actor.id) is ActorStatus.RUNNING
    assert diary.started == [(actor.id, "orders")]
    settle(loop)
    assert str(loop.tree()) == "orders (running)"
    assert (actor.name, actor.loop) == ("orders", loop)


@pytest.mark.spec("K1")
@pytest.mark.guarantee("G106")
def test_messages_to_its_id_are_counted_as_strays_and_ignored(loop: Loop) -> None:
    channel, got = filled_channel(1, 2, 3), list[int]()
    actor = consume(channel, got.append, loop=loop)
    for number in range(10):
        loop.send(actor.id, number)
    settle(loop)
    assert got == [1, 2, 3]
    assert actor.strays == 10
    channel.try_send(4)
    settle(loop)
    assert got == [1, 2, 3, 4]
    check_statistics(loop)


async def test_the_default_loop_is_the_one_attached_to_the_running_event_loop(loop: Loop) -> None:
    actor = consume(Channel[int](), idle_element)
    assert actor.loop is loop
    async with Loop() as second:
        with pytest.raises(InvalidArgumentError, match=r"2 loops are attached .* loop="):
            consume(Channel[int](), idle_element)
        assert consume(Channel[int](), idle_element, loop=second).loop is second
        second.request_stop()
        other = consume(Channel[int](), idle_element)
        assert other.loop is loop
    for each in (actor, other):
        await each.stop()


def test_without_a_loop_the_error_says_what_to_pass() -> None:
    with pytest.raises(InvalidArgumentError, match=r"no loop is attached .* loop="):
        consume(Channel[int](), idle_element)


# --- refusals ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"channel": object()}, "channel is .* pass a Channel"),
        ({"process": 3}, "process is 3: pass a function"),
        ({"name": 3}, "name is 3: pass a string"),
        ({"token": "x"}, "token is 'x': pass a CancelToken"),
        ({"on_done": 3}, "on_done is 3: pass a function"),
        ({"loop": object()}, "loop is <object .*: pass a"),
        ({"scope": object()}, "scope is <object .*: pass a"),
    ],
)
def test_invalid_arguments_are_refused(loop: Loop, options: dict[str, Any], words: str) -> None:
    arguments: dict[str, Any] = {"channel": Channel[int](), "process": idle_element, "loop": loop, **options}
    with pytest.raises(InvalidArgumentError, match=words):
        consume(**arguments)
    assert loop.statistics().spawned == 0


def test_a_loop_that_accepts_no_actor_accepts_no_channel_actor(make_loop: LoopMaker) -> None:
    full = make_loop(max_actors=1)
    consume(Channel[int](), idle_element, loop=full)
    with pytest.raises(MaxActorsError):
        consume(Channel[int](), idle_element, loop=full)
    closed = make_loop()
    closed.request_stop()
    channel = Channel[int]()
    with pytest.raises(LoopClosedError):
        consume(channel, idle_element, loop=closed)
    assert channel.statistics().receivers == 0


# --- edge cases ----------------------------------------------------------------------------------------------------------


@pytest.mark.spec("K4")
def test_a_token_that_is_already_cancelled_ends_it_before_its_first_element(loop: Loop) -> None:
    token = CancelToken()
    token.cancel("too late")
    channel, got, recorder = filled_channel(1), list[int](), OutcomeRecorder()
    actor = consume(channel, got.append, loop=loop, token=token, on_done=recorder)
    settle(loop)
    assert recorder.ended_by is EndedBy.CANCELLED
    assert (got, len(channel), actor.processed) == ([], 1, 0)


@pytest.mark.slow
@pytest.mark.guarantee("G110")
def test_an_observer_may_end_it_at_its_start(loop: Loop) -> None:
    class Severe:
        def on_actor_start(self, id: ActorId, name: str | None) -> None:  # noqa: A002 -- the hook's own name
            loop.stop_actor(id)

    loop.set_observer(Severe())
    channel, recorder, token = filled_channel(1), OutcomeRecorder(), CancelToken()
    actor = consume(channel, idle_element, loop=loop, on_done=recorder, token=token)
    settle(loop)
    assert recorder.ended_by is EndedBy.STOPPED
    assert (actor.processed, len(channel)) == (0, 1)
    own = ref(actor.token)
    del actor
    gc.collect()
    assert own() is None


def test_a_start_that_fails_leaves_nothing(loop: Loop, caplog: pytest.LogCaptureFixture) -> None:
    class Broken:
        def child(self) -> Broken:
            return self

        def add_listener(self, listener: object) -> None:
            raise InvalidArgumentError("there is no clock")

        def remove_listener(self, listener: object) -> bool:
            return False

    channel = filled_channel(1)
    with pytest.raises(InvalidArgumentError, match="there is no clock"):
        consume(channel, idle_element, loop=loop, token=Broken())  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # on purpose
    assert loop.statistics().alive == 0
    assert len(channel) == 1


def test_repr(loop: Loop) -> None:
    actor = consume(Channel[int](3, name="orders"), idle_element, loop=loop)
    assert repr(actor) == "<ChannelActor 'orders' of <Channel 'orders' of 3: 0 in it>: running>"
    _ = actor.stop()
    assert repr(actor) == "<ChannelActor 'orders' of <Channel 'orders' of 3: 0 in it>: stopped>"


@pytest.mark.spec("K6")
async def test_in_a_scope_it_uses_the_scopes_token_and_is_removed_when_it_ends(loop: Loop) -> None:
    scope = Scope()
    async with scope:
        one = consume(Channel[int](), idle_element, scope=scope)
        other = scope.consume(Channel[int](), idle_element)
        assert one.loop is loop
        assert set(scope.children) == {one, other}
        await one.stop()
        await wait_until(lambda: list(scope.children) == [other])
        await scope.cancel("enough")
        assert other.outcome is not None
        assert other.outcome.ended_by is EndedBy.CANCELLED
        assert other.token.origin == scope.token.number
    with pytest.raises(ScopeClosedError):
        consume(Channel[int](), idle_element, scope=scope)


@pytest.mark.spec("K6")
async def test_in_a_scope_with_a_token_either_token_ends_it() -> None:
    async with Scope() as scope:
        token = CancelToken()
        actors = [consume(Channel[int](), idle_element, scope=scope, token=token) for _ in range(2)]
        await actors[0].stop()
        token.cancel("the other master")
        assert (await actors[1].ended()).ended_by is EndedBy.CANCELLED
        assert actors[1].token.reason == "the other master"
        assert not scope.token.cancelled
        late = consume(Channel[int](), idle_element, scope=scope, token=token)
        assert (await late.ended()).ended_by is EndedBy.CANCELLED
