"""Batches: concatenated, the lists are what was sent, and none is longer than its limit."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bandstand.actor import Actor, ActorSystem, ask, batch, batch_ask, tell
from bandstand.core import Lane
from bandstand.testing import VirtualClock
from tests.core.support import check_statistics

LIMIT = 4
STEPS = st.lists(
    st.sampled_from(["low", "single", "high", "high_single", "asked", "taken_back", "run"]), max_size=60
)
OF_DATA = {"low", "single", "asked"}


class Collector(Actor):
    """Records each list with the method that received it."""

    def __init__(self, book: list[tuple[str, list[int]]]) -> None:
        self.book = book

    @batch(limit=LIMIT)
    def low(self, numbers: list[int]) -> None:
        self.book.append(("low", numbers))

    @batch(limit=LIMIT, lane=Lane.CONTROL)
    def high(self, numbers: list[int]) -> None:
        self.book.append(("high", numbers))

    @tell
    def single(self, number: int) -> None:
        self.book.append(("single", [number]))

    @tell(lane=Lane.CONTROL)
    def high_single(self, number: int) -> None:
        self.book.append(("high_single", [number]))

    @batch_ask(limit=LIMIT)
    def asked(self, numbers: list[int]) -> list[int]:
        self.book.append(("asked", numbers))
        return [10 * number for number in numbers]

    @ask
    def over(self) -> None: ...


@pytest.mark.guarantee("G231", "G232")
@given(STEPS)
def test_the_lists_are_what_was_sent(steps: list[str]) -> None:
    book: list[tuple[str, list[int]]] = []
    sent: list[tuple[str, int]] = []
    replies: list[tuple[int, Any]] = []
    clock = VirtualClock()
    loop = ActorSystem(clock=clock)

    async def body() -> None:
        async with loop:
            collector = loop.spawn(Collector, book)
            for number, step in enumerate(steps):
                if step == "run":
                    await collector.over()
                elif step == "taken_back":
                    collector.asked(number).cancel()
                elif step == "asked":
                    replies.append((number, collector.asked(number)))
                    sent.append((step, number))
                else:
                    getattr(collector, step)(number)
                    sent.append((step, number))
            await collector.over()
            assert [await reply for _, reply in replies] == [10 * number for number, _ in replies]

    with asyncio.Runner(loop_factory=clock.new_event_loop) as runner:
        runner.run(body())
    assert all(1 <= len(numbers) <= LIMIT for _, numbers in book)
    handled = [(name, number) for name, numbers in book for number in numbers]
    for lane in (OF_DATA, {"high", "high_single"}):
        assert [each for each in handled if each[0] in lane] == [each for each in sent if each[0] in lane]
    books = loop.statistics()
    assert (books.handled, books.waiting, books.dead) == (books.sent, 0, 0)
    check_statistics(loop)
