"""The event store as a part: for owners that are no actors, and write events in pages with records of their own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from bandstand.errors import EventStoreError, JournalClosedError
from bandstand.journal import Journal, JournalIndex, JournalReader, Record
from bandstand.persistence import EventStore, event_keys
from bandstand.persistence.actor import event_types
from bandstand.persistence.records import ENTITY_EVENT
from tests.persistence.accounts import Account, Deposited
from tests.persistence.test_store_model import Accounts, Balance, opened

Run = Callable[[Coroutine[Any, Any, Any]], Any]


async def write(journal: Journal, records: list[Record], on_written: Callable[[], object]) -> None:
    """Write records as another part of a program does, and call back when they are durable."""
    await journal.append(*records)
    on_written()


@pytest.mark.guarantee("G485")
class TestPrepare:
    def test_events_can_share_a_page_with_records_of_others(self, directory: Path, run: Run) -> None:
        async def body() -> None:
            async with opened(directory, is_quick=True) as accounts:
                stream = accounts.streams["alice"]
                records, on_written = stream.prepare([Deposited(1), Deposited(2)])
                assert (stream.version, accounts.states["alice"].balance) == (0, 0)
                await write(accounts.store.journal, [*records, Record(99, b"answer")], on_written)
                assert (stream.version, accounts.states["alice"].balance) == (2, 3)
                with JournalReader(directory) as reader:
                    (page,) = reader.pages(since=accounts.store.journal.stats().last)
                assert [record.kind for record in page.records] == [ENTITY_EVENT, ENTITY_EVENT, 99]
                # An incarnation that leaves memory is followed by one that has everything.
                await accounts.start("alice")
                assert accounts.states["alice"].balance == 3
                with pytest.raises(EventStoreError, match="taken over by a newer actor"):
                    stream.prepare([Deposited(1)])

        run(body())

    def test_events_that_were_not_written_are_prepared_again(self, directory: Path, run: Run) -> None:
        async def body() -> None:
            async with opened(directory, is_quick=True) as accounts:
                stream = accounts.streams["alice"]
                stream.prepare([Deposited(5)])
                records, on_written = stream.prepare([Deposited(1)])
                await write(accounts.store.journal, records, on_written)
                await accounts.start("alice")
                assert (accounts.states["alice"].balance, accounts.streams["alice"].version) == (1, 1)

        run(body())

    def test_a_stream_recovers_before_it_writes(self, directory: Path, run: Run) -> None:
        async def body() -> None:
            async with opened(directory, is_quick=True) as accounts:
                stream = accounts.store.stream("Account", "carol", Balance())
                with pytest.raises(EventStoreError, match="has not recovered yet"):
                    await stream.append([Deposited(1)])

        run(body())


@pytest.mark.guarantee("G486")
def test_a_store_works_in_a_journal_and_an_index_of_others(directory: Path, run: Run) -> None:
    def extract(record: Record) -> list[tuple[str, str]]:
        return [*event_keys(record), ("kind", str(record.kind))]

    async def body(expected: int) -> None:
        async with Journal(directory) as journal, JournalIndex(directory, extract) as index:
            store = EventStore(directory, journal, index)
            await store.register(event_types(Account))
            accounts = Accounts(store)
            await accounts.start("alice")
            assert accounts.states["alice"].balance == expected
            await asyncio.gather(
                accounts.streams["alice"].append([Deposited(1)]), journal.append(Record(99, b"x"))
            )
            await index.reached(journal.stats().last)
            assert len(index.find("kind", "99")) == expected + 1

    run(body(0))
    run(body(1))


@pytest.mark.guarantee("G489")
def test_a_store_whose_journal_is_closed_refuses(directory: Path, run: Run) -> None:
    async def body() -> None:
        async with opened(directory, is_quick=True) as accounts:
            pass
        with pytest.raises(JournalClosedError):
            await accounts.streams["alice"].append([Deposited(1)])
        assert accounts.streams["alice"].version == 0
        with pytest.raises(JournalClosedError):
            await accounts.start("alice")

    run(body())
