"""State that survives: deposits into accounts, and commands.

**Deposits.** Every deposit is an event on disk, and the state in memory. When the clock has stopped, everything is closed, and the accounts are read again from the
disk: they must have the sum. An operation is one deposit. With one account, a deposit waits for the one before it, so a figure is at least that of one fsync. With 64 and
512 accounts, each of them has one deposit on its way at any time.

The account of ours is a persistent actor that is asked, and its journal is written by a thread. eventsourcing's is an object that the caller holds, which
is the quickest that it has: its repository would read the events again for each deposit. It commits when it is called, on the thread of the caller, and SQLite has one writer:
with many accounts their deposits take turns. It could save several accounts in one commit, if the program collects them. That of DBOS is a row, and a deposit is
a workflow with one transaction. `commits` is the least there can be without group commit: one row and one commit for each deposit, in a database with the same settings.

**Commands.** Nothing but the command and its answer must survive, and the total is in memory. Ours is a command to a node with a journal, that of DBOS a workflow without steps. Neither carries
a command out again that has an answer.

**What is synced.** Ours, eventsourcing and `commits` use SQLite with a write-ahead log and `synchronous=FULL`: a commit calls fdatasync once, as strace shows. A deposit that is alone is one commit. A
command that is alone is two for ours: it is on the disk before it is handled. DBOS: see `bench.workflows`. All write to the disk that the checkout is on. So one at a time, all wait
for the disk, and there is little to gain over eventsourcing. With many in flight, ours share their commits, and the others do not.
"""

from __future__ import annotations

import asyncio
import sqlite3
from functools import partial
from itertools import repeat
from pathlib import Path

from bandstand.core.asyncio_host import new_event_loop
from bench import disk, eventstores, stopwatch, workflows
from bench.case import Case, Kind, Measure, Outcome, Setting, Size
from bench.target import at_rate

OWNER = "Alice"


# -- deposits ------------------------------------------------------------------------------------------------------------------


def persistent(setting: Setting, *, accounts: int) -> Outcome:
    with disk.folder() as folder, asyncio.Runner(loop_factory=new_event_loop) as runner:
        elapsed = runner.run(_deposit(folder / "journal", setting.size, accounts))
        total = runner.run(_total(folder / "journal", accounts))
    return Outcome(total=elapsed, operations=setting.size, sent=setting.size, handled=total)


async def _deposit(directory: Path, n: int, accounts: int) -> int:
    # What needs msgspec is not there in the peers' environment.
    from bandstand.actor import ActorSystem
    from bandstand.persistence import open_event_store
    from bench.accounts import Account

    async with open_event_store(directory, Account) as store, ActorSystem() as system:
        opened = [system.spawn(Account, store, str(number)) for number in range(accounts)]
        for account in opened:
            await account.open(OWNER)

        async def deposit(number: int) -> None:
            account = opened[number]
            for _ in range(_share(n, number, accounts)):
                await account.deposit(1)

        start = stopwatch.start()
        await asyncio.gather(*map(deposit, range(accounts)))
        return stopwatch.since(start)


async def _total(directory: Path, accounts: int) -> int:
    from bandstand.actor import ActorSystem
    from bandstand.persistence import open_event_store
    from bench.accounts import Account

    async with open_event_store(directory, Account) as store, ActorSystem() as system:
        return sum([await system.spawn(Account, store, str(number)).total() for number in range(accounts)])


def aggregates(setting: Setting, *, accounts: int) -> Outcome:
    with disk.folder() as folder:
        database = folder / "events.sqlite"
        application, kind = eventstores.application(database), eventstores.account()
        opened = [kind(OWNER) for _ in range(accounts)]
        application.save(*opened)
        start = stopwatch.start()
        for number in range(setting.size):
            account = opened[number % accounts]
            account.deposit(1)
            application.save(account)
        elapsed = stopwatch.since(start)
        application.close()
        again = eventstores.application(database)
        total = sum(again.repository.get(account.id).balance for account in opened)
        again.close()
    return Outcome(total=elapsed, operations=setting.size, sent=setting.size, handled=total)


