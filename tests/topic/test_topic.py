"""Topics: every event reaches every subscriber, in order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Annotated, Any, Literal, Protocol

import pytest

from bandstand.actor import ActorSystem
from bandstand.core import Lagged
from bandstand.errors import (
    ActorNotLocalError,
    InvalidArgumentError,
    LoopBusyError,
    LoopClosedError,
    MailboxFullError,
    NoSuchActorError,
    TopicClosedError,
    WrongThreadError,
)
from bandstand.registry import Change
from bandstand.scope import Channel
from bandstand.topic import Policy, Topic
from tests.actor.players import elsewhere, ride, turns
from tests.core.support import settle
from tests.topic.subscribers import Event, Gated, Listener, publish, topic_of

LoopMaker = Callable[..., ActorSystem]


@pytest.mark.guarantee("G207")
def test_each_subscriber_gets_each_event_in_order(loop: ActorSystem) -> None:
    topic = topic_of(loop)
    books: list[list[Any]] = [[], [], []]
    subscriptions = [topic.subscribe(loop.spawn(Listener, book).hear) for book in books]
    assert publish(topic, *range(10)) == [3] * 10
    assert [subscription.waiting for subscription in subscriptions] == [10] * 3
    settle(loop)
    assert books == [list(range(10))] * 3
    assert [(each.handled, each.waiting, each.missed, each.lost) for each in subscriptions] == [
        (10, 0, 0, 0)
    ] * 3
    assert topic.subscribers == 3
    assert "'events': 3 subscribers" in repr(topic)


@pytest.mark.guarantee("G207")
def test_nested_events_come_after_the_outer_one(loop: ActorSystem) -> None:
    """The first subscriber's lag is told in the middle, and whoever hears of it publishes."""
    topic = topic_of(loop)
    first: list[int] = []
    last: list[int] = []
    counts: list[int] = []
    topic.subscribe(loop.spawn(Listener, first).hear, policy=Policy.DROP_NEWEST, room=1)
    topic.subscribe(loop.spawn(Listener, last).hear)
    loop.events.listen(
        lambda event: counts.append(topic.publish(Event(99))) if isinstance(event, Lagged) else None
    )
    assert publish(topic, 1, 2, 3) == [2, 1, 1]
    settle(loop)
    assert first == [1]
    assert last == [1, 2, 99, 3]
    assert counts == [2]


@pytest.mark.guarantee("G207")
def test_recursive_publishing_is_bounded(loop: ActorSystem) -> None:
    topic = topic_of(loop)
    errors: list[Exception] = []

    def key(event: Event) -> int:
        try:
            topic.publish(event)
            topic.publish(event)
        except LoopBusyError as error:
            errors.append(error)
            raise
        return event.number

    subscription = topic.subscribe(loop.spawn(Listener, []).hear, policy=Policy.CONFLATE, key=key)
    topic.publish(Event(1))
    assert errors
    assert "during the publishing of another one" in str(errors[0])
    subscription.cancel()


@pytest.mark.guarantee("G207")
def test_wrong_subscribers_are_refused(loop: ActorSystem, make_loop: LoopMaker) -> None:
    topic = topic_of(loop)
    listener = loop.spawn(Listener, [])
    ended = loop.spawn(Listener, [])
    ended.stop()
    with pytest.raises(InvalidArgumentError, match=r"method is .*: pass a one-way method of a handle"):
        topic.subscribe(print)  # type: ignore[arg-type]  # what is tested
    with pytest.raises(InvalidArgumentError, match="pass a one-way method"):
        topic.subscribe(listener.count)  # type: ignore[arg-type]  # what is tested
    with pytest.raises(InvalidArgumentError, match="does not take one argument"):
        topic.subscribe(listener.crash)  # type: ignore[arg-type]  # what is tested
    with pytest.raises(InvalidArgumentError, match=r"on_lag is .*, which does not take one argument"):
        topic.subscribe(listener.hear, on_lag=listener.crash)  # type: ignore[arg-type]  # what is tested
    with pytest.raises(InvalidArgumentError, match="room is 1: for DROP_OLDEST pass an int from 2"):
        topic.subscribe(listener.hear, room=1)
    with pytest.raises(InvalidArgumentError, match="room is 0"):
        topic.subscribe(listener.hear, policy=Policy.CUT_OFF, room=0)
    with pytest.raises(InvalidArgumentError, match=r"key is .*only with Policy\.CONFLATE"):
        topic.subscribe(listener.hear, key=lambda event: event.key)
    with pytest.raises(InvalidArgumentError, match="policy is 'wait'"):
        topic.subscribe(listener.hear, policy="wait")  # type: ignore[arg-type]  # what is tested
    with pytest.raises(InvalidArgumentError, match=r"policy is \[\]"):
        topic.subscribe(listener.hear, policy=[])  # type: ignore[arg-type]  # what is tested
    with pytest.raises(NoSuchActorError):
        topic.subscribe(ended.hear)
    with pytest.raises(ActorNotLocalError):
        topic.subscribe(make_loop().spawn(Listener, []).hear)
    with pytest.raises(InvalidArgumentError, match="kind is 3"):
        Topic(loop, 3, name="x")  # type: ignore[arg-type]  # what is tested
    with pytest.raises(InvalidArgumentError, match="name is ''"):
        Topic(loop, Event, name="")
    with pytest.raises(InvalidArgumentError, match=r"timeout is -0\.001"):
        ride(loop, lambda: topic.drain(timeout=-0.001))
    assert topic.subscribers == 0
    assert not topic.is_closed


