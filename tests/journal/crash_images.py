"""Crash images: what may be on a disk after a power cut at any moment of a recorded run, and whether a journal recovers from it.

The recorder (`recorder.c`) notes every write, truncation, sync and change of a name. At a cut

- everything that was synced before is there;
- of the writes to a file since its last sync, any subset is there, each torn at 512 bytes;
- of the changes of a name since the last sync of its directory, any first part is there.

The last rule is stricter than Linux, where syncing a new file keeps its name as well.
"""

from __future__ import annotations

import os
import random
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from bandstand.errors import JournalCorruptError, JournalError
from bandstand.journal import JournalReader, Page, Record
from bandstand.journal.page import encode_records
from bandstand.journal.storage import Storage
from tests.journal.crash_program import records_of

ROOT = Path(__file__).resolve().parents[2]
SECTOR = 512
_ENTRY = struct.Struct("=cIQQQ")


class NoRecorderError(Exception):
    """The recorder cannot be compiled here."""


# -- the recording -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Entry:
    """One operation of the recorded process."""

    operation: str
    path: str
    inode: int
    offset: int
    data: bytes


def compile_recorder(folder: Path) -> Path:
    """Compile the recorder, and return the library.

    Raises:
        NoRecorderError: there is no compiler, or it failed.
    """
    library = folder / "recorder.so"
    source = Path(__file__).with_name("recorder.c")
    command = [
        "gcc",
        "-shared",
        "-fPIC",
        "-O1",
        "-Wall",
        "-Werror",
        "-o",
        str(library),
        str(source),
        "-ldl",
        "-lpthread",
    ]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise NoRecorderError(f"gcc cannot be run: {error}") from error
    if done.returncode:
        raise NoRecorderError(f"gcc cannot compile {source.name}: {done.stderr}")
    return library


def record(recorder: Path, folder: Path, seed: int, engine: str, *hows: str) -> list[Entry]:
    """Run the program under the recorder, once in each way, and return what it did to its files."""
    folder.mkdir()
    log = folder.with_name(f"{folder.name}.log")
    environment = {"LD_PRELOAD": str(recorder), "RECORDER_FOLDER": str(folder), "RECORDER_LOG": str(log)}
    for how in hows or ("",):
        done = subprocess.run(
            [sys.executable, "-m", "tests.journal.crash_program", str(folder), str(seed), engine, how],
            cwd=ROOT,
            env={**os.environ, **environment},
            check=False,
        )
        assert done.returncode == (9 if how.startswith("kill=") else 0)
    return list(read_log(log.read_bytes(), str(folder)))


def read_log(log: bytes, folder: str) -> Iterator[Entry]:
    at = 0
    while at < len(log):
        operation, length, inode, offset, size = _ENTRY.unpack_from(log, at)
        at += _ENTRY.size
        path = log[at : at + length].decode().removeprefix(folder).lstrip("/")
        at += length
        yield Entry(operation.decode(), path, inode, offset, log[at : at + size])
        at += size


