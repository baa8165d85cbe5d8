"""Laws of the gate: whatever happens, it restarts as often as it may, and not once more."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bandstand.errors.validation import to_ms
from bandstand.pod.enums import PodPhase
from bandstand.pod.restart import PodAction, PodEnding, RestartState, decide_restart
from bandstand.supervision import Backoff, Intensity, RestartPolicy

endings = st.sampled_from(
    [PodEnding(PodPhase.COMPLETED, "it has ended"), PodEnding(PodPhase.FAILED, "it has failed", "actor")]
)
gaps = st.floats(0, 4000, allow_nan=False)


@pytest.mark.guarantee("G158")
@pytest.mark.spec("S10")
@given(
    st.lists(st.tuples(gaps, endings), max_size=30), st.integers(0, 4), st.floats(1, 9000, allow_nan=False)
)
def test_no_window_holds_more_restarts_than_are_allowed(
    ends: list[tuple[float, PodEnding]], limit: int, period_ms: float
) -> None:
    intensity = Intensity(limit, period_ms / 1000)
    state, now, restarts = RestartState(), 0.0, list[float]()
    for gap, ending in ends:
        now += gap
        decision = decide_restart(
            ending,
            state,
            restart=RestartPolicy.ALWAYS,
            intensity=intensity,
            backoff=None,
            now=now,
            ran_ms=gap,
            chance=0.5,
        )
        recent = sum(at > now - period_ms for at in restarts)
        assert (decision.action is PodAction.ESCALATE) == (recent + 1 > limit)
        if decision.action is PodAction.ESCALATE:
            break
        restarts.append(now)
        state = decision.state


@pytest.mark.slow
@pytest.mark.spec("S2", "S10")
@given(
    endings,
    st.sampled_from(list(RestartPolicy)),
    st.floats(0, 1e6, allow_nan=False),
    st.floats(0, 1, allow_nan=False),
    st.booleans(),
    st.booleans(),
    st.none() | st.builds(Backoff, initial=st.floats(0.001, 0.1), jitter=st.floats(0, 0.05)),
)
def test_a_plan_always_makes_sense(
    ending: PodEnding,
    restart: RestartPolicy,
    now: float,
    chance: float,
    is_essential: bool,
    is_stopping: bool,
    backoff: Backoff | None,
) -> None:
    decision = decide_restart(
        ending,
        RestartState(),
        restart=restart,
        intensity=Intensity(1, 1.0),
        backoff=backoff,
        now=now,
        ran_ms=0.0,
        chance=chance,
        is_essential=is_essential,
        is_stopping=is_stopping,
    )
    assert decision.reason
    assert (
        0
        <= decision.delay_ms
        <= (0 if backoff is None or not ending.is_failure else to_ms("maximum", backoff.maximum))
    )
    if is_stopping or restart is RestartPolicy.NEVER:
        assert decision.action is not PodAction.RESTART
    if decision.action is not PodAction.RESTART:
        assert decision.delay_ms == 0
    if decision.action is PodAction.ESCALATE:
        assert is_essential
        assert ending.is_failure
