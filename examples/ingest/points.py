"""Points, and how they are written: records with a length and a checksum, so that half a record is never taken for one."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple
from zlib import crc32

POINT = struct.Struct("<qd")
HEADER = struct.Struct("<II")
# Whoever reads a longer one does not read a record.
LONGEST = 1 << 24


class Point(NamedTuple):
    """One measurement. In this store a series is numbered without gaps, so that a loss can be seen."""

    number: int
    value: float


class TornError(Exception):
    """Bytes that end in the middle of a record: what a writer leaves that was killed."""

    def __init__(self, offset: int) -> None:
        super().__init__(f"the record at byte {offset} is not whole")
        self.offset = offset


class CorruptError(Exception):
    """Bytes that no writer of ours has written."""


def encode(points: Sequence[Point]) -> bytes:
    """One record."""
    body = b"".join(POINT.pack(*point) for point in points)
    return HEADER.pack(len(body), crc32(body)) + body


def decode(data: bytes) -> Iterator[tuple[Point, ...]]:
    """All records, in order.

    Raises:
        TornError: the last one is not whole; those before it have been given out.
        CorruptError: one that is not the last does not fit its checksum.
    """
    at = 0
    while at < len(data):
        if at + HEADER.size > len(data):
            raise TornError(at)
        length, checksum = HEADER.unpack_from(data, at)
        end = at + HEADER.size + length
        body = data[at + HEADER.size : end]
        if length > LONGEST or length % POINT.size:
            raise CorruptError(f"the record at byte {at} says that it has {length} bytes")
        if end > len(data):
            raise TornError(at)
        if crc32(body) != checksum:
            if end == len(data):
                raise TornError(at)
            raise CorruptError(f"the record at byte {at} does not fit its checksum, and more follows it")
        yield tuple(Point(*fields) for fields in POINT.iter_unpack(body))
        at = end
