"""The name of a supervised child belongs to its slot; a name that one incarnation registers belongs to it."""

from __future__ import annotations

import pytest

from bandstand.actor import ActorSystem, child, id_of
from bandstand.errors import NameTakenError, NoSuchNameError
from bandstand.registry import Registry
from bandstand.supervision import Backoff, ChildSpec, DynamicSpec, Strategy, SupervisorSpec, spawn_supervisor
from bandstand.testing import VirtualClock
from tests.actor.workers import one_for_one
from tests.core.support import settle
from tests.registry.actors import Database

pytestmark = pytest.mark.guarantee("G204")


def test_the_name_of_a_child_survives_a_restart(loop: ActorSystem) -> None:
    root = one_for_one(loop, child("db").of(Database))
    registry = Registry(loop)
    handle = root.handle(Database, "db")
    registry.register("db", handle)
    first = id_of(handle)
    handle.crash()
    settle(loop)
    assert registry.get("db", Database) is handle
    assert id_of(handle) != first
    registry.register("db", root.handle(Database, "db"))  # of the same place: the same


def test_a_child_that_is_down_is_not_found(loop: ActorSystem, clock: VirtualClock) -> None:
    root = one_for_one(loop, child("db", backoff=Backoff(initial=0.1)).of(Database))
    registry = Registry(loop)
    handle = root.handle(Database, "db")
    registry.register("db", handle)
    handle.crash()
    settle(loop)
    assert registry.find("db", Database) is None
    assert registry.names() == ("db",)
    with pytest.raises(NoSuchNameError, match="down or ending: use wait"):
        registry.get("db", Database)
    with pytest.raises(NameTakenError):
        registry.register("db", loop.spawn(Database))
    clock.advance(0.2)
    settle(loop)
    assert registry.find("db", Database) is handle


def test_the_name_of_a_dynamic_child(loop: ActorSystem) -> None:
    root = spawn_supervisor(loop, DynamicSpec(child=child("db").of(Database), max_restarts=10))
    registry = Registry(loop)
    root.start_child()
    handle = root.handle(Database, "db-1")
    registry.register("db", handle)
    handle.crash()
    settle(loop)
    assert registry.find("db", Database) is handle
    root.stop_child("db-1")
    settle(loop)
    assert registry.names() == ()


def test_a_child_of_a_restarted_supervisor_keeps_its_name(loop: ActorSystem) -> None:
    """All that stands on the way is new after that, and the name still leads there."""
    inner = SupervisorSpec(
        strategy=Strategy.ONE_FOR_ONE, children=(child("db").of(Database),), max_restarts=0
    )
    root = one_for_one(loop, ChildSpec("inner", inner))
    registry = Registry(loop)
    handle = root.handle(Database, "inner", "db")
    registry.register("db", handle)
    for _ in range(3):
        before = id_of(handle)
        handle.crash()  # the inner one gives up, and the outer one starts it again
        settle(loop)
        assert registry.find("db", Database) is handle
        assert id_of(handle) != before
    root.stop()
    settle(loop)
    assert registry.names() == ()


def test_the_name_is_kept_while_a_supervisor_restarts(loop: ActorSystem) -> None:
    """An observer is told of the new supervisor before that has any child."""
    inner = SupervisorSpec(children=(child("db").of(Database),), max_restarts=0)
    root = one_for_one(loop, ChildSpec("inner", inner))
    registry = Registry(loop)
    handle = root.handle(Database, "inner", "db")
    registry.register("db", handle)
    seen: list[tuple[str | None, tuple[str, ...]]] = []

    class Looker:
        def on_actor_start(self, id: object, name: str | None) -> None:  # noqa: A002 -- the hook's own name
            seen.append((name, registry.names()))

    loop.set_observer(Looker())
    handle.crash()
    settle(loop)
    assert seen == [("inner", ("db",)), ("db", ("db",))]
    assert registry.find("db", Database) is handle


def test_a_name_of_one_incarnation_ends_with_it(loop: ActorSystem) -> None:
    registry = Registry(loop)

    class Selfish(Database):
        def on_start(self) -> None:
            registry.register("db", self.me)

    root = one_for_one(loop, child("db").of(Selfish))
    first = registry.get("db", Selfish)
    first.crash()
    settle(loop)
    second = registry.get(
        "db", Selfish
    )  # its next incarnation has registered itself in turn: the name was free
    assert id_of(second) != id_of(first)
    root.stop()
    settle(loop)
    assert registry.names() == ()
