"""A descriptor that becomes ready causes exactly one event for its owner, unless the owner ends or the
descriptor is unwatched.

Owners of a few pipes read one byte, some, or all for each event. There is no model: an event comes only to the present owner, only
for what was asked for, only if there is something to read, and it does come.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bandstand.core import STOP, ActorId, Context, Interest, IoEvent, Loop, LoopConfig, Readiness, Verdict
from bandstand.errors import IoNotWatchedError, IoRegistrationError, NoSuchActorError
from bandstand.testing import VirtualClock
from tests.core.descriptors import Descriptors
from tests.core.support import check_statistics

pytestmark = [pytest.mark.spec("J14", "J24"), pytest.mark.guarantee("G34")]


SWEEP = 1000


class Pipe:
    """A pipe. `number` is its reading end as long as that is open."""

    def __init__(self, descriptors: Descriptors) -> None:
        self.number, self.write = descriptors.pipe()
        self.unread = 0
        self.is_open = True


class Watched:
    """One watch, from `watch_fd` to its end, and its events."""

    def __init__(self, pipe: Pipe, owner: ActorId) -> None:
        self.pipe = pipe
        self.owner = owner
        self.events = 0
        self.written = pipe.unread
        self.errors = 0


class Io:
    def __init__(self, descriptors: Descriptors, clock: VirtualClock, loop: Loop) -> None:
        self.descriptors = descriptors
        self.clock = clock
        self.loop = loop
        self.pipes: list[Pipe] = []
        self.owners: list[ActorId] = []
        self.bytes_per_read: dict[ActorId, int] = {}
        self.stops_after_event: set[ActorId] = set()
        # By number: what is watched under it now, as the ledger has it. A closed pipe's stays until its owner was told.
        self.watched: dict[int, Watched] = {}
        # Watches that were replaced by another one of the same number: their owners have still to be told.
        self.replaced: list[Watched] = []
        self.errors_found: list[str] = []
        for number in range(3):
            self.spawn(number)
            self.pipes.append(Pipe(descriptors))

    # What owners do.

    def behavior(self, ctx: Context[Any], data: object) -> Verdict | None:
        me = ctx.self_id
        if not isinstance(data, IoEvent):
            return None
        if data.readiness is Readiness.ERROR:
            self.receive_error(me, data.fd)
            return None
        watched = self.watched.get(data.fd)
        if watched is None or watched.owner is not me:
            self.errors_found.append(f"{me!r} was told of {data.fd}, which is not its own")
        elif not watched.pipe.is_open:
            self.errors_found.append(f"{data.fd} was told to be ready and is closed")
        elif data.readiness is not Readiness.READ:
            self.errors_found.append(f"{data.readiness} was not asked for")
        else:
            self.read(me, watched)
            if me in self.stops_after_event:
                self.forget(me)
                return STOP
        return None

    def read(self, me: ActorId, watched: Watched) -> None:
        watched.events += 1
        try:
            part = os.read(watched.pipe.number, self.bytes_per_read[me])
        except BlockingIOError:
            self.errors_found.append(f"{watched.pipe.number} was told to be ready and is not")
        else:
            watched.pipe.unread -= len(part)

    def receive_error(self, me: ActorId, number: int) -> None:
        for watched in self.replaced:
            if watched.owner is me and watched.pipe.number == number:
                self.replaced.remove(watched)
                return
        watched_now = self.watched.get(number)
        if watched_now is None or watched_now.owner is not me or watched_now.pipe.is_open:
            self.errors_found.append(f"{me!r} was told that {number} is closed, which it is not")
        elif watched_now.errors:
            self.errors_found.append(f"{me!r} was told twice that {number} is closed")
        else:
            watched_now.errors += 1

    def forget(self, owner: ActorId) -> None:
        """Remove an owner that ends, and its watches."""
        self.owners.remove(owner)
        for number, watched in list(self.watched.items()):
            if watched.owner is owner:
                del self.watched[number]
        self.replaced = [watched for watched in self.replaced if watched.owner is not owner]
        if not self.owners:
            self.spawn(0)

    # What happens. Each action is given two numbers, to choose by.

    def spawn(self, which: int, how: int = 0) -> None:
        owner = self.loop.spawn(self.behavior)
        self.owners.append(owner)
        self.bytes_per_read[owner] = (1, 2, 100)[which % 3]
        if how == 3:
            self.stops_after_event.add(owner)

    def open(self, which: int, how: int) -> None:
        if len(self.pipes) < 20:
            self.pipes.append(Pipe(self.descriptors))

    def pick(self, which: int) -> Pipe:
        """Return an open pipe."""
        there = [pipe for pipe in self.pipes if pipe.is_open]
        if not there:
            there.append(Pipe(self.descriptors))
            self.pipes += there
        return there[which % len(there)]

    def watch(self, which: int, how: int) -> None:
        self.watch_one(self.pick(which), self.owners[how % len(self.owners)])

    def watch_one(self, pipe: Pipe, owner: ActorId) -> None:
        before = self.watched.get(pipe.number)
        try:
            self.loop.watch_fd(pipe.number, owner, Interest.READ)
        except IoRegistrationError:
            assert before is not None
            assert before.pipe is pipe
            return
        if before is not None:
            assert before.pipe is not pipe, "it was watched twice"
            if not before.errors:
                self.replaced.append(before)
        self.watched[pipe.number] = Watched(pipe, owner)

    def write(self, which: int, how: int) -> None:
        for _ in range(1 + how):
            self.write_one(self.pick(which))

    def write_one(self, pipe: Pipe) -> None:
        os.write(pipe.write, b"x")
        pipe.unread += 1
        watched = self.watched.get(pipe.number)
        if watched is not None and watched.pipe is pipe:
            watched.written += 1

    def unwatch(self, which: int, how: int) -> None:
        number = self.pipes[which % len(self.pipes)].number
        try:
            self.loop.unwatch_fd(number)
            assert number in self.watched
            del self.watched[number]
        except IoNotWatchedError:
            assert number not in self.watched

    def close(self, which: int, how: int) -> None:
        """Close a pipe, watched or not. In half of the cases a duplicate stays open, and is written to."""
        pipe = self.pick(which)
        if how % 2:
            self.descriptors.keep(os.dup(pipe.number))
        self.descriptors.close(pipe.number)
        pipe.is_open = False
        if how == 3:
            os.write(pipe.write, b"x")

    def reuse(self, which: int, how: int) -> None:
        """Close a pipe, and another one gets its number; sometimes it is watched at once."""
        self.close(which, how)
        new = Pipe(self.descriptors)
        self.pipes.append(new)
        if which % 2:
            self.write_one(new)
        if which % 3:
            self.watch_one(new, self.owners[which % len(self.owners)])

    def end(self, which: int, how: int) -> None:
        owner = self.owners[which % len(self.owners)]
        self.forget(owner)
        (self.loop.fail_actor if how % 2 else self.loop.stop_actor)(owner)
        with pytest.raises(NoSuchActorError):
            self.loop.watch_fd(self.pipes[0].number, owner, Interest.READ)

    def crowd(self, which: int, how: int) -> None:
        for _ in range(which):
            self.loop.try_send(self.owners[how % len(self.owners)], "filler")

    def tick(self, which: int, how: int) -> None:
        self.loop.poll_once()

    def sweep(self, which: int, how: int) -> None:
        self.clock.advance(SWEEP / 1000)
        self.loop.poll_once()

    def settle(self, which: int = 0, how: int = 0) -> None:
        """Handle all events, then check that none is missing."""
        for _ in range(2):
            self.clock.advance(SWEEP / 1000)
            quiet = 0
            while quiet < 2:
                handled = self.loop.poll_once()
                quiet = 0 if handled or self.loop.statistics().ready else quiet + 1
                assert self.errors_found == []
        for number, watched in self.watched.items():
            if watched.pipe.is_open:
                assert watched.pipe.unread == 0, f"{number} is ready and its owner was not told"
            else:
                assert watched.errors == 1, f"{number} was closed and its owner was not told"
        assert self.replaced == [], "closed, replaced, and the old owner was not told"

    def check(self) -> None:
        assert self.errors_found == []
        for watched in self.watched.values():
            assert watched.events <= watched.written, "each event was good for a byte at least"
        for pipe in self.pipes:
            if pipe.is_open:
                os.fstat(pipe.number)
        check_statistics(self.loop)


# An action's weight is how often it stands here.
ACTIONS = (
    *(Io.watch, Io.write, Io.tick) * 4,
    *(Io.reuse, Io.unwatch) * 2,
    *(Io.close, Io.open, Io.spawn, Io.end, Io.crowd, Io.sweep, Io.settle),
)


@pytest.mark.slow
@pytest.mark.guarantee("G35", "G36")
@settings(max_examples=4 * settings().max_examples)
@given(
    actions=st.lists(
        st.tuples(st.sampled_from(ACTIONS), st.integers(0, 11), st.integers(0, 3)), min_size=10, max_size=80
    ),
    visits=st.integers(1, 3),
    budget=st.integers(1, 4),
    cap=st.integers(5, 9),
)
def test_whatever_is_done_to_descriptors_each_readiness_is_told_once_to_its_owner(
    actions: list[tuple[Callable[[Io, int, int], None], int, int]], visits: int, budget: int, cap: int
) -> None:
    config = LoopConfig(
        max_actors_per_tick=visits,
        max_msgs_per_actor=budget,
        default_mailbox_cap=cap,
        fd_sweep_period=SWEEP / 1000,
    )
    clock = VirtualClock()
    with Descriptors() as descriptors, Loop(config, clock=clock) as loop:
        io = Io(descriptors, clock, loop)
        for action, which, how in actions:
            action(io, which, how)
            io.check()
        io.settle()


@given(st.lists(st.integers(0, 4), min_size=1, max_size=40))
def test_every_ready_descriptor_of_many_is_told_once_before_any_is_told_twice(order: list[int]) -> None:
    """Fair between descriptors, of one owner or of several, however long they stay ready."""
    with Descriptors() as descriptors, Loop(clock=VirtualClock()) as loop:
        fds = [descriptors.eventfd(1) for _ in range(5)]
        told: Counter[int] = Counter()

        def behavior(ctx: Context[Any], data: IoEvent) -> None:
            told[data.fd] += 1

        owners = [loop.spawn(behavior) for _ in range(2)]
        for number, fd in enumerate(fds):
            loop.watch_fd(fd, owners[number % 2], Interest.READ)
        for which in order:
            loop.poll_once()
            assert max(told.values()) - min(told[fd] for fd in fds if _is_ready(fd)) <= 1
            with suppress(BlockingIOError):
                if which < 4:
                    os.eventfd_read(fds[which])
                    os.eventfd_write(fds[which], 1)


def _is_ready(fd: int) -> bool:
    import select

    return bool(select.select([fd], [], [], 0)[0])
