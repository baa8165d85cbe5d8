"""Blocks: sealed segments are merged into one file, and removed when they are old.

A block is complete and durable before its segments are removed. After a kill at any moment in between, recovery finds
the segments, or the block, or both, and the same points each time.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from examples.ingest.disk import Disk, locked
from examples.ingest.log import write_whole
from examples.ingest.points import encode
from examples.ingest.recover import blocks_of, covered_by, read_whole, segment_path

# How many points share one checksum.
RECORD = 4096


def merge(folder: Path, segments: Sequence[int], disk: Disk) -> None:
    """Make one block of consecutive sealed segments. Blocks the thread."""
    with locked(folder):
        # A merge that has failed may have left a block and the segments it was made from. They must not get into another; and they go when
        # that block is on the disk, and not before.
        disk.sync_folder(folder)
        covered = covered_by(blocks_of(folder))
        left = [number for number in segments if number not in covered]
        if left:
            points = [point for number in left for point in read_whole(segment_path(folder, number))]
            records = [encode(points[start : start + RECORD]) for start in range(0, len(points), RECORD)]
            write_whole(folder / f"{left[0]:08}-{left[-1]:08}.block", b"".join(records), disk)
        for number in segments:
            disk.remove(segment_path(folder, number))
        disk.sync_folder(folder)


def retire(folder: Path, keep: int, last: int, disk: Disk) -> int:
    """Remove the oldest blocks whose points are all more than `keep` points behind the last. Return their number."""
    gone = 0
    with locked(folder):
        for _first, _last, path in blocks_of(folder):
            if read_whole(path)[-1].number > last - keep:
                break
            disk.remove(path)
            # One after the other: after a crash of the machine, no older block may exist than one that is lost.
            disk.sync_folder(folder)
            gone += 1
    return gone
