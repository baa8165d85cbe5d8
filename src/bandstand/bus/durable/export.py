"""Writes records of a journal as lines of JSON, for other programs and for people.

    {"offset":"12-1","at":1767960000000,"kind":"request","number":7,"acceptedAt":1767959999998,"message":{"kind":"command",...}}

A line has everything that its record has. A message is the wire line itself, byte for byte. The bytes of a record of an unknown kind, from a later version,
are in base64.
"""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, final

import msgspec
from msgspec import Raw, Struct

from bandstand.bus.durable.reader import entries_of
from bandstand.bus.durable.records import (
    ANSWER,
    BEGAN,
    DEAD_ENDED,
    ENDED,
    ENTITY_EVENT,
    FROM_CLIENT,
    IS_BEGUN,
    IS_DOUBTFUL,
    IS_REMEMBERED,
    KIND_NAMES,
    REQUEST,
    TIMER_ENDED,
    EntityHead,
    line_of,
)

if TYPE_CHECKING:
    from bandstand.bus.durable.reader import Entry, Selection
    from bandstand.journal import Page

__all__ = ("Exported", "entry_line", "export")

# A flag of a later version is shown as its number.
_FLAGS: Final = {
    IS_BEGUN: "begun",
    IS_REMEMBERED: "remembered",
    IS_DOUBTFUL: "doubtful",
    FROM_CLIENT: "fromClient",
}


@final
class _Line(Struct, omit_defaults=True, rename="camel"):
    """One record, as JSON."""

    offset: str
    at: int
    kind: str
    is_copy: bool = msgspec.field(name="copy", default=False)
    number: int | None = None
    accepted_at: int | None = None
    flags: tuple[str, ...] = ()
    entity: EntityHead | None = None
    message: Raw | None = None
    numbers: tuple[int, ...] | None = None
    id: str | None = None
    content: Raw | None = None
    """The data of a record that is JSON."""
    bytes: bytes | None = None
    """The data of a record of an unknown kind."""


_encode = msgspec.json.Encoder().encode


def entry_line(entry: Entry) -> bytes:
    """Return a record as one line of JSON, without its end."""
    kind, data = entry.kind, entry.data
    line = _Line(str(entry.offset), entry.at, entry.kind_name, entry.is_copy)
    if (message := line_of(kind, data)) is not None:
        line.message = Raw(message)
    if kind in {REQUEST, ANSWER}:
        line.number = entry.numbers[0]
        line.accepted_at = entry.accepted_at if kind == REQUEST else None
        line.flags = tuple(
            [_FLAGS.get(1 << bit, str(1 << bit)) for bit in range(8) if entry.flags >> bit & 1]
        )
    elif kind in {BEGAN, ENDED}:
        line.numbers = entry.numbers
    elif kind in {TIMER_ENDED, DEAD_ENDED}:
        line.id = entry.ended
    elif kind == ENTITY_EVENT and isinstance(entry.content, EntityHead):
        line.entity = entry.content
    elif kind not in KIND_NAMES:
        line.bytes = data
    elif message is None:
        line.content = Raw(data)
    return _encode(line)


@final
class Exported(Struct):
    """What was exported."""

    pages: int = 0
    records: int = 0


def export(
    path: Path,
    pages: Iterable[Page],
    where: Selection | None = None,
    on_page: Callable[[Page], object] | None = None,
) -> Exported:
    """Write the records of some pages to a file, as lines of JSON, compressed with gzip.

    The file appears when it is complete and durable; after an error there is none. The same pages make the same file.

    Args:
        path: the file. One that exists is replaced.
        pages: the pages.
        where: which records to write; None for all, with copies.
        on_page: called with each page after it was written.

    Raises:
        OSError: the file cannot be written.
        JournalError: as for `JournalReader.pages`.
    """
    done = Exported()
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with partial.open("xb") as file:
            # Without a name and a time, so that the same pages make the same file.
            with gzip.GzipFile("", "wb", 6, file, mtime=0) as zipped:
                for page in pages:
                    for entry in entries_of(page, where):
                        zipped.write(entry_line(entry) + b"\n")
                        done.records += 1
                    done.pages += 1
                    if on_page is not None:
                        on_page(page)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
        _sync_directory(path.parent)
    except BaseException:  # half a file must not stay, also after Ctrl-C
        with suppress(OSError):
            partial.unlink()
        raise
    return done


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
