"""A link, or a control channel, that ends while the process lives: a failure of that process, and it is started again."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import gc
import os
import resource
import signal
from collections.abc import Iterator
from contextlib import suppress

import pytest

from bandstand.actor import Actor, ask, tell
from bandstand.errors import BandstandError
from bandstand.pod.declaration import pod
from bandstand.pod.deployment import Troupe
from bandstand.pod.directory import Directory, directory
from bandstand.pod.enums import PodPhase
from bandstand.pod.link import Link
from bandstand.pod.pod_runtime import CALLER
from bandstand.pod.process import ControlChannel
from tests.pod.child_targets import memory
from tests.pod.troupes import ALWAYS, DEDICATED, ON_FAILURE, PROCESS, wait_phase, wait_until

pytestmark = [
    pytest.mark.guarantee("G287"),
    pytest.mark.real_time(reason="processes are real"),
    pytest.mark.slow,
]

RUNNING, FAILED = PodPhase.RUNNING, PodPhase.FAILED


class Victim(Actor):
    """Lives in a process, and loses what connects it."""

    def __init__(self) -> None:
        self.taken = 0

    @ask
    def pid(self) -> int:
        return os.getpid()

    @tell
    def take(self, _what: object) -> None:
        self.taken += 1

    @ask
    def count(self) -> int:
        return self.taken

    @tell
    def cut_link(self, peer: str) -> None:
        """Close the descriptor of a link, as a program does that closes one twice."""
        for link in gc.get_objects():
            if isinstance(link, Link) and link.there == peer:
                os.close(link.transport.fd)

    @tell
    def ignore_link(self, peer: str) -> None:
        """Do not read what comes over a link. The link stays open."""
        for link in gc.get_objects():
            if isinstance(link, Link) and link.there == peer:
                link.transport.event_loop.remove_reader(link.transport.fd)

    @tell
    def read_link(self, peer: str) -> None:
        """Read again what comes over a link."""
        for link in gc.get_objects():
            if isinstance(link, Link) and link.there == peer:
                link.transport.event_loop.add_reader(link.transport.fd, link.transport.on_readable)

    @tell
    def cut_control(self) -> None:
        """Close the descriptor of the control channel."""
        for control in gc.get_objects():
            if isinstance(control, ControlChannel):
                os.close(control._sock.fileno())

    @tell
    def starve(self) -> None:
        """Leave no memory for anything large."""
        resource.setrlimit(resource.RLIMIT_AS, (memory() + (16 << 20), resource.RLIM_INFINITY))


class Others(Directory):
    victim: Victim


class Friend(Actor):
    """Talks to the victim from elsewhere."""

    def __init__(self, others: Others) -> None:
        self.others = others

    @ask
    async def pid_of_victim(self) -> int:
        return await self.others.victim.pid()

    @ask
    def pid(self) -> int:
        return os.getpid()

    @tell
    def have_link_read(self, peer: str) -> None:
        self.others.victim.read_link(peer)

    @ask
    def flood(self, count: int, *, wide: bool) -> int:
        """Send so many plain messages of nearly 64 KiB in one turn."""
        text = ("\U0001f3ba" if wide else "x") * 1024
        for _ in range(count):
            self.others.victim.take((text,) * 16)
        return count


class Pair(Troupe):
    """A victim in a process, and a friend on a thread."""

    victim = pod(thread=PROCESS, restart=ALWAYS).expose(Victim)
    friend = pod(thread=DEDICATED).expose(Friend, directory(Others))


class Apart(Troupe):
    """Both in processes of their own."""

    victim = pod(thread=PROCESS, restart=ON_FAILURE).expose(Victim)
    friend = pod(thread=PROCESS).expose(Friend, directory(Others))


@pytest.fixture
def pair() -> Iterator[Pair]:
    with Pair() as troupe:
        yield troupe


def check_recovered(troupe: Pair | Apart, before: int, *words: str) -> None:
    """The victim has failed with these words, and is back."""
    event = wait_phase(troupe, "victim", RUNNING, number=2)
    assert event.number == 2
    failed = next(each for each in troupe.phases.history if each.phase is FAILED)
    assert failed.pod == "victim"
    for word in words:
        assert word in failed.reason
    after = troupe.victim.pid.blocking()
    assert after != before
    assert troupe.friend.pid_of_victim.blocking() == after
    assert troupe.health(), str(troupe.health())


def test_a_descriptor_of_a_link_that_is_closed_in_the_child(pair: Pair) -> None:
    before = pair.victim.pid.blocking()
    pair.victim.cut_link("friend")
    check_recovered(pair, before, "its link", "'friend'", "while its process was alive")


def test_the_end_of_the_control_channel(pair: Pair) -> None:
    before = pair.victim.pid.blocking()
    pair.victim.cut_control()
    check_recovered(pair, before, "control channel", "while its process was alive")


def test_no_memory_for_what_comes(pair: Pair) -> None:
    before = pair.victim.pid.blocking()
    pair.victim.starve()
    with suppress(BandstandError):
        pair.victim.take(bytearray(256 << 20))
    check_recovered(pair, before, "its link", "could not be processed")


def test_a_link_between_two_processes() -> None:
    with Apart() as troupe:
        before = troupe.victim.pid.blocking()
        friend = troupe.friend.pid.blocking()
        assert troupe.friend.pid_of_victim.blocking() == before
        troupe.victim.cut_link("friend")
        check_recovered(troupe, before, "its link", "'friend'")
        # The other one is left alone.
        assert troupe.friend.pid.blocking() == friend


def test_a_process_that_dies_is_not_blamed_for_its_links(pair: Pair) -> None:
    before = pair.victim.pid.blocking()
    os.kill(before, signal.SIGKILL)
    check_recovered(pair, before, "killed by SIGKILL")


def test_health_names_a_pod_whose_link_does_not_answer(pair: Pair) -> None:
    before = pair.victim.pid.blocking()
    assert pair.health().cut_off == ()
    pair.victim.ignore_link(CALLER)
    # Its process still answers its kubelet, and its other link works.
    wait_until(lambda: pair.health(timeout=0.5).cut_off == ("victim",))
    assert pair.friend.pid_of_victim.blocking() == before
    said = "pod 'victim' has not answered over its link"
    wait_until(lambda: any(said in problem for problem in pair.health(timeout=0.5).problems))
    pair.friend.have_link_read(CALLER)
    wait_until(lambda: bool(pair.health()))
    assert pair.victim.pid.blocking() == before


def test_health_calls_a_process_that_does_not_run_stuck_and_not_cut_off(pair: Pair) -> None:
    before = pair.victim.pid.blocking()
    os.kill(before, signal.SIGSTOP)
    try:
        wait_until(lambda: pair.health(timeout=0.5).stuck == ("victim",))
        assert pair.health(timeout=0.5).cut_off == ()
    finally:
        os.kill(before, signal.SIGCONT)
    wait_until(lambda: bool(pair.health()))
    assert pair.victim.pid.blocking() == before


@pytest.mark.guarantee("G288")
@pytest.mark.parametrize("wide", [False, True])
def test_many_plain_values_that_wait_are_several_frames(pair: Pair, wide: bool) -> None:
    """Each of them is nearly 64 KiB when it is written, and they all wait for a process that does not read."""
    before = pair.victim.pid.blocking()
    os.kill(before, signal.SIGSTOP)
    try:
        assert pair.friend.flood.blocking(900, wide=wide) == 900
        # All of them have been passed on.
        wait_until(lambda: pair.status().pod("friend").waiting == 0)
    finally:
        os.kill(before, signal.SIGCONT)
    wait_until(lambda: pair.victim.count.blocking() == 900)
    assert pair.victim.pid.blocking() == before
