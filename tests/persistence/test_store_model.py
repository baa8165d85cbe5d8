"""Laws of the event store: after any mix of writes, crashes, restarts, deletions and other classes, an entity is what its events say."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal, TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bandstand.persistence import EventStore, EventStream
from bandstand.persistence.actor import event_types
from bandstand.persistence.store import open_store
from tests.core.support import HostFactory
from tests.persistence.accounts import Account, AccountEvent, AccountState, Deposited, Opened, QuickAccount

Key: TypeAlias = Literal["alice", "bob"]
Step: TypeAlias = tuple[str, Key, tuple[int, ...]]

KEYS: tuple[Key, Key] = ("alice", "bob")
PLAIN, QUICK = event_types(Account), event_types(QuickAccount)

steps: st.SearchStrategy[Step] = st.tuples(
    st.sampled_from(["append", "append", "append", "restart", "reopen", "delete"]),
    st.sampled_from(KEYS),
    st.lists(st.integers(0, 9), min_size=1, max_size=3).map(tuple),
)


class Balance:
    """What the events of an account say."""

    def __init__(self) -> None:
        self.owner = ""
        self.balance = 0
        self.restored_at: int | None = None

    def apply(self, event: AccountEvent) -> None:
        if isinstance(event, Opened):
            self.owner += event.owner
        else:
            self.balance += event.amount

    def snapshot(self) -> AccountState:
        return AccountState(self.owner, self.balance)

    def restore(self, state: AccountState) -> None:
        self.owner, self.balance = state.owner, state.balance


class Accounts:
    """Both accounts in an open store."""

    def __init__(self, store: EventStore) -> None:
        self.store = store
        self.states: dict[Key, Balance] = {}
        self.streams: dict[Key, EventStream] = {}

    async def start(self, key: Key) -> None:
        """Start an incarnation of an account, whatever the former one does."""
        owner = self.states[key] = Balance()
        stream = self.streams[key] = self.store.stream("Account", key, owner, snapshot_every=3)
        await stream.recover()


@asynccontextmanager
async def opened(directory: Path, *, is_quick: bool) -> AsyncGenerator[Accounts]:
    async with open_store(directory, [QUICK if is_quick else PLAIN]) as store:
        accounts = Accounts(store)
        for key in KEYS:
            await accounts.start(key)
        yield accounts


@pytest.mark.slow
@pytest.mark.guarantee("G486", "G491", "G492")
@given(script=st.lists(steps, max_size=25))
@settings(max_examples=15)
def test_an_entity_is_what_its_events_say(
    loop_factory: HostFactory, tmp_path_factory: pytest.TempPathFactory, script: Sequence[Step]
) -> None:
    directory = tmp_path_factory.mktemp("law") / "journal"
    expected: dict[Key, list[AccountEvent]] = {key: [] for key in KEYS}

    def check(accounts: Accounts) -> None:
        for key in KEYS:
            model = Balance()
            for event in expected[key]:
                model.apply(event)
            state = accounts.states[key]
            assert (state.owner, state.balance) == (model.owner, model.balance)
            assert accounts.streams[key].version == len(expected[key])

    async def run_until_reopen(rest: list[Step]) -> None:
        async with opened(directory, is_quick=True) as accounts:
            check(accounts)
            while rest:
                what, key, numbers = rest.pop(0)
                if what == "append":
                    events = [Deposited(number) if number else Opened("x") for number in numbers]
                    await accounts.streams[key].append(events)
                    expected[key] += events
                elif what == "restart":
                    await accounts.start(key)
                elif what == "delete":
                    await accounts.store.delete_unneeded()
                else:
                    break
                check(accounts)

    rest = list(script)
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        while rest:
            runner.run(run_until_reopen(rest))
        # Recovered twice is recovered once.
        for _ in range(2):
            runner.run(run_until_reopen([]))


@pytest.mark.slow
@pytest.mark.guarantee("G491")
@given(
    appends=st.lists(st.integers(1, 4), max_size=10), is_quick=st.lists(st.booleans(), min_size=2, max_size=4)
)
@settings(max_examples=10)
def test_with_and_without_snapshots_the_state_is_the_same(
    loop_factory: HostFactory,
    tmp_path_factory: pytest.TempPathFactory,
    appends: Sequence[int],
    is_quick: Sequence[bool],
) -> None:
    directory = tmp_path_factory.mktemp("law") / "journal"

    async def run(*, quick: bool) -> None:
        async with opened(directory, is_quick=quick) as accounts:
            for count in appends:
                await accounts.streams["alice"].append([Deposited(1)] * count)

    async def balance() -> int:
        async with opened(directory, is_quick=False) as accounts:
            return accounts.states["alice"].balance

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        for times, quick in enumerate(is_quick, 1):
            runner.run(run(quick=quick))
            assert runner.run(balance()) == times * sum(appends)
