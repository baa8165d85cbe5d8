"""A pod that has failed, and one of whose actors takes long to end: the failure is told, and the pod goes on in its time."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import replace

import pytest

from bandstand.actor import Actor, WhenDown, when_down
from bandstand.core import ExitReason
from bandstand.errors import PodFailedError, PodGoneError
from bandstand.pod.declaration import pod
from bandstand.pod.deployment import Troupe
from bandstand.pod.enums import PodPhase
from bandstand.supervision import RestartPolicy
from tests.pod.troupes import NEVER, ON_FAILURE, PATIENCE, PROCESS, Counter, Gate, wait_phase

pytestmark = [
    pytest.mark.spec("S2"),
    pytest.mark.real_time(reason="threads and processes live in real time"),
    pytest.mark.guarantee("G295"),
]

RUNNING, FAILED = PodPhase.RUNNING, PodPhase.FAILED


class Slow(Actor):
    """Stands before a gate when it ends; without one it sleeps, nearly for ever."""

    def __init__(self, gate: Gate | None = None) -> None:
        self.gate = gate

    def on_stop(self, reason: ExitReason, cause: BaseException | None, /) -> None:
        if self.gate is None:
            time.sleep(10 * PATIENCE)
        else:
            self.gate.stand()


class Near(Troupe):
    """A pod of two, of which one is slow to end."""

    both = pod(restart=ON_FAILURE)
    slow = both.of(Slow)
    counter = both.expose(Counter)


def near(gate: Gate, stop_timeout: float, restart: RestartPolicy = ON_FAILURE) -> Near:
    """One that stands before this gate when it ends, and has so long for it."""
    both = Near.layout()["both"]
    roles = (replace(both.roles[0], args=(gate,)), both.roles[1])
    return Near(layout={"both": replace(both, roles=roles, stop_timeout=stop_timeout, restart=restart)})


class Far(Troupe):
    """The same in a process."""

    both = pod(restart=ON_FAILURE, stop_timeout=0.3, thread=PROCESS)
    slow = both.of(Slow)
    counter = both.expose(Counter)


def test_a_failure_is_told_while_another_actor_of_the_pod_is_ending() -> None:
    gate = Gate()
    with near(gate, 20) as troupe:
        troupe.counter.crash()
        event = wait_phase(troupe, "both", FAILED)
        assert not gate.opened.is_set()
        assert "Boom" in event.reason
        assert troupe.status().pod("both").phase is FAILED
        gate.open()
        wait_phase(troupe, "both", RUNNING, number=2)
        assert troupe.counter.value.blocking() == 0
    told = [(each.number, each.phase.value) for each in troupe.phases.history]
    assert told[:5] == [(1, "pending"), (1, "running"), (1, "failed"), (2, "pending"), (2, "running")]


def test_whoever_hears_of_a_failure_for_good_finds_the_pod_gone() -> None:
    gate = Gate()
    troupe = near(gate, 20, NEVER)
    troupe.start()
    try:
        troupe.counter.crash()
        wait_phase(troupe, "both", FAILED)
        assert not gate.opened.is_set()
        with pytest.raises(PodGoneError, match="it has failed"):
            when_down(troupe.counter, WhenDown.FAIL).add()
    finally:
        gate.open()
        with pytest.raises(PodFailedError, match="both"):
            troupe.wait(timeout=PATIENCE)


@pytest.mark.slow
def test_a_thread_that_does_not_end_after_a_failure_is_abandoned(caplog: pytest.LogCaptureFixture) -> None:
    gate = Gate()
    with near(gate, 0.2) as troupe:
        (thread,) = [each for each in threading.enumerate() if each.name.endswith(".both")]
        troupe.counter.add()
        troupe.counter.crash()
        wait_phase(troupe, "both", RUNNING, number=2)
        assert not gate.opened.is_set()
        assert troupe.counter.value.blocking() == 0
        gate.open()
        thread.join(PATIENCE)
        assert not thread.is_alive()
        # What comes back late disturbs nobody.
        assert troupe.counter.value.blocking() == 0
        assert troupe.status().pod("both").phase is RUNNING
    assert troupe.stats().is_balanced
    (loud,) = [each.getMessage() for each in caplog.records if each.levelno == logging.ERROR]
    assert (
        "pod 'both' #1 has failed, but its actors did not end within 0.2 s: its thread is abandoned" in loud
    )


@pytest.mark.slow
@pytest.mark.spec("S19")
def test_a_process_that_does_not_end_after_a_failure_is_killed() -> None:
    troupe = Far()
    troupe.start()
    try:
        troupe.counter.crash()
        event = wait_phase(troupe, "both", FAILED)
        assert "Boom" in event.reason
        wait_phase(troupe, "both", RUNNING, number=2)
        assert troupe.counter.value.blocking() == 0
    finally:
        troupe.stop(0)
