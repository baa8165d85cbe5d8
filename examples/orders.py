"""A small shop on the bus: orders that must be paid in time, and the shelf that the items are taken from.

    bandstand serve examples/orders.py
    bandstand call Orders.Place item=teapot count=2
    bandstand call Orders.Pay order=1

An order takes items from the shelf and waits to be paid. If it is not paid in time, it is cancelled, and the items go
back to the shelf. The two capabilities know only each other's messages.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Annotated

from msgspec import Meta, Struct

from bandstand.bus import Capability, Command, Contract, Event, Message, Query
from bandstand.errors import RefusedError, RequestFailedError

Item = Annotated[str, Meta(min_length=1, description="The name of the item.", examples=["teapot"])]
Count = Annotated[int, Meta(ge=1, le=100, description="How many.", examples=[2])]
Number = Annotated[int, Meta(ge=1, description="The number of an order.")]
PAY_WITHIN = 20.0


class Left(Struct):
    items: dict[str, int]


class Take(Command[Left], type="Shelf.Take"):
    """Take items off the shelf."""

    item: Item
    count: Count = 1


class Look(Query[Left], type="Shelf.Look"):
    """Show what is on the shelf."""


class Cancelled(Event, type="Orders.Cancelled"):
    """An order was not paid in time. Its items are back on the shelf."""

    item: Item
    count: Count


ShelfMessage = Take | Look | Cancelled


def open_shelf() -> Callable[[ShelfMessage], Message | None]:
    """Create a full shelf. If the capability fails, it starts again with a full shelf."""
    items = Counter(teapot=5, cup=24)

    def handle(msg: ShelfMessage) -> Message | None:
        match msg:
            case Take(item, count) if items[item] < count:
                raise RefusedError(f"only {items[item]} of {item} are left, not {count}")
            case Take(item, count):
                items[item] -= count
            case Cancelled(item, count):
                items[item] += count
                return None
            case Look():
                pass
        return Message(kind="reply", type=msg.message_type, data=Left(dict(items)))

    return handle


# A capability can be a contract with a function,
shelf = Contract(
    id="Shelf", description="Knows which items there are.", inbound=ShelfMessage, spawn=open_shelf
)


class Placed(Struct):
    order: Number


class Place(Command[Placed], type="Orders.Place"):
    """Place an order. The items are reserved for 20 seconds, until the order is paid."""

    item: Item
    count: Count = 1


class Pay(Command[None], type="Orders.Pay"):
    """Pay an order."""

    order: Number


class Expire(Command[None], type="Orders.Expire"):
    """Cancel an order, unless it is paid."""

    order: Number


# or as a class, whose annotated methods are the contract.
class Orders(Capability):
    """Takes orders, and cancels those that are not paid in time."""

    outbound = Take | Expire | Cancelled

    def __init__(self) -> None:
        self.unpaid: dict[int, Place] = {}
        self.count = 0

    async def place(self, msg: Place) -> Placed:
        try:
            await self.bus.ask(Take(msg.item, msg.count))
        except RequestFailedError as failure:
            raise RefusedError(f"no order: {failure}") from failure
        self.count += 1
        self.unpaid[self.count] = msg
        self.bus.send_later(Expire(self.count), PAY_WITHIN)
        return Placed(self.count)

    def pay(self, msg: Pay) -> None:
        if not self.unpaid.pop(msg.order, None):
            raise RefusedError(f"there is no unpaid order {msg.order}")

    def expire(self, msg: Expire) -> None:
        if placed := self.unpaid.pop(msg.order, None):
            self.bus.emit(Cancelled(placed.item, placed.count))


capabilities = [Orders, shelf]
