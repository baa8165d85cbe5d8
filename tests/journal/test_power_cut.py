"""Power cuts: a real file system loses everything that was not synced. `make soak` does this fifty times."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.journal.power_cut import LoopDisk, NoDiskError, PowerCuts, loop_disk


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[LoopDisk]:
    """A disk. Where there can be none, crash images have to do."""
    disks = loop_disk(tmp_path)
    try:
        disk = disks.__enter__()
    except NoDiskError as error:
        pytest.skip(str(error))
    try:
        yield disk
    finally:
        disks.__exit__(None, None, None)


@pytest.mark.guarantee("G452")
@pytest.mark.once
@pytest.mark.slow
def test_what_was_reported_is_there_after_a_power_cut(disk: LoopDisk) -> None:
    cuts = PowerCuts(disk, random.Random(1))
    for _ in range(4):
        cuts.play_round()
    assert cuts.acknowledged
