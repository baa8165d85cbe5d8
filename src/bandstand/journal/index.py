"""An index of a journal: finds the records that have a key, without reading the others.

    def extract(record: Record) -> Iterable[tuple[str, str]]:
        yield "order", order_of(record)

    async with Journal("data/journal") as journal, JournalIndex("data/journal", extract) as index:
        page = await journal.append(record)
        await index.reached(page)
        positions = index.find("order", "1001")

**A projection.** The index has an SQLite database of its own beside the journal. A thread reads the pages of the journal, and writes what `extract` returns, together with
the number of the page that it has reached, in one transaction. So the writer of the journal never waits for it, a crash leaves an index that continues where it was, and an index
that is damaged, or that belongs to another journal, is built again. What it has still to read is its `lag`.

    DIRECTORY/index.sqlite    the positions of records by space and key; -wal and -shm beside it
    DIRECTORY/index.lock      locked by the one process that writes the index

A journal can have several indexes. Each has a name of its own, which is the name of its files.

**Durability.** A commit does not wait for an fsync. After a power cut the index may be older than the journal, and reads the difference again.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import re
import sqlite3
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, Self, TypeAlias, final

from bandstand.core.logs import SafeLogger
from bandstand.errors import (
    InvalidArgumentError,
    JournalClosedError,
    JournalError,
    JournalFailedError,
    JournalFullError,
    JournalLockedError,
)
from bandstand.errors.formatting import describe_exception, safe_repr
from bandstand.errors.validation import check_int
from bandstand.journal.storage import JournalReader

if TYPE_CHECKING:
    from types import TracebackType

    from bandstand.journal.page import Page, Record

__all__ = ("Extract", "JournalIndex", "JournalIndexReader", "JournalIndexStats", "RecordPosition")

Extract: TypeAlias = "Callable[[Record], Iterable[tuple[str, str]]]"
"""Returns the keys of a record, each with the space that it belongs to."""

# The name of an index. `journal.sqlite` is the journal.
_NAME: Final = re.compile(r"(?!journal$)[a-z][a-z0-9_]*", re.ASCII)

_APPLICATION_ID: Final = 0x6273696E
_FORMAT: Final = 1
_SCHEMA: Final = """
CREATE TABLE progress (page INTEGER NOT NULL, chain INTEGER NOT NULL, version TEXT NOT NULL);
CREATE TABLE space (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE entry (space INTEGER, key TEXT, page INTEGER, place INTEGER, PRIMARY KEY (space, key, page, place)) WITHOUT ROWID;
CREATE INDEX entry_page ON entry (page);
"""
_INSERT: Final = "INSERT OR IGNORE INTO entry (space, key, page, place) VALUES (?, ?, ?, ?)"
_FIND: Final = (
    "SELECT page, place FROM entry WHERE space = (SELECT id FROM space WHERE name = ?) AND key = ? AND page BETWEEN ? AND ? AND (page, place) {} (?, ?) "
    "ORDER BY page {}, place {} LIMIT ?"
)
_OLDEST_FIRST: Final = _FIND.format(">", "ASC", "ASC")
_NEWEST_FIRST: Final = _FIND.format("<", "DESC", "DESC")
_KEYS: Final = "SELECT DISTINCT key FROM entry WHERE space = (SELECT id FROM space WHERE name = ?) AND key > ? AND page >= ? ORDER BY key LIMIT ?"
_KEYS_AT: Final = "SELECT DISTINCT key FROM entry WHERE page = ? AND space = (SELECT id FROM space WHERE name = ?) ORDER BY key"

# How many pages are indexed, or dropped, in one transaction. Readers of the index see progress at this rate.
_PAGES_AT_ONCE: Final = 256
_BYTES_AT_ONCE: Final = 4 << 20
_HIGHEST: Final = 1 << 62

logger = SafeLogger("bandstand.journal")


class RecordPosition(NamedTuple):
    """Where a record is in a journal: `page.records[position.place - 1]`."""

    page: int
    """The number of the page."""
    place: int
    """The number of the record in the page, from 1, as in errors."""


@dataclass(frozen=True, slots=True)
class JournalIndexStats:
    """The state of an index."""

    page: int
    """The number of the last page that is indexed; 0 if there is none."""
    lag: int
    """The number of durable pages that are not indexed yet."""
    added: int
    """The number of entries that were added since the index was opened."""
    failure: JournalError | None
    """Why the index does not follow the journal any more; None if it does."""


# -- the writer --------------------------------------------------------------------------------------------------------


@final
class _IndexFile:
    """The database of an index. Use it from the thread that made it.

    Args:
        directory: the directory of the journal.
        name: the name of the index.
        version: the version of `extract`. An index of another version is emptied.
    """

    def __init__(self, directory: Path, name: str, version: str) -> None:
        self._path = directory / f"{name}.sqlite"
        self._version = version
        self._spaces: dict[str, int] = {}
        self.page = self.chain = 0
        """Number and chain of the last page that is indexed; 0 and 0 if there is none."""
        self._lock = _locked(directory / f"{name}.lock", directory)
        self._connection: sqlite3.Connection | None = None
        try:
            self._open()
        except BaseException:  # nothing may stay open, or half done, also after a cancellation or Ctrl-C
            self.close()
            raise

    def _open(self) -> None:
        try:
            self._connect()
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError):
                raise
            logger.warning("the index %s is damaged, and is built again: %s", self._path, error)
            self._connected.close()
            _remove(self._path)
            self._connect()

    def _connect(self) -> None:
        connection = self._connection = sqlite3.connect(self._path, isolation_level=None)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (form,) = connection.execute("PRAGMA user_version").fetchone()
        if (application, form) == (0, 0):
            connection.executescript(
                f"BEGIN IMMEDIATE; {_SCHEMA} PRAGMA application_id = {_APPLICATION_ID}; PRAGMA user_version = {_FORMAT}; COMMIT"
            )
        elif application != _APPLICATION_ID or form != _FORMAT:
            raise sqlite3.DatabaseError(f"it has format {form}, and this version of bandstand has {_FORMAT}")
        rows = connection.execute("SELECT page, chain, version FROM progress").fetchall()
        if len(rows) != 1 or rows[0][2] != self._version:
            self.clear()
        else:
            self.page, self.chain, _ = rows[0]
        self._spaces = dict(connection.execute("SELECT name, id FROM space"))

    def clear(self) -> None:
        """Remove everything."""
        with self._transaction() as connection:
            for table in ("entry", "space", "progress"):
                connection.execute(f"DELETE FROM {table}")  # noqa: S608  # our own names
            connection.execute("INSERT INTO progress VALUES (0, 0, ?)", (self._version,))
        self.page = self.chain = 0
        self._spaces = {}

    def add(self, entries: Sequence[tuple[str, str, int, int]], page: int, chain: int) -> None:
        """Add entries (space, key, page and place), and with them the number and chain of the last page that is indexed."""
        known = dict(self._spaces)
        with self._transaction() as connection:
            for name in {entry[0] for entry in entries} - known.keys():
                known[name] = len(known) + 1
                connection.execute("INSERT INTO space VALUES (?, ?)", (known[name], name))
            connection.executemany(_INSERT, [(known[space], *rest) for space, *rest in entries])
            connection.execute("UPDATE progress SET page = ?, chain = ?", (page, chain))
        self._spaces = known
        self.page, self.chain = page, chain

    def drop_before(self, page: int) -> bool:
        """Drop some entries of pages before this number; return whether there were any."""
        (lowest,) = self._connected.execute("SELECT min(page) FROM entry").fetchone()
        if lowest is None or lowest >= page:
            return False
        with self._transaction() as connection:
            connection.execute("DELETE FROM entry WHERE page < ?", (min(page, lowest + _PAGES_AT_ONCE),))
        return True

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
        os.close(self._lock)

    @property
    def _connected(self) -> sqlite3.Connection:
        assert self._connection is not None
        return self._connection

    @contextmanager
    def _transaction(self) -> Generator[sqlite3.Connection]:
        connection = self._connected
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield connection
            connection.execute("COMMIT")
        except BaseException:  # nothing may stay open, or half done, also after a cancellation or Ctrl-C
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise


def _remove(path: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def _locked(path: Path, directory: Path) -> int:
    """Open and lock a file; return its descriptor."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BaseException as error:
        os.close(descriptor)
        if isinstance(error, BlockingIOError):
            raise JournalLockedError(
                f"the index of the journal {directory} is open already, here or in another process: use JournalIndexReader to read it"
            ) from None
        raise
    return descriptor


# -- the reader --------------------------------------------------------------------------------------------------------


@final
class JournalIndexReader:
    """Finds records through an index, while that is written or not, in any process. Use it from the thread that made it.

    Args:
        directory: the directory of the journal.
        name: the name of the index.
        is_fixed: whether the reader sees the index as it is now until the reader is closed, and not what is added or removed later. Close such a reader
            soon: the write-ahead log of the index cannot be shortened meanwhile.

    Raises:
        JournalError: there is no journal, or no index with this name, in this directory; or the index cannot be read.
    """

    __slots__ = ("_index", "_journal", "directory")

    def __init__(
        self, directory: str | os.PathLike[str], *, name: str = "index", is_fixed: bool = False
    ) -> None:
        self.directory = directory = Path(directory)
        _check_name(name)
        self._journal = JournalReader(directory)
        try:
            with _translated(f"read the index of the journal {directory}"):
                self._index = _connect_read_only(directory, name)
                if is_fixed:
                    _fix(self._index)
        except BaseException:  # nothing may stay open, or half done, also after a cancellation or Ctrl-C
            self._journal.close()
            raise

    def find(
        self,
        space: str,
        key: str,
        *,
        newest_first: bool = False,
        after: RecordPosition | None = None,
        limit: int = 1000,
    ) -> list[RecordPosition]:
        """Return where the records with a key are, without those of deleted pages.

        Args:
            space: the space of the key.
            key: the key.
            newest_first: whether to begin at the end of the journal.
            after: continue behind this position, in the same direction; None to begin.
            limit: how many positions to return at most.

        Raises:
            JournalError: the index cannot be read.
        """
        check_int("limit", limit, 1, _HIGHEST)
        if after is None:
            after = RecordPosition(_HIGHEST, 0) if newest_first else RecordPosition(0, 0)
        query = _NEWEST_FIRST if newest_first else _OLDEST_FIRST
        # With a lower bound for the page, SQLite uses the pair only as a filter. So the page itself must be the bound, or it reads all positions before.
        pages = (0, after.page) if newest_first else (after.page, _HIGHEST)
        with _translated(f"read the index of the journal {self.directory}"):
            bounds = (max(pages[0], self._journal.first), pages[1])
            rows = self._index.execute(query, (space, key, *bounds, *after, limit)).fetchall()
        return [RecordPosition(page, place) for page, place in rows]

    def keys(self, space: str, *, after: str = "", limit: int = 1000) -> list[str]:
        """Return the keys of a space that are greater than `after`, in order.

        Raises:
            JournalError: the index cannot be read.
        """
        check_int("limit", limit, 1, _HIGHEST)
        with _translated(f"read the index of the journal {self.directory}"):
            rows = self._index.execute(_KEYS, (space, after, self._journal.first, limit)).fetchall()
        return [key for (key,) in rows]

    def keys_at(self, space: str, page: int) -> list[str]:
        """Return the keys of a space that the records of a page have, in order.

        Raises:
            JournalError: the index cannot be read.
        """
        with _translated(f"read the index of the journal {self.directory}"):
            rows = self._index.execute(_KEYS_AT, (page, space)).fetchall()
        return [key for (key,) in rows]

    def check(self, version: str) -> None:
        """Check that the index was made with this version of `extract`, and from this state of the journal.

        Raises:
            JournalError: it was not, or it cannot be read.
        """
        what = f"the index of the journal {self.directory}"
        with _translated(f"read {what}"):
            rows = self._index.execute("SELECT page, chain, version FROM progress").fetchall()
        if len(rows) != 1 or rows[0][2] != version:
            raise JournalError(f"{what} was made by another version of bandstand")
        number, chain, _ = rows[0]
        if number < self._journal.first:
            return
        page = next(self._journal.pages(number, number), None)
        if page is None or page.chain != chain:
            raise JournalError(f"{what} belongs to another state of it")

    @property
    def page(self) -> int:
        """The number of the last page that is indexed; 0 if there is none."""
        with _translated(f"read the index of the journal {self.directory}"):
            row = self._index.execute("SELECT page FROM progress").fetchone()
        return 0 if row is None else int(row[0])

    @property
    def lag(self) -> int:
        """The number of durable pages that are not indexed yet."""
        return max(0, self._journal.last - max(self.page, self._journal.first - 1))

    def close(self) -> None:
        """Close the databases."""
        self._index.close()
        self._journal.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()


def _connect_read_only(directory: Path, name: str) -> sqlite3.Connection:
    path = directory / f"{name}.sqlite"
    if not path.exists():
        raise JournalError(f"the journal {directory} has no index: open a JournalIndex")
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None)


