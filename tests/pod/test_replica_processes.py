"""Pods with replicas in real processes: who sends to them, how they are killed, restarted, looked at and stopped."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

import pytest

from bandstand.actor import Actor, ask, tell
from bandstand.errors import AskCycleError, PodFailedError, PodGoneError, TargetEndedError
from bandstand.pod import Directory, PodPhase, PodSpec, Troupe, Undelivered, directory, pod
from bandstand.pool import ByKey
from tests.pod.troupes import (
    ALWAYS,
    COOPERATIVE,
    DEDICATED,
    NEVER,
    PATIENCE,
    PROCESS,
    wait_phase,
    wait_until,
)

pytestmark = [pytest.mark.spec("S19"), pytest.mark.real_time(reason="processes are real"), pytest.mark.slow]

RUNNING, FAILED, COMPLETED = PodPhase.RUNNING, PodPhase.FAILED, PodPhase.COMPLETED
ASKS = 1000


class Worker(Actor):
    """Works in a process."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    @ask
    def place(self) -> int:
        return os.getpid()

    @ask
    async def square(self, number: int) -> int:
        # Other messages come meanwhile.
        await asyncio.sleep(0)
        return number * number

    @ask(raises=(LookupError,))
    async def find(self, number: int) -> int:
        await asyncio.sleep(0)
        if number % 3 == 0:
            raise LookupError(number)
        return number

    @tell
    def note(self, what: str) -> None:
        self.notes.append(what)

    @ask
    def noted(self, what: str) -> list[str]:
        """What was noted that is or begins like this."""
        return [each for each in self.notes if each.startswith(what)]

    @tell
    def leave(self) -> None:
        self.stop()

    @tell
    def crash(self) -> None:
        raise ValueError("broken")


class Shop(Troupe):
    """Three workers."""

    workers = pod(thread=PROCESS, replicas=3, restart=ALWAYS)
    worker = workers.role(broadcast=("leave",)).expose(Worker)


def shop_of(**changes: Any) -> Shop:
    """A shop whose pod has other options."""
    return Shop(layout={"workers": replace(Shop.layout()["workers"], **changes)})


def outcome_of(future: Future[Any]) -> Any:
    """The answer of an ask, or its error."""
    error = future.exception(PATIENCE)
    return future.result() if error is None else error


def kill_process(troupe: Troupe, name: str) -> None:
    process = troupe.status().pod(name).process
    assert process is not None
    os.kill(process, signal.SIGKILL)


# -- one handle ------------------------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G400")
def test_the_replicas_are_pods_of_their_own_behind_one_handle() -> None:
    with Shop() as shop:
        status = shop.status()
        assert [each.name for each in status] == ["workers-0", "workers-1", "workers-2"]
        assert {shop.worker.place.blocking() for _ in range(9)} == {each.process for each in status}
        assert [line.split()[:3] for line in status.table().splitlines()[2:]] == [
            [f"workers-{number}", "running", "process"] for number in range(3)
        ]
        assert shop.health(), shop.health().problems
        kill_process(shop, "workers-1")
        wait_phase(shop, "workers-1", RUNNING, number=2)
        assert [each.restarts for each in shop.status()] == [0, 1, 0]
        assert shop.worker.square.blocking(5) == 25
    assert shop.stats().is_balanced
    ended = [event.pod for event in shop.phases.history if event.phase is COMPLETED]
    assert ended == ["workers-2", "workers-1", "workers-0"]


@pytest.mark.guarantee("G400")
def test_the_roles_of_a_replicated_pod_can_be_laid_out_elsewhere() -> None:
    (workers,) = Shop.layout().values()
    with Shop(layout={"all": PodSpec(name="all", roles=workers.roles, thread=COOPERATIVE)}) as shop:
        assert shop.worker.place.blocking() == os.getpid()


# -- senders -----------------------------------------------------------------------------------------------------------------


class StorePeers(Directory):
    store: Worker


class Asker(Actor):
    """Uses a store that has replicas, from wherever it is."""

    def __init__(self, peers: StorePeers) -> None:
        self.peers = peers

    @ask
    async def squares(self, count: int) -> list[int]:
        return list(await asyncio.gather(*map(self.peers.store.square, range(count))))

    @ask
    async def note(self, key: str, what: str) -> list[str]:
        """Note something, and read what was noted under the key."""
        self.peers.store.note(what)
        return await self.peers.store.noted(key)