class Loose(Protocol):
    word: str


@pytest.mark.guarantee("G207")
@pytest.mark.parametrize(
    "kind", [int, int | str, int | None, list[int] | int, Change[int] | int, Annotated[int, "n"]]
)
def test_any_class_for_isinstance_is_a_kind(loop: ActorSystem, kind: Any) -> None:
    topic = Topic[Any](loop, kind, name="any")
    assert topic.publish(1) == 0
    for publish_ in (topic.publish, topic.publish_async):
        with pytest.raises(InvalidArgumentError, match=r"topic 'any' is of .*, and b'x' is not one"):
            publish_(b"x")
    lists = Topic(loop, list[int], name="lists")
    lists.publish([1])
    with pytest.raises(InvalidArgumentError):
        lists.publish((1,))  # type: ignore[arg-type]  # what is tested


@pytest.mark.guarantee("G207")
@pytest.mark.parametrize("kind", [Any, Literal["a"], Loose, Loose | None, None, "int"])
def test_other_kinds_are_refused(loop: ActorSystem, kind: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=r"kind is .*each of which works with isinstance\(\)"):
        Topic(loop, kind, name="any")


@pytest.mark.guarantee("G207")
def test_calls_need_the_thread_of_an_open_loop(loop: ActorSystem) -> None:
    topic = topic_of(loop)
    subscription = topic.subscribe(loop.spawn(Listener, []).hear)
    for deed in (
        lambda: topic.publish(Event(1)),
        lambda: topic.subscribe(loop.spawn(Listener, []).hear),
        topic.listen,
        topic.close,
        subscription.cancel,
    ):
        with pytest.raises(WrongThreadError):
            elsewhere(deed)
    loop.destroy()
    with pytest.raises(LoopClosedError):
        topic.publish(Event(1))
    with pytest.raises(LoopClosedError):
        topic.publish_async(Event(1))


@pytest.mark.guarantee("G215")
def test_threads_publish_at_the_next_tick(loop: ActorSystem) -> None:
    topic = topic_of(loop)
    book: list[int] = []
    topic.subscribe(loop.spawn(Listener, book).hear)

    def work() -> None:
        for number in range(20):
            topic.publish_async(Event(number))

    elsewhere(work)
    assert book == []
    settle(loop)
    assert book == list(range(20))


@pytest.mark.guarantee("G215")
def test_events_of_threads_are_bounded(loop: ActorSystem) -> None:
    topic = topic_of(loop)
    book: list[int] = []
    topic.subscribe(loop.spawn(Listener, book).hear, room=2000)

    def work() -> None:
        for number in range(1024):
            topic.publish_async(Event(number))
        with pytest.raises(MailboxFullError, match="1024 events from other threads wait for topic 'events'"):
            topic.publish_async(Event(1024))

    elsewhere(work)
    settle(loop)
    assert len(book) == 1024
    assert elsewhere(lambda: topic.publish_async(Event(1))) is None


@pytest.mark.guarantee("G215")
def test_events_after_the_close_are_dropped(loop: ActorSystem) -> None:
    topic = topic_of(loop)
    book: list[int] = []
    topic.subscribe(loop.spawn(Listener, book).hear)
    elsewhere(lambda: topic.publish_async(Event(1)))
    topic.close()
    settle(loop)
    assert book == []
    with pytest.raises(TopicClosedError):
        topic.publish_async(Event(1))


@pytest.mark.guarantee("G211")
def test_a_closed_topic_delivers_accepted_events(loop: ActorSystem) -> None:
    topic = topic_of(loop)
    book: list[int] = []
    subscription = topic.subscribe(loop.spawn(Listener, book).hear)
    publish(topic, 1, 2, 3)
    assert topic.close()
    assert not topic.close()
    assert topic.is_closed
    assert topic.subscribers == 1
    with pytest.raises(TopicClosedError):
        topic.publish(Event(4))
    with pytest.raises(TopicClosedError):
        topic.subscribe(loop.spawn(Listener, []).hear)
    settle(loop)
    assert book == [1, 2, 3]
    assert not subscription.is_active
    assert topic.subscribers == 0


@pytest.mark.guarantee("G211")
async def test_a_drained_topic_has_delivered_everything(loop: ActorSystem) -> None:
    topic = topic_of(loop)
    book: list[int] = []
    topic.subscribe(loop.spawn(Listener, book).hear)
    publish(topic, 1, 2, 3)
    assert await topic.drain()
    assert book == [1, 2, 3]
    assert await topic.drain()
    stuck = topic_of(loop)
    gate: Channel[None] = Channel()
    gated = loop.spawn(Gated, book, gate)
    stuck.subscribe(gated.slowly)
    publish(stuck, 4)
    assert not await stuck.drain(timeout=0)
    waiting = asyncio.ensure_future(stuck.drain(timeout=None))
    await turns()
    gated.kill()
    assert await waiting
