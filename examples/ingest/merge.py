"""A merge: an actor for one job, which ends when the job is done.

If it fails, nothing is lost, and the next round tries again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from bandstand import Actor, tell
from examples.ingest.blocks import merge
from examples.ingest.disk import Disk
from examples.ingest.index import Index
from examples.ingest.metrics import Metrics


class Merge(Actor):
    def __init__(
        self, disk: Disk, metrics: Metrics, folder: Path, segments: Sequence[int], index: Index
    ) -> None:
        self._disk = disk
        self._metrics = metrics
        self._folder = folder
        self._segments = segments
        self._index = index

    def on_start(self) -> None:
        self.me.work()

    @tell
    async def work(self) -> None:
        await asyncio.to_thread(merge, self._folder, self._segments, self._disk)
        self._index.refresh.try_send()
        self._metrics.add.try_send("merged", len(self._segments))
        self.stop()
