"""Channels: sends, receives, selects, closes, cancellations and timeouts in any order.

Every element is received once, is still in its channel, or was refused; in a conflated channel it may have been replaced. A receiver gets
the elements of one sender in order, and no operation waits that could be done. The steps before a `tick` happen at the same moment.
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
    """An element: its sender, and its number there."""

    sender: int
    number: int


class Task(NamedTuple):
    task: asyncio.Task[None]
    # What it waits for: the operation, and its sides as (channel, whether it sends).
    current: list[tuple[Any, list[tuple[int, bool]]]]


class Scenario:
    """Channels, tasks that use them, and what the tasks have received."""

    def __init__(self, capacities: list[Capacity]) -> None:
        self.clock = VirtualClock()
        self.host = self.clock.new_event_loop()
        self.loop = Loop(clock=self.clock)
        self.host.run_until_complete(self.loop.__aenter__())
        self.channels = [Channel[Item](capacity, name=str(at)) for at, capacity in enumerate(capacities)]
        self.tokens: list[CancelToken] = []
        self.users: list[Task] = []
        self.made = 0
        self.sent: dict[Item, int] = {}
        self.refused: set[Item] = set()
        # Their tasks were cancelled while they sent them.
        self.uncertain: set[Item] = set()
        # Who has received what from which channel, in the order in which each did.
        self.got: list[tuple[int, int, Item]] = []
        # Channels to which something may have come back that others have overtaken meanwhile.
        self.reordered: set[int] = set()

    # -- what the users do -------------------------------------------------------------------------------------------

    def start(self, part: Coroutine[Any, Any, None], current: list[Any]) -> None:
        self.users.append(Task(self.host.create_task(part), current))

    def operation(self, at: int, is_send: bool, item: Item, **limits: Any) -> Any:
        channel = self.channels[at]
        return channel.send(item, **limits) if is_send else channel.receive(**limits)

    async def use(
        self, who: int, sides: list[tuple[int, bool]], times: int, limits: dict[str, Any], current: list[Any]
    ) -> None:
        """Do one of several operations, a number of times."""
        for _ in range(times):
            item = Item(who, self.made)
            self.made += 1
            is_offered = any(is_send for _, is_send in sides)
            if len(sides) > 1:
                operation: Any = select(
                    *(self.operation(at, is_send, item) for at, is_send in sides), **limits
                )
            else:
                operation = self.operation(*sides[0], item, **limits)
            current[:] = [(operation, sides)]
            try:
                result = await operation
            except ChannelTimeoutError:
                self.refused.add(item)
            except (ChannelClosedError, TokenCancelledError):
                self.refused.add(item)
                return
            except asyncio.CancelledError:
                if is_offered:
                    self.uncertain.add(item)
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
                current.clear()

    async def iterate(self, who: int, at: int, current: list[Any]) -> None:
        operation: Any = None
        while True:
            operation = self.channels[at].__anext__()
            current[:] = [(operation, [(at, False)])]
            try:
                self.got.append((who, at, await operation))
            except StopAsyncIteration:
                return
            finally:
                current.clear()

    # -- what is done to them ------------------------------------------------------------------------------------------

    def waiting(self) -> list[Task]:
        return [user for user in self.users if not user.task.done()]

    def served(self) -> list[Task]:
        return [user for user in self.waiting() if any(it.state == WaitState.DONE for it, _ in user.current)]

    def cancel(self, user: Task) -> None:
        for operation, sides in user.current:
            if operation.state == WaitState.DONE:
                self.reordered.update(at for at, _ in sides)
        user.task.cancel()

    def tick(self, number: int) -> None:
        async def turns() -> None:
            for _ in range(number):
                await asyncio.sleep(0)

        self.host.run_until_complete(turns())

    def settle(self) -> None:
        """Run until all tasks wait."""
        host: Any = self.host

        async def turns() -> None:
            for _ in range(2000):
                await asyncio.sleep(0)
                if not host._ready:
                    return
            raise AssertionError("they never come to rest")

        self.host.run_until_complete(turns())

    # -- the invariants_hold ------------------------------------------------------------------------------------------------------

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
                    for user in self.users
                    for _, sides in user.current
                ), f"they could serve each other: {books}"
            if books.capacity is CONFLATED:
                assert books.buffered <= 1, books
        for user in self.users:
            if user.task.done() and not user.task.cancelled():
                user.task.result()

    def check_at_rest(self) -> None:
        """Check that exactly the open operations are queued."""
        expected: Counter[tuple[int, bool]] = Counter()
        for user in self.users:
            for _, sides in user.current:
                assert not user.task.done()
                expected.update((at, is_send) for at, is_send in sides if not self.channels[at].is_closed)
        found: Counter[tuple[int, bool]] = Counter()
        for at, channel in enumerate(self.channels):
            books = channel.statistics()
            found.update({(at, True): books.senders, (at, False): books.receivers})
        assert +found == +expected

    def check_elements(self, left: list[tuple[int, Item]]) -> None:
        """Check where each element is. `left` is what is in the channels."""
        received = [item for _, _, item in self.got]
        seen = received + [item for _, item in left]
        assert len(set(seen)) == len(seen), "received twice"
        assert not self.refused & set(seen), "refused, and received"
        assert set(seen) <= set(self.sent) | self.uncertain, "from nowhere"
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
            if at not in self.reordered:
                assert last.get(key, -1) < item.number, f"{who} has got {item} too late"
            last[key] = item.number

    def end(self) -> None:
        try:
            self.settle()
            self.check()
            self.check_at_rest()
            for user in self.users:
                self.cancel(user)
            self.settle()
            assert all(user.task.done() for user in self.users)
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
# A bit for each; all of them are drawn more often.
subsets = st.just(15) | st.integers(1, 15)
waits = st.sampled_from([None, None, 0, 1, 3, 10])


class Channels(RuleBasedStateMachine):
    scenario: Scenario

    @initialize(kinds=st.lists(capacities, min_size=1, max_size=3))
    def begin(self, kinds: list[Capacity]) -> None:
        self.scenario = Scenario(kinds)
        self.who = 0

    def limits(self, wait: float | None, token: int) -> dict[str, Any]:
        tokens = self.scenario.tokens
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
    def use(self, sides: list[tuple[int, bool]], times: int, wait: float | None, token: int) -> None:
        scenario = self.scenario
        mine = list(dict.fromkeys((at % len(scenario.channels), is_send) for at, is_send in sides))
        current: list[Any] = []
        self.who += 1
        scenario.start(scenario.use(self.who, mine, times, self.limits(wait, token), current), current)

    @rule(at=numbers, is_send=st.booleans(), times=st.integers(1, 6), wait=waits, token=numbers)
    def use_one(self, at: int, is_send: bool, times: int, wait: float | None, token: int) -> None:
        self.use([(at, is_send)], times, wait, token)

    @rule(at=numbers)
    def iterate(self, at: int) -> None:
        current: list[Any] = []
        self.who += 1
        self.scenario.start(
            self.scenario.iterate(self.who, at % len(self.scenario.channels), current), current
        )

    @rule(at=numbers)
    def try_send(self, at: int) -> None:
        scenario = self.scenario
        item = Item(0, scenario.made)
        scenario.made += 1
        try:
            is_sent = scenario.channels[at % len(scenario.channels)].try_send(item)
        except ChannelClosedError:
            is_sent = False
        if is_sent:
            scenario.sent[item] = at % len(scenario.channels)
        else:
            scenario.refused.add(item)

    @rule(at=numbers)
    def try_receive(self, at: int) -> None:
        scenario = self.scenario
        self.who += 1
        with suppress(ChannelClosedError):
            item = scenario.channels[at % len(scenario.channels)].try_receive()
            if item is not None:
                scenario.got.append((self.who, at % len(scenario.channels), item))

    @precondition(lambda self: self.scenario.waiting())
    @rule(at=numbers)
    def cancel(self, at: int) -> None:
        waiting = self.scenario.waiting()
        self.scenario.cancel(waiting[at % len(waiting)])

    @precondition(lambda self: self.scenario.served())
    @rule(which=subsets)
    def cancel_served(self, which: int) -> None:
        """Cancel some tasks that were given an element and have not run since."""
        for at, user in enumerate(self.scenario.served()):
            if which >> at & 1:
                self.scenario.cancel(user)

    @rule(
        at=numbers,
        receivers=st.integers(1, 3),
        items=st.integers(1, 4),
        which=subsets,
        others=st.lists(numbers, max_size=1),
    )
    def hand_over(self, at: int, receivers: int, items: int, which: int, others: list[int]) -> None:
        """Do the whole sequence at once: at random it is rare."""
        for _ in range(receivers):
            self.use([(each, False) for each in (at, *others)], times=2, wait=None, token=1)
        self.tick(3)
        self.try_several(at, items)
        if self.scenario.served():
            self.cancel_served(which)
            self.tick(2)
            self.invariants_hold()

    @rule(at=numbers, times=st.integers(1, 4))
    def try_several(self, at: int, times: int) -> None:
        for _ in range(times):
            self.try_send(at)

    @rule(wait=waits, parent=numbers)
    def make_token(self, wait: float | None, parent: int) -> None:
        tokens = self.scenario.tokens
        above = tokens[parent % len(tokens)] if tokens and parent % 2 else None
        tokens.append(
            CancelToken(above, timeout=None if wait is None else wait / 1000, loop=self.scenario.loop)
        )

    @precondition(lambda self: self.scenario.tokens)
    @rule(at=numbers)
    def cancel_token(self, at: int) -> None:
        self.scenario.tokens[at % len(self.scenario.tokens)].cancel("a whim")

    @rule(at=numbers)
    def close(self, at: int) -> None:
        # Rarely: nothing happens in a closed channel.
        if at % 4 == 0:
            self.scenario.channels[at % len(self.scenario.channels)].close()

    @rule(number=st.integers(1, 4))
    def tick(self, number: int) -> None:
        self.scenario.tick(number)

    @rule(ms=st.sampled_from([1, 2, 5, 20]))
    def wait(self, ms: int) -> None:
        async def pass_by() -> None:
            await asyncio.sleep(ms / 1000)

        self.scenario.host.run_until_complete(pass_by())

    @rule()
    def rest(self) -> None:
        self.scenario.settle()
        self.scenario.check_at_rest()

    @invariant()
    def invariants_hold(self) -> None:
        if hasattr(self, "scenario"):
            self.scenario.check()

    def teardown(self) -> None:
        if hasattr(self, "scenario"):
            self.scenario.end()


TestChannels = Channels.TestCase
TestChannels.settings = settings(stateful_step_count=40, max_examples=2 * settings().max_examples)
TestChannels = pytest.mark.spec("K3")(
    pytest.mark.guarantee("G91", "G94", "G95", "G96", "G97")(pytest.mark.slow(TestChannels))
)
