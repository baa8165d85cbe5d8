"""Channel actors and senders: in any order of events, each element is processed once, left in the channel, or refused."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bandstand.core import Loop, Verdict
from bandstand.errors import ChannelClosedError, ChannelTimeoutError, TokenCancelledError
from bandstand.scope import UNBOUNDED, CancelToken, Channel, ChannelActor, EndedBy, Outcome, consume
from bandstand.testing import VirtualClock

# What the function does with an element.
ACTIONS = ["return"] * 8 + [
    "OK",
    "STOP",
    "FAIL",
    "raise",
    "nonsense",
    "stop itself",
    "cancel itself",
    "send another",
]
STEPS = (
    ["send"] * 6
    + ["try_send"] * 4
    + ["start"] * 3
    + [
        "stop",
        "cancel",
        "stop_actor",
        "kill_actor",
        "fail_actor",
        "cancel all",
        "receive",
        "pass",
        "pass",
        "pass",
    ]
)

steps = st.lists(
    st.tuples(st.sampled_from(STEPS), st.integers(0, 5), st.sampled_from(ACTIONS), st.integers(0, 4)),
    max_size=60,
)
capacities = st.sampled_from([0, 1, 3, UNBOUNDED])


class Element:
    def __init__(self, number: int, action: str, ms: int) -> None:
        self.number = number
        self.action = action
        self.ms = ms


class Scenario:
    """Actors, senders and one channel, and what happened to each element."""

    def __init__(self, loop: Loop, capacity: Any) -> None:
        self.loop = loop
        self.channel: Channel[Element] = Channel(capacity)
        self.token = CancelToken()
        self.actors: list[ChannelActor[Element]] = []
        self.outcomes: list[list[Outcome]] = []
        self.senders: list[asyncio.Task[None]] = []
        self.made = 0
        self.accepted: list[int] = []
        self.refused: list[int] = []
        self.begun: list[int] = []
        self.received: list[int] = []
        # The actors that were asked to end, and elements that they began afterwards.
        self.asked: set[int] = set()
        self.late: list[int] = []

    def start(self, is_async: bool) -> None:
        at = len(self.actors)
        outcomes_seen: list[Outcome] = []

        def process(element: Element) -> Any:
            if at in self.asked:
                self.late.append(element.number)
            self.begun.append(element.number)
            return self.do(at, element)

        async def process_slowly(element: Element) -> Any:
            if at in self.asked:
                self.late.append(element.number)
            self.begun.append(element.number)
            await asyncio.sleep(element.ms / 1000)
            return self.do(at, element)

        function = process_slowly if is_async else process
        self.outcomes.append(outcomes_seen)
        self.actors.append(
            consume(self.channel, function, token=self.token, loop=self.loop, on_done=outcomes_seen.append)
        )
        if self.token.cancelled:
            self.asked.add(at)

    def do(self, at: int, element: Element) -> Any:
        match element.action:
            case "raise":
                raise ValueError(element.number)
            case "stop itself":
                self.asked.add(at)
                _ = self.actors[at].stop()
            case "cancel itself":
                self.asked.add(at)
                _ = self.actors[at].cancel()
            case "send another":
                self.try_send("return", 0)
            case _:
                pass
        return {"OK": Verdict.OK, "STOP": Verdict.STOP, "FAIL": Verdict.FAIL, "nonsense": 3}.get(
            element.action
        )

    def make(self, action: str, ms: int) -> Element:
        self.made += 1
        return Element(self.made, action, ms)

    def try_send(self, action: str, ms: int) -> None:
        element = self.make(action, ms)
        try:
            is_sent = self.channel.try_send(element)
        except ChannelClosedError:
            is_sent = False
        (self.accepted if is_sent else self.refused).append(element.number)

    async def send(self, element: Element, ms: int) -> None:
        try:
            await self.channel.send(element, timeout=ms / 1000)
        except (ChannelTimeoutError, ChannelClosedError, TokenCancelledError):
            self.refused.append(element.number)
        else:
            self.accepted.append(element.number)

    async def take(self, what: str, which: int, action: str, ms: int) -> None:
        if what == "send":
            self.senders.append(asyncio.create_task(self.send(self.make(action, ms), ms)))
        elif what == "try_send":
            self.try_send(action, ms)
        elif what == "start":
            self.start(is_async=which % 2 == 1)
        elif what == "receive":
            element = self.channel.try_receive()
            if element is not None:
                self.received.append(element.number)
        elif what == "cancel all":
            if which == 0:
                self.asked.update(range(len(self.actors)))
                self.token.cancel()
        elif what == "pass":
            await asyncio.sleep(ms / 1000)
        elif self.actors:
            self.end(what, which % len(self.actors))
        await asyncio.sleep(0)

    def end(self, what: str, at: int) -> None:
        actor = self.actors[at]
        if not actor.id.is_alive:
            return
        self.asked.add(at)
        if what == "stop":
            _ = actor.stop()
        elif what == "cancel":
            _ = actor.cancel()
        else:
            getattr(self.loop, what)(actor.id)

    async def finish(self) -> None:
        """Wait for all senders, then close the channel and wait for all actors."""
        await asyncio.gather(*self.senders)
        for actor in self.actors[::2]:
            _ = actor.stop()
        self.channel.close()
        for actor in self.actors:
            await actor.ended()

    def check(self) -> None:
        left = [element.number for element in self.rest()]
        fates = Counter(self.begun + self.received + left)
        assert not [number for number, times in fates.items() if times > 1], "twice"
        assert sorted(fates) == sorted(self.accepted)
        assert sorted(self.accepted + self.refused) == list(range(1, self.made + 1))
        assert self.late == []
        assert sum(actor.processed for actor in self.actors) == len(self.begun)
        for actor, outcomes_seen in zip(self.actors, self.outcomes, strict=True):
            assert outcomes_seen == [actor.outcome]
            assert outcomes_seen[0].ended_by is not EndedBy.NOT_YET
        books = self.channel.statistics()
        assert (books.receivers, books.senders) == (0, 0)

    def rest(self) -> list[Element]:
        rest: list[Element] = []
        while len(self.channel):
            element = self.channel.try_receive()
            assert element is not None
            rest.append(element)
        return rest


@pytest.mark.spec("K1", "K4", "K5", "K7")
@pytest.mark.guarantee("G106", "G108", "G110", "G112")
@given(steps=steps, capacity=capacities)
def test_every_element_is_processed_once_or_still_there_or_was_refused(
    steps: list[tuple[str, int, str, int]], capacity: Any
) -> None:
    clock = VirtualClock()

    async def main() -> None:
        async with Loop(clock=clock) as loop:
            scenario = Scenario(loop, capacity)
            for what, which, action, ms in steps:
                await scenario.take(what, which, action, ms)
            await scenario.finish()
            scenario.check()

    clock.run(main())
