"""Journals as a node writes them, for tests: records with messages, in pages with a time.

The bytes of frequent records are written down here, and not made by `bandstand.bus.durable.records`: a journal must stay readable.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec
from msgspec import Raw

from bandstand.bus.dead_letters import Reason
from bandstand.bus.durable.records import (
    ANSWER,
    DEAD,
    EVENT,
    REQUEST,
    TIMER,
    DeadEntry,
    TimerEntry,
    json_record,
)
from bandstand.bus.durable.state import DurableState
from bandstand.bus.frame import Frame, Kind, Metadata
from bandstand.journal import Journal, Record
from bandstand.persistence.records import EventHead, event_record

NOON = 1_767_960_000_000
"""9 January 2026, 12:00 UTC: the time of the first page, in milliseconds since 1970. Each page is a second later."""


def frame(
    id: str,  # noqa: A002  # its name on the wire
    kind: Kind = "command",
    type: str = "Orders.Place",  # noqa: A002  # likewise
    *,
    cause: str | None = None,
    correlation: str | None = None,
    data: bytes = b'{"item":"teapot"}',
) -> Frame:
    return Frame(kind=kind, type=type, data=Raw(data), metadata=Metadata(id, NOON, cause, correlation))


def line(message: Frame) -> bytes:
    return msgspec.json.encode(message)


def request(number: int, message: Frame, flags: int = 0) -> Record:
    return Record(REQUEST, struct.pack("<QQB", number, NOON, flags) + line(message))


def answer(number: int, message: Frame, flags: int = 0) -> Record:
    return Record(ANSWER, struct.pack("<QB", number, flags) + line(message))


def numbers_record(kind: int, numbers: Sequence[int]) -> Record:
    """A record of the numbers of requests: `BEGAN` or `ENDED`."""
    return Record(kind, struct.pack(f"<{len(numbers)}Q", *numbers))


def event(message: Frame) -> Record:
    return Record(EVENT, line(message))


def entity_event(key: str, version: int, message: Frame) -> Record:
    return event_record(EventHead("Account", key, version), line(message))


def timer(id: str, message: Frame) -> Record:  # noqa: A002  # its name in the record
    return json_record(TIMER, TimerEntry(id, NOON + 60_000, client=True, message=message))


def dead(message: Frame, reason: Reason = "crashed") -> Record:
    return json_record(DEAD, DeadEntry(message.metadata.id, reason, NOON, 1, message, said="it broke"))


def checkpoint(*records: Record, read_from: int = 0) -> list[Record]:
    """The records of a checkpoint after these records."""
    state = DurableState()
    for record in records:
        state.apply(record, NOON)
    return list(state.checkpoint(read_from))


def write_journal(directory: Path, pages: Iterable[Sequence[Record]], start: int = NOON) -> None:
    """Write a journal with these pages, or more pages to it. Each page is a second later than the one before."""
    at = start / 1000 - 1

    def now() -> float:
        nonlocal at
        at += 1
        return at

    async def write() -> None:
        async with Journal(directory, now=now) as journal:
            for records in pages:
                await journal.append(*records)

    asyncio.run(write())


def delete_before(directory: Path, page: int) -> None:
    async def delete() -> None:
        async with Journal(directory) as journal:
            await journal.delete_before(page)

    asyncio.run(delete())
