"""A role that is ending, and still handles what it has: handles do what their policy says, and errors name pod, role and state."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from bandstand.errors import PodDown, PodTimeout
from bandstand.pod.declare import pod
from bandstand.pod.directory import Directory, directory
from bandstand.pod.place import when_down
from bandstand.pod.troupe import Troupe
from bandstand.pod.vocabulary import ThreadModel, WhenDown
from bandstand.service import Actor, ask, data
from tests.pod.troupes import ALWAYS, COOPERATIVE, DEDICATED, PATIENCE, PATIENCE_MS, Gate, wait_until

pytestmark = [
    pytest.mark.guarantee("G127"),
    pytest.mark.spec("S6"),
    pytest.mark.real_time(reason="threads and processes live in real time"),
]

ENDING = (
    "role 'worker' of pod 'worker' is down, and this handle does not wait for it: it is ending: it handles what it has, and accepts "
    "nothing any more"
)
LOOK_S = 0.002


class Worker(Actor):
    """Is at work until it is let go."""

    def __init__(self) -> None:
        self.total = 0

    @data
    async def work(self, gate: Gate) -> None:
        gate.reached.set()
        while not gate.opened.is_set():  # noqa: ASYNC110  # the test opens it from another thread
            await asyncio.sleep(LOOK_S)

    @data
    def add(self, n: int) -> None:
        self.total += n

    @ask
    def value(self) -> int:
        return self.total


class Peers(Directory):
    worker: Worker


class Visitor(Actor):
    """Speaks to the worker from another pod."""

    def __init__(self, peers: Peers) -> None:
        self.peers = peers

    @ask
    async def add(self, n: int) -> int:
        self.peers.worker.add(n)
        return await self.peers.worker.value()


class Shop(Troupe):
    worker = pod(restart=ALWAYS).expose(Worker)
    visitor = pod(thread=COOPERATIVE).expose(Visitor, directory(Peers))


def shop(thread: ThreadModel) -> Shop:
    layout = Shop.layout()
    layout["worker"] = replace(layout["worker"], thread=thread)
    return Shop(layout=layout)


def does_not_take(worker: Worker) -> bool:
    """Whether a role has begun to end."""
    return not worker.add.try_send(0)


@pytest.mark.parametrize("thread", [DEDICATED, COOPERATIVE])
def test_a_handle_that_does_not_wait_is_told_that_the_role_is_ending(thread: ThreadModel) -> None:
    gate = Gate()
    with shop(thread) as troupe:
        worker = when_down(troupe.worker, WhenDown.FAIL)
        worker.work(gate)
        assert gate.reached.wait(PATIENCE)
        troupe.worker.stop(drain=True)
        wait_until(lambda: does_not_take(worker))
        with pytest.raises(PodDown) as caught:
            worker.add(1)
        assert str(caught.value) == ENDING
        with pytest.raises(PodDown) as caught:
            worker.value.blocking()
        assert str(caught.value) == ENDING
        gate.open()


@pytest.mark.parametrize("thread", [DEDICATED, COOPERATIVE])
def test_a_handle_that_waits_waits_for_its_time(thread: ThreadModel) -> None:
    gate = Gate()
    with shop(thread) as troupe:
        worker = when_down(troupe.worker, WhenDown.FAIL)
        worker.work(gate)
        assert gate.reached.wait(PATIENCE)
        troupe.worker.stop(drain=True)
        wait_until(lambda: does_not_take(worker))
        patient = when_down(troupe.worker, WhenDown.WAIT, timeout_ms=20)
        with pytest.raises(
            PodTimeout, match="role 'worker' of pod 'worker' took no message within 20 ms: it is ending"
        ):
            patient.add(1)
        gate.open()
        # And for the next incarnation, if it is there in time.
        when_down(troupe.worker, WhenDown.WAIT, timeout_ms=PATIENCE_MS).add(2)
        assert troupe.worker.value.blocking() == 2


@pytest.mark.parametrize("thread", [DEDICATED, COOPERATIVE])
def test_what_is_queued_is_for_the_next_incarnation(thread: ThreadModel) -> None:
    gate = Gate()
    with shop(thread) as troupe:
        worker = when_down(troupe.worker, WhenDown.QUEUE, timeout_ms=PATIENCE_MS)
        worker.work(gate)
        assert gate.reached.wait(PATIENCE)
        troupe.worker.stop(drain=True)
        wait_until(lambda: does_not_take(when_down(troupe.worker, WhenDown.FAIL)))
        worker.add(1)
        answer = worker.value.future()
        # On the thread of an event loop nobody may be blocked: there it is as with QUEUE.
        visit = troupe.visitor.add.future(2)
        gate.open()
        assert answer.result(PATIENCE) >= 1
        assert visit.result(PATIENCE) >= 2
        assert troupe.worker.value.blocking() == 3
    assert troupe.books().is_balanced
