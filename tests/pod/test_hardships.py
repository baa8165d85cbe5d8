"""What a kubelet must survive: work that does not end, a system that refuses, moments in between."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
import errno
import logging
import os
import resource
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

import pytest

from bandstand.actor import Actor, WhenDown, ask, tell, when_down
from bandstand.errors import (
    InvalidArgumentError,
    PodFailedError,
    PodGoneError,
)
from bandstand.pod.controller import PodLifecycle, ReadinessTracker
from bandstand.pod.declaration import pod
from bandstand.pod.deployment import Troupe
from bandstand.pod.directory import directory
from bandstand.pod.enums import PodPhase, ThreadModel
from bandstand.pod.membership import Membership
from bandstand.pod.placement import Placement, ProcessPlacement, process
from bandstand.pod.process import spawn_child
from bandstand.pod.threads import call_later_on, signals_wake_event_loop, wait_done, wait_with_signals
from tests.core.support import HostFactory
from tests.pod.test_membership import Fake, close, make_spec
from tests.pod.troupes import (
    COOPERATIVE,
    DEDICATED,
    ON_FAILURE,
    PATIENCE,
    PROCESS,
    Counter,
    Duo,
    Gate,
    Peers,
    is_gone,
    pod_in,
    solo,
    standing,
    wait_phase,
)

pytestmark = pytest.mark.real_time(reason="threads and processes live in real time")

RUNNING, FAILED = PodPhase.RUNNING, PodPhase.FAILED


# -- work that does not end --------------------------------------------------------------------------------------------


class Worker(Actor):
    """Has others work for it."""

    @tell
    async def work(self, gate: Gate) -> None:
        await asyncio.to_thread(gate.stand)

    @tell
    async def resist(self, gate: Gate) -> None:
        task = asyncio.create_task(self.stubborn(gate))
        await asyncio.sleep(0)
        self.task = task

    async def stubborn(self, gate: Gate) -> None:
        gate.reached.set()
        while not gate.opened.is_set():
            try:
                await asyncio.sleep(0.01)
            except asyncio.CancelledError:
                continue


class Workshop(Troupe):
    both = pod(restart=ON_FAILURE)
    worker = both.expose(Worker)
    counter = both.expose(Counter)


@pytest.mark.slow
@pytest.mark.guarantee("G169")
@pytest.mark.spec("S15")
@pytest.mark.parametrize("model", [DEDICATED, COOPERATIVE])
@pytest.mark.parametrize("how", ["work", "resist"])
def test_a_pod_is_started_again_though_work_of_its_last_incarnation_goes_on(
    model: ThreadModel, how: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bandstand.pod.placement.threads.CANCEL_TIMEOUT_S", 0.1)
    gate = Gate()
    both = Workshop.layout()["both"]
    troupe = Workshop(
        layout={"both": type(both)(name="both", roles=both.roles, restart=ON_FAILURE, thread=model)}
    )
    troupe.start()
    try:
        getattr(troupe.worker, how)(gate)
        assert gate.reached.wait(PATIENCE)
        troupe.counter.crash()
        wait_phase(troupe, "both", RUNNING, number=2)
        assert troupe.counter.value.blocking() == 0
        began = time.monotonic()
        troupe.stop(0.5)
        assert time.monotonic() - began < PATIENCE / 2
        assert troupe.__deployment__.kubelet is not None
        assert troupe.__deployment__.kubelet.ended.done()
        said = (
            "executor threads are still running"
            if how == "work"
            else "tasks are still running after cancellation"
        )
        assert any(said in record.getMessage() for record in caplog.records)
    finally:
        gate.open()


# -- a system that refuses ---------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.guarantee("G170")
@pytest.mark.spec("S8", "S10")
@pytest.mark.parametrize("model", [DEDICATED, COOPERATIVE, PROCESS])
def test_a_pod_without_links_is_restarted(model: ThreadModel, monkeypatch: pytest.MonkeyPatch) -> None:
    class Pair(Troupe):
        far = pod(thread=PROCESS).expose(Counter)
        counter = pod().expose(Counter)

    with Pair(layout={"far": Pair.layout()["far"], "counter": pod_in(model, ON_FAILURE)}) as troupe:
        troupe.counter.add(1)
        assert troupe.counter.value.blocking() == 1
        monkeypatch.setattr("bandstand.pod.membership.Membership._link", once(Membership._link))
        troupe.counter.crash()
        wait_phase(troupe, "counter", RUNNING, number=3)
        failed = [event for event in troupe.phases.history if event.phase is FAILED]
        assert [event.number for event in failed] == [1, 2]
        assert "could not be connected to its peers: OSError" in failed[1].reason
        assert troupe.counter.value.blocking() == 0
        assert troupe.far.value.blocking() == 0
    assert not [each for each in threading.enumerate() if each.name.startswith("bandstand")]


def once(real: Callable[..., None]) -> Callable[..., None]:
    """A function that fails the first time."""
    left = [True]

    def fake(*args: Any, **kwargs: Any) -> None:
        if left:
            left.pop()
            raise OSError(errno.EMFILE, "Too many open files")
        real(*args, **kwargs)

    return fake


@pytest.mark.guarantee("G170")
@pytest.mark.spec("S10")
def test_a_kubelet_without_a_thread_fails(monkeypatch: pytest.MonkeyPatch, loop_factory: HostFactory) -> None:
    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    async def block(troupe: Duo) -> None:
        async with troupe:
            raise AssertionError("it plays")

    def ride(troupe: Duo) -> None:
        with asyncio.Runner(loop_factory=loop_factory) as runner:
            runner.run(block(troupe))

    monkeypatch.setattr(threading.Thread, "start", refuse)
    for play in (Duo.start, Duo.play, ride):
        troupe = Duo()
        with pytest.raises(
            PodFailedError, match=r"pod 'kubelet': its thread did not start: can't start new thread"
        ):
            play(troupe)
        assert is_gone(troupe.counter.add)
        troupe.stop()


@pytest.mark.guarantee("G170")
@pytest.mark.spec("S10")
def test_an_internal_fault_is_told(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    def broken(*_args: object) -> None:
        raise ZeroDivisionError("a fault of ours")

    troupe = Duo()
    troupe.start()
    monkeypatch.setattr(PodLifecycle, "_retire", broken)
    troupe.teller.stop()
    with pytest.raises(PodFailedError, match="a fault of ours") as caught:
        troupe.wait(timeout=PATIENCE)
    assert caught.value.pod == "kubelet"
    assert any(record.levelno == logging.ERROR for record in caplog.records)


# -- moments in between ------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.spec("S19")
def test_a_stop_while_a_process_comes_up_is_not_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its process is up, and its stage has not heard of that yet."""
    stages: list[ProcessPlacement] = []

    async def spawn(*args: Any, **kwargs: Any) -> Any:
        child = await spawn_child(*args, **kwargs)
        # Before whoever waits for this goes on.
        asyncio.get_running_loop().call_soon(stages[0].stop, 1000)
        return child

    made = ProcessPlacement.__init__

    def note(stage: ProcessPlacement, *args: Any) -> None:
        made(stage, *args)
        stages.append(stage)

    monkeypatch.setattr(process, "spawn_child", spawn)
    monkeypatch.setattr(ProcessPlacement, "__init__", note)
    troupe = solo(PROCESS)
    troupe.start()
    assert troupe.wait(timeout=PATIENCE)
    event = troupe.phases.of("counter")
    assert (event.phase, event.reason) == (PodPhase.COMPLETED, "stopped before it ran")


