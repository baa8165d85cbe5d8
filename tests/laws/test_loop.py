"""The whole loop: spawn, send, stop, fail, panic, timers and monitors in any order.

There is no model, but a record of everything that was done: each message has one fate, each lane keeps its order, each exit is reported
once, and the counters balance at every step.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from bandstand.core import (
    FAIL,
    STOP,
    ActorId,
    ActorStatus,
    ChildExit,
    Context,
    Down,
    ExitReason,
    Lane,
    Loop,
    LoopConfig,
    MonitorId,
    Overflow,
    TimerId,
    Verdict,
)
from bandstand.errors import InvalidTimerError, MailboxFullError, MaxActorsError, NoSuchActorError
from bandstand.testing import VirtualClock
from tests.core.support import USER_LANES, Boom, check_statistics, settle

user_lanes = st.sampled_from(USER_LANES)
actions = st.sampled_from(["note"] * 6 + ["stop", "fail", "panic", "stop itself", "pass on", "set timer"])


class Message(NamedTuple):
    number: int
    action: str


class Target(NamedTuple):
    target: ActorId
    lane: Lane


class WholeLoop(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.clock = VirtualClock()
        self.count = 0
        self.actors: list[ActorId] = []
        self.supervisor: dict[ActorId, ActorId | None] = {}
        self.accepted: dict[int, Target] = {}
        self.timers: dict[int, TimerId] = {}
        self.timer_of: dict[int, Target] = {}
        self.deadline: dict[int, int] = {}
        self.cancelled: set[int] = set()
        self.handled: list[tuple[int, Target]] = []
        self.dead: list[int] = []
        self.dropped: list[int] = []
        self.ended: dict[ActorId, ExitReason] = {}
        self.ends_told: Counter[ActorId] = Counter()
        self.exits_heard: Counter[tuple[ActorId, ActorId]] = Counter()
        self.exits_due: Counter[tuple[ActorId, ActorId]] = Counter()
        self.downs_heard: Counter[tuple[ActorId, ActorId]] = Counter()
        self.downs_due: Counter[tuple[ActorId, ActorId]] = Counter()
        self.monitors: list[tuple[MonitorId, ActorId, ActorId]] = []
        self.refused = 0

    @initialize(
        budget=st.integers(1, 5),
        visits=st.integers(1, 5),
        max_actors=st.integers(1, 12),
        cap=st.integers(5, 12),
    )
    def set_up(self, budget: int, visits: int, max_actors: int, cap: int) -> None:
        config = LoopConfig(
            max_msgs_per_actor=budget,
            max_actors_per_tick=visits,
            max_actors=max_actors,
            default_mailbox_cap=cap,
        )
        self.loop = Loop(config, clock=self.clock)
        self.loop.set_observer(self)

    # What the actors and the observer write into the ledger.

    def behavior(self, ctx: Context[Any], data: Message | ChildExit | Down) -> Verdict | None:
        me = ctx.self_id
        if isinstance(data, ChildExit):
            self.exits_heard[me, data.child] += 1
            return None
        if isinstance(data, Down):
            self.downs_heard[me, data.actor] += 1
            return None
        self.handled.append((data.number, Target(me, ctx.lane)))
        if data.action == "stop":
            return STOP
        if data.action == "fail":
            return FAIL
        if data.action == "panic":
            raise Boom(data)
        if data.action == "stop itself":
            ctx.loop.stop_actor(me)
        elif data.action == "pass on":
            self.do_send(self.actors[data.number % len(self.actors)], Lane.DATA, "note")
        elif data.action == "set timer":
            self.do_send_after(me, data.number % 4, Lane.CONTROL, "note")
        return None

    def on_actor_stop(self, id: ActorId, reason: ExitReason) -> None:  # noqa: A002 -- the hook's own name
        self.ends_told[id] += 1
        self.ended[id] = reason
        supervisor_id = self.supervisor[id]
        if supervisor_id is not None and self.loop.status(supervisor_id) < ActorStatus.STOPPING:
            self.exits_due[supervisor_id, id] += 1
        for entry in list(self.monitors):
            _, watcher, target = entry
            if id == watcher:
                self.monitors.remove(entry)
            elif id == target:
                self.monitors.remove(entry)
                self.downs_due[watcher, target] += 1

    def on_dead_letter(
        self, target: ActorId, lane: Lane, data: object, tag: int, sender: ActorId | int
    ) -> None:
        if isinstance(data, Message):
            self.dead.append(data.number)
        elif isinstance(data, ChildExit):
            self.exits_heard[target, data.child] += 1
        elif isinstance(data, Down):
            self.downs_heard[target, data.actor] += 1

    def on_dropped(self, target: ActorId, lane: Lane, data: object, tag: int, sender: ActorId | int) -> None:
        # Only a Message can be given up; anything else raises here, is contained, and shows in the books.
        self.dropped.append(data.number)  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownArgumentType]  # see above

    # What happens.

    def do_send(self, target: ActorId, lane: Lane, action: str) -> None:
        self.count += 1
        number = self.count
        # Written down first: an overflow policy may give it up inside the call.
        self.accepted[number] = Target(target, lane)
        try:
            self.loop.send(target, Message(number, action), lane=lane)
        except (NoSuchActorError, MailboxFullError):
            del self.accepted[number]
            self.refused += 1

    def do_send_after(self, target: ActorId, ms: int, lane: Lane, action: str) -> None:
        self.count += 1
        try:
            timer = self.loop.send_after(target, ms / 1000, Message(self.count, action), lane=lane)
        except NoSuchActorError:
            self.refused += 1
            return
        self.timers[self.count] = timer
        self.timer_of[self.count] = Target(target, lane)
        self.deadline[self.count] = self.clock.now_ns() + ms * 1_000_000

    @rule(data=st.data(), policy=st.sampled_from(Overflow), supervised=st.booleans())
    def spawn(self, data: st.DataObject, policy: Overflow, supervised: bool) -> None:
        living = [actor for actor in self.actors if actor not in self.ended]
        supervisor_id = data.draw(st.sampled_from(living)) if supervised and living else None
        try:
            actor = self.loop.spawn(self.behavior, supervisor=supervisor_id, overflow=policy)
        except MaxActorsError:
            assert len(living) == self.loop.config.max_actors
            return
        assert len(living) < self.loop.config.max_actors
        assert actor not in self.supervisor, "a new id is new"
        self.actors.append(actor)
        self.supervisor[actor] = supervisor_id

    @precondition(lambda self: bool(self.actors))
    @rule(data=st.data(), lane=user_lanes, action=actions, times=st.integers(1, 4))
    def send(self, data: st.DataObject, lane: Lane, action: str, times: int) -> None:
        target = data.draw(st.sampled_from(self.actors))
        for _ in range(times):
            self.do_send(target, lane, action)

    @precondition(lambda self: bool(self.actors))
    @rule(data=st.data(), lane=user_lanes, action=actions, ms=st.integers(0, 100))
    def send_after(self, data: st.DataObject, lane: Lane, action: str, ms: int) -> None:
        self.do_send_after(data.draw(st.sampled_from(self.actors)), ms, lane, action)

    @precondition(lambda self: bool(self.timers))
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(sorted(self.timers)))
        pending = self.timers[number].pending
        try:
            self.loop.cancel_timer(self.timers[number])
            assert pending
            self.cancelled.add(number)
        except InvalidTimerError:
            assert not pending
        del self.timers[number]

    @precondition(lambda self: bool(self.actors))
    @rule(data=st.data(), failing=st.booleans())
    def end(self, data: st.DataObject, failing: bool) -> None:
        actor = data.draw(st.sampled_from(self.actors))
        was_alive = actor not in self.ended
        try:
            if failing:
                self.loop.fail_actor(actor, "because")
            else:
                self.loop.stop_actor(actor)
            assert was_alive
            assert self.ended[actor] is (ExitReason.FAIL if failing else ExitReason.NORMAL)
        except NoSuchActorError:
            assert not was_alive

    @precondition(lambda self: len(self.actors) > 1)
    @rule(data=st.data())
    def monitor(self, data: st.DataObject) -> None:
        watcher, target = data.draw(st.sampled_from(self.actors)), data.draw(st.sampled_from(self.actors))
        try:
            monitor = self.loop.monitor(watcher, target)
        except NoSuchActorError:
            assert watcher in self.ended
            return
        if target in self.ended:
            self.downs_due[watcher, target] += 1
        elif watcher != target:
            self.monitors.append((monitor, watcher, target))

    @precondition(lambda self: bool(self.monitors))
    @rule(data=st.data())
    def demonitor(self, data: st.DataObject) -> None:
        entry = data.draw(st.sampled_from(self.monitors))
        assert self.loop.demonitor(entry[0])
        self.monitors.remove(entry)

    @rule()
    def tick(self) -> None:
        self.loop.poll_once()

    @rule(ms=st.integers(0, 60))
    def advance(self, ms: int) -> None:
        self.clock.advance(ms / 1000)

    # What must hold.

    @invariant()
    def counters_balance(self) -> None:
        if not hasattr(self, "loop"):
            return
        check_statistics(self.loop)
        assert not self.ends_told or max(self.ends_told.values()) == 1
        books = self.loop.statistics()
        assert books.refused == self.refused
        assert books.dropped == len(self.dropped)
        assert books.alive == len(self.actors) - len(self.ended)
        reasons = Counter(self.ended.values())
        assert (books.ended_normal, books.ended_fail, books.ended_panic) == (
            reasons[ExitReason.NORMAL],
            reasons[ExitReason.FAIL],
            reasons[ExitReason.PANIC],
        )
        assert books.timers_cancelled == len(self.cancelled)

    @invariant()
    def at_most_one_fate_each(self) -> None:
        fates = Counter([number for number, _ in self.handled] + self.dead + self.dropped)
        assert not fates or max(fates.values()) == 1
        assert not self.cancelled & set(fates)
        assert set(fates) <= set(self.accepted) | set(self.timer_of)

    @invariant()
    def each_by_its_own_actor_and_lane(self) -> None:
        for number, where in self.handled:
            assert where == (self.accepted.get(number) or self.timer_of[number])

    @invariant()
    def every_lane_in_order(self) -> None:
        lanes: dict[Target, list[int]] = {}
        for number, where in self.handled:
            if number in self.accepted:
                lanes.setdefault(where, []).append(number)
        for numbers in lanes.values():
            assert numbers == sorted(numbers)
        for number, _ in self.handled:
            if number in self.timer_of:
                assert self.deadline[number] <= self.clock.now_ns(), "never early"

    @invariant()
    def exits_and_downs_have_a_cause(self) -> None:
        assert all(count <= self.exits_due[key] for key, count in self.exits_heard.items())
        assert all(count <= self.downs_due[key] for key, count in self.downs_heard.items())

    def teardown(self) -> None:
        if not hasattr(self, "loop"):
            return
        settle(self.loop)
        while self.loop.statistics().timers_pending:
            # A handled timer may set another.
            self.clock.advance(0.1)
            settle(self.loop)
        # Now every message has exactly one fate, and every exit was received.
        fates = {number for number, _ in self.handled} | set(self.dead) | set(self.dropped)
        assert set(self.accepted) <= fates
        assert self.exits_heard == self.exits_due
        assert self.downs_heard == self.downs_due
        books = self.loop.statistics()
        assert (books.waiting, books.ready, books.timers_pending) == (0, 0, 0)
        fired = {number for number in self.timer_of if number in fates}
        assert books.timers_fired == len(fired)
        assert books.timers_released == len(self.timer_of) - len(fired) - len(self.cancelled)
        self.loop.destroy()
        assert len(self.ended) == len(self.actors)


TestWholeLoop = pytest.mark.spec("J2", "J4", "J7", "J11", "J13", "J24")(
    pytest.mark.guarantee("G1", "G3", "G4", "G5", "G10", "G16", "G17", "G19", "G21", "G23")(
        WholeLoop.TestCase
    )
)
