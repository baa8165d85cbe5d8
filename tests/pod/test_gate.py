"""What follows from the end of a pod: the table, row by row."""

from __future__ import annotations

import pytest

from bandstand.pod.comeback import Comeback
from bandstand.pod.ending import Ending
from bandstand.pod.gate import Plan, Record, Verdict, decide
from bandstand.pod.vocabulary import PodPhase, RestartPolicy
from bandstand.supervision import Backoff, History, Intensity

COMPLETED = Ending(PodPhase.COMPLETED, "all its actors have ended")
FAILED = Ending(PodPhase.FAILED, "it failed with Boom()", "engine", ValueError("boom"))
RESTART, RETIRE, ESCALATE = Verdict.RESTART, Verdict.RETIRE, Verdict.ESCALATE


def plan(
    ending: Ending,
    restart: RestartPolicy,
    *,
    record: Record | None = None,
    intensity: Intensity | None = None,
    backoff: Backoff | None = None,
    now: float = 0.0,
    lived_ms: float = 0.0,
    chance: float = 0.5,
    is_vital: bool = False,
    is_stopping: bool = False,
) -> Plan:
    return decide(
        ending,
        Record() if record is None else record,
        restart=restart,
        intensity=Intensity(3, 5000.0) if intensity is None else intensity,
        backoff=backoff,
        now=now,
        lived_ms=lived_ms,
        chance=chance,
        is_vital=is_vital,
        is_stopping=is_stopping,
    )


@pytest.mark.guarantee("G157")
@pytest.mark.spec("S2")
@pytest.mark.parametrize(
    ("restart", "ending", "verdict"),
    [
        (RestartPolicy.ALWAYS, COMPLETED, RESTART),
        (RestartPolicy.ALWAYS, FAILED, RESTART),
        (RestartPolicy.ON_FAILURE, COMPLETED, RETIRE),
        (RestartPolicy.ON_FAILURE, FAILED, RESTART),
        (RestartPolicy.NEVER, COMPLETED, RETIRE),
        (RestartPolicy.NEVER, FAILED, RETIRE),
    ],
)
def test_the_policy_and_the_end_decide(restart: RestartPolicy, ending: Ending, verdict: Verdict) -> None:
    assert plan(ending, restart).verdict is verdict


@pytest.mark.guarantee("G160")
@pytest.mark.spec("S2")
@pytest.mark.parametrize("restart", list(RestartPolicy))
@pytest.mark.parametrize("ending", [COMPLETED, FAILED])
def test_nothing_restarts_once_the_troupe_is_stopping(restart: RestartPolicy, ending: Ending) -> None:
    decided = plan(ending, restart, is_stopping=True, is_vital=True)
    assert decided.verdict is RETIRE
    assert decided.reason == "the troupe is stopping"


@pytest.mark.spec("S16", "S17")
def test_the_failure_of_somebody_vital_escalates_and_its_end_does_not() -> None:
    assert plan(FAILED, RestartPolicy.NEVER, is_vital=True).verdict is ESCALATE
    assert plan(COMPLETED, RestartPolicy.NEVER, is_vital=True).verdict is RETIRE
    assert plan(FAILED, RestartPolicy.ON_FAILURE, is_vital=True).verdict is RESTART


@pytest.mark.guarantee("G158")
@pytest.mark.spec("S10")
@pytest.mark.parametrize("restart", [RestartPolicy.ALWAYS, RestartPolicy.ON_FAILURE])
def test_one_restart_too_many_escalates(restart: RestartPolicy) -> None:
    record = Record()
    for at in (0.0, 100.0, 200.0):
        decided = plan(FAILED, restart, record=record, now=at)
        assert decided.verdict is RESTART
        record = decided.record
    decided = plan(FAILED, restart, record=record, now=4999.0)
    assert decided.verdict is ESCALATE
    assert (
        "it was to be started again 4 times within 5000 ms, not counting its starts, and 3 are allowed"
        in decided.reason
    )
    assert FAILED.reason in decided.reason


@pytest.mark.spec("S10")
def test_restarts_that_are_long_ago_do_not_count() -> None:
    record = Record(History((0.0, 100.0, 200.0)))
    assert plan(FAILED, RestartPolicy.ALWAYS, record=record, now=5000.0).verdict is RESTART
    assert plan(FAILED, RestartPolicy.ALWAYS, record=record, now=4999.0).verdict is ESCALATE


class Returning:
    """A pod with the declared defaults."""

    restart = RestartPolicy.ON_FAILURE
    intensity = Intensity(3, 5000.0)
    backoff: Backoff | None = None


def verdicts_of(
    monkeypatch: pytest.MonkeyPatch, *, starts_s: float, runs_s: float | None, times: int
) -> list[Verdict]:
    """What is decided of one that takes so long to start, and fails after so long; None if it never runs."""
    now = 100.0
    monkeypatch.setattr("bandstand.pod.comeback.monotonic", lambda: now)
    comeback, verdicts = Comeback(Returning(), is_vital=False), list[Verdict]()
    for _ in range(times):
        comeback.begin()
        now += starts_s
        if runs_s is not None:
            comeback.run()
            now += runs_s
        verdicts.append(comeback.decide(FAILED, is_stopping=False).verdict)
    return verdicts


