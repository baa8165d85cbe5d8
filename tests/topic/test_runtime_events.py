"""The events of the loop as a topic."""

from __future__ import annotations

from typing import Any

import pytest

from bandstand.actor import ActorSystem, id_of
from bandstand.core import DeadLetter, Dropped, Escalated, Lagged, Lane, Overflow, RuntimeEvent
from bandstand.testing import VirtualClock
from bandstand.topic import Policy, runtime_events
from tests.core.support import settle
from tests.topic.subscribers import Listener, heard_by, missed_in, publish, topic_of

pytestmark = pytest.mark.guarantee("G214")


def tell(loop: ActorSystem, count: int) -> None:
    actor = id_of(loop.spawn(Listener, []))
    for _ in range(count):
        loop.events.tell(Escalated(actor))


def test_events_of_the_loop_are_published(loop: ActorSystem) -> None:
    book: list[RuntimeEvent] = []
    topic = runtime_events(loop)
    topic.subscribe(loop.spawn(Listener, book).runtime)
    tell(loop, 2)
    prices = topic_of(loop)
    prices.subscribe(loop.spawn(Listener, []).hear, policy=Policy.DROP_NEWEST, room=1)
    publish(prices, 1, 2)
    settle(loop)
    assert [type(event) for event in book] == [Escalated, Escalated, Lagged]
    topic.close()
    tell(loop, 1)
    settle(loop)
    assert len(book) == 3


@pytest.mark.parametrize("topics", [1, 2])
def test_lag_events_do_not_cause_lag_events(loop: ActorSystem, clock: VirtualClock, topics: int) -> None:
    """Nothing happens any more, and so nothing more is told, however many topics of events lag."""
    heard = heard_by(loop)
    book: list[Any] = []
    subscriptions = [
        runtime_events(loop).subscribe(loop.spawn(Listener, book).runtime, policy=Policy.DROP_NEWEST, room=1)
        for _ in range(topics)
    ]
    tell(loop, 10)
    assert [each.missed for each in subscriptions] == [9] * topics
    for _ in range(10):
        clock.advance(1.001)
        loop.poll_once()
    assert sum(missed_in(heard)) == 9 * topics
    assert len(heard) == 10 + 2 * topics
    assert [type(event) for event in book] == [Escalated] * topics
    assert [each.missed for each in subscriptions] == [9] * topics


def test_the_outcome_of_a_runtime_event_is_no_event(loop: ActorSystem) -> None:
    """A mailbox that drops what it is sent, and a loop that tells of everything that is dropped: they would never end."""
    book: list[Any] = []
    listener = loop.options(mailbox=2, overflow=Overflow.DROP_NEWEST).spawn(Listener, book)
    target = id_of(listener)

    class Teller:
        def on_dropped(self, target: Any, lane: Lane, data: object, tag: object, sender: object) -> None:
            loop.events.tell(Dropped(target, lane, data, "runtime"))

    loop.set_observer(Teller())
    subscription = runtime_events(loop).subscribe(listener.runtime)
    for what in range(2):
        listener.other(what)
    tell(loop, 1)
    assert subscription.missed == 1
    loop.events.tell(DeadLetter(target, Lane.DATA, (Escalated(target),), "runtime"))
    settle(loop)
    assert book == [0, 1]
    loop.set_observer(None)
