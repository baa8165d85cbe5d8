"""Deposits that survive: an account is opened, and 1,000 amounts are deposited one after the other, each durable before the next.

Every deposit is an event on disk, and the state in memory. When the clock has stopped, everything is closed, and the account is read again from the
disk: it must have the sum. An operation is one deposit, so a figure is at least that of one fsync.

The account of ours is a persistent actor that is asked, and its journal is written by a thread. eventsourcing's is an object that the caller holds, which
is the quickest that it has: its repository would read the events again for each deposit. `commits` is the least there can be: one
row and one commit for each deposit, in a database with the same settings.
"""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path
from tempfile import TemporaryDirectory

from bandstand.core.asyncio_host import new_event_loop
from bench import eventstores, stopwatch
from bench.case import Case, Outcome, Setting, Size

OWNER = "Alice"


def persistent(setting: Setting) -> Outcome:
    with TemporaryDirectory() as folder, asyncio.Runner(loop_factory=new_event_loop) as runner:
        elapsed = runner.run(_deposit(Path(folder, "journal"), setting.size))
        balance = runner.run(_balance(Path(folder, "journal")))
    return Outcome(total=elapsed, operations=setting.size, sent=setting.size, handled=balance)


async def _deposit(directory: Path, n: int) -> int:
    # What needs msgspec is not there in the peers' environment.
    from bandstand.actor import ActorSystem
    from bandstand.persistence import open_event_store
    from bench.accounts import Account

    async with open_event_store(directory, Account) as store, ActorSystem() as system:
        account = system.spawn(Account, store, "1")
        await account.total()
        start = stopwatch.start()
        await account.open(OWNER)
        for _ in range(n):
            await account.deposit(1)
        return stopwatch.since(start)


async def _balance(directory: Path) -> int:
    from bandstand.actor import ActorSystem
    from bandstand.persistence import open_event_store
    from bench.accounts import Account

    async with open_event_store(directory, Account) as store, ActorSystem() as system:
        return await system.spawn(Account, store, "1").total()


def aggregates(setting: Setting) -> Outcome:
    with TemporaryDirectory() as folder:
        database = Path(folder, "events.sqlite")
        application, kind = eventstores.application(database), eventstores.account()
        start = stopwatch.start()
        account = kind(OWNER)
        application.save(account)
        for _ in range(setting.size):
            account.deposit(1)
            application.save(account)
        elapsed = stopwatch.since(start)
        application.close()
        again = eventstores.application(database)
        balance: int = again.repository.get(account.id).balance
        again.close()
    return Outcome(total=elapsed, operations=setting.size, sent=setting.size, handled=balance)


def commits(setting: Setting) -> Outcome:
    with TemporaryDirectory() as folder:
        database = sqlite3.connect(Path(folder, "rows.sqlite"), isolation_level=None)
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = FULL")
        database.execute("CREATE TABLE event (number INTEGER PRIMARY KEY, amount INTEGER, head BLOB)")
        head = bytes(100)
        start = stopwatch.start()
        database.execute("INSERT INTO event (amount, head) VALUES (0, ?)", (head,))
        for _ in range(setting.size):
            database.execute("INSERT INTO event (amount, head) VALUES (1, ?)", (head,))
        elapsed = stopwatch.since(start)
        database.close()
        again = sqlite3.connect(Path(folder, "rows.sqlite"))
        (balance,) = again.execute("SELECT sum(amount) FROM event").fetchone()
        again.close()
    return Outcome(total=elapsed, operations=setting.size, sent=setting.size, handled=balance)


CASE = Case(
    name="deposits",
    title="durable deposits",
    what="an account is opened and gets 1,000 deposits, one after the other, each on disk before the next",
    size=Size(full=1_000, slow=1_000, quick=20),
    measures={"persistent": persistent, "aggregates": aggregates, "commits": commits},
)
