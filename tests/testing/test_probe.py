"""Probe: records what an actor receives, and wraps any behavior."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from bandstand.core import STOP, ActorStatus, Context, Lane, Loop, Verdict
from bandstand.testing import Probe, Received, VirtualClock


def test_it_records_data_tag_sender_and_lane(bandstand_loop: Loop) -> None:
    probe = Probe()
    actor, friend = probe.spawn(bandstand_loop, name="probed"), bandstand_loop.spawn(Probe())
    bandstand_loop.send(actor, "plain")
    bandstand_loop.send(actor, "rich", tag=7, sender=friend, lane=Lane.CONTROL)
    bandstand_loop.poll_once()
    assert probe.received == [Received("rich", 7, friend, Lane.CONTROL), Received("plain", 0, 0, Lane.DATA)]
    assert probe.data == ["rich", "plain"]
    probe.clear()
    assert probe.received == probe.data == []


def test_the_wrapped_behavior_runs(bandstand_loop: Loop) -> None:
    other = Probe()

    def count(ctx: Context[int], data: str) -> Verdict | None:
        ctx.state += 1
        ctx.loop.send(friend, (ctx.state, data, ctx.self_id, ctx.tag))
        return STOP if data == "stop" else None

    probe = Probe(count)
    friend, actor = other.spawn(bandstand_loop), probe.spawn(bandstand_loop, 10)
    bandstand_loop.send(actor, "go", tag=3)
    bandstand_loop.send(actor, "stop")
    bandstand_loop.run(until_idle=True)
    assert probe.data == ["go", "stop"]
    assert other.data == [(11, "go", actor, 3), (12, "stop", actor, 0)]
    assert bandstand_loop.status(actor) is ActorStatus.STOPPED


def test_an_exception_of_the_wrapped_behavior_fails_the_actor(
    bandstand_loop: Loop, caplog: pytest.LogCaptureFixture
) -> None:
    def burst(ctx: Context[Any], data: object) -> None:
        raise ValueError(data)

    probe = Probe(burst)
    actor = probe.spawn(bandstand_loop)
    bandstand_loop.send(actor, "boom")
    bandstand_loop.poll_once()
    assert bandstand_loop.status(actor) is ActorStatus.FAILED
    assert probe.data == ["boom"]
    assert "ValueError: boom" in caplog.text


@pytest.mark.guarantee("G31")
def test_it_wraps_an_async_behavior(bandstand_loop: Loop, bandstand_clock: VirtualClock) -> None:
    async def slow(ctx: Context[list[str]], data: str) -> Verdict | None:
        assert asyncio.current_task() is not None
        await asyncio.sleep(60)
        ctx.state.append(data)
        return STOP if data == "last" else None

    probe, done = Probe(slow), list[str]()
    actor = probe.spawn(bandstand_loop, done)
    bandstand_loop.send(actor, "first")
    bandstand_loop.send(actor, "last")
    before = bandstand_clock.now_ns()
    bandstand_loop.run(until_idle=True)
    assert probe.data == done == ["first", "last"]
    assert bandstand_clock.now_ns() - before == 120 * 10**9
    assert bandstand_loop.status(actor) is ActorStatus.STOPPED


def test_the_fixture_creates_probes(bandstand_probe: Callable[..., Probe], bandstand_loop: Loop) -> None:
    def leave(ctx: Context[Any], data: object) -> Verdict:
        return STOP

    one, other = bandstand_probe(), bandstand_probe(leave)
    for probe in (one, other):
        bandstand_loop.send(probe.spawn(bandstand_loop), "hello")
    bandstand_loop.poll_once()
    assert one.data == other.data == ["hello"]
    assert bandstand_loop.statistics().alive == 1
