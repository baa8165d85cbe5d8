"""The end of one role, by its handle: the same wherever its pod is."""

from __future__ import annotations

import pytest

from bandstand.pod.enums import PodPhase, ThreadModel
from tests.pod.troupes import COOPERATIVE, DEDICATED, ON_FAILURE, PROCESS, is_gone, solo, wait_phase

pytestmark = [
    pytest.mark.spec("S19"),
    pytest.mark.guarantee("G267"),
    pytest.mark.slow,
    pytest.mark.real_time(reason="threads and processes live in real time"),
]


@pytest.mark.parametrize("model", [COOPERATIVE, DEDICATED, PROCESS])
def test_a_role_that_is_killed_fails_its_pod_wherever_it_is(model: ThreadModel) -> None:
    with solo(model, ON_FAILURE) as troupe:
        troupe.counter.add(5)
        assert troupe.counter.value.blocking() == 5
        troupe.counter.kill()
        wait_phase(troupe, "counter", PodPhase.RUNNING, number=2)
        assert troupe.counter.value.blocking() == 0
        (failure,) = (event for event in troupe.phases.history if event.phase is PodPhase.FAILED)
        assert "was killed" in failure.reason


@pytest.mark.parametrize("model", [COOPERATIVE, DEDICATED, PROCESS])
def test_a_role_that_is_stopped_ends_its_pod_in_order_if_it_was_the_last(model: ThreadModel) -> None:
    with solo(model, ON_FAILURE) as troupe:
        troupe.counter.stop(drain=True)
        assert wait_phase(troupe, "counter", PodPhase.COMPLETED).reason == "all its actors have ended"
        assert is_gone(troupe.counter.add)
