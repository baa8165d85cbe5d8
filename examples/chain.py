"""A chain of asks: an actor answers an ask while it waits itself. Also: which actor waits for which, and the status
of an actor.

    python examples/chain.py

A waiter asks the kitchen for a dish, the kitchen asks the store, and the store asks the waiter, who is waiting, for
the table. That is a cycle. A method with `reentrant=True` answers; any other ask in the cycle is an error at once.
"""

from __future__ import annotations

import asyncio
from asyncio import Event

from bandstand import Actor, ActorSystem, ask
from bandstand.actor import peek, ping, status_of
from bandstand.errors import AskCycleError, AskTimeoutError


class Waiter(Actor):
    def __init__(self, table: int) -> None:
        self.table = table

    @ask(raises=AskCycleError)
    async def order(self, dish: str, kitchen: Kitchen, *, politely: bool = True) -> str:
        return await kitchen.cook(dish, self.me, politely=politely)

    @ask(reentrant=True)
    def which_table(self) -> int:
        """Only reads, so it may be answered while `order` waits."""
        return self.table

    @ask
    def change_table(self, table: int) -> int:
        """Must not happen in the middle of an order."""
        self.table = table
        return table


class Kitchen(Actor):
    def __init__(self, store: Store) -> None:
        self.store = store

    @ask(raises=AskCycleError)
    async def cook(self, dish: str, waiter: Waiter, *, politely: bool) -> str:
        return f"{dish} with {await self.store.fetch(waiter, politely=politely)}"


class Store(Actor):
    def __init__(self, door: Event) -> None:
        self.door = door

    @ask(raises=AskCycleError)
    async def fetch(self, waiter: Waiter, *, politely: bool) -> str:
        await self.door.wait()
        table = await (waiter.which_table() if politely else waiter.change_table(0))
        return f"salt for table {table}"


async def main() -> None:
    async with ActorSystem() as system:
        door = Event()
        store = system.options(name="store").spawn(Store, door)
        kitchen = system.options(name="kitchen").spawn(Kitchen, store)
        waiter = system.options(name="waiter").spawn(Waiter, 7)

        print("the store is locked, and all of them wait:")
        order = waiter.order("soup", kitchen)
        await asyncio.sleep(0)
        for line in str(system.waits()).splitlines():
            print(f"  {line.rpartition(',')[0]}")
        print(f"  the store is at {peek(store).handling}, and waits for: {peek(store).waits_for}")
        try:
            await ping(store, timeout=0.02)
        except AskTimeoutError as error:
            print(f"  {error.method} of the store has timed out")

        print("the door opens, and the waiter answers while he waits:")
        door.set()
        print(f"  {await order}")

        print("a method that is not reentrant is an error at once:")
        try:
            await waiter.order("soup", kitchen, politely=False)
        except AskCycleError as error:
            print(f"  AskCycleError: {str(error).count('which waits for')} of them wait for each other")

        report = await status_of(waiter)
        print(f"and the {report.kind.lower()} is well: {report.status.name}, {report.waiting} messages wait")


if __name__ == "__main__":
    asyncio.run(main())
