"""Restart intensity: against a naive model, at its boundaries, and in a supervisor that keeps to it."""

from __future__ import annotations

import gc
import logging
import weakref
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bandstand.core import ActorStatus, Context, ExitReason, Loop
from bandstand.errors import RestartLimitError
from bandstand.errors.validation import Seconds
from bandstand.supervision import (
    ChildSpec,
    History,
    Intensity,
    SupervisorSpec,
    spawn_supervisor,
)
from bandstand.testing import VirtualClock
from tests.core.support import Boom, Seen, exits, idle, record, settle
from tests.supervision.helpers import child, crash, id_of, pass_time, supervise, watched

pytestmark = pytest.mark.spec("J19")


# From this many outdated entries on a history copies its list: `restart.COMPACT_FROM`, which compiled code does not show.
COMPACT_FROM = 32

# Whole numbers and quarters: every sum and difference is exact, so that a boundary is a boundary.
QUARTERS = st.integers(0, 400).map(lambda number: number / 4)
LIMITS = st.integers(0, 6)
PERIODS = st.integers(1, 200).map(lambda number: number / 4)


def model(limit: int, period: float, times: list[float]) -> tuple[list[float], bool]:
    """The intensity as a sentence: those of all times that are younger than a period, and whether they are too many."""
    now = times[-1]
    recent = [time for time in times if now - time < period]
    return recent, len(recent) > limit


def gc_lists(history: History) -> list[list[object]]:
    """Every list that a history holds on to, whatever it calls them."""
    return [held for held in gc.get_referents(history) if isinstance(held, list)]


# --- laws ---------------------------------------------------------------------------------------------------------------


@pytest.mark.spec("J24")
@pytest.mark.guarantee("G48")
@pytest.mark.once
@given(limit=LIMITS, period=PERIODS, gaps=st.lists(QUARTERS, min_size=1, max_size=80))
def test_every_addition_is_what_the_naive_model_says(limit: int, period: float, gaps: list[float]) -> None:
    intensity, history, times, now = Intensity(limit, period), History(), list[float](), 0.0
    for gap in gaps:
        now += gap
        times.append(now)
        history, is_too_many = intensity.add(history, now)
        recent, expected = model(limit, period, times)
        assert list(history.times) == recent
        assert len(history) == len(recent)
        assert is_too_many is expected


@pytest.mark.spec("J24")
@pytest.mark.once
@given(period=PERIODS, steps=st.lists(st.tuples(st.integers(0, 1 << 30), QUARTERS), min_size=1, max_size=80))
def test_adding_to_any_history_changes_no_other(period: float, steps: list[tuple[int, float]]) -> None:
    """Histories branch: each step adds to one picked from all that were ever made, the newest or an old one."""
    intensity = Intensity(3, period)
    made: list[tuple[History, tuple[float, ...]]] = [(History(), ())]
    for pick, gap in steps:
        old, times = made[pick % len(made)]
        now = (times[-1] if times else 0.0) + gap
        new = intensity.add(old, now).history
        made.append((new, (*(time for time in times if now - time < period), now)))
        for history, expected in made:
            assert history.times == expected


@pytest.mark.once
def test_a_long_history_forgets_what_lies_before_its_window_and_nothing_else() -> None:
    """The shared list is compacted: the result does not change, and the list does not grow for ever."""
    intensity, history, kept = Intensity(3, 10), History(), list[History]()
    for now in range(20 * COMPACT_FROM):
        history = intensity.add(history, now).history
        kept.append(history)
    for now, old in enumerate(kept):
        assert old.times == tuple(range(max(0, now - 9), now + 1))
    held = max(map(len, gc_lists(history)))
    assert held <= 2 * COMPACT_FROM + 12, "it keeps outdated entries"


@pytest.mark.once
def test_a_history_is_a_value() -> None:
    one, other = History((1, 2)), Intensity().add(History((1,)), 2).history
    assert one == other
    assert hash(one) == hash(other)
    assert one != History((1,))
    assert one != (1, 2)
    assert repr(one) == repr(other) == "History((1.0, 2.0))"
    assert len({one, other, History((1,))}) == 2
    assert len(History()) == 0


# --- boundaries ---------------------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G48")
@pytest.mark.once
@pytest.mark.parametrize(
    ("last", "is_too_many"), [(4.999, True), (4.999999, True), (5, False), (5.000001, False)]
)
def test_a_restart_counts_until_exactly_a_period_has_passed(last: float, *, is_too_many: bool) -> None:
    history = History((0, 1, 2))
    assert Intensity().add(history, last).is_too_many is is_too_many


# --- in a supervisor ----------------------------------------------------------------------------------------------------


