"""For the tests of the journal: write and read one, and damage its files."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Coroutine, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from bandstand.errors import JournalError
from bandstand.journal import Journal, JournalReader, Page, Record
from bandstand.journal.storage import Storage

T = TypeVar("T")


def write_pages(directory: Path, pages: Iterable[Sequence[Record]]) -> None:
    """Write a journal, a page for each sequence of records, and close it."""

    async def write(journal: Journal) -> None:
        for records in pages:
            await journal.append(*records)

    with_journal(directory, write)


def with_journal(directory: Path, body: Callable[[Journal], Coroutine[Any, Any, T]], **options: Any) -> T:
    """Open a journal, run a coroutine with it, and close it."""

    async def run() -> T:
        async with Journal(directory, **options) as journal:
            return await body(journal)

    return asyncio.run(run())


def read_pages(directory: Path, since: int = 0) -> list[Page]:
    with JournalReader(directory) as reader:
        return list(reader.pages(since))


def write_and_kill(directory: Path, pages: Iterable[Sequence[Record]]) -> None:
    """Write a journal as a process leaves it that is killed: its pages are in the write-ahead log."""
    written = directory.with_name(f"{directory.name}-written")

    async def write(journal: Journal) -> None:
        for records in pages:
            await journal.append(*records)
        shutil.copytree(written, directory, ignore=shutil.ignore_patterns("*-shm"))

    with_journal(written, write)
    shutil.rmtree(written)


def flip_bit(path: Path, bit: int) -> None:
    content = bytearray(path.read_bytes())
    content[bit // 8] ^= 1 << bit % 8
    path.write_bytes(content)


def sound_pages(directory: Path) -> tuple[list[Page], JournalError | None]:
    """Return the pages up to the first damage, and the damage."""
    pages: list[Page] = []
    try:
        with JournalReader(directory) as reader:
            for page in reader.pages():
                pages.append(page)  # noqa: PERF402  # those before the damage are kept
    except JournalError as damage:
        return pages, damage
    return pages, None


class Flips:
    """A journal with one flipped bit after the other, in a copy of it."""

    def __init__(self, directory: Path, copy: Path) -> None:
        self._copy = copy
        self._files = {path.name: path.read_bytes() for path in directory.iterdir()}
        self._original = read_pages(directory)

    def bits(self, name: str) -> int:
        """Return how many bits a file has."""
        return len(self._files[name]) * 8

    def check(self, name: str, bit: int) -> str | None:
        """Flip a bit, and read the copy and open it: None if nothing has changed, `found` if the damage was reported, otherwise what is wrong."""
        self._write(name, bit)
        pages, damage = sound_pages(self._copy)
        if pages != self._original[: len(pages)]:
            return f"bit {bit} of {name}: what was not written is read"
        if damage is None and pages != self._original:
            return f"bit {bit} of {name}: pages are missing, and nothing is reported"
        self._write(name, bit)
        try:
            Storage(self._copy).close()
        except JournalError:
            pass
        else:
            later, _ = sound_pages(self._copy)
            if later[: len(pages)] != pages:
                return f"bit {bit} of {name}: opening it has lost pages"
        return None if damage is None else "found"

    def _write(self, name: str, bit: int) -> None:
        self._copy.mkdir(exist_ok=True)
        for path in self._copy.iterdir():
            path.unlink()
        for other, content in self._files.items():
            (self._copy / other).write_bytes(content)
        flip_bit(self._copy / name, bit)
