"""The node whose journal is kept with each release: its capabilities, and what its journal says."""

from __future__ import annotations

import asyncio
from typing import ClassVar

from msgspec import Struct

from bandstand.bus import Capability, Command, Event
from tests.bus.bank import QuickAccount

BEGAN = 1_790_000_000_000
"""When the journal was written, in milliseconds since 1970."""


class Worked(Event, type="Shop.Worked"):
    """A job is done."""

    number: int


class Work(Command[int], type="Shop.Work"):
    """Do a job, which cannot be repeated."""

    number: int
    seconds: float = 0


class Order(Command[str], type="Shop.Order", retry_safe=True):
    """Charge a card, then ship."""

    card: str


class Receipt(Struct):
    """What the bank says."""

    card: str


class Shop(Capability):
    """Works, and takes orders."""

    outbound = Worked
    concurrency = 2
    charged: ClassVar[list[str]] = []
    """The cards that were charged by this process."""

    async def work(self, msg: Work) -> int:
        await asyncio.sleep(msg.seconds)
        self.bus.emit(Worked(msg.number))
        return msg.number

    async def order(self, msg: Order) -> str:
        receipt = await self.step("charge", lambda: self._charge(msg.card), returns=Receipt)
        await self.step("ship", self._ship)
        return receipt.card

    def _charge(self, card: str) -> Receipt:
        self.charged.append(card)
        return Receipt(card)

    async def _ship(self) -> None:
        # The process is killed meanwhile.
        await asyncio.sleep(1_000_000)


CAPABILITIES = (Shop, QuickAccount)
