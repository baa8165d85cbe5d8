"""The subscription of a supervised child survives its restarts."""

from __future__ import annotations

from typing import Any

import pytest

from bandstand.actor import ActorSystem, child
from bandstand.supervision import Backoff, RestartPolicy
from bandstand.testing import VirtualClock
from bandstand.topic import Policy
from tests.actor.workers import one_for_one
from tests.core.support import settle
from tests.topic.subscribers import Listener, publish, topic_of

pytestmark = pytest.mark.guarantee("G211")


def test_events_wait_while_a_subscriber_is_down(loop: ActorSystem, clock: VirtualClock) -> None:
    book: list[Any] = []
    root = one_for_one(loop, child("listener", backoff=Backoff(initial=0.1)).of(Listener, book))
    topic = topic_of(loop)
    handle = root.handle(Listener, "listener")
    subscription = topic.subscribe(handle.hear, policy=Policy.DROP_OLDEST, room=3)
    handle.crash()
    settle(loop)
    assert publish(topic, 1, 2, 3, 4, 5) == [1] * 5
    assert (subscription.waiting, subscription.missed) == (3, 2)
    clock.advance(0.2)
    settle(loop)
    assert book == [3, 4, 5]


def test_a_subscription_ends_with_its_child(loop: ActorSystem) -> None:
    root = one_for_one(loop, child("listener", restart=RestartPolicy.NEVER).of(Listener, []))
    topic = topic_of(loop)
    handle = root.handle(Listener, "listener")
    subscription = topic.subscribe(handle.hear)
    handle.crash()
    publish(topic, 1, 2, 3)
    settle(loop)
    assert not subscription.is_active
    assert (topic.subscribers, subscription.lost, subscription.waiting) == (0, 3, 0)


def test_a_draining_subscriber_gets_no_more(loop: ActorSystem) -> None:
    book: list[Any] = []
    root = one_for_one(loop, child("listener").of(Listener, book))
    topic = topic_of(loop)
    handle = root.handle(Listener, "listener")
    subscription = topic.subscribe(handle.hear)
    publish(topic, 1, 2, 3)
    handle.stop(drain=True)
    publish(topic, 4)
    settle(loop)
    assert book == [1, 2, 3, 4]
    assert (subscription.handled, subscription.lost, subscription.missed) == (4, 0, 0)
