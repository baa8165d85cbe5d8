"""The operations on files, in one object, so that a failing disk can replace it."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def locked(folder: Path) -> Generator[None]:
    """Lock a folder against all other threads and processes, so that a merge and a recovery cannot meet. Blocks."""
    descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


class TakenError(Exception):
    """Another process has locked the folder."""


@contextmanager
def held(folder: Path) -> Generator[None]:
    """Lock a store for as long as it runs, because two would overwrite each other's segments. Does not wait.

    Raises:
        TakenError: another process has it.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise TakenError(f"{folder}: a store is running there; wait until it has ended") from None
        yield
    finally:
        os.close(descriptor)


class Disk:
    """The real disk. When `sync` returns, the data is on the disk, as far as the machine can tell."""

    def make_folder(self, folder: Path) -> None:
        """Make a folder and its parents. They are on the disk when this returns."""
        if not folder.parent.is_dir():
            self.make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        # Also if it exists: the process that made it may have been killed before the sync.
        self.sync_folder(folder.parent)

    def open(self, path: Path) -> int:
        """Open a new or an old file to append to. Its name is on the disk when this returns."""
        is_new = not path.exists()
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        if is_new:
            self.sync_folder(path.parent)
        return descriptor

    def write(self, descriptor: int, data: bytes) -> None:
        """Write all of it, with as many calls as needed."""
        while data:
            data = data[os.write(descriptor, data) :]

    def sync(self, descriptor: int) -> None:
        os.fsync(descriptor)

    def sync_folder(self, folder: Path) -> None:
        """Sync a folder: new, changed and removed names belong to it."""
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def rename(self, old: Path, new: Path) -> None:
        old.rename(new)
        self.sync_folder(new.parent)

    def remove(self, path: Path) -> None:
        path.unlink(missing_ok=True)


class FullDisk(Disk):
    """A full disk: the next `failures` syncs fail."""

    def __init__(self, failures: int) -> None:
        self.failures = failures

    def sync(self, descriptor: int) -> None:
        if self.failures:
            self.failures -= 1
            raise OSError(errno.ENOSPC, "no space left on device (pretended)")
        super().sync(descriptor)
