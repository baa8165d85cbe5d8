"""The index: the blocks of a series. It is read from the files, so each incarnation has the same state."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

from bandstand import Actor, ask, tell
from examples.ingest.disk import locked
from examples.ingest.recover import blocks_of, read_whole

Spans = Mapping[str, tuple[int, int]]
"""The first and last point of each block, by its name."""


class Index(Actor):
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._blocks: Spans = {}

    async def on_start(self) -> None:
        await self._look()

    @tell
    async def refresh(self) -> None:
        """Read the blocks again, because some were made or removed."""
        await self._look()

    async def _look(self) -> None:
        self._blocks = await asyncio.to_thread(spans_of, self._folder, self._blocks)

    @ask
    def blocks(self) -> Spans:
        return self._blocks


def spans_of(folder: Path, known: Spans) -> Spans:
    """Read the spans of all blocks. Blocks the thread. A block never changes, so a known one is not read again."""
    if not folder.is_dir():
        return {}
    # The lock keeps blocks from being removed meanwhile.
    with locked(folder):
        return {
            path.name: known.get(path.name) or _span_of(path) for _first, _last, path in blocks_of(folder)
        }


def _span_of(path: Path) -> tuple[int, int]:
    points = read_whole(path)
    return points[0].number, points[-1].number
