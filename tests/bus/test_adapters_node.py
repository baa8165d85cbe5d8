"""The adapters with a real node behind them: what a client sees, over each of them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from bandstand.bus.memory import Memory
from bandstand.bus.node import Node
from tests.bus.adapters import KINDS, PATIENCE, Venue
from tests.core.support import HostFactory

pytestmark = [
    pytest.mark.spec("C17", "C21"),
    pytest.mark.real_time(reason="a node that stops looks every few milliseconds whether all is done"),
]


class House(Venue):
    """A venue whose adapter is run by a node."""

    def __init__(self, kind: str, factory: HostFactory, directory: Path) -> None:
        self.stack = AsyncExitStack()
        super().__init__(kind, factory, directory)

    async def begin(self) -> None:
        await self.stack.enter_async_context(Node([Memory], adapters=[self.adapter]))

    def close(self, timeout: float = PATIENCE) -> None:
        self.run(self.stack.aclose())


@pytest.fixture(params=KINDS)
def house(request: pytest.FixtureRequest, loop_factory: HostFactory, tmp_path: Path) -> Iterator[House]:
    house = House(request.param, loop_factory, tmp_path)
    try:
        yield house
    finally:
        house.end()


def message(number: int, type_name: str, kind: str = "command", **data: Any) -> bytes:
    metadata = {"id": f"q{number}", "timestamp": 0}
    return json.dumps({"kind": kind, "type": type_name, "data": data, "metadata": metadata}).encode() + b"\n"


def keep(number: int, value: Any = None) -> bytes:
    return message(number, "Memory.Set", key=f"k{number}", value=value)


def ask(number: int) -> bytes:
    return message(1000 + number, "Memory.Get", "query", key=f"k{number}")


def test_many_at_once_are_all_answered_once(house: House) -> None:
    client = house.client()
    client.send(b"".join(keep(number, number) + ask(number) for number in range(500)))
    lines = [client.line() for _ in range(1000)]
    assert {line["kind"] for line in lines} == {"reply"}
    assert len({line["metadata"]["causation"] for line in lines}) == 1000
    values = {
        line["metadata"]["causation"]: line["data"]["value"] for line in lines if line["type"] == "Memory.Get"
    }
    assert values == {f"q{1000 + number}": number for number in range(500)}


@pytest.mark.spec("C10")
def test_what_is_wrong_is_answered_beside_what_is_right(house: House) -> None:
    client = house.client()
    client.send(
        b"nonsense\n"
        b'{"kind":"command","type":"\xff"}\n'
        + b"x" * 3_000_000
        + b"\n"
        + message(1, "Nobody.Knows")
        + message(2, "Memory.Set", key=5)
        + message(3, "Memory.Get", kind="reply", key="a")
        + keep(4)
    )
    lines = [client.line() for _ in range(7)]
    assert sorted(line["type"] for line in lines) == [
        "Memory.Set",
        "Sys.RoutingError",
        *["Sys.SchemaError"] * 5,
    ]
    about = {line["metadata"].get("causation") for line in lines}
    assert about == {None, "q1", "q2", "q3", "q4"}


def test_a_node_that_stops_writes_its_answers_out(house: House) -> None:
    client = house.client()
    client.send(keep(1, "x" * 200_000))
    client.answers(1)
    client.send(ask(1))
    if house.kind == "pipe":
        assert client.answers(1) == ["q1001"]
        house.close()
        return
    stopping = asyncio.run_coroutine_threadsafe(house.stack.aclose(), house.host)
    text = client.rest()
    stopping.result(PATIENCE)
    # It may have come too late to be taken in; but half of an answer it is not.
    assert text == b"" or json.loads(text)["data"]["value"] == "x" * 200_000
