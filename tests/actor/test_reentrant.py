"""Reentrant asks: chains of any length, failures, cancellations and deadlines."""

from __future__ import annotations

import asyncio
from asyncio import Event
from contextvars import ContextVar
from typing import Any

import pytest

from bandstand.actor import (
    Actor,
    ActorSystem,
    Machine,
    Stash,
    State,
    ask,
    is_alive,
    tell,
)
from bandstand.errors import AskCycleError, AskTimeoutError, DeclarationError, TargetEndedError
from tests.actor.asking import RunSystem, outcome, turns, watch
from tests.core.support import Boom

WHO: ContextVar[str] = ContextVar("WHO", default="nobody")


class Node(Actor, ask_timeout=None):
    """Asks along a path; the last actor asks the first. There is no deadline: a cycle that is not detected hangs."""

    def __init__(self, log: list[Any] | None = None) -> None:
        self.log: list[Any] = [] if log is None else log
        self.inside = 0

    @ask(raises=(AskCycleError, AskTimeoutError))
    async def through(self, *path: Node, what: str = "plain", ms: float | None = None) -> Any:
        """Ask the next one to continue; the last one of the path is asked for `what`."""
        self.inside += 1
        try:
            first, *rest = path
            if rest:
                return await first.through(*rest, what=what, ms=ms)
            return await getattr(first, what).within(ms)()
        finally:
            self.inside -= 1

    @ask
    def closed(self) -> str:
        return "in turn"

    @ask(reentrant=True)
    def plain(self) -> tuple[int, str]:
        return self.inside, WHO.get()

    @ask(reentrant=True)
    async def slow(self) -> tuple[int, str]:
        await turns(3)
        return self.inside, WHO.get()

    @ask(reentrant=True, raises=LookupError)
    async def declared(self) -> str:
        raise LookupError("declared")

    @ask(reentrant=True)
    def broken(self) -> str:
        raise Boom("sync")

    @ask(reentrant=True)
    async def broken_later(self) -> str:
        await asyncio.sleep(0)
        raise Boom("async")

    @ask(reentrant=True)
    async def stuck(self) -> str:
        try:
            await Event().wait()
        except asyncio.CancelledError:
            self.log.append("cancelled")
            raise
        return "never"

    @ask
    async def hold(self, gate: Event, then: Node) -> Any:
        await gate.wait()
        return await then.closed()

    @tell
    async def busy(self, gate: Event) -> None:
        await gate.wait()


@pytest.mark.guarantee("G245")
@pytest.mark.parametrize("length", [0, 1, 2, 5])
@pytest.mark.parametrize("what", ["plain", "slow"])
def test_a_reentrant_ask_may_close_a_cycle(run_everywhere: RunSystem, length: int, what: str) -> None:
    async def story(loop: ActorSystem) -> None:
        first = loop.spawn(Node)
        others = [loop.spawn(Node) for _ in range(length)]
        WHO.set("asker")
        # While the reentrant ask runs, the actor's own handler is suspended.
        assert await first.through(*others, first, what=what) == (1, "asker")
        assert await first.plain() == (0, "asker")

    loop = run_everywhere(story)
    # The child that handled it has exited.
    assert loop.statistics().spawned == 1 + length + 1


@pytest.mark.guarantee("G245")
def test_an_ask_from_outside_the_cycle_waits_for_its_turn(run_everywhere: RunSystem) -> None:
    async def story(loop: ActorSystem) -> None:
        a, gate = loop.spawn(Node), Event()
        a.busy(gate)
        reply = watch(a.plain())
        stranger = watch(loop.spawn(Node).through(a, what="plain"))
        await turns(30)
        assert not reply.done()
        assert not stranger.done()
        gate.set()
        assert (await reply, await stranger) == ((0, "nobody"), (0, "nobody"))

    loop = run_everywhere(story)
    assert loop.statistics().spawned == 2


@pytest.mark.guarantee("G245")
def test_nested_reentrant_asks_are_limited(run_everywhere: RunSystem) -> None:
    class Endless(Actor, ask_timeout=None):
        @ask(reentrant=True, raises=AskCycleError)
        async def again(self) -> int:
            return await self.me.again()

    async def story(loop: ActorSystem) -> None:
        endless = loop.spawn(Endless)
        assert isinstance(await outcome(endless.again()), AskCycleError)
        assert is_alive(endless)

    assert run_everywhere(story).statistics().spawned < 100


