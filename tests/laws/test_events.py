"""Runtime events: the counters, what listeners have seen, and what has happened agree."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from bandstand.actor import Actor, ActorSystem, child, tell
from bandstand.core import (
    ActorId,
    DeadLetter,
    Dropped,
    Escalated,
    EventSubscription,
    Lagged,
    Lane,
    LoopConfig,
    Overflow,
    Restarted,
    RuntimeEvent,
    Unhandled,
)
from bandstand.supervision import Supervisor, SupervisorSpec, spawn_supervisor
from bandstand.testing import VirtualClock
from tests.core.support import idle

CAP = 4
RESERVE = 1
KINDS = (DeadLetter, Dropped, Escalated, Lagged, Restarted, Unhandled)


class Plain(Actor):
    @tell
    def take(self, n: int) -> None:
        """Ignore it."""


class Listener:
    """What a listener has seen, and what it should have seen."""

    def __init__(self) -> None:
        self.seen: Counter[type] = Counter()
        self.due: Counter[type] = Counter()
        self.listening: EventSubscription | None = None

    def receive(self, event: RuntimeEvent) -> None:
        self.seen[type(event)] += 1


class Events(RuleBasedStateMachine):
    """Causes events, and counts them."""

    @initialize()
    def begin(self) -> None:
        self.loop = ActorSystem(LoopConfig(sys_reserved=RESERVE), clock=VirtualClock())
        self.expected: Counter[type] = Counter()
        self.listeners: list[Listener] = []
        self.boxes: list[tuple[ActorId, int]] = []
        spec = SupervisorSpec(children=[child("one").of(Plain)], max_restarts=1_000_000, period=1.0)
        self.boss: Supervisor = spawn_supervisor(self.loop, spec, name="boss")

    def expect(self, kind: type, count: int = 1) -> None:
        self.expected[kind] += count
        for listener in self.listeners:
            if listener.listening is not None:
                listener.due[kind] += count

    @rule()
    def listen(self) -> None:
        listener = Listener()
        listener.listening = self.loop.events.listen(listener.receive)
        self.listeners.append(listener)

    @rule(place=st.integers(0, 5))
    def listen_no_more(self, place: int) -> None:
        if place < len(self.listeners):
            listener = self.listeners[place]
            if listener.listening is not None:
                assert listener.listening.cancel()
                listener.listening = None

    @rule(
        count=st.integers(0, 2 * CAP),
        policy=st.sampled_from([Overflow.DROP_NEWEST, Overflow.DROP_OLDEST, Overflow.CONFLATE]),
    )
    def fill(self, count: int, policy: Overflow) -> None:
        actor = self.loop.spawn_raw(idle, mailbox_cap=CAP, overflow=policy)
        for number in range(count):
            self.loop.send(actor, number)
        room = CAP - RESERVE
        self.expect(Dropped, max(0, count - room))
        self.boxes.append((actor, min(count, room)))

    @rule()
    def stop(self) -> None:
        if self.boxes:
            actor, unread = self.boxes.pop()
            self.loop.stop_actor(actor)
            self.expect(DeadLetter, unread)

    @rule()
    def crash(self) -> None:
        actor = self.boss.child("one")
        assert actor is not None
        self.loop.fail_actor(actor, "crash")
        self.tick()
        self.expect(Restarted)

    @rule(count=st.integers(1, 3))
    def send_past_a_handle(self, count: int) -> None:
        actor = self.boss.child("one")
        assert actor is not None
        for number in range(count):
            self.loop.send(actor, number)
        self.tick()
        self.expect(Unhandled, count)

    @rule(event=st.sampled_from([Lagged("a", "b", 1, is_cut_off=False)]))
    def told_by_others(self, event: Lagged) -> None:
        self.loop.events.tell(event)
        self.expect(type(event))

    @rule()
    def give_up_for_others(self) -> None:
        self.loop.events.tell(DeadLetter(self.boss.actor, Lane.DATA, "given up", "str"))
        self.expect(DeadLetter)

    @rule()
    def tick(self) -> None:
        for _ in range(3):
            self.loop.poll_once()
        self.boxes = [(actor, 0) for actor, _ in self.boxes]

    @invariant()
    def the_books_agree(self) -> None:
        if not hasattr(self, "loop"):
            return
        counts = self.loop.events.counts()
        assert {
            DeadLetter: counts.dead_letters,
            Dropped: counts.dropped,
            Escalated: counts.escalations,
            Lagged: counts.lagged,
            Restarted: counts.restarts,
            Unhandled: counts.unhandled,
        } == {kind: self.expected[kind] for kind in KINDS}
        assert counts.untold == 0
        for listener in self.listeners:
            assert listener.seen == listener.due

    def teardown(self) -> None:
        if not hasattr(self, "loop"):
            return
        unread = sum(count for _, count in self.boxes)
        self.loop.destroy()
        self.expect(DeadLetter, unread)
        for listener in self.listeners:
            listener.listening = None
        self.the_books_agree()


TestEvents = pytest.mark.guarantee("G255", "G256")(Events.TestCase)
