"""Phases of pods: every listener sees the valid changes once and in order; an invalid one is refused and changes nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bandstand.errors import InternalError
from bandstand.pod.enums import PodPhase
from bandstand.pod.phases import TRANSITIONS, Phases, PodEvent

PODS = ("a", "b", "c")

phase_changes = st.lists(st.tuples(st.sampled_from(PODS), st.sampled_from(PodPhase)), max_size=60)


@pytest.mark.guarantee("G137")
@pytest.mark.spec("S1")
@given(phase_changes, st.integers(1, 20))
def test_everybody_hears_the_same_and_only_what_follows(
    changes: list[tuple[str, PodPhase]], keep: int
) -> None:
    phases, seen, expected = Phases(PODS, keep=keep), list[PodEvent](), list[tuple[str, PodPhase, int]]()
    stream = phases.stream()
    phases.listen(seen.append)
    present: dict[str, tuple[PodPhase, int]] = dict.fromkeys(PODS, (PodPhase.PENDING, 0))
    for pod, phase in changes:
        before, number = present[pod]
        number += phase is PodPhase.PENDING or number == 0
        if phase in TRANSITIONS[before] or present[pod] == (PodPhase.PENDING, 0):
            phases.publish(pod, phase, number=number)
            present[pod] = (phase, number)
            expected.append((pod, phase, number))
        else:
            with pytest.raises(InternalError):
                phases.publish(pod, phase, number=number)
    phases.close()
    phases.join(10)
    assert [(event.pod, event.phase, event.number) for event in seen] == expected
    assert [stream.receive(timeout=0.0).blocking() for _ in expected] == seen
    assert phases.history == tuple(seen[-keep:])
    assert {name: (phases.of(name).phase, phases.of(name).number) for name in PODS} == present
