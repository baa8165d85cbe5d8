"""`@batch` and `@batch_ask`: methods that take the waiting messages as a list."""

# Classes that cannot be created stay unused.
# pyright: reportUnusedClass=false

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from typing import Any, Protocol

import pytest

from bandstand.actor import Actor, ActorSystem, Implements, Interface, ask, batch, batch_ask, child, tell
from bandstand.core import ExitReason, Lane
from bandstand.errors import DeclarationError, InvalidVerdictError, MailboxFullError, TargetEndedError
from bandstand.supervision import SupervisorSpec, spawn_supervisor
from bandstand.testing import VirtualClock, leaks_of
from tests.actor.players import Book, elsewhere, spin, turns
from tests.core.support import Boom, settle

CITY: ContextVar[str] = ContextVar("city", default="none")


class Missing(Exception):  # noqa: N818 -- it is an answer
    """The key is unknown."""


class Writer(Actor):
    """Records the lists it gets."""

    def __init__(self, book: list[Any], gate: asyncio.Event | None = None) -> None:
        self.book = book
        self.gate = gate

    @batch(limit=3)
    def store(self, rows: list[int]) -> None:
        self.book.append(rows)

    @batch(limit=2, lane=Lane.CONTROL)
    def urgent(self, rows: list[int]) -> None:
        self.book.append(("urgent", rows))

    @batch(limit=10)
    async def slowly(self, rows: list[int]) -> None:
        assert self.gate is not None
        self.book.append(("begun", rows))
        await self.gate.wait()
        self.book.append(rows)

    @batch()
    def crash(self, rows: list[int]) -> None:
        self.book.append(rows)
        raise Boom(rows)

    @tell
    def other(self, what: object) -> None:
        self.book.append(what)

    @batch()
    def where(self, rows: list[int]) -> None:
        self.book.append((CITY.get(), rows))

    @tell
    def later(self, row: int) -> None:
        self.after(0.005, self.store, row)
        self.store(-row)


class Store(Actor):
    def __init__(self, book: list[Any]) -> None:
        self.book = book

    @batch_ask(limit=4, raises=Missing)
    def find(self, keys: list[int]) -> list[str | Missing]:
        self.book.append(keys)
        if 99 in keys:
            raise Missing("all")
        return [Missing(key) if key < 0 else str(key) for key in keys]

    @batch_ask(limit=4, raises=Missing)
    async def find_later(self, keys: list[int]) -> Sequence[str | Missing]:
        self.book.append(keys)
        try:
            await asyncio.Event().wait() if 7 in keys else await asyncio.sleep(0)
        except asyncio.CancelledError:
            self.book.append("cancelled")
            raise
        if 99 in keys:
            raise Missing("all")
        return tuple(str(key) for key in keys)

    @batch_ask()
    def short(self, keys: list[int]) -> list[str]:
        return ["one answer"] if len(keys) > 1 else []

    @batch_ask()
    def bad(self, keys: list[int]) -> list[int]:
        raise Boom(keys)


@pytest.mark.guarantee("G231")
async def test_a_batch_frees_room_and_includes_senders_that_waited_for_it(loop: ActorSystem) -> None:
    book: list[Any] = []
    writer = loop.options(mailbox=2).spawn(Writer, book)
    writer.store(0)
    writer.store(1)
    with pytest.raises(MailboxFullError):
        writer.store(2)
    assert not writer.store.try_send(2)
    waiting = [writer.store.when_room(row) for row in (2, 3)]
    for landing in waiting:
        await landing
    await turns()
    assert [row for rows in book for row in rows] == [0, 1, 2, 3]
    assert all(len(rows) <= 3 for rows in book)


@pytest.mark.guarantee("G231")
def test_threads_the_actor_and_an_alarm_send_single_items(loop: ActorSystem, clock: VirtualClock) -> None:
    book: list[Any] = []
    writer = loop.spawn(Writer, book)
    for row in range(3):
        elsewhere(lambda row=row: writer.store(row))  # type: ignore[misc]  # bound now
    spin(loop)
    assert [row for rows in book for row in rows] == [0, 1, 2]
    book.clear()
    writer.later(4)
    settle(loop)
    assert book == [[-4]]
    clock.advance(0.005)
    settle(loop)
    assert book == [[-4], [4]]


