"""Requests: children added, stopped, started, deleted and listed while the supervisor runs, and every refusal."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from bandstand.core import ActorId, ActorStatus, Context, Loop, Observer
from bandstand.errors import (
    ActorNotLocalError,
    ChildStateError,
    InvalidArgumentError,
    LoopClosedError,
    MaxActorsError,
    MaxChildrenError,
    NoSuchActorError,
    NoSuchChildError,
    StartError,
    WrongThreadError,
)
from bandstand.supervision import (
    Backoff,
    ChildSpec,
    Counts,
    DynamicSpec,
    DynamicSupervisor,
    Overseer,
    PartitionSpec,
    PartitionSupervisor,
    RestartPolicy,
    Strategy,
    Supervisor,
    SupervisorSpec,
    spawn_supervisor,
)
from bandstand.testing import VirtualClock
from tests.actor.players import elsewhere
from tests.core.support import Boom, LoopMaker, call_in, check_statistics, idle, run_message, settle
from tests.supervision.helpers import (
    Fails,
    NameRecorder,
    StubbornCoroutine,
    bad_init,
    begin,
    below,
    child,
    crash,
    failing_init,
    id_of,
    nested,
    order,
    phases,
    place_init,
    running,
    slow_init,
    spin,
    start,
    supervise,
)

pytestmark = pytest.mark.guarantee("G57")

GROUPS = [Strategy.ONE_FOR_ALL, Strategy.REST_FOR_ONE]


Request = Callable[[Supervisor], object]

REQUESTS: dict[str, Request] = {
    "start_child": lambda sup: sup.start_child(child("new")),
    "restart_child": lambda sup: sup.restart_child("down"),
    "delete_child": lambda sup: sup.delete_child("down"),
    "stop_child": lambda sup: sup.stop_child("a"),
    "stop": lambda sup: sup.stop(),
}


@pytest.mark.parametrize("room", [0, 1, 2])
def test_spawn_supervisor_without_room_for_all_leaves_no_actor(make_loop: LoopMaker, room: int) -> None:
    loop = make_loop(max_actors=3)
    for _ in range(3 - room):
        loop.spawn(idle)
    with pytest.raises(MaxActorsError if room == 0 else StartError) as caught:
        start(loop, child("a"), child("b"))
    assert room == 0 or isinstance(caught.value.__cause__, MaxActorsError)
    settle(loop)
    assert loop.statistics().alive == 3 - room
    check_statistics(loop)


@pytest.mark.parametrize("strategy", list(Strategy))
def test_start_child_whose_init_fails_is_not_added(loop: Loop, strategy: Strategy) -> None:
    sup = start(loop, child("a"), strategy=strategy, max_restarts=0)
    with pytest.raises(StartError, match=r"'b'.*'root'.*Boom\('init'\)"):
        sup.start_child(child("b", init=bad_init))
    settle(loop)
    assert phases(sup) == {"a": "up"}
    assert loop.status(sup.actor) is ActorStatus.RUNNING, "it counts for nothing"
    sup.start_child(child("b"))
    assert running(sup) == ["a", "b"]


# --- spawn_supervisor ---------------------------------------------------------------------------------------------------


# --- start_child --------------------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G44", "G55")
@pytest.mark.parametrize("strategy", list(Strategy))
def test_start_child_with_an_async_init_that_fails_later_is_taken_out_and_logged(
    loop: Loop, strategy: Strategy, caplog: pytest.LogCaptureFixture
) -> None:
    sup = start(loop, child("a"), strategy=strategy, max_restarts=0)
    before = id_of(sup, "a")
    sup.start_child(child("b", init=failing_init))
    spin(loop)
    assert phases(sup) == {"a": "up"}
    assert id_of(sup, "a") == before
    (line,) = [line for line in caplog.records if line.name == "bandstand.supervision"]
    assert line.levelno == logging.ERROR
    assert "could not start" in line.getMessage()
    assert (getattr(line, "supervisor", None), getattr(line, "child", None)) == ("root", "b")
    assert line.exc_info is not None
    sup.start_child(child("b"))


@pytest.mark.guarantee("G44")
def test_a_child_that_something_depends_on_is_restarted_if_its_async_init_fails(loop: Loop) -> None:
    init = Fails(1, skip=0)

    async def slow(ctx: Context[Any]) -> int:
        await slow_init(ctx)
        return init(ctx)

    sup = spawn_supervisor(loop, DynamicSpec(child=child("b", init=slow)))
    sup.restart_if_start_fails(sup.start_child())
    spin(loop, 60)
    assert phases(sup) == {"b-1": "up"}
    assert sup.children()[0].restarts == 1


@pytest.mark.guarantee("G44")
def test_a_child_stopped_during_its_first_init_is_known_from_then_on(loop: Loop) -> None:
    calls = 0

    def init(ctx: Context[Any]) -> Any:
        nonlocal calls
        calls += 1
        if calls == 1:
            return slow_init(ctx)
        raise Boom(calls)

    sup = start(loop)
    sup.start_child(child("b", init=init))
    sup.stop_child("b")
    spin(loop)
    assert phases(sup) == {"b": "down"}
    with pytest.raises(StartError):
        sup.restart_child("b")
    assert phases(sup) == {"b": "down"}, "as before"
    assert sup.children()[0].actor is None


def test_start_child_refuses_a_name_that_is_taken_whatever_its_state(loop: Loop) -> None:
    sup = start(loop, child("up"), child("down"), child("waiting", backoff=Backoff()))
    sup.stop_child("down")
    order(loop, sup, "waiting", crash)
    for name in ("up", "down", "waiting"):
        with pytest.raises(InvalidArgumentError, match=rf"'root'.*'{name}' already.*unique"):
            sup.start_child(child(name))


@pytest.mark.parametrize("what", [None, "child", idle, SupervisorSpec()], ids=repr)
def test_start_child_refuses_what_is_no_spec(loop: Loop, what: Any) -> None:
    sup = start(loop)
    with pytest.raises(InvalidArgumentError, match=r"pass a ChildSpec"):
        sup.start_child(what)


# --- stop_child, restart_child, delete_child ----------------------------------------------------------------------------


def test_stop_child_that_takes_its_time_answers_false(loop: Loop) -> None:
    with StubbornCoroutine() as gate:
        sup = start(loop, child("slow", gate))
        begin(loop, sup, "slow")
        assert not sup.stop_child("slow")
        assert phases(sup) == {"slow": "stopping"}
        assert sup.child("slow") is None
        for call in (sup.restart_child, sup.delete_child):
            with pytest.raises(ChildStateError, match=r"'slow'.*'root'.*stopping"):
                call("slow")
        gate.open()
        spin(loop)
        assert sup.stop_child("slow")
        sup.delete_child("slow")


@pytest.mark.guarantee("G51", "G57")
def test_requests_about_one_that_has_just_died(loop: Loop) -> None:
    """Its exit has not been handled yet."""
    sup = start(loop, child("a"), max_restarts=1)
    loop.fail_actor(id_of(sup, "a"))
    for request in (sup.delete_child, sup.restart_child, sup.address):
        with pytest.raises(ChildStateError):
            request("a")
    assert sup.children()[0].actor is None
    assert sup.count_children().active == 0
    settle(loop)
    assert running(sup) == ["a"]
    assert sup.children()[0].restarts == 1
    loop.fail_actor(id_of(sup, "a"))
    assert sup.stop_child("a")
    settle(loop)
    assert phases(sup) == {"a": "down"}
    assert loop.status(sup.actor) is ActorStatus.RUNNING
    assert loop.statistics().timers_pending == 0


@pytest.mark.parametrize("name", ["nobody", "", 7, None])
def test_a_child_that_is_not_there(loop: Loop, name: Any) -> None:
    sup = start(loop, child("a"), child("b"))
    for call in (sup.child, sup.stop_child, sup.restart_child, sup.delete_child):
        with pytest.raises(NoSuchChildError, match=r"supervisor 'root' has no child .*; it has 'a', 'b'"):
            call(name)
    with pytest.raises(NoSuchChildError):
        sup.supervisor(name, Supervisor)


# --- a dynamic supervisor -----------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G56")
def test_max_children(loop: Loop) -> None:
    sup = spawn_supervisor(loop, DynamicSpec(child=child("a", restart=RestartPolicy.NEVER), max_children=2))
    first = sup.start_child()
    sup.start_child()
    with pytest.raises(MaxChildrenError, match=r"'root' has 2 children.*max_children.*stop some"):
        sup.start_child()
    loop.stop_actor(first)
    third = sup.start_child()
    assert sup.name_of(third) == "a-3", "its place was free from the moment of its end"
    with pytest.raises(MaxChildrenError):
        sup.start_child()
    settle(loop)
    assert sup.count_children() == Counts(2, 2, 0, 2)


@pytest.mark.guarantee("G56")
@pytest.mark.parametrize("init", [bad_init, failing_init, place_init])
def test_max_children_is_not_used_up_by_one_that_did_not_start(loop: Loop, init: Any) -> None:
    """The last init does not take the arguments."""
    sup = spawn_supervisor(loop, DynamicSpec(child=child("a", init=init), max_children=1))
    for _ in range(3):
        with suppress(StartError):
            sup.start_child()
        spin(loop)
        assert sup.children() == ()


# --- when and from where ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("request_name", list(REQUESTS))
@pytest.mark.parametrize("moment", ["first start", "request", "restart"])
def test_requests_from_a_childs_own_init_are_refused(loop: Loop, request_name: str, moment: str) -> None:
    refused: list[ChildStateError] = []
    sups: list[Supervisor] = []
    armed = False

    def init(ctx: Context[Any]) -> None:
        if armed:
            with pytest.raises(ChildStateError) as caught:
                REQUESTS[request_name](sups[0])
            refused.append(caught.value)

    sups.append(start(loop, child("a"), child("b", init=init), child("down")))
    sup = sups[0]
    sup.stop_child("down")
    armed = True
    if moment == "first start":
        sup.start_child(child("c", init=init))
    elif moment == "request":
        sup.stop_child("b")
        sup.restart_child("b")
    else:
        order(loop, sup, "b", crash)
    assert len(refused) == 1
    words = str(refused[0])
    assert "'root'" in words
    assert "init" in words
    assert "Do it from a message" in words
    settle(loop)
    assert loop.status(sup.actor) is ActorStatus.RUNNING
    REQUESTS[request_name](sup)
    settle(loop)


def test_an_async_init_may_make_requests(loop: Loop) -> None:
    async def init(ctx: Context[Any]) -> None:
        await slow_init(ctx)
        sup.start_child(child("helper"))

    sup = start(loop, child("a"))
    sup.start_child(child("b", init=init))
    spin(loop)
    assert running(sup) == ["a", "b", "helper"]


@pytest.mark.parametrize("request_name", list(REQUESTS))
@pytest.mark.parametrize("hook", ["on_actor_start", "on_actor_stop", "on_actor_restart"])
def test_requests_from_a_hook_while_the_supervisor_is_at_work_are_refused(
    loop: Loop, request_name: str, hook: str
) -> None:
    refused: list[ChildStateError] = []
    sup = start(loop, child("a"), child("b"), child("down"), strategy=Strategy.ONE_FOR_ALL)
    sup.stop_child("down")
    settle(loop)

    def ask(*_: object) -> None:
        # The first end is the crash itself, of which the supervisor does not know yet.
        if hook == "on_actor_stop" and loop.status(id_a) >= ActorStatus.STOPPED and not armed:
            armed.append(True)
            return
        try:
            REQUESTS[request_name](sup)
        except ChildStateError as error:
            refused.append(error)

    id_a = id_of(sup, "a")
    armed: list[bool] = []
    observer = Observer()
    setattr(observer, hook, ask)
    loop.set_observer(observer)
    order(loop, sup, "a", crash)
    loop.set_observer(None)
    assert refused
    assert all("hook" in str(error) for error in refused)
    assert running(sup) == ["a", "b"]


def test_requests_from_the_hook_of_a_give_up_are_refused(loop: Loop) -> None:
    refused: list[str] = []

    class Asking:
        def on_supervisor_escalate(self, supervisor: ActorId) -> None:
            for name, request in REQUESTS.items():
                with pytest.raises(ChildStateError):
                    request(sup)
                refused.append(name)

    sup = supervise(loop, child("a"), child("down"), max_restarts=0, parent=loop.spawn(idle))
    sup.stop_child("down")
    loop.set_observer(Asking())
    order(loop, sup, "a", crash)
    assert refused == list(REQUESTS)


def test_a_hook_may_ask_when_the_supervisor_is_not_at_work(loop: Loop) -> None:
    """A child is ended from outside: the hook runs in that call, and may ask."""
    sup = start(loop, child("a"))
    observer = Observer()
    observer.on_actor_stop = lambda *_: sup.start_child(child("b"))  # type: ignore[method-assign, assignment]
    loop.set_observer(observer)
    loop.stop_actor(id_of(sup, "a"))
    loop.set_observer(None)
    settle(loop)
    assert running(sup) == ["a", "b"]


@pytest.mark.guarantee("G24", "G54")
@pytest.mark.parametrize("how", ["kill", "stop", "fail"])
@pytest.mark.parametrize("request_name", ["stop", "stop_child", "start_child", "restart_child"])
def test_a_hook_that_ends_the_supervisor_at_work(loop: Loop, request_name: str, how: str) -> None:
    end = {"kill": loop.kill_actor, "stop": loop.stop_actor, "fail": loop.fail_actor}[how]
    sup = start(loop, child("x"), child("a"), child("z"), child("down"))
    sup.stop_child("down")
    settle(loop)
    ended: list[bool] = []

    def meddle(*_: object) -> None:
        if not ended:
            ended.append(True)
            end(sup.actor)

    observer = Observer()
    setattr(observer, "on_actor_stop" if request_name.startswith("stop") else "on_actor_start", meddle)
    loop.set_observer(observer)
    with suppress(ChildStateError, StartError):
        REQUESTS[request_name](sup)
    loop.set_observer(None)
    assert ended
    settle(loop)
    assert loop.status(sup.actor) >= ActorStatus.STOPPED
    assert loop.statistics().alive == 0
    assert loop.statistics().timers_pending == loop.statistics().waiting == 0


def test_looking_is_allowed_from_everywhere(loop: Loop) -> None:
    looks: list[tuple[object, ...]] = []
    sups: list[Supervisor] = []

    def look(*_: object) -> None:
        if sups:
            sup = sups[0]
            looks.append(
                (sup.name, sup.actor, sup.children(), sup.count_children(), sup.child("a"), loop.tree())
            )

    observer = Observer()
    for hook in ("on_actor_start", "on_actor_stop"):
        setattr(observer, hook, look)
    loop.set_observer(observer)
    sups.append(start(loop, child("a", init=look), strategy=Strategy.ONE_FOR_ALL))
    order(loop, sups[0], "a", crash)
    assert len(looks) == 3


@pytest.mark.guarantee("G29")
@pytest.mark.parametrize("request_name", [*REQUESTS, "child", "spawn_supervisor"])
def test_requests_from_another_thread(loop: Loop, request_name: str) -> None:
    sup = start(loop, child("a"), child("down"))
    sup.stop_child("down")
    before = loop.statistics().spawned
    others: dict[str, Request] = {
        "child": lambda sup: sup.child("a"),
        "spawn_supervisor": lambda sup: start(loop, child("a")),
    }
    with pytest.raises(WrongThreadError):
        elsewhere(lambda: (REQUESTS | others)[request_name](sup))
    assert phases(sup) == {"a": "up", "down": "down"}
    assert loop.statistics().spawned == before


@pytest.mark.guarantee("G26")
@pytest.mark.parametrize("is_gone", [False, True])
@pytest.mark.parametrize("request_name", [*REQUESTS, "spawn_supervisor"])
def test_requests_on_a_loop_that_is_closed(loop: Loop, request_name: str, is_gone: bool) -> None:
    sup = start(loop, child("a"), child("down"))
    sup.stop_child("down")
    before = loop.statistics().spawned
    others: dict[str, Request] = {"spawn_supervisor": lambda sup: start(loop, child("a"))}
    if is_gone:
        loop.destroy()
    else:
        loop.request_stop()
    if is_gone and request_name == "stop":
        sup.stop()
        return
    with pytest.raises((LoopClosedError, ChildStateError) if is_gone else LoopClosedError):
        (REQUESTS | others)[request_name](sup)
    if not is_gone:
        assert phases(sup) == {"a": "up", "down": "down"}, "nothing has changed"
    assert loop.statistics().spawned == before


@pytest.mark.parametrize("request_name", ["start_child", "restart_child", "delete_child"])
def test_requests_to_an_ending_supervisor(loop: Loop, recorder: NameRecorder, request_name: str) -> None:
    with StubbornCoroutine() as gate:
        sup = start(loop, child("a"), child("deaf", gate), child("down"))
        sup.stop_child("down")
        begin(loop, sup, "deaf")
        sup.stop()
        recorder.take()
        with pytest.raises(ChildStateError, match=r"'root' is stopping and cannot"):
            REQUESTS[request_name](sup)
        sup.stop()
        assert not sup.stop_child("a")
        spin(loop)
        assert recorder.take() == []
        gate.open()
        spin(loop)
        assert recorder.take() == ["-deaf", "-a", "-root"]
        sup.stop()
        for request in (REQUESTS[request_name], REQUESTS["stop_child"]):
            with pytest.raises(ChildStateError, match=r"'root' has ended and cannot"):
                request(sup)


def test_a_dynamic_supervisor_that_is_ending(loop: Loop) -> None:
    with StubbornCoroutine() as gate:
        sup = spawn_supervisor(loop, DynamicSpec(child=child("a", gate)))
        loop.send(sup.start_child(), "begin")
        spin(loop)
        sup.stop()
        with pytest.raises(ChildStateError, match=r"'root' is stopping"):
            sup.start_child()
        assert not sup.stop_child("a-1")
        gate.open()
        spin(loop)
        with pytest.raises(ChildStateError, match=r"'root' has ended"):
            sup.start_child()


@pytest.mark.parametrize("how", ["kill", "stop", "fail"])
def test_requests_to_a_supervisor_that_was_ended_from_outside(loop: Loop, how: str) -> None:
    sup = start(loop, child("a"), child("down"))
    sup.stop_child("down")
    {"kill": loop.kill_actor, "stop": loop.stop_actor, "fail": loop.fail_actor}[how](sup.actor)
    for name, request in REQUESTS.items():
        if name == "stop":
            request(sup)
        else:
            with pytest.raises(ChildStateError, match=r"'root' has ended"):
                request(sup)
    assert sup.child("a") is None
    assert sup.count_children().active == 0, "no child of an ended supervisor is active"


# --- in the middle of a sequence ------------------------------------------------------------------------------------------


def in_sequence(loop: Loop, strategy: Strategy, moment: str, gate: StubbornCoroutine) -> Supervisor:
    """A supervisor in the middle of restarting its group: a is to come back, `held` was stopped before."""
    init = slow_init if moment == "starting" else None
    specs = [
        child("a", init=init, backoff=Backoff(initial=0.1) if moment == "waiting" else None),
        child("b", gate if moment == "stopping" else run_message),
        child("down"),
    ]
    sup = start(loop, *specs, strategy=strategy)
    spin(loop)
    sup.stop_child("down")
    if moment == "stopping":
        begin(loop, sup, "b")
    loop.send(id_of(sup, "a"), crash)
    for _ in range(100):
        loop.poll_once()
        if "up" not in phases(sup).values():
            break
    return sup


@pytest.mark.guarantee("G47")
@pytest.mark.parametrize("strategy", GROUPS)
@pytest.mark.parametrize("moment", ["stopping", "waiting", "starting"])
@pytest.mark.parametrize("request_name", ["start_child", "restart_child", "delete_child"])
def test_starting_or_deleting_in_the_middle_of_a_group_restart(
    loop: Loop, clock: VirtualClock, strategy: Strategy, moment: str, request_name: str
) -> None:
    """No child can be started; one that is down can be deleted."""
    with StubbornCoroutine() as gate:
        sup = in_sequence(loop, strategy, moment, gate)
        before = phases(sup)
        assert "up" not in before.values()
        if request_name == "delete_child":
            sup.delete_child("down")
            for name in ("a", "b"):
                with pytest.raises(ChildStateError):
                    sup.delete_child(name)
        else:
            with pytest.raises(ChildStateError, match=r"'root'.*cannot start a child.*try again"):
                REQUESTS[request_name](sup)
            assert phases(sup) == before
        gate.open()
        spin(loop)
        clock.advance(0.1)
        spin(loop)
        assert running(sup) == ["a", "b"]
        if request_name != "delete_child":
            REQUESTS[request_name](sup)
            assert len(running(sup)) == 3


@pytest.mark.guarantee("G47")
@pytest.mark.parametrize("strategy", GROUPS)
@pytest.mark.parametrize("moment", ["stopping", "waiting", "starting"])
@pytest.mark.parametrize("name", ["a", "b"])
def test_stopping_one_in_the_middle_of_a_group_restart(
    loop: Loop, clock: VirtualClock, strategy: Strategy, moment: str, name: str
) -> None:
    with StubbornCoroutine() as gate:
        sup = in_sequence(loop, strategy, moment, gate)
        sup.stop_child(name)
        gate.open()
        spin(loop)
        clock.advance(0.1)
        spin(loop)
        other = "b" if name == "a" else "a"
        # If the one that failed is stopped while it waits for its next try, those that wait with it stay down.
        is_given_up = name == "a" and moment == "waiting"
        assert phases(sup) == {name: "down", other: "down" if is_given_up else "up", "down": "down"}
        assert loop.statistics().timers_pending == 0
        if is_given_up:
            sup.restart_child(other)
        sup.restart_child(name)
        spin(loop)
        assert running(sup) == ["a", "b"]


@pytest.mark.guarantee("G46")
@pytest.mark.parametrize("strategy", list(Strategy))
def test_starting_while_the_first_start_is_under_way_is_refused(loop: Loop, strategy: Strategy) -> None:
    sup = start(loop, child("a", init=slow_init), child("b"), strategy=strategy)
    with pytest.raises(ChildStateError, match=r"'root'.*cannot start a child"):
        sup.start_child(child("c"))
    spin(loop)
    sup.start_child(child("c"))
    assert running(sup) == ["a", "b", "c"]


def test_under_one_for_one_a_restart_of_another_child_is_no_hindrance(loop: Loop) -> None:
    sup = start(loop, child("a", backoff=Backoff()), child("down"))
    sup.stop_child("down")
    order(loop, sup, "a", crash)
    assert phases(sup)["a"] == "waiting"
    sup.start_child(child("new"))
    sup.restart_child("down")
    assert running(sup) == ["down", "new"]


# --- every refusal says what, why and what to do --------------------------------------------------------------------------


def test_a_supervisor_handles_no_messages_of_users(loop: Loop, caplog: pytest.LogCaptureFixture) -> None:
    sup = start(loop, child("a"))
    loop.send(sup.actor, "hello")
    call_in(loop, sup.actor, crash)
    settle(loop)
    assert running(sup) == ["a"]
    assert loop.status(sup.actor) is ActorStatus.RUNNING
    strays = [line for line in caplog.records if "handles no messages" in line.getMessage()]
    assert len(strays) == 1, "it is logged once only"


@pytest.mark.guarantee("G2", "G54", "G57")
def test_the_parent_of_a_supervisor_is_an_actor_that_is_alive_and_no_supervisor(make_loop: LoopMaker) -> None:
    loop, other_loop = make_loop(), make_loop()
    ended = loop.spawn(idle)
    loop.stop_actor(ended)
    with pytest.raises(NoSuchActorError):
        supervise(loop, child("a"), parent=ended)
    with pytest.raises(ActorNotLocalError):
        supervise(loop, child("a"), parent=other_loop.spawn(idle))
    with pytest.raises(InvalidArgumentError, match="'boss' is not an actor id"):
        spawn_supervisor(loop, SupervisorSpec(), parent="boss")  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]  # on purpose
    assert loop.statistics().spawned == 1
    tree = supervise(loop, parent=int(loop.spawn(idle)))
    assert loop.status(tree.actor) is ActorStatus.RUNNING
    with pytest.raises(InvalidArgumentError, match="ChildSpec"):
        loop.spawn(idle, supervisor=tree.actor)
    with pytest.raises(InvalidArgumentError, match="manages its own children"):
        supervise(loop, parent=tree.actor)


@pytest.mark.guarantee("G45")
def test_a_tree_cannot_grow_too_deep_while_it_runs(loop: Loop) -> None:
    tree = root = supervise(loop)
    for _ in range(49):
        tree.start_child(ChildSpec("below", SupervisorSpec()))
        below = nested(tree, "below")
        tree = below
    with pytest.raises(InvalidArgumentError, match="more than 50 deep"):
        tree.start_child(ChildSpec("below", SupervisorSpec()))
    loop.kill_actor(root.actor)
    assert loop.statistics().alive == 0


def test_asking_for_a_supervisor_of_the_wrong_kind(loop: Loop) -> None:
    kinds: dict[str, type[Overseer]] = {
        "static": Supervisor,
        "dynamic": DynamicSupervisor,
        "shards": PartitionSupervisor,
    }
    sup = start(
        loop,
        child("worker"),
        below("static", SupervisorSpec()),
        below("dynamic", DynamicSpec(child=child("d"))),
        below("shards", PartitionSpec(child=child("p", init=place_init), partitions=2)),
    )
    for is_up in (True, False):
        for name, kind in kinds.items():
            found = sup.supervisor(name, kind)
            assert isinstance(found, kind) if is_up else found is None
            for other in set(kinds.values()) - {kind}:
                seen = f"; it is a {kind.__name__}" if is_up else ""
                with pytest.raises(NoSuchChildError, match=f"'{name}'.*is not a {other.__name__}{seen}"):
                    sup.supervisor(name, other)
            sup.stop_child(name)
        settle(loop)
    with pytest.raises(NoSuchChildError, match=r"'worker'.*not a Supervisor"):
        sup.supervisor("worker", Supervisor)


def test_a_supervisor_does_not_show_the_methods_for_the_loop(loop: Loop) -> None:
    tree = supervise(loop)
    assert not {"take_all", "keep", "members"} & set(dir(tree))
