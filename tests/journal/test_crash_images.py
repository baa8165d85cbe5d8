"""Power cuts at any moment: every legal image of the disk is recovered, with all that was reported as durable and nothing else."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from bandstand.journal.engine import Engine
from tests.journal import crash_images
from tests.journal.crash_images import Chance, Disk, Entry, check_images, draw_moments, record

IMAGES = 60


@pytest.fixture(scope="module")
def recorder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    try:
        return crash_images.compile_recorder(tmp_path_factory.mktemp("recorder"))
    except crash_images.NoRecorderError as error:
        pytest.skip(str(error))


@pytest.mark.guarantee("G452", "G453")
@pytest.mark.once
@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_every_image_is_recovered(engine: Engine, recorder: Path, memory: Path, seed: int) -> None:
    random_ = random.Random(seed)
    entries = record(recorder, memory / "run", seed, engine.package)
    moments = draw_moments(entries, IMAGES, random_)
    assert check_images(entries, seed, memory, moments, random_) == []


@pytest.mark.guarantee("G452")
@pytest.mark.once
@pytest.mark.slow
def test_what_the_next_process_finds_is_durable(recorder: Path, memory: Path) -> None:
    """A process is killed before a sync. Its page may be in the page cache only, but the next process counts it as written."""
    pytest.importorskip("apsw")
    for number in (5, 9, 14, 20):
        entries = record(recorder, memory / f"run{number}", 1, "apsw", f"kill={number}", "resume")
        moments = [len(entries)] * 15
        assert check_images(entries, 1, memory, moments, random.Random(number)) == []


@pytest.mark.guarantee("G453")
@pytest.mark.once
@pytest.mark.slow
def test_a_disk_that_lies_about_syncs_makes_nobody_read_what_was_not_written(
    engine: Engine, recorder: Path, memory: Path
) -> None:
    entries = record(recorder, memory / "run", 4, engine.package)
    random_ = random.Random(4)
    moments = draw_moments(entries, IMAGES, random_)
    assert check_images(entries, 4, memory, moments, random_, is_honest=False) == []


@pytest.mark.once
@pytest.mark.slow
def test_a_journal_that_does_not_sync_is_caught(engine: Engine, recorder: Path, memory: Path) -> None:
    """The check itself: it finds what was lost."""
    entries = record(recorder, memory / "run", 1, engine.package, "no-sync")
    random_ = random.Random(1)
    moments = draw_moments(entries, IMAGES, random_)
    problems = check_images(entries, 1, memory, moments, random_)
    assert any("was reported as durable" in problem for problem in problems)


class TestTheDisk:
    """The model itself: what is synced stays, and of the rest any part."""

    def entry(self, operation: str, path: str, offset: int = 0, data: bytes = b"") -> Entry:
        return Entry(operation, path, 7 if path.endswith("file") else 0, offset, data)

    def images(self, tmp_path: Path, disk: Disk, *, share: float = 0.5) -> set[bytes | None]:
        found: set[bytes | None] = set()
        tmp_path.mkdir(exist_ok=True)
        for number in range(60):
            folder = tmp_path / f"{number}"
            disk.write_image(folder, Chance(random.Random(number), share))
            file = folder / "file"
            found.add(file.read_bytes() if file.exists() else None)
        return found

    def test_writes_since_the_last_sync_are_torn_at_sectors(self, tmp_path: Path) -> None:
        disk = Disk()
        for entry in (
            self.entry("c", "file"),
            self.entry("w", "file", 0, b"a" * 1024),
            self.entry("s", "file"),
            self.entry("s", ""),
            self.entry("w", "file", 256, b"b" * 512),
        ):
            disk.do(entry)
        a, b = b"a" * 256, b"b" * 256
        assert self.images(tmp_path, disk) == {
            a + a + a + a,
            a + b + a + a,
            a + a + b + a,
            a + b + b + a,
        }

    def test_a_hole_has_zeros_and_a_truncation_may_be_missing(self, tmp_path: Path) -> None:
        disk = Disk()
        for entry in (
            self.entry("c", "file"),
            self.entry("s", ""),
            self.entry("w", "file", 0, b"a" * 600),
            self.entry("t", "file", 512),
        ):
            disk.do(entry)
        a, hole = b"a" * 512, bytes(512)
        assert self.images(tmp_path, disk) == {b"", hole, a, a + b"a" * 88, hole + b"a" * 88}

    def test_a_name_is_there_when_its_directory_was_synced(self, tmp_path: Path) -> None:
        disk = Disk()
        disk.do(self.entry("c", "file"))
        disk.do(self.entry("s", "file"))
        assert self.images(tmp_path / "a", disk) == {b"", None}
        disk.do(self.entry("s", ""))
        assert self.images(tmp_path / "b", disk) == {b""}
        disk.do(self.entry("u", "file"))
        assert self.images(tmp_path / "c", disk) == {b"", None}
