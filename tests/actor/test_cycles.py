"""Ask cycles: detected at once and described; and nothing else is mistaken for one."""

from __future__ import annotations

import asyncio
from asyncio import Event
from typing import Any

import pytest

from bandstand.actor import Actor, ActorSystem, Reply, ask, child, tell
from bandstand.core import ExitReason
from bandstand.errors import AskCycleError, AskTimeoutError, TargetEndedError
from bandstand.supervision import SupervisorSpec, spawn_supervisor
from tests.actor.asking import CAP, ended, got, outcome, turns, watch

pytestmark = pytest.mark.guarantee("G63")


class Node(Actor, ask_timeout=None):
    """Asks along a given path, without a deadline: a cycle that is not detected hangs."""

    def __init__(self, log: list[Any] | None = None) -> None:
        self.log: list[Any] = [] if log is None else log
        self.kept: Reply[Any] | None = None

    @ask
    def ping(self) -> str:
        return "pong"

    @ask(raises=AskCycleError)
    async def through(self, *path: Node) -> str:
        """Ask the first one to ask the others; the last one is asked for its `ping`."""
        if not path:
            return "end"
        first, *rest = path
        return await (first.through(*rest) if rest else first.ping())

    @ask(raises=AskCycleError)
    async def through_gather(self, *path: Node) -> str:
        first, *rest = path
        both = await asyncio.gather(first.through(*rest), first.ping())
        return both[0]

    @ask(raises=AskCycleError)
    async def through_wait_for(self, *path: Node) -> str:
        first, *rest = path
        return await asyncio.wait_for(first.through(*rest), 3600)

    @ask(raises=AskCycleError)
    async def through_coroutines(self, *path: Node) -> str:
        first, *rest = path
        return await got(got(first.through(*rest)))

    @ask
    async def through_own_task(self, *path: Node) -> str:
        """Ask in a task, which is not part of the actor's turn."""
        first, *rest = path

        async def on_its_own() -> str:
            return await first.through.within(0.05)(*rest)

        try:
            return await asyncio.create_task(on_its_own())
        except AskTimeoutError:
            return "deadline"

    @ask
    async def hold(self, gate: Event) -> str:
        await gate.wait()
        return "held"

    @tell
    def in_background(self, *path: Node) -> None:
        first, *rest = path
        self.background(first.through(*rest), then=self.log.append, failed=self.log.append)

    @tell
    async def ask_only(self, other: Node) -> None:
        """Ask without waiting."""
        self.kept = other.through(self.me)

    @ask
    async def read_kept(self) -> Any:
        assert self.kept is not None
        return await self.kept

    @ask(raises=AskCycleError)
    async def read_end(self, other: Node) -> ExitReason:
        return await other.ended()

    @tell
    def note(self, what: str) -> None:
        self.log.append(what)

    @ask(raises=AskCycleError)
    async def push(self, other: Node) -> str:
        """Wait for room."""
        await other.note.when_room("pushed")
        return "in"

    @ask(raises=AskCycleError)
    async def hold_then(self, gate: Event, other: Node) -> str:
        await gate.wait()
        return await other.ping()


def named(loop: ActorSystem, *names: str) -> list[Node]:
    return [loop.options(name=name).spawn(Node) for name in names]


# --- cycles -----------------------------------------------------------------------------------------------------------


async def test_an_actor_that_asks_itself_gets_a_cycle_error(system: ActorSystem) -> None:
    [alone] = named(system, "alone")
    with pytest.raises(AskCycleError, match=r"'alone' .* asks 'alone' .* for Node\.ping\(\)"):
        await alone.through(alone)
    # The ask was cancelled: it is not handled later.
    assert await alone.ping() == "pong"
    assert ended(system.ask_statistics()) == {"answered": 1, "failed": 1, "cancelled": 1}


@pytest.mark.parametrize("size", [2, 3, 10])
async def test_the_error_of_a_cycle_names_all_actors_and_methods(system: ActorSystem, size: int) -> None:
    nodes = named(system, *(f"node {number}" for number in range(size)))
    with pytest.raises(AskCycleError) as caught:
        await nodes[0].through(*nodes[1:], nodes[0])
    text = str(caught.value)
    # First the actor that closes the cycle, then the waits from the actor it asks.
    places = [text.index(f"waits for 'node {number}'") for number in range(1, size)]
    assert places == sorted(places)
    assert text.startswith(f"'node {size - 1}'")
    assert "Node.ping()" in text
    assert "Node.through()" in text
    for node in nodes:
        assert await node.ping() == "pong"


THROUGH = pytest.mark.parametrize("method", ["through_gather", "through_wait_for", "through_coroutines"])


