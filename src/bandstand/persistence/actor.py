"""Actors whose state follows from events in a journal.

class Deposited(Struct, frozen=True):
    amount: int

class Account(PersistentActor[Opened | Deposited]):
    def __init__(self, store: EventStore, key: str) -> None:
        super().__init__(store, key)
        self.balance = 0

    def apply(self, event: Opened | Deposited) -> None:
        if isinstance(event, Deposited):
            self.balance += event.amount

    @ask
    async def deposit(self, amount: int) -> int:
        await self.persist(Deposited(amount))
        return self.balance

async with open_event_store("data/journal", Account) as store, ActorSystem() as system:
    account = system.spawn(Account, store, "alice")
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from msgspec import Struct

from bandstand.actor import Actor
from bandstand.errors import DeclarationError, InvalidArgumentError
from bandstand.errors.formatting import safe_repr
from bandstand.errors.validation import check_int
from bandstand.persistence.declaration import event_classes, snapshot_class
from bandstand.persistence.events import EventTypes, Upcaster
from bandstand.persistence.store import EventStore, EventStream, open_store

if TYPE_CHECKING:
    import os

    from bandstand.errors import JournalFailedError

__all__ = ("PersistentActor", "open_event_store")

E = TypeVar("E", bound=Struct)

# What a class must not override, and what to do instead.
_FINAL = {
    "on_start": "it recovers the state; override on_recovered",
    "persist": "it writes the events",
}


class PersistentActor(Actor, Generic[E]):
    """Derive from `PersistentActor[Opened | Deposited]`, write `apply`, and change the state there and nowhere else.

    Each incarnation, the first and those after a restart, begins with its events: they are applied before the first message is handled.

    `class Account(PersistentActor[...], entity="account")` sets the name that is written with the events. The default is the name of the class. It must not change
    while the journal has events.

    Args:
        store: where the events are.
        key: which of the actors of this class it is. One actor at a time may have a key.

    Raises:
        DeclarationError: when a class is created whose events are not classes derived from `msgspec.Struct`, or which overrides `on_start`.
    """

    snapshot_every: ClassVar[int] = 200
    """A snapshot is taken after this many events, if the class overrides `snapshot`."""
    upcasters: ClassVar[Mapping[str, Upcaster]] = {}
    """Functions that read events of older programs, by the name of the event: see `EventSchemaError`."""

    __persistent_entity__: ClassVar[str] = ""
    __persistent_events__: ClassVar[tuple[type[Struct], ...]] = ()
    __persistent_types__: ClassVar[EventTypes | None] = None

    def __init__(self, store: EventStore, key: str) -> None:
        self.__persistent_store__ = store
        self.__persistent_key__ = key

    def __init_subclass__(cls, *, entity: str | None = None, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.__persistent_types__ = None
        cls.__persistent_events__ = event_classes(cls, PersistentActor)
        if "__persistent_entity__" not in vars(cls):
            cls.__persistent_entity__ = cls.__name__ if entity is None else entity
        for name, instead in _FINAL.items():
            if getattr(cls, name) is not getattr(PersistentActor, name):
                raise DeclarationError(
                    f"{cls.__qualname__} overrides {name}, but every persistent actor has its own: {instead}"
                )
        if iscoroutinefunction(cls.apply):
            raise DeclarationError(
                f"{cls.__qualname__}.apply is async, but changes only the state: make it a plain method"
            )
        if cls.__persistent_events__:
            # Finds what is wrong with the classes of the events now.
            EventTypes(cls.__persistent_entity__, cls.__persistent_events__)

    # -- to override ---------------------------------------------------------------------------------------------------

    def apply(self, event: E) -> None:
        """Change the state: the only place where it changes. Called for each event, when it is durable and again at each start.

        It must depend on the state and the event alone, and do nothing else: no messages, no time, no chance. If it raises, the actor
        fails; the event is in the journal, and the next incarnation gets it again. So check before you persist.
        """
        raise NotImplementedError(
            f"{type(self).__qualname__} has no apply(): write one, which changes the state"
        )

    def snapshot(self) -> Struct | None:
        """Return the state, so that a start need not apply all events; None for no snapshots.

        Annotate it with a class derived from `msgspec.Struct`. A snapshot that does not fit that class any more is ignored. Its failure is logged, and has no other
        effect.
        """
        return None

    def restore(self, state: Any) -> None:
        """Replace the state by what `snapshot` has returned. Later events follow."""
        raise NotImplementedError(
            f"{type(self).__qualname__} has a snapshot() and no restore(): write one, which takes what snapshot() returns"
        )

    def on_recovered(self) -> Any:
        """Called once before the first message, when all events were applied, in place of `on_start`; may be `async def`."""

    # -- to use --------------------------------------------------------------------------------------------------------

    async def persist(self, *events: E) -> None:
        """Write events, and return when they are durable and were applied. Several events are written together or not at all.

        Meanwhile no other message is handled, except reentrant asks. If the caller cancels its ask, the events are written and applied all the same.

        Raises:
            InvalidArgumentError: one is not an event of this class, or cannot be written. Nothing was written.
            JournalFullError, JournalOverloadedError: nothing was written, and a later try may succeed.
            JournalFailedError: the disk has failed; the events were written or not.
            EventStoreError: another actor with the same key has been started. Nothing was written.
        """
        await self.__persistent_stream__.append(events)

    # -- the start -----------------------------------------------------------------------------------------------------

    async def on_start(self) -> None:
        """Apply the events in the journal. Override `on_recovered` instead."""
        stream = self.__persistent_stream__ = self.__persistent_open__()
        await stream.recover()
        result = self.on_recovered()
        if result is not None:
            await result

    def __persistent_open__(self) -> EventStream:
        kind = type(self)
        store: object = getattr(self, "__persistent_store__", None)
        if not isinstance(store, EventStore):
            raise InvalidArgumentError(
                f"{kind.__qualname__} has {safe_repr(store)} for its event store: call super().__init__(store, key) in its __init__"
            )
        types = event_types(kind)
        check_int(f"{kind.__qualname__}.snapshot_every", kind.snapshot_every, 1, 1 << 40)
        return store.stream(types.entity, self.__persistent_key__, self, snapshot_every=kind.snapshot_every)


def open_event_store(
    directory: str | os.PathLike[str],
    *kinds: type[PersistentActor[Any]],
    on_failure: Callable[[JournalFailedError], object] | None = None,
) -> AbstractAsyncContextManager[EventStore]:
    """Open the journal in which actors of these classes have their events.

        async with open_event_store("data/journal", Account) as store:
            ...

    Args:
        directory: where the journal is. It is created if it does not exist; its parent must.
        kinds: the classes of the actors. Their events are compared with those in the journal.
        on_failure: called once when the disk fails. The process should end.

    Raises:
        EventSchemaError: the journal has events that these classes cannot read. The error names the event and the field.
        DeclarationError: a class has no events, or `snapshot` is not annotated with a class derived from `msgspec.Struct`.
        InvalidArgumentError: two classes have the same `entity`.
        JournalError: the journal cannot be opened.
    """
    return open_store(directory, [event_types(kind) for kind in kinds], on_failure=on_failure)


def event_types(kind: type[PersistentActor[Any]]) -> EventTypes:
    """Return the events of a class of actors.

    Raises:
        DeclarationError: as for `open_event_store`.
    """
    given: object = kind
    if not (isinstance(given, type) and issubclass(given, PersistentActor)):
        raise DeclarationError(f"{safe_repr(kind)} is not a class derived from PersistentActor")
    if kind.__persistent_types__ is None:
        kind.__persistent_types__ = EventTypes(
            kind.__persistent_entity__,
            kind.__persistent_events__,
            upcasters=kind.upcasters,
            snapshot=snapshot_class(kind, PersistentActor),
        )
    return kind.__persistent_types__
