"""Adopting typed actors and supervised trees."""

# A scope may cancel its own block, so names bound in it may be unbound. The scope awaits the tasks.
# ruff: noqa: PT012  # blocks that raise are what this is about
# pyright: reportPossiblyUnboundVariable=false
# mypy: disable-error-code="unused-awaitable, possibly-undefined"

from __future__ import annotations

from typing import Any, Generic, Protocol, TypeVar

import pytest

import bandstand.core
from bandstand.actor import Actor, ActorSystem, Implements, Interface, ask, id_of, tell
from bandstand.actor import child as typed_child
from bandstand.core import Context
from bandstand.errors import InvalidArgumentError, RestartLimitError
from bandstand.scope.scope import Scope
from bandstand.supervision import ChildSpec, RestartPolicy, Supervisor, SupervisorSpec, spawn_supervisor
from bandstand.testing import VirtualClock
from tests.scope.support import Boom, hang, idle, iterate

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


@pytest.fixture
def loop(clock: VirtualClock) -> ActorSystem:
    return ActorSystem(clock=clock)


# --- typed actors -----------------------------------------------------------------------------------------------------


async def test_a_typed_actor_processes_its_mailbox_and_ends_with_the_scope(loop: ActorSystem) -> None:
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


async def test_an_actor_can_have_itself_adopted(loop: ActorSystem) -> None:
    async with Scope() as scope:
        clerk = loop.spawn(Clerk)
        await clerk.move_in(scope)
        assert scope.children == (id_of(clerk),)


async def test_of_a_supervised_actor_the_current_incarnation_is_adopted(loop: ActorSystem) -> None:
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


@pytest.mark.parametrize("kind", [Clerk, Box, Box[int]])
async def test_a_class_is_not_spawned_by_the_scope(kind: Any) -> None:
    async with Scope() as scope:
        for arguments in ((), (5,)):
            with pytest.raises(
                InvalidArgumentError, match=r"start it with loop.spawn\(.*pass the handle to scope.adopt\(\)"
            ):
                scope.spawn(kind, *arguments)
        assert not scope.children


@pytest.mark.parametrize("what", [7, None, Clerk, idle, "clerk"])
async def test_only_actors_can_be_adopted(what: Any) -> None:
    async with Scope() as scope:
        with pytest.raises(InvalidArgumentError, match="pass the ActorId, typed handle or supervisor"):
            scope.adopt(what)


# --- supervised trees -------------------------------------------------------------------------------------------------


def failing(ctx: Context[Any], message: object) -> None:
    raise Boom(message)


def fragile(loop: bandstand.core.Loop, *, name: str = "top") -> Supervisor:
    """A supervisor that gives up at the first failure of its child."""
    return spawn_supervisor(
        loop, SupervisorSpec(children=[ChildSpec("child", run=failing)], max_restarts=0), name=name
    )


@pytest.mark.guarantee("G114")
async def test_an_adopted_supervisor_that_gives_up_fails_the_scope_and_not_the_loop(
    loop: ActorSystem,
) -> None:
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
