"""Write the journal of a node of this release that the nodes of every later release must open.

    python -m tests.bus.make_node_release

It makes a folder in tests/bus/releases, named after the version, and does nothing if that exists: what was released never changes. Run it before a release whose nodes write
other records than those of the last one.

The journal is that of a process that was killed. It has every kind of record, and some of everything that can be open: `test_node_releases` says what a node must find in it.
"""

# ruff: noqa: T201  # a program that speaks to a terminal

from __future__ import annotations

import asyncio
import shutil
import sys
import tempfile
from collections import Counter
from itertools import count
from pathlib import Path
from unittest import mock

import bandstand
from bandstand.bus.durable.records import KIND_NAMES
from bandstand.journal import JournalReader
from tests.bus.release_node import BEGAN, CAPABILITIES, Work
from tests.bus.virtual_node import Act, Stage, hushed, play

RELEASES = Path(__file__).with_name("releases")


async def fill(stage: Stage) -> None:
    """Do some of everything."""
    client = stage.connect()
    client.command("Shop.Work", {"number": 1}, name="answered")
    client.event("Shop.Worked", {"number": 2})
    client.command("Shop.Nothing", {}, name="purged")
    await stage.settle()
    await client.reply_to("command", "Dead.Purge", {"id": "purged"})
    cancelled = {
        "kind": "event",
        "type": "Shop.Worked",
        "data": {"number": 3},
        "metadata": {"id": "no", "timestamp": 0},
    }
    timer = await client.reply_to("command", "Timer.Schedule", {"delay": 60_000, "message": cancelled})
    await client.reply_to("command", "Timer.Cancel", timer)
    # More than may run at a time: what waits is marked as begun in the page of an answer.
    for number in range(10, 16):
        client.command("Shop.Work", {"number": number, "seconds": 1})
    given_up = asyncio.ensure_future(stage.bus.ask(Work(4, 1)))
    await stage.settle()
    given_up.cancel()
    await stage.wait(10_000)
    for cents in range(1, 8):
        await client.reply_to("command", "Account.Deposit", {"account": "alice", "cents": cents})
    reminder = {"name": "yearly", "command": "Shop.Work", "data": {"number": 5}, "cron": "0 0 1 1 *"}
    await client.reply_to("command", "Reminder.Set", reminder)


async def write_checkpoint(stage: Stage) -> None:
    """Write a checkpoint."""
    await stage.connect("second").reply_to("command", "Shop.Work", {"number": 9})
    await stage.settle()


async def leave_open(stage: Stage) -> None:
    """Leave some of everything open."""
    client = stage.connect("third")
    client.command("Shop.Nothing", {}, name="unrouted")
    await client.reply_to("command", "Account.Deposit", {"account": "bob", "cents": 100})
    await client.reply_to("command", "Account.Deposit", {"account": "alice", "cents": 100})
    later = {
        "kind": "command",
        "type": "Shop.Work",
        "data": {"number": 6},
        "metadata": {"id": "later", "timestamp": 0},
    }
    await client.reply_to("command", "Timer.Schedule", {"delay": 60_000, "message": later})
    reminder = {"name": "soon", "command": "Shop.Work", "data": {"number": 7}, "after": "90s"}
    await client.reply_to("command", "Reminder.Set", reminder)
    client.command("Shop.Order", {"card": "4711"}, name="order")
    client.command("Shop.Work", {"number": 8, "seconds": 1_000_000}, name="doubtful")
    await stage.settle()


def kinds_in(journal: Path) -> Counter[str]:
    """Return how many records of each kind a journal has."""
    with JournalReader(journal) as reader:
        return Counter(KIND_NAMES[record.kind] for page in reader.pages() for record in page.records)


def make(folder: Path) -> Counter[str]:
    """Make the journal, and return how many records of each kind it has."""
    kinds: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as name:
        journal = Path(name) / "journal"
        ticks = count(BEGAN)

        def run(act: Act) -> None:
            with hushed():
                play(
                    act,
                    *CAPABILITIES,
                    journal=journal,
                    wall_clock=lambda: next(ticks) * 1_000_000,
                    drain_timeout=0,
                )

        async def end(stage: Stage) -> None:
            await leave_open(stage)
            ignored = shutil.ignore_patterns("*-shm", "*lock", "index*")
            shutil.copytree(journal, folder / "journal", ignore=ignored)
            kinds.update(kinds_in(journal))

        run(fill)
        with mock.patch("bandstand.bus.durable.lane._CHECKPOINT_BYTES", 1):
            run(write_checkpoint)
        run(end)
    return kinds


def main() -> int:
    folder = RELEASES / bandstand.__version__
    if folder.exists():
        print(f"{folder} exists: what was released never changes", file=sys.stderr)
        return 1
    folder.mkdir(parents=True)
    kinds = make(folder)
    for kind in KIND_NAMES.values():
        print(f"{kinds[kind]:6} {kind}")
    print(f"{folder}: commit it")
    return 0


if __name__ == "__main__":
    sys.exit(main())
