"""What follows from the end of a pod: the table, row by row."""

from __future__ import annotations

import pytest

from bandstand.pod.enums import PodPhase
from bandstand.pod.restart import (
    PodAction,
    PodEnding,
    RestartDecision,
    RestartState,
    RestartTracker,
    decide_restart,
)
from bandstand.supervision import Backoff, Intensity, RestartPolicy

pytestmark = pytest.mark.spec("S2", "S10")

COMPLETED = PodEnding(PodPhase.COMPLETED, "all its actors have ended")
FAILED = PodEnding(PodPhase.FAILED, "it failed with Boom()", "engine", ValueError("boom"))
RESTART, RETIRE, ESCALATE = PodAction.RESTART, PodAction.RETIRE, PodAction.ESCALATE


def decide(
    ending: PodEnding,
    restart: RestartPolicy,
    *,
    state: RestartState | None = None,
    intensity: Intensity | None = None,
    backoff: Backoff | None = None,
    now: float = 0.0,
    ran_ms: float = 0.0,
    chance: float = 0.5,
    is_essential: bool = False,
    is_stopping: bool = False,
) -> RestartDecision:
    return decide_restart(
        ending,
        RestartState() if state is None else state,
        restart=restart,
        intensity=Intensity(3, 5.0) if intensity is None else intensity,
        backoff=backoff,
        now=now,
        ran_ms=ran_ms,
        chance=chance,
        is_essential=is_essential,
        is_stopping=is_stopping,
    )


@pytest.mark.guarantee("G157")
@pytest.mark.parametrize(
    ("restart", "ending", "action"),
    [
        (RestartPolicy.ALWAYS, COMPLETED, RESTART),
        (RestartPolicy.ALWAYS, FAILED, RESTART),
        (RestartPolicy.ON_FAILURE, COMPLETED, RETIRE),
        (RestartPolicy.ON_FAILURE, FAILED, RESTART),
        (RestartPolicy.NEVER, COMPLETED, RETIRE),
        (RestartPolicy.NEVER, FAILED, RETIRE),
    ],
)
def test_the_policy_and_the_end_decide(restart: RestartPolicy, ending: PodEnding, action: PodAction) -> None:
    assert decide(ending, restart).action is action


@pytest.mark.guarantee("G160")
@pytest.mark.parametrize("restart", list(RestartPolicy))
@pytest.mark.parametrize("ending", [COMPLETED, FAILED])
def test_nothing_restarts_once_the_troupe_is_stopping(restart: RestartPolicy, ending: PodEnding) -> None:
    decided = decide(ending, restart, is_stopping=True, is_essential=True)
    assert decided.action is RETIRE
    assert decided.reason == "the troupe is stopping"


@pytest.mark.spec("S16", "S17")
def test_the_failure_of_somebody_vital_escalates_and_its_end_does_not() -> None:
    assert decide(FAILED, RestartPolicy.NEVER, is_essential=True).action is ESCALATE
    assert decide(COMPLETED, RestartPolicy.NEVER, is_essential=True).action is RETIRE
    assert decide(FAILED, RestartPolicy.ON_FAILURE, is_essential=True).action is RESTART


class Settings:
    """A pod with the declared defaults."""

    restart = RestartPolicy.ON_FAILURE
    restarts = Intensity(3, 5.0)
    backoff: Backoff | None = None


def actions_of(
    monkeypatch: pytest.MonkeyPatch, *, starts_s: float, runs_s: float | None, times: int
) -> list[PodAction]:
    """What is decided of one that takes so long to start, and fails after so long; None if it never runs."""
    now = 100.0
    monkeypatch.setattr("bandstand.pod.restart.monotonic", lambda: now)
    tracker, actions = RestartTracker(Settings(), is_essential=False), list[PodAction]()
    for _ in range(times):
        tracker.mark_starting()
        now += starts_s
        if runs_s is not None:
            tracker.mark_running()
            now += runs_s
        actions.append(tracker.decide(FAILED, is_stopping=False).action)
    return actions


@pytest.mark.guarantee("G292")
@pytest.mark.parametrize("starts_s", [0.0, 1.7, 60.0])
@pytest.mark.parametrize("runs_s", [None, 0.1])
def test_the_time_of_starts_does_not_count(
    monkeypatch: pytest.MonkeyPatch, starts_s: float, runs_s: float | None
) -> None:
    """One that fails at each start fails too often, however long a start takes."""
    found = actions_of(monkeypatch, starts_s=starts_s, runs_s=runs_s, times=4)
    assert found == [RESTART, RESTART, RESTART, ESCALATE]


@pytest.mark.guarantee("G292")
def test_the_time_in_which_it_runs_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    assert actions_of(monkeypatch, starts_s=1.7, runs_s=1.7, times=20) == [RESTART] * 20


@pytest.mark.guarantee("G159")
def test_the_backoff_grows_after_failures_and_not_after_ends_in_good_order() -> None:
    backoff, often = Backoff(initial=0.01, factor=2), Intensity(100, 5.0)
    state, delays = RestartState(), list[float]()
    for ending in (FAILED, FAILED, COMPLETED, FAILED):
        decided = decide(ending, RestartPolicy.ALWAYS, state=state, intensity=often, backoff=backoff)
        state = decided.state
        delays.append(decided.delay_ms)
    assert delays == [10, 20, 0, 40]


@pytest.mark.guarantee("G159")
def test_a_long_life_lets_the_backoff_begin_anew() -> None:
    backoff = Backoff(initial=0.01, factor=2)
    state = decide(FAILED, RestartPolicy.ALWAYS, backoff=backoff).state
    decided = decide(FAILED, RestartPolicy.ALWAYS, state=state, backoff=backoff, ran_ms=5000.0)
    assert decided.delay_ms == 10


def test_the_reason_is_a_sentence_for_whoever_finds_it_gone() -> None:
    assert decide(FAILED, RestartPolicy.NEVER).reason == "it has failed: it failed with Boom()"
    assert decide(COMPLETED, RestartPolicy.NEVER).reason == "it has ended: all its actors have ended"
    assert decide(PodEnding(PodPhase.COMPLETED), RestartPolicy.NEVER).reason == "it has ended"


def test_the_reason_of_what_is_escalated_does_not_say_twice_that_it_has_failed() -> None:
    escalated = decide(FAILED, RestartPolicy.NEVER, is_essential=True)
    assert (escalated.action, escalated.reason) == (ESCALATE, "it failed with Boom()")
    hopeless = decide(FAILED, RestartPolicy.ALWAYS, intensity=Intensity(0, 5.0))
    assert hopeless.reason.startswith(
        "it needed 1 restart within 5 s, not counting start-up time, and 0 are allowed; "
    )