def _fix(connection: sqlite3.Connection) -> None:
    """Begin a transaction that sees the index as it is now."""
    try:
        connection.execute("BEGIN")
        connection.execute("SELECT page FROM progress").fetchone()
    except BaseException:  # nothing may stay open, or half done, also after a cancellation or Ctrl-C
        connection.close()
        raise


def _check_name(name: str) -> None:
    if _NAME.fullmatch(name) is None:
        raise InvalidArgumentError(
            f"{safe_repr(name)} is no name for an index: pass small letters, digits and _, beginning with a letter, and not 'journal'"
        )


# -- the thread --------------------------------------------------------------------------------------------------------


@final
@dataclass(frozen=True, slots=True)
class _Rebuild:
    """A request to build the index again."""

    future: asyncio.Future[None]
    progress: Callable[[int, int], object] | None


@final
class _Follower:
    """The thread that follows the journal. It calls `on_progress` and `on_failure` on the event loop.

    Args:
        directory: the directory of the journal.
        name: the name of the index.
        extract: returns the keys of a record.
        version: the version of `extract`.
        poll: how long it waits for a wake-up at most, in seconds; None for ever.
        on_progress: called with the number of the last indexed page, and the number of entries that were added.
        on_full: called each time there is no room for the index.
        on_failure: called once, when it cannot continue.
    """

    def __init__(
        self,
        directory: Path,
        name: str,
        extract: Extract,
        version: str,
        poll: float | None,
        on_progress: Callable[[int, int], object],
        on_full: Callable[[JournalError], object],
        on_failure: Callable[[JournalError], object],
    ) -> None:
        self._directory = directory
        self._name = name
        self._extract = extract
        self._version = version
        self._poll = poll
        self._on_progress = on_progress
        self._on_full = on_full
        self._on_failure = on_failure
        self._event_loop = asyncio.get_running_loop()
        self._opened: asyncio.Future[None] = self._event_loop.create_future()
        self._closed: asyncio.Future[None] = self._event_loop.create_future()
        self._woken = threading.Event()
        self._is_closing = False
        self._is_full = False
        self._rebuilds: list[_Rebuild] = []
        self._thread = threading.Thread(target=self._run, name=f"{name} {directory.name}", daemon=True)

    # -- on the event loop

    async def start(self) -> None:
        """Start the thread, and wait until the index is open."""
        self._thread.start()
        await self._opened

    async def stop(self) -> None:
        """End the thread. If this is cancelled, it ends all the same."""
        self._is_closing = True
        self._woken.set()
        await asyncio.shield(self._closed)
        self._thread.join()

    def wake(self) -> None:
        """Look for new pages now."""
        self._woken.set()

    def rebuild(self, request: _Rebuild) -> None:
        """Empty the index, and read the journal from its first page."""
        self._rebuilds.append(request)
        self._woken.set()

    # -- on the thread

    def _run(self) -> None:
        failure: JournalError | None = None
        is_open = False
        try:
            with _translated(f"open the index of the journal {self._directory}"):
                file = _IndexFile(self._directory, self._name, self._version)
        except BaseException as error:  # noqa: BLE001  # `start` raises it
            self._settle(self._opened, error)
        else:
            try:
                with JournalReader(self._directory) as reader:
                    self._check_origin(file, reader)
                    self._post(partial(self._on_progress, file.page, 0))
                    self._settle(self._opened)
                    is_open = True
                    self._follow(file, reader)
            except Exception as error:  # noqa: BLE001  # every error ends the thread, and is reported
                failure = self._describe(error)
                self._settle(self._opened, failure)
            file.close()
        if failure is not None and is_open:
            self._post(partial(self._on_failure, failure))
        for request in self._rebuilds:
            self._settle(request.future, failure or _closed(self._directory))
        self._settle(self._closed)

    def _check_origin(self, file: _IndexFile, reader: JournalReader) -> None:
        """Empty an index that was not made from this journal, as after its replacement by an older copy."""
        if file.page < reader.first:
            return
        page = next(reader.pages(since=file.page), None)
        if page is None or page.number != file.page or page.chain != file.chain:
            logger.warning(
                "the index of the journal %s belongs to another state of it, and is built again",
                self._directory,
            )
            file.clear()

    def _follow(self, file: _IndexFile, reader: JournalReader) -> None:
        """Index new pages until the index is closed."""
        while not self._is_closing:
            try:
                rebuild = self._rebuilds.pop(0) if self._rebuilds else None
                if rebuild is not None:
                    self._rebuild(file, reader, rebuild)
                self._advance(file, reader, None)
            except JournalFullError as full:
                if not self._is_full:
                    logger.error("%s: the index waits until there is room", full)  # noqa: TRY400  # a traceback says no more
                self._is_full = True
                self._post(partial(self._on_full, full))
            if not self._rebuilds:
                self._woken.wait(self._poll)
            self._woken.clear()

    def _rebuild(self, file: _IndexFile, reader: JournalReader, request: _Rebuild) -> None:
        try:
            with _translated(f"write the index of the journal {self._directory}"):
                file.clear()
            self._post(partial(self._on_progress, 0, 0))
            self._advance(file, reader, request.progress)
        except Exception as error:
            self._settle(request.future, self._describe(error))
            raise
        self._settle(request.future, _closed(self._directory) if self._is_closing else None)

    def _advance(
        self, file: _IndexFile, reader: JournalReader, progress: Callable[[int, int], object] | None
    ) -> None:
        """Index the pages that are durable now, and drop the entries of deleted ones."""
        first = reader.first
        with _translated(f"write the index of the journal {self._directory}"):
            while not self._is_closing and file.drop_before(first):
                pass
        pages = reader.pages(since=max(first, file.page + 1))
        while not self._is_closing:
            try:
                taken = _slice(pages)
            except JournalError:
                if reader.first <= max(first, file.page + 1):
                    raise
                return self._advance(file, reader, progress)  # pages were deleted meanwhile
            if not taken:
                return None
            entries = list(self._entries(taken))
            with _translated(f"write the index of the journal {self._directory}"):
                file.add(entries, taken[-1].number, taken[-1].chain)
            self._is_full = False
            self._post(partial(self._on_progress, file.page, len(entries)))
            if progress is not None:
                self._post(partial(progress, file.page, reader.last))
        return None

    def _entries(self, pages: Iterable[Page]) -> Iterator[tuple[str, str, int, int]]:
        for page in pages:
            for place, record in enumerate(page.records, 1):
                try:
                    keys = [_checked(space, key) for space, key in self._extract(record)]
                except Exception as error:
                    raise JournalError(
                        f"extract cannot index record {place} of page {page.number} of the journal {self._directory}: "
                        f"{describe_exception(error)}"
                    ) from error
                for space, key in keys:
                    yield space, key, page.number, place

    def _describe(self, error: Exception) -> JournalError:
        if isinstance(error, JournalError):
            return error
        failure = JournalFailedError(
            f"the index of the journal {self._directory} has failed: {describe_exception(error)}"
        )
        failure.__cause__ = error
        return failure

    def _settle(self, future: asyncio.Future[None], error: BaseException | None = None) -> None:
        def settle() -> None:
            if future.done():
                return
            if error is None:
                future.set_result(None)
            else:
                future.set_exception(error)

        self._post(settle)

    def _post(self, function: Callable[[], object]) -> None:
        """Call a function on the event loop, unless that is closed."""
        with suppress(RuntimeError):
            self._event_loop.call_soon_threadsafe(function)


