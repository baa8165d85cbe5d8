"""Everything passes one place, where it can be watched and is written down."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from bandstand.bus import Frame, MemoryLog
from bandstand.bus.memory import Memory
from bandstand.errors import InvalidMessageError
from tests.bus.capabilities import Player, watch
from tests.bus.virtual_node import Stage, Stages, staged

pytestmark = [pytest.mark.spec("C26"), pytest.mark.guarantee("G88")]


class TestTap:
    @staged(Player)
    async def test_it_sees_all_of_it_and_where_it_goes(self, stage: Stage) -> None:
        seen: list[tuple[str, str, str]] = []
        stage.node.tap(lambda frame, where: seen.append((frame.kind, frame.type, where)))
        stage.command("Cast.Do", {"what": "emit"})
        stage.query("Cast.Nothing")
        stage.command("Cast.Do", {"what": "refuse"})
        stage.query("Cast.Echo", {"text": 5})
        await stage.settle()
        told = ("event", "Cast.Told", "none")
        assert sorted(seen) == sorted(
            [
                ("command", "Cast.Do", "Cast"),
                told,
                told,
                ("reply", "Cast.Do", "requester"),
                ("query", "Cast.Nothing", "none"),
                ("error", "Sys.RoutingError", "requester"),
                ("command", "Cast.Do", "Cast"),
                told,
                ("error", "Sys.Refused", "requester"),
                ("query", "Cast.Echo", "Cast"),
                ("error", "Sys.SchemaError", "requester"),
            ]
        )

    @staged(Player)
    async def test_it_sees_the_answers_to_refused_messages_and_so_does_the_log(self, stage: Stage) -> None:
        client = stage.connect()
        seen: list[tuple[str, str]] = []
        stage.node.tap(lambda frame, where: seen.append((frame.type, where)))
        stage.adapter.ingress.refuse(client, InvalidMessageError.of("not a message"))
        client.say("reply", "Cast.Do")
        client.event("Sys.HealthTick")
        await stage.settle()
        assert seen.count(("Sys.SchemaError", client.name)) == 2
        assert ("Sys.RoutingError", "requester") in seen
        assert sum(frame.type == "Sys.SchemaError" for frame in stage.node.recent()) == 2


class Book:
    """A log of somebody's own, which can fail."""

    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self.is_broken = False
        self.is_closed = False

    def append(self, frame: Frame) -> None:
        if self.is_broken:
            raise OSError("the disk is full")
        self.frames.append(frame)

    def lineage(self, name: str, limit: int) -> Sequence[Frame]:
        return ()

    def recent(self, limit: int) -> Sequence[Frame]:
        return self.frames[-limit:]

    def close(self) -> None:
        self.is_closed = True
        if self.is_broken:
            raise OSError("the disk is full")


class TestLog:
    async def test_another_log_can_take_its_place(self, stages: Stages) -> None:
        book = Book()
        async with stages(Memory, log=book) as stage:
            seen = watch(stage)
            stage.command("Memory.Set", {"key": "a", "value": 1})
            await stage.settle()
            assert book.frames[-3:] == seen
            assert [frame.type for frame in seen] == ["Memory.Set", "Memory.Changed", "Memory.Set"]
        assert book.is_closed

    async def test_a_log_that_fails_fails_alone(self, stages: Stages) -> None:
        book = Book()
        async with stages(Memory, log=book, hush=True) as stage:
            book.is_broken = True
            asked = stage.command("Memory.Set", {"key": "a", "value": 1})
            stage.event("A.B")
            await stage.settle()
            stage.reply(asked)
        assert book.is_closed

    @pytest.mark.guarantee("G80")
    @staged(Memory)
    async def test_a_log_that_cannot_be_read_is_a_refusal_and_no_crash(self, stage: Stage) -> None:
        class Broken(MemoryLog):
            def recent(self, limit: int) -> tuple[Frame, ...]:
                raise OSError("disk")

        stage.node._router.log = Broken()  # pyright: ignore[reportPrivateUsage]  # the stage has no door for it
        assert "disk" in (await stage.fault_of("Sys.Refused", "query", "Syscall.Recent")).message
        assert (await stage.health("Syscall")).crashes == 0
