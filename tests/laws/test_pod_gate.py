"""Laws of the gate: whatever happens, it restarts as often as it may, and not once more."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bandstand.pod.ending import Ending
from bandstand.pod.gate import MODES, Record, Verdict, decide
from bandstand.pod.vocabulary import PodPhase, RestartPolicy
from bandstand.supervision import Backoff, ChildMode, Intensity

endings = st.sampled_from(
    [Ending(PodPhase.COMPLETED, "it has ended"), Ending(PodPhase.FAILED, "it has failed", "actor")]
)
gaps = st.floats(0, 4000, allow_nan=False)


def test_every_policy_has_a_mode() -> None:
    assert set(MODES) == set(RestartPolicy)
    assert set(MODES.values()) == set(ChildMode)


@pytest.mark.guarantee("G158")
@pytest.mark.spec("S10")
@given(
    st.lists(st.tuples(gaps, endings), max_size=30), st.integers(0, 4), st.floats(1, 9000, allow_nan=False)
)
def test_no_window_holds_more_restarts_than_are_allowed(
    ends: list[tuple[float, Ending]], limit: int, period_ms: float
) -> None:
    intensity = Intensity(limit, period_ms)
    record, now, restarts = Record(), 0.0, list[float]()
    for gap, ending in ends:
        now += gap
        plan = decide(
            ending,
            record,
            restart=RestartPolicy.ALWAYS,
            intensity=intensity,
            backoff=None,
            now=now,
            lived_ms=gap,
            chance=0.5,
        )
        recent = sum(at > now - period_ms for at in restarts)
        assert (plan.verdict is Verdict.ESCALATE) == (recent + 1 > limit)
        if plan.verdict is Verdict.ESCALATE:
            break
        restarts.append(now)
        record = plan.record


@pytest.mark.slow
@pytest.mark.spec("S2", "S10")
@given(
    endings,
    st.sampled_from(list(RestartPolicy)),
    st.floats(0, 1e6, allow_nan=False),
    st.floats(0, 1, allow_nan=False),
    st.booleans(),
    st.booleans(),
    st.none() | st.builds(Backoff, initial_ms=st.floats(1, 100), jitter_ms=st.floats(0, 50)),
)
def test_a_plan_always_makes_sense(
    ending: Ending,
    restart: RestartPolicy,
    now: float,
    chance: float,
    is_vital: bool,
    is_stopping: bool,
    backoff: Backoff | None,
) -> None:
    plan = decide(
        ending,
        Record(),
        restart=restart,
        intensity=Intensity(1, 1000),
        backoff=backoff,
        now=now,
        lived_ms=0.0,
        chance=chance,
        is_vital=is_vital,
        is_stopping=is_stopping,
    )
    assert plan.reason
    assert 0 <= plan.delay_ms <= (0 if backoff is None or not ending.is_failure else backoff.max_ms)
    if is_stopping or restart is RestartPolicy.NEVER:
        assert plan.verdict is not Verdict.RESTART
    if plan.verdict is not Verdict.RESTART:
        assert plan.delay_ms == 0
    if plan.verdict is Verdict.ESCALATE:
        assert is_vital
        assert ending.is_failure
