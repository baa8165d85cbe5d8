"""For the tests of the journal: write and read one, and damage its files."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Coroutine, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from bandstand.journal import Journal, JournalReader, Page, Record

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
