"""A disk that fails when a test says so: a virtual file system of apsw, in front of the real one."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any, cast

import apsw
import pytest

from bandstand.journal import storage
from bandstand.journal.engine import Access, Connection, apsw_engine

EIO_ON_WRITE = apsw.SQLITE_IOERR_WRITE
EIO_ON_SYNC = apsw.SQLITE_IOERR_FSYNC
NO_SPACE = apsw.SQLITE_FULL


@dataclass
class Operation:
    """What SQLite is about to do."""

    name: str
    """`write`, `truncate` or `sync`."""
    file: str
    """`database` or `log`."""
    number: int
    """The place among the operations of this name and file since the faults were set, from 1."""


@dataclass
class FaultyDisk:
    """Decides what fails. `fault` gets each operation, and returns a result code of SQLite, or None; a write that fails is made in part, up to `kept` bytes."""

    fault: Callable[[Operation], int | None] | None = None
    kept: int = 0
    done: list[str] = field(default_factory=list[str])
    """The operations since the faults were set, such as `write log`."""
    refused: int = 0

    def set(self, fault: Callable[[Operation], int | None], kept: int = 0) -> None:
        self.fault, self.kept, self.refused = fault, kept, 0
        self.done.clear()

    def mend(self) -> None:
        self.fault = None
        self.done.clear()

    def code_for(self, name: str, file: str) -> int | None:
        entry = f"{name} {file}"
        self.done.append(entry)
        code = None if self.fault is None else self.fault(Operation(name, file, self.done.count(entry)))
        self.refused += code is not None
        return code


def error_of(code: int) -> Exception:
    """Return the error of a result code, with the text that SQLite has for it."""
    error = apsw.exception_for(code)
    error.args = ("database or disk is full" if code == NO_SPACE else "disk I/O error",)
    return error


class _File(apsw.VFSFile):
    def __init__(self, disk: FaultyDisk, filename: Any, flags: list[int]) -> None:
        super().__init__("", filename, flags)
        self._disk = disk
        self._name = "log" if flags[0] & apsw.SQLITE_OPEN_WAL else "database"
        # Its annotation is not complete.
        self._write: Callable[[bytes, int], None] = cast("Any", super()).xWrite

    def excepthook(
        self,
        etype: type[BaseException] | None,
        evalue: BaseException | None,
        etraceback: TracebackType | None,
    ) -> bool:
        """Print nothing: SQLite gets the error."""
        return True

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802  # as SQLite calls it
        if (code := self._disk.code_for("write", self._name)) is not None:
            if self._disk.kept:
                self._write(data[: self._disk.kept], offset)
            raise error_of(code)
        self._write(data, offset)

    def xTruncate(self, newsize: int) -> None:  # noqa: N802  # likewise
        if (code := self._disk.code_for("truncate", self._name)) is not None:
            raise error_of(code)
        super().xTruncate(newsize)

    def xSync(self, flags: int) -> None:  # noqa: N802  # likewise
        if (code := self._disk.code_for("sync", self._name)) is not None:
            raise error_of(code)
        super().xSync(flags)


class _FileSystem(apsw.VFS):
    def __init__(self, disk: FaultyDisk) -> None:
        self._disk = disk
        super().__init__("faulty", "")

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:  # noqa: N802  # as SQLite calls it
        return _File(self._disk, name, flags)


@contextmanager
def faulty_disk() -> Generator[FaultyDisk]:
    """Let the journals of this process use a disk that fails when it is told to."""
    disk = FaultyDisk()
    system = _FileSystem(disk)
    faulty, plain = apsw_engine("faulty"), apsw_engine()
    assert faulty is not None
    assert plain is not None

    def connect(path: Path, access: Access) -> Connection:
        # apsw takes an error that SQLite expects, of a lock on a read-only file, for one of the caller.
        return (faulty if access == "write" else plain).connect(path, access)

    engine = replace(plain, connect=connect)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(storage, "journal_engine", lambda: engine)
            yield disk
    finally:
        system.unregister()
