"""The index of the messages in a journal: finds the pages that say something about a message, without reading the others.

`bandstand log index` builds it, and brings it up to date. It is a projection beside the journal, with its own offset: what the node has written since then is behind
the index, and is scanned. So a search returns what a scan of the whole journal returns, wherever the index is.

A `PageWalk` yields pages in their order. It leaves out pages in which the index has none of the keys that are wanted, and the caller examines each page as in a scan:
the index can save reading, and cannot change a result. If the index cannot be read, the walk goes on as a scan.

The node does not keep this index itself: it has an entry for the id, the type, the cause and the correlation of each message, and so costs about as much as the
journal, and most nodes are never asked.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, Final, Self, TypeAlias, final

from bandstand.bus.durable.reader import START, ids_of, pages_backward, read_entry
from bandstand.errors import JournalError
from bandstand.journal import JournalIndex, JournalIndexReader, RecordPosition
from bandstand.persistence.records import EventHead

if TYPE_CHECKING:
    from pathlib import Path

    from bandstand.bus.durable.reader import Selection
    from bandstand.journal import JournalReader, Page, Record

__all__ = ("NAME", "Key", "MessageIndex", "PageWalk", "keys_of_selection", "message_index", "message_keys")

NAME: Final = "messages"
"""The name of the index."""

_VERSION: Final = "messages 1"

# How many pages are read at a time if they follow each other. A batch may end before the run does: the rest was read for nothing.
_LONGEST_RUN: Final = 64

Key: TypeAlias = tuple[str, str]
"""A space and a key in it.

    id            the id of a message, of the request that it answers, of a timer or a dead letter
    type          the type of a message
    cause         the id of the message that has caused it
    correlation   its correlation
    key           the key of an entity
    number        the number of a request, where its id is not written
