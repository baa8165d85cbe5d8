"""A write-ahead log of one series: a folder with numbered segments, of which the last is written to.

What `flush` returns from is durable. A segment is *sealed* when another is begun; a sealed one never changes, and can be merged.

An error leaves the last segment in doubt: a part of a record may be there, and a sync that has failed may have thrown away what it could not
write, although reading still shows it. So whoever meets an error opens the log anew, and opening it writes the whole records of the last
segment once more, under another name first, before it calls them durable.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from examples.ingest.disk import Disk, locked
from examples.ingest.points import Point, encode
from examples.ingest.recover import Found, recover, segment_path, segments_of

UNFINISHED = ".unfinished"


class Log:
    """The log of one series. Opening it recovers it, which blocks: `last` is the number of the last point that is durable."""

    def __init__(self, folder: Path, disk: Disk) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._disk = disk
        with locked(folder):
            found = recover(folder)
            self._mend(found)
        self.last = found.last
        self.torn_bytes = found.torn_bytes
        self._segment = found.segments[-1] if found.segments else max(found.covered, default=0) + 1
        self._descriptor = disk.open(segment_path(folder, self._segment))
        self._buffer: list[bytes] = []
        # The last point that is in the buffer; what is not flushed is not durable.
        self._written = self.last
        self.unflushed_bytes = 0

    def _mend(self, found: Found) -> None:
        for path in self.folder.glob(f"*{UNFINISHED}"):
            self._disk.remove(path)
        for number in found.covered:
            self._disk.remove(segment_path(self.folder, number))
        if found.segments:
            write_whole(segment_path(self.folder, found.segments[-1]), found.tail, self._disk)

    @property
    def sealed(self) -> list[int]:
        """The segments that will not change any more, in order."""
        return [number for number in segments_of(self.folder) if number != self._segment]

    def append(self, points: Sequence[Point]) -> bool:
        """Take points into the buffer; those that are known already are left out. False if some before them are missing."""
        new = [point for point in points if point.number > self._written]
        if not new:
            return True
        if new[0].number != self._written + 1:
            return False
        record = encode(new)
        self._buffer.append(record)
        self._written = new[-1].number
        self.unflushed_bytes += len(record)
        return True

    def flush(self) -> int:
        """Make durable what was appended. Blocks; the number of the last point that is durable now."""
        if self._buffer:
            upto = self._written
            data, self._buffer, self.unflushed_bytes = b"".join(self._buffer), [], 0
            self._disk.write(self._descriptor, data)
            self._disk.sync(self._descriptor)
            self.last = upto
        return self.last

    def rotate(self) -> None:
        """Seal the present segment and begin the next, if there is something in it. Blocks."""
        self.flush()
        if os.fstat(self._descriptor).st_size == 0:
            return
        descriptor = self._disk.open(segment_path(self.folder, self._segment + 1))
        os.close(self._descriptor)
        self._descriptor = descriptor
        self._segment += 1

    def close(self) -> None:
        """Let go of the file, as it is."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def write_whole(path: Path, data: bytes, disk: Disk) -> None:
    """Write a file so that it is there, whole and durable, or is what it was. Blocks."""
    draft = path.with_name(path.name + UNFINISHED)
    disk.remove(draft)
    descriptor = disk.open(draft)
    try:
        disk.write(descriptor, data)
        disk.sync(descriptor)
    finally:
        os.close(descriptor)
    disk.rename(draft, path)
