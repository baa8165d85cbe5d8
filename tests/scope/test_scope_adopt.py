"""Scopes and the rooms above: typed actors and supervised trees that a scope takes in."""

# A block may end before its end, by its own cancellation: what is bound in it may not be. Tasks are the scope's to wait for.
# ruff: noqa: PT012  # blocks that raise are what this is about
# pyright: reportPossiblyUnboundVariable=false
# mypy: disable-error-code="unused-awaitable, possibly-undefined"

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

import pytest

import bandstand.core
from bandstand.actor import Actor, Implements, Interface, Loop, ask, data, id_of, supervised
from bandstand.actor import child as typed_child
from bandstand.core import Context
from bandstand.core.lifelines import answer_for, is_answered_for
from bandstand.errors import ActorNotLocal, GaveUp, InvalidArgument, NoSuchActor
from bandstand.scope.scope import Scope
from bandstand.supervision import (
    ChildMode,
    ChildSpec,
    DynamicSpec,
    PartitionSpec,
    Supervisor,
    SupervisorSpec,
    spawn_supervisor,
)
from bandstand.supervision.supervisor import BaseSupervisor
from bandstand.testing import VirtualClock
from tests.scope.scoping import Boom, errors_of, hang, idle, turns

pytestmark = [pytest.mark.spec("K6"), pytest.mark.guarantee("G113")]

T = TypeVar("T")


class Clerk(Actor):
    """An actor with a typed handle."""

    def __init__(self, log: list[str] | None = None) -> None:
        self.log = [] if log is None else log

    @data
    def write(self, line: str) -> None:
        self.log.append(line)

    @data
    def fail(self) -> None:
        raise Boom("clerk")

    @ask
    def move_in(self, scope: Scope) -> None:
        scope.adopt(self)


class Writing(Interface, Protocol):
    """The same, with the interface apart."""

    @data
    def write(self, line: str) -> None: ...


class Scribe(Implements[Writing]):
    def write(self, line: str) -> None:
        pass


class Box(Actor, Generic[T]):
    """A generic one."""

    @data
    def put(self, thing: T) -> None:
        pass


def play(main: Callable[[Loop], Any]) -> None:
    """Run it in virtual time; nobody may be left, and nothing may fail the loop."""
    clock = VirtualClock()

    async def ridden() -> None:
        async with Loop(clock=clock) as loop:
            await main(loop)
            assert loop.statistics().alive == 0

    clock.run(ridden())


# --- typed actors -----------------------------------------------------------------------------------------------------


def test_a_typed_actor_finishes_its_mailbox_and_ends_with_the_scope() -> None:
    async def main(loop: Loop) -> None:
        log: list[str] = []
        async with Scope() as scope:
            clerk = loop.spawn(Clerk, log)
            scribe = loop.spawn(Scribe)
            scope.adopt(clerk)
            scope.adopt(scribe)
            # Once, whatever it is called by.
            scope.adopt(id_of(clerk))
            assert scope.children == (id_of(clerk), id_of(scribe))
            clerk.write("last words")
        assert log == ["last words"]

    play(main)


def test_a_typed_actor_that_fails_is_the_scopes_error() -> None:
    async def main(loop: Loop) -> None:
        with pytest.raises(ExceptionGroup) as caught:
            async with Scope() as scope:
                clerk = loop.spawn(Clerk)
                scope.adopt(clerk)
                clerk.fail()
                await hang()
        assert errors_of(caught) == [repr(Boom("clerk"))]

    play(main)


def test_an_actor_has_itself_adopted() -> None:
    async def main(loop: Loop) -> None:
        async with Scope() as scope:
            clerk = loop.spawn(Clerk)
            await clerk.move_in(scope)
            assert scope.children == (id_of(clerk),)

    play(main)


def test_of_a_supervised_one_the_present_incarnation_is_meant() -> None:
    async def main(loop: Loop) -> None:
        top = spawn_supervisor(
            loop, SupervisorSpec(children=[typed_child("clerk", mode=ChildMode.TRANSIENT).of(Clerk)])
        )
        clerk = supervised(top, Clerk, "clerk")
        before = id_of(clerk)
        clerk.fail()
        await turns()
        async with Scope() as scope:
            scope.adopt(clerk)
            assert scope.children == (top.child("clerk"),)
            assert scope.children != (before,)
        await turns()
        top.stop()
        await turns()

    play(main)


@pytest.mark.parametrize("kind", [Clerk, Box, Box[int]])
def test_a_class_is_not_spawned_by_the_scope(kind: Any) -> None:
    async def main(loop: Loop) -> None:
        async with Scope() as scope:
            for arguments in ((), (5,)):
                with pytest.raises(
                    InvalidArgument, match=r"start it with loop.spawn\(.*give the handle to scope.adopt\(\)"
                ):
                    scope.spawn(kind, *arguments)
            assert not scope.children

    play(main)


@pytest.mark.parametrize("what", [7, None, Clerk, idle, "clerk"])
def test_what_is_no_actor_is_not_adopted(what: Any) -> None:
    async def main(loop: Loop) -> None:
        async with Scope() as scope:
            with pytest.raises(InvalidArgument, match="pass an ActorId, a typed handle or a supervisor"):
                scope.adopt(what)

    play(main)


def test_what_is_elsewhere_or_has_ended_is_not_adopted() -> None:
    async def main(loop: Loop) -> None:
        stranger = Loop()
        foreign = stranger.spawn(Clerk)
        ended = loop.spawn(Clerk)
        ended.kill()
        async with Scope() as scope:
            with pytest.raises(ActorNotLocal):
                scope.adopt(foreign)
            with pytest.raises(NoSuchActor, match="has ended"):
                scope.adopt(ended)
        stranger.destroy()

    play(main)


# --- supervised trees -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["supervisor", "dynamic", "partition"])
def test_a_supervisor_is_adopted_as_it_was_returned(kind: str) -> None:
    async def main(loop: Loop) -> None:
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
        loop, SupervisorSpec(children=[ChildSpec("child", run=failing)], intensity=0), name=name
    )


@pytest.mark.guarantee("G114")
def test_that_an_adopted_supervisor_gives_up_is_the_scopes_error_and_nobody_elses() -> None:
    async def main(loop: Loop) -> None:
        with pytest.raises(ExceptionGroup) as caught:
            async with Scope() as scope:
                top = fragile(loop)
                scope.adopt(top)
                loop.send(top.address("child"), "boom")
                await hang()
        (error,) = caught.value.exceptions
        assert isinstance(error, GaveUp)
        # The loop goes on: the end was somebody's to hear.
        await turns()
        clerk = loop.spawn(Clerk)
        clerk.stop()

    play(main)


@pytest.mark.guarantee("G114")
def test_one_that_was_not_adopted_still_fails_the_loop() -> None:
    async def main(loop: Loop) -> None:
        async with Scope() as scope:
            adopted, other = fragile(loop, name="adopted"), fragile(loop, name="other")
            scope.adopt(adopted)
            loop.send(other.address("child"), "boom")

    with pytest.raises(GaveUp, match="other"):
        play(main)


def test_who_is_answered_for() -> None:
    async def main(loop: Loop) -> None:
        actor = loop.spawn(idle)
        assert not is_answered_for(loop, actor)
        answer_for(loop, actor)
        assert is_answered_for(loop, actor)
        loop.stop_actor(actor)
        assert not is_answered_for(loop, actor)
        again = loop.spawn(idle)
        assert not is_answered_for(loop, again)
        loop.stop_actor(again)
        await asyncio.sleep(0)

    play(main)
