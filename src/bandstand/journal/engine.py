"""Which SQLite a journal uses: that of Python, or that of the package apsw if it is installed and has a newer one.

It is the same one for every journal and every reader of a process, and cannot be chosen for one of them. Two copies of SQLite must not open one database in the
same process: the locks of a file belong to the process, and the copy that closes it first releases those of the other.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal, Protocol, TypeAlias

__all__ = (
    "Connection",
    "Cursor",
    "Engine",
    "apsw_engine",
    "has_wal_reset_bug",
    "journal_engine",
    "python_engine",
)

Access: TypeAlias = Literal["read", "write"]

# How long a reader waits for a database that is just being recovered.
BUSY_MS: Final = 5000


class Cursor(Protocol):
    """The rows of a statement."""

    def __iter__(self) -> Iterator[Any]: ...

    def fetchone(self) -> Any:
        """Return the next row, or None."""
        ...

    def fetchall(self) -> list[Any]:
        """Return all rows that are left."""
        ...

    def close(self) -> None:
        """End the statement."""
        ...


class Connection(Protocol):
    """An open database, without transactions except those that are begun by a statement."""

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction has begun."""
        ...

    def execute(self, statement: str, parameters: Sequence[Any] = ..., /) -> Cursor:
        """Execute a statement."""
        ...

    def close(self) -> None:
        """Close the database."""
        ...


@dataclass(frozen=True, slots=True)
class Engine:
    """A copy of SQLite, and the package that has it."""

    package: str
    version: tuple[int, ...]
    """The version of SQLite."""
    connect: Callable[[Path, Access], Connection]
    """Open a database."""
    error: type[Exception]
    """The base class of its errors."""
    code_of: Callable[[Exception], int]
    """Return the result code of an error, of which the low byte says what kind it is."""

    @property
    def describe(self) -> str:
        """For people: the version of SQLite and where it comes from."""
        return f"SQLite {'.'.join(map(str, self.version))} of {self.package}"


@cache
def journal_engine() -> Engine:
    """Return what journals use in this process."""
    apsw = apsw_engine()
    python = python_engine()
    return python if apsw is None or apsw.version <= python.version else apsw


def has_wal_reset_bug(version: tuple[int, ...]) -> bool:
    """Whether a version of SQLite can lose a transaction if two connections write or checkpoint at the same instant. A journal has one such connection."""
    is_fixed = version >= (3, 51, 3) or (3, 50, 7) <= version < (3, 51) or (3, 44, 6) <= version < (3, 45)
    return version >= (3, 7) and not is_fixed


def python_engine() -> Engine:
    """Return the SQLite that Python is linked with."""

    def connect(path: Path, access: Access) -> Connection:
        uri = f"{path.absolute().as_uri()}?mode={'ro' if access == 'read' else 'rwc'}"
        connection = sqlite3.connect(uri, uri=True, isolation_level=None, timeout=BUSY_MS / 1000)
        # A journal has no texts. In a damaged one there may be some that are not valid.
        connection.text_factory = bytes
        return connection

    def code_of(error: Exception) -> int:
        return int(getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR))

    return Engine("Python", sqlite3.sqlite_version_info, connect, sqlite3.Error, code_of)


def apsw_engine(vfs: str | None = None) -> Engine | None:
    """Return the SQLite of apsw; None if that is not installed.

    Args:
        vfs: the name of its virtual file system; None for the usual one.
    """
    try:
        import apsw
    except ImportError:
        return None

    def connect(path: Path, access: Access) -> Connection:
        flags = (
            apsw.SQLITE_OPEN_READONLY
            if access == "read"
            else apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
        )
        connection = apsw.Connection(str(path.absolute()), flags=flags, vfs=vfs)
        connection.set_busy_timeout(BUSY_MS)
        return connection

    def code_of(error: Exception) -> int:
        return int(getattr(error, "extendedresult", apsw.SQLITE_ERROR))

    version = tuple(map(int, apsw.sqlite_lib_version().split(".")))
    return Engine("apsw", version, connect, apsw.Error, code_of)
