"""Backoff: the delays as arithmetic, and in a supervisor in virtual time."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress
from functools import partial
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bandstand.core import ActorStatus, Context, Loop, Verdict
from bandstand.errors import ChildStateError, RestartLimitError
from bandstand.errors.validation import to_seconds
from bandstand.supervision import (
    Backoff,
    ChildSpec,
    Overseer,
    Phase,
    Strategy,
    SupervisorSpec,
    Wait,
    spawn_supervisor,
)
from bandstand.testing import VirtualClock
from tests.core.support import Boom, LoopMaker, Seen, exits, idle, record, run_message, settle
from tests.supervision.helpers import fails_at_once, id_of, pass_time, phases_of, since, supervise, watched

pytestmark = [pytest.mark.guarantee("G49"), pytest.mark.spec("J20")]


NUMBERS = st.floats(1e-6, 1e3)
CHANCES = st.floats(0, 1)


@st.composite
def backoffs(draw: st.DrawFn, jitter: st.SearchStrategy[float] = NUMBERS) -> Backoff:
    """Any backoff that can be made."""
    initial = draw(NUMBERS)
    return Backoff(
        initial=initial,
        maximum=initial + draw(st.just(0) | NUMBERS),
        factor=draw(st.floats(1, 100)),
        jitter=draw(jitter),
    )


def series(backoff: Backoff, count: int) -> list[float]:
    """What is waited for the first `count` failures in a row, in milliseconds."""
    waits: list[float] = []
    stored = 0.0
    for _ in range(count):
        wait = backoff.after(stored)
        stored = wait.stored
        waits.append(round(wait.delay * 1000, 6))
    return waits


# --- arithmetic -----------------------------------------------------------------------------------------------------------


@pytest.mark.once
@pytest.mark.parametrize(
    ("backoff", "expected"),
    [
        (Backoff(), [100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000, 10_000]),
        (Backoff(factor=1), [100, 100, 100, 100]),
        (Backoff(initial=0.001, factor=10, maximum=0.05), [1, 10, 50, 50]),
        (Backoff(initial=0.007, maximum=0.007), [7, 7, 7, 7]),
        (Backoff(initial=0.008, factor=1.5, maximum=0.02), [8, 12, 18, 20]),
        (Backoff(initial=1000000000.0, maximum=3000000000.0, factor=3e12), [1e12, 3e12, 3e12, 3e12]),
    ],
    ids=repr,
)
def test_the_series_of_delays(backoff: Backoff, expected: list[float]) -> None:
    assert series(backoff, len(expected)) == expected


@pytest.mark.once
@given(backoff=backoffs(jitter=st.just(0.0)), chances=st.lists(CHANCES, min_size=1, max_size=60))
def test_without_jitter_a_series_grows_by_its_factor(backoff: Backoff, chances: list[float]) -> None:
    stored, waits = 0.0, list[float]()
    for chance in chances:
        wait = backoff.after(stored, chance=chance)
        assert wait.delay == wait.stored, "chance has no say"
        stored = wait.stored
        waits.append(stored)
    assert waits[0] == pytest.approx(backoff.initial)
    for before, after in pairwise(waits):
        assert after == pytest.approx(min(before * backoff.factor, to_seconds("maximum", backoff.maximum)))
        assert after >= before


@pytest.mark.spec("J24")
@pytest.mark.once
@given(backoff=backoffs(), chances=st.lists(CHANCES, min_size=1, max_size=40))
def test_jitter_stays_in_its_bounds_and_out_of_the_memory(backoff: Backoff, chances: list[float]) -> None:
    steady = Backoff(initial=backoff.initial, maximum=backoff.maximum, factor=backoff.factor)
    stored = plain = 0.0
    for chance in chances:
        wait, without = backoff.after(stored, chance=chance), steady.after(plain)
        stored, plain = wait.stored, without.stored
        assert stored == plain, "what is remembered is what there would be without jitter"
        assert 0 <= wait.delay <= to_seconds("maximum", backoff.maximum) * (1 + 1e-9)
        room = to_seconds("jitter", backoff.jitter) * (1 + 1e-9) + 1e-9
        assert abs(wait.delay - stored) <= room


@pytest.mark.once
@pytest.mark.parametrize(
    ("jitter", "stored", "chance", "expected"),
    [
        (0.03, 0.2, 0, Wait(0.37, 0.4)),
        (0.03, 0.2, 0.25, Wait(0.385, 0.4)),
        (0.03, 0.2, 0.5, Wait(0.4, 0.4)),
        (0.03, 0.2, 1, Wait(0.43, 0.4)),
        (50.0, 9, 0, Wait(0, 10)),
        (50.0, 9, 0.5, Wait(10, 10)),
        (50.0, 9, 1, Wait(10, 10)),
    ],
)
def test_jitter_goes_both_ways_between_nothing_and_the_maximum(
    jitter: float, stored: float, chance: float, expected: Wait
) -> None:
    assert Backoff(jitter=jitter).after(stored, chance=chance) == expected


# --- in a supervisor --------------------------------------------------------------------------------------------------------


@pytest.mark.spec("J19")
@pytest.mark.guarantee("G48")
@pytest.mark.parametrize(
    ("max_restarts", "last"),
    [(0, 0), (1, 100), (2, 300), (3, 700), (4, 1500), (5, 3100), (6, 6300), (8, 22_700), (10, 42_700)],
)
def test_the_limit_takes_precedence(loop: Loop, clock: VirtualClock, max_restarts: int, last: float) -> None:
    """It gives up at the first failure that is one too many, at once and without waiting, however long the delays were."""
    times: list[float] = []
    seen: list[Seen] = []
    run, init = fails_at_once(times, since(clock))
    recorder = watched(loop)
    boss = loop.spawn(record, seen)
    tree = supervise(
        loop, ChildSpec("kid", run, init, backoff=Backoff()), max_restarts=max_restarts, parent=boss
    )
    settle(loop)
    pass_time(loop, clock, last)
    assert times[-1] == last
    assert recorder.escalated == [tree.actor], "no time has passed since that failure"
    (note,) = exits(seen)
    assert isinstance(note.cause, RestartLimitError)
    assert loop.statistics().timers_pending == 0, "no child waits"
    pass_time(loop, clock, 30_000)
    assert times[-1] == last
    assert recorder.escalated == [tree.actor]


@pytest.mark.guarantee("G48")
@pytest.mark.parametrize(
    ("backoff", "last"),
    [
        (Backoff(), 22_700),
        (Backoff(initial=1.0, maximum=4.0), 7000),
        (Backoff(initial=1.0, maximum=1.0), 3000),
        (Backoff(initial=0.1, factor=1.0), 300),
    ],
)
def test_without_a_limit_a_child_waits_its_longest_delay_once(
    loop: Loop, clock: VirtualClock, backoff: Backoff, last: float
) -> None:
    times: list[float] = []
    run, init = fails_at_once(times, since(clock))
    recorder = watched(loop)
    tree = supervise(loop, ChildSpec("kid", run, init, backoff=backoff), parent=loop.spawn(idle))
    settle(loop)
    pass_time(loop, clock, 60_000)
    assert times[-1] == last
    assert recorder.escalated == [tree.actor]


@pytest.mark.guarantee("G48")
def test_without_a_limit_each_child_with_a_backoff_has_its_share(loop: Loop) -> None:
    tree = supervise(loop, ChildSpec("first", idle, backoff=Backoff()))
    assert allowed(tree) == 8
    tree.start_child(ChildSpec("second", idle, backoff=Backoff()))
    assert allowed(tree) == 16
    tree.start_child(ChildSpec("third", idle))
    assert allowed(tree) == 16
    for name in ("first", "second"):
        tree.stop_child(name)
        settle(loop)
        tree.delete_child(name)
    assert allowed(tree) == 3
    strict = SupervisorSpec(children=[ChildSpec("kid", idle, backoff=Backoff())], max_restarts=2)
    assert allowed(spawn_supervisor(loop, strict)) == 2


def allowed(tree: Overseer) -> int:
    """How many restarts a supervisor allows."""
    return tree.intensity.max_restarts


def wait_of(loop: Loop, clock: VirtualClock, tree: Overseer, name: str, step: float = 1) -> float:
    """How long a child that has just been ended is down: in steps of 1 ms by default."""
    settle(loop)
    watch = since(clock)
    while tree.child(name) is None:
        assert watch() < 20_000, f"{name} does not come back"
        pass_time(loop, clock, step, step)
    return watch()


def test_the_time_it_was_down_is_no_time_it_has_run(loop: Loop, clock: VirtualClock) -> None:
    tree = supervise(loop, ChildSpec("kid", idle, backoff=Backoff(initial=3.0, factor=1.5)), max_restarts=100)
    waits: list[float] = []
    for _ in range(4):
        loop.fail_actor(id_of(tree, "kid"))
        waits.append(wait_of(loop, clock, tree, "kid", step=250))
        pass_time(loop, clock, 1000, 1000)
    assert waits == [3000, 4500, 6750, 10_000]


@pytest.mark.parametrize(
    ("lived", "ended_by", "delay"),
    [
        (4999, None, 40),
        (5000, None, 10),
        (5001, None, 10),
        (60_000, "its normal exit", 10),
        (60_000, "a sibling", 10),
    ],
)
def test_a_child_that_has_run_for_a_period_begins_anew(
    loop: Loop, clock: VirtualClock, lived: float, ended_by: str | None, delay: float
) -> None:
    """However that period ended."""
    children = ChildSpec("kid", idle, backoff=Backoff(initial=0.01)), ChildSpec("sibling", idle)
    strategy = Strategy.ONE_FOR_ALL if ended_by == "a sibling" else Strategy.ONE_FOR_ONE
    tree = supervise(loop, *children, max_restarts=100, strategy=strategy)
    for expected in (10, 20):
        loop.fail_actor(id_of(tree, "kid"))
        assert wait_of(loop, clock, tree, "kid") == expected
    pass_time(loop, clock, lived, lived)
    if ended_by is not None:
        loop.stop_actor(id_of(tree, "kid" if ended_by == "its normal exit" else "sibling"))
        settle(loop)
    loop.fail_actor(id_of(tree, "kid"))
    assert wait_of(loop, clock, tree, "kid") == delay
    loop.fail_actor(id_of(tree, "kid"))
    assert wait_of(loop, clock, tree, "kid") == delay * 2, "and grows from there"


@pytest.mark.parametrize("takes", [0.0, 6.0])
def test_an_init_that_fails_is_no_life_however_long_it_takes(
    make_loop: LoopMaker, clock: VirtualClock, caplog: pytest.LogCaptureFixture, takes: float
) -> None:
    loop = make_loop(loop_factory=clock.new_event_loop)
    starts: list[float] = []
    watch = since(clock)

    async def init(ctx: Context[None]) -> None:
        starts.append(watch())
        if 1 < len(starts) < 8:
            if takes:
                await asyncio.sleep(takes)
            raise Boom("init")

    tree = supervise(loop, ChildSpec("kid", idle, init, backoff=Backoff()), max_restarts=100)
    loop.run(until_idle=True)
    loop.fail_actor(id_of(tree, "kid"))
    loop.run(until_idle=True)
    assert id_of(tree, "kid")
    between = [later - earlier for earlier, later in pairwise(starts)]
    expected = [100.0] + [delay + takes * 1000 for delay in (200, 400, 800, 1600, 3200, 6400)]
    assert between == pytest.approx(expected, abs=2)
    assert [round(entry.__dict__["delay"] * 1000, 6) for entry in caplog.records] == series(Backoff(), 7)


@pytest.mark.guarantee("G46")
@pytest.mark.parametrize("ends_after", [20, 300])
def test_a_group_starts_when_both_the_backoff_and_the_stopping_are_over(
    make_loop: LoopMaker, clock: VirtualClock, ends_after: int
) -> None:
    loop = make_loop(loop_factory=clock.new_event_loop)
    starts: list[tuple[str, float]] = []
    watch = since(clock)

    async def slow_to_end(ctx: Context[Any], data: object) -> None:
        try:
            await asyncio.sleep(1000)
        finally:
            await asyncio.sleep(ends_after / 1000)

    def init(ctx: Context[None], name: str) -> None:
        starts.append((name, watch()))

    tree = supervise(
        loop,
        ChildSpec("a", run_message, partial(init, name="a"), backoff=Backoff()),
        ChildSpec("b", slow_to_end, partial(init, name="b")),
        strategy=Strategy.ONE_FOR_ALL,
    )
    assert starts == [("a", 0), ("b", 0)]
    loop.send(id_of(tree, "b"), "go")

    def fail(ctx: Context[Any]) -> Verdict:
        return Verdict.FAIL

    loop.send_after(id_of(tree, "a"), 1.0, fail)
    loop.run(until_idle=True)
    assert [name for name, _ in starts[2:]] == ["a", "b"]
    both = 1000 + max(100, ends_after)
    assert [time for _, time in starts[2:]] == pytest.approx([both, both], abs=2)


# --- whatever happens -------------------------------------------------------------------------------------------------------


@pytest.mark.spec("J25")
@pytest.mark.parametrize("strategy", list(Strategy), ids=lambda strategy: strategy.value)
@pytest.mark.parametrize("then", ["stop", "stop and start", "stop and delete", "fail the other"])
def test_a_stale_end_of_waiting_is_ignored(
    loop: Loop, clock: VirtualClock, strategy: Strategy, then: str
) -> None:
    """The timer has fired, its message waits for the supervisor's turn; and just then a request changes everything."""
    hand = loop.spawn(run_message)
    tree = supervise(
        loop,
        ChildSpec("other", idle),
        ChildSpec("kid", idle, backoff=Backoff()),
        ChildSpec("last", idle),
        strategy=strategy,
    )
    acted: list[Phase] = []

    def act(ctx: Context[Any]) -> None:
        acted.append(phases_of(tree)["kid"])
        if then == "fail the other":
            if (other := tree.child("other")) is not None:
                loop.fail_actor(other)
            return
        assert tree.stop_child("kid")
        if then == "stop and delete":
            tree.delete_child("kid")
        elif then == "stop and start":
            with suppress(ChildStateError):
                tree.restart_child("kid")

    loop.send_after(hand, 0.1, act)
    loop.fail_actor(id_of(tree, "kid"))
    settle(loop)
    recorder = watched(loop)
    clock.advance(0.1)
    settle(loop)
    assert acted == [Phase.WAITING], "its turn came first"
    if then == "stop and start" and phases_of(tree)["kid"] is Phase.DOWN:
        tree.restart_child("kid")
    starts = int(then in {"stop and start", "fail the other"})
    if then == "fail the other" and strategy is Strategy.REST_FOR_ONE:
        starts = (
            2  # the end of the waiting was heard first: it is started, and then started again with its group
        )
    assert [name for _, name in recorder.started].count("kid") == starts
    pass_time(loop, clock, 1000)
    found = phases_of(tree)
    expected = {"stop": Phase.DOWN, "stop and delete": None}.get(then, Phase.UP)
    assert found.pop("kid", None) is expected
    was_given_up = then.startswith("stop")
    left_down = {
        Strategy.ONE_FOR_ONE: set[str](),
        Strategy.REST_FOR_ONE: {"last"},
        Strategy.ONE_FOR_ALL: {"other", "last"},
    }[strategy]
    assert found == {
        name: Phase.DOWN if was_given_up and name in left_down else Phase.UP for name in ("other", "last")
    }
    assert [name for _, name in recorder.started].count("kid") == starts
    assert loop.statistics().timers_pending == 0
    assert loop.status(tree.actor) is ActorStatus.RUNNING


@pytest.mark.parametrize(
    ("jitter", "chance", "waits"),
    [
        (0.06, 0.0, [40, 140, 340]),
        (0.06, 0.25, [70, 170, 370]),
        (0.06, 0.999, [160, 260, 460]),
        (0.15, 0.0, [0, 50, 250]),
    ],
)
def test_jitter_in_a_supervisor_is_waited_and_not_remembered(
    loop: Loop,
    clock: VirtualClock,
    monkeypatch: pytest.MonkeyPatch,
    jitter: float,
    chance: float,
    waits: list[float],
) -> None:
    monkeypatch.setattr(random, "random", lambda: chance)
    kid = ChildSpec("kid", idle, backoff=Backoff(initial=0.1, jitter=jitter))
    tree = supervise(loop, kid, max_restarts=9)
    for expected in waits:
        loop.fail_actor(id_of(tree, "kid"))
        assert wait_of(loop, clock, tree, "kid") == expected
