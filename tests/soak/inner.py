"""Whole loops inside a world: made, driven a little, and ended in the middle of things."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from random import Random
from typing import Any

from bandstand.core import Context, Loop, LoopConfig, Statistics
from bandstand.errors import LoopClosedError, MailboxFullError, NoSuchActorError
from bandstand.testing import leaks_of
from tests.soak.books import Fail
from tests.soak.plan import LoopFactory

PATIENCE = 20.0
"""Seconds within which a loop must have stopped, on the busiest machine."""


class Chatter:
    """A handful of actors that keep each other busy."""

    def __init__(self, loop: Loop, random: Random, *, with_coroutines: bool) -> None:
        self.loop = loop
        self.random = random
        self.handled = 0
        behaviors: list[Any] = [self.talk, self.talk_on] if with_coroutines else [self.talk]
        self.actors = [loop.spawn(random.choice(behaviors), mailbox_cap=9) for _ in range(6)]
        for actor in self.actors[1:]:
            loop.monitor(self.actors[0], actor)
        for _ in range(20):
            self.say()

    def say(self) -> None:
        target = self.random.choice(self.actors)
        try:
            if self.random.random() < 0.3:
                self.loop.send_after(target, self.random.choice((0, 1, 500)) / 1000, None)
            else:
                self.loop.send(target, None)
        except (MailboxFullError, NoSuchActorError, LoopClosedError):
            return

    def talk(self, ctx: Context[None], data: object) -> None:
        self.handled += 1
        if self.random.random() < 0.02:
            # Another thread may have stopped the loop meanwhile.
            with suppress(LoopClosedError):
                self.loop.stop_actor(ctx.self_id)
        for _ in range(self.random.randrange(3)):
            self.say()

    async def talk_on(self, ctx: Context[None], data: object) -> None:
        self.talk(ctx, data)
        await asyncio.sleep(self.random.choice((0, 0.001)))


def check(loop: Loop, fail: Fail) -> Statistics:
    """Check the books of a loop that was destroyed."""
    stats = loop.statistics()
    if stats.sent != stats.handled + stats.refused + stats.dead + stats.dropped + stats.waiting:
        fail(f"the books of an inner loop do not balance: {stats}")
    if left := leaks_of(loop):
        fail(f"an inner loop was destroyed, and still {left}")
    return stats


def perform(seed: str, fail: Fail) -> None:
    """Make a loop, poll it a few times inside somebody's behavior, end it; functions only, since nobody runs a host."""
    random = Random(seed)
    loop = Loop(LoopConfig(max_msgs_per_actor=random.choice((1, 64)), max_tick=0.001))
    chatter = Chatter(loop, random, with_coroutines=False)
    for _ in range(random.randrange(20)):
        loop.poll_once()
    if random.random() < 0.5:
        loop.request_stop()
        try:
            loop.poll_once()
        except LoopClosedError:
            pass
        else:
            fail("a loop that was asked to stop could be polled")
    loop.destroy()
    loop.destroy()
    stats = check(loop, fail)
    if stats.handled != chatter.handled:
        fail(f"an inner loop handled {chatter.handled} messages and counts {stats.handled}")


class Inner(threading.Thread):
    """A loop that runs in a thread of its own until somebody stops it."""

    def __init__(self, seed: str, loop_factory: LoopFactory, fail: Fail) -> None:
        super().__init__(name="inner loop", daemon=True)
        self._loop = Loop(LoopConfig(loop_factory=loop_factory))
        self._fail = fail
        # Until it is run, it belongs to the thread that made it.
        Chatter(self._loop, Random(seed), with_coroutines=True)

    def run(self) -> None:
        try:
            self._loop.run()
        except LoopClosedError:
            # Stopped before it began: still its maker's.
            return
        self._loop.destroy()
        check(self._loop, self._fail)

    def request_stop(self) -> None:
        """Stop it, from any thread."""
        self._loop.request_stop()

    def finish(self) -> None:
        """Stop it, wait for its thread, and destroy what that has left. For the thread that made it."""
        self._loop.request_stop()
        self.join(PATIENCE)
        if self.is_alive():
            self._fail(f"an inner loop did not stop within {PATIENCE} s")
            return
        self._loop.destroy()
