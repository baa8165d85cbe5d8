"""What two careful readers found: each was wrong once."""

from __future__ import annotations

import gc
import logging
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from bandstand.core import STOP, ActorId, ActorStatus, Context, Down, Loop, Verdict
from bandstand.core.lowlevel import (
    bury_estate,
    declare_started,
    end_actor,
    send_system_after,
    set_family,
)
from bandstand.core.vocabulary import SystemTag
from bandstand.errors import (
    ActorNotLocal,
    ChildState,
    GaveUp,
    InvalidArgument,
    MaxChildren,
    NoSuchChild,
    StartFailed,
)
from bandstand.supervision import (
    ChildMode,
    ChildSpec,
    DynamicSpec,
    DynamicSupervisor,
    Strategy,
    Supervisor,
    SupervisorSpec,
    place_of,
    spawn_supervisor,
)
from bandstand.testing import shuffle
from tests.core.stage import Boom, LoopMaker, check_books, idle, obey, settle


def crash(ctx: Context[Any]) -> None:
    raise Boom("crash")


def fail_itself(ctx: Context[Any]) -> None:
    ctx.loop.fail_actor(ctx.self_id, "mine")


def child(name: str, **fields: Any) -> ChildSpec[Any]:
    return ChildSpec(name, obey, **fields)


# --- the low door checks who is meant ---------------------------------------------------------------------------------

DOORS: dict[str, Callable[[Loop, Any], object]] = {
    "end": end_actor,
    "declare": declare_started,
    "family": lambda loop, actor: set_family(loop, actor, None),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # never looked at
    "after": lambda loop, actor: send_system_after(loop, actor, 1, None, SystemTag.SHUTDOWN),
}


@pytest.mark.parametrize("door", DOORS)
def test_what_is_no_actor_is_refused(loop: Loop, door: str) -> None:
    with pytest.raises(InvalidArgument, match="is no actor id"):
        DOORS[door](loop, None)


@pytest.mark.parametrize("door", DOORS)
def test_another_loops_actor_is_refused(make_loop: LoopMaker, door: str) -> None:
    loop, other = make_loop(), make_loop()
    stranger = other.spawn(idle)
    with pytest.raises(ActorNotLocal):
        DOORS[door](loop, stranger)
    assert (loop.statistics().alive, other.statistics().alive) == (0, 1)


def test_what_is_no_estate_is_refused(loop: Loop) -> None:
    with pytest.raises(InvalidArgument, match="estate is None"):
        bury_estate(loop, None)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # on purpose


# --- no abnormal end without a line -----------------------------------------------------------------------------------


def errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [line.getMessage() for line in caplog.records if line.levelno == logging.ERROR]


@pytest.mark.guarantee("G55")
def test_two_of_a_group_fail_in_one_tick_and_both_are_told(
    loop: Loop, caplog: pytest.LogCaptureFixture
) -> None:
    tree = spawn_supervisor(
        loop, SupervisorSpec(strategy=Strategy.ONE_FOR_ALL, children=[child("a"), child("b")])
    )
    for name in ("a", "b"):
        loop.send(tree.address(name), crash)
    settle(loop)
    assert [info.restarts for info in tree.children()] == [1, 1]
    (line,) = errors(caplog)
    assert "'b'" in line
    assert "was stopping child" in line


@pytest.mark.guarantee("G55", "G57")
def test_a_child_that_failed_just_before_it_was_stopped_is_told(
    loop: Loop, caplog: pytest.LogCaptureFixture
) -> None:
    tree = spawn_supervisor(loop, SupervisorSpec(children=[child("a")]))
    loop.fail_actor(tree.address("a"), "by itself")
    assert tree.stop_child("a")
    settle(loop)
    assert tree.child("a") is None
    assert "'a'" in errors(caplog)[0]


# --- whose fault a failed start was -----------------------------------------------------------------------------------


@pytest.mark.guarantee("G46")
def test_a_failed_start_tells_its_own_cause_not_an_older_one(loop: Loop) -> None:
    starts = 0

    def init(ctx: Context[Any]) -> None:
        nonlocal starts
        starts += 1
        if starts == 2:
            raise ValueError("old")

    tree = spawn_supervisor(loop, SupervisorSpec(children=[child("a", init=init)]))
    loop.send(tree.address("a"), crash)
    settle(loop)
    assert starts == 3
    with pytest.raises(StartFailed) as caught:
        tree.start_child(child("b", init=fail_itself))
    assert "mine" in str(caught.value.__cause__)
    assert "old" not in str(caught.value)


