"""A little shop on the bus: orders that have to be paid in time, and the shelf that they are taken from.

    bandstand serve examples/orders.py
    bandstand call Orders.Place item=teapot count=2
    bandstand call Orders.Pay order=1

An order takes what it needs from the shelf and waits to be paid. Whoever does not pay in time has it cancelled, and everything goes
back. The two know nothing of each other but their messages.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Annotated

from msgspec import Meta, Raw, Struct, json

from bandstand.bus import Capability, Command, Contract, Event, Failure, Message, Metadata, Query, provide
from bandstand.bus.timer import Cancel as CancelTimer
from bandstand.bus.timer import Inner, Schedule
from bandstand.errors import Refused, RequestFailed

Item = Annotated[
    str, Meta(min_length=1, max_length=50, description="What it is called.", examples=["teapot"])
]
Count = Annotated[int, Meta(ge=1, le=100, description="How many.", examples=[2])]
Number = Annotated[int, Meta(ge=1, description="The number of an order.")]


# --- the shelf: a contract, written out -------------------------------------------------------------------------------


class Left(Struct):
    """What is left on the shelf."""

    items: dict[str, int]


class SoldOut(Failure, type="Shelf.SoldOut"):
    """There are not so many."""

    item: str
    left: int


class Take(Command[Left], type="Shelf.Take"):
    """Take something off the shelf."""

    item: Item
    count: Count = 1


class Look(Query[Left], type="Shelf.Look"):
    """Look what is there."""


class Cancelled(Event, type="Orders.Cancelled"):
    """An order was not paid in time: what it had taken is free again."""

    order: Number
    item: Item
    count: Count


def open_shelf() -> Callable[[Take | Look | Cancelled], Message | None]:
    """Fill a shelf. What is made here lasts until the shelf breaks down and is opened anew."""
    items = Counter(teapot=5, cup=24)

    def handle(msg: Take | Look | Cancelled) -> Message | None:
        match msg:
            case Take(item, count) if items[item] < count:
                raise Refused(SoldOut(item, items[item]))
            case Take(item, count):
                items[item] -= count
            case Cancelled(_, item, count):
                items[item] += count
                return None
            case Look():
                pass
        return Message(kind="reply", type=msg.message_type, data=Left(dict(items)))

    return handle


shelf = Contract(
    id="Shelf",
    description="Knows what is there to be sold.",
    inbound=Take | Look | Cancelled,
    outbound=SoldOut,
    spawn=open_shelf,
)


# --- the orders: a class whose annotated methods are the contract -----------------------------------------------------


class Placed(Struct):
    """An order that waits to be paid."""

    order: Number


class Place(Command[Placed], type="Orders.Place"):
    """Order something. It is kept back until it is paid, for as long as the shop waits."""

    item: Item
    count: Count = 1


class Pay(Command[None], type="Orders.Pay"):
    """Pay an order."""

    order: Number


class Expire(Command[None], type="Orders.Expire"):
    """Cancel an order that was not paid."""

    order: Number


class Orders(Capability):
    """Takes orders, and cancels those that are not paid in time."""

    outbound = Take | Schedule | CancelTimer | Cancelled

    def __init__(self, pay_within_ms: int) -> None:
        self.pay_within_ms = pay_within_ms
        self.unpaid: dict[int, tuple[Place, str]] = {}
        self.count = 0

    async def place(self, msg: Place) -> Placed:
        try:
            await self.bus.ask(Take(msg.item, msg.count))
        except RequestFailed as failure:
            raise Refused(f"{msg.count} of {msg.item} are not to be had: {failure}") from failure
        self.count += 1
        data = Raw(json.encode(Expire(self.count)))
        expire = Inner("command", Expire.message_type, Metadata(f"expire-{self.count}", 0), data)
        timer = await self.bus.ask(Schedule(self.pay_within_ms, expire))
        self.unpaid[self.count] = msg, timer.timer_id
        return Placed(self.count)

    def pay(self, msg: Pay) -> None:
        _, timer_id = self._unpaid(msg.order)
        self.bus.send(CancelTimer(timer_id))

    def expire(self, msg: Expire) -> None:
        placed, _ = self._unpaid(msg.order)
        self.bus.emit(Cancelled(msg.order, placed.item, placed.count))

    def _unpaid(self, order: int) -> tuple[Place, str]:
        if order not in self.unpaid:
            raise Refused(f"there is no unpaid order {order}")
        return self.unpaid.pop(order)


capabilities = [provide(Orders, pay_within_ms=20_000), shelf]
