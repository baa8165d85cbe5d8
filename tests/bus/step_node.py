"""A shop whose orders charge a card in steps, and the bank that it charges: two processes, of which the shop is killed.

The bank writes every charge to a ledger before it answers. Like most banks, it does not notice that it was asked twice.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import msgspec
from msgspec import Struct

from bandstand.bus import (
    Capability,
    Command,
    Done,
    NodeConfig,
    RestartLimits,
    Service,
    UnixAdapter,
    serve,
)
from bandstand.supervision import Backoff
from tests.bus.durable_node import Moment, end_at


class Receipt(Struct):
    """What the bank says about a charge."""

    order: int
    number: int


class Order(Command[str], type="Shop.Order", retry_safe=True):
    """Charge a card and send a parcel. The bank can be asked about every second order."""

    number: int


class Shop(Capability):
    """Takes orders."""

    restarts = RestartLimits(max_restarts=1_000_000, backoff=Backoff(initial=0.001, maximum=0.001))
    concurrency = 8
    timeout = 600

    bank: str = ""

    async def order(self, msg: Order) -> str:
        check = (lambda: self._find(msg.number)) if msg.number % 2 else None
        receipt = await self.step("charge", lambda: self._charge(msg.number), returns=Receipt, check=check)
        parcel = await self.step("parcel", lambda: f"parcel {receipt.order}", returns=str)
        return f"{parcel}, receipt {receipt.number}"

    async def _charge(self, number: int) -> Receipt:
        receipt = await ask_bank(self.bank, "charge", number)
        assert receipt is not None
        return receipt

    async def _find(self, number: int) -> Done[Receipt] | None:
        receipt = await ask_bank(self.bank, "find", number)
        return None if receipt is None else Done(receipt)


async def ask_bank(path: str, verb: str, number: int) -> Receipt | None:
    """Ask the bank about an order."""
    reader, writer = await asyncio.open_unix_connection(path)
    try:
        writer.write(json.dumps([verb, number]).encode() + b"\n")
        return msgspec.json.decode(await reader.readline(), type=Receipt | None)
    finally:
        writer.close()


def run_shop(folder: str, moment: Moment | None) -> Any:
    """Serve the shop until it ends: its journal, its socket and its output are in `folder`."""
    place = Path(folder)
    output = os.open(place / "output", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(output, 1)
    os.dup2(output, 2)
    if moment is not None:
        end_at(moment)
    Shop.bank = str(place / "bank")
    service = Service(
        load=lambda: [Shop],
        adapters=[UnixAdapter(str(place / "socket"))],
        config=NodeConfig(drain_timeout=0),
        journal=str(place / "journal"),
        is_quiet=True,
    )
    sys.exit(serve(service, None, sys.stderr))


def run_bank(folder: str) -> None:
    """Serve the bank until it is killed."""
    place = Path(folder)
    ledger = os.open(place / "ledger", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    random = Random(0)
    receipts: dict[int, Receipt] = {}
    count = 0

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal count
        verb, order = json.loads(await reader.readline())
        if verb == "charge":
            await asyncio.sleep(random.uniform(0, 0.03))
            count += 1
            os.write(ledger, f"{order}\n".encode())
            receipts[order] = Receipt(order, count)
            await asyncio.sleep(random.uniform(0, 0.03))
        writer.write(msgspec.json.encode(receipts.get(order)) + b"\n")
        # The shop may have died.
        with suppress(ConnectionError):
            await writer.drain()
        writer.close()

    async def main() -> None:
        server = await asyncio.start_unix_server(answer, place / "bank")
        async with server:
            await server.serve_forever()

    asyncio.run(main())
