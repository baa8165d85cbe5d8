"""The subscription of a supervisor's child goes on with its next incarnation."""

from __future__ import annotations

from typing import Any

import pytest

from bandstand.actor import ActorSystem, child
from bandstand.supervision import Backoff, RestartPolicy
from bandstand.testing import VirtualClock
from bandstand.topic import Policy
from tests.actor.workers import one_for_one
from tests.core.support import settle
from tests.topic.players import Event, Listener, publish, topic_of

pytestmark = pytest.mark.guarantee("G211")


def test_what_waits_goes_to_the_next_one(loop: ActorSystem) -> None:
    book: list[Any] = []
    root = one_for_one(loop, child("listener").of(Listener, book))
    topic = topic_of(loop)
    subscription = topic.subscribe(root.handle(Listener, "listener").hear)
    publish(topic, 1, -1, 2, -2, 3)
    settle(loop)
    assert book == [1, 2, 3]
    assert (subscription.handled, subscription.lost, subscription.is_active) == (3, 2, True)


def test_while_nobody_is_there_they_wait_in_its_room(loop: ActorSystem, clock: VirtualClock) -> None:
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


def test_a_mailbox_that_is_kept_keeps_the_one_that_was_sent(loop: ActorSystem) -> None:
    book: list[Any] = []
    root = one_for_one(loop, child("listener", keep_mailbox=True).of(Listener, book))
    topic = topic_of(loop)
    handle = root.handle(Listener, "listener")
    subscription = topic.subscribe(handle.hear)
    handle.crash()
    publish(topic, 1, 2)
    settle(loop)
    assert book == [1, 2]
    assert (subscription.handled, subscription.lost) == (2, 0)


def test_it_ends_when_the_place_is_gone(loop: ActorSystem) -> None:
    root = one_for_one(loop, child("listener", restart=RestartPolicy.NEVER).of(Listener, []))
    topic = topic_of(loop)
    handle = root.handle(Listener, "listener")
    subscription = topic.subscribe(handle.hear)
    handle.crash()
    publish(topic, 1, 2, 3)
    settle(loop)
    assert not subscription.is_active
    assert (topic.subscribers, subscription.lost, subscription.waiting) == (0, 3, 0)


def test_one_that_drains_gets_no_more_and_its_successor_does(loop: ActorSystem) -> None:
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


def test_one_that_drains_for_good_takes_what_waits_with_it(loop: ActorSystem) -> None:
    book: list[Any] = []
    topic = topic_of(loop)
    listener = loop.spawn(Listener, book)
    subscription = topic.subscribe(listener.hear)
    publish(topic, 1, 2, 3)
    listener.stop(drain=True)
    settle(loop)
    assert book == [1]
    assert (subscription.handled, subscription.lost, subscription.is_active) == (1, 2, False)
    assert topic.publish(Event(4)) == 0