@THROUGH
async def test_a_cycle_through_asyncio_helpers_is_found(system: ActorSystem, method: str) -> None:
    first, second = named(system, "first", "second")
    with pytest.raises(AskCycleError) as caught:
        await getattr(first, method)(second, first)
    # The one that waits last closes the cycle: an asyncio task starts a turn later.
    assert "'first'" in str(caught.value)
    assert "'second'" in str(caught.value)
    await turns()
    assert await first.ping() == await second.ping() == "pong"


async def test_a_cycle_with_a_wait_for_room_is_found(system: ActorSystem) -> None:
    first = system.options(name="first").spawn(Node)
    second, gate = system.options(name="second", mailbox=CAP).spawn(Node), Event()
    holding = watch(second.hold_then(gate, first))
    await turns()
    while second.note.try_send("filler"):
        pass
    pushing = watch(first.push(second))
    await turns()
    assert not pushing.done()
    gate.set()
    error = await holding
    assert isinstance(error, AskCycleError)
    assert "'first'" in str(error)
    assert "Node.note()" in str(error)
    assert await pushing == "in"


async def test_a_wait_for_room_that_closes_a_cycle_sends_nothing(system: ActorSystem, log: list[Any]) -> None:
    class Opener(Node, ask_timeout=None):
        @ask(raises=AskCycleError)
        async def open(self, gate: Event, node: Node) -> str:
            await gate.wait()
            return await node.push(self.me)

    opener, gate = system.options(mailbox=CAP).spawn(Opener, log), Event()
    opening = watch(opener.open(gate, system.spawn(Node)))
    await turns()
    while opener.note.try_send("filler"):
        pass
    gate.set()
    assert isinstance(await opening, AskCycleError)
    await turns()
    assert log == ["filler"] * 3


async def test_a_cycle_with_a_wait_for_an_exit_is_found(system: ActorSystem) -> None:
    first, second = named(system, "first", "second")
    waiting = watch(first.read_end(second))
    await turns()
    with pytest.raises(AskCycleError, match=r"'second' .* asks 'first'"):
        await second.through(first)
    second.stop()
    assert await waiting is ExitReason.NORMAL
    [alone] = named(system, "alone")
    with pytest.raises(AskCycleError):
        await alone.read_end(alone)


async def test_a_cycle_through_the_next_incarnation_is_found(system: ActorSystem) -> None:
    class Fragile(Node, ask_timeout=None):
        @ask
        def fail(self) -> None:
            raise ValueError

    spec = SupervisorSpec(children=[child("fragile", keep_mailbox=True).of(Fragile)])
    fragile = spawn_supervisor(system, spec).handle(Fragile, "fragile")
    [first], gate = named(system, "first"), Event()
    holding, failing = fragile.hold(gate), fragile.fail()
    # It is queued while its target fails, and the next incarnation handles it.
    waiting = watch(first.through(fragile, first))
    await turns()
    gate.set()
    assert await holding == "held"
    assert isinstance(await outcome(failing), TargetEndedError)
    await turns(20)
    assert waiting.done()
    assert isinstance(await waiting, AskCycleError)


# --- not cycles -------------------------------------------------------------------------------------------------------


async def test_an_ask_in_the_background_closes_no_cycle(system: ActorSystem) -> None:
    log: list[Any] = []
    first, second = system.spawn(Node, log), system.spawn(Node)
    first.in_background(second, first)
    await turns(20)
    assert log == ["pong"]
    first.in_background(first, second)
    await turns(20)
    assert log == ["pong", "pong"]


async def test_a_reply_that_is_not_awaited_is_not_a_wait(system: ActorSystem) -> None:
    first, second = system.spawn(Node), system.spawn(Node)
    first.ask_only(second)
    # The second one asks back at once; the first has a reply and does not await it.
    await turns(20)
    assert await first.read_kept() == "pong"


async def test_a_cycle_through_a_task_ends_at_the_deadline(virtual_system: ActorSystem) -> None:
    first, second = named(virtual_system, "first", "second")
    assert await first.through_own_task(second, first) == "deadline"


class Relay(Actor, ask_timeout=None):
    """Answers, and asks back in its next message."""

    def __init__(self) -> None:
        self.asker: Relay | None = None
        self.got: object = None

    @ask
    async def call(self, other: Relay) -> str:
        reply = other.answer(self.me)
        other.call_back()
        return await reply

    @ask
    def answer(self, asker: Relay) -> str:
        self.asker = asker
        return "first"

    @tell
    async def call_back(self) -> None:
        assert self.asker is not None
        self.got = await outcome(self.asker.ping())

    @ask
    def ping(self) -> str:
        return "pong"

    @ask
    def heard(self) -> object:
        return self.got


async def test_an_asker_that_has_its_answer_but_has_not_run_is_not_waiting(system: ActorSystem) -> None:
    """The second one answers and asks back in one visit: the first has not run in between."""
    one, two = system.spawn(Relay), system.spawn(Relay)
    assert await one.call(two) == "first"
    assert await two.heard() == "pong"
