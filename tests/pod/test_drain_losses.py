"""What is lost while a troupe drains must not hold the drain: whoever is gone has nothing left to finish."""

from __future__ import annotations

import asyncio
import os
import time

import pytest

from bandstand.actor import Actor, ask, tell
from bandstand.pod.declaration import pod
from bandstand.pod.deployment import Troupe
from bandstand.pod.enums import PodPhase
from tests.pod.troupes import PATIENCE, PROCESS, in_thread


class Patient(Actor):
    """Takes far longer than anybody would wait."""

    @tell
    async def wait(self) -> None:
        await asyncio.sleep(3600)

    @ask
    def place(self) -> int:
        return os.getpid()


class Show(Troupe):
    patient = pod(thread=PROCESS, stop_timeout=PATIENCE * 10).expose(Patient)
    other = pod().expose(Patient)


@pytest.mark.slow
@pytest.mark.guarantee("G165")
@pytest.mark.real_time(reason="a process is killed")
def test_a_process_that_is_killed_while_its_troupe_drains_holds_nobody() -> None:
    troupe = Show()
    troupe.start()
    pid = troupe.patient.place.blocking()
    troupe.patient.wait()
    began = time.monotonic()
    stopping = in_thread(lambda: troupe.stop(PATIENCE * 10))
    os.kill(pid, 9)
    stopping()
    assert time.monotonic() - began < PATIENCE
    assert troupe.phases.of("patient").phase is PodPhase.FAILED
    assert "SIGKILL" in troupe.phases.of("patient").reason
    assert troupe.phases.of("other").phase is PodPhase.COMPLETED
    assert troupe.stats().is_balanced
