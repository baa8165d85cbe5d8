"""The shop that `make run` serves: orders take from the shelf, and give back what was not paid in time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from bandstand.bus.loading import load_capabilities
from bandstand.bus.node import Node
from bandstand.testing import VirtualClock

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.spec("C12", "C21")


class Shop:
    """The example's node, spoken to as a client would."""

    def __init__(self, node: Node) -> None:
        self.node = node

    async def say(self, kind: Any, type_name: str, **data: object) -> dict[str, Any]:
        raw = Raw(msgspec.json.encode(data))
        answer = await self.node.bus.ask_encoded(kind, type_name, raw, None)
        return {"kind": answer.kind, "type": answer.type, **msgspec.json.decode(answer.data)}

    async def shelf(self) -> dict[str, int]:
        items: dict[str, int] = (await self.say("query", "Shelf.Look"))["items"]
        return items


Visit = Callable[[Callable[[Shop], Awaitable[None]]], None]


@pytest.fixture
def visit(bandstand_clock: VirtualClock, bandstand_leak_check: None) -> Visit:
    def run(guest: Callable[[Shop], Awaitable[None]]) -> None:
        async def main() -> None:
            capabilities = load_capabilities(str(ROOT / "examples/orders.py"))
            async with Node(capabilities, clock=bandstand_clock) as node:
                await guest(Shop(node))

        with asyncio.Runner(loop_factory=bandstand_clock.new_event_loop) as runner:
            runner.run(main())

    return run


def test_an_order_that_is_paid_stays(visit: Visit) -> None:
    async def guest(shop: Shop) -> None:
        assert (await shop.say("command", "Orders.Place", item="teapot", count=2))["order"] == 1
        assert await shop.shelf() == {"teapot": 3, "cup": 24}
        assert (await shop.say("command", "Orders.Pay", order=1))["kind"] == "reply"
        await asyncio.sleep(60)
        assert await shop.shelf() == {"teapot": 3, "cup": 24}

    visit(guest)


def test_an_order_that_is_not_paid_in_time_goes_back_to_the_shelf(visit: Visit) -> None:
    async def guest(shop: Shop) -> None:
        await shop.say("command", "Orders.Place", item="cup")
        await asyncio.sleep(19.9)
        assert await shop.shelf() == {"teapot": 5, "cup": 23}
        await asyncio.sleep(0.2)
        assert await shop.shelf() == {"teapot": 5, "cup": 24}
        late = await shop.say("command", "Orders.Pay", order=1)
        assert (late["type"], late["message"]) == ("Sys.Refused", "there is no unpaid order 1")

    visit(guest)


def test_what_is_not_there_is_refused_with_the_reason(visit: Visit) -> None:
    async def guest(shop: Shop) -> None:
        taken = await shop.say("command", "Shelf.Take", item="teapot", count=6)
        assert (taken["type"], taken["message"]) == ("Sys.Refused", "only 5 of teapot are left, not 6")
        order = await shop.say("command", "Orders.Place", item="teapot", count=6)
        assert order["type"] == "Sys.Refused"
        assert order["message"].endswith(
            "Shelf.Take was answered with Sys.Refused: only 5 of teapot are left, not 6"
        )
        assert await shop.shelf() == {"teapot": 5, "cup": 24}

    visit(guest)
