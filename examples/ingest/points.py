"""Points, and how they are written: records with a length and a checksum, so that half a record is never read as one.

A machine that goes down while a record is written may leave any part of it: its beginning, or its end with zeros
before it. So a record that is not whole is a tear if no whole one follows. If one does, it was whole once, because
each is durable before the next is written.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple
from zlib import crc32

POINT = struct.Struct("<qd")
HEADER = struct.Struct("<II")
# The limit of points in one record. A longer one is not a record.
LONGEST = 1 << 24
MOST_POINTS = LONGEST // POINT.size


class Point(NamedTuple):
    """One measurement. The points of a series are numbered without gaps, so that a loss is visible."""

    number: int
    value: float


class TornError(Exception):
    """The bytes end with an incomplete record, as a killed writer leaves it."""

    def __init__(self, offset: int) -> None:
        super().__init__(f"the record at byte {offset} is not whole")
        self.offset = offset


class CorruptError(Exception):
    """The bytes are damaged: no writer has written them."""


def encode(points: Sequence[Point]) -> bytes:
    """Write one record of at least one point."""
    body = b"".join(POINT.pack(*point) for point in points)
    return HEADER.pack(len(body), crc32(body)) + body


def decode(data: bytes) -> Iterator[tuple[Point, ...]]:
    """Read all records, in order.

    Raises:
        TornError: the last one is not whole; those before it have been given out.
        CorruptError: one is not whole, and whole ones follow it.
    """
    at = 0
    while at < len(data):
        end = _end_of_record(data, at)
        if end is None:
            if any(_end_of_record(data, later) for later in range(at + 1, len(data))):
                raise CorruptError(f"the record at byte {at} is damaged, and whole ones follow it")
            raise TornError(at)
        yield tuple(Point(*fields) for fields in POINT.iter_unpack(data[at + HEADER.size : end]))
        at = end


def _end_of_record(data: bytes, at: int) -> int | None:
    """Return where the record that begins at `start` ends; None if it is incomplete."""
    start = at + HEADER.size
    if start > len(data):
        return None
    length, checksum = HEADER.unpack_from(data, at)
    end: int = start + length
    # Zeros are not a record: a crashed machine leaves them.
    if not 0 < length <= LONGEST or length % POINT.size or end > len(data):
        return None
    return end if crc32(data[start:end]) == checksum else None
