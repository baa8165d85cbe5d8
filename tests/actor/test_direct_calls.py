"""Direct calls: messages that are handled inside the turn of the sender, and those that must not be."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bandstand.actor import Actor, ActorSystem, ask, is_alive, tell
from bandstand.core import Lane
from bandstand.errors import LoopClosedError, NoSuchActorError, TargetEndedError
from tests.actor.conftest import LoopMaker
from tests.actor.players import elsewhere, ride
from tests.core.support import Boom, settle

request_id: ContextVar[str] = ContextVar("request_id", default="nobody's")


class Scribe(Actor):
    """Records what happens, and runs a script in between."""

    def __init__(self, book: list[str], name: str) -> None:
        self.book = book
        self.name = name

    @tell
    def do(self, deed: Callable[[], object]) -> None:
        self.book.append(f"{self.name} begins")
        deed()
        self.book.append(f"{self.name} ends")

    @tell
    def note(self, what: str) -> None:
        self.book.append(f"{self.name} {what} {request_id.get()}")

    @tell(lane=Lane.CONTROL)
    def urgent(self, what: str) -> None:
        self.book.append(f"{self.name} {what}!")

    @tell
    def crash(self) -> None:
        raise Boom(self.name)

    @tell
    async def linger(self) -> None:
        self.book.append(f"{self.name} lingers")
        await asyncio.sleep(0)

    @ask
    def shout(self, what: str) -> str:
        return what.upper()

    @ask
    async def relay(self, to: Scribe, what: str) -> str:
        return await to.shout(what)

    @tell
    def leave(self) -> None:
        self.stop()


@pytest.fixture
def book() -> list[str]:
    return []


@pytest.fixture
def loop(make_loop: LoopMaker) -> ActorSystem:
    loop = make_loop()
    loop.allow_direct_calls()
    return loop


def pair(loop: ActorSystem, book: list[str]) -> tuple[Scribe, Scribe]:
    return loop.spawn(Scribe, book, "a"), loop.spawn(Scribe, book, "b")


def case(what: str, deed: Callable[[Scribe, Scribe], object], seen: list[str], *marks: Any) -> Any:
    return pytest.param(deed, seen, id=what, marks=marks)


@pytest.mark.parametrize(
    ("deed", "seen"),
    [
        case(
            "an idle actor is called inside the turn of the sender",
            lambda a, b: b.note("hears"),
            ["a begins", "b hears nobody's", "a ends"],
            pytest.mark.spec("S12"),
            pytest.mark.guarantee("G121"),
        ),
        case(
            "each message is a call of its own",
            lambda a, b: (b.note("one"), b.urgent("two")),
            ["a begins", "b one nobody's", "b two!", "a ends"],
            pytest.mark.guarantee("G121"),
        ),
        case(
            "an actor in its turn is not called",
            lambda a, b: b.do(lambda: a.note("later")),
            ["a begins", "b begins", "b ends", "a ends", "a later nobody's"],
            pytest.mark.guarantee("G122"),
        ),
        case(
            "a message to oneself is queued",
            lambda a, b: a.note("later"),
            ["a begins", "a ends", "a later nobody's"],
            pytest.mark.guarantee("G122"),
        ),
    ],
)
def test_which_messages_are_direct_calls(
    loop: ActorSystem, book: list[str], deed: Callable[[Scribe, Scribe], object], seen: list[str]
) -> None:
    a, b = pair(loop, book)
    a.do(lambda: deed(a, b))
    settle(loop)
    assert book == seen


def test_calls_are_direct_only_if_the_loop_allows_it(make_loop: LoopMaker, book: list[str]) -> None:
    a, b = pair(loop := make_loop(), book)
    a.do(lambda: b.note("hears"))
    settle(loop)
    assert book == ["a begins", "a ends", "b hears nobody's"]


@pytest.mark.guarantee("G122")
def test_direct_calls_nest_at_most_sixteen_deep(loop: ActorSystem, book: list[str]) -> None:
    row = [loop.spawn(Scribe, book, str(n)) for n in range(40)]

    def step(n: int) -> Callable[[], object]:
        return lambda: row[n + 1].do(step(n + 1)) if n + 1 < len(row) else None

    row[0].do(step(0))
    settle(loop)
    depth = deepest = 0
    for line in book:
        depth += 1 if line.endswith("begins") else -1
        deepest = max(deepest, depth)
    assert deepest == 17  # the first turn, and sixteen inside it
    assert sum(line.endswith("ends") for line in book) == len(row)


@pytest.mark.guarantee("G123")
def test_a_failure_in_a_direct_call_fails_only_the_callee(
    loop: ActorSystem, book: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    a, b = pair(loop, book)
    a.do(b.crash)
    settle(loop)
    assert book == ["a begins", "a ends"]
    assert is_alive(a)
    assert not is_alive(b)
    assert "Boom" in caplog.text
    with pytest.raises(NoSuchActorError):
        b.note("too late")


@pytest.mark.guarantee("G123")
def test_a_callee_may_stop_its_caller_which_exits_after_its_turn(loop: ActorSystem, book: list[str]) -> None:
    a, b = pair(loop, book)
    a.do(lambda: b.do(a.kill))
    settle(loop)
    assert book == ["a begins", "b begins", "b ends", "a ends"]
    assert not is_alive(a)
    assert is_alive(b)


@pytest.mark.guarantee("G122")
async def test_a_coroutine_is_never_called_directly(loop: ActorSystem, book: list[str]) -> None:
    a, b = pair(loop, book)
    a.do(b.linger)
    await a.shout("x")
    await b.shout("x")
    assert book == ["a begins", "a ends", "b lingers"]


@pytest.mark.guarantee("G122")
def test_a_message_from_a_coroutine_is_queued_with_its_context(loop: ActorSystem, book: list[str]) -> None:
    a, b = pair(loop, book)

    class Sender(Actor):
        @ask
        async def go(self) -> str:
            request_id.set("7")
            b.note("hears")
            book.append("sent")
            return await b.shout("done")

    async def body() -> str:
        return await loop.spawn(Sender).go()

    assert ride(loop, body) == "DONE"
    assert book == ["sent", "b hears 7"]
    assert is_alive(a) is False


@pytest.mark.guarantee("G121")
def test_a_direct_call_from_a_carried_context_runs_in_it(loop: ActorSystem, book: list[str]) -> None:
    a, b = pair(loop, book)
    token = request_id.set("8")
    a.do(lambda: b.note("hears"))
    request_id.reset(token)
    b.note("is left alone")
    settle(loop)
    a.do(lambda: b.note("hears"))
    settle(loop)
    assert [line for line in book if line.startswith("b")] == [
        "b is left alone nobody's",
        "b hears 8",
        "b hears nobody's",
    ]


@pytest.mark.guarantee("G121")
def test_an_ask_of_a_plain_method_is_answered_in_the_call(loop: ActorSystem, book: list[str]) -> None:
    a, b = pair(loop, book)

    def deed() -> None:
        reply = b.shout("hello")
        assert reply.done()
        book.append(reply.result())

    a.do(deed)
    settle(loop)
    assert book == ["a begins", "HELLO", "a ends"]
    assert loop.ask_statistics().answered == loop.ask_statistics().asked == 1


@pytest.mark.guarantee("G123")
def test_a_direct_ask_that_fails_its_actor_ends_with_target_ended(loop: ActorSystem, book: list[str]) -> None:
    class Fragile(Actor):
        @ask
        def break_(self) -> None:
            raise Boom("in the call")

    a, _b = pair(loop, book)
    fragile = loop.spawn(Fragile)
    replies: list[Any] = []
    a.do(lambda: replies.append(fragile.break_()))
    settle(loop)
    with pytest.raises(TargetEndedError, match="in the call"):
        replies[0].result()
    assert is_alive(a)


@pytest.mark.guarantee("G122")
def test_a_message_from_another_thread_is_queued(loop: ActorSystem, book: list[str]) -> None:
    a, b = pair(loop, book)

    def deed() -> None:
        elsewhere(lambda: b.note("from afar"))
        # The message is in the inbox: the mailbox expects it, so a later one must not overtake it by a direct call.
        b.note("from here")

    a.do(deed)
    settle(loop)
    assert book == ["a begins", "a ends", "b from here nobody's", "b from afar nobody's"]


@pytest.mark.guarantee("G123")
def test_a_stop_in_a_direct_call_starts_no_other_message(loop: ActorSystem, book: list[str]) -> None:
    a, b = pair(loop, book)

    def deed() -> None:
        loop.request_stop()
        with pytest.raises((LoopClosedError, NoSuchActorError)):
            b.note("too late")

    a.do(lambda: b.do(deed))
    loop.run()
    assert book == ["a begins", "b begins", "b ends", "a ends"]


@pytest.mark.slow
@pytest.mark.guarantee("G121")
@given(data_=st.data())
def test_order_is_kept_under_any_mixture_of_calls(data_: st.DataObject) -> None:
    """Messages from one actor to another arrive once and in order, at any depth."""
    actors = data_.draw(st.integers(2, 4))
    plan = data_.draw(
        st.lists(
            st.tuples(st.integers(0, actors - 1), st.integers(0, actors - 1), st.integers(0, 2)), max_size=40
        )
    )
    seen: dict[int, list[tuple[int, int]]] = {n: [] for n in range(actors)}
    loop = ActorSystem()
    loop.allow_direct_calls()

    class Node(Actor):
        def __init__(self, number: int) -> None:
            self.number = number

        @tell
        def hear(self, sender: int, what: int, hops: int) -> None:
            seen[self.number].append((sender, what))
            if hops:
                target = (self.number + hops) % actors
                counters[self.number, target] = count = counters.get((self.number, target), 0) + 1
                nodes[target].hear(self.number, count, hops - 1)

    counters: dict[tuple[int, int], int] = {}
    nodes = [loop.spawn(Node, n) for n in range(actors)]
    for number, (_sender, target, hops) in enumerate(plan):
        nodes[target].hear(-1, number, hops)
        if number % 3 == 0:
            loop.poll_once()
    settle(loop)
    for heard in seen.values():
        for sender in range(-1, actors):
            mine = [what for who, what in heard if who == sender]
            assert mine == sorted(set(mine))
    books = loop.statistics()
    assert books.handled == len(plan) + sum(counters.values()) == sum(map(len, seen.values()))
    loop.destroy()
