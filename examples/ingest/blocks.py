"""Blocks: sealed segments made into one file, and removed when their time has come.

A block is there, whole and durable, before its segments are removed. Killed at any moment in between, whoever recovers finds the segments,
or the block, or both, and the same points each time.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from examples.ingest.disk import Disk, locked
from examples.ingest.log import write_whole
from examples.ingest.points import encode
from examples.ingest.recover import blocks_of, read_whole, segment_path

# So many points have one checksum.
RECORD = 4096


def merge(folder: Path, segments: Sequence[int], disk: Disk) -> Path:
    """Make one block of sealed segments that follow each other. Blocks; where it is now."""
    path = folder / f"{segments[0]:08}-{segments[-1]:08}.block"
    with locked(folder):
        points = [point for number in segments for point in read_whole(segment_path(folder, number))]
        records = [encode(points[start : start + RECORD]) for start in range(0, len(points), RECORD)]
        write_whole(path, b"".join(records), disk)
        for number in segments:
            disk.remove(segment_path(folder, number))
        disk.sync_folder(folder)
    return path


def retire(folder: Path, keep: int, last: int, disk: Disk) -> int:
    """Remove the oldest blocks all of whose points are more than `keep` points behind the last; how many those were."""
    gone = 0
    with locked(folder):
        for _first, _last, path in blocks_of(folder):
            if read_whole(path)[-1].number > last - keep:
                break
            disk.remove(path)
            gone += 1
    return gone
