"""Pods of all four kinds that are ended in every way, under load: nothing is lost without a word, done twice, or left behind.

The storm itself is `tests.soak.pod_run`; `make soak` runs it for minutes. Here it is short, and what it has once found has a test of its own.
"""

# One test must say when a link writes.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager

import pytest

from bandstand.actor import Actor, ask, tell
from bandstand.core import Lane
from bandstand.pod import (
    Directory,
    PodPhase,
    RestartPolicy,
    ThreadModel,
    Troupe,
    directory,
    pod,
)
from tests.pod.linking import linked, until
from tests.soak.checks import unexpected_errors
from tests.soak.pod_run import PodRun

PATIENCE_MS = 30_000
CAP = 60
MANY, SIZE = 180, 1000
REAL = "threads and processes of the machine, and their ends, are what this is about"

pytestmark = [pytest.mark.slow, pytest.mark.real_time(reason=REAL)]


class Drawer(Actor):
    """Keeps what it is sent."""

    def __init__(self) -> None:
        self.kept: list[int] = []

    @tell
    def put(self, number: int) -> None:
        self.kept.append(number)

    @tell
    def stuff(self, _padding: bytes) -> None:
        """Something larger."""

    @tell
    def jam(self, ms: int) -> None:
        """Keep everybody waiting, so that something is on its way."""
        time.sleep(ms / 1000)

    @tell(lane=Lane.CONTROL)
    def fall(self) -> None:
        raise OSError("on purpose")

    @tell(lane=Lane.CONTROL)
    def leave(self) -> None:
        self.stop()

    @ask
    def content(self) -> list[int]:
        return self.kept

    @ask
    def process(self) -> int:
        return os.getpid()


class Peers(Directory):
    drawer: Drawer


class Hand(Actor):
    """Puts things into a drawer of another pod."""

    def __init__(self, peers: Peers) -> None:
        self._drawer = peers.drawer

    @ask
    def fill(self, count: int) -> int:
        """Stuff so many in; how many were taken."""
        return sum(self._drawer.stuff.try_send(bytes(SIZE)) for _ in range(count))

    @ask
    def jam(self, ms: int) -> None:
        self._drawer.jam(ms)


class Near(Troupe):
    """The drawer in a process."""

    drawer = pod(thread=ThreadModel.PROCESS, restart=RestartPolicy.ALWAYS).expose(Drawer)


class Far(Troupe):
    """The hand in a process, the drawer on a thread."""

    drawer = pod(restart=RestartPolicy.ALWAYS).expose(Drawer)
    hand = pod(thread=ThreadModel.PROCESS).expose(Hand, directory(Peers))


@contextmanager
def hushed() -> Generator[None]:
    """What fails on purpose is not to be seen in the log."""
    logger = logging.getLogger("bandstand")
    before, logger.disabled = logger.disabled, True
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)
        logger.disabled = before


def again(troupe: Troupe, name: str, number: int) -> None:
    """Wait for an incarnation."""
    troupe.phases.until(name, PodPhase.RUNNING, number=number, timeout=PATIENCE_MS / 1000).blocking()


# --- the storm --------------------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G155", "G156")
@pytest.mark.spec("S9", "S10", "S12", "S18")
@pytest.mark.once
def test_each_message_has_a_known_fate(
    loop_factory: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    failures: list[str] = []
    run = PodRun("test/6", 2.5, loop_factory)
    with unexpected_errors(failures.append):
        run.play(failures.append)
    assert failures == [], str(run)
    assert run.counts["ask_answered"] > 0
    assert run.counts["starts"] > 5


# --- what it has found ------------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G156")
def test_books_of_a_troupe_that_is_over_have_what_the_program_sent_to_a_process() -> None:
    with Near() as troupe:
        for number in range(100):
            troupe.drawer.put(number)
        assert troupe.drawer.content.blocking() == list(range(100))
        before = troupe.stats()
    after = troupe.stats()
    assert after.is_balanced
    assert after.handled >= before.handled >= 202


@pytest.mark.guarantee("G155")
@pytest.mark.parametrize("way", ["fall", "leave"])
def test_what_was_on_its_way_to_a_pod_that_has_ended_is_in_the_books(way: str) -> None:
    with hushed(), Far() as troupe:
        troupe.hand.jam.blocking(200)
        # While it is jammed, this goes as far as its socket: more than is read from there at a time.
        accepted = troupe.hand.fill.blocking(MANY)
        getattr(troupe.drawer, way)()
        again(troupe, "drawer", 2)
        assert troupe.drawer.content.blocking() == []
    stats = troupe.stats()
    assert stats.is_balanced
    assert accepted == MANY
    assert stats.dead + stats.in_doubt >= MANY


@pytest.mark.guarantee("G155")
async def test_what_an_end_has_never_read_is_dead_when_it_has_said_goodbye() -> None:
    async with linked() as (near, far):
        scribe = await near.handle()
        for number in range(5):
            scribe.note(number)
        await until(lambda: near.link.stats().sent == 5)
        # Written, and never read: the other side ends in this very moment, in good order.
        near.link.transport.flush()
        assert far.link.stats().received == 0
        far.link.close("its pod has ended")
        await until(lambda: near.downs == ["its pod has ended"])
        stats = near.link.stats()
        assert (stats.sent, stats.dead, stats.in_doubt) == (5, 5, 0)
