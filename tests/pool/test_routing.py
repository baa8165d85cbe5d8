"""Which worker gets a message."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bandstand.actor import ActorSystem
from bandstand.errors import InvalidArgumentError
from bandstand.pool import ByKey, Pool, Routing, pooled
from bandstand.supervision import place_of
from bandstand.supervision.supervisor import consistent_hash
from bandstand.topic import Topic
from tests.core.support import settle
from tests.pool.workers import Hand, balanced, buried

KEYS = st.one_of(st.text(max_size=8), st.binary(max_size=8), st.integers())


def first_of(what: Any) -> Any:
    return what[0]


@pytest.mark.guarantee("G222")
def test_round_robin_uses_workers_in_turn(loop: ActorSystem) -> None:
    book: list[Any] = []
    pool = pooled(loop, 3).spawn(Hand, book)
    for number in range(9):
        pool.handle.note(number)
    settle(loop)
    assert sorted(book[3:], key=lambda entry: entry[1]) == [(number % 3, number) for number in range(9)]


@pytest.mark.guarantee("G222")
@pytest.mark.parametrize("routing", [Routing.ROUND_ROBIN, Routing.LEAST_LOADED])
async def test_no_message_waits_while_a_worker_is_free(loop: ActorSystem, routing: Routing) -> None:
    book: list[Any] = []
    gate = asyncio.Event()
    pool = pooled(loop, 2, routing=routing).spawn(Hand, book)
    pool.handle.hold(gate)
    for number in range(10):
        pool.handle.note(number)
    await asyncio.sleep(0.001)
    assert [entry for entry in book[2:] if entry[1] != "hold"] == [(1, number) for number in range(10)]
    gate.set()


@pytest.mark.guarantee("G222")
async def test_least_loaded_chooses_the_fewest_messages(loop: ActorSystem) -> None:
    gates = [asyncio.Event() for _ in range(6)]
    pool = pooled(loop, 3, routing=Routing.LEAST_LOADED, ahead=4).spawn(Hand, [])

    def loads() -> list[int]:
        return [worker.outstanding for worker in pool.status().workers]

    for gate in gates:
        pool.handle.hold(gate)
    await asyncio.sleep(0.001)
    assert loads() == [2, 2, 2]
    gates[1].set()
    gates[4].set()
    await asyncio.sleep(0.001)
    assert loads() == [2, 0, 2]
    for _ in range(2):
        pool.handle.hold(asyncio.Event())
    await asyncio.sleep(0.001)
    assert loads() == [2, 2, 2]
    pool.stop()


@pytest.mark.guarantee("G223")
def test_a_key_function_gets_the_arguments(loop: ActorSystem) -> None:
    book: list[Any] = []
    seen: list[Any] = []

    def key(*args: Any, **named: Any) -> str:
        seen.append((args, named))
        return "k"

    pool = pooled(loop, 2, routing=ByKey(key)).spawn(Hand, book)
    pool.handle.note(5)
    pool.handle.name_it(key="x", value=2)
    pool.handle.collect(7)
    settle(loop)
    assert seen == [((5,), {}), ((), {"key": "x", "value": 2}), ((7,), {})]
    assert pool.status().handled == 3


@pytest.mark.guarantee("G223")
async def test_a_message_without_a_key_is_a_dead_letter(loop: ActorSystem) -> None:
    letters = buried(loop)
    pool = pooled(loop, 2, routing=ByKey(first_of)).spawn(Hand, [])
    pool.handle.note(5)
    pool.handle.note((1.5, "no key"))
    with pytest.raises(
        InvalidArgumentError, match=r"Hand.half\(\) could not be computed.*did not pass it on"
    ):
        await pool.handle.half(5)
    assert [letter.data for letter in letters] == [5, (1.5, "no key")]
    status = pool.status()
    assert (status.dead, status.failed, status.handled) == (2, 1, 0)
    balanced(pool)


def test_a_key_function_is_a_function() -> None:
    with pytest.raises(InvalidArgumentError, match="ByKey: key is 3"):
        ByKey(3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # what it is about


@pytest.mark.once
@pytest.mark.guarantee("G223")
@given(KEYS, st.integers(1, 64))
def test_a_resize_moves_few_keys(key: str | bytes | int, places: int) -> None:
    before, after = consistent_hash(key, places), consistent_hash(key, places + 1)
    assert 0 <= before < places
    assert after in (before, places)


@pytest.mark.once
@pytest.mark.guarantee("G223")
def test_keys_are_spread_evenly_and_stably() -> None:
    assert [consistent_hash(key, 8) for key in ("alpha", "beta", b"alpha", 7, -7)] == PLACES
    shares = Counter(consistent_hash(f"key {number}", 8) for number in range(4000))
    assert all(400 < shares[place] < 600 for place in range(8))
    moved = sum(consistent_hash(number, 8) != consistent_hash(number, 9) for number in range(4000))
    assert 350 < moved < 550
    # The partitions of supervisors are where they always were.
    assert [place_of(key, 8) for key in ("alpha", b"alpha", 7)] == PARTITIONS


PLACES = [3, 3, 4, 3, 1]
PARTITIONS = [3, 5, 6]


@pytest.mark.guarantee("G224")
def test_a_broadcast_reaches_every_worker_once(loop: ActorSystem) -> None:
    book: list[Any] = []
    pool = pooled(loop, 3, routing=Routing.BROADCAST).spawn(Hand, book)
    pool.handle.note("a")
    pool.handle.note("b")
    settle(loop)
    assert sorted(book[3:]) == [(worker, what) for worker in range(3) for what in "ab"]
    status = pool.status()
    assert (status.accepted, status.handled) == (6, 6)


@pytest.mark.guarantee("G224")
async def test_a_broadcast_waits_for_restarted_workers(loop: ActorSystem) -> None:
    book: list[Any] = []
    gate = asyncio.Event()
    pool: Pool[Hand] = pooled(loop, 2, routing=Routing.BROADCAST, mailbox=2).spawn(Hand, book)
    pool.handle.hold(gate)
    pool.handle.note("a")
    await asyncio.sleep(0.001)
    assert not pool.handle.note.try_send("no room")
    first = pool.status().workers[0].actor
    assert first is not None
    loop.kill_actor(first)
    await asyncio.sleep(0.001)
    assert (2, "a") in book
    assert (1, "a") not in book
    assert pool.handle.note.try_send("b") is False
    gate.set()
    await asyncio.sleep(0.001)
    assert (1, "a") in book
    status = pool.status()
    assert (status.accepted, status.handled, status.dead) == (4, 3, 1)
    assert pool.handle.note.try_send("room")


@pytest.mark.guarantee("G224")
async def test_a_broadcast_ask_is_refused(loop: ActorSystem) -> None:
    pool = pooled(loop, 2, routing=Routing.BROADCAST).spawn(Hand, [])
    with pytest.raises(InvalidArgumentError, match=r"Hand.half\(\) was asked.*broadcasts.*one-way"):
        await pool.handle.half(4)
    assert pool.status().failed == 1
    balanced(pool)


@pytest.mark.guarantee("G224")
async def test_a_broadcast_is_done_after_the_last_worker(loop: ActorSystem) -> None:
    gates = asyncio.Event(), asyncio.Event()
    pool = pooled(loop, 2, routing=Routing.BROADCAST, max_restarts=5).spawn(Hand, [])
    topic: Topic[asyncio.Event] = Topic(loop, asyncio.Event, name="gates")
    # A topic hears what became of each event, and sends the next one then.
    subscription = topic.subscribe(pool.handle.hold)
    topic.publish(gates[0])
    topic.publish(gates[1])
    await asyncio.sleep(0.001)
    gates[0].set()
    await asyncio.sleep(0.001)
    assert (subscription.handled, subscription.lost, subscription.waiting) == (1, 0, 1)
    first = pool.status().workers[0].actor
    assert first is not None
    loop.kill_actor(first)
    await asyncio.sleep(0.001)
    assert subscription.waiting == 1, "the other is still at it"
    gates[1].set()
    await asyncio.sleep(0.001)
    assert (subscription.handled, subscription.lost, subscription.waiting) == (1, 1, 0)
    balanced(pool)
