"""Thumbnails: a pool of workers makes them, and one writer stores many at a time.

    python examples/thumbnails.py            # make forty, resize the pool in the middle, print what happened
    python examples/thumbnails.py --small    # use one worker

One of the pictures is broken, and each worker that handles it fails. After three tries it becomes a dead letter; the
other pictures are not affected. The writer gets the waiting thumbnails as a list, so it needs fewer writes.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass

from bandstand import Actor, ActorSystem, ask
from bandstand.actor import batch, tell
from bandstand.core.events import DeadLetter, RuntimeEvent
from bandstand.errors import MailboxFullError
from bandstand.pool import OnDeath, PoolStatus, Routing, pooled

PICTURES = 40
BROKEN = 13


@dataclass(frozen=True)
class Thumbnail:
    picture: int
    pixels: str


class Writer(Actor):
    """Stores thumbnails. A write costs the same for one as for many."""

    def __init__(self) -> None:
        self.stored: list[int] = []
        self.writes = 0

    @batch(limit=8)
    def store(self, thumbnails: list[Thumbnail]) -> None:
        self.writes += 1
        self.stored += [thumbnail.picture for thumbnail in thumbnails]

    @ask
    def summary(self) -> tuple[list[int], int]:
        return sorted(self.stored), self.writes


class Shrinker(Actor):
    """Makes thumbnails."""

    def __init__(self, writer: Writer) -> None:
        self.writer = writer

    @tell
    async def shrink(self, picture: int) -> None:
        await asyncio.sleep(0)  # the disk
        if picture == BROKEN:
            raise ValueError(f"picture {picture} is broken")
        self.writer.store(Thumbnail(picture, f"{picture:04}"))


async def main(sizes: Sequence[int]) -> PoolStatus:
    """Make all thumbnails with `sizes[0]` workers, and from the middle on with `sizes[-1]`."""
    async with ActorSystem() as system:

        def hear(event: RuntimeEvent) -> None:
            if isinstance(event, DeadLetter):
                print(f"given up    {event.what} {event.data}")

        system.events.listen(hear)
        writer = system.spawn(Writer)
        pool = pooled(
            system,
            sizes[0],
            routing=Routing.LEAST_LOADED,
            on_death=OnDeath.REQUEUE_ALL,
            max_tries=3,
            mailbox=20,
            name="shrinkers",
        ).spawn(Shrinker, writer)
        full = 0
        for picture in range(PICTURES):
            try:
                pool.handle.shrink(picture)
            except MailboxFullError:
                # The pool is full, so wait for room.
                full += 1
                await pool.handle.shrink.when_room(picture)
            if picture == PICTURES // 2:
                await pool.resize(sizes[-1])
                print(f"workers     {pool.status().size}")
        print(f"had to wait {'yes' if full else 'no'}")
        drained = await pool.drain(timeout=20.0)
        stored, writes = await writer.summary()
        status = pool.status()
        print(f"drained     {drained}")
        print(f"handled     {status.handled}, dead {status.dead}, tried again {status.requeued}")
        print(f"missing     {sorted(set(range(PICTURES)) - set(stored))}")
        print(f"fewer writes than thumbnails: {writes < len(stored)}")
        return status


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Make thumbnails with a pool of workers.")
    parser.add_argument("--small", action="store_true", help="use one worker")
    # The log has each restart and the dead letter, too; the example prints what matters.
    logging.getLogger("bandstand").setLevel(logging.CRITICAL)
    asyncio.run(main([1, 1] if parser.parse_args().small else [3, 6]))
