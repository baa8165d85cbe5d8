"""Restart budgets: a child with its own limit is given up alone, and its siblings continue to run."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bandstand.core import ActorId, ActorStatus, ExitReason, Loop
from bandstand.errors import ChildStateError, InvalidArgumentError, NoSuchChildError, RestartLimitError
from bandstand.supervision import (
    Backoff,
    ChildSpec,
    DynamicSpec,
    DynamicSupervisor,
    History,
    Intensity,
    Phase,
    RestartBudget,
    RestartPolicy,
    Strategy,
    Supervisor,
    SupervisorSpec,
    spawn_supervisor,
)
from bandstand.supervision.restart import budget_of, count_given_up, counting_period_ms, plan_restart
from bandstand.testing import VirtualClock
from tests.core.support import Boom, idle, settle
from tests.supervision.helpers import nested, supervise

QUARTERS = st.integers(0, 400).map(lambda number: number * 250.0)


def crowd(loop: Loop, count: int, child: ChildSpec[Any], **fields: Any) -> DynamicSupervisor[ActorId]:
    supervisor = spawn_supervisor(loop, DynamicSpec(child=child, **fields), name="crowd")
    for _ in range(count):
        supervisor.start_child()
    return supervisor


def fail(loop: Loop, supervisor: DynamicSupervisor[ActorId] | Supervisor, name: str, times: int = 1) -> None:
    for number in range(times):
        loop.fail_actor(supervisor.address(name), Boom(number))
        settle(loop)


# --- laws ---------------------------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G380")
@pytest.mark.once
@given(
    limit=st.integers(0, 5),
    period=st.integers(1, 40),
    steps=st.lists(st.tuples(st.integers(0, 4), QUARTERS), max_size=60),
)
def test_a_child_is_judged_by_its_restarts(limit: int, period: int, steps: list[tuple[int, float]]) -> None:
    intensity = Intensity(limit, period)
    histories = [History() for _ in range(5)]
    times: list[list[float]] = [[] for _ in range(5)]
    now = 0.0
    for place, gap in steps:
        now += gap
        times[place].append(now)
        plan = plan_restart(intensity, histories[place], now, None, ExitReason.FAIL, 0, 0, 0.5)
        histories[place] = plan.history
        recent = [time for time in times[place] if now - time < period * 1000]
        assert plan.gives_up is (len(recent) > limit)
        for other in range(5):
            expected = sum(now - time < period * 1000 for time in times[other])
            assert budget_of(intensity, histories[other], now, period * 1000) == (expected, limit, period)


@pytest.mark.guarantee("G382")
@pytest.mark.once
@given(limit=st.integers(0, 5), period=st.integers(1, 40), gaps=st.lists(QUARTERS, min_size=1, max_size=60))
def test_children_given_up_count_like_restarts(limit: int, period: int, gaps: list[float]) -> None:
    intensity, history, times, now = Intensity(limit, period), History(), list[float](), 0.0
    for gap in gaps:
        now += gap
        times.append(now)
        history, is_too_many = count_given_up(intensity, history, now)
        assert is_too_many is (sum(now - time < period * 1000 for time in times) > limit)


@pytest.mark.guarantee("G383")
@pytest.mark.once
@given(limit=st.integers(0, 12), failures=st.integers(1, 20))
def test_a_budget_shows_what_the_next_plan_counts(limit: int, failures: int) -> None:
    """A child that fails whenever it is started: each plan counts one more than the budget shows before it."""
    intensity, backoff, history, stored, now = Intensity(limit, 5), Backoff(), History(), 0.0, 0.0
    for _ in range(failures):
        used = budget_of(intensity, history, now, counting_period_ms(intensity, backoff, stored)).used
        plan = plan_restart(intensity, history, now, backoff, ExitReason.FAIL, stored, 0, 0.5)
        assert plan.gives_up is (used + 1 > limit)
        if plan.gives_up:
            assert used == limit
            return
        history, stored, now = plan.history, plan.stored_ms, now + plan.delay_ms


# --- dynamic supervisors ------------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G381")
def test_a_child_over_its_budget_is_removed(loop: Loop, caplog: pytest.LogCaptureFixture) -> None:
    supervisor = crowd(loop, 3, ChildSpec("device", idle, max_restarts=2))
    others = [supervisor.address("device-1"), supervisor.address("device-3")]
    with caplog.at_level(logging.ERROR, "bandstand.supervision"):
        fail(loop, supervisor, "device-2", 3)
    assert [info.name for info in supervisor.children()] == ["device-1", "device-3"]
    assert [supervisor.address("device-1"), supervisor.address("device-3")] == others
    (line,) = caplog.records
    assert line.getMessage().startswith(
        "supervisor 'crowd' gives up child 'device-2': this would be restart 3 within 5 s, and its max_restarts is 2; "
        "it ended with reason FAIL (Boom(2"
    )
    assert vars(line)["child"] == "device-2"
    with pytest.raises(
        NoSuchChildError, match=r"'crowd' has given up child 'device-2': this would be restart 3"
    ):
        supervisor.address("device-2")


@pytest.mark.guarantee("G381")
def test_the_place_and_the_name_of_a_child_given_up_are_free(loop: Loop) -> None:
    supervisor = spawn_supervisor(
        loop, DynamicSpec(child=ChildSpec("device", idle, max_restarts=0), max_children=1)
    )
    supervisor.start_child(name="pump")
    fail(loop, supervisor, "pump")
    assert supervisor.why_given_up(["pump"]) is not None
    supervisor.start_child(name="pump")
    assert supervisor.why_given_up(["pump"]) is None
    assert supervisor.children()[0].budget == RestartBudget(0, 0, 5)


@pytest.mark.guarantee("G382")
def test_without_max_restarts_children_given_up_do_not_count(loop: Loop) -> None:
    supervisor = crowd(loop, 20, ChildSpec("device", idle, max_restarts=0))
    for number in range(1, 20):
        fail(loop, supervisor, f"device-{number}")
    assert loop.status(supervisor.actor) is ActorStatus.RUNNING
    assert [info.name for info in supervisor.children()] == ["device-20"]


@pytest.mark.guarantee("G382")
def test_with_max_restarts_each_child_given_up_counts_once(loop: Loop, clock: VirtualClock) -> None:
    supervisor = crowd(loop, 9, ChildSpec("device", idle, max_restarts=1), max_restarts=2, period=60)
    fail(loop, supervisor, "device-1", 2)
    fail(loop, supervisor, "device-2", 2)
    assert supervisor.budget == RestartBudget(2, 2, 60)
    clock.advance(60)
    assert supervisor.budget == RestartBudget(0, 2, 60)
    fail(loop, supervisor, "device-3", 2)
    fail(loop, supervisor, "device-4", 2)
    fail(loop, supervisor, "device-5", 1)
    loop.fail_actor(supervisor.address("device-5"), Boom("last"))
    text = (
        r"'crowd' gave up on child 'device-5': it has exceeded its own max_restarts, which is number 3 of the restarts "
        r"and the children given up within 60 s, and 2 are allowed; it ended with reason FAIL \(Boom"
    )
    with pytest.raises(RestartLimitError, match=text) as caught:
        loop.run(until_idle=True)
    assert len(caught.value.failures) == 3


@pytest.mark.guarantee("G383")
def test_a_budget_with_a_backoff_counts_the_delays(loop: Loop, clock: VirtualClock) -> None:
    child = ChildSpec("device", idle, max_restarts=8, backoff=Backoff())
    supervisor = crowd(loop, 1, child)
    assert supervisor.intensity == Intensity(3, 5)
    for number, delay in enumerate([0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10], 1):
        fail(loop, supervisor, "device-1")
        assert supervisor.children()[0].budget == RestartBudget(number, 8, 5)
        assert supervisor.children()[0].phase is Phase.WAITING
        clock.advance(delay)
        settle(loop)
    fail(loop, supervisor, "device-1")
    assert supervisor.children() == ()


# --- other supervisors --------------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G381")
def test_a_child_of_a_list_stays_down_until_a_request(loop: Loop) -> None:
    root = supervise(loop, ChildSpec("a", idle, max_restarts=1), ChildSpec("b", idle))
    fail(loop, root, "a", 2)
    info = root.children()[0]
    assert (info.phase, info.budget) == (Phase.DOWN, RestartBudget(2, 1, 5))
    assert info.given_up is not None
    assert info.given_up.startswith(
        "this would be restart 2 within 5 s, and its max_restarts is 1; it ended with"
    )
    assert "given up" in str(loop.tree())
    with pytest.raises(
        ChildStateError, match="child 'a' of supervisor 'root' is not running: it was given up: this"
    ):
        root.address("a")
    assert root.budget == RestartBudget(0, 3, 5)
    root.restart_child("a")
    info = root.children()[0]
    assert (info.phase, info.budget, info.given_up) == (Phase.UP, RestartBudget(0, 1, 5), None)
    fail(loop, root, "a")
    assert root.child("a") is not None


@pytest.mark.guarantee("G380")
def test_children_without_a_budget_count_against_the_supervisor(loop: Loop) -> None:
    root = supervise(loop, ChildSpec("a", idle, max_restarts=9), ChildSpec("b", idle))
    fail(loop, root, "a", 5)
    fail(loop, root, "b", 3)
    infos = root.children()
    assert infos[0].budget == RestartBudget(5, 9, 5)
    assert infos[1].budget is None
    assert root.budget == RestartBudget(3, 3, 5)
    loop.fail_actor(root.address("b"))
    with pytest.raises(RestartLimitError, match="gave up on child 'b': this would be restart 4 within 5 s"):
        loop.run(until_idle=True)


@pytest.mark.guarantee("G381")
def test_a_branch_with_a_budget_is_given_up_alone(loop: Loop) -> None:
    branch = SupervisorSpec(children=[ChildSpec("leaf", idle)], max_restarts=0)
    root = supervise(loop, ChildSpec("branch", branch, max_restarts=1), ChildSpec("b", idle))
    for _ in range(2):
        fail(loop, nested(root, "branch"), "leaf")
    assert [info.phase for info in root.children()] == [Phase.DOWN, Phase.UP]
    why = root.why_given_up(["branch", "leaf"])
    assert why is not None
    assert "RestartLimitError" in why


# --- specs --------------------------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G385")
@pytest.mark.once
@pytest.mark.parametrize(
    ("fields", "text"),
    [
        (
            {"max_restarts": -1},
            "child 'a': max_restarts is -1: pass how many restarts are allowed, from 0 on",
        ),
        ({"max_restarts": True}, "child 'a': max_restarts is True"),
        ({"max_restarts": 3, "period": 0}, "child 'a': period is 0"),
        (
            {"period": 5},
            "child 'a': period is 5 and max_restarts is None: .*set max_restarts, or leave out period",
        ),
        (
            {"max_restarts": 3, "restart": RestartPolicy.NEVER},
            "child 'a': restart is NEVER and max_restarts is 3: .*leave out max_restarts",
        ),
    ],
)
def test_a_wrong_budget_is_refused(fields: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidArgumentError, match=text):
        ChildSpec("a", idle, **fields)


@pytest.mark.guarantee("G385")
@pytest.mark.parametrize("strategy", [Strategy.ONE_FOR_ALL, Strategy.REST_FOR_ONE])
def test_a_child_of_a_group_has_no_budget(loop: Loop, strategy: Strategy) -> None:
    child = ChildSpec("a", idle, max_restarts=3)
    text = f"strategy is {strategy.name} and child 'a' has max_restarts 3: .*none can be given up alone"
    with pytest.raises(InvalidArgumentError, match=f"SupervisorSpec: {text}"):
        SupervisorSpec(children=[child], strategy=strategy)
    root = supervise(loop, strategy=strategy)
    with pytest.raises(InvalidArgumentError, match=f"supervisor 'root': {text}"):
        root.start_child(child)
    assert root.children() == ()


# --- names --------------------------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G386")
def test_a_dynamic_child_has_the_name_that_the_caller_chooses(loop: Loop) -> None:
    supervisor = crowd(loop, 0, ChildSpec("device", idle))
    pump = supervisor.start_child(name="pump")
    assert supervisor.name_of(pump) == "pump"
    fail(loop, supervisor, "pump")
    assert supervisor.child("pump") not in {None, pump}
    with pytest.raises(
        InvalidArgumentError, match="'crowd' has a child 'pump' already, which is up: names are unique"
    ):
        supervisor.start_child(name="pump")
    assert len(supervisor.children()) == 1
    supervisor.stop_child("pump")
    supervisor.start_child(name="pump")


@pytest.mark.guarantee("G386")
def test_a_number_that_a_caller_has_chosen_is_left_out(loop: Loop) -> None:
    supervisor = crowd(loop, 0, ChildSpec("device", idle))
    supervisor.start_child(name="device-2")
    supervisor.start_child(name="device-3")
    supervisor.start_child()
    supervisor.start_child()
    assert [info.name for info in supervisor.children()] == ["device-2", "device-3", "device-4", "device-5"]


@pytest.mark.guarantee("G386")
@pytest.mark.parametrize("name", ["", 5, b"pump"])
def test_a_name_is_a_string_that_is_not_empty(loop: Loop, name: Any) -> None:
    supervisor = crowd(loop, 0, ChildSpec("device", idle))
    with pytest.raises(InvalidArgumentError, match="pass a string that is not empty, or leave it out"):
        supervisor.start_child(name=name)
    assert supervisor.children() == ()
