"""The thread that writes a journal.

The problem: an fsync takes 0.1 ms on a good disk and 10 ms on a bad one, and every request waits for one. The choice is *group commit*: the thread takes
everything that has arrived during the last commit, at most 1 MiB, and commits it as one page. So a single caller waits for one fsync, and many callers share
one. There is no timer that waits for more to arrive: the commit itself is the delay. The cost is two switches of threads for each page, some 70 µs.

The event loop may be closed before the journal. Then nothing is reported any more.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar, final

from bandstand.core.logs import SafeLogger
from bandstand.errors import JournalError, JournalFailedError, JournalFullError
from bandstand.errors.formatting import describe_exception, safe_str
from bandstand.journal.storage import Storage

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ("Done", "JournalWriter", "PendingWrite")

# A page takes what has arrived up to this many bytes, or one write that is larger.
_PAGE_BYTES: Final = 1 << 20
# When the write-ahead log has grown by this much, it is copied into the database as soon as nothing waits; above the second figure at once. After
# that SQLite writes the log from its beginning: an fsync takes half as long if the file does not grow.
_CHECKPOINT_BYTES: Final = 4 << 20
_LATE_CHECKPOINT_BYTES: Final = 32 << 20
# SQLite writes whole pages of 4 KiB: those of the records, and the one of the row.
_COMMIT_BYTES: Final = 4 << 10

T = TypeVar("T")

Done: TypeAlias = Callable[[int, JournalError | None], object]
"""Called on the event loop with the number of the page that has the records, and None; or with 0 and an error."""

logger = SafeLogger("bandstand.journal")


@final
@dataclass(
    slots=True, eq=False
)  # not frozen: that would take four times as long to make, and there is one for each write
class PendingWrite:
    """Records that become durable together, in one page."""

    count: int
    body: bytes
    done: Done | asyncio.Future[int]


@dataclass(frozen=True, slots=True)
class _Call:
    """A call that the thread makes between two pages."""

    function: Callable[[Storage], int]
    future: asyncio.Future[int]


@final
class JournalWriter:
    """Runs the thread. The thread writes the public attributes, except `refused` and `waiting_bytes`, and the event loop reads them.

    Args:
        directory: where the journal is.
        now: the source of the time of pages, in seconds since 1970.
        on_written: called on the event loop with the writes of a page, its number and None; or with 0 and an error.
        on_failure: called once, on the event loop, when the disk fails.
    """

    def __init__(
        self,
        directory: Path,
        now: Callable[[], float],
        on_written: Callable[[list[PendingWrite], int, JournalError | None], object],
        on_failure: Callable[[JournalFailedError], object] | None,
    ) -> None:
        self._directory = directory
        self._now = now
        self._on_written = on_written
        self._on_failure = on_failure
        self._event_loop = asyncio.get_running_loop()
        self._queue: SimpleQueue[PendingWrite | _Call | None] = SimpleQueue()
        # Write records. No method of ours: there is one call for each write.
        self.put: Callable[[PendingWrite], None] = self._queue.put
        self._opened: asyncio.Future[None] = self._event_loop.create_future()
        self._closed: asyncio.Future[None] = self._event_loop.create_future()
        # How much the write-ahead log has grown since the last checkpoint.
        self._log_bytes = 0
        # An entry that was taken from the queue and comes after the page.
        self._held: list[_Call | None] = []
        self._thread = threading.Thread(target=self._run, name=f"journal {directory.name}", daemon=True)
        # The event loop of a test stops its virtual time while one of these is busy.
        self._thread_checks: list[Callable[[], bool]] = getattr(self._event_loop, "thread_checks", [])
        # How many callers wait for the thread, apart from those who write.
        self._waiting = 0
        self.waiting_bytes = 0
        """The bytes that were handed to the thread and not reported; the event loop counts them."""
        self.failure: JournalFailedError | None = None
        self.is_full = False
        self.first = self.last = self.pages = self.records = self.refused = 0

    # -- on the event loop ----------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start the thread, and wait until the journal is open."""
        self._thread_checks.append(self._is_busy)
        self._thread.start()
        await self._wait(self._opened)

    async def stop(self) -> None:
        """Write what waits, close the journal, and end the thread. If this is cancelled, the thread ends all the same."""
        self._queue.put(None)
        await self._wait(asyncio.shield(self._closed))
        self._thread.join()
        self._thread_checks.remove(self._is_busy)

    async def _wait(self, future: asyncio.Future[T]) -> T:
        self._waiting += 1
        try:
            return await future
        finally:
            self._waiting -= 1

    def _report(self, writes: list[PendingWrite], page: int, error: JournalError | None) -> None:
        self.waiting_bytes -= sum([len(write.body) for write in writes])
        self._on_written(writes, page, error)

    def _is_busy(self) -> bool:
        """Return whether a caller waits for the thread."""
        return self.waiting_bytes > 0 or self._waiting > 0

    async def call(self, function: Callable[[Storage], int]) -> int:
        """Call a function on the thread, after what waits has been written."""
        call = _Call(function, self._event_loop.create_future())
        self._queue.put(call)
        return await self._wait(call.future)

    # -- on the thread --------------------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        closed: BaseException | None = None
        try:
            storage = Storage(self._directory)
        except BaseException as error:  # noqa: BLE001  # `start` raises it
            self._settle(self._opened, None, error)
        else:
            self.first, self.last = storage.first, storage.last
            self._settle(self._opened, None)
            self._write_all(storage)
            try:
                storage.close()
            except JournalError as error:
                closed = error
        self._settle(self._closed, None, closed)

    def _write_all(self, storage: Storage) -> None:
        """Write everything until the journal is closed."""
        while (entry := self._next()) is not None:
            if isinstance(entry, _Call):
                self._make(storage, entry)
            else:
                self._commit(storage, self._page_from(entry))
                self._checkpoint(storage)

    def _next(self) -> PendingWrite | _Call | None:
        return self._held.pop() if self._held else self._queue.get()

    def _page_from(self, write: PendingWrite) -> list[PendingWrite]:
        """Return the writes of a page: this one, and what has arrived since."""
        writes, size = [write], len(write.body)
        next_entry, add = self._queue.get_nowait, writes.append
        with suppress(Empty):
            while size < _PAGE_BYTES:
                entry = next_entry()
                if type(entry) is not PendingWrite:
                    self._held.append(entry)
                    break
                add(entry)
                size += len(entry.body)
        return writes

    def _commit(self, storage: Storage, writes: list[PendingWrite]) -> None:
        """Write a page, and report it."""
        page, count = 0, sum([write.count for write in writes])
        error: JournalError | None = None
        if self.failure is not None:
            error = self.failed_before(self.failure)
        else:
            try:
                body = b"".join([write.body for write in writes])
                page = storage.commit(int(self._now() * 1000), count, body)
            except JournalFullError as full:
                error = full
                self.refused += len(writes)
            except Exception as failure:  # noqa: BLE001  # after any other error, what is on the disk is unknown
                error = self._fail(failure)
            else:
                self.last, self.pages, self.records = page, self.pages + 1, self.records + count
                self._log_bytes += len(body) + _COMMIT_BYTES
            self._set_full(isinstance(error, JournalFullError))
        self._post(partial(self._report, writes, page, error))

    def _checkpoint(self, storage: Storage) -> None:
        """Copy the write-ahead log into the database if it has become long."""
        is_due = self._log_bytes >= _CHECKPOINT_BYTES and self._queue.empty()
        if self.failure is not None or not (is_due or self._log_bytes >= _LATE_CHECKPOINT_BYTES):
            return
        self._log_bytes = 0
        try:
            storage.checkpoint()
        except JournalFullError:
            # The pages stay in the log, and the next page reports the full disk.
            pass
        except Exception as failure:  # noqa: BLE001  # as for a commit
            self._fail(failure)

    def _make(self, storage: Storage, call: _Call) -> None:
        """Make a call, and report its result."""
        error: BaseException | None = None
        result = 0
        if self.failure is not None:
            error = self.failed_before(self.failure)
        else:
            try:
                result = call.function(storage)
            except JournalFullError as full:
                error = full
            except Exception as failure:  # noqa: BLE001  # as for a commit
                error = self._fail(failure)
            self.first = storage.first
        self._settle(call.future, result, error)

    def failed_before(self, failure: JournalFailedError) -> JournalFailedError:
        """Return the error of a write after the disk has failed."""
        return JournalFailedError(f"the journal {self._directory} has failed before: {safe_str(failure)}")

    def _fail(self, failure: Exception) -> JournalFailedError:
        """Write nothing any more, and report why."""
        if not isinstance(failure, JournalFailedError):
            cause, failure = (
                failure,
                JournalFailedError(
                    f"cannot write the journal {self._directory}: {describe_exception(failure)}"
                ),
            )
            failure.__cause__ = cause
        self.failure = failure
        logger.critical("%s; nothing is written any more", failure)
        if self._on_failure is not None:
            self._post(partial(self._on_failure, failure))
        return failure

    def _set_full(self, is_full: bool) -> None:
        if is_full != self.is_full:
            self.is_full = is_full
            if is_full:
                logger.error(
                    "the disk of the journal %s is full: writes are refused until there is room",
                    self._directory,
                )
            else:
                logger.warning("the disk of the journal %s has room again", self._directory)

    def _settle(self, future: asyncio.Future[T], result: T, error: BaseException | None = None) -> None:
        """Set the result of a future of the event loop, unless its task was cancelled."""

        def settle() -> None:
            if future.done():
                return
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error)

        self._post(settle)

    def _post(self, function: Callable[[], object]) -> None:
        """Call a function on the event loop, unless that is closed."""
        with suppress(RuntimeError):
            self._event_loop.call_soon_threadsafe(function)