class Caller(Actor):
    """Calls without waiting."""

    def __init__(self, peers: Peers) -> None:
        self.counter = when_down(peers.counter, WhenDown.FAIL)

    @ask
    async def call(self) -> int:
        return await self.counter.value()


class Prompt(Troupe):
    counter = pod(thread=PROCESS, restart=ON_FAILURE).expose(Counter)
    local = pod().expose(Caller, directory(Peers))
    remote = pod(thread=PROCESS).expose(Caller, directory(Peers))


@pytest.mark.slow
@pytest.mark.guarantee("G163")
@pytest.mark.spec("S14")
def test_who_hears_that_a_pod_runs_can_reach_it_without_waiting() -> None:
    """From outside, from a thread and from another process: after the start, and after a restart."""
    with Prompt() as troupe:
        for number in (1, 2):
            wait_phase(troupe, "counter", RUNNING, number=number)
            assert when_down(troupe.counter, WhenDown.FAIL).value.blocking() == 0
            assert troupe.local.call.blocking() == 0
            assert troupe.remote.call.blocking() == 0
            if number == 1:
                troupe.counter.crash()


@pytest.mark.slow
@pytest.mark.guarantee("G163")
@pytest.mark.spec("S18")
def test_one_that_is_stuck_does_not_keep_others_from_running(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bandstand.pod.controller.READY_TIMEOUT_S", 0.1)

    class Stuck(Troupe):
        blocker = pod().expose(Counter)
        counter = pod(thread=PROCESS, restart=ON_FAILURE).expose(Counter)

    with Stuck() as troupe, standing(troupe.blocker):
        troupe.counter.crash()
        wait_phase(troupe, "counter", RUNNING, number=2)
        assert troupe.counter.value.blocking() == 0


@pytest.mark.guarantee("G163")
async def test_an_arrival_is_told_when_all_who_run_can_reach_it_and_not_later_than_so() -> None:
    membership = Membership(make_spec("a", "p"), call_later_on(asyncio.get_running_loop()))
    ready: list[Placement] = []
    readiness = ReadinessTracker(membership, ready.append)
    outside, a, p = Fake(None), Fake("a"), Fake("p", is_out_of_process=True)
    membership.add(outside)
    for stage in (a, p):
        membership.add(stage)
    readiness.add(a)
    # Who does not run yet needs not be able to reach it.
    assert ready == [a]
    readiness.add(p)
    for knower, known in ((outside, "p"), (a, "p"), (p, "a")):
        assert ready == [a]
        readiness.mark_reachable(knower, known)
    assert ready == [a, p]
    readiness.finish(p)
    assert ready == [a, p]
    # Another incarnation is another matter; and who has gone is not waited for.
    membership.remove(p, "boom")
    again = Fake("p", is_out_of_process=True, number=2)
    membership.add(again)
    readiness.add(again)
    readiness.mark_reachable(outside, "p")
    assert ready == [a, p]
    membership.remove(a, "boom")
    readiness.check_all()
    assert ready == [a, p, again]
    close(outside, a, p, again)


# -- the program around ------------------------------------------------------------------------------------------------


class Bell:
    """When a signal was sent, to a thread that is not the main one, and when its handler was called."""

    def __init__(self) -> None:
        self.sent_at = 0.0
        self.heard: Future[float] = Future()
        self._thread = threading.Thread(target=self._send)

    def ring(self) -> None:
        self._thread.start()

    def _send(self) -> None:
        # By then the main thread is asleep.
        time.sleep(0.2)
        self.sent_at = time.monotonic()
        signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)
        try:
            self.heard.exception(2)
        except TimeoutError:
            self.heard.set_exception(AssertionError("the handler was not called"))

    def hear(self, _number: int, _frame: object) -> None:
        if not self.heard.done():
            self.heard.set_result(time.monotonic())

    def took(self) -> float:
        self._thread.join(PATIENCE)
        return self.heard.result(0) - self.sent_at


