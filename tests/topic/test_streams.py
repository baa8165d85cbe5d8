"""Streams: events for code that is not an actor."""

from __future__ import annotations

import asyncio

import pytest

from bandstand.actor import ActorSystem
from bandstand.core import Lagged
from bandstand.errors import LoopBusyError, SubscriptionCutOffError, TopicClosedError
from bandstand.topic import Policy, Stream
from tests.actor.players import ride, turns
from tests.topic.subscribers import Event, heard_by, missed_in, publish, topic_of

pytestmark = pytest.mark.guarantee("G213")


async def rest(stream: Stream[Event]) -> list[int]:
    return [event.number async for event in stream]


def test_a_stream_has_the_events_of_its_block(loop: ActorSystem) -> None:
    async def body() -> list[int]:
        topic = topic_of(loop)
        publish(topic, 0)
        async with topic.listen() as stream:
            assert publish(topic, 1, 2) == [1, 1]
            assert (await anext(stream)).number == 1
            reader = asyncio.ensure_future(rest(stream))
            await turns()
            publish(topic, 3)
            await turns()
            publish(topic, 4)
            topic.close()
            return await reader

    assert ride(loop, body) == [2, 3, 4]


@pytest.mark.parametrize(
    ("policy", "seen"),
    [(Policy.DROP_NEWEST, [0, 1, 2]), (Policy.DROP_OLDEST, [3, 4, 5]), (Policy.CONFLATE, [5])],
)
async def test_a_stream_has_room_and_a_policy(loop: ActorSystem, policy: Policy, seen: list[int]) -> None:
    topic = topic_of(loop)
    heard = heard_by(loop)
    async with topic.listen(room=3, policy=policy, name="me") as stream:
        publish(topic, *range(6))
        assert stream.waiting == len(seen)
        topic.close()
        assert await rest(stream) == seen
        assert stream.missed == 6 - len(seen)
    assert sum(missed_in(heard)) == 6 - len(seen)
    first = heard[0]
    assert isinstance(first, Lagged)
    assert first.subscriber == "stream me of topic 'events'"


async def test_cut_off_raises_at_once(loop: ActorSystem) -> None:
    topic = topic_of(loop)
    heard = heard_by(loop)
    async with topic.listen(room=2, policy=Policy.CUT_OFF) as stream:
        assert publish(topic, 1, 2, 3, 4) == [1, 1, 0, 0]
        with pytest.raises(
            SubscriptionCutOffError, match=r"stream 1 of topic 'events' missed 3 events and was cut off"
        ):
            await anext(stream)
        assert topic.subscribers == 0
    assert [(event.missed, event.is_cut_off) for event in heard if isinstance(event, Lagged)] == [(3, True)]


async def test_a_stream_ends_with_its_block(loop: ActorSystem) -> None:
    topic = topic_of(loop)
    async with topic.listen() as stream:
        publish(topic, 1)
    assert publish(topic, 2) == [0]
    assert await rest(stream) == []
    with pytest.raises(LoopBusyError, match="entered before"):
        await stream.__aenter__()


def test_a_stream_ends_with_the_loop(loop: ActorSystem) -> None:
    async def main() -> list[int]:
        async with loop:
            topic = topic_of(loop)
            stream = topic.listen()
            await stream.__aenter__()
            waiter = asyncio.ensure_future(rest(stream))
            await turns()
            publish(topic, 1)
        return await waiter

    with asyncio.Runner(loop_factory=loop.config.loop_factory) as runner:
        assert runner.run(main()) == [1]


async def test_a_cancelled_wait_loses_no_event(loop: ActorSystem) -> None:
    topic = topic_of(loop)
    taken: list[int] = []
    async with topic.listen() as stream:
        for number in range(6):
            waiter = asyncio.ensure_future(anext(stream))
            await turns()
            publish(topic, number)
            waiter.cancel()  # in the very moment in which it is woken
            await asyncio.wait([waiter])
            if not waiter.cancelled():
                taken.append(waiter.result().number)
        assert len(taken) < 6
        topic.close()
        assert taken + await rest(stream) == [0, 1, 2, 3, 4, 5]


async def test_wrong_streams_are_refused(loop: ActorSystem) -> None:
    topic = topic_of(loop)
    with pytest.raises(LoopBusyError, match="was not entered"):
        await anext(topic.listen())
    late = topic.listen()
    topic.close()
    with pytest.raises(TopicClosedError):
        await late.__aenter__()
    assert "0 waiting, 0 missed" in repr(late)
