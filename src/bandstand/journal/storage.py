"""The files of a journal: an SQLite database in WAL mode, a lock, and a mark of the last page.

    DIRECTORY/journal.sqlite    the pages; -wal and -shm beside it while it is open
    DIRECTORY/lock              locked by the one process that writes
    DIRECTORY/last              number and chain of the last page that is known to be durable

**Why SQLite.** With WAL and `synchronous=FULL` a commit costs one fsync, as with a plain file, and others have tested for twenty years what it does after
a crash. Until 3.51.3 it has a bug that can lose a transaction if two connections write or checkpoint at the same instant. So exactly one
connection writes and checkpoints, and the lock keeps other processes out. Readers open the database read-only.

**Why the mark.** SQLite takes a damaged frame of its write-ahead log for the end of the log, and drops the commits behind it without an error. The mark
is written after each commit, without fsync. So it is never ahead of the disk, and a journal that ends before its mark has lost pages. After a power
cut the mark may be old or empty; then less is noticed.

**Opening.** A process that was killed between a write and its fsync leaves a page in the page cache only. It counts from then on, so opening syncs it. A log is checked
before that, by a connection that only reads: the one that writes deletes what follows a damaged frame when it is closed.

**Errors.** A full disk fails the commit, which SQLite has rolled back; a later commit may succeed. Every other error of the disk ends the journal: after a
failed fsync the kernel may have dropped what it could not write, and a second fsync would report success.
"""

from __future__ import annotations

import errno
import fcntl
import os
import sqlite3
import struct
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias, final
from zlib import crc32

from bandstand.errors import (
    JournalCorruptError,
    JournalError,
    JournalFailedError,
    JournalFullError,
    JournalLockedError,
)
from bandstand.errors.formatting import describe_exception
from bandstand.journal.engine import journal_engine
from bandstand.journal.page import Page, chain_of, decode_body

if TYPE_CHECKING:
    from bandstand.journal.engine import Connection, Engine

__all__ = ("JournalReader", "Storage")

DATABASE: Final = "journal.sqlite"
LOG: Final = f"{DATABASE}-wal"
LOCK: Final = "lock"
MARK: Final = "last"

# In a damaged database a value may have any type.
_Row: TypeAlias = tuple[Any, Any, Any, Any, Any]
_Mark: TypeAlias = tuple[int, int]

_APPLICATION_ID: Final = 0x62736A6C
FORMAT: Final = 1
_CREATE: Final = (
    "BEGIN IMMEDIATE",
    "CREATE TABLE page (number INTEGER PRIMARY KEY, at INTEGER NOT NULL, count INTEGER NOT NULL, chain INTEGER NOT NULL, body BLOB NOT NULL)",
    "CREATE TABLE deleted (number INTEGER NOT NULL, chain INTEGER NOT NULL)",
    "INSERT INTO deleted VALUES (0, 0)",
    f"PRAGMA application_id = {_APPLICATION_ID}",
    f"PRAGMA user_version = {FORMAT}",
    "COMMIT",
)
# The third is for macOS, whose fsync does not flush the disk's own cache. Checkpoints are explicit: the error of an automatic one would look like the
# error of a commit.
_SETTINGS: Final = (
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",
    "PRAGMA fullfsync = ON",
    "PRAGMA checkpoint_fullfsync = ON",
    "PRAGMA wal_autocheckpoint = 0",
    "PRAGMA cell_size_check = ON",
)
_INSERT: Final = "INSERT INTO page (number, at, count, chain, body) VALUES (?, ?, ?, ?, ?)"
_SIZES: Final = "SELECT number, at, length(body) FROM page WHERE number > ? ORDER BY number LIMIT 4096"
_PAGES: Final = "SELECT number, at, count, chain, body FROM page WHERE number BETWEEN ? AND ? ORDER BY number"

_HIGHEST: Final = 1 << 62

# A reader fetches about this many bytes at a time: between two fetches it holds no snapshot, which would stop checkpoints.
_FETCH_BYTES: Final = 4 << 20


# The bytes of a write-ahead log without frames.
_LOG_HEADER: Final = 32
_NO_SPACE: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
_LARGEST_COUNT: Final = 0xFFFFFFFF
_MARK: Final = struct.Struct("<QI")
_CHECKSUM: Final = struct.Struct("<I")


# -- the writer ------------------------------------------------------------------------------------------------------------------