def _slice(pages: Iterator[Page]) -> list[Page]:
    """Take the pages of one transaction."""
    taken: list[Page] = []
    size = 0
    while size < _BYTES_AT_ONCE and len(taken) < _PAGES_AT_ONCE and (page := next(pages, None)) is not None:
        taken.append(page)
        size += sum(len(record.data) for record in page.records)
    return taken


def _checked(space: object, key: object) -> tuple[str, str]:
    if type(space) is not str or type(key) is not str:
        raise InvalidArgumentError(
            f"extract returned {safe_repr((space, key))}: return a space and a key, both strings"
        )
    # Raises for half of a surrogate pair, which SQLite cannot store.
    space.encode()
    key.encode()
    return space, key


# -- the public class --------------------------------------------------------------------------------------------------


@final
class JournalIndex:
    """An index of a journal, which follows it. Use it on the event loop that opened it. One process at a time has it open.

    The journal must exist: open it first. Its writer may be this process, another one, or none.

    Args:
        directory: the directory of the journal.
        extract: returns the keys of a record, each with its space. It is called on a thread of the index. An exception stops the index.
        name: the name of the index. A journal can have several, with different names.
        version: change it when `extract` changes, and the index is built again.
        poll: how long the index waits at most before it looks for new pages, in seconds; None to look only after `wake`.
    """

    __slots__ = (
        "_added",
        "_calls",
        "_directory",
        "_extract",
        "_failure",
        "_follower",
        "_name",
        "_page",
        "_poll",
        "_reader",
        "_thread_checks",
        "_version",
        "_waiting",
    )

    def __init__(
        self,
        directory: str | os.PathLike[str],
        extract: Extract,
        *,
        name: str = "index",
        version: str = "",
        poll: float | None = 0.5,
    ) -> None:
        _check_name(name)
        self._directory = Path(directory)
        self._name = name
        self._extract = extract
        self._version = version
        self._poll = poll
        self._follower: _Follower | None = None
        self._reader: JournalIndexReader | None = None
        self._failure: JournalError | None = None
        self._page = self._added = 0
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []
        # How many calls of `open` and `close` wait for the thread.
        self._calls = 0
        # The event loop of a test stops its virtual time while one of these is busy.
        self._thread_checks: list[Callable[[], bool]] = []

    async def open(self) -> Self:
        """Open the index, and begin to follow the journal. What it has missed is indexed behind the scenes: see `reached`.

        Raises:
            JournalLockedError: the index is open already.
            JournalError: there is no journal in the directory; or it, or the index, cannot be read.
        """
        if self._follower is not None:
            raise JournalError(f"the index of the journal {self._directory} is open already")
        self._failure = None
        self._page = self._added = 0
        self._follower = follower = _Follower(
            self._directory,
            self._name,
            self._extract,
            self._version,
            self._poll,
            self._on_progress,
            self._fail_waiting,
            self._on_failure,
        )
        self._thread_checks = getattr(asyncio.get_running_loop(), "thread_checks", [])
        self._thread_checks.append(self._is_busy)
        try:
            self._calls += 1
            try:
                await follower.start()
            finally:
                self._calls -= 1
            self._reader = JournalIndexReader(self._directory, name=self._name)
        except BaseException:  # nothing may stay open, or half done, also after a cancellation or Ctrl-C
            await self.close()
            raise
        return self

    async def close(self) -> None:
        """Close the index. Closing again does nothing."""
        follower, self._follower = self._follower, None
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()
        if follower is not None:
            self._calls += 1
            try:
                await follower.stop()
            finally:
                self._calls -= 1
                self._thread_checks.remove(self._is_busy)
        self._fail_waiting(_closed(self._directory))

    def remove(self) -> None:
        """Delete the index, also if it is damaged. The next `open` builds it again.

        Raises:
            JournalLockedError: the index is open, here or in another process.
            JournalError: it cannot be deleted.
        """
        with _translated(f"delete the index of the journal {self._directory}"):
            lock = _locked(self._directory / f"{self._name}.lock", self._directory)
            try:
                _remove(self._directory / f"{self._name}.sqlite")
            finally:
                os.close(lock)

    def _is_busy(self) -> bool:
        """Return whether a caller waits for the thread."""
        return self._calls > 0 or bool(self._waiting)

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    def find(
        self,
        space: str,
        key: str,
        *,
        newest_first: bool = False,
        after: RecordPosition | None = None,
        limit: int = 1000,
    ) -> list[RecordPosition]:
        """Return where the records with a key are, as far as they are indexed. See `JournalIndexReader.find`.

        Raises:
            JournalClosedError: the index is not open.
            JournalError: it cannot be read.
        """
        return self._open_reader.find(space, key, newest_first=newest_first, after=after, limit=limit)

    def keys(self, space: str, *, after: str = "", limit: int = 1000) -> list[str]:
        """Return the keys of a space that are greater than `after`, in order. See `JournalIndexReader.keys`.

        Raises:
            JournalClosedError, JournalError: as for `find`.
        """
        return self._open_reader.keys(space, after=after, limit=limit)

    def keys_at(self, space: str, page: int) -> list[str]:
        """Return the keys of a space that the records of a page have, in order. See `JournalIndexReader.keys_at`.

        Raises:
            JournalClosedError, JournalError: as for `find`.
        """
        return self._open_reader.keys_at(space, page)

    @property
    def lag(self) -> int:
        """The number of durable pages that are not indexed yet.

        Raises:
            JournalClosedError, JournalError: as for `find`.
        """
        return self._open_reader.lag

    def stats(self) -> JournalIndexStats:
        """Return the state of the index.

        Raises:
            JournalClosedError, JournalError: as for `find`.
        """
        return JournalIndexStats(self._page, self.lag, self._added, self._failure)

    def wake(self) -> None:
        """Look for new pages now, and do not wait for the next poll. Call it when a page has been written."""
        if self._follower is not None:
            self._follower.wake()

    async def reached(self, page: int) -> None:
        """Wait until a page, and all before it, are indexed.

        Raises:
            JournalClosedError: the index is not open, or is closed meanwhile.
            JournalFullError: there is no room for the index. It tries again, at the latest with the next call.
            JournalError: the index has failed.
        """
        follower = self._open_follower
        if self._failure is not None:
            raise self._failure
        if self._page >= page:
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((page, future))
        follower.wake()
        await future

    async def rebuild(self, progress: Callable[[int, int], object] | None = None) -> None:
        """Empty the index and build it again. Meanwhile `find` returns what is indexed already.

        Args:
            progress: called on the event loop with the last page that is indexed and the last page of the journal.

        Raises:
            JournalClosedError: the index is not open, or is closed meanwhile.
            JournalError: the index has failed.
        """
        follower = self._open_follower
        if self._failure is not None:
            raise self._failure
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # It also ends if the thread has just failed, and takes no requests any more.
        waiting = (_HIGHEST, future)
        self._waiting.append(waiting)
        follower.rebuild(_Rebuild(future, progress))
        try:
            await future
        finally:
            if waiting in self._waiting:
                self._waiting.remove(waiting)

    @property
    def _open_follower(self) -> _Follower:
        if self._follower is None:
            raise _closed(self._directory)
        return self._follower

    @property
    def _open_reader(self) -> JournalIndexReader:
        if self._reader is None:
            raise _closed(self._directory)
        return self._reader

    def _on_progress(self, page: int, added: int) -> None:
        self._page = page
        self._added += added
        reached = [future for wanted, future in self._waiting if wanted <= page]
        self._waiting = [waiting for waiting in self._waiting if waiting[0] > page]
        for future in reached:
            if not future.done():
                future.set_result(None)

    def _on_failure(self, failure: JournalError) -> None:
        self._failure = failure
        logger.error("the index of the journal %s has stopped: %s", self._directory, failure)
        self._fail_waiting(failure)

    def _fail_waiting(self, error: JournalError) -> None:
        waiting, self._waiting = self._waiting, []
        for _, future in waiting:
            if not future.done():
                future.set_exception(error)


# -- what they share ---------------------------------------------------------------------------------------------------


def _closed(directory: Path) -> JournalClosedError:
    return JournalClosedError(
        f"the index of the journal {directory} is not open: use `async with`, or await open()"
    )


@contextmanager
def _translated(doing: str) -> Generator[None]:
    """Raise the errors of SQLite and of the system as those of the journal."""
    try:
        yield
    except sqlite3.Error as error:
        text = f"cannot {doing}: {describe_exception(error)}"
        # The low byte of an extended code is the code itself.
        if getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_FULL:
            raise JournalFullError(text) from error
        raise JournalFailedError(text) from error
    except OSError as error:
        raise JournalFailedError(f"cannot {doing}: {describe_exception(error)}") from error
