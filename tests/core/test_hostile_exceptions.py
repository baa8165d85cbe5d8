"""An exception that cannot be shown ends its actor like any other exception."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from bandstand.core import ActorStatus, Context, ExitReason, Loop
from tests.core.support import exits, idle, record, settle, spin
from tests.hostile import HOW, hostile

pytestmark = [pytest.mark.guarantee("G282"), pytest.mark.parametrize("how", HOW)]


def raiser(_ctx: Context[Any], how: str) -> None:
    raise hostile(how)


async def async_raiser(_ctx: Context[Any], how: str) -> None:
    await asyncio.sleep(0)
    raise hostile(how)


@pytest.mark.parametrize("behavior", [raiser, async_raiser])
@pytest.mark.parametrize("is_supervised", [False, True])
def test_it_is_a_panic_of_a_behavior(loop: Loop, how: str, behavior: Any, is_supervised: bool) -> None:
    seen: list[Any] = []
    boss = loop.spawn(record, seen)
    actor = loop.spawn(behavior, supervisor=boss if is_supervised else None, name="raiser")
    loop.send(actor, how)
    spin(loop)
    assert loop.status(actor) is ActorStatus.FAILED
    assert [exit_.reason for exit_ in exits(seen)] == [ExitReason.PANIC] * is_supervised


def test_a_link_passes_it_on(loop: Loop, how: str) -> None:
    one, other = loop.spawn(raiser), loop.spawn(idle)
    loop.link(one, other)
    loop.send(one, how)
    settle(loop)
    assert loop.status(other) is ActorStatus.FAILED


def test_a_listener_that_raises_it_does_no_harm(loop: Loop, how: str, seen: list[Any]) -> None:
    told: list[Any] = []

    def listener(event: object) -> None:
        told.append(event)
        raise hostile(how)

    loop.events.listen(listener)
    actor = loop.spawn(raiser)
    loop.send(actor, how)
    loop.send(actor, "a dead letter")
    settle(loop)
    spin(loop)
    assert told
    loop.send(loop.spawn(record, seen), 1)
    settle(loop)
    assert len(seen) == 1
