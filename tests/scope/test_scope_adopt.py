"""Adopting typed actors and supervised trees."""

# A scope may cancel its own block, so names bound in it may be unbound. The scope awaits the tasks.
# ruff: noqa: PT012  # blocks that raise are what this is about
# pyright: reportPossiblyUnboundVariable=false
# mypy: disable-error-code="unused-awaitable, possibly-undefined"

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

import pytest

import bandstand.core
from bandstand.actor import Actor, ActorSystem, Implements, Interface, ask, id_of, tell
from bandstand.actor import child as typed_child
from bandstand.core import Context
from bandstand.errors import ActorNotLocalError, InvalidArgumentError, NoSuchActorError, RestartLimitError
from bandstand.scope.scope import Scope
from bandstand.supervision import (
    ChildSpec,
    DynamicSpec,
    PartitionSpec,
    RestartPolicy,
    Supervisor,
    SupervisorSpec,
    spawn_supervisor,
)
from bandstand.supervision.supervisor import BaseSupervisor
from bandstand.testing import VirtualClock
from tests.scope.harness import Boom, errors_of, hang, idle, iterate

pytestmark = [pytest.mark.spec("K6"), pytest.mark.guarantee("G113")]

T = TypeVar("T")


class Clerk(Actor):
    """An actor with a typed handle."""

    def __init__(self, log: list[str] | None = None) -> None:
        self.log = [] if log is None else log

    @tell
    def write(self, line: str) -> None:
        self.log.append(line)

    @tell
    def fail(self) -> None:
        raise Boom("clerk")

    @ask
    def move_in(self, scope: Scope) -> None:
        scope.adopt(self)


class Writing(Interface, Protocol):
    """The same, with a separate interface."""

    @tell
    def write(self, line: str) -> None: ...


class Scribe(Implements[Writing]):
    def write(self, line: str) -> None:
        pass


class Box(Actor, Generic[T]):
    """A generic actor."""

    @tell
    def put(self, thing: T) -> None:
        pass


def play(main: Callable[[ActorSystem], Any]) -> None:
    """Run it in virtual time; no actor may be left, and the loop must not fail."""
    clock = VirtualClock()

    async def attached() -> None:
        async with ActorSystem(clock=clock) as loop:
            await main(loop)
            assert loop.statistics().alive == 0

    clock.run(attached())


# --- typed actors -----------------------------------------------------------------------------------------------------


def test_a_typed_actor_processes_its_mailbox_and_ends_with_the_scope() -> None:
    async def main(loop: ActorSystem) -> None:
        log: list[str] = []
        async with Scope() as scope:
            clerk = loop.spawn(Clerk, log)
            scribe = loop.spawn(Scribe)
            scope.adopt(clerk)
            scope.adopt(scribe)
            # Once, by its handle or by its id.
            scope.adopt(id_of(clerk))
            assert scope.children == (id_of(clerk), id_of(scribe))
            clerk.write("last words")
        assert log == ["last words"]

    play(main)


def test_a_typed_actor_that_fails_fails_the_scope() -> None:
    async def main(loop: ActorSystem) -> None:
        with pytest.raises(ExceptionGroup) as caught:
            async with Scope() as scope:
                clerk = loop.spawn(Clerk)
                scope.adopt(clerk)
                clerk.fail()
                await hang()
        assert errors_of(caught) == [repr(Boom("clerk"))]

    play(main)


def test_an_actor_can_have_itself_adopted() -> None:
    async def main(loop: ActorSystem) -> None:
        async with Scope() as scope:
            clerk = loop.spawn(Clerk)
            await clerk.move_in(scope)
            assert scope.children == (id_of(clerk),)

    play(main)


def test_of_a_supervised_actor_the_current_incarnation_is_adopted() -> None:
    async def main(loop: ActorSystem) -> None:
        top = spawn_supervisor(
            loop, SupervisorSpec(children=[typed_child("clerk", restart=RestartPolicy.ON_FAILURE).of(Clerk)])
        )
        clerk = top.handle(Clerk, "clerk")
        before = id_of(clerk)
        clerk.fail()
        await iterate()
        async with Scope() as scope:
            scope.adopt(clerk)
            assert scope.children == (top.child("clerk"),)
            assert scope.children != (before,)
        await iterate()
        top.stop()
        await iterate()

    play(main)


