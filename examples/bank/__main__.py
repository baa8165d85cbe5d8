"""Run the bank, move money, and check the books.

python -m examples.bank serve /tmp/bank
python -m examples.bank transfer /tmp/bank --count 1000
python -m examples.bank check /tmp/bank
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from itertools import count
from pathlib import Path
from random import Random
from uuid import uuid4

from bandstand.bus import ClientConfig, Connection, Service, UnixAdapter, connect, serve
from examples.bank.accounts import Account, Deposit, Follow, Look, Transfer, Transfers

ACCOUNTS = ("alice", "bob", "carol", "dave")
START = 10_000


def run_node(folder: Path) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    service = Service(
        load=lambda: [Account, Transfers],
        adapters=[UnixAdapter(str(folder / "socket"))],
        journal=str(folder / "journal"),
    )
    return serve(service, None, sys.stderr)


def client(folder: Path) -> Connection:
    """Return a connection that waits for the node, and outlives it."""
    return connect(f"unix:{folder}/socket", config=ClientConfig(wait=30))


async def open_accounts(bus: Connection) -> None:
    for account in ACCOUNTS:
        if (await bus.call(Look(account))).cents == 0:
            await bus.call(Deposit(account, START), timeout=30)


async def transfer(folder: Path, total: int, seed: int) -> None:
    """Make transfers until they are completed or refused, and print each of them."""
    random, run, numbers = Random(seed), uuid4().hex[:8], count(1)

    async def make(bus: Connection) -> None:
        while (number := next(numbers)) <= total:
            source, target = random.sample(ACCOUNTS, 2)
            name = f"{run}-{number}"
            cents = random.randint(1, START)
            progress = await bus.call(Transfer(name, source, target, cents), timeout=30)
            while progress.status not in {"completed", "refused"}:
                await asyncio.sleep(0.001)
                progress = await bus.query(Follow(name), timeout=30)
            print(name, source, target, cents, progress.status, flush=True)

    async with client(folder) as bus:
        await open_accounts(bus)
        await asyncio.gather(*[make(bus) for _ in range(10)])


async def check(folder: Path) -> int:
    """Print the balances. Return 1 if money was made or lost."""
    async with client(folder) as bus:
        balances = {account: (await bus.query(Look(account))).cents for account in ACCOUNTS}
    for account, cents in balances.items():
        print(f"{account}: {cents}")
    expected = START * len(ACCOUNTS)
    print(f"together: {sum(balances.values())}, expected: {expected}")
    return int(sum(balances.values()) != expected or min(balances.values()) < 0)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m examples.bank", description="A bank that survives kill -9."
    )
    verbs = parser.add_subparsers(dest="verb", required=True)
    for verb, text in (
        ("serve", "run the bank until Ctrl-C"),
        ("transfer", "move money between accounts at random"),
        ("check", "print the balances, and whether the sum is right; wait until no transfer runs"),
    ):
        one = verbs.add_parser(verb, help=text)
        one.add_argument("folder", type=Path, help="where its journal and its socket are")
        if verb == "transfer":
            one.add_argument("--count", type=int, default=100, help="how many transfers (default: 100)")
            one.add_argument("--seed", type=int, default=1, help="makes the same choices again (default: 1)")
    options = parser.parse_args()
    if options.verb == "serve":
        return run_node(options.folder)
    if options.verb == "check":
        return asyncio.run(check(options.folder))
    asyncio.run(transfer(options.folder, options.count, options.seed))
    return 0


if __name__ == "__main__":
    sys.exit(main())