@pytest.mark.guarantee("G292")
@pytest.mark.spec("S10")
@pytest.mark.parametrize("starts_s", [0.0, 1.7, 60.0])
@pytest.mark.parametrize("runs_s", [None, 0.1])
def test_the_time_of_starts_does_not_count(
    monkeypatch: pytest.MonkeyPatch, starts_s: float, runs_s: float | None
) -> None:
    """One that fails at each start fails too often, however long a start takes."""
    found = verdicts_of(monkeypatch, starts_s=starts_s, runs_s=runs_s, times=4)
    assert found == [RESTART, RESTART, RESTART, ESCALATE]


@pytest.mark.guarantee("G292")
@pytest.mark.spec("S10")
def test_the_time_in_which_it_runs_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    assert verdicts_of(monkeypatch, starts_s=1.7, runs_s=1.7, times=20) == [RESTART] * 20


@pytest.mark.guarantee("G159")
@pytest.mark.spec("S10")
def test_a_long_start_is_no_life_that_lets_the_backoff_begin_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("bandstand.pod.comeback.monotonic", lambda: now)
    spec = Returning()
    spec.backoff = Backoff(initial_ms=10, factor=2)
    comeback, delays = Comeback(spec, is_vital=False), list[float]()
    for _ in range(3):
        comeback.begin()
        now += 6.0
        delays.append(comeback.decide(FAILED, is_stopping=False).delay_ms)
    assert delays == [10, 20, 40]


@pytest.mark.spec("S10")
def test_ends_in_good_order_count_like_failures() -> None:
    """Whoever ends at once whenever he is started is no better than who fails."""
    record = Record()
    verdicts: list[Verdict] = []
    for _ in range(4):
        decided = plan(COMPLETED, RestartPolicy.ALWAYS, record=record)
        record = decided.record
        verdicts.append(decided.verdict)
    assert verdicts == [RESTART, RESTART, RESTART, ESCALATE]


@pytest.mark.guarantee("G159")
@pytest.mark.spec("S10")
def test_the_backoff_grows_after_failures_and_not_after_ends_in_good_order() -> None:
    backoff, often = Backoff(initial_ms=10, factor=2), Intensity(100, 5000.0)
    record, delays = Record(), list[float]()
    for ending in (FAILED, FAILED, COMPLETED, FAILED):
        decided = plan(ending, RestartPolicy.ALWAYS, record=record, intensity=often, backoff=backoff)
        record = decided.record
        delays.append(decided.delay_ms)
    assert delays == [10, 20, 0, 40]


@pytest.mark.guarantee("G159")
@pytest.mark.spec("S10")
def test_a_long_life_lets_the_backoff_begin_anew() -> None:
    backoff = Backoff(initial_ms=10, factor=2)
    record = plan(FAILED, RestartPolicy.ALWAYS, backoff=backoff).record
    decided = plan(FAILED, RestartPolicy.ALWAYS, record=record, backoff=backoff, lived_ms=5000.0)
    assert decided.delay_ms == 10


@pytest.mark.spec("S10")
def test_the_jitter_is_by_chance_and_is_not_remembered() -> None:
    backoff = Backoff(initial_ms=100, jitter_ms=10)
    low = plan(FAILED, RestartPolicy.ALWAYS, backoff=backoff, chance=0.0)
    high = plan(FAILED, RestartPolicy.ALWAYS, backoff=backoff, chance=1.0)
    assert (low.delay_ms, high.delay_ms) == (90, 110)
    assert low.record == high.record


def test_the_reason_is_a_sentence_for_whoever_finds_it_gone() -> None:
    assert plan(FAILED, RestartPolicy.NEVER).reason == "it has failed: it failed with Boom()"
    assert plan(COMPLETED, RestartPolicy.NEVER).reason == "it has ended: all its actors have ended"
    assert plan(Ending(PodPhase.COMPLETED), RestartPolicy.NEVER).reason == "it has ended"


def test_the_reason_of_what_is_escalated_does_not_say_twice_that_it_has_failed() -> None:
    escalated = plan(FAILED, RestartPolicy.NEVER, is_vital=True)
    assert (escalated.verdict, escalated.reason) == (ESCALATE, "it failed with Boom()")
    hopeless = plan(FAILED, RestartPolicy.ALWAYS, intensity=Intensity(0, 5000.0))
    assert hopeless.reason.startswith(
        "it was to be started again once within 5000 ms, not counting its starts, and 0 are allowed; "
    )


def test_what_is_decided_does_not_change_what_was_remembered() -> None:
    record = Record(History((1.0,)), 10.0)
    plan(FAILED, RestartPolicy.ALWAYS, record=record, now=2.0, backoff=Backoff())
    assert record == Record(History((1.0,)), 10.0)
