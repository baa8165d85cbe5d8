"""Actors that keep their state over crashes: they write events to a journal, and their state follows from the events.

    class Account(PersistentActor[Opened | Deposited]):
        def apply(self, event: Opened | Deposited) -> None: ...

        @ask
        async def deposit(self, amount: int) -> int:
            await self.persist(Deposited(amount))
            return self.balance

    async with open_event_store("data/journal", Account) as store, ActorSystem() as system:
        account = system.spawn(Account, store, "alice")

`EventTypes`, `EventDecoder`, `EventStore` and `EventStream` are the parts it is made of, for entities of other kinds; `event_keys` is what an index of their journal contains.
"""

from bandstand.persistence.actor import PersistentActor, open_event_store
from bandstand.persistence.events import EventDecoder, EventTypes, Upcaster
from bandstand.persistence.records import event_keys
from bandstand.persistence.store import EventOwner, EventStore, EventStream

__all__ = (
    "EventDecoder",
    "EventOwner",
    "EventStore",
    "EventStream",
    "EventTypes",
    "PersistentActor",
    "Upcaster",
    "event_keys",
    "open_event_store",
)
