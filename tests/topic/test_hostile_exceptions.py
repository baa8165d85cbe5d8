"""A subscriber that raises an exception which cannot be shown is started again, and hears the next event."""

from __future__ import annotations

from typing import Any

import pytest

from bandstand.actor import Actor, ActorSystem, child, tell
from tests.actor.workers import one_for_one
from tests.core.support import settle
from tests.hostile import HOW, hostile
from tests.topic.subscribers import Event, publish, topic_of


class Raiser(Actor):
    def __init__(self, book: list[Any], how: str) -> None:
        self.book = book
        self.how = how

    @tell
    def hear(self, event: Event) -> None:
        if event.number < 0:
            raise hostile(self.how)
        self.book.append(event.number)


@pytest.mark.guarantee("G282")
@pytest.mark.parametrize("how", HOW)
def test_the_subscription_goes_on(loop: ActorSystem, how: str) -> None:
    book: list[Any] = []
    root = one_for_one(loop, child("raiser").of(Raiser, book, how))
    topic = topic_of(loop)
    subscription = topic.subscribe(root.handle(Raiser, "raiser").hear)
    publish(topic, 1, -1, 2)
    settle(loop)
    assert book == [1, 2]
    assert (subscription.handled, subscription.lost, subscription.is_active) == (2, 1, True)
