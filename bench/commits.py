"""Group commit without a journal: a thread makes durable what has arrived during its last commit, as bytes in an SQLite database or a plain file.

This is the least that a program does which waits for the disk: no checksums, no limit of what waits, no mark, no error but the first. The
database is set up as the journal's, and of the same SQLite.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Protocol

from bandstand.journal.engine import journal_engine

CHECKPOINT_BYTES = 4 << 20
# What SQLite writes for a row beside its bytes: at least one page.
COMMIT_BYTES = 4 << 10
PAGE_BYTES = 1 << 20


class Store(Protocol):
    """Where bytes become durable. Used by one thread."""

    def commit(self, data: bytes) -> None:
        """Return when they are."""
        ...

    def close(self) -> None: ...


class Database:
    """A row for each commit."""

    def __init__(self, folder: Path) -> None:
        self._connection = connection = journal_engine().connect(folder / "bare.sqlite", "write")
        for pragma in ("journal_mode = WAL", "synchronous = FULL", "wal_autocheckpoint = 0"):
            connection.execute(f"PRAGMA {pragma}").fetchall()
        connection.execute("CREATE TABLE page (number INTEGER PRIMARY KEY, body BLOB NOT NULL)")
        self._grown = 0

    def commit(self, data: bytes) -> None:
        self._connection.execute("INSERT INTO page (body) VALUES (?)", (data,))
        self._grown += len(data) + COMMIT_BYTES
        if self._grown >= CHECKPOINT_BYTES:
            self._grown = 0
            self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()

    def close(self) -> None:
        self._connection.close()

    @staticmethod
    def read(folder: Path) -> Iterator[bytes]:
        with closing(journal_engine().connect(folder / "bare.sqlite", "read")) as connection:
            for (body,) in connection.execute("SELECT body FROM page ORDER BY number"):
                yield body


class File:
    """A file that grows."""

    def __init__(self, folder: Path) -> None:
        self._descriptor = os.open(folder / "bare", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def commit(self, data: bytes) -> None:
        os.write(self._descriptor, data)
        os.fdatasync(self._descriptor)

    def close(self) -> None:
        os.close(self._descriptor)

    @staticmethod
    def read(folder: Path) -> Iterator[bytes]:
        yield (folder / "bare").read_bytes()


class GroupCommit:
    """The thread. `write` and the calls of `done` are on the event loop that made it."""

    def __init__(self, make: Callable[[], Store]) -> None:
        self._queue: SimpleQueue[tuple[bytes, Callable[[], object]] | None] = SimpleQueue()
        self._event_loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._run, args=(make,))
        self._thread.start()

    def write(self, data: bytes, done: Callable[[], object]) -> None:
        self._queue.put((data, done))

    async def close(self) -> None:
        self._queue.put(None)
        await asyncio.to_thread(self._thread.join)

    def _run(self, make: Callable[[], Store]) -> None:
        with closing(make()) as store:
            while (entry := self._queue.get()) is not None:
                entries, size, is_over = [entry], len(entry[0]), False
                try:
                    while size < PAGE_BYTES and not is_over:
                        if (entry := self._queue.get_nowait()) is None:
                            is_over = True
                        else:
                            entries.append(entry)
                            size += len(entry[0])
                except Empty:
                    pass
                store.commit(b"".join([data for data, _ in entries]))
                self._event_loop.call_soon_threadsafe(self._report, entries)
                if is_over:
                    return

    def _report(self, entries: list[tuple[bytes, Callable[[], object]]]) -> None:
        for _, done in entries:
            done()
