"""Records of 256 bytes that are durable: one producer, 64 and 512 of them, and rounds of a hundred records.

A producer is a task that appends a record, waits until it is durable, and appends the next. A *round* is what a node does that handles commands: it
writes all records of a round at once, has one call when they are durable, and has two rounds on their way at any time. An operation is one record.

What is comparable: `SQLite` and `file` make the same bytes durable by group commit as well, and no more (`commits`): what the journal adds
are its checksums, its mark and its limits. All of them ride the same event loop, and write to the disk that the checkout is on. Afterwards everything is read back: each
record has a number, and all of them must be there once.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

from bandstand.core.asyncio_host import new_event_loop
from bandstand.journal import Journal, JournalReader, Record, RecordBatch
from bench import disk, stopwatch
from bench.case import Case, Outcome, Setting, Size
from bench.commits import Database, File, GroupCommit
from bench.target import at_rate

RECORD = 256
ROUND = 100
ON_THEIR_WAY = 2

Append: TypeAlias = Callable[[bytes], "asyncio.Future[Any] | Coroutine[Any, Any, Any]"]
WriteRound: TypeAlias = Callable[[list[bytes], Callable[[], object]], object]


class JournalPeer:
    """The journal."""

    @asynccontextmanager
    async def open(self, folder: Path) -> AsyncGenerator[tuple[Append, WriteRound]]:
        async with Journal(folder / "journal") as journal:

            def append(data: bytes) -> Coroutine[Any, Any, int]:
                return journal.append(Record(1, data))

            def write(records: list[bytes], done: Callable[[], object]) -> None:
                def called(_page: int, error: Exception | None) -> None:
                    if error is not None:
                        raise error
                    done()

                batch = RecordBatch()
                for data in records:
                    batch.add(1, data)
                journal.write_batch(batch, called)

            yield append, write

    def read(self, folder: Path) -> Iterator[bytes]:
        with JournalReader(folder / "journal") as reader:
            for page in reader.pages():
                for record in page.records:
                    yield record.data


class BarePeer:
    """Group commit of bytes into a database or a file."""

    def __init__(self, store: type[Database | File]) -> None:
        self._store = store

    @asynccontextmanager
    async def open(self, folder: Path) -> AsyncGenerator[tuple[Append, WriteRound]]:
        group = GroupCommit(partial(self._store, folder))
        make_future = asyncio.get_running_loop().create_future

        def append(data: bytes) -> asyncio.Future[Any]:
            future = make_future()
            group.write(data, partial(future.set_result, None))
            return future

        def write(records: list[bytes], done: Callable[[], object]) -> None:
            group.write(b"".join(records), done)

        try:
            yield append, write
        finally:
            await group.close()

    def read(self, folder: Path) -> Iterator[bytes]:
        for body in self._store.read(folder):
            for start in range(0, len(body), RECORD):
                yield body[start : start + RECORD]


Peer: TypeAlias = JournalPeer | BarePeer


def record(number: int) -> bytes:
    return b"%032d" % number * (RECORD // 32)


def run(
    peer: Peer, setting: Setting, produce: Callable[[Peer, Path, int], Coroutine[Any, Any, int]]
) -> Outcome:
    with disk.folder() as folder:
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            elapsed = runner.run(produce(peer, folder, setting.size))
        found = list(peer.read(folder))
    expected = {record(number) for number in range(setting.size)}
    return Outcome(
        total=elapsed,
        operations=setting.size,
        sent=setting.size,
        handled=len(expected.intersection(found)) if len(found) == setting.size else len(found),
    )


async def appended(peer: Peer, folder: Path, size: int, *, producers: int) -> int:
    async with peer.open(folder) as (append, _):
        records = iter([record(number) for number in range(size)])

        async def produce(mine: Iterable[bytes]) -> None:
            for data in mine:
                await append(data)

        start = stopwatch.start()
        await asyncio.gather(*[produce(islice(records, size // producers)) for _ in range(producers)])
        return stopwatch.since(start)


async def in_rounds(peer: Peer, folder: Path, size: int) -> int:
    async with peer.open(folder) as (_, write):
        rounds = iter([[record(number) for number in range(at, at + ROUND)] for at in range(0, size, ROUND)])
        over = asyncio.get_running_loop().create_future()
        missing = size // ROUND

        def write_next() -> None:
            if (records := next(rounds, None)) is not None:
                write(records, done)

        def done() -> None:
            nonlocal missing
            missing -= 1
            if missing:
                write_next()
            else:
                over.set_result(None)

        start = stopwatch.start()
        for _ in range(ON_THEIR_WAY):
            write_next()
        await over
        return stopwatch.since(start)


def journal(setting: Setting, *, produce: Callable[[Peer, Path, int], Coroutine[Any, Any, int]]) -> Outcome:
    return run(JournalPeer(), setting, produce)


def sqlite(setting: Setting, *, produce: Callable[[Peer, Path, int], Coroutine[Any, Any, int]]) -> Outcome:
    return run(BarePeer(Database), setting, produce)


def file(setting: Setting, *, produce: Callable[[Peer, Path, int], Coroutine[Any, Any, int]]) -> Outcome:
    return run(BarePeer(File), setting, produce)


def case(
    name: str,
    title: str,
    what: str,
    size: Size,
    produce: Callable[[Peer, Path, int], Coroutine[Any, Any, int]],
) -> Case:
    return Case(
        name=name,
        title=title,
        what=what,
        size=size,
        measures={
            "journal": partial(journal, produce=produce),
            "sqlite": partial(sqlite, produce=produce),
            "file": partial(file, produce=produce),
        },
        target=at_rate(SQLite=0.5),
    )


CASES = (
    case(
        "journal-1",
        "durable records, one producer",
        "a record is appended when the one before it is durable",
        Size(full=1_000, slow=1_000, quick=50),
        partial(appended, producers=1),
    ),
    case(
        "journal-64",
        "durable records, 64 producers",
        "the same by 64 tasks at once",
        Size(full=128_000, slow=128_000, quick=640),
        partial(appended, producers=64),
    ),
    case(
        "journal-512",
        "durable records, 512 producers",
        "the same by 512 tasks at once",
        Size(full=256_000, slow=256_000, quick=1_024),
        partial(appended, producers=512),
    ),
    case(
        "journal-rounds",
        "durable records, in rounds of 100",
        "100 records are written at once, two such rounds at any time",
        Size(full=300_000, slow=300_000, quick=1_000),
        in_rounds,
    ),
)