@final
class Storage:
    """The one writer of a journal. Use it from the thread that opened it.

    Args:
        directory: where the journal is. It is created if it does not exist; its parent must.

    Raises:
        JournalLockedError: another process has the journal open for writing.
        JournalCorruptError: the last page is damaged, or pages at the end are missing.
        JournalFullError, JournalFailedError: the disk is full or fails.
        JournalError: the directory is not that of a journal, or a newer version of bandstand has written it.
    """

    __slots__ = ("_connection", "_engine", "_lock", "_mark", "chain", "directory", "first", "last")

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._engine = journal_engine()
        self._lock = self._mark = -1
        self._connection: Connection | None = None
        self.first = 1
        """The number of the first page that is kept, or that the first page will have."""
        self.last = 0
        """The number of the last page; 0 if there is none."""
        self.chain = 0
        """The chain of the last page."""
        try:
            with _translated(f"open the journal {directory}", self._engine):
                self._open()
        except BaseException:  # nothing may stay open, or half done, also after a cancellation or Ctrl-C
            self.close()
            raise

    def _open(self) -> None:
        directory = self.directory
        is_new = not directory.exists()
        directory.mkdir(exist_ok=True)
        if is_new:
            _sync_directory(directory.parent)
        self._take_lock()
        self._check_log()
        connection = self._connection = self._engine.connect(directory / DATABASE, "write")
        for setting in _SETTINGS:
            connection.execute(setting).fetchall()
        if connection.execute("PRAGMA user_version").fetchone() == (0,):
            for statement in _CREATE:
                connection.execute(statement)
            _sync_directory(directory)
        _check_format(connection, directory)
        mark = _read_mark(directory)
        self.first, self.last, self.chain = _read_end(connection, directory, mark)
        # A process that was killed may have left pages that were not synced. They count from now on, so they must be durable. A checkpoint
        # syncs the log first; a disk without room for the rest does not matter.
        with suppress(JournalFullError):
            self.checkpoint()
        self._mark = os.open(directory / MARK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self._write_mark()

    def _check_log(self) -> None:
        """Check the end of a journal that was not closed, without changing it.

        The connection that writes drops what follows a damaged frame of the log when it is closed.
        """
        log = self.directory / LOG
        if not log.exists() or log.stat().st_size <= _LOG_HEADER:
            return
        with closing(self._engine.connect(self.directory / DATABASE, "read")) as connection:
            if connection.execute("PRAGMA user_version").fetchone() != (0,):
                _check_format(connection, self.directory)
                _read_end(connection, self.directory, _read_mark(self.directory))

    def _take_lock(self) -> None:
        path = self.directory / LOCK
        self._lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(self._lock, 32, 0).decode("ascii", "replace").strip()
            raise JournalLockedError(
                f"the journal {self.directory} is open in another process{f' ({holder})' if holder else ''}: stop it, or use another directory"
            ) from None
        os.ftruncate(self._lock, 0)
        os.pwrite(self._lock, f"pid {os.getpid()}\n".encode(), 0)

    def commit(self, at: int, count: int, body: bytes) -> int:
        """Write a page, and return its number when it is durable.

        Raises:
            JournalFullError: the disk is full. The page was not written.
            JournalFailedError: the disk has failed. The page may have been written or not.
        """
        number = self.last + 1
        chain = chain_of(self.chain, number, at, count, body)
        with _translated(f"write page {number} of the journal {self.directory}", self._engine):
            self._connected.execute(_INSERT, (number, at, count, chain, body))
            self.last, self.chain = number, chain
            self._write_mark()
        return number

    def checkpoint(self) -> None:
        """Copy the write-ahead log into the database, as far as readers allow.

        Raises:
            JournalFullError: the disk is full. The log stays as it is.
            JournalFailedError: the disk has failed.
        """
        with _translated(f"checkpoint the journal {self.directory}", self._engine):
            self._connected.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()

    def delete_before(self, number: int, limit: int) -> int:
        """Delete pages before this number, at most `limit`, and return how many were deleted. The last page is always kept.

        Raises:
            JournalFullError, JournalFailedError: as for `commit`. No page was deleted.
        """
        end = min(number, self.last, self.first + limit)
        count = end - self.first
        if count <= 0:
            return 0
        connection = self._connected
        with _translated(f"delete pages of the journal {self.directory}", self._engine):
            connection.execute("BEGIN IMMEDIATE")
            try:
                connection.execute(
                    "UPDATE deleted SET number = ?, chain = (SELECT chain FROM page WHERE number = ?)",
                    (end - 1, end - 1),
                )
                connection.execute("DELETE FROM page WHERE number < ?", (end,))
                connection.execute("COMMIT")
            except BaseException:  # nothing may stay open, or half done, also after a cancellation or Ctrl-C
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
        self.first = end
        return count

    def close(self) -> None:
        """Close the files. Closing again does nothing.

        Raises:
            JournalFailedError: the last checkpoint failed. Every page that was committed is durable all the same.
        """
        connection, self._connection = self._connection, None
        try:
            if connection is not None:
                with _translated(f"close the journal {self.directory}", self._engine):
                    connection.close()
        finally:
            for descriptor in (self._mark, self._lock):
                if descriptor >= 0:
                    os.close(descriptor)
            self._mark = self._lock = -1

    @property
    def _connected(self) -> Connection:
        if self._connection is None:
            raise JournalError(f"the journal {self.directory} is closed")
        return self._connection

    def _write_mark(self) -> None:
        mark = _MARK.pack(self.last, self.chain)
        try:
            os.pwrite(self._mark, mark + _CHECKSUM.pack(crc32(mark)), 0)
        except OSError as error:
            # The page is durable, and an old mark is no damage.
            if error.errno not in _NO_SPACE:
                raise


# -- readers -----------------------------------------------------------------------------------------------------------------------


@final
class JournalReader:
    """Reads the pages of a journal, while it is written or not, in any process. Use it from the thread that made it.

        with JournalReader("data/journal") as reader:
            for page in reader.pages():
                print(page.number, len(page.records))

    Args:
        directory: where the journal is.

    Raises:
        JournalError: there is no journal in this directory, or a newer version of bandstand has written it.
        JournalCorruptError: the database cannot be read.
    """

    __slots__ = ("_connection", "_engine", "directory")

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self.directory = directory = Path(directory)
        self._engine = journal_engine()
        path = directory / DATABASE
        if not path.exists():
            raise JournalError(f"there is no journal in {directory}: {DATABASE} does not exist")
        with _translated(f"read the journal {directory}", self._engine):
            connection = self._engine.connect(path, "read")
            try:
                connection.execute("PRAGMA cell_size_check = ON")
                _check_format(connection, directory)
            except BaseException:  # nothing may stay open, or half done, also after a cancellation or Ctrl-C
                connection.close()
                raise
        self._connection = connection

    @property
    def first(self) -> int:
        """The number of the first page that is kept, or that the first page will have."""
        with _translated(f"read the journal {self.directory}", self._engine):
            return _read_deleted(self._connection, self.directory)[0] + 1

    @property
    def last(self) -> int:
        """The number of the last durable page; if there is none, of the page before the first one."""
        return self._before(_HIGHEST)[0]

    def pages(self, since: int = 0, until: int = _HIGHEST) -> Iterator[Page]:
        """Yield the pages from number `since` on, or from the first one that is kept, up to `until`, or to the last one that is durable now.

        Every record and the chain are checked.

        Raises:
            JournalCorruptError: a page is damaged or missing. The error names it. The pages before it have been yielded.
            JournalFailedError: the disk has failed.
            JournalError: the next page was deleted while this iterator waited.
        """
        mark = _read_mark(self.directory)
        number, chain = self._before(since)
        while number < until:
            fetched = self._fetch(number + 1, until)
            for row in fetched:
                page = _checked_page(row, number, chain)
                number, chain = page.number, page.chain
                if number >= since:
                    yield page
            if not fetched:
                _check_mark(mark, number, chain)
                return

    def sizes(self) -> Iterator[tuple[int, int, int]]:
        """Yield number, time and bytes of each page, without reading the pages.

        Raises:
            JournalFailedError: the disk has failed.
        """
        number = 0
        while True:
            with _translated(f"read the journal {self.directory}", self._engine):
                rows: list[tuple[int, int, int]] = self._connection.execute(_SIZES, (number,)).fetchall()
            yield from rows
            if not rows:
                return
            number = rows[-1][0]

    def _before(self, since: int) -> tuple[int, int]:
        """Return number and chain of the page before the first one to read."""
        with _translated(f"read the journal {self.directory}", self._engine):
            number, chain = _read_deleted(self._connection, self.directory)
            if since <= number + 1:
                return number, chain
            row = self._connection.execute(
                "SELECT number, chain FROM page WHERE number < ? ORDER BY number DESC LIMIT 1", (since,)
            ).fetchone()
        return (number, chain) if row is None else _checked_link(row[0], row[1], self.directory)

    def _fetch(self, number: int, until: int) -> list[_Row]:
        rows: list[_Row] = []
        size = 0
        with _translated(f"read page {number} of the journal {self.directory}", self._engine, number):
            with closing(self._connection.execute(_PAGES, (number, until))) as cursor:
                try:
                    for row in cursor:
                        rows.append(row)
                        size += len(row[-1]) if type(row[-1]) is bytes else 0
                        if size >= _FETCH_BYTES:
                            break
                except (self._engine.error, UnicodeDecodeError):
                    # The pages before the damage are yielded first; the next fetch begins with it.
                    if not rows:
                        raise
            if rows and rows[0][0] > number and _read_deleted(self._connection, self.directory)[0] >= number:
                raise JournalError(
                    f"page {number} of the journal {self.directory} was deleted before it was read: keep pages longer, or read faster"
                )
        return rows

    def close(self) -> None:
        """Close the database."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()


# -- what both do ------------------------------------------------------------------------------------------------------------------


@contextmanager
def _translated(doing: str, engine: Engine, page: int = 0) -> Generator[None]:
    """Raise the errors of SQLite and of the operating system as those of the journal; `page` is the one that is read, if any."""
    try:
        yield
    except engine.error as error:
        text = f"cannot {doing}: {describe_exception(error)}"
        # The low byte is the kind of error, the rest says where it happened.
        match engine.code_of(error) & 0xFF:
            case sqlite3.SQLITE_FULL:
                raise JournalFullError(text) from error
            case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
                raise JournalCorruptError.at(text, page) from error
            case _:
                raise JournalFailedError(text) from error
    except UnicodeDecodeError as error:  # of apsw, for a number that has become a text
        raise JournalCorruptError.at(f"cannot {doing}: {describe_exception(error)}", page) from error
    except OSError as error:
        kind = JournalFullError if error.errno in _NO_SPACE else JournalFailedError
        raise kind(f"cannot {doing}: {describe_exception(error)}") from error


def _sync_directory(directory: Path) -> None:
    """Make the entries of a directory durable."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _check_format(connection: Connection, directory: Path) -> None:
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if application != _APPLICATION_ID:
        raise JournalError(f"{directory / DATABASE} is not a journal of bandstand: choose another directory")
    if version > FORMAT:
        raise JournalError(
            f"the journal {directory} has format {version}, and this version of bandstand reads formats up to {FORMAT}: use a newer version"
        )


def _read_deleted(connection: Connection, directory: Path) -> _Mark:
    """Return number and chain of the last page that was deleted; (0, 0) if none was."""
    rows: list[tuple[Any, Any]] = connection.execute("SELECT number, chain FROM deleted").fetchall()
    if len(rows) != 1:
        raise JournalCorruptError(f"the journal {directory} does not say where it begins")
    return _checked_link(*rows[0], directory)


def _checked_link(number: object, chain: object, directory: Path) -> _Mark:
    """Return number and chain of a page that another one follows."""
    if type(number) is int and type(chain) is int and number >= 0 and chain >= 0:
        return number, chain
    raise JournalCorruptError(f"the journal {directory} is damaged: a number or a checksum is not one")


def _read_mark(directory: Path) -> _Mark | None:
    """Read the mark; None if it is missing or was not written completely."""
    try:
        content = (directory / MARK).read_bytes()
    except FileNotFoundError:
        return None
    mark, checksum = content[: _MARK.size], content[_MARK.size :]
    if len(mark) < _MARK.size or checksum != _CHECKSUM.pack(crc32(mark)):
        return None
    number, chain = _MARK.unpack(mark)
    return number, chain


def _read_end(connection: Connection, directory: Path, mark: _Mark | None) -> tuple[int, int, int]:
    """Check the last page, and return the number of the first page, and number and chain of the last one."""
    number, chain = _read_deleted(connection, directory)
    first = number + 1
    rows: list[_Row] = connection.execute(
        "SELECT number, at, count, chain, body FROM page ORDER BY number DESC LIMIT 2"
    ).fetchall()
    if len(rows) == 2:
        number, chain = _checked_link(rows[1][0], rows[1][3], directory)
    if rows:
        last = _checked_page(rows[0], number, chain)
        number, chain = last.number, last.chain
    _check_mark(mark, number, chain)
    return first, number, chain


def _checked_page(row: _Row, previous: int, chain: int) -> Page:
    """Return a page, after checking that it follows the previous one and is not damaged."""
    number, at, count, its_chain, body = row
    if tuple(map(type, row)) != (int, int, int, int, bytes) or not 0 <= count <= _LARGEST_COUNT:
        raise JournalCorruptError.at(
            f"page {previous + 1} is damaged: its fields are not those of a page", previous + 1
        )
    if number != previous + 1:
        missing = (
            f"page {previous + 1} is"
            if number == previous + 2
            else f"pages {previous + 1} to {number - 1} are"
        )
        raise JournalCorruptError.at(f"{missing} missing", previous + 1)
    records = tuple(decode_body(number, count, body))
    if chain_of(chain, number, at, count, body) != its_chain:
        raise JournalCorruptError.at(
            f"page {number} is damaged: its checksum does not match, or it does not follow the page before it",
            number,
        )
    return Page(number, at, records, its_chain)


def _check_mark(mark: _Mark | None, number: int, chain: int) -> None:
    """Check that the journal does not end before the last page that is known to be durable."""
    if mark is None:
        return
    if mark[0] > number:
        raise JournalCorruptError.at(
            f"the journal ends at page {number}, but page {mark[0]} was written: its end is damaged or was cut off",
            number + 1,
        )
    if mark[0] == number and mark[1] != chain:
        raise JournalCorruptError.at(f"page {number} is not the page that was written", number)
