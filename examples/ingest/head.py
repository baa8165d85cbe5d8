"""The head of a series: accepts points, and makes them durable.

Points arrive on the DATA lane, in a bounded mailbox: a sender that is faster than the disk gets an error. A timer
flushes, and acknowledges what is durable. Orders of maintenance arrive on the MANAGEMENT lane, before all points that
wait.

A disk error is not handled here. The head fails, and everything that could be in doubt (a half-written record, a
buffer) goes with it; its supervisor waits, longer each time, and starts a new one, which recovers what is durable.
Their senders send points again that were not acknowledged.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bandstand import Actor, ask, tell
from bandstand.core import ExitReason, Lane
from examples.ingest.disk import Disk
from examples.ingest.log import Log
from examples.ingest.metrics import Metrics
from examples.ingest.points import Point

if TYPE_CHECKING:
    from examples.ingest.feeder import Feeder


class Head(Actor):
    def __init__(self, series: str, folder: Path, disk: Disk, metrics: Metrics, flush_ms: float) -> None:
        self.series = series
        self._folder = folder
        self._disk = disk
        self._metrics = metrics
        self._flush_ms = flush_ms
        self._log: Log | None = None
        self._source: Feeder | None = None

    def on_start(self) -> None:
        # By a message, which comes before all others. A child whose very first start fails is not tried again; but a disk that is full when
        # the store begins is as one that is full later: to be waited for.
        self.me.recover()

    @tell(lane=Lane.MANAGEMENT)
    async def recover(self) -> None:
        """Recover the log. Files block, so a thread does it; points wait in the mailbox meanwhile."""
        opening = asyncio.ensure_future(asyncio.to_thread(Log, self._folder, self._disk))
        try:
            log = await asyncio.shield(opening)
        except asyncio.CancelledError:
            # The thread continues after a cancellation. Its log must not disturb the log of the next head.
            (await opening).close()
            raise
        self._log = log
        if log.torn_bytes:
            self._metrics.add.try_send("torn bytes", log.torn_bytes)
        self.every(self._flush_ms / 1000, self.flush)

    async def on_stop(self, reason: ExitReason, _cause: BaseException | None) -> None:
        """Flush if the head was stopped. A head that fails leaves the files as they are."""
        if self._log is None:
            return
        try:
            if reason is ExitReason.NORMAL:
                await self.flush()
        finally:
            # A cancelled flush may still run in its thread: `close` waits for it, and so does the next head.
            await asyncio.to_thread(self._log.close)

    @property
    def log(self) -> Log:
        assert self._log is not None, "a head recovers before anything else"
        return self._log

    @tell
    def append(self, points: Sequence[Point], source: Feeder) -> None:
        """Accept points, and remember which feeder to notify when they are durable."""
        if self.log.append(points):
            self._source = source
        else:
            # Earlier points were lost with the last incarnation: the feeder asks where to continue.
            self._metrics.add.try_send("refused", len(points))

    async def flush(self) -> None:
        if not self.log.unflushed:
            return
        before = self.log.last
        last = await asyncio.to_thread(self.log.flush)
        self._metrics.add.try_send("flushed", last - before)
        if self._source is not None:
            self._source.durable.try_send(last)

    @tell(lane=Lane.MANAGEMENT)
    async def rotate(self) -> None:
        """Seal the current segment, so that it can be merged."""
        await self.flush()
        await asyncio.to_thread(self.log.rotate)

    @ask(lane=Lane.MANAGEMENT)
    def sealed(self) -> list[int]:
        return self.log.sealed

    @ask(lane=Lane.MANAGEMENT)
    def last(self) -> int:
        """Return the number of the last durable point."""
        return self.log.last
