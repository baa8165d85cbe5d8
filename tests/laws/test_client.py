"""The client: whatever connections do, each call ends once, and a stream reports what it has missed."""

from __future__ import annotations

import asyncio
import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bandstand.bus import ClientConfig, Gap, connect
from bandstand.bus.client.subscription import EventBuffer
from bandstand.errors import BandstandError
from bandstand.supervision import Backoff
from bandstand.testing import VirtualClock


@pytest.mark.guarantee("G189")
@given(
    limit=st.integers(1, 4),
    steps=st.lists(st.sampled_from(["put", "put", "put", "take", "lag", "reconnect"]), max_size=60),
)
def test_what_is_read_and_what_is_missed_is_all_there_was(limit: int, steps: list[str]) -> None:
    stream: EventBuffer[int] = EventBuffer(limit)
    read: list[int | Gap] = []
    put = lagged = reconnects = 0

    async def act() -> None:
        nonlocal put, lagged, reconnects
        for step in steps:
            match step:
                case "put":
                    stream.put(put)
                    put += 1
                case "lag":
                    stream.add_gap(Gap("lagged", 2))
                    lagged += 2
                case "reconnect":
                    stream.add_gap(Gap("reconnected"))
                    reconnects += 1
                case _ if stream.has_next():
                    read.append(await stream.get())
                case _:
                    pass
            assert len(stream) <= limit
            assert len(stream._items) <= 4 * (limit + 1)  # pyright: ignore[reportPrivateUsage]  # gaps included
        stream.end()
        while stream.has_next():
            read.append(await stream.get())

    asyncio.run(act())
    assert positions_of(read) == put
    gaps = [item for item in read if isinstance(item, Gap)]
    assert sum(item.missed or 0 for item in gaps if item.why == "lagged") == lagged
    assert any(item.why == "reconnected" for item in gaps) == bool(reconnects)


def positions_of(read: list[int | Gap]) -> int:
    """Return how many items were read or reported as missed; each must be at its own place."""
    expected = 0
    for item in read:
        if isinstance(item, Gap):
            if item.why == "overflow":
                assert item.missed is not None
                expected += item.missed
        else:
            assert item == expected, "what is missing stands where it is missing"
            expected += 1
    return expected


class FlakyNode:
    """A node that answers each request, disconnects before or after it, or is silent."""

    def __init__(self, behaviors: list[str]) -> None:
        self.behaviors = list(behaviors)
        self.seen: dict[str, set[str]] = {}

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                request = json.loads(line)
                name, type_name = request["metadata"]["id"], request["type"]
                behavior = (
                    "answer" if type_name == "Syscall.Ping" or not self.behaviors else self.behaviors.pop(0)
                )
                if type_name != "Syscall.Ping":
                    self.seen.setdefault(name, set()).add(json.dumps([type_name, request["data"]]))
                if behavior in {"answer", "answer and go", "twice"}:
                    metadata = {"id": "r", "timestamp": 1, "causation": name}
                    frame = {
                        "kind": "reply",
                        "type": type_name,
                        "data": request["data"],
                        "metadata": metadata,
                    }
                    writer.write((json.dumps(frame).encode() + b"\n") * (2 if behavior == "twice" else 1))
                if behavior in {"go", "answer and go"}:
                    await writer.drain()
                    return
        except ConnectionError:
            return
        finally:
            writer.close()


@pytest.mark.spec("C23")
@pytest.mark.guarantee("G186", "G187")
@settings(max_examples=40)
@given(
    behaviors=st.lists(st.sampled_from(["answer", "go", "answer and go", "twice", "silent"]), max_size=30),
    calls=st.integers(1, 12),
    window=st.integers(1, 5),
    cancelled=st.sets(st.integers(0, 11)),
)
def test_each_call_has_one_end_of_its_own(
    behaviors: list[str], calls: int, window: int, cancelled: set[int]
) -> None:
    node = FlakyNode(behaviors)

    async def act() -> None:
        path = Path(folder, "s")
        server = await asyncio.start_unix_server(node.serve, path)
        config = ClientConfig(window=window, backoff=Backoff(initial=0.01, maximum=0.05))
        async with connect(f"unix:{path}", config) as bus:
            tasks = [asyncio.ensure_future(bus.query("A.B", each, timeout=3)) for each in range(calls)]
            await asyncio.sleep(0.02)
            for place in cancelled & set(range(calls)):
                tasks[place].cancel()
            done: list[Any] = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 60)
            assert bus._session is not None  # pyright: ignore[reportPrivateUsage]  # what it keeps is the law
            await asyncio.sleep(6)
            assert (len(bus._session.calls), bus._session.calls.sent) == (0, 0)  # pyright: ignore[reportPrivateUsage]  # likewise
        for place, outcome in enumerate(done):
            # Its own answer, or an error of ours, or its caller's going away: nothing else.
            assert outcome == place or isinstance(outcome, (BandstandError, asyncio.CancelledError))
            if isinstance(outcome, asyncio.CancelledError):
                assert place in cancelled
        server.close()
        await server.wait_closed()

    with tempfile.TemporaryDirectory() as folder:
        VirtualClock().run(act())
    assert all(len(contents) == 1 for contents in node.seen.values()), "one id, one content"
