"""`HandleWatch`: cancelling while callbacks run."""

from __future__ import annotations

import pytest

from bandstand.actor import Actor, ActorSystem, child, tell
from bandstand.actor.handle_watch import HandleWatch
from tests.actor.workers import one_for_one
from tests.core.support import Boom, settle


class Worker(Actor):
    @tell
    def crash(self) -> None:
        raise Boom("crash")


@pytest.mark.guarantee("G204")
def test_a_watch_that_is_cancelled_during_notification_is_not_called(loop: ActorSystem) -> None:
    root = one_for_one(loop, child("worker").of(Worker))
    settle(loop)
    worker = root.handle(Worker, "worker")
    told: list[str] = []

    def first_came() -> None:
        told.append("first")
        second.cancel()

    first = HandleWatch(loop, worker, lambda: None, first_came)
    second = HandleWatch(loop, worker, lambda: None, lambda: told.append("second"))
    worker.crash()
    settle(loop)
    first.cancel()
    assert told == ["first"]
    followers = root._actor.children.slots["worker"].watchers  # pyright: ignore[reportPrivateUsage]  # what is left of them
    assert not followers