"""


def message_index(directory: str | os.PathLike[str]) -> JournalIndex:
    """Return the index of the messages in a journal, to be opened and written."""
    return JournalIndex(directory, message_keys, name=NAME, version=_VERSION)


def message_keys(record: Record) -> Iterator[Key]:
    """Yield the keys of a record.

    Raises:
        JournalCorruptError, UnicodeDecodeError: it is not what its kind says.
    """
    entry = read_entry(START, 0, record, is_copy=False)
    for name in {name for name in ids_of(entry) if name}:
        yield "id", name
    if isinstance(entry.content, EventHead):
        yield "key", entry.content.key
    if entry.message is None:
        for number in entry.numbers:
            yield "number", str(number)
        return
    own = entry.message.metadata
    yield "type", entry.message.type
    if own.causation is not None:
        yield "cause", own.causation
    if own.correlation is not None:
        yield "correlation", own.correlation


def keys_of_selection(where: Selection) -> list[Key] | None:
    """Return keys of which each selected record has one; None if there are none. A type that ends with `*` stands for all that begin so."""
    for space, key in (
        ("id", where.id),
        ("cause", where.cause),
        ("correlation", where.correlation),
        ("key", where.key),
    ):
        if key:
            return [(space, key)]
    if not where.types or "*" in where.types:
        return None
    return [("type", name) for name in where.types]


@final
class MessageIndex:
    """Reads the index of the messages in a journal, as it was when this was made. Use it from the thread that made it.

    Args:
        reader: the journal.
        on_failure: called once, if the index cannot be read any more.

    Raises:
        JournalError: there is no index, it cannot be read, or it belongs to another state of the journal or to another version.
    """

    def __init__(self, reader: JournalReader, on_failure: Callable[[JournalError], object]) -> None:
        self._reader = reader
        self._on_failure = on_failure
        self._index = JournalIndexReader(reader.directory, name=NAME, is_fixed=True)
        try:
            self._index.check(_VERSION)
            self.page = self._index.page
            """The number of the last page that is indexed; 0 if there is none."""
            self.lag = self._index.lag
            """The number of durable pages that were not indexed when this was made."""
        except BaseException:  # nothing may stay open, or half done, also after a cancellation or Ctrl-C
            self._index.close()
            raise

    @staticmethod
    def exists(directory: Path) -> bool:
        """Return whether a journal has such an index."""
        return (directory / f"{NAME}.sqlite").exists()

    def fail(self, error: JournalError) -> None:
        """Do not use the index any more."""
        if self.page:
            self.page = 0
            self._on_failure(error)

    def pages_with(self, space: str, key: str, after: int) -> Iterator[int]:
        """Yield the numbers of pages behind `after` that have a key, ascending.

        Raises:
            JournalError: the index cannot be read.
        """
        position = RecordPosition(after + 1, 0)
        while found := self._index.find(space, key, after=position):
            yield from dict.fromkeys(page for page, _ in found)
            # The rest of the last page is not of interest.
            position = RecordPosition(found[-1].page + 1, 0)

    def keys_with(self, space: str, prefix: str) -> Iterator[str]:
        """Yield the keys of a space that begin with a prefix; the prefix itself also if there is no such key.

        Raises:
            JournalError: the index cannot be read.
        """
        yield prefix
        key = prefix
        # One at a time: to find the next key takes one step in a B-tree, to find several reads all positions of each.
        while (found := self._index.keys(space, after=key, limit=1)) and found[0].startswith(prefix):
            (key,) = found
            yield key

    def backward(self, last: int, name: str) -> Iterator[Page]:
        """Yield the pages with this id, and all that are not indexed, from number `last` down.

        Raises:
            JournalCorruptError, JournalError: as for `pages_backward`.
        """
        end = self.page
        yield from pages_backward(self._reader, last, end + 1)
        lowest = min(last, end) + 1
        while end:
            try:
                found = self._index.find(
                    "id", name, newest_first=True, after=RecordPosition(lowest, 0), limit=1
                )
            except JournalError as error:
                self.fail(error)
                break
            if not found:
                return
            lowest = found[0].page
            yield from self._reader.pages(lowest, lowest)
        if end:
            yield from pages_backward(self._reader, lowest - 1)

    def close(self) -> None:
        """Close the index."""
        self._index.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()


@final
class PageWalk:
    """Yields the pages with keys that are wanted, in their order: the first page, those with such a key, the last page that is indexed, and all behind it.

    Args:
        reader: the journal.
        index: its index; None to yield all pages.
        since: the number of the first page. If it was deleted, the first one that is kept.

    Raises:
        JournalCorruptError, JournalError: as for `JournalReader.pages`.
    """

    def __init__(self, reader: JournalReader, index: MessageIndex | None, since: int) -> None:
        self._reader = reader
        self._index = index
        self._first = max(since, reader.first)
        # The lowest page of each stream of pages, with a number that makes it unique.
        self._streams: list[tuple[int, int, Iterator[int]]] = []
        self._serial = count()
        self._wanted: set[Key] = set()
        # Pages up to this one are on their way, or were left out.
        self._reached = self._first

    def want(self, space: str, key: str) -> None:
        """Yield the pages with this key too, as far as they are behind the one that was yielded last."""
        if self._index is None or not self._index.page or (space, key) in self._wanted:
            return
        self._wanted.add((space, key))
        try:
            if space == "type" and key.endswith("*"):
                for name in self._index.keys_with(space, key[:-1]):
                    self._push(self._index.pages_with(space, name, self._reached))
            else:
                self._push(self._index.pages_with(space, key, self._reached))
        except JournalError as error:
            self._index.fail(error)

    def want_all(self, keys: Iterable[Key]) -> Self:
        """Want several keys; return the walk."""
        for key in keys:
            self.want(*key)
        return self

    def __iter__(self) -> Iterator[Page]:
        reader, index = self._reader, self._index
        last = self._first - 1
        end = 0 if index is None else index.page
        if self._first < end:
            for page in reader.pages(self._first, self._first):
                last = page.number
                yield page
        # If the first page has just been deleted, the rest is a scan.
        if index is not None and self._first <= last:
            while (run := self._next_run(end)) is not None:
                for page in self._run(*run):
                    last = page.number
                    yield page
            # Unless the index has failed, nothing between the last page and the end is wanted.
            if index.page:
                yield from self._run(end, end)
                last = end
        yield from reader.pages(last + 1)

    def _run(self, first: int, last: int) -> Iterator[Page]:
        """Yield the pages of a run. One that was deleted is an error, as in a scan."""
        number = first
        for page in self._reader.pages(first, last):
            if page.number != number:
                break
            number += 1
            yield page
        if number <= last:
            raise JournalError(
                f"page {number} of the journal {self._reader.directory} was deleted before it was read: keep pages longer, or read faster"
            )

    def _next_run(self, end: int) -> tuple[int, int] | None:
        """Return the next wanted pages that follow each other, before `end`; None if there are no more, or the index has failed."""
        assert self._index is not None
        first = 0
        try:
            while self._index.page and self._streams and self._streams[0][0] < end:
                page = self._streams[0][0]
                if first and (page > self._reached + 1 or page - first >= _LONGEST_RUN):
                    break
                _, _, stream = heappop(self._streams)
                self._push(stream)
                if page > self._reached:
                    first = first or page
                    self._reached = page
        except JournalError as error:
            self._index.fail(error)
        return (first, self._reached) if first and self._index.page else None

    def _push(self, stream: Iterator[int]) -> None:
        page = next(stream, None)
        if page is not None:
            heappush(self._streams, (page, next(self._serial), stream))
