"""One mailbox, compared with four deques: lanes, caps, overflow policies and reserved slots."""

from __future__ import annotations

from collections import deque
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from bandstand.core import ActorId, ChildExit, Context, Down, Lane, Loop, LoopConfig, Overflow
from bandstand.errors import MailboxFullError
from bandstand.testing import VirtualClock
from tests.core.support import USER_LANES, check_statistics, idle

user_lanes = st.sampled_from(USER_LANES)


class MailboxAgainstDeques(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.model: dict[Lane, deque[object]] = {lane: deque() for lane in Lane}
        self.seen: list[tuple[Lane, object]] = []
        self.dropped: list[object] = []
        self.children: list[ActorId] = []
        self.monitored: list[ActorId] = []
        self.count = 0
        self.refused = 0

    @initialize(
        cap=st.integers(5, 24),
        reserve=st.integers(1, 4),
        budget=st.integers(1, 70),
        policy=st.sampled_from(Overflow),
    )
    def set_up(self, cap: int, reserve: int, budget: int, policy: Overflow) -> None:
        self.loop = Loop(
            LoopConfig(sys_reserved=reserve, max_msgs_per_actor=budget, max_actors_per_tick=1),
            clock=VirtualClock(),
        )
        self.loop.set_observer(self)
        self.room, self.budget, self.policy = cap - reserve, budget, policy
        self.actor = self.loop.spawn(self.behavior, mailbox_cap=cap, overflow=policy)

    def behavior(self, ctx: Context[Any], data: object) -> None:
        self.seen.append((ctx.lane, data))

    def on_dropped(self, target: ActorId, lane: Lane, data: object, tag: int, sender: ActorId | int) -> None:
        self.dropped.append(data)

    @rule(lane=user_lanes, trying=st.booleans(), times=st.integers(1, 6))
    def send(self, lane: Lane, trying: bool, times: int) -> None:
        for _ in range(times):
            self.count += 1
            line = self.model[lane]
            dropped: list[object] = []
            accepted = True
            if len(line) < self.room:
                line.append(self.count)
            elif self.policy is Overflow.REJECT:
                accepted = False
                self.refused += 1
            else:
                if self.policy is Overflow.DROP_OLDEST:
                    dropped.append(line.popleft())
                elif self.policy is Overflow.CONFLATE:
                    dropped.append(line.pop())
                if self.policy is Overflow.DROP_NEWEST:
                    dropped.append(self.count)
                else:
                    line.append(self.count)
            self.dropped.clear()
            if trying:
                assert self.loop.try_send(self.actor, self.count, lane=lane) is accepted
            else:
                refusal = self.refusal(lane)
                assert (refusal is None) is accepted
                if refusal is not None:
                    assert (refusal.depth, refusal.lane) == (len(line), lane.name)
            assert self.dropped == dropped

    def refusal(self, lane: Lane) -> MailboxFullError | None:
        try:
            self.loop.send(self.actor, self.count, lane=lane)
        except MailboxFullError as error:
            return error
        return None

    @rule()
    def spawn_child(self) -> None:
        self.children.append(self.loop.spawn(idle, supervisor=self.actor))

    @rule()
    def monitor_an_actor(self) -> None:
        monitored_actor = self.loop.spawn(idle)
        self.loop.monitor(self.actor, monitored_actor)
        self.monitored.append(monitored_actor)

    @rule(data=st.data(), failing=st.booleans())
    def end_an_actor(self, data: st.DataObject, failing: bool) -> None:
        """Exits and downs always arrive, on SYSTEM."""
        living = self.children + self.monitored
        if not living:
            return
        actor = data.draw(st.sampled_from(living))
        (self.children if actor in self.children else self.monitored).remove(actor)
        self.loop.fail_actor(actor) if failing else self.loop.stop_actor(actor)
        self.model[Lane.SYSTEM].append(actor)

    @rule()
    def visit(self) -> None:
        """One tick makes one visit; it takes by priority, up to its budget."""
        self.seen.clear()
        expected: list[tuple[Lane, object]] = []
        while len(expected) < self.budget:
            lane = next((lane for lane in Lane if self.model[lane]), None)
            if lane is None:
                break
            expected.append((lane, self.model[lane].popleft()))
        assert self.loop.poll_once() == len(expected)
        actual = [
            (
                lane,
                data.child if isinstance(data, ChildExit) else data.actor if isinstance(data, Down) else data,
            )
            for lane, data in self.seen
        ]
        assert actual == expected

    @invariant()
    def the_books_know(self) -> None:
        if not hasattr(self, "loop"):
            return
        books = self.loop.statistics()
        assert books.waiting == sum(len(line) for line in self.model.values())
        assert books.refused == self.refused
        assert books.ready == (books.waiting > 0)
        check_statistics(self.loop)

    def teardown(self) -> None:
        if hasattr(self, "loop"):
            waiting = self.loop.statistics().waiting
            self.loop.set_observer(None)
            self.loop.stop_actor(self.actor)
            assert self.loop.statistics().dead == waiting
            self.loop.destroy()


TestMailboxAgainstDeques = pytest.mark.spec("J5", "J6", "J7", "S4")(
    pytest.mark.guarantee("G5", "G6", "G7", "G8", "G9", "G12")(MailboxAgainstDeques.TestCase)
)
