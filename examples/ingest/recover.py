"""Reads a folder after a crash at any point. It changes nothing.

It reads the blocks first. The name of a block says which segments it was made from: these are skipped, because they
were about to be removed. Then it reads the other segments. The last one may end in the middle of a record; any other
damage is an error.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from examples.ingest.points import CorruptError, Point, TornError, decode

SEGMENT = re.compile(r"(\d{8})\.wal")
BLOCK = re.compile(r"(\d{8})-(\d{8})\.block")


@dataclass
class Found:
    """The content of a folder."""

    points: list[Point] = field(default_factory=list[Point])
    segments: list[int] = field(default_factory=list[int])
    """The segments that are in no block, in order."""
    covered: set[int] = field(default_factory=set[int])
    """The segments that are in blocks, and are not needed any more."""
    tail: bytes = b""
    """The complete records of the last segment."""
    torn_bytes: int = 0
    """The number of bytes of an incomplete record after them."""

    @property
    def last(self) -> int:
        """Return the number of the last point; 0 if there is none."""
        return self.points[-1].number if self.points else 0


def segment_path(folder: Path, number: int) -> Path:
    """Return the path of a segment."""
    return folder / f"{number:08}.wal"


def segments_of(folder: Path) -> list[int]:
    """Return the segments in a folder, in order."""
    return sorted(int(match[1]) for path in folder.iterdir() if (match := SEGMENT.fullmatch(path.name)))


def blocks_of(folder: Path) -> list[tuple[int, int, Path]]:
    """Return the blocks in a folder, in order: the first and last segment, and the path of each."""
    return sorted(
        (int(match[1]), int(match[2]), path)
        for path in folder.iterdir()
        if (match := BLOCK.fullmatch(path.name))
    )


def covered_by(blocks: list[tuple[int, int, Path]]) -> set[int]:
    """Return the segments that are in blocks."""
    return {number for first, last, _path in blocks for number in range(first, last + 1)}


def read_whole(path: Path) -> list[Point]:
    """Read the points of a finished file: a block, or a sealed segment.

    Raises:
        CorruptError: it is damaged.
    """
    try:
        return [point for record in decode(path.read_bytes()) for point in record]
    except (TornError, CorruptError) as error:
        raise CorruptError(f"{path}: {error}: restore it from a copy") from error


def recover(folder: Path) -> Found:
    """Read everything.

    Raises:
        CorruptError: something is damaged that no killed writer can have left behind.
    """
    found = Found()
    blocks = blocks_of(folder)
    for _first, _last, path in blocks:
        found.points += read_whole(path)
    found.covered = covered_by(blocks)
    found.segments = [number for number in segments_of(folder) if number not in found.covered]
    for number in found.segments[:-1]:
        found.points += read_whole(segment_path(folder, number))
    if found.segments:
        _read_last(segment_path(folder, found.segments[-1]), found)
    for before, after in pairwise(found.points):
        if after.number != before.number + 1:
            raise CorruptError(
                f"{folder}: point {after.number} follows point {before.number}: a file is missing"
            )
    return found


def _read_last(path: Path, found: Found) -> None:
    found.tail = path.read_bytes()
    try:
        for record in decode(found.tail):
            found.points += record
    except TornError as torn:
        found.torn_bytes = len(found.tail) - torn.offset
        found.tail = found.tail[: torn.offset]
    except CorruptError as error:
        raise CorruptError(f"{path}: {error}: restore it from a copy") from error
