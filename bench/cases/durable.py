"""Commands to a node that has a journal: 512 without an answer at any time, and one at a time.

The client is in the same process, on the same event loop, and no socket is in between: what is compared is the node. `memory` is the same node without a journal. `SQLite` is
one bare commit of a command's bytes, without any node. All write to the disk that the checkout is on. Afterwards the capability must have handled every command once,
and the journal must have a request and an answer for each.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from functools import partial
from pathlib import Path

from bandstand.core.asyncio_host import new_event_loop
from bench import disk, stopwatch
from bench.case import Case, Outcome, Setting, Size, WrongResultError
from bench.commits import Database
from bench.target import at_rate

LINE = (
    b'{"kind":"command","type":"Counter.Add","data":{"cents":1},"metadata":{"id":"command-1","timestamp":0}}'
)


def node(setting: Setting, *, window: int, has_journal: bool, is_read: bool = True) -> Outcome:
    # What needs msgspec is not there in the peers' environment.
    from bench.commands import DirectClient, Look

    async def main(journal: Path | None) -> tuple[int, int]:
        client = DirectClient(setting.size, window)
        async with client.node(journal) as running:
            start = stopwatch.start()
            await client.run()
            elapsed = stopwatch.since(start)
            return elapsed, (await running.bus.ask(Look())).count

    with disk.folder() as folder:
        journal = folder / "journal" if has_journal else None
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            elapsed, handled = runner.run(main(journal))
        if journal is not None and is_read:
            check(journal, setting.size)
    return Outcome(total=elapsed, operations=setting.size, sent=setting.size, handled=handled)


def check(journal: Path, size: int) -> None:
    from bandstand.bus.durable.records import ANSWER, REQUEST
    from bandstand.journal import JournalReader

    with JournalReader(journal) as reader:
        kinds = Counter(record.kind for page in reader.pages() for record in page.records)
    if kinds[REQUEST] < size or kinds[ANSWER] < size:
        raise WrongResultError(
            f"the journal has {kinds[REQUEST]} requests and {kinds[ANSWER]} answers of {size}"
        )


def commits(setting: Setting) -> Outcome:
    with disk.folder() as folder:
        database = Database(folder)
        start = stopwatch.start()
        for _ in range(setting.size):
            database.commit(LINE)
        elapsed = stopwatch.since(start)
        database.close()
        handled = sum(1 for _ in Database.read(folder))
    return Outcome(total=elapsed, operations=setting.size, sent=setting.size, handled=handled)


CASES = (
    Case(
        name="durable-512",
        title="durable commands, 512 in flight",
        what="a command is sent when one of 512 is answered; the answers are durable",
        size=Size(full=200_000, slow=200_000, quick=2_000),
        measures={
            "journal": partial(node, window=512, has_journal=True),
            "memory": partial(node, window=512, has_journal=False),
        },
        target=at_rate(memory=0.3),
    ),
    Case(
        name="durable-1",
        title="durable commands, one at a time",
        what="a command is sent when the one before it is answered",
        size=Size(full=5_000, slow=5_000, quick=100),
        measures={
            "journal": partial(node, window=1, has_journal=True),
            "memory": partial(node, window=1, has_journal=False),
            "sqlite": commits,
        },
        target=at_rate(SQLite=0.5),
    ),
)

# Counted, and not timed: reading the journal afterwards is no part of a command.
COUNTED = (
    Case(
        name="durable-counted",
        title="durable commands, without reading the journal",
        what="a command is sent when one of 512 is answered; the answers are durable",
        size=Size(full=4_096, slow=4_096, quick=4_096),
        measures={
            "journal": partial(node, window=512, has_journal=True, is_read=False),
            "memory": partial(node, window=512, has_journal=False),
        },
    ),
)
