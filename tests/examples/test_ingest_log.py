"""The write-ahead log of the ingest example: whatever is cut off, and whenever somebody is killed, what is durable stays."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples.ingest.blocks import merge
from examples.ingest.disk import Disk, FullDisk
from examples.ingest.log import Log
from examples.ingest.points import CorruptError, Point, encode
from examples.ingest.recover import recover, segment_path

pytestmark = [pytest.mark.once, pytest.mark.spec("J22")]

POINTS = [Point(number, number / 2) for number in range(1, 200)]


@pytest.fixture
def folder() -> Iterator[Path]:
    with TemporaryDirectory() as name:
        yield Path(name)


def filled(folder: Path, *sizes: int, rotates: bool = False) -> Log:
    """A log with records of so many points; each in a segment of its own if it rotates."""
    log = Log(folder, Disk())
    for size in sizes:
        start = log.last
        assert log.append(POINTS[start : start + size])
        log.flush()
        if rotates:
            log.rotate()
    return log


@given(st.lists(st.integers(1, 5), min_size=1, max_size=6), st.data())
def test_cut_anywhere_the_whole_records_are_there(sizes: list[int], data: st.DataObject) -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        filled(folder, *sizes).close()
        path = segment_path(folder, 1)
        whole = path.read_bytes()
        cut = data.draw(st.integers(0, len(whole)), label="cut")
        path.write_bytes(whole[:cut])
        ends = [0]
        for size in sizes:
            ends.append(ends[-1] + len(encode(POINTS[:size])))
        expected = sum(sizes[: max(n for n, end in enumerate(ends) if end <= cut)])
        assert recover(folder).points == POINTS[:expected]
        # Whoever opens it goes on from there.
        log = Log(folder, Disk())
        assert log.torn_bytes == cut - max(end for end in ends if end <= cut)
        assert log.append(POINTS[expected : expected + 3])
        log.flush()
        log.close()
        assert recover(folder).points == POINTS[: expected + 3]


def test_what_is_known_is_left_out_and_a_gap_is_refused(folder: Path) -> None:
    log = filled(folder, 5)
    assert log.append(POINTS[:3])
    assert log.unflushed == 0
    assert not log.append(POINTS[6:9])
    assert log.append(POINTS[3:8])
    assert log.flush() == 8
    log.close()
    assert recover(folder).points == POINTS[:8]


def test_after_a_failed_sync_nothing_is_durable_until_it_is_written_again(folder: Path) -> None:
    log = Log(folder, FullDisk(1))
    log.append(POINTS[:5])
    with pytest.raises(OSError, match="no space left"):
        log.flush()
    assert log.last == 0
    log.close()
    inode = segment_path(folder, 1).stat().st_ino
    again = Log(folder, Disk())
    # It could be read, so it is kept: but in a file of its own, which was synced.
    assert again.last == 5
    assert segment_path(folder, 1).stat().st_ino != inode
    again.close()


class KilledError(Exception):
    """The process ends here."""


class Mortal(Disk):
    """Is killed before the n-th thing that it does."""

    def __init__(self, steps: int) -> None:
        self.steps = steps

    def _step(self) -> None:
        if self.steps == 0:
            raise KilledError
        self.steps -= 1

    def write(self, descriptor: int, data: bytes) -> None:
        if self.steps == 0:
            # Half of it was written.
            super().write(descriptor, data[: len(data) // 2])
        self._step()
        super().write(descriptor, data)

    def sync(self, descriptor: int) -> None:
        self._step()
        super().sync(descriptor)

    def rename(self, old: Path, new: Path) -> None:
        self._step()
        super().rename(old, new)

    def remove(self, path: Path) -> None:
        self._step()
        super().remove(path)


@pytest.mark.parametrize("steps", range(12))
def test_a_kill_at_any_step_of_a_merge_loses_no_point(folder: Path, steps: int) -> None:
    log = filled(folder, 3, 4, 5, rotates=True)
    sealed = log.sealed
    log.close()
    assert sealed == [1, 2, 3]
    try:
        merge(folder, sealed, Mortal(steps))
    except KilledError:
        pass
    else:
        # The steps of a merge: the draft away, written, synced, renamed, and three segments removed.
        assert steps >= 7
    assert recover(folder).points == POINTS[:12]
    for more in range(8):
        with suppress(KilledError):
            Log(folder, Mortal(more)).close()
        assert recover(folder).points == POINTS[:12]
    log = Log(folder, Disk())
    assert (log.last, log.torn_bytes) == (12, 0)
    log.append(POINTS[12:15])
    log.flush()
    log.close()
    assert recover(folder).points == POINTS[:15]


def shortened(data: bytes) -> bytes:
    return data[:-1]


def changed(data: bytes) -> bytes:
    return data[:9] + bytes([data[9] ^ 1]) + data[10:]


def overstated(data: bytes) -> bytes:
    return b"\xff\xff\xff\x7f" + data[4:]


@pytest.mark.parametrize(
    "damage", [shortened, changed, overstated], ids=["shortened", "changed", "overstated"]
)
def test_damage_of_what_was_sealed_is_told(folder: Path, damage: Callable[[bytes], bytes]) -> None:
    filled(folder, 3, 4, rotates=True).close()
    path = segment_path(folder, 1)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(CorruptError, match="is not whole"):
        recover(folder)


@pytest.mark.parametrize("block", [8, 16, 24, 64])
def test_a_power_loss_takes_nothing_that_was_acknowledged(folder: Path, block: int) -> None:
    log = filled(folder, 3)
    acknowledged = segment_path(folder, 1).read_bytes()
    # It came in several messages, and was flushed at once.
    for start in range(3, 23, 4):
        assert log.append(POINTS[start : start + 4])
    log.flush()
    log.close()
    flushed = segment_path(folder, 1).read_bytes()
    for lost in range(len(acknowledged), len(flushed), block):
        zeros = bytes(min(block, len(flushed) - lost))
        segment_path(folder, 1).write_bytes(flushed[:lost] + zeros + flushed[lost + block :])
        found = recover(folder)
        # Zeros where there were zeros are no loss.
        assert found.points in (POINTS[:3], POINTS[:23])
        assert found.tail in (acknowledged, flushed)