@pytest.mark.guarantee("G46")
def test_a_failed_start_that_was_raised_is_not_logged_as_well(
    loop: Loop, caplog: pytest.LogCaptureFixture
) -> None:
    def init(ctx: Context[Any]) -> None:
        raise Boom("no")

    with pytest.raises(StartFailed):
        spawn_supervisor(loop, SupervisorSpec(children=[child("a"), child("b", init=init)]))
    loop.run(until_idle=True)
    assert [line.getMessage() for line in caplog.records] == []


@pytest.mark.slow
def test_an_ended_supervisor_is_garbage_though_a_restart_of_it_has_failed(
    loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What is logged is kept by whoever reads the log here, with its traceback.
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

    tree = spawn_supervisor(loop, SupervisorSpec(children=[child("a", init=init)]))
    loop.send(tree.address("a"), crash)
    settle(loop)
    assert starts == 3
    tree.stop()
    settle(loop)
    del tree
    gc.collect()
    assert [ghost() for ghost in ghosts] == [None] * 3


# --- while a tree opens -----------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G50")
def test_a_restart_that_fails_while_the_tree_opens_counts_like_any_other(loop: Loop) -> None:
    starts = 0

    def init(ctx: Context[Any]) -> None:
        nonlocal starts
        starts += 1
        if starts == 2:
            raise Boom("once")

    async def slow(ctx: Context[Any]) -> None:
        pass

    tree = spawn_supervisor(loop, SupervisorSpec(children=[child("a", init=init), child("b", init=slow)]))
    loop.fail_actor(tree.address("a"))
    loop.run(until_idle=True)
    assert starts == 3
    assert [info.restarts for info in tree.children()] == [2, 0]
    assert tree.count_children().active == 2


@pytest.mark.guarantee("G55")
def test_a_first_start_is_no_restart(loop: Loop) -> None:
    async def slow(ctx: Context[Any]) -> None:
        pass

    spec = SupervisorSpec(
        strategy=Strategy.ONE_FOR_ALL, children=[child("a"), child("b", init=slow), child("never")]
    )
    tree = spawn_supervisor(loop, spec)
    loop.fail_actor(tree.address("a"))
    loop.run(until_idle=True)
    assert [info.restarts for info in tree.children()] == [1, 0, 0]


# --- who belongs to whom ----------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G54")
def test_nobody_is_slipped_to_a_supervisor(loop: Loop) -> None:
    tree = spawn_supervisor(loop, SupervisorSpec())
    with pytest.raises(InvalidArgument, match="ChildSpec"):
        loop.spawn(idle, supervisor=tree.actor)
    with pytest.raises(InvalidArgument, match="manages its own children"):
        spawn_supervisor(loop, SupervisorSpec(), parent=tree.actor)


def test_a_parent_may_be_named_by_its_number(loop: Loop) -> None:
    boss = loop.spawn(idle)
    tree = spawn_supervisor(loop, SupervisorSpec(), parent=int(boss))
    assert loop.status(tree.actor) is ActorStatus.RUNNING
    with pytest.raises(InvalidArgument, match="'boss' is no actor id"):
        spawn_supervisor(loop, SupervisorSpec(), parent="boss")  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]  # on purpose


@pytest.mark.guarantee("G45")
def test_a_tree_cannot_grow_too_deep_while_it_runs(loop: Loop) -> None:
    tree = root = spawn_supervisor(loop, SupervisorSpec())
    for _ in range(49):
        tree.start_child(ChildSpec("below", SupervisorSpec()))
        below = tree.supervisor("below", Supervisor)
        assert below is not None
        tree = below
    with pytest.raises(InvalidArgument, match="more than 50 deep"):
        tree.start_child(ChildSpec("below", SupervisorSpec()))
    loop.kill_actor(root.actor)
    assert loop.statistics().alive == 0


@pytest.mark.guarantee("G54")
def test_the_loop_is_asked_to_stop_in_the_middle_of_a_group_stop(
    loop: Loop, caplog: pytest.LogCaptureFixture
) -> None:
    class Hook:
        def on_actor_stop(self, id: ActorId, reason: object) -> None:  # noqa: A002 -- the hook's own name
            loop.request_stop()

    spec = SupervisorSpec(
        strategy=Strategy.ONE_FOR_ALL,
        children=[child("a"), ChildSpec("below", SupervisorSpec(children=[child("x")])), child("c")],
    )
    tree = spawn_supervisor(loop, spec)
    loop.send(tree.address("a"), crash)
    loop.set_observer(Hook())
    loop.run()
    assert loop.statistics().alive == 0
    assert errors(caplog) == []


