"""The format of a page: records with a checksum each, and a checksum that chains the pages.

A page is what one commit makes durable. Its body is a sequence of records:

    length u32 | crc32 u32 | kind u8 | data        little-endian; the checksum covers kind and data

The chain of a page is the CRC-32 of its number, its time, the number of its records and its body, continued from the chain of the page
before. SQLite returns a record in which a bit has flipped as if nothing had happened, so these checksums are the only thing that notices; and
a page that is missing, or in the wrong place, breaks the chain.

Everything here is pure: bytes in, bytes or records out.
"""

# The checker sees one of the two definitions of `append_record`.
# pyright: reportPossiblyUnboundVariable=false

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final
from zlib import crc32

from bandstand.errors import InvalidArgumentError, JournalCorruptError
from bandstand.errors.formatting import safe_repr

try:
    import cython
except ModuleNotFoundError:  # interpreted, without Cython installed
    from bandstand.core import _cython as cython  # type: ignore[no-redef]  # one of the two

__all__ = ("LARGEST_RECORD", "Page", "Record", "RecordBatch", "chain_of", "decode_body", "encode_records")

LARGEST_RECORD: Final = 64 << 20
"""The most bytes of data that a record may have."""

_RECORD = struct.Struct("<IIB")
_PAGE = struct.Struct("<QqI")


if not cython.compiled:
    # Compiled, it is a C function in the .pxd.
    def append_record(body: bytearray, kind: int, data: bytes, checksum: int) -> None:
        """Append a record to the body of a page."""
        body += _RECORD.pack(len(data), checksum, kind)
        body += data


@dataclass(frozen=True, slots=True)
class Record:
    """One entry of the journal: a kind from 0 to 255, whose meaning the writer chooses, and bytes."""

    kind: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Page:
    """The records of one commit."""

    number: int
    """Its place in the journal: 1 for the first page, without gaps."""
    at: int
    """When it was written, in milliseconds since 1970."""
    records: tuple[Record, ...]
    chain: int
    """The checksum of this page and all pages before it."""


class RecordBatch:
    """Records that are collected to be written together.

        batch = RecordBatch()
        batch.add(1, b"a line")
        journal.write_batch(batch, done)

    It costs half of what a `Record` for each of them does.
    """

    __slots__ = ("_body", "count", "size")

    def __init__(self) -> None:
        self._body = bytearray()
        self.count = 0
        """The number of the records."""
        self.size = 0
        """The bytes of their data."""

    def add(self, kind: int, data: bytes) -> None:
        """Add a record.

        Raises:
            InvalidArgumentError: its kind or its data is not valid. The batch is as before.
        """
        if (
            type(kind) is not int
            or not 0 <= kind <= 255
            or type(data) is not bytes
            or len(data) > LARGEST_RECORD
        ):
            raise _invalid(kind, data)
        append_record(self._body, kind, data, crc32(data, kind))
        self.count += 1
        self.size += len(data)

    def extend(self, other: RecordBatch) -> None:
        """Add the records of another batch, which stays as it is."""
        self._body += other._body
        self.count += other.count
        self.size += other.size

    def clear(self) -> None:
        """Remove all records."""
        self._body.clear()
        self.count = self.size = 0

    def encode(self) -> bytes:
        """Return the bytes of the records, as they stand in the body of a page."""
        return bytes(self._body)


def encode_records(records: Iterable[Record]) -> bytes:
    """Return the bytes of some records, as they stand in the body of a page.

    Raises:
        InvalidArgumentError: the kind or the data of a record is not valid.
    """
    batch = RecordBatch()
    for record in records:
        batch.add(record.kind, record.data)
    return batch.encode()


def _invalid(kind: object, data: object) -> InvalidArgumentError:
    if type(kind) is not int or not 0 <= kind <= 255:
        return InvalidArgumentError(f"the kind of a record is {safe_repr(kind)}: pass an int from 0 to 255")
    what = f"{len(data)} bytes" if type(data) is bytes else f"of type {type(data).__name__}"
    return InvalidArgumentError(
        f"the data of a record is {what}: pass an object of type bytes, with at most {LARGEST_RECORD} bytes"
    )


def chain_of(previous: int, number: int, at: int, count: int, body: bytes) -> int:
    """Return the chain of a page, from the chain of the page before it."""
    return crc32(body, crc32(_PAGE.pack(number, at, count), previous))


def decode_body(number: int, count: int, body: bytes) -> Iterator[Record]:
    """Yield the records of a page.

    Raises:
        JournalCorruptError: a record is damaged, or there are more or fewer than `count`. The error names the page and the record.
    """
    start, end = 0, len(body)
    for place in range(1, count + 1):
        if end - start < _RECORD.size:
            raise _damaged(number, place, f"the page ends after {place - 1} of {count} records")
        length, checksum, kind = _RECORD.unpack_from(body, start)
        start += _RECORD.size
        data = body[start : start + length]
        if len(data) < length:
            raise _damaged(number, place, f"it has {length} bytes, and the page ends after {len(data)}")
        if crc32(data, kind) != checksum:
            raise _damaged(number, place, "its checksum does not match")
        start += length
        yield Record(kind, data)
    if start != end:
        raise JournalCorruptError.at(
            f"page {number} is damaged: {end - start} bytes follow its last record", number
        )


def _damaged(page: int, record: int, reason: str) -> JournalCorruptError:
    return JournalCorruptError.at(f"record {record} of page {page} is damaged: {reason}", page, record)
