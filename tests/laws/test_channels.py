"""Channels against their laws: whatever is sent, received, chosen, closed, cancelled and timed out, in any order.

Every element is received exactly once, or is still in its channel, or was refused to its sender; or, in a conflated channel,
was replaced. What a receiver gets of one sender is in the order in which it was sent. Nobody waits who could be served.

Tasks of one event loop in virtual time: steps that are not followed by a `tick` fall into the same moment.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, NamedTuple

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from bandstand.core import Loop
from bandstand.errors import ChannelClosedError, ChannelTimeoutError, TokenCancelledError
from bandstand.scope import CONFLATED, UNBOUNDED, CancelToken, Channel, select
from bandstand.scope._channel import WaitState
from bandstand.testing import VirtualClock
from tests.scope.support import Capacity, drain, has_timers


class Item(NamedTuple):
    """An element: whose, and the how many-eth of him."""

    sender: int
    number: int


class Player(NamedTuple):
    """Somebody with a task."""

    task: asyncio.Task[None]
    # What it waits for: the operation, and its sides as (channel, whether it sends).
    at_hand: list[tuple[Any, list[tuple[int, bool]]]]


class Stage:
    """Channels, tasks that use them, and what they have seen."""

    def __init__(self, capacities: list[Capacity]) -> None:
        self.clock = VirtualClock()
        self.host = self.clock.new_event_loop()
        self.loop = Loop(clock=self.clock)
        self.host.run_until_complete(self.loop.__aenter__())
        self.channels = [Channel[Item](capacity, name=str(at)) for at, capacity in enumerate(capacities)]
        self.tokens: list[CancelToken] = []
        self.players: list[Player] = []
        self.offers = 0
        self.sent: dict[Item, int] = {}
        self.refused: set[Item] = set()
        # Their tasks were cancelled while they sent them.
        self.doubtful: set[Item] = set()
        # Who has received what from which channel, in the order in which each did.
        self.got: list[tuple[int, int, Item]] = []
        # Channels to which something may have come back that others have overtaken meanwhile.
        self.disordered: set[int] = set()

    # -- what the players do -------------------------------------------------------------------------------------------

    def cast(self, part: Coroutine[Any, Any, None], at_hand: list[Any]) -> None:
        self.players.append(Player(self.host.create_task(part), at_hand))

    def operation(self, at: int, is_send: bool, item: Item, **limits: Any) -> Any:
        channel = self.channels[at]
        return channel.send(item, **limits) if is_send else channel.receive(**limits)

    async def play(
        self, who: int, sides: list[tuple[int, bool]], times: int, limits: dict[str, Any], at_hand: list[Any]
    ) -> None:
        """Do one of several operations, a number of times."""
        for _ in range(times):
            item = Item(who, self.offers)
            self.offers += 1
            is_offered = any(is_send for _, is_send in sides)
            if len(sides) > 1:
                operation: Any = select(
                    *(self.operation(at, is_send, item) for at, is_send in sides), **limits
                )
            else:
                operation = self.operation(*sides[0], item, **limits)
            at_hand[:] = [(operation, sides)]
            try:
                result = await operation
            except ChannelTimeoutError:
                self.refused.add(item)
            except (ChannelClosedError, TokenCancelledError):
                self.refused.add(item)
                return
            except asyncio.CancelledError:
                if is_offered:
                    self.doubtful.add(item)
                raise
            else:
                index, value = result if len(sides) > 1 else (0, result)
                at, is_send = sides[index]
                if is_send:
                    assert value is None
                    self.sent[item] = at
                else:
                    self.refused.add(item)
                    self.got.append((who, at, value))
            finally:
                at_hand.clear()

    async def iterate(self, who: int, at: int, at_hand: list[Any]) -> None:
        operation: Any = None
        while True:
            operation = self.channels[at].__anext__()
            at_hand[:] = [(operation, [(at, False)])]
            try:
                self.got.append((who, at, await operation))
            except StopAsyncIteration:
                return
            finally:
                at_hand.clear()

    # -- what is done to them ------------------------------------------------------------------------------------------

    def waiting(self) -> list[Player]:
        return [player for player in self.players if not player.task.done()]

    def served(self) -> list[Player]:
        return [
            player for player in self.waiting() if any(it.state == WaitState.DONE for it, _ in player.at_hand)
        ]

    def cancel(self, player: Player) -> None:
        for operation, sides in player.at_hand:
            if operation.state == WaitState.DONE:
                self.disordered.update(at for at, _ in sides)
        player.task.cancel()

    def tick(self, number: int) -> None:
        async def turns() -> None:
            for _ in range(number):
                await asyncio.sleep(0)

        self.host.run_until_complete(turns())

    def settle(self) -> None:
        """Until nobody has anything to do but wait."""
        host: Any = self.host

        async def turns() -> None:
            for _ in range(2000):
                await asyncio.sleep(0)
                if not host._ready:
                    return
            raise AssertionError("they never come to rest")

        self.host.run_until_complete(turns())

    # -- the laws ------------------------------------------------------------------------------------------------------

    def check(self) -> None:
        for at, channel in enumerate(self.channels):
            books = channel.statistics()
            assert books.sent == books.received + books.conflated + books.buffered, books
            assert books.buffered <= books.peak
            if books.receivers:
                assert books.buffered == 0, f"somebody waits for what is there: {books}"
                assert not books.closed, books
            if books.senders:
                assert not books.closed, books
                assert isinstance(books.capacity, int), books
                assert books.buffered >= books.capacity, f"somebody waits though there is room: {books}"
            if books.senders and books.receivers:
                assert (books.senders, books.receivers) == (1, 1), f"they could serve each other: {books}"
                assert any(
                    {(at, True), (at, False)} <= set(sides)
                    for player in self.players
                    for _, sides in player.at_hand
                ), f"they could serve each other: {books}"
            if books.capacity is CONFLATED:
                assert books.buffered <= 1, books
        for player in self.players:
            if player.task.done() and not player.task.cancelled():
                player.task.result()

    def check_at_rest(self) -> None:
        """Those who wait, wait where they say; and all others have been told."""
        expected: Counter[tuple[int, bool]] = Counter()
        for player in self.players:
            for _, sides in player.at_hand:
                assert not player.task.done()
                expected.update((at, is_send) for at, is_send in sides if not self.channels[at].is_closed)
        found: Counter[tuple[int, bool]] = Counter()
        for at, channel in enumerate(self.channels):
            books = channel.statistics()
            found.update({(at, True): books.senders, (at, False): books.receivers})
        assert +found == +expected

    def check_elements(self, left: list[tuple[int, Item]]) -> None:
        """Of every element: where it is now. `left` is what is in the channels."""
        received = [item for _, _, item in self.got]
        seen = received + [item for _, item in left]
        assert len(set(seen)) == len(seen), "received twice"
        assert not self.refused & set(seen), "refused, and received"
        assert set(seen) <= set(self.sent) | self.doubtful, "from nowhere"
        places = {item: at for _, at, item in self.got} | {item: at for at, item in left}
        for item, at in self.sent.items():
            if item in places:
                assert places[item] == at
            else:
                assert self.channels[at].statistics().capacity is CONFLATED, f"{item} is lost"
        for at, channel in enumerate(self.channels):
            there = sum(place == at for place in places.values())
            assert there == channel.statistics().sent - channel.statistics().conflated

    def check_order(self, left: list[tuple[int, Item]]) -> None:
        last: dict[tuple[int, int, int], int] = {}
        for who, at, item in [*self.got, *((-1, at, item) for at, item in left)]:
            key = (who, at, item.sender)
            if at not in self.disordered:
                assert last.get(key, -1) < item.number, f"{who} has got {item} too late"
            last[key] = item.number

    def end(self) -> None:
        try:
            self.settle()
            self.check()
            self.check_at_rest()
            for player in self.players:
                self.cancel(player)
            self.settle()
            assert all(player.task.done() for player in self.players)
            self.check()
            for channel in self.channels:
                books = channel.statistics()
                assert (books.senders, books.receivers) == (0, 0), "somebody stands in line who is not there"
            left = [(at, item) for at, channel in enumerate(self.channels) for item in drain(channel)]
            self.check_elements(left)
            self.check_order(left)
            assert not has_timers(self.loop), "a deadline is left"
            assert not any(token.has_listeners() for token in self.tokens)
        finally:
            self.host.run_until_complete(self.loop.__aexit__(None, None, None))
            self.host.close()


capacities = st.sampled_from([0, 0, 1, 2, UNBOUNDED, CONFLATED])
numbers = st.integers(0, 1000)
# Bit by bit; all of them more often than chance would have it.
subsets = st.just(15) | st.integers(1, 15)
waits = st.sampled_from([None, None, 0, 1, 3, 10])


class Channels(RuleBasedStateMachine):
    stage: Stage

    @initialize(kinds=st.lists(capacities, min_size=1, max_size=3))
    def begin(self, kinds: list[Capacity]) -> None:
        self.stage = Stage(kinds)
        self.who = 0

    def limits(self, wait: float | None, token: int) -> dict[str, Any]:
        tokens = self.stage.tokens
        limits: dict[str, Any] = {"timeout": None if wait is None else wait / 1000}
        if token % 3 == 0 and tokens:
            limits["token"] = tokens[token % len(tokens)]
        return limits

    @rule(
        sides=st.lists(st.tuples(numbers, st.booleans()), min_size=1, max_size=3),
        times=st.integers(1, 6),
        wait=waits,
        token=numbers,
    )
    def play(self, sides: list[tuple[int, bool]], times: int, wait: float | None, token: int) -> None:
        stage = self.stage
        mine = list(dict.fromkeys((at % len(stage.channels), is_send) for at, is_send in sides))
        at_hand: list[Any] = []
        self.who += 1
        stage.cast(stage.play(self.who, mine, times, self.limits(wait, token), at_hand), at_hand)

    @rule(at=numbers, is_send=st.booleans(), times=st.integers(1, 6), wait=waits, token=numbers)
    def play_one(self, at: int, is_send: bool, times: int, wait: float | None, token: int) -> None:
        self.play([(at, is_send)], times, wait, token)

    @rule(at=numbers)
    def iterate(self, at: int) -> None:
        at_hand: list[Any] = []
        self.who += 1
        self.stage.cast(self.stage.iterate(self.who, at % len(self.stage.channels), at_hand), at_hand)

    @rule(at=numbers)
    def try_send(self, at: int) -> None:
        stage = self.stage
        item = Item(0, stage.offers)
        stage.offers += 1
        try:
            is_sent = stage.channels[at % len(stage.channels)].try_send(item)
        except ChannelClosedError:
            is_sent = False
        if is_sent:
            stage.sent[item] = at % len(stage.channels)
        else:
            stage.refused.add(item)

    @rule(at=numbers)
    def try_receive(self, at: int) -> None:
        stage = self.stage
        self.who += 1
        with suppress(ChannelClosedError):
            item = stage.channels[at % len(stage.channels)].try_receive()
            if item is not None:
                stage.got.append((self.who, at % len(stage.channels), item))

    @precondition(lambda self: self.stage.waiting())
    @rule(at=numbers)
    def cancel(self, at: int) -> None:
        waiting = self.stage.waiting()
        self.stage.cancel(waiting[at % len(waiting)])

    @precondition(lambda self: self.stage.served())
    @rule(which=subsets)
    def cancel_served(self, which: int) -> None:
        """Some of those who have been handed something, and do not know it yet."""
        for at, player in enumerate(self.stage.served()):
            if which >> at & 1:
                self.stage.cancel(player)

    @rule(
        at=numbers,
        receivers=st.integers(1, 3),
        items=st.integers(1, 4),
        which=subsets,
        others=st.lists(numbers, max_size=1),
    )
    def hand_over(self, at: int, receivers: int, items: int, which: int, others: list[int]) -> None:
        """All of that in one: chance alone comes to it too seldom."""
        for _ in range(receivers):
            self.play([(each, False) for each in (at, *others)], times=2, wait=None, token=1)
        self.tick(3)
        self.try_several(at, items)
        if self.stage.served():
            self.cancel_served(which)
            self.tick(2)
            self.laws()

    @rule(at=numbers, times=st.integers(1, 4))
    def try_several(self, at: int, times: int) -> None:
        for _ in range(times):
            self.try_send(at)

    @rule(wait=waits, parent=numbers)
    def make_token(self, wait: float | None, parent: int) -> None:
        tokens = self.stage.tokens
        above = tokens[parent % len(tokens)] if tokens and parent % 2 else None
        tokens.append(CancelToken(above, timeout=None if wait is None else wait / 1000, loop=self.stage.loop))

    @precondition(lambda self: self.stage.tokens)
    @rule(at=numbers)
    def cancel_token(self, at: int) -> None:
        self.stage.tokens[at % len(self.stage.tokens)].cancel("a whim")

    @rule(at=numbers)
    def close(self, at: int) -> None:
        # Seldom: nothing happens in a closed channel.
        if at % 4 == 0:
            self.stage.channels[at % len(self.stage.channels)].close()

    @rule(number=st.integers(1, 4))
    def tick(self, number: int) -> None:
        self.stage.tick(number)

    @rule(ms=st.sampled_from([1, 2, 5, 20]))
    def wait(self, ms: int) -> None:
        async def pass_by() -> None:
            await asyncio.sleep(ms / 1000)

        self.stage.host.run_until_complete(pass_by())

    @rule()
    def rest(self) -> None:
        self.stage.settle()
        self.stage.check_at_rest()

    @invariant()
    def laws(self) -> None:
        if hasattr(self, "stage"):
            self.stage.check()

    def teardown(self) -> None:
        if hasattr(self, "stage"):
            self.stage.end()


TestChannels = Channels.TestCase
TestChannels.settings = settings(stateful_step_count=40, max_examples=2 * settings().max_examples)
TestChannels = pytest.mark.spec("K3")(
    pytest.mark.guarantee("G91", "G94", "G95", "G96", "G97")(pytest.mark.slow(TestChannels))
)
