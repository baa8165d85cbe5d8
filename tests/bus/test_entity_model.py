"""Laws of entities: after any mix of commands, failures, crashes and evictions, the state of an entity is what its events say, and its events are the decisions.

Each deposit adds another power of four to its account, so the balance says which deposits have happened, and how often.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Literal, TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bandstand.journal import Journal, JournalReader
from tests.bus.bank import Account, QuickAccount
from tests.bus.test_entities import Disk, balance, check_snapshots, deposit
from tests.bus.virtual_node import Stage

What: TypeAlias = Literal["deposit", "raise", "refuse", "look", "settle", "wait", "crash", "stop"]
Step: TypeAlias = tuple[What, str]

KEYS = ("a", "b", "c")
MOST = 25

steps: st.SearchStrategy[list[Step]] = st.lists(
    st.tuples(
        st.sampled_from(
            ["deposit", "deposit", "deposit", "raise", "refuse", "look", "settle", "wait", "crash", "stop"]
        ),
        st.sampled_from(KEYS),
    ),
    max_size=MOST,
)


class FewAccounts(QuickAccount, entity="Account"):
    """Two of them at a time."""

    id = "Account"
    max_in_memory = 2
    snapshot_every = 2


class Model:
    """What was sent, and what was answered."""

    def __init__(self) -> None:
        self.sent: dict[str, set[int]] = {key: set() for key in KEYS}
        self.done: dict[str, set[int]] = {key: set() for key in KEYS}
        self.number = 0

    def check(self, key: str, cents: int) -> None:
        """Check the balance of an account, when nothing is under way."""
        happened = {number for number in range(MOST) if cents >> 2 * number & 3}
        assert sum(4**number for number in happened) == cents, "a deposit has happened twice"
        assert self.done[key] <= happened <= self.sent[key]


async def run(stage: Stage, disk: Disk, model: Model, rest: list[Step]) -> None:
    """Take steps until the node ends."""
    client = stage.connect(f"client {len(rest)}")
    under_way: dict[str, tuple[str, int]] = {}

    def note_answers() -> None:
        for name, (key, number) in list(under_way.items()):
            if client.is_answered(name):
                del under_way[name]
                assert client.reply(name)["cents"] & 4**number
                model.done[key].add(number)

    for key in KEYS:
        model.check(key, await balance(stage, key))
    while rest:
        what, key = rest.pop(0)
        if what in {"deposit", "raise", "refuse"}:
            name = client.command(
                "Account.Deposit", deposit(key, 4**model.number, "" if what == "deposit" else what)
            )
            if what == "deposit":
                under_way[name] = (key, model.number)
                model.sent[key].add(model.number)
            model.number += 1
        elif what == "look":
            look = client.query("Account.Look", {"account": key})
            await stage.wait(0.01)
            if client.is_answered(look):
                # What was shown stays.
                model.done[key] |= {
                    number for number in range(MOST) if client.reply(look)["cents"] >> 2 * number & 3
                }
        elif what == "settle":
            await stage.settle()
        elif what == "wait":
            await stage.wait(100_000)
        elif what == "crash":
            note_answers()
            disk.crash()
            return
        else:
            break
    await stage.settle()
    note_answers()
    assert not under_way


def balances(disk: Disk, kind: type[Account]) -> dict[str, int]:
    found: dict[str, int] = {}

    async def look(stage: Stage) -> None:
        await stage.settle()
        for key in KEYS:
            found[key] = await balance(stage, key)

    disk.play(look, kind)
    return found


@pytest.mark.slow
@pytest.mark.guarantee("G510", "G511", "G523")
@given(script=steps)
@settings(max_examples=25)
def test_an_entity_is_what_was_decided(
    tmp_path_factory: pytest.TempPathFactory, script: Sequence[Step]
) -> None:
    disk, model, rest = Disk(tmp_path_factory.mktemp("law")), Model(), list(script)

    async def act(stage: Stage) -> None:
        await run(stage, disk, model, rest)

    while rest:
        disk.play(act, FewAccounts)
    first = balances(disk, FewAccounts)
    for key in KEYS:
        model.check(key, first[key])
    # Recovered twice is recovered once, and the snapshots change nothing.
    assert balances(disk, FewAccounts) == first
    check_snapshots(disk.journal)
    assert balances(disk, Account) == first


@pytest.mark.slow
@pytest.mark.guarantee("G523")
@given(
    deposits=st.lists(st.sampled_from(KEYS), min_size=1, max_size=MOST),
    data=st.data(),
)
@settings(max_examples=10)
def test_any_prefix_of_the_journal_is_the_state_of_some_moment(
    tmp_path_factory: pytest.TempPathFactory, deposits: Sequence[str], data: st.DataObject
) -> None:
    directory = tmp_path_factory.mktemp("law")
    disk = Disk(directory)

    async def act(stage: Stage) -> None:
        client = stage.connect()
        for number, key in enumerate(deposits):
            client.command("Account.Deposit", deposit(key, 4**number))
            if number % 3 == 0:
                await stage.settle()
        await stage.settle()

    disk.play(act, FewAccounts)
    with JournalReader(disk.journal) as reader:
        pages = [page.records for page in reader.pages()]
    length = data.draw(st.integers(1, len(pages)))
    prefix = Disk(directory / "prefix")
    (directory / "prefix").mkdir()

    async def write() -> None:
        async with Journal(prefix.journal) as journal:
            for records in pages[:length]:
                await journal.append(*records)

    asyncio.run(write())
    found = balances(prefix, FewAccounts)
    assert balances(prefix, FewAccounts) == found
    happened: list[int] = []
    for key, cents in found.items():
        mine = [number for number, each in enumerate(deposits) if each == key]
        count = cents.bit_count()
        # For each key, the deposits have happened in their order, and none twice.
        assert sum(4**number for number in mine[:count]) == cents
        happened += mine[:count]
    assert len(happened) <= len(deposits)