@pytest.mark.parametrize("kind", [Clerk, Box, Box[int]])
def test_a_class_is_not_spawned_by_the_scope(kind: Any) -> None:
    async def main(loop: ActorSystem) -> None:
        async with Scope() as scope:
            for arguments in ((), (5,)):
                with pytest.raises(
                    InvalidArgumentError,
                    match=r"start it with loop.spawn\(.*pass the handle to scope.adopt\(\)",
                ):
                    scope.spawn(kind, *arguments)
            assert not scope.children

    play(main)


@pytest.mark.parametrize("what", [7, None, Clerk, idle, "clerk"])
def test_only_actors_can_be_adopted(what: Any) -> None:
    async def main(loop: ActorSystem) -> None:
        async with Scope() as scope:
            with pytest.raises(InvalidArgumentError, match="pass the ActorId, typed handle or supervisor"):
                scope.adopt(what)

    play(main)


def test_actors_of_other_loops_and_ended_actors_cannot_be_adopted() -> None:
    async def main(loop: ActorSystem) -> None:
        stranger = ActorSystem()
        foreign = stranger.spawn(Clerk)
        ended = loop.spawn(Clerk)
        ended.kill()
        async with Scope() as scope:
            with pytest.raises(ActorNotLocalError):
                scope.adopt(foreign)
            with pytest.raises(NoSuchActorError, match="has ended"):
                scope.adopt(ended)
        stranger.destroy()

    play(main)


# --- supervised trees -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["supervisor", "dynamic", "partition"])
def test_a_supervisor_is_adopted_as_it_was_returned(kind: str) -> None:
    async def main(loop: ActorSystem) -> None:
        one = ChildSpec("one", run=idle)
        async with Scope() as scope:
            top: BaseSupervisor
            if kind == "supervisor":
                top = spawn_supervisor(loop, SupervisorSpec(children=[one]), name="top")
            elif kind == "dynamic":
                top = spawn_supervisor(loop, DynamicSpec(child=one), name="top")
            else:
                top = spawn_supervisor(loop, PartitionSpec(child=one, partitions=2), name="top")
            scope.adopt(top)
            scope.adopt(top.actor)
            assert scope.children == (top.actor,)

    play(main)


def failing(ctx: Context[Any], message: object) -> None:
    raise Boom(message)


def fragile(loop: bandstand.core.Loop, *, name: str = "top") -> Supervisor:
    """A supervisor that gives up at the first failure of its child."""
    return spawn_supervisor(
        loop, SupervisorSpec(children=[ChildSpec("child", run=failing)], max_restarts=0), name=name
    )


@pytest.mark.guarantee("G114")
def test_an_adopted_supervisor_that_gives_up_fails_the_scope_and_not_the_loop() -> None:
    async def main(loop: ActorSystem) -> None:
        with pytest.raises(ExceptionGroup) as caught:
            async with Scope() as scope:
                top = fragile(loop)
                scope.adopt(top)
                loop.send(top.address("child"), "boom")
                await hang()
        (error,) = caught.value.exceptions
        assert isinstance(error, RestartLimitError)
        # The loop still runs, because the scope was responsible for the supervisor.
        await iterate()
        clerk = loop.spawn(Clerk)
        clerk.stop()

    play(main)


@pytest.mark.guarantee("G114")
def test_a_supervisor_that_was_not_adopted_fails_the_loop() -> None:
    async def main(loop: ActorSystem) -> None:
        async with Scope() as scope:
            adopted, other = fragile(loop, name="adopted"), fragile(loop, name="other")
            scope.adopt(adopted)
            loop.send(other.address("child"), "boom")

    with pytest.raises(RestartLimitError, match="other"):
        play(main)


def test_which_actors_a_scope_is_responsible_for() -> None:
    async def main(loop: ActorSystem) -> None:
        actor = loop.spawn_raw(idle)
        assert not loop.kernel.actors.is_exit_handled(actor)
        loop.kernel.actors.set_exit_handled(actor)
        assert loop.kernel.actors.is_exit_handled(actor)
        loop.stop_actor(actor)
        assert not loop.kernel.actors.is_exit_handled(actor)
        again = loop.spawn_raw(idle)
        assert not loop.kernel.actors.is_exit_handled(again)
        loop.stop_actor(again)
        await asyncio.sleep(0)

    play(main)
