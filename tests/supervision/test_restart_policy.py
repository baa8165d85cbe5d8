"""The restart policy: the tables row by row, and the plan of one restart."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bandstand.core import ExitReason
from bandstand.errors.validation import to_ms
from bandstand.supervision import AutoShutdown, Backoff, History, Intensity
from bandstand.supervision.restart import (
    RestartPlan,
    plan_restart,
    triggers_auto_shutdown,
)

pytestmark = pytest.mark.once

ABNORMAL = (ExitReason.FAIL, ExitReason.PANIC)


@pytest.mark.guarantee("G53")
@pytest.mark.parametrize(
    ("auto", "others", "ends"),
    [
        (AutoShutdown.NEVER, [], False),
        (AutoShutdown.NEVER, [False, False], False),
        (AutoShutdown.ANY_SIGNIFICANT, [], True),
        (AutoShutdown.ANY_SIGNIFICANT, [True, True], True),
        (AutoShutdown.ALL_SIGNIFICANT, [], True),
        (AutoShutdown.ALL_SIGNIFICANT, [False, True], False),
        (AutoShutdown.ALL_SIGNIFICANT, [True], False),
        (AutoShutdown.ALL_SIGNIFICANT, [False, False], True),
    ],
)
def test_the_table_of_auto_shutdown(auto: AutoShutdown, others: list[bool], *, ends: bool) -> None:
    assert triggers_auto_shutdown(auto, others) is ends


# --- one restart planned --------------------------------------------------------------------------------------------------


def plan(
    history: History | None = None,
    now: float = 1000,
    *,
    intensity: Intensity | None = None,
    backoff: Backoff | None = None,
    reason: ExitReason = ExitReason.FAIL,
    stored_ms: float = 0,
    lived_ms: float = 0,
    chance: float = 0.5,
) -> RestartPlan:
    return plan_restart(
        Intensity() if intensity is None else intensity,
        History() if history is None else history,
        now,
        backoff=backoff,
        reason=reason,
        stored_ms=stored_ms,
        lived_ms=lived_ms,
        chance=chance,
    )


@pytest.mark.spec("J20")
@pytest.mark.guarantee("G49")
@pytest.mark.parametrize("reason", ABNORMAL)
@pytest.mark.parametrize(
    ("stored", "lived", "delay"),
    [(0, 0, 100), (100, 0, 200), (100, 4999.9, 200), (100, 5000, 100), (6400, 10**9, 100), (8000, 1, 10_000)],
)
def test_an_abnormal_end_waits(reason: ExitReason, stored: float, lived: float, delay: float) -> None:
    made = plan(backoff=Backoff(), reason=reason, stored_ms=stored, lived_ms=lived)
    assert made == RestartPlan(gives_up=False, delay_ms=delay, stored_ms=delay, history=History((1000,)))


@pytest.mark.spec("J20")
@pytest.mark.guarantee("G49")
@pytest.mark.parametrize("stored", [0, 100, 3200])
def test_a_normal_end_waits_not_and_counts_not_towards_the_next(stored: float) -> None:
    made = plan(backoff=Backoff(jitter=0.05), reason=ExitReason.NORMAL, stored_ms=stored, chance=1)
    assert (made.delay_ms, made.stored_ms) == (0, stored)
    assert made.history == History((1000,)), "it counts as a restart all the same"


@pytest.mark.spec("J19", "J20", "J24")
@pytest.mark.guarantee("G48", "G49")
@given(
    past=st.lists(st.integers(0, 9000), max_size=8).map(sorted),
    limit=st.integers(0, 4),
    period=st.integers(1, 9000),
    reason=st.sampled_from(ExitReason),
    lived=st.integers(0, 10_000),
    backoff=st.none() | st.just(Backoff()) | st.just(Backoff(jitter=0.07)),
    stored=st.sampled_from([0, 100, 200, 6400]),
    chance=st.floats(0, 1),
)
def test_giving_up_is_a_matter_of_the_intensity_alone(
    past: list[int],
    limit: int,
    period: int,
    reason: ExitReason,
    lived: int,
    backoff: Backoff | None,
    stored: float,
    chance: float,
) -> None:
    intensity, history = Intensity(limit, period / 1000), History(tuple(past))
    made = plan(
        history,
        9000,
        intensity=intensity,
        backoff=backoff,
        reason=reason,
        stored_ms=stored,
        lived_ms=lived,
        chance=chance,
    )
    delay, stored_next = 0.0, 0.0
    if backoff is not None and reason is not ExitReason.NORMAL:
        delay, stored_next = backoff.after_ms(0 if lived >= period else stored, chance)
    window: float = period
    if backoff is not None and reason is not ExitReason.NORMAL and lived < period and stored > 0:
        window += limit * (stored + to_ms("jitter", backoff.jitter))
    recent = [time for time in past if 9000 - time < window]
    assert made.gives_up is (len(recent) + 1 > limit)
    assert list(made.history.times) == [*recent, 9000]
    assert list(history.times) == past, "the old history is as it was"
    if backoff is None or reason is ExitReason.NORMAL:
        assert made.delay_ms == 0
    else:
        assert (made.delay_ms, made.stored_ms) == (delay, stored_next)