def failures_until_it_gives_up(
    loop: Loop, clock: VirtualClock, every_ms: float, most: int, **fields: Any
) -> int | None:
    """Fail a child at even intervals; the number of the failure that ended its supervisor, None if none did."""
    seen: list[Seen] = []
    boss = loop.spawn(record, seen)
    spec = SupervisorSpec(children=[ChildSpec("child", idle)], **fields)
    supervisor = spawn_supervisor(loop, spec, parent=boss)
    for number in range(1, most + 1):
        loop.fail_actor(id_of(supervisor, "child"))
        settle(loop)
        if exits(seen):
            (note,) = exits(seen)
            assert note.child == supervisor.actor
            assert note.reason is ExitReason.FAIL
            assert isinstance(note.cause, RestartLimitError)
            return number
        pass_time(loop, clock, every_ms, every_ms)
    assert loop.status(supervisor.actor) is ActorStatus.RUNNING
    assert [info.restarts for info in supervisor.children()] == [most]
    return None


@pytest.mark.guarantee("G48")
@pytest.mark.parametrize(
    ("every_ms", "gives_up_at"),
    [(1700, None), (1600, 4), (1666.666, 4), (1667, None), (2500, None), (1250, 4), (0.001, 4)],
)
def test_a_real_supervisor_by_how_often_its_child_fails(
    loop: Loop, clock: VirtualClock, every_ms: float, gives_up_at: int | None
) -> None:
    recorder = watched(loop)
    assert failures_until_it_gives_up(loop, clock, every_ms, 60) == gives_up_at
    assert len(recorder.escalated) == (gives_up_at is not None)


@pytest.mark.guarantee("G48")
@pytest.mark.parametrize(
    ("max_restarts", "period", "every_ms", "gives_up_at"),
    [
        (0, 5, 10_000, 1),
        (0, 1e-6, 10_000, 1),
        (1, 1, 999, 2),
        (1, 1, 1000, None),
        (1, timedelta(seconds=1), 999, 2),
        (2, 1, 500, None),
        (2, 1, 499, 3),
        (10, 0.1, 10, None),
        (10, 0.1, 9, 11),
        (20, 1e6, 1000, 21),
    ],
)
def test_a_real_supervisor_by_what_it_allows(
    loop: Loop,
    clock: VirtualClock,
    max_restarts: int,
    period: Seconds,
    every_ms: float,
    gives_up_at: int | None,
) -> None:
    failed = failures_until_it_gives_up(loop, clock, every_ms, 40, max_restarts=max_restarts, period=period)
    assert failed == gives_up_at


@pytest.mark.guarantee("G48")
def test_failures_that_are_too_old_to_count_are_let_go_all_of_them(
    loop: Loop, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    # caplog would keep the logged exceptions alive.
    monkeypatch.setattr(logging.getLogger("bandstand.supervision"), "disabled", True)
    causes: list[weakref.ref[BaseException]] = []

    def crash(_ctx: object, _data: object) -> None:
        error = Boom("again")
        causes.append(weakref.ref(error))
        raise error

    tree = supervise(loop, ChildSpec("a", crash), max_restarts=3, period=1.0)
    for _ in range(3):
        loop.send(tree.address("a"), "go")
        settle(loop)
    pass_time(loop, clock, 5000)
    loop.send(tree.address("a"), "go")
    settle(loop)
    gc.collect()
    assert [cause() is None for cause in causes[:3]] == [True] * 3


@pytest.mark.slow
def test_a_supervisor_is_freed_after_a_failed_restart(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    # caplog would keep the logged exceptions alive.
    monkeypatch.setattr(logging.getLogger("bandstand.supervision"), "disabled", True)

    class State:
        pass

    ghosts: list[weakref.ref[State]] = []
    starts = 0

    def init(ctx: Context[Any]) -> State:
        nonlocal starts
        starts += 1
        state = State()
        ghosts.append(weakref.ref(state))
        if starts == 2:
            raise Boom("once")
        return state

    tree = supervise(loop, child("a", init=init))
    loop.send(tree.address("a"), crash)
    settle(loop)
    assert starts == 3
    tree.stop()
    settle(loop)
    del tree
    gc.collect()
    assert [ghost() for ghost in ghosts] == [None] * 3


@pytest.mark.guarantee("G50")
def test_a_restart_that_fails_during_the_first_start_counts(loop: Loop) -> None:
    starts = 0

    def init(ctx: Context[Any]) -> None:
        nonlocal starts
        starts += 1
        if starts == 2:
            raise Boom("once")

    async def slow(ctx: Context[Any]) -> None:
        pass

    tree = supervise(loop, child("a", init=init), child("b", init=slow))
    loop.fail_actor(tree.address("a"))
    loop.run(until_idle=True)
    assert starts == 3
    assert [info.restarts for info in tree.children()] == [2, 0]
    assert tree.count_children().active == 2
