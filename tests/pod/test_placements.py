"""Each placement by itself, without a controller."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pytest

from bandstand.actor.handle import Handle
from bandstand.pod.enums import PodPhase, ThreadModel
from bandstand.pod.link import Undelivered
from bandstand.pod.placement import (
    CallerPlacement,
    CooperativePlacement,
    DedicatedPlacement,
    LocalPlacement,
    Placement,
    PlacementCallbacks,
    ProcessPlacement,
)
from bandstand.pod.restart import PodEnding
from bandstand.pod.spec import PodSpec, RoleSpec, TroupeSpec
from tests.pod.troupes import DEDICATED, PATIENCE, PROCESS, Counter, Gate

pytestmark = [pytest.mark.spec("S3"), pytest.mark.real_time(reason="threads and processes live in real time")]

T = TypeVar("T")

RUNNING, COMPLETED, FAILED = PodPhase.RUNNING, PodPhase.COMPLETED, PodPhase.FAILED


@dataclass
class Recorder:
    """Records the callbacks of a placement."""

    started: list[Placement] = field(default_factory=list[Placement])
    phases: list[PodPhase] = field(default_factory=list[PodPhase])
    threads: set[int] = field(default_factory=set[int])
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def callbacks(self) -> PlacementCallbacks:
        return PlacementCallbacks(
            on_phase=self._phase,
            on_started=self.started.append,
            on_peer_reachable=self._peer_reachable,
            on_failing=self._failing,
            on_undelivered=self._undelivered,
        )

    def _failing(self, placement: Placement, ending: PodEnding) -> None:
        """`run` returns how it ends."""

    def _peer_reachable(self, placement: Placement, peer: str) -> None:
        raise AssertionError(peer)

    def _phase(self, placement: Placement, phase: PodPhase, reason: str) -> None:
        self.phases.append(phase)
        self.threads.add(threading.get_native_id())
        self.changed.set()

    def _undelivered(self, message: Undelivered) -> None:
        raise AssertionError(message)

    async def until(self, phase: PodPhase) -> None:
        async with asyncio.timeout(PATIENCE):
            while phase not in self.phases:
                self.changed.clear()
                await self.changed.wait()


def spec_of(thread: ThreadModel, **options: Any) -> TroupeSpec:
    role = RoleSpec(name="counter", kind=Counter, is_exposed=True)
    return TroupeSpec(name="Placements", pods=(PodSpec(name="pod", roles=(role,), thread=thread, **options),))


def counter_of(placement: LocalPlacement) -> Any:
    handle: Handle = placement.runtime.handle("counter")
    return handle


@pytest.mark.parametrize("kind", [CooperativePlacement, DedicatedPlacement])
async def test_a_local_placement_runs_and_stops(
    kind: type[CooperativePlacement | DedicatedPlacement],
) -> None:
    recorder = Recorder()
    placement = kind(spec_of(DEDICATED), "pod", 4, recorder.callbacks)
    assert (placement.pod, placement.number, placement.is_out_of_process) == ("pod", 4, False)
    running = asyncio.create_task(placement.run())
    await recorder.until(RUNNING)
    assert recorder.started == [placement]
    assert set(placement.exposed) == {"counter"}
    counter = counter_of(placement)
    counter.add(2)
    assert await counter.value() == 2
    is_here = placement.location.native_id == threading.get_native_id()
    assert is_here is (kind is CooperativePlacement)
    activity = await asyncio.wrap_future(placement.activity())
    assert activity.waiting == {"counter": 0}
    placement.stop(1000)
    ending = await running
    assert ending.phase is COMPLETED
    # `run` returns the end, and no callback reports it. All callbacks run on this thread.
    assert recorder.phases == [RUNNING, PodPhase.TERMINATING]
    assert recorder.threads == {threading.get_native_id()}
    assert placement.final.is_balanced
    assert placement.final.handled >= 2


async def test_a_placement_is_killed_before_it_starts() -> None:
    early = PodEnding(COMPLETED, "stopped before it ran")
    placement = DedicatedPlacement(spec_of(DEDICATED), "pod", 1, Recorder().callbacks)
    placement.kill(early)
    assert await placement.run() == early


async def test_a_link_that_arrives_after_the_end_is_closed() -> None:
    recorder = Recorder()
    placement = CooperativePlacement(spec_of(DEDICATED), "pod", 1, recorder.callbacks)
    running = asyncio.create_task(placement.run())
    await recorder.until(RUNNING)
    placement.kill(PodEnding(COMPLETED))
    await running
    ours, theirs = socket.socketpair()
    with ours:
        placement.attach(None, theirs, is_running=True)
        assert theirs.fileno() == -1


@pytest.mark.guarantee("G170")
async def test_a_thread_that_does_not_start_fails_the_placement(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    placement = DedicatedPlacement(spec_of(DEDICATED), "pod", 1, Recorder().callbacks)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        ending = await placement.run()
    assert ending.phase is FAILED
    assert "can't start new thread" in ending.reason


def test_an_abandoned_placement_may_end_after_its_controller() -> None:
    gate = Gate()
    threads: list[threading.Thread] = []

    async def main() -> PodEnding:
        recorder = Recorder()
        placement = DedicatedPlacement(spec_of(DEDICATED), "pod", 1, recorder.callbacks)
        running = asyncio.create_task(placement.run())
        await recorder.until(RUNNING)
        threads.extend(
            thread for thread in threading.enumerate() if thread.name == "bandstand Placements.pod"
        )
        counter_of(placement).stand(gate)
        await asyncio.to_thread(gate.reached.wait, PATIENCE)
        placement.kill(PodEnding(FAILED, "killed"))
        placement.abandon(PodEnding(FAILED, "left behind"))
        ending = await running
        assert placement.is_abandoned
        assert (placement.final.sent, placement.final.in_doubt) == (1, 1)
        return ending

    try:
        assert asyncio.run(main()).reason == "left behind"
    finally:
        gate.open()
    (thread,) = threads
    thread.join(PATIENCE)
    assert not thread.is_alive()


# -- main --------------------------------------------------------------------------------------------------------------


# -- process -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.spec("S19")
async def test_a_process_placement_runs_and_stops() -> None:
    recorder = Recorder()
    spec = spec_of(PROCESS)
    placement = ProcessPlacement(spec, spec.pods[0], 2, recorder.callbacks, None)
    assert (placement.pod, placement.number, placement.is_out_of_process) == ("pod", 2, True)
    # The process has not started: this has no effect.
    placement.withdraw("pod", "nothing")
    caller = CallerPlacement(spec, print)
    caller_running = asyncio.create_task(caller.run_runtime())
    running = asyncio.create_task(placement.run())
    await recorder.until(RUNNING)
    assert recorder.started == [placement]
    assert placement.location.process not in {None, os.getpid()}
    ours, theirs = socket.socketpair()
    caller.attach("pod", ours, is_running=True)
    placement.attach(None, theirs, is_running=True)
    assert theirs.fileno() == -1
    counter: Any = caller.runtime.handle("counter")
    counter.add(2)
    assert await counter.value() == 2
    activity = await asyncio.wrap_future(placement.activity())
    assert activity.waiting == {"counter": 0}
    assert activity.stats.handled >= 2
    placement.stop(1000)
    ending = await running
    assert ending.phase is COMPLETED
    assert recorder.phases == [RUNNING, PodPhase.TERMINATING]
    assert placement.final.is_balanced
    assert placement.final.handled >= 2
    caller.kill(PodEnding(COMPLETED))
    await caller_running


@pytest.mark.guarantee("G170")
@pytest.mark.spec("S19")
async def test_a_process_that_cannot_be_started_fails_the_placement(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = spec_of(PROCESS)
    placement = ProcessPlacement(spec, spec.pods[0], 1, Recorder().callbacks, None)
    monkeypatch.setattr("sys.executable", "/nowhere/python")
    ending = await placement.run()
    assert ending.phase is FAILED
    assert "its process did not start" in ending.reason
