"""An ext4 file system on a loop device that loses everything that was not synced, while a process writes a journal to it."""

from __future__ import annotations

import fcntl
import os
import random
import struct
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from tests.journal.journals import read_pages, write_pages

ROOT = Path(__file__).resolve().parents[2]
SIZE = 64 << 20

# _IOR('X', 125, __u32): the file system fails every further operation, and does not write its own log.
_EXT4_IOC_SHUTDOWN = 0x8004587D
_WITHOUT_LOG_FLUSH = struct.pack("I", 2)

# Appends from eight tasks, and prints the text of each record when it is durable.
WRITER = """
import asyncio, os, sys
from bandstand.journal import Journal, Record

async def main():
    async with Journal(sys.argv[1]) as journal:
        async def produce(name):
            for n in range(1_000_000):
                text = f"{os.getpid()} {name} {n}"
                await journal.append(Record(1, text.encode()), Record(2, os.urandom(n % 300)))
                print(text, flush=True)
        await asyncio.gather(*[produce(name) for name in range(8)])

asyncio.run(main())
"""


class NoDiskError(Exception):
    """There is no root, no loop device or no ext4 here."""


class LoopDisk:
    """A file system in an image, mounted on a folder."""

    def __init__(self, image: Path, folder: Path) -> None:
        self._image, self.folder = image, folder

    def mount(self) -> None:
        subprocess.run(
            ["mount", "-o", "loop", str(self._image), str(self.folder)], check=True, capture_output=True
        )

    def unmount(self) -> None:
        subprocess.run(["umount", str(self.folder)], check=True, capture_output=True)

    def cut_power(self) -> None:
        descriptor = os.open(self.folder, os.O_RDONLY)
        try:
            fcntl.ioctl(descriptor, _EXT4_IOC_SHUTDOWN, _WITHOUT_LOG_FLUSH)
        finally:
            os.close(descriptor)


@contextmanager
def loop_disk(folder: Path) -> Generator[LoopDisk]:
    """Make a disk of 64 MiB, and remove it in the end.

    Raises:
        NoDiskError: that is not possible here. It says why.
    """
    disk = LoopDisk(folder / "image", folder / "disk")
    disk.folder.mkdir()
    with (folder / "image").open("wb") as image:
        image.truncate(SIZE)
    try:
        subprocess.run(["mkfs.ext4", "-q", str(folder / "image")], check=True, capture_output=True)
        disk.mount()
    except OSError as error:
        raise NoDiskError(f"cannot make a disk on a loop device: {error}") from error
    except subprocess.CalledProcessError as error:
        raise NoDiskError(f"cannot make a disk on a loop device: {error.stderr.decode().strip()}") from error
    try:
        yield disk
    finally:
        disk.unmount()


class PowerCuts:
    """Rounds of a process that writes a journal, and a power cut."""

    def __init__(self, disk: LoopDisk, random_: random.Random) -> None:
        self._disk = disk
        self._random = random_
        self._directory = disk.folder / "journal"
        self.acknowledged: set[bytes] = set()

    def play_round(self) -> None:
        """Cut the power at some moment, and check that the journal has what was reported as durable.

        Raises:
            AssertionError: it has not, or it has something else.
        """
        program = [sys.executable, "-c", WRITER, str(self._directory)]
        process = subprocess.Popen(program, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        assert process.stdout is not None
        with process, process.stdout:
            lines = {process.stdout.readline() for _ in range(self._random.randrange(20, 400))}
            self._disk.cut_power()
            process.kill()
            lines |= {line for line in process.stdout if line.endswith(b"\n")}
        self.acknowledged |= {line.rstrip(b"\n") for line in lines}
        self._disk.unmount()
        self._disk.mount()
        write_pages(self._directory, [])
        pages = read_pages(self._directory)
        texts = [record.data for page in pages for record in page.records if record.kind == 1]
        missing = self.acknowledged.difference(texts)
        assert not missing, (
            f"{len(missing)} of {len(self.acknowledged)} records that were reported as durable are missing"
        )
        assert len(set(texts)) == len(texts), "records are there twice"
        assert [page.number for page in pages] == list(range(1, len(pages) + 1))
