"""A handler that would wait for itself is told so at once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from bandstand.bus import Capability, Command
from bandstand.errors import RequestFailedError
from tests.bus.capabilities import Told
from tests.bus.virtual_node import Stage, staged

pytestmark = [pytest.mark.spec("C11"), pytest.mark.guarantee("G90")]


class ToA(Command[str], type="A.Go"):
    way: list[str] = []  # noqa: RUF012  # a Struct copies it


class ToB(Command[str], type="B.Go"):
    way: list[str] = []  # noqa: RUF012  # a Struct copies it


class ToC(Command[str], type="C.Go"):
    way: list[str] = []  # noqa: RUF012  # a Struct copies it


TO: dict[str, Any] = {"A": ToA, "B": ToB, "C": ToC}


class Link(Capability):
    """Asks the next one of the way, and tells what came of it."""

    outbound = ToA | ToB | ToC | Told

    async def ask_on(self, way: list[str]) -> str:
        if not way:
            return "the end"
        try:
            how, _, name = way[0].rpartition(" ")
            asked = self.bus.ask(TO[name](way[1:]), timeout=5)
            (answer,) = await asyncio.gather(asked) if how else [await asked]
        except RequestFailedError as error:
            return f"{error.type}: {error}"
        return str(answer)


class A(Link):
    """The first."""

    async def go(self, msg: ToA) -> str:
        return await self.ask_on(msg.way)

    async def told(self, msg: Told) -> None:
        self.bus.emit(Told2(await self.ask_on(["A"])))


class Told2(Told, type="A.Told"):
    pass


A.outbound = Link.outbound | Told2


class B(Link):
    """The second."""

    async def go(self, msg: ToB) -> str:
        return await self.ask_on(msg.way)


class C(Link):
    """The third."""

    async def go(self, msg: ToC) -> str:
        return await self.ask_on(msg.way)


@pytest.mark.parametrize(
    ("way", "words"),
    [
        (["A"], "A (A.Go) asks A (A.Go)"),
        (["B", "A"], "B (B.Go) asks A (A.Go) asks B (B.Go)"),
        (["B", "C", "B"], "C (C.Go) asks B (B.Go) asks C (C.Go)"),
    ],
)
@staged(A, B, C)
async def test_who_would_wait_for_itself_is_told_the_way(stage: Stage, way: list[str], words: str) -> None:
    before = stage.now_ms
    answer = await stage.bus.ask(ToA(way))
    assert answer.startswith("Sys.Cycle")
    assert words in answer
    assert stage.now_ms - before < 1
    # And nobody is stuck.
    assert await stage.bus.ask(ToA(["B", "C"])) == "the end"


class Left(Command[None], type="Left.Go"):
    """Ask the right side."""


class Right(Command[None], type="Right.Go"):
    """Ask the left side."""


class LeftSide(Capability):
    """Asks the right side after a while."""

    id = "Left"
    outbound = Right

    async def go(self, _msg: Left) -> None:
        await asyncio.sleep(0.01)
        await self.bus.ask(Right())


class RightSide(Capability):
    """Asks the left side after a while."""

    id = "Right"
    outbound = Left

    async def go(self, _msg: Right) -> None:
        await asyncio.sleep(0.01)
        await self.bus.ask(Left())


class TestOthers:
    @staged(LeftSide, RightSide)
    async def test_handlers_of_two_requests_that_ask_each_other_are_a_cycle(self, stage: Stage) -> None:
        asked = [stage.command("Left.Go"), stage.command("Right.Go")]
        await stage.wait(100)
        answers = [stage.answer(name) for name in asked]
        # A handler that is not answered refuses its request, and does not fail.
        assert all(answer.type == "Sys.Refused" for answer in answers)
        assert (await stage.health("Left")).crashes == (await stage.health("Right")).crashes == 0
        assert any(b"Sys.Cycle" in bytes(answer.data) for answer in answers)

    @staged(A, B, C)
    async def test_two_who_ask_the_same_are_no_cycle(self, stage: Stage) -> None:
        first = asyncio.ensure_future(stage.bus.ask(ToA(["C"])))
        assert await stage.bus.ask(ToB(["C"])) == await first == "the end"

    @staged(A, B, C)
    async def test_what_another_task_asks_has_its_deadline(self, stage: Stage) -> None:
        assert (await stage.bus.ask(ToA(["gathered B", "gathered A"]))).startswith("Sys.Timeout")
        assert await stage.bus.ask(ToA(["B", "C"])) == "the end"

    @staged(A, B, C)
    async def test_the_handler_of_an_event_would_wait_for_itself_as_well(self, stage: Stage) -> None:
        stage.command("Syscall.Subscribe", {"types": ["A.Told"]})
        stage.event("Cast.Told")
        await stage.wait(100)
        (told,) = stage.events("A.Told")
        assert told["text"].startswith("Sys.Cycle")
