"""Room and policies: which events wait, which are dropped, and that a topic never fills a mailbox."""

from __future__ import annotations

from typing import Any

import pytest

from bandstand.actor import ActorSystem, id_of
from bandstand.core import DeadLetter, Lagged
from bandstand.errors import MailboxFullError
from bandstand.topic import Policy
from tests.core.support import settle
from tests.topic.subscribers import Event, Listener, heard_by, publish, topic_of


@pytest.mark.guarantee("G208")
def test_events_wait_for_a_full_mailbox(loop: ActorSystem) -> None:
    topic = topic_of(loop)
    book: list[Any] = []
    listener = loop.options(mailbox=2).spawn(Listener, book)
    subscription = topic.subscribe(listener.hear, room=4)
    listener.other("a")
    listener.other("b")
    with pytest.raises(MailboxFullError):
        listener.other("c")
    assert publish(topic, 1, 2, 3) == [1, 1, 1]
    assert subscription.waiting == 3
    settle(loop)
    assert book == ["a", "b", 1, 2, 3]
    assert (subscription.missed, subscription.handled) == (0, 3)


@pytest.mark.guarantee("G209")
def test_the_latest_of_each_key(loop: ActorSystem) -> None:
    topic = topic_of(loop)
    book: list[int] = []
    subscription = topic.subscribe(
        loop.spawn(Listener, book).hear, policy=Policy.CONFLATE, key=lambda event: event.key, room=4
    )
    for number, key in enumerate("xabcab"):
        topic.publish(Event(number, key))
    settle(loop)
    assert book == [0, 4, 5, 3]  # a's and b's latest are where their first ones were
    for number, key in enumerate("xabcde"):
        topic.publish(Event(number, key))
    settle(loop)
    assert book[4:] == [0, 3, 4, 5]  # of more keys than there is room for, the oldest go
    assert subscription.missed == 4


@pytest.mark.guarantee("G209", "G210")
def test_cut_off_ends_the_subscription(loop: ActorSystem) -> None:
    topic = topic_of(loop)
    heard = heard_by(loop)
    book: list[Any] = []
    listener = loop.spawn(Listener, book)
    other = topic.subscribe(loop.spawn(Listener, []).hear)
    subscription = topic.subscribe(listener.hear, policy=Policy.CUT_OFF, room=3, on_lag=listener.lagging)
    assert publish(topic, 1, 2, 3, 4, 5) == [2, 2, 2, 1, 1]
    assert not subscription.is_active
    assert other.is_active
    settle(loop)
    assert book == [
        1,
        ("lag", 3, True),
    ]  # the one it had been sent, and that it was cut off; nothing after it
    assert heard == [Lagged("events", f"{listener!r}.hear", 3, is_cut_off=True)]
    assert (subscription.missed, subscription.handled, subscription.waiting) == (3, 1, 0)
    assert not subscription.cancel()


@pytest.mark.guarantee("G212")
def test_a_key_function_that_raises(loop: ActorSystem, caplog: pytest.LogCaptureFixture) -> None:
    topic = topic_of(loop)
    good: list[int] = []
    bad: list[int] = []

    def key(event: Event) -> str:
        if event.number == 2:
            raise KeyError("no key")
        return event.key

    subscription = topic.subscribe(loop.spawn(Listener, bad).hear, policy=Policy.CONFLATE, key=key)
    topic.subscribe(loop.spawn(Listener, good).hear)
    for number in (1, 2, 3):
        topic.publish(Event(number))
        settle(loop)
    assert (good, bad, subscription.missed) == ([1, 2, 3], [1, 3], 1)
    assert "missed an event" in caplog.text


@pytest.mark.guarantee("G211", "G212")
def test_an_ended_subscriber_is_removed_at_once(loop: ActorSystem) -> None:
    topic = topic_of(loop)
    heard = heard_by(loop)
    listener = loop.spawn(Listener, [])
    actor = id_of(listener)
    subscription = topic.subscribe(listener.hear)
    publish(topic, 1, 2, 3)
    listener.stop()
    assert topic.subscribers == 0
    assert publish(topic, 4) == [0]
    assert (subscription.lost, subscription.waiting, subscription.is_active) == (3, 0, False)
    letters = [event for event in heard if isinstance(event, DeadLetter) and "of 'events'" in event.what]
    assert [(letter.target, letter.data) for letter in letters] == [(actor, Event(2)), (actor, Event(3))]


@pytest.mark.guarantee("G212")
def test_a_subscriber_that_crashes_does_not_affect_others(loop: ActorSystem) -> None:
    topic = topic_of(loop)
    bad: list[int] = []
    good: list[Any] = []
    broken = topic.subscribe(loop.spawn(Listener, bad).hear)
    topic.subscribe(loop.spawn(Listener, good).other)
    publish(topic, 1, -1, 2)
    settle(loop)
    assert bad == [1]
    assert (broken.handled, broken.lost, broken.is_active) == (1, 2, False)
    assert topic.subscribers == 1
    publish(topic, 3)
    settle(loop)
    assert good == [Event(1), Event(-1), Event(2), Event(3)]