@pytest.fixture
def bell() -> Iterator[Bell]:
    bell = Bell()
    before = signal.signal(signal.SIGUSR1, bell.hear)
    yield bell
    signal.signal(signal.SIGUSR1, before)


@pytest.mark.slow
def test_a_thread_that_waits_hears_a_signal_that_came_to_another(bell: Bell) -> None:
    bell.ring()
    wait_with_signals(bell.heard)
    assert bell.took() < 1
    # Nothing of it is left.
    assert signal.set_wakeup_fd(-1) == -1


@pytest.mark.slow
async def test_an_event_loop_hears_a_signal_that_came_to_another_thread(bell: Bell) -> None:
    with signals_wake_event_loop():
        bell.ring()
        # Its handler can be called only if the signal wakes the event loop: nobody else does in this time.
        with suppress(TimeoutError):
            await asyncio.wait_for(wait_done(bell.heard), 2)
    assert bell.took() < 1


def test_the_wait_for_a_signal_needs_no_small_descriptors() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 2048:
        pytest.skip("this system allows no more descriptors")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2048), hard))
    held = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
    try:
        done: Future[None] = Future()
        timer = threading.Timer(0.01, done.set_result, (None,))
        timer.start()
        wait_with_signals(done)
        timer.join()
    finally:
        for fd in held:
            os.close(fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def forked(function: Callable[[], object]) -> int | None:
    """The exit status of a fork that calls a function: 0 if it returns. None, if it had to be killed."""
    with warnings.catch_warnings():
        # Newer Pythons warn of forks of programs with threads, which is the subject here.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if not pid:
        try:
            function()
        except BaseException:  # noqa: BLE001  # the fork must not go on in the test runner
            os._exit(1)
        os._exit(0)
    end = time.monotonic() + 10
    while time.monotonic() < end:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return status
        os.sched_yield()
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return None


@pytest.mark.skipif(sys.platform != "linux", reason="forks a program with threads")
@pytest.mark.guarantee("G291")
def test_a_fork_of_the_program_leaves_the_troupe_alone() -> None:
    def leave() -> None:
        with pytest.raises(PodGoneError, match="this process is a fork of the one that runs troupe 'Solo'"):
            troupe.counter.value.blocking()
        with pytest.raises(InvalidArgumentError, match="there is nothing to wait for"):
            troupe.wait()
        assert troupe.status().is_running is False
        troupe.__deployment__.stop_at_exit()
        # What the end of the block does.
        troupe.__exit__(None, None, None)
        with pytest.raises(InvalidArgumentError, match="was started before"):
            troupe.start()

    with solo(DEDICATED) as troupe:
        assert forked(leave) == 0
        assert troupe.counter.value.blocking() == 0


@pytest.mark.skipif(sys.platform != "linux", reason="forks a program with threads")
@pytest.mark.guarantee("G291")
def test_a_fork_can_play_a_troupe_of_its_own() -> None:
    mine = solo(DEDICATED)

    def play() -> None:
        with mine:
            assert mine.counter.value.blocking() == 0

    with solo(DEDICATED) as troupe:
        assert forked(play) == 0
        assert troupe.counter.value.blocking() == 0
