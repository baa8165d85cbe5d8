"""An actor that has ended is never found, and its name is free before anyone hears of its end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from bandstand.actor import ActorSystem, id_of
from bandstand.core import ActorStatus
from bandstand.errors import NameTakenError, NoSuchNameError
from bandstand.registry import Registry
from tests.actor.players import turns
from tests.core.support import settle
from tests.registry.actors import Database, Slow, Witness, crash

pytestmark = pytest.mark.guarantee("G203")

ENDS: dict[str, Callable[[ActorSystem, Database], object]] = {
    "stop": lambda loop, handle: handle.stop(),
    "kill": lambda loop, handle: handle.kill(),
    "crash": crash,
    "fail": lambda loop, handle: loop.fail_actor(id_of(handle)),
    "drain": lambda loop, handle: handle.stop(drain=True),
}


def heir_of(loop: ActorSystem, registry: Registry) -> Callable[[], object]:
    """What somebody does who hears of the death: looks the name up, and takes it."""
    heir = loop.spawn(Database)

    def inherit() -> object:
        found = registry.find("db", Database)
        if found is None:
            registry.register("db", heir)
            return registry.get("db", Database) is heir
        return "it is found" if found is not heir else "again"

    return inherit


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("hears", ["Down", "ChildExit"])
def test_the_name_is_free_when_a_watcher_hears_of_the_end(loop: ActorSystem, end: str, hears: str) -> None:
    registry, book = Registry(loop), list[Any]()
    witness = loop.spawn(Witness, heir_of(loop, registry), book)
    database = loop.options(supervisor=witness if hears == "ChildExit" else None).spawn(Database)
    registry.register("db", database)
    if hears == "Down":
        loop.monitor(id_of(witness), id_of(database))
    ENDS[end](loop, database)
    settle(loop)
    assert book == [(hears, True)]


def test_the_name_is_free_in_an_earlier_exit_callback(loop: ActorSystem) -> None:
    """The last to wait for an end is the first to be told of it: here, a future of another thread's, before the registry."""
    registry, book = Registry(loop), list[Any]()
    database = loop.spawn(Database)
    registry.register("db", database)
    inherit = heir_of(loop, registry)
    future = database.ended.future()
    future.add_done_callback(lambda _: book.append(inherit()))
    settle(loop)
    database.stop()
    assert book == [True]
    assert registry.names() == (
        "db",
    )  # the registry, told of the first one's end, has not taken it from the second


async def test_an_actor_in_on_stop_keeps_its_name(loop: ActorSystem) -> None:
    registry = Registry(loop)
    gate = asyncio.Event()
    slow = loop.spawn(Slow, gate)
    registry.register("db", slow)
    slow.stop()
    await turns()
    assert loop.status(id_of(slow)) is ActorStatus.STOPPING
    assert registry.find("db", Database) is None
    with pytest.raises(NoSuchNameError, match=r"'db' is the name of <Slow .*>, which is down or ending"):
        registry.get("db", Database)
    with pytest.raises(NameTakenError, match="ending"):
        registry.register("db", loop.spawn(Database))
    assert registry.names() == ("db",)
    gate.set()
    await slow.ended()
    assert registry.names() == ()
