"""Names: registered, found by class, refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from bandstand.actor import ActorSystem
from bandstand.core import Loop as CoreLoop
from bandstand.errors import (
    ActorNotLocalError,
    InvalidArgumentError,
    LoopClosedError,
    NameTakenError,
    NoSuchActorError,
    NoSuchNameError,
    WrongThreadError,
)
from bandstand.registry import Registry
from tests.actor.players import elsewhere
from tests.registry.actors import Clerk, Database, Replica

pytestmark = pytest.mark.guarantee("G202")

LoopMaker = Callable[..., ActorSystem]


def test_a_name_finds_its_actor(loop: ActorSystem) -> None:
    registry = Registry(loop)
    database = loop.spawn(Database)
    registry.register("db", database)
    assert registry.find("db", Database) is database
    assert registry.get("db", Database) is database
    assert registry.names() == ("db",)
    assert registry.find("other", Database) is None
    assert "1 names" in repr(registry)


def test_a_taken_name_is_an_error_with_its_owner(loop: ActorSystem) -> None:
    registry = Registry(loop)
    first = loop.options(name="first").spawn(Database)
    registry.register("db", first)
    with pytest.raises(NameTakenError, match=r"'db' is the name of <Database 'first'"):
        registry.register("db", loop.spawn(Database))
    assert registry.find("db", Database) is first


def test_a_derived_class_is_found_by_its_base(loop: ActorSystem) -> None:
    registry = Registry(loop)
    replica = loop.spawn(Replica)
    registry.register("db", replica)
    assert registry.find("db", Database) == replica
    registry.register("base", loop.spawn(Database))
    with pytest.raises(InvalidArgumentError, match="'base' is a Database, not a Replica"):
        registry.find("base", Replica)


def test_another_class_is_refused_naming_both(loop: ActorSystem) -> None:
    registry = Registry(loop)
    registry.register("db", loop.spawn(Database))
    for look in (registry.find, registry.get):
        with pytest.raises(InvalidArgumentError, match="'db' is a Database, not a Clerk"):
            look("db", Clerk)
    with pytest.raises(InvalidArgumentError, match="not an actor class"):
        registry.find("db", int)  # type: ignore[arg-type]  # what is tested


def test_an_unknown_name_suggests_close_ones(loop: ActorSystem) -> None:
    registry = Registry(loop)
    registry.register("database", loop.spawn(Database))
    with pytest.raises(NoSuchNameError, match=r"no actor has the name 'databsae'; did you mean 'database'\?"):
        registry.get("databsae", Database)
    with pytest.raises(LookupError):
        registry.get("x", Database)


def test_wrong_actors_are_refused(loop: ActorSystem, make_loop: LoopMaker) -> None:
    registry = Registry(loop)
    raw = loop.spawn_raw(lambda ctx, data: None)
    ended = loop.spawn(Database)
    ended.stop()
    with pytest.raises(InvalidArgumentError, match="id of a raw actor"):
        registry.register("raw", raw)  # type: ignore[arg-type]  # what is tested
    with pytest.raises(InvalidArgumentError, match="is not a handle"):
        registry.register("it", Database())
    with pytest.raises(NoSuchActorError, match="has ended"):
        registry.register("ended", ended)
    with pytest.raises(ActorNotLocalError):
        registry.register("far", make_loop().spawn(Database))
    with pytest.raises(InvalidArgumentError, match="name is ''"):
        registry.register("", loop.spawn(Database))
    assert registry.names() == ()


@pytest.mark.parametrize("name", [5, [], None, ""])
def test_wrong_names_are_refused(loop: ActorSystem, name: Any) -> None:
    registry = Registry(loop)
    for look in (
        lambda: registry.find(name, Database),
        lambda: registry.get(name, Database),
        lambda: registry.unregister(name),
    ):
        with pytest.raises(InvalidArgumentError, match=r"name is .*: pass a string that is not empty"):
            look()


def test_calls_need_the_thread_of_an_open_loop(loop: ActorSystem) -> None:
    registry = Registry(loop)
    database = loop.spawn(Database)
    for deed in (
        lambda: registry.register("db", database),
        lambda: registry.find("db", Database),
        lambda: registry.unregister("db"),
        registry.names,
        lambda: registry.group("g", Database),
        lambda: Registry(loop),
    ):
        with pytest.raises(WrongThreadError):
            elsewhere(deed)
    registry.register("db", database)
    loop.destroy()
    assert registry.find("db", Database) is None
    assert registry.names() == ()
    with pytest.raises(LoopClosedError):
        registry.register("db", database)


def test_a_loop_without_typed_actors_has_no_registry() -> None:
    raw = CoreLoop()
    with pytest.raises(InvalidArgumentError, match="cannot run typed actors"):
        Registry(raw)  # type: ignore[arg-type]  # what is tested
    raw.destroy()


def test_repeated_registration_leaks_nothing(loop: ActorSystem) -> None:
    """What waits for an end is taken back with the name: no heap of it grows in the actor."""
    registry = Registry(loop)
    database = loop.spawn(Database)
    for _ in range(1000):
        registry.register("db", database)
        registry.register("db", database)
        registry.unregister("db")
    database.stop()
    assert registry.names() == ()