# -- the disk ----------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class File:
    """A file: what is on the disk for certain, and what was done since."""

    content: bytearray = field(default_factory=bytearray)
    pending: list[tuple[int, bytes | None]] = field(default_factory=list[tuple[int, bytes | None]])
    """Offset and data of a write; a size and None for a truncation."""

    def sync(self) -> None:
        for offset, data in self.pending:
            _apply(self.content, offset, data)
        self.pending.clear()

    def image(self, chance: Chance) -> bytes:
        """Return what may be there after a power cut."""
        content = bytearray(self.content)
        for offset, data in self.pending:
            if data is None:
                if chance.draw():
                    _apply(content, offset, None)
                continue
            start = offset
            while start < offset + len(data):
                end = min((start // SECTOR + 1) * SECTOR, offset + len(data))
                if chance.draw():
                    _apply(content, start, data[start - offset : end - offset])
                start = end
        return bytes(content)


def _apply(content: bytearray, offset: int, data: bytes | None) -> None:
    if data is None:
        del content[offset:]
        content.extend(bytes(offset - len(content)))
    else:
        content.extend(bytes(max(0, offset - len(content))))
        content[offset : offset + len(data)] = data


@dataclass(slots=True)
class Chance:
    """Decides which of the operations that were not synced have reached the disk."""

    random: random.Random
    share: float

    def draw(self) -> bool:
        return self.random.random() < self.share


@dataclass
class Disk:
    """The files below a folder, as far as they are recorded."""

    files: dict[int, File] = field(default_factory=dict[int, File])
    """Those that are open or have a name, by inode."""
    names: dict[str, File | None] = field(default_factory=dict[str, "File | None"])
    """Those on the disk for certain; None is a directory."""
    pending: list[tuple[str, File | None, bool]] = field(
        default_factory=list[tuple[str, "File | None", bool]]
    )
    """Changes of names since the sync of their directories: the name, its file, and whether it was created."""
    promises: list[str] = field(default_factory=list[str])
    is_honest: bool = True
    """Whether the sync of a file has an effect."""

    def do(self, entry: Entry) -> None:
        if entry.path == "notes":
            self.promises += entry.data.decode().splitlines()
        elif entry.operation == "c":
            file = self.files[entry.inode] = File()
            self.pending.append((entry.path, file, True))
        elif entry.operation == "d":
            self.pending.append((entry.path, None, True))
        elif entry.operation == "u":
            self.pending.append((entry.path, None, False))
        elif entry.operation == "w":
            self.files[entry.inode].pending.append((entry.offset, entry.data))
        elif entry.operation == "t":
            self.files[entry.inode].pending.append((entry.offset, None))
        elif entry.inode in self.files:
            assert entry.operation == "s", f"the images know nothing of {entry.operation}"
            if self.is_honest:
                self.files[entry.inode].sync()
        else:
            self._sync_directory(entry.path)

    def _sync_directory(self, path: str) -> None:
        later: list[tuple[str, File | None, bool]] = []
        for name, file, is_created in self.pending:
            if os.path.dirname(name) != path:
                later.append((name, file, is_created))
            elif is_created:
                self.names[name] = file
            else:
                self.names.pop(name, None)
        self.pending = later

    def write_image(self, folder: Path, chance: Chance) -> None:
        """Write what may be there after a power cut into a folder that does not exist."""
        names, stopped = dict(self.names), set[str]()
        for name, file, is_created in self.pending:
            if name in stopped or not chance.draw():
                stopped.add(name)
            elif is_created:
                names[name] = file
            else:
                names.pop(name, None)
        folder.mkdir()
        for name, file in sorted(names.items()):
            path = folder / name
            if name.endswith("-shm") or not path.parent.is_dir():
                continue
            if file is None:
                path.mkdir()
            else:
                path.write_bytes(file.image(chance))


# -- recovery ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Promised:
    """What a recovered journal must have."""

    last: int
    """The last page that was reported as durable."""
    deleted: int
    """Up to here pages are gone for certain."""
    deleting: int
    """Up to here pages may be gone."""

    @classmethod
    def of(cls, promises: list[str]) -> Promised:
        found = {"page": 0, "deleted": 0, "deleting": 0}
        for promise in promises:
            name, number = promise.split()
            found[name] = max(found[name], int(number))
        return cls(found["page"], found["deleted"], found["deleting"])


@cache
def expected_page(seed: int, page: int) -> tuple[Record, ...]:
    return tuple(records_of(seed, page))


def problem_of(directory: Path, seed: int, promised: Promised, *, is_honest: bool = True) -> str | None:
    """Recover a journal, and say what is wrong with it; None if it has what was promised, and nothing else.

    Of a disk that lies about what it has synced, only the second can be expected.
    """
    try:
        pages = recovered(directory)
        if recovered(directory) != pages:
            return "a second recovery reads something else"
    except JournalCorruptError as error:
        return f"it cannot be read: {error}" if is_honest else None
    if any(page.records != expected_page(seed, page.number) for page in pages):
        return "a page has other records than were written"
    if not is_honest:
        return None
    first, last = (pages[0].number, pages[-1].number) if pages else (1, 0)
    if last < promised.last:
        return f"it ends at page {last}, and page {promised.last} was reported as durable"
    if last > promised.last + 1:
        return f"it ends at page {last}, and only page {promised.last + 1} was being written"
    if not promised.deleted < first <= promised.deleting + 1:
        return f"it begins at page {first}, and the pages up to {promised.deleted} were deleted"
    return _continues(directory, last + 1)


def recovered(directory: Path) -> list[Page]:
    """Open a journal as the next process does, and return its pages."""
    storage = Storage(directory)
    try:
        with JournalReader(directory) as reader:
            pages = list(reader.pages())
        assert storage.last == (pages[-1].number if pages else 0)
    finally:
        storage.close()
    return pages


def _continues(directory: Path, number: int) -> str | None:
    """Say what is wrong when the next page is written."""
    storage = Storage(directory)
    try:
        page = storage.commit(0, 1, encode_records([Record(1, b"next")]))
    except JournalError as error:
        return f"it cannot be continued: {error}"
    finally:
        storage.close()
    if page != number or recovered(directory)[-1].records != (Record(1, b"next"),):
        return "its next page cannot be read back"
    return None


SHARES = (0.0, 1.0, 0.5, 0.9, 0.1)


def draw_moments(entries: list[Entry], images: int, random_: random.Random) -> list[int]:
    """Draw when the power is cut: before which of the operations."""
    return [random_.randrange(len(entries) + 1) for _ in range(images)]


def check_images(
    entries: list[Entry],
    seed: int,
    folder: Path,
    moments: list[int],
    random_: random.Random,
    *,
    is_honest: bool = True,
) -> list[str]:
    """Recover from an image of each moment, and return what is wrong with them."""
    problems: list[str] = []
    disk, done = Disk(is_honest=is_honest), 0
    image = folder / "image"
    for number, moment in enumerate(sorted(moments)):
        while done < moment:
            disk.do(entries[done])
            done += 1
        chance = Chance(random_, SHARES[number % len(SHARES)])
        disk.write_image(image, chance)
        promised = Promised.of(disk.promises)
        problem = problem_of(image / "journal", seed, promised, is_honest=is_honest)
        if problem is not None:
            problems.append(
                f"seed {seed}, before operation {moment} of {len(entries)}, share {chance.share}: {problem}"
            )
        shutil.rmtree(image)
    return problems
