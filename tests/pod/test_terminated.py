"""SIGTERM to the process of a pod: it stops in good order, and that is a failure unless its troupe is stopping."""

from __future__ import annotations

import os
import signal

import pytest

from bandstand.pod.enums import PodPhase
from bandstand.pod.placement import PlacementCallbacks, ProcessPlacement
from bandstand.pod.placement.process import PodEnded
from bandstand.pod.process.parent import ProcessExit
from bandstand.pod.restart import PodEnding
from bandstand.pod.spec import TroupeSpec
from bandstand.pod.status import PodStats
from tests.pod.troupes import NEVER, ON_FAILURE, PROCESS, pod_in, solo, wait_phase

pytestmark = pytest.mark.guarantee("G289")

COMPLETED, FAILED, RUNNING = PodPhase.COMPLETED, PodPhase.FAILED, PodPhase.RUNNING


@pytest.mark.slow
@pytest.mark.real_time(reason="processes are real")
def test_a_pod_whose_process_is_sent_sigterm_is_started_again() -> None:
    with solo(PROCESS, ON_FAILURE) as troupe:
        process, _thread = troupe.counter.place.blocking()
        for _ in range(50):
            troupe.counter.add(1)
        assert troupe.counter.value.blocking() == 50
        os.kill(process, signal.SIGTERM)
        wait_phase(troupe, "counter", RUNNING, number=2)
        failed = next(event for event in troupe.phases.history if event.phase is FAILED)
        assert "SIGTERM" in failed.reason
        assert troupe.counter.value.blocking() == 0
        assert troupe.status().pod("counter").restarts == 1
    # The one that its troupe has stopped has not failed.
    assert troupe.phases.of("counter").phase is COMPLETED
    assert troupe.stats().is_balanced


@pytest.mark.parametrize("is_terminated", [False, True])
@pytest.mark.parametrize("is_stopping", [False, True])
@pytest.mark.parametrize("is_asked", [False, True])
def test_whoever_asked_for_it_has_no_failure(is_terminated: bool, is_stopping: bool, is_asked: bool) -> None:
    def ignore(*_told: object) -> None:
        """Nobody is there."""

    told = PlacementCallbacks(
        on_phase=ignore,
        on_started=ignore,
        on_peer_reachable=ignore,
        on_failing=ignore,
        on_undelivered=ignore,
        is_stopping=lambda: is_stopping,
    )
    pod = pod_in(PROCESS, NEVER)
    stage = ProcessPlacement(TroupeSpec(name="Solo", pods=(pod,)), pod, 1, told, None)
    if is_asked:
        stage.stop(1000.0)
    ended = PodEnded.of(PodEnding(COMPLETED, "stopped"), PodStats(sent=3), is_terminated=is_terminated)
    ending = stage._ending_from(ended, ProcessExit(0, None, "exit code 0"))  # pyright: ignore[reportPrivateUsage]
    assert ending.is_failure == (is_terminated and not is_stopping and not is_asked)
    assert stage.final == PodStats(sent=3)