@pytest.mark.guarantee("G231")
async def test_an_async_batch_gets_messages_that_arrived_while_it_was_busy(loop: ActorSystem) -> None:
    book: list[Any] = []
    gate = asyncio.Event()
    writer = loop.spawn(Writer, book, gate)
    writer.slowly(0)
    await turns()
    for row in range(1, 5):
        writer.slowly(row)
    gate.set()
    await turns(6)
    assert book == [("begun", [0]), [0], ("begun", [1, 2, 3, 4]), [1, 2, 3, 4]]


@pytest.mark.guarantee("G234")
async def test_a_batch_contains_only_messages_with_the_same_context(loop: ActorSystem, book: Book) -> None:
    writer = loop.spawn(Writer, book)
    writer.where(0)
    CITY.set("Oslo")
    writer.where(1)
    writer.where(2)
    CITY.set("Rome")
    writer.where(3)
    await turns(6)
    assert book == [("none", [0]), ("Oslo", [1, 2]), ("Rome", [3])]


@pytest.mark.guarantee("G233")
def test_a_failure_loses_the_current_batch_and_keeps_the_rest(loop: ActorSystem, book: Book) -> None:
    spec = child("writer", keep_mailbox=True).of(Writer, book)
    root = spawn_supervisor(loop, SupervisorSpec(children=[spec]))
    writer = root.handle(Writer, "writer")
    writer.crash(1)
    writer.crash(2)
    writer.store(3)
    writer.store(4)
    settle(loop)
    assert book == [[1, 2], [3, 4]]
    books = loop.statistics()
    assert (books.dead, books.waiting) == (0, 0)


@pytest.mark.guarantee("G232")
@pytest.mark.parametrize("name", ["find", "find_later"])
async def test_each_caller_gets_its_own_answer(loop: ActorSystem, name: str, book: Book) -> None:
    """A declared exception in the answers is one; one that is raised is the answer to all."""
    store = loop.spawn(Store, book)
    find = getattr(store, name)
    assert await asyncio.gather(*[find(key) for key in range(6)]) == [str(key) for key in range(6)]
    assert book == [[0, 1, 2, 3], [4, 5]]
    statistics = loop.ask_statistics()
    assert (statistics.asked, statistics.answered) == (6, 6)
    for reply in [find(key) for key in (1, 99)]:
        with pytest.raises(Missing, match="all"):
            await reply
    first, second = store.find(1), store.find(-2)
    assert await first == "1"
    with pytest.raises(Missing, match="-2"):
        await second


@pytest.mark.guarantee("G232")
@pytest.mark.parametrize("name", ["find", "find_later"])
async def test_a_cancelled_ask_is_not_in_the_batch(loop: ActorSystem, name: str, book: Book) -> None:
    store = loop.spawn(Store, book)
    replies = [getattr(store, name)(key) for key in range(4)]
    replies[0].cancel()
    replies[2].cancel()
    assert [await replies[key] for key in (1, 3)] == ["1", "3"]
    assert book == [[1, 3]]
    gone = [getattr(store, name)(key) for key in range(3)]
    for reply in gone:
        reply.cancel()
    await turns()
    assert book == [[1, 3]]


@pytest.mark.guarantee("G232")
async def test_the_handler_is_cancelled_when_all_its_asks_are(loop: ActorSystem, book: Book) -> None:
    store = loop.spawn(Store, book)
    replies = [store.find_later(key) for key in (7, 8)]
    await turns()
    replies[0].cancel()
    await turns()
    assert book == [[7, 8]]
    replies[1].cancel()
    await turns()
    assert book == [[7, 8], "cancelled"]
    assert await store.find_later(1) == "1"


@pytest.mark.guarantee("G232", "G233")
@pytest.mark.parametrize(("name", "cause"), [("short", InvalidVerdictError), ("bad", Boom)])
async def test_all_callers_get_the_failure(loop: ActorSystem, name: str, cause: type[Exception]) -> None:
    store = loop.spawn(Store, [])
    replies = [getattr(store, name)(key) for key in range(3)]
    for reply in replies:
        with pytest.raises(TargetEndedError) as caught:
            await reply
        assert isinstance(caught.value.__cause__, cause)
    assert leaks_of(loop) == []


class Polite(Store):
    """Has an on_stop."""

    async def on_stop(self, reason: ExitReason, cause: BaseException | None) -> None:
        self.book.append("bye")


@pytest.mark.guarantee("G233")
@pytest.mark.parametrize("name", ["bad", "find_later"])
async def test_all_callers_of_a_batch_get_its_failure_before_on_stop(loop: ActorSystem, name: str) -> None:
    book: list[Any] = []
    store = loop.spawn(Polite, book)
    replies = [getattr(store, name)(key) for key in (7, 8)]
    await turns()
    store.stop()
    for reply in replies:
        with pytest.raises(TargetEndedError):
            await reply
    await turns()
    assert book[-1] == "bye"


