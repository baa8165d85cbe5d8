"""Messages to another process are bounded by their bytes as well as by their number."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from bandstand.actor import Actor, WhenDown, ask, tell, when_down
from bandstand.core import Lane, Overflow
from bandstand.errors import InvalidArgumentError, MailboxFullError, PodDownError
from bandstand.pod.declaration import pod
from bandstand.pod.deployment import Troupe
from bandstand.pod.spec import MAILBOX_BYTES, RoleSpec
from tests.pod.troupes import PROCESS, Counter, wait_until

pytestmark = pytest.mark.guarantee("G290")
real = pytest.mark.real_time(reason="processes are real")

MEGABYTE = 1 << 20


class Sink(Actor):
    """Takes whatever comes."""

    def __init__(self) -> None:
        self.taken = 0

    @tell
    def take(self, what: bytes) -> None:
        self.taken += len(what)

    @tell(lane=Lane.CONTROL)
    def urgent(self, what: bytes) -> None:
        self.taken += len(what)

    @ask
    def total(self) -> int:
        return self.taken

    @ask
    def pid(self) -> int:
        return os.getpid()


class Drain(Troupe):
    far = pod(thread=PROCESS)
    sink = far.role(mailbox_bytes=10 * MEGABYTE).expose(Sink)
    newest = far.role(mailbox_bytes=10 * MEGABYTE, overflow=Overflow.DROP_NEWEST).expose(Sink)
    open_end = far.role(mailbox_bytes=None).expose(Sink)


class Stopped:
    """A troupe whose process does not read."""

    def __init__(self, troupe: Drain) -> None:
        self.troupe = troupe
        self._pid = troupe.sink.pid.blocking()
        os.kill(self._pid, signal.SIGSTOP)

    def go_on(self) -> None:
        os.kill(self._pid, signal.SIGCONT)


@pytest.fixture
def stopped() -> Iterator[Stopped]:
    with Drain() as troupe:
        stopped = Stopped(troupe)
        try:
            yield stopped
        finally:
            stopped.go_on()


def accepted(handle: Any, size: int, count: int = 32) -> int:
    """How many messages of a size are accepted."""
    return sum(handle.take.try_send(bytes(size)) for _ in range(count))


def total(handle: Sink) -> int:
    """How many bytes it has taken; -1 while it cannot be asked."""
    try:
        return handle.total.blocking()
    except MailboxFullError:
        return -1


@real
@pytest.mark.slow
def test_a_process_that_does_not_read_is_sent_no_more_than_may_wait(stopped: Stopped) -> None:
    sink = stopped.troupe.sink
    assert accepted(sink, 4 * MEGABYTE) == 3
    with pytest.raises(MailboxFullError, match=r"byte limit.* mailbox_bytes") as full:
        sink.take(bytes(4 * MEGABYTE))
    assert full.value.depth == 3
    del full
    # Each lane by itself, as with the number.
    sink.urgent(bytes(MEGABYTE))
    assert not sink.take.try_send(b"small")
    # One without a bound takes as many as it has slots for.
    assert accepted(stopped.troupe.open_end, MEGABYTE, 50) == 50
    # One with an overflow policy follows that.
    assert accepted(stopped.troupe.newest, 4 * MEGABYTE) == 32
    stopped.go_on()
    # What was acknowledged makes room.
    wait_until(lambda: total(sink) == 13 * MEGABYTE)
    wait_until(lambda: bool(sink.take.try_send(bytes(20 * MEGABYTE))))
    wait_until(lambda: total(sink) == 33 * MEGABYTE)
    wait_until(lambda: stopped.troupe.stats().is_balanced and stopped.troupe.stats().waiting == 0)
    assert 0 < total(stopped.troupe.newest) < 32 * 4 * MEGABYTE


@real
@pytest.mark.slow
async def test_who_waits_for_room_waits_for_bytes() -> None:
    async with Drain() as troupe:
        pid = await troupe.sink.pid()
        os.kill(pid, signal.SIGSTOP)
        try:
            for _ in range(3):
                troupe.sink.take(bytes(4 * MEGABYTE))
            waiting = asyncio.ensure_future(troupe.sink.take.when_room(bytes(4 * MEGABYTE)))
            for _ in range(20):
                await asyncio.sleep(0)
            assert not waiting.done()
        finally:
            os.kill(pid, signal.SIGCONT)
        await waiting
        assert await troupe.sink.total() == 16 * MEGABYTE


@real
@pytest.mark.slow
def test_it_is_the_same_for_those_that_wait_for_their_pod() -> None:
    troupe = Drain()
    sink = when_down(troupe.sink, WhenDown.QUEUE)
    for _ in range(3):
        sink.take(bytes(4 * MEGABYTE))
    with pytest.raises(PodDownError, match="wait for 'sink' have reached its byte limit"):
        sink.take(bytes(4 * MEGABYTE))
    gc.collect()
    with troupe:
        wait_until(lambda: total(troupe.sink) == 12 * MEGABYTE)
        troupe.sink.take(bytes(MEGABYTE))
        wait_until(lambda: total(troupe.sink) == 13 * MEGABYTE)


def test_the_bound_is_checked() -> None:
    role = RoleSpec(name="sink", kind=Counter)
    assert role.mailbox_bytes == MAILBOX_BYTES
    assert replace(role, mailbox_bytes=None).mailbox_bytes is None
    wrongs: list[Any] = [0, -1, 1.5, "many"]
    for wrong in wrongs:
        with pytest.raises(InvalidArgumentError, match="mailbox_bytes is"):
            replace(role, mailbox_bytes=wrong)
