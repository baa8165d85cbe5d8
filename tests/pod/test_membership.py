"""Who is told what, and who is linked with whom: with stages that write down what they hear."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Iterator, Mapping
from concurrent.futures import Future

import pytest

from bandstand.core import ActorId
from bandstand.pod.enums import ThreadModel
from bandstand.pod.membership import Membership
from bandstand.pod.placement import PodActivity, PodLocation
from bandstand.pod.restart import PodEnding
from bandstand.pod.spec import PodSpec, RoleSpec, TroupeSpec
from bandstand.pod.status import PodStats
from bandstand.pod.threads import CallLater, call_later_on
from tests.pod.troupes import Counter

pytestmark = pytest.mark.spec("S6", "S15")


class Fake:
    """A stage that is nowhere, and writes down what it hears."""

    def __init__(self, pod: str | None, *, is_out_of_process: bool = False, number: int = 1) -> None:
        self.pod = pod
        self.number = number
        self.is_out_of_process = is_out_of_process
        self.exposed: Mapping[str, ActorId] = {}
        self.location = PodLocation()
        self.final = PodStats()
        self.heard: list[str] = []
        self.ends: dict[str | None, socket.socket] = {}
        self.links: dict[str | None, int] = {}

    async def run(self) -> PodEnding:
        raise NotImplementedError

    def publish(self, pod: str, addresses: Mapping[str, ActorId]) -> None:
        self.heard.append(f"publish {pod}")

    def withdraw(self, pod: str, reason: str) -> None:
        self.heard.append(f"withdraw {pod}: {reason}")

    def retire(self, pod: str, reason: str) -> None:
        self.heard.append(f"retire {pod}: {reason}")

    def attach(self, peer: str | None, end: socket.socket, *, is_running: bool, number: int = 0) -> None:
        self.heard.append(f"attach {peer}{', running' if is_running else ''}")
        if (old := self.ends.get(peer)) is not None:
            old.close()
        self.ends[peer] = end
        self.links[peer] = number

    def announce(self, peer: str) -> None:
        self.heard.append(f"announce {peer}")

    def stop(self, within_ms: float) -> None:
        raise NotImplementedError

    def kill(self, ending: PodEnding) -> None:
        raise NotImplementedError

    def fail_if_alive(self, reason: str) -> None:
        raise NotImplementedError

    def abandon(self, ending: PodEnding) -> None:
        raise NotImplementedError

    def activity(self) -> Future[PodActivity]:
        raise NotImplementedError

    def take(self) -> list[str]:
        """What it has heard since."""
        heard, self.heard = self.heard, []
        return heard


def make_spec(*pods: str, hidden: tuple[str, ...] = ()) -> TroupeSpec:
    """Pods whose names begin with a p are processes."""
    return TroupeSpec(
        name="Fakes",
        pods=tuple(
            PodSpec(
                name=name,
                thread=ThreadModel.PROCESS if name.startswith("p") else ThreadModel.DEDICATED,
                roles=(RoleSpec(name=f"role_{name}", kind=Counter, is_exposed=name not in hidden),),
            )
            for name in pods
        ),
    )


@pytest.fixture
def call_later() -> Iterator[CallLater]:
    event_loop = asyncio.new_event_loop()
    yield call_later_on(event_loop)
    event_loop.close()


def made(membership: Membership, *stages: Fake) -> None:
    """Have them begin and run, and forget what was said about that."""
    for stage in stages:
        membership.add(stage)
        membership.mark_running(stage)
    for stage in stages:
        stage.take()


def close(*stages: Fake) -> None:
    for stage in stages:
        for end in stage.ends.values():
            end.close()


@pytest.mark.spec("S19")
def test_a_process_is_linked_with_everybody_as_soon_as_both_have_begun(call_later: CallLater) -> None:
    membership = Membership(make_spec("a", "p", "q"), call_later)
    outside, a, p, q = (
        Fake(None),
        Fake("a"),
        Fake("p", is_out_of_process=True),
        Fake("q", is_out_of_process=True),
    )
    made(membership, outside, a)
    membership.add(p)
    # Those who run are known to do; it does not yet.
    assert sorted(p.take()) == ["attach None, running", "attach a, running"]
    assert outside.take() == ["attach p"]
    assert a.take() == ["attach p"]
    membership.add(q)
    assert "attach p" in q.take()
    assert "attach q" in p.take()
    membership.mark_running(p)
    for other in (outside, a, q):
        assert other.take()[-1] == "announce p"
    # What one writes, the other reads.
    a.ends["p"].send(b"hello")
    p.ends["a"].settimeout(5)
    assert p.ends["a"].recv(5) == b"hello"
    close(outside, a, p, q)


@pytest.mark.spec("S19")
def test_each_incarnation_has_links_of_its_own(call_later: CallLater) -> None:
    membership = Membership(make_spec("p"), call_later)
    outside, first = Fake(None), Fake("p", is_out_of_process=True)
    made(membership, outside, first)
    old = outside.ends["p"]
    membership.remove(first, "killed")
    assert outside.take() == ["withdraw p: killed"]
    again = Fake("p", is_out_of_process=True, number=2)
    membership.add(again)
    membership.mark_running(again)
    assert outside.take() == ["attach p", "announce p"]
    assert outside.ends["p"] is not old
    close(outside, first, again)


def test_those_who_have_nobody_to_talk_to_are_not_linked(call_later: CallLater) -> None:
    membership = Membership(make_spec("a", "p", hidden=("a", "p")), call_later)
    outside, a, p = Fake(None), Fake("a"), Fake("p", is_out_of_process=True)
    made(membership, outside, a, p)
    assert not a.ends
    assert not outside.ends


def test_who_begins_late_hears_who_is_gone(call_later: CallLater) -> None:
    membership = Membership(make_spec("a", "p"), call_later)
    made(membership, Fake(None))
    membership.retire("a", "it failed")
    p = Fake("p", is_out_of_process=True)
    membership.add(p)
    assert p.take()[0] == "retire a: it failed"
    close(p, *(placement for placement in membership.placements.values() if isinstance(placement, Fake)))


def test_what_an_incarnation_says_that_has_been_replaced_is_not_heard(call_later: CallLater) -> None:
    membership = Membership(make_spec("a", "b"), call_later)
    outside, old, new = Fake(None), Fake("a"), Fake("a", number=2)
    made(membership, outside, old)
    membership.remove(old, "boom")
    membership.add(new)
    outside.take()
    membership.mark_running(old)
    membership.remove(old, "boom")
    assert outside.take() == []
    assert membership.placements["a"] is new


class Full(Fake):
    """One that has no room for another descriptor."""

    def attach(self, peer: str | None, end: socket.socket, *, is_running: bool, number: int = 0) -> None:
        end.close()
        raise OSError(errno.EMFILE, "Too many open files")


@pytest.mark.guarantee("G170")
def test_an_end_that_was_given_away_stays_open(
    call_later: CallLater,
) -> None:
    """Its thread may be at it just now, and the number of its descriptor may be another's in the next moment."""
    membership = Membership(make_spec("a", "p"), call_later)
    full, a = Full("p", is_out_of_process=True), Fake("a")
    membership.add(full)
    with pytest.raises(OSError, match="Too many"):
        membership.add(a)
    assert a.ends["p"].fileno() != -1
    # It finds out by itself.
    assert a.ends["p"].recv(1) == b""
    close(a)


