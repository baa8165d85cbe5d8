"""A journal: an append-only log on disk that many writers share."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self, final

from bandstand.core.logs import SafeLogger
from bandstand.errors import InvalidArgumentError, JournalClosedError, JournalError, JournalOverloadedError
from bandstand.errors.validation import check_int
from bandstand.journal.page import encode_records
from bandstand.journal.writer import JournalWriter, PendingWrite

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Sequence
    from types import TracebackType

    from bandstand.errors import JournalFailedError
    from bandstand.journal.page import Record, RecordBatch
    from bandstand.journal.writer import Done

__all__ = ("Journal", "JournalStats")

# How many pages are deleted in one transaction. What is written meanwhile waits for it.
_DELETED_AT_ONCE = 256

logger = SafeLogger("bandstand.journal")


@dataclass(frozen=True, slots=True)
class JournalStats:
    """What a journal has done since it was opened."""

    first: int
    """The number of the first page that is kept, or that the first page will have."""
    last: int
    """The number of the last durable page; 0 if there is none."""
    pages: int
    """The number of pages that were written."""
    records: int
    """The number of records in them."""
    refused: int
    """The number of writes that failed because the disk was full, or were refused because too many bytes waited."""
    waiting_bytes: int
    """The bytes of the records that are not durable yet."""
    is_full: bool
    """Whether the last page could not be written because the disk was full."""


@final
class Journal:
    """An append-only log on disk that many writers share.

        async with Journal("data/journal") as journal:
            page = await journal.append(Record(1, b"a line"))

    Use it on the event loop that opened it. One process at a time writes a journal; `JournalReader` reads it from anywhere.

    Args:
        directory: where the journal is. It is created if it does not exist; its parent must.
        max_waiting_bytes: how many bytes of records may wait for the disk. Above that, writes are refused.
        on_failure: called once, on the event loop, when the disk fails. Nothing can be written after that. The process should end: the next one
            finds out what is on the disk.
        now: the source of the time of pages, in seconds since 1970.
    """

    __slots__ = ("_directory", "_max_waiting_bytes", "_now", "_on_failure", "_writer")

    def __init__(
        self,
        directory: str | os.PathLike[str],
        *,
        max_waiting_bytes: int = 64 << 20,
        on_failure: Callable[[JournalFailedError], object] | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        check_int("Journal: max_waiting_bytes", max_waiting_bytes, 1, 1 << 40)
        self._directory = Path(directory)
        self._max_waiting_bytes = max_waiting_bytes
        self._on_failure = on_failure
        self._now = now
        self._writer: JournalWriter | None = None

    async def open(self) -> Self:
        """Open the journal for writing.

        Raises:
            JournalLockedError: another process has it open for writing.
            JournalCorruptError: the last page is damaged, or pages at the end are missing.
            JournalFullError, JournalFailedError: the disk is full, or fails.
            JournalError: it is open already; or the directory is not that of a journal, or a newer version of bandstand has written it.
        """
        if self._writer is not None:
            raise JournalError(f"the journal {self._directory} is open already")
        self._writer = writer = JournalWriter(self._directory, self._now, self._on_written, self._on_failure)
        try:
            await writer.start()
        except BaseException:  # nothing may stay open, or half done, also after a cancellation or Ctrl-C
            self._writer = None
            await writer.stop()
            raise
        return self

    async def close(self) -> None:
        """Write what waits, and close the journal. Closing again does nothing.

        Raises:
            JournalFailedError: the disk failed while the files were closed. What was reported as written is durable all the same.
        """
        writer, self._writer = self._writer, None
        if writer is not None:
            await writer.stop()

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    def write(self, records: Sequence[Record], done: Done) -> None:
        """Write records, all in one page, and call `done` when they are durable or have failed. Calls come in the order of the writes.

        The error is a `JournalFullError` if the disk is full, and a `JournalFailedError` if it fails. After the latter, the records may
        be in the journal or not.

        Raises:
            InvalidArgumentError: there are no records, or one of them is not valid.
            JournalOverloadedError: too many bytes wait for the disk. Nothing was written.
            JournalClosedError: the journal is not open.
            JournalFailedError: the disk has failed before. Nothing was written.
        """
        self._put(len(records), encode_records(records), done)

    def write_batch(self, batch: RecordBatch, done: Done) -> None:
        """Write the records of a batch, as `write` does, and empty it: it can be filled again.

        Raises:
            InvalidArgumentError, JournalOverloadedError, JournalClosedError, JournalFailedError: as for `write`. The batch is as before.
        """
        self._put(batch.count, batch.encode(), done)
        batch.clear()

    def _put(self, count: int, body: bytes, done: Done | asyncio.Future[int]) -> None:
        """Hand records to the writer, unless they must be refused."""
        writer = self._writer or self._open_writer
        if writer.failure is not None:
            raise writer.failed_before(writer.failure)
        if not count:
            raise InvalidArgumentError("there are no records: pass at least one Record")
        waiting_bytes = writer.waiting_bytes
        # One write is taken whatever its size.
        if waiting_bytes and waiting_bytes + len(body) > self._max_waiting_bytes:
            writer.refused += 1
            raise JournalOverloadedError(
                f"{waiting_bytes} bytes wait for the disk, and the journal {self._directory} allows {self._max_waiting_bytes}: write less "
                f"at a time, or raise max_waiting_bytes"
            )
        writer.waiting_bytes = waiting_bytes + len(body)
        writer.put(PendingWrite(count, body, done))

    async def append(self, *records: Record) -> int:
        """Write records, all in one page, and return the number of that page when they are durable.

        If the task is cancelled, the records are written all the same.

        Raises:
            JournalFullError: the disk is full. The records were not written.
            JournalFailedError: the disk has failed. The records were written or not.
            InvalidArgumentError, JournalOverloadedError, JournalClosedError: as for `write`.
        """
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._put(len(records), encode_records(records), future)
        return await future

    async def delete_before(self, page: int) -> int:
        """Delete the pages before this number, and return how many were deleted. The last page is always kept.

        Pages are deleted in slices, between which the journal writes what waits.

        Raises:
            JournalFullError, JournalFailedError: as for `append`. Some pages may have been deleted.
            InvalidArgumentError: it is not the number of a page.
            JournalClosedError: the journal is not open, or is closed meanwhile.
        """
        check_int("page", page, 0, 1 << 62)
        deleted = 0
        while True:
            count = await self._open_writer.call(
                lambda storage: storage.delete_before(page, _DELETED_AT_ONCE)
            )
            deleted += count
            if count < _DELETED_AT_ONCE:
                return deleted

    def stats(self) -> JournalStats:
        """Return what the journal has done since it was opened.

        Raises:
            JournalClosedError: the journal is not open.
        """
        writer = self._open_writer
        return JournalStats(
            first=writer.first,
            last=writer.last,
            pages=writer.pages,
            records=writer.records,
            refused=writer.refused,
            waiting_bytes=writer.waiting_bytes,
            is_full=writer.is_full,
        )

    @property
    def _open_writer(self) -> JournalWriter:
        if self._writer is None:
            raise JournalClosedError(
                f"the journal {self._directory} is not open: use `async with`, or await open()"
            )
        return self._writer

    def _on_written(self, writes: list[PendingWrite], page: int, error: JournalError | None) -> None:
        """Report a page to those who have written it."""
        for write in writes:
            done = write.done
            try:
                if callable(done):
                    done(page, error)
                elif done.done():
                    pass
                elif error is None:
                    done.set_result(page)
                else:
                    done.set_exception(error)
            except Exception:  # one caller's mistake must not keep the answer from the others
                logger.exception("the callback of a write to the journal %s has failed", self._directory)
