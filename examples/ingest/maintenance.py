"""Maintenance: rotates heads, merges sealed segments and removes old blocks, one round after the other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bandstand import Actor, tell
from bandstand.errors import BandstandError
from examples.ingest.blocks import retire
from examples.ingest.disk import Disk
from examples.ingest.head import Head
from examples.ingest.index import Index
from examples.ingest.metrics import Metrics


@dataclass(frozen=True)
class Series:
    """The actors and the folder of one series."""

    folder: Path
    head: Head
    index: Index


class Maintenance(Actor):
    def __init__(
        self,
        series: Sequence[Series],
        disk: Disk,
        metrics: Metrics,
        start_merge: Callable[[Series, Sequence[int]], None],
        *,
        period_ms: float,
        keep: int | None,
    ) -> None:
        self._series = series
        self._disk = disk
        self._metrics = metrics
        self._start_merge = start_merge
        self._period_ms = period_ms
        self._keep = keep

    def on_start(self) -> None:
        self.every_after(self._period_ms / 1000, self.look_after_all)

    @tell
    async def look_after_all(self) -> None:
        for each in self._series:
            try:
                await self._look_after(each)
            except BandstandError:
                # The head is down: try again in the next round.
                self._metrics.add.try_send("rounds left out", 1)

    async def _look_after(self, series: Series) -> None:
        series.head.rotate()
        sealed = await series.head.sealed()
        if len(sealed) >= 2:
            self._start_merge(series, sealed)
        if self._keep is not None:
            last = await series.head.last()
            gone = await asyncio.to_thread(retire, series.folder, self._keep, last, self._disk)
            if gone:
                self._metrics.add.try_send("retired", gone)
                series.index.refresh.try_send()
