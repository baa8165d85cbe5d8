"""A write-ahead log of one series: a folder with numbered segments. The last one is written to.

What `flush` returns from is durable. A segment is *sealed* when another is begun; a sealed one never changes, and can
be merged.

What one flush writes is one record, so a machine that goes down leaves a tear at the end and no damage in the middle.

Threads write, and a thread goes on when its caller is cancelled. So a lock protects everything that touches the file:
`close` waits for a write that is in progress, and nothing is written after it.

An error leaves the last segment in doubt: it may end with a part of a record, and a failed sync may have dropped pages
that reading still shows. So after an error, open the log again. Opening writes the complete records of the last segment
once more, under another name first, before it calls them durable.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from threading import Lock

from examples.ingest.disk import Disk, locked
from examples.ingest.points import MOST_POINTS, Point, encode
from examples.ingest.recover import Found, recover, segment_path, segments_of

UNFINISHED = ".unfinished"


class Log:
    """The log of one series. Opening it recovers it, which blocks: `last` is the number of the last point that is durable."""

    def __init__(self, folder: Path, disk: Disk) -> None:
        disk.make_folder(folder)
        self.folder = folder
        self._disk = disk
        with locked(folder):
            found = recover(folder)
            self._mend(found)
        self.last = found.last
        self.torn_bytes = found.torn_bytes
        self._segment = found.segments[-1] if found.segments else max(found.covered, default=0) + 1
        self._descriptor = disk.open(segment_path(folder, self._segment))
        self._is_closed = False
        self._lock = Lock()
        self._buffer: list[Point] = []
        # The last point in the buffer. Points are durable after a flush.
        self._written = self.last

    def _mend(self, found: Found) -> None:
        # If the process was killed, a visible block may not be on the disk. Sync it before its segments are removed.
        self._disk.sync_folder(self.folder)
        for path in self.folder.glob(f"*{UNFINISHED}"):
            self._disk.remove(path)
        for number in found.covered:
            self._disk.remove(segment_path(self.folder, number))
        if found.segments:
            write_whole(segment_path(self.folder, found.segments[-1]), found.tail, self._disk)

    @property
    def sealed(self) -> list[int]:
        """The sealed segments, in order."""
        return [number for number in segments_of(self.folder) if number < self._segment]

    @property
    def unflushed(self) -> int:
        """The number of points in the buffer."""
        return len(self._buffer)

    def append(self, points: Sequence[Point]) -> bool:
        """Put points into the buffer, except those that are known.

        False if some before them are missing, or if there is no room for them before the next flush.
        """
        new = [point for point in points if point.number > self._written]
        if not new:
            return True
        if new[0].number != self._written + 1 or len(self._buffer) + len(new) > MOST_POINTS:
            return False
        self._buffer += new
        self._written = new[-1].number
        return True

    def flush(self) -> int:
        """Make the buffer durable. Blocks. Returns the number of the last durable point."""
        with self._lock:
            if self._buffer and not self._is_closed:
                points, self._buffer = self._buffer, []
                self._disk.write(self._descriptor, encode(points))
                self._disk.sync(self._descriptor)
                self.last = points[-1].number
            return self.last

    def rotate(self) -> None:
        """Seal the current segment and begin the next, unless it is empty. Blocks."""
        self.flush()
        with self._lock:
            if self._is_closed or os.fstat(self._descriptor).st_size == 0:
                return
            descriptor = self._disk.open(segment_path(self.folder, self._segment + 1))
            os.close(self._descriptor)
            self._descriptor = descriptor
            self._segment += 1

    def close(self) -> None:
        """Close the file. Blocks while another thread writes to it."""
        # Before the lock: calls that have not begun fail from now on.
        self._is_closed = True
        with self._lock:
            if self._descriptor >= 0:
                os.close(self._descriptor)
                self._descriptor = -1


def write_whole(path: Path, data: bytes, disk: Disk) -> None:
    """Write a file atomically and durably. Blocks."""
    draft = path.with_name(path.name + UNFINISHED)
    disk.remove(draft)
    descriptor = disk.open(draft)
    try:
        disk.write(descriptor, data)
        disk.sync(descriptor)
    finally:
        os.close(descriptor)
    disk.rename(draft, path)
