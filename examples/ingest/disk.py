"""The few things that are done to files. One object, so that a disk that fails can be put in its place."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def locked(folder: Path) -> Generator[None]:
    """Be the only one in a folder, among all threads and processes: who merges and who recovers must not meet. Blocks."""
    descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


class TakenError(Exception):
    """Somebody else has the folder."""


@contextmanager
def held(folder: Path) -> Generator[None]:
    """Have a store to oneself for as long as it runs: two would write each other's segments anew. Does not wait.

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
    """The real one. What `sync` returns from is on the disk, as far as the machine can tell."""

    def make_folder(self, folder: Path) -> None:
        """A folder, and those above it; they are on the disk when this returns."""
        if not folder.parent.is_dir():
            self.make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        # Even if it was there: whoever made it may have been killed before this.
        self.sync_folder(folder.parent)

    def open(self, path: Path) -> int:
        """A new or an old file, to be written at its end; the file itself is on the disk when this returns."""
        is_new = not path.exists()
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        if is_new:
            self.sync_folder(path.parent)
        return descriptor

    def write(self, descriptor: int, data: bytes) -> None:
        """All of it, however often that takes."""
        while data:
            data = data[os.write(descriptor, data) :]

    def sync(self, descriptor: int) -> None:
        os.fsync(descriptor)

    def sync_folder(self, folder: Path) -> None:
        """A new name, a changed one, a removed one: they belong to the folder."""
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
    """Has no room left for the next so many syncs: what a store has to live through."""

    def __init__(self, failures: int) -> None:
        self.failures = failures

    def sync(self, descriptor: int) -> None:
        if self.failures:
            self.failures -= 1
            raise OSError(errno.ENOSPC, "no space left on device (pretended)")
        super().sync(descriptor)
