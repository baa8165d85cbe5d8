"""The store of events: which events an entity has, and their next number.

The events are in a journal, and an index of the journal finds them. There is nothing else: the state of an entity is what follows from its events, and a snapshot
only makes it quicker to get there.

`EventStream` is one incarnation of an entity. It numbers and writes its events one call at a time, because the next decision depends on the events before it;
those of different entities share their commits. A later incarnation takes the stream over, and the former one can write no more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, final
from weakref import WeakValueDictionary

from bandstand.core.logs import SafeLogger
from bandstand.errors import (
    EventStoreError,
    InvalidArgumentError,
    JournalCorruptError,
    JournalError,
)
from bandstand.errors.formatting import safe_repr
from bandstand.journal import Journal, JournalIndex, JournalReader, RecordPosition
from bandstand.persistence.events import EventDecoder, EventTypes
from bandstand.persistence.records import (
    ENTITY_SNAPSHOT,
    event_keys,
    read_head,
    read_schema,
    schema_record,
    snapshot_key,
    stream_name,
)

if TYPE_CHECKING:
    import os
    from collections.abc import AsyncGenerator, Callable

    from msgspec import Struct

    from bandstand.errors import JournalFailedError
    from bandstand.journal import Page, Record

__all__ = ("EventOwner", "EventStore", "EventStream", "event_index", "open_store")

# How many positions are read, and events applied, before other work gets a turn.
_SLICE: Final = 1000
# After how many entities other work gets a turn, when all are looked at.
_ENTITIES_AT_ONCE: Final = 100
# A reader fetches thousands of pages at a time. Up to this distance, to go on is quicker than to fetch anew.
_NEAR: Final = 2048

logger = SafeLogger("bandstand.persistence")


class EventOwner(Protocol):
    """The state that events change."""

    def apply(self, event: Any, /) -> None:
        """Change the state."""
        ...

    def restore(self, state: Any, /) -> None:
        """Replace the state by that of a snapshot."""
        ...

    def snapshot(self) -> Struct | None:
        """Return the state as it is now; None if there are no snapshots."""
        ...


@final
class EventStore:
    """The events of all entities in a journal. Use it on the event loop that made it.

    Args:
        directory: the directory of the journal.
        journal: the journal, open.
        index: its index, open. Its `extract` must yield what `event_keys` yields.
    """

    def __init__(self, directory: str | os.PathLike[str], journal: Journal, index: JournalIndex) -> None:
        self.directory = Path(directory)
        self.journal = journal
        self.index = index
        self._event_loop = asyncio.get_running_loop()
        self._decoders: dict[str, EventDecoder] = {}
        # Weak: an entity that has ended leaves nothing behind.
        self._streams: WeakValueDictionary[str, EventStream] = WeakValueDictionary()
        # The writes that are under way, by the name of the stream: an incarnation that has ended may have left one.
        self._writes: dict[str, asyncio.Future[None]] = {}

    async def register(self, types: EventTypes) -> None:
        """Take the events of a class of entities: compare their schemas with those in the journal, and record new ones.

        Raises:
            EventSchemaError: the journal has events that these classes cannot read.
            InvalidArgumentError: another class of entities has the same name.
            JournalError: the journal cannot be read or written.
        """
        if (known := self._decoders.get(types.entity)) is not None:
            if known.types is types:
                return
            raise InvalidArgumentError(
                f"two classes have the entity {safe_repr(types.entity)}: give one of them another name, `class Account(..., entity='...')`"
            )
        await self._reach_end()
        records = await asyncio.to_thread(
            _read, self.directory, list(self._positions("schema", types.entity, None))
        )
        entries = [read_schema(record.data) for record in records]
        decoder = EventDecoder(types, [entry for entry in entries if entry.entity == types.entity])
        if new := decoder.unrecorded():
            await self.journal.append(*map(schema_record, new))
            decoder.add(new)
        self._decoders[types.entity] = decoder

    def stream(self, entity: str, key: str, owner: EventOwner, *, snapshot_every: int = 200) -> EventStream:
        """Return the stream of an entity for a new incarnation of it, which must `recover` first. The former one can write no more.

        Raises:
            InvalidArgumentError: the entity is not registered, or the key is not a string, or empty; or this is another event loop.
        """
        if type(key) is not str or not key or not _is_unicode(key):
            raise InvalidArgumentError(f"{entity}: key is {safe_repr(key)}: pass a string that is not empty")
        if entity not in self._decoders:
            raise InvalidArgumentError(
                f"the event store does not know {entity}: pass the class to open_event_store"
            )
        if asyncio.get_running_loop() is not self._event_loop:
            raise InvalidArgumentError(
                f"{entity}/{key} runs on another event loop than its event store: open a store in each loop, with its own journal"
            )
        stream = EventStream(self, self._decoders[entity], key, owner, snapshot_every)
        self._streams[stream.name] = stream
        return stream

    async def needed_from(self) -> int:
        """Return the number of the first page that an entity needs for its recovery, or of the next page if none does.

        What is before it can be deleted, except the schemas: see `delete_unneeded`. This looks at each entity, and lets other work run meanwhile.

        Raises:
            JournalError: the index cannot be read.
        """
        await self._reach_end()
        needed = self.journal.stats().last + 1
        after = ""
        while names := self.index.keys("key", after=after, limit=_ENTITIES_AT_ONCE):
            for name in names:
                needed = min(needed, self._needed_by(name))
            after = names[-1]
            await asyncio.sleep(0)
        return needed

    async def first_needed(self, since: int, before: int) -> int:
        """Return the first of these pages that an entity needs for its recovery; `before` if none does.

        Unlike `needed_from`, it looks only at the entities with records in these pages, up to the first one that needs its page.

        Raises:
            JournalError: the index cannot be read.
        """
        await self.index.reached(before - 1)
        for page in range(since, before):
            if any(self._needed_by(name) <= page for name in self.index.keys_at("key", page)):
                return page
            await asyncio.sleep(0)
        return before

    def _needed_by(self, name: str) -> int:
        entity, _, key = name.partition("/")
        decoder = self._decoders.get(entity)
        found: list[RecordPosition] = []
        # Without its class, it is not known which snapshots can be read.
        if decoder is not None and decoder.types.snapshot is not None:
            wanted = snapshot_key(entity, key, decoder.types.snapshot.hash)
            found = self.index.find("snapshot", wanted, newest_first=True, limit=1)
        found = found or self.index.find("key", name, limit=1)
        return found[0].page

    async def delete_unneeded(self) -> int:
        """Delete the pages that no entity needs, and return how many were deleted. Only for a journal without records of others.

        An entity needs its newest snapshot and the events behind it, or all its events if it has no snapshot.

        Raises:
            JournalError: the journal cannot be read or written.
        """
        page = await self.needed_from()
        if page <= self.journal.stats().first:
            return 0
        await self.keep_schemas(page)
        return await self.journal.delete_before(page)

    async def keep_schemas(self, page: int) -> None:
        """Write the schemas again that are only in pages before this one: then these pages can be deleted.

        Raises:
            JournalError: the journal cannot be read or written.
        """
        if schemas := await self._schemas_only_before(page):
            await self.journal.append(*schemas)

    async def _schemas_only_before(self, page: int) -> list[Record]:
        """Return the records of schemas, of all entities, that are not in this page or behind it."""
        positions: list[RecordPosition] = []
        after = ""
        while entities := self.index.keys("schema", after=after):
            for entity in entities:
                positions += self._positions("schema", entity, None)
            after = entities[-1]
        positions.sort()
        records = await asyncio.to_thread(_read, self.directory, positions)
        newest = {record.data: position for position, record in zip(positions, records, strict=True)}
        kept = {data for data, position in newest.items() if position.page >= page}
        return [record for record in dict.fromkeys(records) if record.data not in kept]

    # -- for streams ---------------------------------------------------------------------------------------------------

    def owns(self, stream: EventStream) -> bool:
        """Return whether a stream is the newest of its entity."""
        return self._streams.get(stream.name) is stream

    def write(
        self, stream: EventStream, records: Sequence[Record], done: Callable[[], object]
    ) -> asyncio.Future[None]:
        """Write records of a stream. Call `done` when they are durable, and then set the result of the future.

        Raises:
            JournalError: the journal has refused the records.
        """
        future: asyncio.Future[None] = self._event_loop.create_future()
        # An incarnation that was killed does not ask for the result.
        future.add_done_callback(_retrieve)

        def on_written(_page: int, error: JournalError | None) -> None:
            if self._writes.get(stream.name) is future:
                del self._writes[stream.name]
            if error is not None:
                future.set_exception(error)
                return
            try:
                done()
            except Exception as failure:  # noqa: BLE001  # goes to the caller of the write
                future.set_exception(failure)
            else:
                future.set_result(None)

        self.journal.write(records, on_written)
        self._writes[stream.name] = future
        return future

    async def load(self, stream: EventStream) -> tuple[Record | None, list[Record]]:
        """Return the newest snapshot of a stream that fits its class, and the events behind it, with snapshots that do not fit among them.

        Raises:
            JournalError: the journal cannot be read.
        """
        while (write := self._writes.get(stream.name)) is not None:
            await asyncio.wait([write])
        await self._reach_end()
        snapshot: RecordPosition | None = None
        types = stream.decoder.types
        if types.snapshot is not None:
            wanted = snapshot_key(types.entity, stream.key, types.snapshot.hash)
            snapshot = next(iter(self.index.find("snapshot", wanted, newest_first=True, limit=1)), None)
        positions = list(self._positions("key", stream.name, snapshot))
        if snapshot is not None:
            positions.insert(0, snapshot)
        # Nearly all new keys have no events yet.
        records = await asyncio.to_thread(_read, self.directory, positions) if positions else []
        return (None, records) if snapshot is None else (records[0], records[1:])

    async def _reach_end(self) -> None:
        await self.index.reached(self.journal.stats().last)

    def _positions(self, space: str, key: str, after: RecordPosition | None) -> Iterator[RecordPosition]:
        while found := self.index.find(space, key, after=after, limit=_SLICE):
            yield from found
            after = found[-1]


@final
class EventStream:
    """The events of one incarnation of an entity: see `EventStore.stream`."""

    def __init__(
        self, store: EventStore, decoder: EventDecoder, key: str, owner: EventOwner, snapshot_every: int
    ) -> None:
        self.decoder = decoder
        self.key = key
        self.name = stream_name(decoder.types.entity, key)
        self.version = 0
        """The number of the last event that was applied."""
        self._store = store
        self._owner = owner
        self._snapshot_every = snapshot_every
        self._snapshot_version = 0
        self._write: asyncio.Future[None] | None = None
        self._is_recovered = False
        self._failure: Exception | None = None

    async def recover(self) -> None:
        """Restore the newest snapshot and apply the events behind it.

        Raises:
            EventStoreError: an event is missing, or cannot be read.
            JournalError: the journal cannot be read.
        """
        snapshot, events = await self._store.load(self)
        if snapshot is not None:
            head, data = read_head(snapshot.data)
            state = self.decoder.types.decode_snapshot(data)
            if state is None:
                raise EventStoreError(
                    f"the snapshot {head.version} of {self.name} cannot be read by {self._snapshot_name}: "
                    f"restore the class, or change its fields"
                )
            self._owner.restore(state)
            self.version = self._snapshot_version = head.version
        for count, record in enumerate(events, 1):
            head, line = read_head(record.data)
            if record.kind == ENTITY_SNAPSHOT:
                # It does not fit the class, but shows that these events have existed.
                self._check_version(head.version, self.version)
                continue
            self._check_version(head.version - 1, self.version)
            event = self.decoder.decode(head, line)
            if event is not None:
                self._owner.apply(event)
            self.version = head.version
            if not count % _SLICE:
                await asyncio.sleep(0)
        self._is_recovered = True

    def _check_version(self, before: int, version: int) -> None:
        if before != version:
            raise EventStoreError(
                f"{self.name} has had {before} events at one point, and only {version} are in the journal: their pages were deleted, and no "
                f"snapshot of them fits its class; or two programs have written them"
            )

    async def append(self, events: Sequence[Struct]) -> None:
        """Write events in one page, and apply them when they are durable.

        If the task is cancelled, this still waits until they are: state and journal are never different between two messages.

        Raises:
            InvalidArgumentError: one is not an event of this entity. Nothing was written.
            EventStoreError: a newer incarnation has taken the stream over, or an event could not be applied before. Nothing was written.
            JournalError: as for `Journal.append`.
        """
        while self._write is not None:
            await asyncio.wait([self._write])
        records, on_written = self.prepare(events)
        if not records:
            return
        self._write = self._store.write(self, records, on_written)
        # In the order of registration: before those that wait for this write.
        self._write.add_done_callback(self._forget_write)
        await _wait_to_the_end(self._write)

    def prepare(self, events: Sequence[Struct]) -> tuple[list[Record], Callable[[], None]]:
        """Return the records of events, for a page with records of others, and what to call when they are durable: it applies them.

        Prepare the next events after that, or when the page could not be written.

        Raises:
            InvalidArgumentError, EventStoreError: as for `append`.
        """
        self._check_can_write()
        types, version = self.decoder.types, self.version
        encoded = [types.encode(self.key, version + place, event) for place, event in enumerate(events, 1)]
        applied = [event for _, event in encoded]
        return [record for record, _ in encoded], lambda: self._on_written(applied)

    def take(self, events: Sequence[Struct]) -> list[Record]:
        """Apply events now, before they are durable, and return their records.

        For an owner that writes the records of all calls in their order, and never gives one up while the process lives. What follows from the state is
        not to be shown before the records are durable.

        Raises:
            InvalidArgumentError, EventStoreError: as for `append`. Nothing has changed.
            Exception: `apply` has failed. The state is not known: recover a new stream.
        """
        self._check_can_write()
        types, version = self.decoder.types, self.version
        encoded = [types.encode(self.key, version + place, event) for place, event in enumerate(events, 1)]
        for _, event in encoded:
            self._owner.apply(event)
        self.version = version + len(encoded)
        return [record for record, _ in encoded]

    def _check_can_write(self) -> None:
        if not self._is_recovered:
            raise EventStoreError(
                f"{self.name} has not recovered yet: events can be persisted after the start"
            )
        if self._failure is not None:
            raise EventStoreError(
                f"{self.name} could not apply an event that is in the journal, so its state is not known: let the actor fail"
            ) from self._failure
        if not self._store.owns(self):
            raise EventStoreError(
                f"{self.name} was taken over by a newer actor: this one has been restarted, or two actors have the same key"
            )

    def _forget_write(self, _write: object) -> None:
        self._write = None

    def _on_written(self, events: Sequence[Struct]) -> None:
        for event in events:
            # It counts as soon as it is durable, whatever `apply` does.
            self.version += 1
            if self._failure is None:
                try:
                    self._owner.apply(event)
                except Exception as error:  # noqa: BLE001  # raised below, after the others were counted
                    self._failure = error
        if self._failure is not None:
            raise self._failure
        self._take_snapshot()

    @property
    def is_snapshot_due(self) -> bool:
        """Whether there were enough events since the last snapshot, and the class makes snapshots."""
        return (
            self.version - self._snapshot_version >= self._snapshot_every
            and self.decoder.types.snapshot is not None
        )

    def snapshot_record(self) -> Record | None:
        """Return the record of a snapshot, if one is due: it must come before the next event in the journal.

        A snapshot is never needed: if it cannot be made, that is logged.
        """
        if not self.is_snapshot_due:
            return None
        self._snapshot_version = self.version
        try:
            state = self._owner.snapshot()
            return (
                None if state is None else self.decoder.types.encode_snapshot(self.key, self.version, state)
            )
        except Exception:
            logger.exception("%s: no snapshot was taken", self.name)
            return None

    def _take_snapshot(self) -> None:
        """Write a snapshot, if one is due. No caller waits for it."""
        record = self.snapshot_record()
        if record is None:
            return
        try:
            self._store.journal.write([record], self._on_snapshot)
        except JournalError:
            logger.exception("%s: no snapshot was taken", self.name)

    def _on_snapshot(self, _page: int, error: JournalError | None) -> None:
        if error is not None:
            logger.warning("%s: a snapshot was not written: %s", self.name, error)

    @property
    def _snapshot_name(self) -> str:
        snapshot = self.decoder.types.snapshot
        return "" if snapshot is None else snapshot.kind.__qualname__


def event_index(directory: str | os.PathLike[str]) -> JournalIndex:
    """Return the index that an `EventStore` needs, not open yet."""
    return JournalIndex(directory, event_keys, version="events 1")


@asynccontextmanager
async def open_store(
    directory: str | os.PathLike[str],
    types: Iterable[EventTypes],
    *,
    on_failure: Callable[[JournalFailedError], object] | None = None,
) -> AsyncGenerator[EventStore]:
    """Open a journal with its index, and the store of the events in it.

    Raises:
        EventSchemaError, InvalidArgumentError: as for `EventStore.register`.
        JournalError: the journal or its index cannot be opened.
    """
    async with (
        Journal(directory, on_failure=on_failure) as journal,
        event_index(directory) as index,
    ):
        store = EventStore(directory, journal, index)
        for each in types:
            await store.register(each)
        yield store


def _is_unicode(text: str) -> bool:
    """Return whether a text can be encoded; one with half of a surrogate pair cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _retrieve(future: asyncio.Future[None]) -> None:
    if not future.cancelled():
        future.exception()


async def _wait_to_the_end(write: asyncio.Future[None]) -> None:
    """Wait for a write, also when the task is cancelled meanwhile."""
    cancelled: asyncio.CancelledError | None = None
    while not write.done():
        try:
            await asyncio.wait([write])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
    write.result()


def _read(directory: Path, positions: Sequence[RecordPosition]) -> list[Record]:
    """Return the records at some positions, which are in order. Runs on another thread."""
    if not positions:
        return []
    records: list[Record] = []
    with JournalReader(directory) as reader:
        pages: Iterator[Page] = iter(())
        current = -_NEAR
        for number, places in groupby(positions, lambda position: position.page):
            if number - current >= _NEAR:
                pages = reader.pages(since=number)
            page = next((page for page in pages if page.number >= number), None)
            if page is None or page.number != number:
                raise EventStoreError(
                    f"page {number} of the journal {directory} was deleted before it was read"
                )
            current = number
            for position in places:
                if position.place > len(page.records):
                    raise JournalCorruptError.at(f"page {number} has no record {position.place}", number)
                records.append(page.records[position.place - 1])
    return records