def key_of(what: str | int) -> str:
    """The part before the colon."""
    return str(what).partition(":")[0]


class Market(Troupe):
    """A store with replicas, and those who use it: in a process, on a thread, on that of the kubelet."""

    stores = pod(thread=PROCESS, replicas=2)
    store = stores.role(routing=ByKey(key_of), broadcast=("leave",)).expose(Worker)
    far = pod(thread=PROCESS).expose(Asker, directory(StorePeers))
    near = pod(thread=DEDICATED).expose(Asker, directory(StorePeers))
    close = pod(thread=COOPERATIVE).expose(Asker, directory(StorePeers))


@pytest.mark.guarantee("G402")
def test_pods_of_every_kind_send_to_replicas_and_agree_about_keys() -> None:
    with Market() as market:
        for asker in (market.far, market.near, market.close):
            assert asker.squares.blocking(50) == [number * number for number in range(50)]
        for key in map(str, range(6)):
            asker_notes = [
                asker.note.blocking(f"{key}:", f"{key}:{who}")
                for who, asker in enumerate((market.far, market.near, market.close))
            ]
            assert asker_notes[-1] == [f"{key}:0", f"{key}:1", f"{key}:2"]
    assert market.stats().is_balanced


# -- a process is killed -----------------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G404")
def test_every_ask_ends_once_when_replicas_are_killed_while_a_thousand_are_in_flight() -> None:
    ahead = 4
    (workers,) = Shop.layout().values()
    roles = tuple(replace(role, ahead=ahead) for role in workers.roles)
    lost: list[Undelivered] = []
    outcomes: list[Any] = []
    with shop_of(replicas=4, roles=roles, max_restarts=20) as shop:
        shop.on_dead_letter(lost.append)
        futures = [shop.worker.find.future(number) for number in range(ASKS)]
        for future in futures:
            # Counts how often it ends.
            future.add_done_callback(outcomes.append)
        outcome_of(futures[20])
        kill_process(shop, "workers-0")
        kill_process(shop, "workers-2")
        ends = [outcome_of(future) for future in futures]
        wait_until(lambda: shop.stats().waiting == 0)
        stats = shop.stats()
    answers = [end for end in ends if isinstance(end, int)]
    declared = [end for end in ends if isinstance(end, LookupError)]
    in_doubt = [end for end in ends if isinstance(end, TargetEndedError)]
    # Each ends once, with an answer, the error that its method declares, or in doubt.
    assert len(outcomes) == len(ends) == len(answers) + len(declared) + len(in_doubt) == ASKS
    assert all("in doubt whether the message was handled" in str(end.__cause__) for end in in_doubt)
    # No more than the killed processes had, which is what the dead letters and the counts say, too.
    assert len(in_doubt) <= 2 * ahead
    assert len(in_doubt) == len(lost) == stats.in_doubt
    assert all(letter.is_in_doubt and letter.pod in {"workers-0", "workers-2"} for letter in lost)
    assert (stats.dead, stats.refused, stats.dropped) == (0, 0, 0)
    # An answer is never that of another ask.
    assert answers == [number for number, end in enumerate(ends) if isinstance(end, int)]
    assert stats.is_balanced
    assert shop.stats().is_balanced


# -- restarts ----------------------------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G400")
def test_restarts_are_counted_for_each_replica() -> None:
    with shop_of(max_restarts=1, period=60.0) as shop:
        for number in range(3):
            kill_process(shop, f"workers-{number}")
            wait_phase(shop, f"workers-{number}", RUNNING, number=2)
        assert shop.failure is None
        with pytest.raises(PodFailedError, match=r"pod 'workers-1'.*1 are allowed"):  # noqa: PT012  # it fails the troupe
            kill_process(shop, "workers-1")
            shop.wait(timeout=PATIENCE)
        shop.__deployment__.kubelet.failure = None  # type: ignore[union-attr]  # it was raised, and is not raised again by the block


