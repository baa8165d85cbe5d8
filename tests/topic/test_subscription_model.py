"""One subscription of each policy against a list as a model: which events are delivered, in which order, and how many are missed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from bandstand.actor import Actor, ActorSystem, child, tell
from bandstand.core import Lagged, LoopConfig
from bandstand.supervision import SupervisorSpec, spawn_supervisor
from bandstand.testing import VirtualClock
from bandstand.topic import Policy, Topic, TopicSubscription
from tests.core.support import Boom, settle
from tests.topic.subscribers import Event


class Stepper(Actor):
    """Crashes when it is told to."""

    crashes = False

    def __init__(self, book: list[int]) -> None:
        self.book = book

    @tell
    def hear(self, event: Event) -> None:
        if Stepper.crashes:
            raise Boom("told to")
        self.book.append(event.number)


class Subscriptions(RuleBasedStateMachine):
    """The loop handles one message at a time, so each step of the model is one of the subscriber's."""

    topic: Topic[Event]
    subscription: TopicSubscription[Event]

    @initialize(
        policy=st.sampled_from(list(Policy)),
        room=st.integers(2, 4),
        keyed=st.booleans(),
        supervises=st.booleans(),
    )
    def begin(self, policy: Policy, room: int, keyed: bool, supervises: bool) -> None:
        Stepper.crashes = False
        self.clock = VirtualClock()
        config = LoopConfig(max_msgs_per_actor=1, max_actors_per_tick=1)
        self.loop = ActorSystem(config, clock=self.clock)
        self.policy, self.room = policy, room
        self.keyed = keyed and policy is Policy.CONFLATE
        self.supervises = supervises
        self.book: list[int] = []
        self.told: list[Lagged] = []
        self.loop.events.listen(lambda event: self.told.append(event) if isinstance(event, Lagged) else None)
        self.topic = Topic(self.loop, Event, name="events")
        spec = SupervisorSpec(children=(child("stepper").of(Stepper, self.book),), max_restarts=10_000)
        self.root = spawn_supervisor(self.loop, spec, name="root")
        handle = self.root.handle(Stepper, "stepper") if supervises else self.loop.spawn(Stepper, self.book)
        self.subscription = self.topic.subscribe(
            handle.hear, policy=policy, room=room, key=(lambda event: event.key) if self.keyed else None
        )
        settle(self.loop)
        # The model.
        self.number = 0
        self.at_hand: Event | None = None
        self.waiting: list[Event] = []
        self.seen: list[int] = []
        self.missed = 0
        self.lost = 0
        self.is_over = False

    def teardown(self) -> None:
        if hasattr(self, "loop"):
            self.subscription.cancel()
            assert sum(event.missed for event in self.told) == self.subscription.missed
            self.loop.destroy()
        Stepper.crashes = False

    def take(self, event: Event) -> bool:
        """What the policy says, of one event more."""
        if self.at_hand is None:
            self.at_hand = event
            return True
        if self.policy is Policy.CONFLATE:
            for place, other in enumerate(self.waiting):
                if not self.keyed or other.key == event.key:
                    self.waiting[place] = event
                    self.missed += 1
                    return True
        if len(self.waiting) < self.room - 1:
            self.waiting.append(event)
            return True
        if self.policy is Policy.CUT_OFF:
            self.missed += 1 + len(self.waiting)
            self.waiting.clear()
            self.is_over = True
            return False
        self.missed += 1
        if self.policy is Policy.DROP_NEWEST:
            return False
        self.waiting.pop(0)
        self.waiting.append(event)
        return True

    @rule(key=st.sampled_from("abcd"))
    def publish(self, key: str) -> None:
        event = Event(self.number, key)
        self.number += 1
        is_taken = False if self.is_over else self.take(event)
        assert self.topic.publish(event) == is_taken

    def next(self) -> None:
        self.at_hand = self.waiting.pop(0) if self.waiting else None

    @precondition(lambda self: self.at_hand is not None)
    @rule()
    def handle_one(self) -> None:
        assert self.at_hand is not None
        self.loop.poll_once()
        self.seen.append(self.at_hand.number)
        self.next()

    @precondition(lambda self: self.at_hand is not None)
    @rule()
    def crash_at_one(self) -> None:
        Stepper.crashes = True
        self.loop.poll_once()
        Stepper.crashes = False
        self.lost += 1
        if self.supervises:
            self.loop.poll_once()  # the supervisor hears of it
            self.next()
        else:
            self.lost += len(self.waiting)
            self.waiting.clear()
            self.at_hand = None
            self.is_over = True

    @rule(ms=st.integers(1, 1500))
    def wait(self, ms: int) -> None:
        if self.at_hand is None:
            self.clock.advance(ms / 1000)
            self.loop.poll_once()

    @invariant()
    def agrees(self) -> None:
        if not hasattr(self, "loop"):
            return
        subscription: Any = self.subscription
        assert self.book == self.seen
        assert subscription.handled == len(self.seen)
        assert subscription.missed == self.missed
        assert subscription.lost == self.lost
        assert subscription.waiting == len(self.waiting) + (self.at_hand is not None)
        assert subscription.waiting <= self.room
        assert subscription.is_active is not self.is_over
        if self.policy is not Policy.CONFLATE or not self.keyed:
            assert self.book == sorted(self.book)


Subscriptions.TestCase.settings = settings(stateful_step_count=30)
TestSubscriptions = pytest.mark.slow(
    pytest.mark.guarantee("G207", "G208", "G209", "G210", "G211")(Subscriptions.TestCase)
)