# --- what it answers ------------------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G51", "G57")
def test_between_a_childs_end_and_its_handling_nothing_says_that_it_runs(loop: Loop) -> None:
    tree = spawn_supervisor(loop, SupervisorSpec(children=[child("a")]))
    loop.fail_actor(tree.address("a"))
    with pytest.raises(ChildState, match="has just exited"):
        tree.address("a")
    assert tree.count_children().active == 0
    assert tree.children()[0].actor is None


def test_the_wrong_kind_is_refused_also_while_it_is_down(loop: Loop) -> None:
    tree = spawn_supervisor(loop, SupervisorSpec(children=[ChildSpec("below", SupervisorSpec()), child("a")]))
    tree.stop_child("below")
    settle(loop)
    assert tree.supervisor("below", Supervisor) is None
    with pytest.raises(NoSuchChild, match="not a DynamicSupervisor"):
        tree.supervisor("below", DynamicSupervisor)
    with pytest.raises(NoSuchChild, match="not a Supervisor"):
        tree.supervisor("a", Supervisor)


def test_a_supervisor_has_no_call_that_breaks_it(loop: Loop) -> None:
    tree = spawn_supervisor(loop, SupervisorSpec())
    assert not {"disband", "keep", "members"} & set(dir(tree))


@pytest.mark.guarantee("G56")
def test_the_place_of_a_number_of_any_size(loop: Loop) -> None:
    assert 0 <= place_of(10**5000, 4) < 4


@pytest.mark.guarantee("G56")
def test_arguments_that_nobody_would_get_are_refused(loop: Loop) -> None:
    tree = spawn_supervisor(loop, DynamicSpec(child=ChildSpec("a", idle)))
    with pytest.raises(InvalidArgument, match="has no init, so 'ada' would be lost"):
        tree.start_child("ada")
    assert tree.children() == ()


@pytest.mark.guarantee("G56")
def test_a_dynamic_child_can_be_stopped_by_its_id(loop: Loop) -> None:
    tree = spawn_supervisor(loop, DynamicSpec(child=ChildSpec("a", idle)))
    actor = tree.start_child()
    assert tree.stop_child(actor)
    with pytest.raises(NoSuchChild):
        tree.stop_child(actor)


@pytest.mark.guarantee("G56")
@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("mode", [ChildMode.TEMPORARY, ChildMode.TRANSIENT])
def test_whoever_hears_of_an_end_can_start_the_next(loop: Loop, seed: int, mode: ChildMode) -> None:
    shuffle(loop, seed)
    jobs = list(range(12))
    done: list[int] = []

    def work(ctx: Context[int], data: object) -> Verdict:
        done.append(ctx.state)
        return STOP

    def begin(ctx: Context[int], job: int) -> int:
        ctx.loop.send(ctx.self_id, "go")
        return job

    pool = spawn_supervisor(
        loop, DynamicSpec(child=ChildSpec("job", work, init=begin, mode=mode), max_children=2)
    )

    def feed(ctx: Context[None], data: object) -> None:
        assert data == "begin" or isinstance(data, Down)
        for _ in range(2 if data == "begin" else 1):
            if jobs:
                ctx.loop.monitor(ctx.self_id, pool.start_child(jobs.pop()))

    loop.send(loop.spawn(feed), "begin")
    settle(loop)
    assert sorted(done) == list(range(12))
    for _ in range(2):
        pool.start_child(0)
    with pytest.raises(MaxChildren):
        pool.start_child(0)
    check_books(loop)


@pytest.mark.guarantee("G48")
def test_a_permanent_child_that_ends_normally_too_often_is_told_what_to_do(loop: Loop) -> None:
    def done(ctx: Context[Any], data: object) -> Verdict:
        return STOP

    tree = spawn_supervisor(loop, SupervisorSpec(children=[ChildSpec("job", done)], intensity=0))
    loop.send(tree.address("job"), None)
    with pytest.raises(GaveUp, match="make it transient"):
        loop.run(until_idle=True)
