"""Nobody shares data: whatever one does to what it was given, no other sees."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec import Struct

from bandstand.bus import BufferedWorker, Capability, Command, Contract, Event, Message, Query, provide
from bandstand.bus.memory import Get, Memory, Set
from tests.bus.capabilities import watch
from tests.bus.virtual_node import Stage, Stages, staged

pytestmark = [pytest.mark.spec("C13"), pytest.mark.guarantee("G78")]


class Box(Struct):
    items: list[int]


class Boxed(Event, type="Box.Boxed"):
    box: Box


class Put(Command[Box], type="Box.Put"):
    box: Box


class Look(Query[Box], type="Box.Look"):
    pass


class Keeper(Capability):
    """Keeps what it is given, and gives out what it keeps."""

    outbound = Boxed

    def __init__(self) -> None:
        self.box = Box([])

    def put(self, msg: Put) -> Box:
        self.box = msg.box
        event = Boxed(self.box)
        self.bus.emit(event)
        # What was said has been said: this changes nothing of it.
        event.box.items.append(99)
        return self.box

    def look(self, msg: Look) -> Box:
        return self.box


class Vandal(Capability):
    """Changes all it is given."""

    def __init__(self, seen: list[list[int]]) -> None:
        self._seen = seen

    def boxed(self, msg: Boxed) -> None:
        self._seen.append(list(msg.box.items))
        msg.box.items.clear()


class Other(Vandal):
    """Another one."""

    def boxed(self, msg: Boxed) -> None:
        super().boxed(msg)


def vandal(seen: list[list[int]]) -> Contract:
    def handle(message: Message) -> None:
        # Any: what a Worker is given is decoded into the type its contract names.
        data: Any = message.data
        seen.append(list(data.box.items))
        data.box.items.append(-1)

    return Contract(id="Third", description="x", inbound=Boxed, spawn=lambda: BufferedWorker(handle))


async def test_each_subscriber_has_a_copy_of_its_own(stages: Stages) -> None:
    seen: list[list[int]] = []
    async with stages(Keeper, provide(Vandal, seen), provide(Other, seen), vandal(seen)) as stage:
        stage.command("Syscall.Subscribe", {"types": ["*"]})
        await stage.bus.ask(Put(Box([1, 2])))
        await stage.settle()
        assert seen == [[1, 2]] * 3
        assert stage.events("Box.Boxed") == [{"box": {"items": [1, 2]}}]


@pytest.mark.guarantee("G152", "G153")
class TestAsking:
    @staged(Keeper)
    async def test_the_asker_and_the_asked_share_nothing(self, stage: Stage) -> None:
        mine = Box([1, 2])
        theirs = await stage.bus.ask(Put(mine))
        mine.items.append(3)
        assert theirs.items == [1, 2, 99]
        theirs.items.clear()
        assert (await stage.bus.ask(Look())).items == [1, 2, 99]

    @staged(Keeper)
    async def test_what_is_sent_and_changed_at_once_arrives_as_it_was(self, stage: Stage) -> None:
        put = Put(Box([1]))
        stage.bus.send(put)
        put.box.items.append(2)
        await stage.settle()
        assert (await stage.bus.ask(Look())).items == [1, 99]

    @staged(Memory)
    async def test_plain_values_likewise(self, stage: Stage) -> None:
        value: dict[str, Any] = {"list": [1]}
        await stage.bus.ask(Set("k", value))
        value["list"].append(2)
        got = await stage.bus.ask(Get("k"))
        got.value["list"].append(3)
        assert (await stage.bus.ask(Get("k"))).value == {"list": [1]}


class TestWatching:
    @staged(Keeper)
    async def test_what_is_watched_cannot_be_changed(self, stage: Stage) -> None:
        seen = watch(stage)
        await stage.bus.ask(Put(Box([1])))
        with pytest.raises(AttributeError):
            seen[0].type = "Box.Look"  # type: ignore[misc]  # that is the point  # pyright: ignore[reportAttributeAccessIssue]
        with pytest.raises(AttributeError):
            seen[0].metadata.id = "x"  # type: ignore[misc]  # likewise  # pyright: ignore[reportAttributeAccessIssue]
        assert msgspec.json.decode(seen[0].data) == {"box": {"items": [1]}}
