"""Lag: what is reported adds up to what was missed, at most once a second."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bandstand.actor import ActorSystem, id_of
from bandstand.core import Lagged, LoopConfig
from bandstand.testing import VirtualClock
from bandstand.topic import Policy
from tests.core.support import fill, settle
from tests.topic.subscribers import Listener, heard_by, missed_in, publish, topic_of

pytestmark = pytest.mark.guarantee("G210")


def test_lag_is_reported_at_once_and_then_each_second(loop: ActorSystem, clock: VirtualClock) -> None:
    topic = topic_of(loop)
    heard = heard_by(loop)
    listener = loop.options(name="slow").spawn(Listener, [])
    subscription = topic.subscribe(listener.hear, policy=Policy.DROP_NEWEST, room=1)
    publish(topic, 1, 2)
    assert heard == [Lagged("events", f"{listener!r}.hear", 1, is_cut_off=False)]
    publish(topic, 3, 4, 5)
    assert missed_in(heard) == [1]
    clock.advance(1.001)
    loop.poll_once()
    assert missed_in(heard) == [1, 3]
    settle(loop)
    clock.advance(1.001)
    loop.poll_once()
    assert missed_in(heard) == [1, 3]  # a second without a miss: it is over
    publish(topic, 6, 7)
    assert missed_in(heard) == [1, 3, 1]  # and told at once when it begins again
    assert subscription.missed == 5


@pytest.mark.parametrize("end", ["cancel", "stop", "close", "loop"])
def test_the_rest_of_a_lag_is_reported_at_the_end(loop: ActorSystem, end: str) -> None:
    topic = topic_of(loop)
    heard = heard_by(loop)
    listener = loop.spawn(Listener, [])
    subscription = topic.subscribe(listener.hear, policy=Policy.DROP_NEWEST, room=1)
    publish(topic, 1, 2, 3, 4)
    match end:
        case "cancel":
            subscription.cancel()
        case "stop":
            listener.stop()
        case "close":
            topic.close()
            settle(loop)
        case _:
            loop.destroy()
    assert missed_in(heard) == [1, 2]
    assert subscription.missed == 3


def test_a_subscriber_can_be_told_of_its_lag(loop: ActorSystem, clock: VirtualClock) -> None:
    topic = topic_of(loop)
    book: list[Any] = []
    listener = loop.spawn(Listener, book)
    topic.subscribe(listener.hear, policy=Policy.DROP_NEWEST, room=1, on_lag=listener.lagging)
    publish(topic, 1, 2, 3, 4)
    settle(loop)
    assert book == [1, ("lag", 1, False)]
    clock.advance(1.001)
    settle(loop)
    assert book[2:] == [("lag", 2, False)]


def test_a_lag_report_that_does_not_fit_is_added_to_the_next(loop: ActorSystem, clock: VirtualClock) -> None:
    topic = topic_of(loop)
    heard = heard_by(loop)
    book: list[Any] = []
    listener = loop.spawn(Listener, [])
    friend = loop.options(mailbox=2).spawn(Listener, book)
    topic.subscribe(listener.hear, policy=Policy.DROP_NEWEST, room=1, on_lag=friend.lagging)
    fill(loop, id_of(friend))
    publish(topic, 1, 2, 3)
    assert missed_in(heard) == [1]
    settle(loop)
    clock.advance(1.001)
    settle(loop)
    assert [what for what in book if isinstance(what, tuple)] == [("lag", 2, False)]
    assert missed_in(heard) == [1, 1]


@pytest.mark.slow
@given(
    steps=st.lists(
        st.one_of(
            st.tuples(st.just("publish"), st.integers(1, 5)),
            st.tuples(st.just("handle"), st.just(0)),
            st.tuples(st.just("wait"), st.integers(1, 1500)),
        ),
        max_size=40,
    ),
    policy=st.sampled_from([Policy.DROP_NEWEST, Policy.DROP_OLDEST, Policy.CONFLATE]),
)
def test_reported_lag_adds_up_to_missed_events(steps: list[tuple[str, int]], policy: Policy) -> None:
    clock = VirtualClock()
    loop = ActorSystem(LoopConfig(), clock=clock)
    topic = topic_of(loop)
    told: list[tuple[float, int]] = []
    loop.events.listen(
        lambda event: told.append((clock.now_ns() / 1e6, event.missed)) if isinstance(event, Lagged) else None
    )
    subscription = topic.subscribe(loop.spawn(Listener, []).hear, policy=policy, room=2)
    for what, number in steps:
        if what == "publish":
            publish(topic, *range(number))
        elif what == "handle":
            settle(loop)
        else:
            clock.advance(number / 1000)
            loop.poll_once()
    until_then = len(told)
    subscription.cancel()
    assert sum(missed for _, missed in told) == subscription.missed
    assert all(missed > 0 for _, missed in told)
    times = [at for at, _ in told[:until_then]]
    assert all(later - sooner >= 1000 for sooner, later in pairwise(times))
    assert len(told) - until_then <= 1
    loop.destroy()
