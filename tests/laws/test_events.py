"""The books of events, what listeners have seen, and what was caused are one number each, whatever happens in whatever order."""

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
        """Take it."""


class Ear:
    """A listener: what it has heard, and what has happened since it listens."""

    def __init__(self) -> None:
        self.heard: Counter[type] = Counter()
        self.due: Counter[type] = Counter()
        self.listening: EventSubscription | None = None

    def hear(self, event: RuntimeEvent) -> None:
        self.heard[type(event)] += 1


class Events(RuleBasedStateMachine):
    """Causes events, and keeps its own books of them."""

    @initialize()
    def begin(self) -> None:
        self.loop = ActorSystem(LoopConfig(sys_reserved=RESERVE), clock=VirtualClock())
        self.caused: Counter[type] = Counter()
        self.ears: list[Ear] = []
        self.boxes: list[tuple[ActorId, int]] = []
        spec = SupervisorSpec(children=[child("one").of(Plain)], max_restarts=1_000_000, period=1.0)
        self.boss: Supervisor = spawn_supervisor(self.loop, spec, name="boss")

    def cause(self, kind: type, count: int = 1) -> None:
        self.caused[kind] += count
        for ear in self.ears:
            if ear.listening is not None:
                ear.due[kind] += count

    @rule()
    def listen(self) -> None:
        ear = Ear()
        ear.listening = self.loop.events.listen(ear.hear)
        self.ears.append(ear)

    @rule(place=st.integers(0, 5))
    def listen_no_more(self, place: int) -> None:
        if place < len(self.ears):
            ear = self.ears[place]
            if ear.listening is not None:
                assert ear.listening.cancel()
                ear.listening = None

    @rule(
        count=st.integers(0, 2 * CAP),
        policy=st.sampled_from([Overflow.DROP_NEWEST, Overflow.DROP_OLDEST, Overflow.CONFLATE]),
    )
    def fill(self, count: int, policy: Overflow) -> None:
        actor = self.loop.spawn_raw(idle, mailbox_cap=CAP, overflow=policy)
        for number in range(count):
            self.loop.send(actor, number)
        room = CAP - RESERVE
        self.cause(Dropped, max(0, count - room))
        self.boxes.append((actor, min(count, room)))

    @rule()
    def stop(self) -> None:
        if self.boxes:
            actor, unread = self.boxes.pop()
            self.loop.stop_actor(actor)
            self.cause(DeadLetter, unread)

    @rule()
    def crash(self) -> None:
        actor = self.boss.child("one")
        assert actor is not None
        self.loop.fail_actor(actor, "crash")
        self.tick()
        self.cause(Restarted)

    @rule(count=st.integers(1, 3))
    def send_past_a_handle(self, count: int) -> None:
        actor = self.boss.child("one")
        assert actor is not None
        for number in range(count):
            self.loop.send(actor, number)
        self.tick()
        self.cause(Unhandled, count)

    @rule(event=st.sampled_from([Lagged("a", "b", 1, is_cut_off=False)]))
    def told_by_others(self, event: Lagged) -> None:
        self.loop.events.tell(event)
        self.cause(type(event))

    @rule()
    def give_up_for_others(self) -> None:
        self.loop.events.tell(DeadLetter(self.boss.actor, Lane.DATA, "given up", "str"))
        self.cause(DeadLetter)

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
        } == {kind: self.caused[kind] for kind in KINDS}
        assert counts.untold == 0
        for ear in self.ears:
            assert ear.heard == ear.due

    def teardown(self) -> None:
        if not hasattr(self, "loop"):
            return
        unread = sum(count for _, count in self.boxes)
        self.loop.destroy()
        self.cause(DeadLetter, unread)
        for ear in self.ears:
            ear.listening = None
        self.the_books_agree()


TestEvents = pytest.mark.guarantee("G255", "G256")(Events.TestCase)
