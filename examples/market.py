"""A market: a feed publishes prices on a topic, and its subscribers are fast or slow.

    python examples/market.py

The feed does not wait for subscribers. Each subscription has a policy for what it may miss: the archive has a large
queue, the board gets the latest price of each symbol, the slow analyst gets the most recent prices, and the auditor
is cut off if it misses one. The traders are a group. The archive has a name, by which other actors find it, also
after a restart.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import ClassVar

from bandstand import Actor, ActorSystem, SupervisorSpec, ask, child, spawn_supervisor, tell
from bandstand.core import Lagged, RuntimeEvent
from bandstand.registry import Registry
from bandstand.topic import Policy, Topic, runtime_events

SYMBOLS = ("ACME", "EMCA", "MECA")
ROUNDS = 40


def say(who: str, words: str) -> None:
    print(f"{who:<9}{words}", flush=True)


@dataclass(frozen=True)
class Price:
    number: int
    symbol: str
    cents: int


# --- the actors -------------------------------------------------------------------------------------------------------


class Archive(Actor):
    """Stores all prices. It has a bug, and a supervisor."""

    written: ClassVar[list[int]] = []  # the disk: it outlives the actor

    @tell
    def on_price(self, price: Price) -> None:
        if price.number == 13:
            raise ValueError("the archive cannot store number 13")
        self.written.append(price.number)

    @ask
    def count(self) -> int:
        return len(self.written)


class Board(Actor):
    """Shows the latest price of each symbol."""

    def __init__(self) -> None:
        self.latest: dict[str, int] = {}
        self.updates = 0

    @tell
    async def on_price(self, price: Price) -> None:
        await asyncio.sleep(0)  # the display takes its time
        self.latest[price.symbol] = price.cents
        self.updates += 1

    @ask
    def show(self) -> str:
        return ", ".join(f"{symbol} {self.latest[symbol]}" for symbol in SYMBOLS)


class Analyst(Actor):
    """Takes long for each price, and gets the number of prices that it has missed."""

    def __init__(self) -> None:
        self.thoughts = 0
        self.missed = 0

    @tell
    async def on_price(self, price: Price) -> None:
        for _ in range(10):
            await asyncio.sleep(0)
            self.thoughts += price.cents

    @tell
    def on_lag(self, lag: Lagged) -> None:
        self.missed += lag.missed
        say("analyst", f"has missed {lag.missed} more, {self.missed} in all")


class Auditor(Actor):
    """Needs every price, and waits for a signature before it handles one."""

    def __init__(self, signature: asyncio.Event) -> None:
        self.signature = signature
        self.sum = 0

    @tell
    async def on_price(self, price: Price) -> None:
        await self.signature.wait()
        self.sum += price.cents

    @tell
    def on_lag(self, lag: Lagged) -> None:
        say("auditor", f"was cut off: {lag.is_cut_off}, and has missed {lag.missed}")


class Trader(Actor):
    def __init__(self, name: str) -> None:
        self.name = name

    @tell
    def bell(self, what: str) -> None:
        say(self.name, f"hears that the market {what}")


class Watch(Actor):
    """Counts the runtime events of the system."""

    def __init__(self) -> None:
        self.kinds: dict[str, int] = {}

    @tell
    def on_event(self, event: RuntimeEvent) -> None:
        kind = type(event).__name__
        self.kinds[kind] = self.kinds.get(kind, 0) + 1

    @ask
    def lags(self) -> int:
        return self.kinds.get("Lagged", 0)


# --- the day ----------------------------------------------------------------------------------------------------------


async def feed(prices: Topic[Price]) -> int:
    """Publish three prices at a time, and let other actors run after each round."""
    number = 0
    for turn in range(ROUNDS):
        for place, symbol in enumerate(SYMBOLS):
            prices.publish(Price(number, symbol, 100 * (place + 1) + turn))
            number += 1
        await asyncio.sleep(0)
    return number


async def main() -> None:
    async with ActorSystem() as system:
        registry = Registry(system)
        root = spawn_supervisor(
            system, SupervisorSpec(children=(child("archive").of(Archive),)), name="market"
        )
        registry.register("archive", root.handle(Archive, "archive"))
        traders = registry.group("traders", Trader)
        for name in ("ada", "bert", "cleo"):
            traders.join(system.spawn(Trader, name))
        watch = system.spawn(Watch)
        runtime_events(system).subscribe(watch.on_event)

        prices = Topic(system, Price, name="prices")
        signature = asyncio.Event()  # set when the market closes
        board, analyst, auditor = system.spawn(Board), system.spawn(Analyst), system.spawn(Auditor, signature)
        archive = registry.get("archive", Archive)
        kept = prices.subscribe(archive.on_price, policy=Policy.DROP_NEWEST, room=200)
        shown = prices.subscribe(board.on_price, policy=Policy.CONFLATE, key=lambda price: price.symbol)
        thought = prices.subscribe(
            analyst.on_price, policy=Policy.DROP_OLDEST, room=10, on_lag=analyst.on_lag
        )
        audited = prices.subscribe(auditor.on_price, policy=Policy.CUT_OFF, room=20, on_lag=auditor.on_lag)

        sent = traders.tell(Trader.bell, "opens")
        say(
            "market",
            f"{sent.taken} traders got the bell, {sent.refused} did not; {prices.subscribers} subscribers",
        )
        published = await feed(prices)
        signature.set()
        traders.members()[1].stop()
        say("market", f"{published} prices; {traders.tell(Trader.bell, 'closes').taken} traders are left")
        await prices.drain()

        again = await registry.wait("archive", Archive, timeout=1.0)
        say(
            "archive",
            f"has {await again.count()} of {published}: {kept.lost} was lost when it crashed, {kept.missed} missed",
        )
        say("board", f"shows {await board.show()}; {shown.missed} were out of date before it could")
        for name, each in (("archive", kept), ("board", shown), ("analyst", thought)):
            balance = each.handled + each.missed + each.lost
            say(
                "books",
                f"{name}: {published} published = {each.handled} handled + {each.missed} missed + {each.lost} lost: {published == balance}",
            )
        say("books", f"auditor: {audited.missed} missed when it was cut off, active: {audited.is_active}")
        say("watch", f"has heard of lag: {await watch.lags() >= 3}")


if __name__ == "__main__":
    logging.basicConfig(level=logging.CRITICAL)
    asyncio.run(main())
