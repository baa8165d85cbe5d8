"""Power cuts: an ext4 file system on a loop device loses everything that was not synced, while a process writes to it."""

from __future__ import annotations

import fcntl
import os
import random
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.journal.journals import read_pages
from tests.journal.test_disk_faults import WRITER

# _IOR('X', 125, __u32): the file system fails every further operation, and does not write its own log.
EXT4_IOC_SHUTDOWN = 0x8004587D
WITHOUT_LOG_FLUSH = struct.pack("I", 2)


class Disk:
    """A file system in an image, mounted on a folder."""

    def __init__(self, image: Path, folder: Path) -> None:
        self.image, self.folder = image, folder

    def mount(self) -> None:
        subprocess.run(["mount", "-o", "loop", str(self.image), str(self.folder)], check=True)

    def unmount(self) -> None:
        subprocess.run(["umount", str(self.folder)], check=True)

    def cut_power(self) -> None:
        descriptor = os.open(self.folder, os.O_RDONLY)
        try:
            fcntl.ioctl(descriptor, EXT4_IOC_SHUTDOWN, WITHOUT_LOG_FLUSH)
        finally:
            os.close(descriptor)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    """A disk of 64 MiB. Needs root and loop devices; where they are missing, SQLite's own tests have to do."""
    disk = Disk(tmp_path / "image", tmp_path / "disk")
    disk.folder.mkdir()
    with disk.image.open("wb") as image:
        image.truncate(64 << 20)
    try:
        subprocess.run(["mkfs.ext4", "-q", str(disk.image)], check=True, capture_output=True)
        disk.mount()
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"cannot mount an ext4 file system on a loop device: {error}")
    try:
        yield disk
    finally:
        disk.unmount()


@pytest.mark.guarantee("G452")
@pytest.mark.once
@pytest.mark.slow
def test_what_was_reported_is_there_after_a_power_cut(disk: Disk) -> None:
    random_ = random.Random(1)
    acknowledged: set[bytes] = set()
    for _ in range(4):
        program = [sys.executable, "-c", WRITER, str(disk.folder / "journal")]
        process = subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        assert process.stdout is not None
        with process, process.stdout:
            acknowledged |= {process.stdout.readline() for _ in range(random_.randrange(20, 400))}
            disk.cut_power()
            process.kill()
            acknowledged |= {line for line in process.stdout if line.endswith(b"\n")}
        disk.unmount()
        disk.mount()
        pages = read_pages(disk.folder / "journal")
        texts = [record.data for page in pages for record in page.records if record.kind == 1]
        assert {line.rstrip(b"\n") for line in acknowledged} <= set(texts)
        assert len(set(texts)) == len(texts)
