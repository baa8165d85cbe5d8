"""Events of older programs: they are read, upcast, or refused at the start with the name of the field."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct, defstruct

from bandstand import ActorSystem, ask
from bandstand.bus.durable.records import line_of
from bandstand.errors import EventSchemaError, EventStoreError, InvalidArgumentError, JournalCorruptError
from bandstand.journal import Record
from bandstand.persistence import (
    EventDecoder,
    EventStore,
    EventTypes,
    PersistentActor,
    Upcaster,
    event_keys,
    open_event_store,
)
from bandstand.persistence.records import (
    ENTITY_EVENT,
    ENTITY_SNAPSHOT,
    EVENT_SCHEMA,
    EventHead,
    SchemaEntry,
    event_record,
    read_head,
)

Run = Callable[[Coroutine[Any, Any, Any]], Any]


def deposited(**fields: Any) -> Any:
    """Return a class of events with the name `Deposited`. A field is a type, or a type and a default."""
    members: list[Any] = [
        (name, *kind) if isinstance(kind, tuple) else (name, kind) for name, kind in fields.items()
    ]
    return defstruct("Deposited", members)


Old = deposited(amount=int)
New = deposited(amount=int, currency=str)


class OldDeposited(Struct, frozen=True, tag="Deposited"):
    amount: int


class NewDeposited(Struct, frozen=True, tag="Deposited"):
    amount: int
    currency: str


class OldState(Struct):
    balance: int


class OldAccount(PersistentActor[OldDeposited], entity="Account", ask_timeout=None):
    snapshot_every = 3

    def __init__(self, store: EventStore, key: str) -> None:
        super().__init__(store, key)
        self.balance = 0

    def apply(self, event: OldDeposited) -> None:
        self.balance += event.amount

    def snapshot(self) -> OldState:
        return OldState(self.balance)

    def restore(self, state: OldState) -> None:
        self.balance = state.balance

    @ask
    async def deposit(self, amount: int) -> int:
        await self.persist(OldDeposited(amount))
        return self.balance


class NarrowAccount(PersistentActor[NewDeposited], entity="Account", ask_timeout=None):
    """The next version of the program. It lacks an upcaster."""

    def __init__(self, store: EventStore, key: str) -> None:
        super().__init__(store, key)
        self.balances: dict[str, int] = {}

    def apply(self, event: NewDeposited) -> None:
        self.balances[event.currency] = self.balances.get(event.currency, 0) + event.amount

    @ask
    async def deposit(self, amount: int, currency: str) -> dict[str, int]:
        await self.persist(NewDeposited(amount, currency))
        return self.balances


def in_euro(data: dict[str, Any]) -> Struct:
    return NewDeposited(data["amount"], "EUR")


class NewAccount(NarrowAccount, entity="Account"):
    upcasters: ClassVar[Mapping[str, Upcaster]] = {"Deposited": in_euro}


async def deposit(directory: Path, *amounts: int) -> int:
    """Make deposits with the old program; return how many records it has written."""
    async with open_event_store(directory, OldAccount) as store, ActorSystem() as system:
        account = system.spawn(OldAccount, store, "alice")
        for amount in amounts:
            await account.deposit(amount)
        return store.journal.stats().records


async def start(directory: Path, kind: type[PersistentActor[Any]]) -> None:
    async with open_event_store(directory, kind):
        pass


def written(types: EventTypes, *events: Struct) -> tuple[list[Record], list[SchemaEntry]]:
    """Return the records of events, and the schemas they were written with."""
    records = [types.encode("alice", number, event)[0] for number, event in enumerate(events, 1)]
    return records, EventDecoder(types).unrecorded()


def read(decoder: EventDecoder, records: list[Record]) -> list[Struct | None]:
    return [decoder.decode(*read_head(record.data)) for record in records]


@pytest.mark.guarantee("G493")
class TestSchemas:
    def test_an_event_of_an_older_class_is_read_if_the_present_one_allows_it(self) -> None:
        wider = deposited(amount=float, currency=(str, "EUR"))
        records, schemas = written(EventTypes("Account", [Old]), Old(amount=5))
        decoder = EventDecoder(EventTypes("Account", [wider]), schemas)
        assert read(decoder, records) == [wider(amount=5.0, currency="EUR")]
        assert len(decoder.unrecorded()) == 1

    def test_a_narrowing_is_an_error_that_names_the_event_and_the_field(self) -> None:
        _, schemas = written(EventTypes("Account", [Old]))
        expected = (
            "Account: the journal has events Deposited that this program cannot read: field 'currency' is new, and has no default. "
            "Change the class, or add an upcaster for 'Deposited'"
        )
        with pytest.raises(EventSchemaError) as caught:
            EventDecoder(EventTypes("Account", [New]), schemas)
        assert str(caught.value) == expected

    def test_an_event_without_a_class_is_an_error(self) -> None:
        class Opened(Struct):
            owner: str

        _, schemas = written(EventTypes("Account", [Old]))
        with pytest.raises(EventSchemaError, match=r"events Deposited .*Account has no event of this name"):
            EventDecoder(EventTypes("Account", [Opened]), schemas)

    def test_every_schema_that_was_ever_written_counts(self) -> None:
        second = deposited(amount=int, currency=(str, "EUR"))
        schemas = written(EventTypes("Account", [Old]))[1] + written(EventTypes("Account", [second]))[1]
        with pytest.raises(EventSchemaError, match="field 'currency' is new"):
            EventDecoder(EventTypes("Account", [New]), schemas)

    def test_a_start_records_schemas_once_and_refuses_a_narrowing(self, directory: Path, run: Run) -> None:
        assert [run(deposit(directory, 5)), run(deposit(directory, 5))] == [2, 1]
        with pytest.raises(EventSchemaError, match="field 'currency' is new, and has no default"):
            run(start(directory, NarrowAccount))
        # The failed start has changed nothing, and has left nothing open.
        assert run(deposit(directory)) == 0

    def test_schemas_survive_the_deletion_of_their_pages(self, directory: Path, run: Run) -> None:
        async def delete() -> int:
            async with open_event_store(directory, OldAccount) as store:
                return await store.delete_unneeded()

        # A snapshot behind three of four events.
        run(deposit(directory, 1, 2, 3, 4))
        assert run(delete()) >= 3
        assert run(deposit(directory)) == 0
        with pytest.raises(EventSchemaError, match="field 'currency' is new, and has no default"):
            run(start(directory, NarrowAccount))


@pytest.mark.guarantee("G492", "G493")
def test_schemas_of_classes_that_are_not_in_the_program_are_kept(directory: Path, run: Run) -> None:
    class Paid(Struct, frozen=True):
        amount: int

    class Till(PersistentActor[Paid]):
        pass

    async def delete() -> None:
        async with open_event_store(directory, Till) as store:
            # The journal begins with the schema of another entity, and then has its events.
            await store.delete_unneeded()
            assert store.journal.stats().first > 1

    run(deposit(directory, 1))
    run(delete())
    run(delete())
    with pytest.raises(EventSchemaError, match="field 'currency' is new, and has no default"):
        run(start(directory, NarrowAccount))
    assert run(deposit(directory, 1)) == 1


@pytest.mark.guarantee("G494")
class TestUpcasters:
    def test_an_upcaster_makes_present_events_of_old_ones(self) -> None:
        old = EventTypes("Account", [Old])
        records, schemas = written(old, Old(amount=5))
        seen: list[dict[str, Any]] = []

        def upcast(data: dict[str, Any]) -> Any:
            seen.append(data)
            return New(amount=data["amount"], currency="EUR")

        new = EventTypes("Account", [New], upcasters={"Deposited": upcast})
        decoder = EventDecoder(new, schemas)
        records += written(new, New(amount=7, currency="USD"))[0]
        assert read(decoder, records) == [
            New(amount=5, currency="EUR"),
            New(amount=7, currency="USD"),
        ]
        # What the class reads itself is not upcast.
        assert seen == [{"amount": 5}]

    def test_an_upcaster_may_leave_an_event_out(self) -> None:
        class Opened(Struct):
            owner: str

        records, schemas = written(EventTypes("Account", [Old]), Old(amount=5))
        types = EventTypes("Account", [Opened], upcasters={"Deposited": lambda _data: None})
        assert read(EventDecoder(types, schemas), records) == [None]

    def test_an_old_event_is_upcast_although_it_could_be_read(self) -> None:
        """Its schema says that not every event of it can be."""
        cents = deposited(amount=int | float)
        euros = deposited(amount=int)
        records, schemas = written(EventTypes("Account", [cents]), cents(amount=500))

        def to_euros(data: dict[str, Any]) -> Any:
            return euros(amount=data["amount"] // 100)

        types = EventTypes("Account", [euros], upcasters={"Deposited": to_euros})
        assert read(EventDecoder(types, schemas), records) == [euros(amount=5)]

    def test_an_upcaster_that_fails_is_named_with_the_event(self) -> None:
        records, schemas = written(EventTypes("Account", [Old]), Old(amount=5))

        def fail(_data: dict[str, Any]) -> Struct:
            raise KeyError("currency")

        def give_back(data: dict[str, Any]) -> Any:
            return data

        cases: list[tuple[Upcaster, str]] = [
            (fail, "has failed: KeyError"),
            (give_back, "returned .*: return an event, or None"),
        ]
        for upcaster, text in cases:
            decoder = EventDecoder(EventTypes("Account", [New], upcasters={"Deposited": upcaster}), schemas)
            with pytest.raises(EventStoreError, match=f"upcaster of event 1 of Account/alice.*{text}"):
                read(decoder, records)

    def test_an_actor_recovers_with_its_upcasters(self, directory: Path, run: Run) -> None:
        async def next_deposit() -> dict[str, int]:
            async with open_event_store(directory, NewAccount) as store, ActorSystem() as system:
                return await system.spawn(NewAccount, store, "alice").deposit(5, "USD")

        run(deposit(directory, 1, 2))
        assert run(next_deposit()) == {"EUR": 3, "USD": 5}
        assert run(next_deposit()) == {"EUR": 3, "USD": 10}


@pytest.mark.guarantee("G493")
class TestRecords:
    def test_an_event_that_no_schema_covers_is_read_or_named(self) -> None:
        records, _ = written(EventTypes("Account", [Old]), Old(amount=5))
        assert read(EventDecoder(EventTypes("Account", [Old])), records) == [Old(amount=5)]
        with pytest.raises(
            EventStoreError, match=r"event 1 of Account/alice, of type Deposited, cannot be read: .*currency"
        ):
            read(EventDecoder(EventTypes("Account", [New])), records)
        with pytest.raises(EventStoreError, match="of type Deposited, has no class"):
            read(EventDecoder(EventTypes("Account", [defstruct("Opened", [])])), records)

    @given(amount=st.integers(-(1 << 60), 1 << 60), text=st.text(st.characters(codec="utf-8")))
    def test_events_are_read_back(self, amount: int, text: str) -> None:
        types = EventTypes("Account", [New])
        record, applied = types.encode("alice", 7, New(amount=amount, currency=text))
        head, line = read_head(record.data)
        assert (head.entity, head.key, head.version) == ("Account", "alice", 7)
        assert EventDecoder(types).decode(head, line) == applied == New(amount=amount, currency=text)

    def test_an_event_of_the_bus_can_be_the_line(self) -> None:
        event = b'{"kind":"event","id":"e1","type":"Deposited","data":{"amount":7},"metadata":{}}'
        of_bus = event_record(EventHead("Account", "alice", 2), event)
        assert line_of(of_bus.kind, of_bus.data) == event
        assert read(EventDecoder(EventTypes("Account", [Old])), [of_bus]) == [Old(amount=7)]
        assert list(event_keys(of_bus)) == [("key", "Account/alice")]

    @pytest.mark.parametrize("data", [b"", b"\x05", b"\x05\x00{}", b"\x02\x00{}", b"\x01\x00\xff"])
    @pytest.mark.parametrize("kind", [ENTITY_EVENT, ENTITY_SNAPSHOT, EVENT_SCHEMA])
    def test_a_record_of_another_program_is_refused(self, kind: int, data: bytes) -> None:
        with pytest.raises(JournalCorruptError):
            list(event_keys(Record(kind, data)))

    def test_other_records_have_no_keys(self) -> None:
        assert list(event_keys(Record(2, b"anything"))) == []

    def test_a_key_may_not_be_too_long(self) -> None:
        event_record(EventHead("Account", "k" * 60_000, 1), b"{}")
        with pytest.raises(InvalidArgumentError, match="has 70000 characters: pass a shorter one"):
            event_record(EventHead("Account", "k" * 70_000, 1), b"{}")
