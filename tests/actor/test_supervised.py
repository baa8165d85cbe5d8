"""Typed actors under supervisors of every kind."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from bandstand.actor import Actor, ActorSystem, child, is_alive
from bandstand.core import Loop as CoreLoop
from bandstand.errors import (
    BandstandError,
    InvalidArgumentError,
    NoSuchChildError,
    RestartLimitError,
    StartError,
    TargetEndedError,
    WrongThreadError,
)
from bandstand.supervision import (
    ChildSpec,
    DynamicSpec,
    RestartPolicy,
    SupervisorSpec,
    spawn_supervisor,
)
from bandstand.testing import VirtualClock
from tests.actor.players import Book, Noter, elsewhere, ride, turns
from tests.actor.workers import Worker, one_for_one
from tests.core.support import Boom, settle

pytestmark = [pytest.mark.guarantee("G67"), pytest.mark.spec("J21")]

LoopMaker = Callable[..., ActorSystem]


@pytest.fixture(autouse=True)
def first_incarnation() -> None:
    Worker.born = 0


# --- under every kind of supervisor ---------------------------------------------------------------------------------------


async def test_a_panic_is_a_failure_under_its_supervisor(loop: ActorSystem, book: Book) -> None:
    root = one_for_one(loop, child("worker").of(Worker, book, start=3))
    handle = root.handle(Worker, "worker")
    assert await handle.arguments() == (3,)
    assert await handle.incarnation() == 1
    with pytest.raises(TargetEndedError, match=r"PANIC.*Boom") as caught:
        await handle.crash_ask()
    assert isinstance(caught.value.__cause__, Boom)
    assert await handle.incarnation() == 2  # a new object, from the same arguments
    assert await handle.arguments() == (3,)


async def test_a_dynamic_supervisor_appends_the_childs_arguments(loop: ActorSystem) -> None:
    root = spawn_supervisor(loop, DynamicSpec(child=child("session").of(Worker, [], 3), max_restarts=10))
    root.start_child("ann", 1)
    root.start_child()
    ann = root.handle(Worker, "session-1")
    nobody = root.handle(Worker, "session-2")
    assert await ann.arguments() == (3, "ann", 1)
    assert await nobody.arguments() == (3,)
    ann.crash()
    await ann.ended()
    await turns()
    assert await ann.arguments() == (3, "ann", 1)
    assert await ann.incarnation() == 3
    with pytest.raises(NoSuchChildError, match="session-3"):
        root.handle(Worker, "session-3")


def test_arguments_that_the_constructor_does_not_take_fail_the_start(loop: ActorSystem) -> None:
    root = spawn_supervisor(loop, DynamicSpec(child=child("noter").each_of(Noter, [])))
    with pytest.raises(StartError) as caught:
        root.start_child("too many")
    assert isinstance(caught.value.__cause__, TypeError)
    assert root.children() == ()


# --- errors ---------------------------------------------------------------------------------------------------------------


def test_a_core_loop_is_refused_with_a_clear_error(clock: VirtualClock) -> None:
    with CoreLoop(clock=clock) as loop:
        spec = SupervisorSpec(children=[child("worker").of(Worker, [])])
        with pytest.raises(StartError) as caught:
            spawn_supervisor(loop, spec)
        causes: list[str] = []
        error: BaseException | None = caught.value
        while error is not None:
            causes.append(str(error))
            error = error.__cause__
        assert any("use bandstand.ActorSystem" in cause for cause in causes)


def test_supervised_needs_a_loop_with_typed_actors(clock: VirtualClock) -> None:
    with CoreLoop(clock=clock) as loop:
        root = spawn_supervisor(loop, SupervisorSpec(children=[ChildSpec("raw", lambda ctx, data: None)]))
        with pytest.raises(InvalidArgumentError, match=r"bandstand\.ActorSystem"):
            root.handle(Worker, "raw")


def test_supervised_refuses_wrong_arguments(loop: ActorSystem) -> None:
    inner: ChildSpec[Any] = ChildSpec("inner", SupervisorSpec(children=[child("deep").of(Worker, [])]))
    root = one_for_one(loop, child("worker").of(Worker, []), inner)
    settle(loop)
    untyped: Any = root
    with pytest.raises(InvalidArgumentError, match="name of a child"):
        root.handle(Worker)
    with pytest.raises(InvalidArgumentError, match="not an actor class"):
        untyped.handle(int, "worker")
    with pytest.raises(NoSuchChildError, match="nobody"):
        root.handle(Worker, "nobody")
    with pytest.raises(NoSuchChildError, match="not a supervisor"):
        root.handle(Worker, "worker", "below")
    with pytest.raises(NoSuchChildError, match="nobody"):
        root.handle(Worker, "inner", "nobody")
    with pytest.raises(WrongThreadError):
        elsewhere(lambda: root.handle(Worker, "worker"))


@pytest.mark.parametrize("path", [("worker",), ("inner", "deep"), ("raw",)])
def test_a_child_of_another_class_is_refused(loop: ActorSystem, path: tuple[str, ...]) -> None:
    inner: ChildSpec[Any] = ChildSpec("inner", SupervisorSpec(children=[child("deep").of(Worker, [])]))
    raw: ChildSpec[Any] = ChildSpec("raw", lambda ctx, data: None)
    root = one_for_one(loop, child("worker").of(Worker, []), inner, raw)
    settle(loop)
    with pytest.raises(InvalidArgumentError, match="Noter"):
        root.handle(Noter, *path)


@pytest.mark.parametrize("kind", [int, "Worker", None, Actor.stop])
def test_of_takes_only_actor_classes(kind: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="not an actor class"):
        child("worker").of(kind)


def test_invalid_options_are_refused_when_the_spec_is_made() -> None:
    with pytest.raises(InvalidArgumentError, match="restart is NEVER"):
        child("worker", restart=RestartPolicy.NEVER, keep_mailbox=True).of(Worker, [])
    with pytest.raises(InvalidArgumentError, match="name"):
        child("").of(Worker, [])
    with pytest.raises(InvalidArgumentError, match="mailbox"):
        child("worker", mailbox=-1).of(Worker, [])


# --- crash loops ------------------------------------------------------------------------------------------------------------


def test_a_handle_below_a_root_that_gave_up_is_refused(loop: ActorSystem) -> None:
    root = one_for_one(loop, child("worker").of(Worker, []), max_restarts=0)
    settle(loop)
    handle = root.handle(Worker, "worker")
    handle.crash()
    with pytest.raises(RestartLimitError):
        settle(loop)
    with pytest.raises(BandstandError):
        handle.note("lost")
    assert handle.note.try_send("lost") is False
    assert not is_alive(handle)
    handle.stop()
    handle.kill()


def test_asks_of_a_tree_that_gives_up_all_end(make_loop: LoopMaker) -> None:
    loop = make_loop()
    replies: list[Any] = []

    async def body() -> None:
        root = one_for_one(
            loop, child("worker").of(Worker, []), child("other").of(Worker, []), max_restarts=0
        )
        worker, other = root.handle(Worker, "worker"), root.handle(Worker, "other")
        worker.crash()
        replies.extend([worker.incarnation(), other.incarnation()])
        await asyncio.Event().wait()

    with pytest.raises(RestartLimitError):
        ride(loop, body)
    assert all(reply.done() for reply in replies)
    assert loop.ask_statistics().pending == 0
