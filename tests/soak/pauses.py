"""The ways in which a coroutine waits: not at all, for a turn, for a while, for a thread, or until it is cancelled."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from itertools import accumulate
from random import Random


async def not_at_all(_random: Random) -> None:
    return


async def for_a_turn(_random: Random) -> None:
    await asyncio.sleep(0)


async def for_a_while(random: Random) -> None:
    await asyncio.sleep(random.choice((0.0005, 0.002, 0.006)))


async def in_vain(_random: Random) -> None:
    """Wait for what a timeout cuts short."""
    with suppress(TimeoutError):
        async with asyncio.timeout(0.001):
            await asyncio.sleep(1)


async def reluctantly(_random: Random) -> None:
    """Take time to end when cancelled."""
    try:
        await asyncio.sleep(0.004)
    except asyncio.CancelledError:
        await asyncio.sleep(0.003)
        raise


async def for_a_thread(_random: Random) -> None:
    await asyncio.to_thread(time.sleep, 0.001)


async def for_two(_random: Random) -> None:
    await asyncio.gather(asyncio.sleep(0), asyncio.sleep(0.001))


async def raising(_random: Random) -> None:
    """Raise a cancellation that nobody asked for: a panic."""
    raise asyncio.CancelledError


async def cancelling(_random: Random) -> None:
    """Cancel the own task, as a library might: a panic, and not the next message's business."""
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(0)


KINDS: tuple[tuple[int, Callable[[Random], Awaitable[None]]], ...] = (
    (500, not_at_all),
    (300, for_a_turn),
    (100, for_a_while),
    (30, in_vain),
    (30, reluctantly),
    (10, for_a_thread),
    (5, for_two),
    (5, raising),
    (5, cancelling),
)
CHOICES = [pause for _, pause in KINDS]
WEIGHTS = list(accumulate(weight for weight, _ in KINDS))


async def pause(random: Random, *, is_quiet: bool) -> None:
    """Wait in one of these ways; in a quiet world, in none that ends an actor."""
    (chosen,) = random.choices(CHOICES, cum_weights=WEIGHTS)
    if not is_quiet or chosen not in {raising, cancelling}:
        await chosen(random)