@pytest.mark.guarantee("G287")
def test_a_link_that_has_failed_is_one_processes_fault(call_later: CallLater) -> None:
    membership = Membership(make_spec("p", "pp", "t"), call_later)
    outside, local = Fake(None), Fake("t")
    one, two = Fake("p", is_out_of_process=True), Fake("pp", is_out_of_process=True)
    made(membership, outside, local, one, two)
    # What is in this process is never to blame, whoever reports it.
    assert membership.lose_link(outside, one.links[None], is_ours=True) == (one, "the calling program")
    assert membership.lose_link(one, one.links[None], is_ours=False) is None, "it was reported already"
    assert membership.lose_link(two, two.links["t"], is_ours=False) == (two, "pod 't'")
    # Of two processes, the one that could not go on, or has closed its end.
    assert membership.lose_link(one, one.links["pp"], is_ours=True) == (one, "pod 'pp'")
    later_one = Fake("p", is_out_of_process=True, number=2)
    membership.remove(one, "it has failed")
    made(membership, later_one)
    assert membership.lose_link(two, two.links["p"], is_ours=False) == (later_one, "pod 'pp'")
    # The links of one that has ended are over.
    number = later_one.links["t"]
    membership.remove(later_one, "it has ended")
    assert membership.lose_link(local, number, is_ours=False) is None
    assert membership.lose_link(local, 1000, is_ours=False) is None
    close(outside, local, one, two, later_one)
