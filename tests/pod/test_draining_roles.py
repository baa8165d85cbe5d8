"""A role that is ending, and still handles what it has: handles do what their policy says, and errors name pod, role and state."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from bandstand.actor import Actor, WhenDown, ask, tell, when_down
from bandstand.actor.handle import checked_handle, ref_of
from bandstand.errors import PodDownError, PodTimeoutError
from bandstand.pod.declaration import pod
from bandstand.pod.deployment import Troupe
from bandstand.pod.directory import Directory, directory
from bandstand.pod.enums import ThreadModel
from tests.pod.troupes import ALWAYS, COOPERATIVE, DEDICATED, PATIENCE, PROCESS, Gate, wait_until

pytestmark = [
    pytest.mark.guarantee("G127"),
    pytest.mark.spec("S6"),
    pytest.mark.real_time(reason="threads and processes live in real time"),
]

ENDING = (
    "role 'worker' of pod 'worker' is down, and this handle does not wait for it: its actor is stopping: it handles the messages "
    "it has, and accepts no others"
)
TOO_LATE = "role 'worker' of pod 'worker' accepted no message within 20 ms: its actor is stopping"
LOOK_S = 0.002


class Worker(Actor):
    """Is at work until it is let go."""

    def __init__(self) -> None:
        self.total = 0

    @tell
    async def work(self, gate: Gate) -> None:
        gate.reached.set()
        while not gate.opened.is_set():  # noqa: ASYNC110  # the test opens it from another thread
            await asyncio.sleep(LOOK_S)

    @tell
    async def work_until(self, path: str) -> None:
        """Work until a file exists: a test makes it, from another process."""
        while not Path(path).exists():  # noqa: ASYNC110, ASYNC240  # there is no event between processes
            await asyncio.sleep(LOOK_S)

    @tell
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


def is_ending(worker: Worker) -> bool:
    """Whether a role takes no messages any more. It sends none to find out: many could fill the mailbox first, and be refused for that."""
    place = ref_of(checked_handle(worker))
    assert place is not None
    return place.find() is None


@pytest.mark.parametrize("thread", [DEDICATED, COOPERATIVE])
def test_what_is_queued_is_for_the_next_incarnation(thread: ThreadModel) -> None:
    gate = Gate()
    with shop(thread) as troupe:
        worker = when_down(troupe.worker, WhenDown.QUEUE, timeout=PATIENCE)
        worker.work(gate)
        assert gate.reached.wait(PATIENCE)
        troupe.worker.stop(drain=True)
        wait_until(lambda: is_ending(troupe.worker))
        worker.add(1)
        answer = worker.value.future()
        # On the thread of an event loop nobody may be blocked: there it is as with QUEUE.
        visit = troupe.visitor.add.future(2)
        gate.open()
        assert answer.result(PATIENCE) >= 1
        assert visit.result(PATIENCE) >= 2
        assert troupe.worker.value.blocking() == 3
    assert troupe.stats().is_balanced


@pytest.mark.parametrize("thread", [DEDICATED, COOPERATIVE])
def test_handles_say_that_the_role_is_ending_also_when_messages_wait(thread: ThreadModel) -> None:
    gate = Gate()
    with shop(thread) as troupe:
        worker = when_down(troupe.worker, WhenDown.QUEUE, timeout=PATIENCE)
        worker.work(gate)
        assert gate.reached.wait(PATIENCE)
        troupe.worker.stop(drain=True)
        wait_until(lambda: is_ending(worker))
        worker.add(1)
        with pytest.raises(PodDownError) as caught:
            when_down(troupe.worker, WhenDown.FAIL).add(1)
        assert str(caught.value) == ENDING
        with pytest.raises(PodDownError) as caught:
            when_down(troupe.worker, WhenDown.FAIL).value.blocking()
        assert str(caught.value) == ENDING
        with pytest.raises(PodTimeoutError, match=TOO_LATE):
            when_down(troupe.worker, WhenDown.WAIT, timeout=0.02).add(1)
        with pytest.raises(PodTimeoutError, match=TOO_LATE):
            when_down(troupe.worker, WhenDown.QUEUE, timeout=0.02).value.blocking()
        gate.open()
        assert worker.value.blocking() == 1
        # A handle that waits finds the next incarnation, if it is there in time.
        when_down(troupe.worker, WhenDown.WAIT, timeout=PATIENCE).add(2)
        assert troupe.worker.value.blocking() == 3


@pytest.mark.slow
@pytest.mark.spec("S19")
def test_a_role_in_another_process_is_waited_for_alike(tmp_path: Path) -> None:
    gate = tmp_path / "open"
    with shop(PROCESS) as troupe:
        impatient = when_down(troupe.worker, WhenDown.FAIL)
        queueing = when_down(troupe.worker, WhenDown.QUEUE, timeout=PATIENCE)
        troupe.worker.work_until(str(gate))
        troupe.worker.stop(drain=True)
        wait_until(lambda: is_ending(impatient))
        with pytest.raises(PodDownError) as caught:
            impatient.add(1)
        assert str(caught.value) == ENDING
        with pytest.raises(PodTimeoutError, match=TOO_LATE):
            when_down(troupe.worker, WhenDown.WAIT, timeout=0.02).add(1)
        queueing.add(2)
        answer = queueing.value.future()
        gate.touch()
        assert answer.result(PATIENCE) == 2
        when_down(troupe.worker, WhenDown.WAIT, timeout=PATIENCE).add(3)
        assert queueing.value.blocking() == 5