@pytest.mark.guarantee("G405")
def test_replicas_that_are_not_restarted_leave_the_others_and_the_last_one_ends_the_pod() -> None:
    with shop_of(restart=NEVER, replicas=2) as shop:
        kill_process(shop, "workers-0")
        wait_phase(shop, "workers-0", FAILED)
        left = shop.status().pod("workers-1").process
        assert {shop.worker.place.blocking() for _ in range(8)} == {left}
        assert shop.health().gone == ("workers-0",)
        shop.worker.leave()
        wait_phase(shop, "workers-1", COMPLETED)
        with pytest.raises(PodGoneError, match=r"all its replicas have ended; the last one was 'workers-1'"):
            shop.worker.note("nobody is there")
        with pytest.raises(PodFailedError, match="workers-0"):
            shop.wait(timeout=PATIENCE)
        shop.__deployment__.kubelet.failure = None  # type: ignore[union-attr]  # likewise


# -- the end of the troupe -----------------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G409")
async def test_a_stop_waits_for_a_program_that_has_not_sent_everything() -> None:
    async with shop_of(replicas=2) as shop:
        ending = threading.Event()
        shop.on_phase(lambda event: ending.set() if event.phase is PodPhase.TERMINATING else None)
        for number in range(500):
            shop.worker.note(str(number))
        shop.stop()
        # The program's event loop does not turn, and the replicas have nothing to do.
        assert not ending.wait(0.3)
    stats = shop.stats()
    assert stats.sent == stats.handled >= 1000


# -- handles -------------------------------------------------------------------------------------------------------------------


class DeskPeers(Directory):
    desk: Desk


class Member(Actor):
    """One of several, which tells others which one it is."""

    def __init__(self, peers: DeskPeers) -> None:
        self.peers = peers
        self.given: list[Any] = []

    @ask
    def place(self) -> int:
        return os.getpid()

    @ask
    async def register(self) -> int:
        """Give the desk a handle of this very actor."""
        # The program's next message to the desk takes another way, so this one must have arrived.
        await self.peers.desk.note(self.me)
        return os.getpid()

    @ask
    def own(self) -> Any:
        return self.me

    @tell
    def give(self, handle: Any) -> None:
        self.given.append(handle)

    @ask
    async def ask_desk(self) -> str:
        """Ask the desk, which asks the members."""
        return await self.peers.desk.ask_member()


class MemberPeers(Directory):
    member: Member


class Desk(Actor):
    """Knows the members."""

    def __init__(self, peers: MemberPeers) -> None:
        self.peers = peers

    @ask
    def note(self, member: Any) -> None:
        self.noted = member

    @ask
    async def places(self) -> tuple[set[int], bool]:
        """Where the noted handle leads to, and whether it is that of all members."""
        return {await self.noted.place() for _ in range(6)}, self.noted == self.peers.member

    @ask
    async def ask_member(self) -> str:
        try:
            return await self.peers.member.ask_desk()
        except AskCycleError as error:
            return str(error)


class Club(Troupe):
    """Members, and a desk in a process of its own."""

    members = pod(thread=PROCESS, replicas=2)
    member = members.expose(Member, directory(DeskPeers))
    desk = pod(thread=PROCESS).expose(Desk, directory(MemberPeers))


@pytest.mark.guarantee("G407")
def test_a_replica_can_send_a_handle_of_itself_that_means_only_it() -> None:
    with Club() as club:
        for _ in range(4):
            place = club.member.register.blocking()
            assert club.desk.places.blocking() == ({place}, False)
        own = club.member.own.blocking()
        assert len({own.place.blocking() for _ in range(6)}) == 1
        assert own != club.member
        assert own in {club.member.own.blocking() for _ in range(2)}


@pytest.mark.guarantee("G407")
def test_a_handle_of_the_replicas_or_of_one_of_them_is_refused_by_the_replicas() -> None:
    with Club() as club:
        for handle in (club.member, club.member.own.blocking()):
            with pytest.raises(TypeError, match="the replicas of a pod do not reach each other"):
                club.member.give(handle)
        # Of other roles it is accepted.
        club.member.give(club.desk)


@pytest.mark.guarantee("G407")
def test_a_cycle_of_asks_through_a_replica_is_found() -> None:
    layout = Club.layout()
    layout["members"] = replace(layout["members"], replicas=1)
    with Club(layout=layout) as club:
        text = club.member.ask_desk.within(PATIENCE).blocking()
    assert "Member.ask_desk(), which waits for 'desk'" in text