class Rows(Interface, Protocol):
    @batch(limit=5)
    def put(self, rows: list[int]) -> None: ...
    @ask
    def seen(self) -> list[list[int]]: ...


class Table(Implements[Rows]):
    def __init__(self) -> None:
        self.lists: list[list[int]] = []

    def put(self, rows: list[int]) -> None:
        self.lists.append(rows)

    def seen(self) -> list[list[int]]:
        return self.lists


@pytest.mark.guarantee("G231")
async def test_an_interface_can_declare_a_batch(loop: ActorSystem) -> None:
    table = loop.spawn(Table)
    for row in range(7):
        table.put(row)
    assert await table.seen() == [[0, 1, 2, 3, 4], [5, 6]]


def takes_one(self: Any, row: int) -> None: ...
def takes_two(self: Any, rows: list[int], more: int) -> None: ...
def takes_none(self: Any) -> None: ...
def takes_named(self: Any, *, rows: list[int]) -> None: ...
def takes_some(self: Any, rows: list[int] = []) -> None: ...  # noqa: B006 -- it is never called
def answers_none(self: Any, rows: list[int]) -> None: ...
def answers_one(self: Any, rows: list[int]) -> int: ...  # type: ignore[empty-body]  # never called
def yields(self: Any, rows: list[int]) -> Iterable[int]:
    yield from rows


@pytest.mark.once
@pytest.mark.guarantee("G234")
@pytest.mark.parametrize(
    ("decorator", "function", "words"),
    [
        (batch(), takes_one, "takes_one, whose parameter row has type int: it gets a list"),
        (batch(), takes_two, "takes one parameter besides self"),
        (batch(), takes_none, "takes one parameter besides self"),
        (batch(), takes_named, "takes one parameter besides self"),
        (batch(), takes_some, "takes one parameter besides self"),
        (batch(), 5, "@batch is on 5, which is not a function"),
        (batch(), yields, "@batch is on yields, a generator"),
        (
            batch_ask(),
            answers_none,
            "returns NoneType: return a list with one answer per item, or use @batch",
        ),
        (batch_ask(), answers_one, "which returns int"),
        (batch_ask(), takes_one, "takes_one, whose parameter row has type int"),
    ],
)
def test_a_wrong_signature_is_refused(decorator: Callable[[Any], Any], function: Any, words: str) -> None:
    with pytest.raises(DeclarationError, match=words):
        decorator(function)


@pytest.mark.once
@pytest.mark.guarantee("G234")
def test_invalid_options_are_refused() -> None:
    for limit in (0, -1, True, "3", 1 << 21):
        with pytest.raises(DeclarationError, match="limit is"):
            batch(limit=limit)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # what it is about
    with pytest.raises(DeclarationError, match="@batch: lane"):
        batch(lane=Lane.SYSTEM)
    with pytest.raises(DeclarationError, match="@batch_ask: raises"):
        batch_ask(raises=5)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]  # same

    def store(self: Any, rows: Any) -> Any: ...

    # As in a module without `from __future__ import annotations`.
    store.__annotations__ = {"rows": list[int], "return": None}
    with pytest.raises(DeclarationError, match="which returns NoneType"):
        batch_ask()(store)
    store.__annotations__ = {"rows": list[int], "return": list[str]}
    assert batch_ask()(store) is not None


@pytest.mark.once
@pytest.mark.guarantee("G234")
def test_a_derived_class_keeps_the_kind_of_a_method() -> None:
    with pytest.raises(DeclarationError, match=r"Changed.store is .*overrides <batch one-way"):

        class Changed(Writer):
            @tell
            def store(self, rows: list[int]) -> None: ...  # type: ignore[override]  # pyright: ignore[reportIncompatibleVariableOverride]  # what it is about

    with pytest.raises(DeclarationError, match="add @batch"):

        class Unmarked(Writer):
            def store(self, rows: list[int]) -> None: ...  # type: ignore[override]  # pyright: ignore[reportIncompatibleVariableOverride]  # same

    with pytest.raises(DeclarationError, match="remove the decorator"):

        class Other(Implements[Rows]):
            @batch(limit=6)
            def put(self, rows: list[int]) -> None: ...
            def seen(self) -> list[list[int]]:
                return []

    assert repr(vars(Writer)["store"]) == "<batch one-way method Writer.store on lane DATA>"