@pytest.mark.guarantee("G246")
@pytest.mark.parametrize("what", ["broken", "broken_later"])
async def test_a_failure_in_a_reentrant_ask_fails_the_actor(system: ActorSystem, what: str) -> None:
    a, b = system.spawn(Node), system.spawn(Node)
    behind = a.closed
    asked = watch(a.through(b, a, what=what))
    await turns(3)
    waiting = watch(behind()) if is_alive(a) else None
    error = await asked
    assert isinstance(error, TargetEndedError)
    assert isinstance(error.__cause__, Boom)
    assert "PANIC" in str(error)
    if waiting is not None:
        assert isinstance(await waiting, TargetEndedError)
    await turns()
    assert not is_alive(a)


@pytest.mark.guarantee("G246")
async def test_a_declared_error_of_a_reentrant_ask_is_an_answer(system: ActorSystem) -> None:
    class Brave(Node):
        @ask
        async def start(self, b: Brave) -> str:
            return await b.bounce(self.me)

        @ask
        async def bounce(self, a: Brave) -> str:
            try:
                return await a.declared()
            except LookupError as error:
                return str(error)

    a, b = system.spawn(Brave), system.spawn(Brave)
    assert await a.start(b) == "declared"


@pytest.mark.guarantee("G246")
async def test_cancelling_the_first_ask_cancels_the_whole_chain(system: ActorSystem) -> None:
    log: list[Any] = []
    a, b = system.spawn(Node, log), system.spawn(Node)
    reply = watch(a.through(b, a, what="stuck"))
    await turns()
    assert len(system.waits()) == 2
    reply.cancel()
    await turns()
    assert log == ["cancelled"]
    assert (is_alive(a), is_alive(b), len(system.waits())) == (True, True, 0)
    assert await a.plain() == (0, "nobody")


@pytest.mark.guarantee("G246")
async def test_a_deadline_stops_the_handler_of_a_reentrant_ask(virtual_system: ActorSystem) -> None:
    log: list[Any] = []
    a, b = virtual_system.spawn(Node, log), virtual_system.spawn(Node)
    error = await outcome(a.through(b, a, what="stuck", ms=50))
    assert isinstance(error, AskTimeoutError)
    await turns()
    # The actor's own handler continues alone.
    assert log == ["cancelled"]
    assert await a.plain() == (0, "nobody")


@pytest.mark.guarantee("G246")
@pytest.mark.parametrize("end", ["stop", "kill"])
async def test_the_exit_of_the_actor_ends_its_reentrant_asks(system: ActorSystem, end: str) -> None:
    log: list[Any] = []
    a, b = system.spawn(Node, log), system.spawn(Node)
    reply = watch(a.through(b, a, what="stuck"))
    await turns()
    a.stop() if end == "stop" else a.kill()
    assert isinstance(await reply, TargetEndedError)
    await turns()
    assert log == ["cancelled"]


@pytest.mark.guarantee("G245")
async def test_a_reentrant_ask_cannot_be_stashed_or_postponed(system: ActorSystem) -> None:
    class Moody(Machine, ask_timeout=None):
        @ask
        async def start(self, other: Echo) -> str:
            return await other.bounce(self.me)

        @ask(reentrant=True)
        def mood(self) -> str:
            raise NotImplementedError

        only = State(postpones=(mood,))

    class Keeper(Actor, ask_timeout=None):
        def __init__(self) -> None:
            self.stash = Stash(self)

        @ask
        async def start(self, other: Echo) -> str:
            return await other.bounce(self.me)

        @ask(reentrant=True)
        def mood(self) -> str:
            self.stash.keep()

    class Echo(Actor, ask_timeout=None):
        @ask
        async def bounce(self, back: Any) -> str:
            return type(await outcome(back.mood())).__name__

    echo = system.spawn(Echo)
    assert await system.spawn(Moody).start(echo) == "NotInThisStateError"
    error = await outcome(system.spawn(Keeper).start(echo))
    assert isinstance(error, TargetEndedError)
    assert "out of turn" in str(error)


@pytest.mark.guarantee("G245")
def test_reentrant_must_be_a_bool() -> None:
    wrong: Any = "yes"
    with pytest.raises(DeclarationError, match="reentrant is 'yes'"):
        ask(reentrant=wrong)