def transactions(setting: Setting, *, accounts: int) -> Outcome:
    names = [str(number) for number in range(accounts)]
    with (
        disk.folder() as folder,
        workflows.running(folder, partial(workflows.Accounts, folder=folder, names=names)) as (dbos, made),
    ):
        calls = ((names[number % accounts], 1) for number in range(setting.size))
        start = stopwatch.start()
        workflows.run(dbos, made.deposit, calls, accounts)
        elapsed = stopwatch.since(start)
        total = made.total()
    return Outcome(total=elapsed, operations=setting.size, sent=setting.size, handled=total)


def commits(setting: Setting) -> Outcome:
    with disk.folder() as folder:
        database = sqlite3.connect(folder / "rows.sqlite", isolation_level=None)
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
        again = sqlite3.connect(folder / "rows.sqlite")
        (balance,) = again.execute("SELECT sum(amount) FROM event").fetchone()
        again.close()
    return Outcome(total=elapsed, operations=setting.size, sent=setting.size, handled=balance)


def _share(n: int, number: int, accounts: int) -> int:
    """How many of `n` deposits one of the accounts gets."""
    return n // accounts + (number < n % accounts)


# -- commands ------------------------------------------------------------------------------------------------------------------


def commands(setting: Setting, *, window: int) -> Outcome:
    # Likewise.
    from bench.cases.durable import node

    return node(setting, window=window, has_journal=True)


def plain_workflows(setting: Setting, *, window: int) -> Outcome:
    with disk.folder() as folder, workflows.running(folder, workflows.Counter) as (dbos, made):
        start = stopwatch.start()
        workflows.run(dbos, made.add, iter(repeat((1,), setting.size)), window)
        elapsed = stopwatch.since(start)
        handled = made.handled()
    return Outcome(total=elapsed, operations=setting.size, sent=setting.size, handled=handled)


# -- the cases -----------------------------------------------------------------------------------------------------------------


def deposits(accounts: int, size: Size) -> Case:
    measures: dict[Kind, Measure] = {
        "persistent": partial(persistent, accounts=accounts),
        "aggregates": partial(aggregates, accounts=accounts),
        "workflows": partial(transactions, accounts=accounts),
    }
    if accounts == 1:
        # One after the other is all that it can do.
        measures["commits"] = commits
    many = accounts > 1
    return Case(
        name=f"deposits-{accounts}" if many else "deposits",
        title=f"durable deposits, {accounts} accounts" if many else "durable deposits",
        what=(
            f"deposits into {accounts} accounts, one on its way to each of them"
            if many
            else "deposits into one account, each on disk before the next"
        ),
        size=size,
        measures=measures,
        target=at_rate(eventsourcing=10, DBOS=10) if many else None,
    )


def durable_commands(window: int, size: Size) -> Case:
    return Case(
        name=f"commands-{window}",
        title=(
            f"durable commands beside workflows, {window} in flight"
            if window > 1
            else "durable commands beside workflows, one at a time"
        ),
        what="commands whose answers are durable, beside workflows without steps",
        size=size,
        measures={
            "persistent": partial(commands, window=window),
            "workflows": partial(plain_workflows, window=window),
        },
        target=at_rate(DBOS=10) if window > 1 else None,
    )


CASES = (
    deposits(1, Size(full=1_000, slow=1_000, quick=20)),
    deposits(64, Size(full=12_800, slow=1_024, quick=128, least=128)),
    deposits(512, Size(full=51_200, slow=1_024, quick=1_024, least=512)),
    durable_commands(1, Size(full=2_000, slow=1_000, quick=20)),
    durable_commands(64, Size(full=51_200, slow=1_024, quick=128, least=128)),
    durable_commands(512, Size(full=102_400, slow=1_024, quick=1_024, least=512)),
)
