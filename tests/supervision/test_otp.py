"""OTP's own cases, under the names of its supervisor_SUITE where it has one."""

# The flags of a slot are internal.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import Any

import pytest

from bandstand.core import ActorId, ActorStatus, Context, ExitReason, Loop, Verdict
from bandstand.errors import (
    ActorKilledError,
    ChildStateError,
    InvalidArgumentError,
    NoSuchChildError,
    RestartLimitError,
    StartError,
)
from bandstand.supervision import (
    AutoShutdown,
    Backoff,
    ChildSpec,
    DynamicSupervisor,
    RestartPolicy,
    Shutdown,
    Strategy,
    Supervisor,
    SupervisorSpec,
)
from bandstand.testing import VirtualClock
from tests.core.support import (
    Boom,
    HostFactory,
    LoopMaker,
    Seen,
    call_in,
    check_statistics,
    idle,
    record,
    run_message,
    settle,
)
from tests.supervision.helpers import (
    ENDS,
    PASSES,
    Fails,
    NameRecorder,
    StubbornCoroutine,
    bad_init,
    begin,
    below,
    causes_of,
    child,
    crash,
    failing_init,
    id_of,
    leave,
    nested,
    order,
    phases,
    running,
    slow_init,
    spin,
    start,
    supervise,
)

PERMANENT, TRANSIENT, TEMPORARY = RestartPolicy.ALWAYS, RestartPolicy.ON_FAILURE, RestartPolicy.NEVER
ONE_FOR_ONE, ONE_FOR_ALL, REST_FOR_ONE = Strategy.ONE_FOR_ONE, Strategy.ONE_FOR_ALL, Strategy.REST_FOR_ONE


def ids(supervisor: Supervisor | DynamicSupervisor[ActorId]) -> dict[str, ActorId | None]:
    return {info.name: info.actor for info in supervisor.children()}


# --- start and stop -----------------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G26", "G46", "G28")
@pytest.mark.parametrize("how", ["run", "poll_once", "async with", "async with, and made on its event loop"])
def test_async_inits_before_the_loop_runs(make_loop: LoopMaker, loop_factory: HostFactory, how: str) -> None:
    """However it is driven then: they start when it is."""
    loop = make_loop()
    specs = [child("a", init=slow_init), child("b", init=slow_init), child("c")]

    async def ride(sup: Supervisor | None) -> list[str]:
        sup = start(loop, *specs) if sup is None else sup
        async with loop:
            for _ in range(PASSES):
                await asyncio.sleep(0)
            return running(sup)

    sup = None if how.endswith("made on its event loop") else start(loop, *specs)
    if sup is None or how == "async with":
        with asyncio.Runner(loop_factory=loop_factory) as runner:
            assert runner.run(ride(sup)) == ["a", "b", "c"]
        return
    if how == "run":
        loop.run(until_idle=True)
    else:
        spin(loop)
    assert running(sup) == ["a", "b", "c"]


@pytest.mark.spec("J17")
@pytest.mark.guarantee("G46")
@pytest.mark.parametrize(
    ("specs", "match", "happened"),
    [
        (
            [child("a"), child("b"), child("c", init=bad_init), child("d")],
            r"'c'.*'root'.*Boom",
            "+root +a +b +c -c -b -a -root",
        ),
        (
            [child("a"), child("b", init=slow_init), child("c", init=failing_init), child("d")],
            r"'c'",
            "+root +a +b +c -c -b -a -root",
        ),
        (
            [child("a"), below("mid", SupervisorSpec(children=[child("x"), child("y", init=bad_init)]))],
            r"'mid'.*'root'",
            "+root +a +mid +x +y -y -x -mid -a -root",
        ),
        (
            [
                child("a"),
                below("mid", SupervisorSpec(children=[child("x"), child("y")])),
                child("z", init=bad_init),
            ],
            r"'z'",
            "+root +a +mid +x +y +z -z -y -x -mid -a -root",
        ),
        (
            [below("mid", SupervisorSpec(children=[child("x"), child("y", init=failing_init)]))],
            r"'mid'",
            "+root +mid +x +y -y -x -mid -root",
        ),
    ],
    ids=["plain init", "async init", "nested", "behind a nested supervisor", "async and nested"],
)
def test_a_failed_start_stops_what_has_started_in_reverse_order(
    loop: Loop, recorder: NameRecorder, specs: list[ChildSpec[Any]], match: str, happened: str
) -> None:
    def begin() -> None:
        try:
            start(loop, *specs)
        except StartError:
            settle(loop)
            assert loop.spawn(idle), "a start that failed at once does not end the loop"
            raise
        loop.run()

    with pytest.raises(StartError, match=match) as caught:
        begin()
    assert isinstance(caught.value.root_cause, Boom)
    assert recorder.take()[: len(happened.split())] == happened.split()
    assert loop.statistics().waiting == loop.statistics().timers_pending == 0


@pytest.mark.guarantee("G44", "G47")
@pytest.mark.parametrize("mode", [TRANSIENT, TEMPORARY])
def test_sup_start_ignore_child(loop: Loop, recorder: NameRecorder, mode: RestartPolicy) -> None:
    """An init that ends its actor normally is OTP's `ignore`: those behind it start all the same."""

    def ignore(ctx: Context[Any]) -> None:
        ctx.loop.stop_actor(ctx.self_id)

    sup = start(loop, child("a"), child("b", init=ignore, restart=mode), child("c"))
    settle(loop)
    assert running(sup) == ["a", "c"]
    assert loop.status(sup.actor) is ActorStatus.RUNNING
    expected = (
        {"a": "up", "b": "down", "c": "up"} if mode is RestartPolicy.ON_FAILURE else {"a": "up", "c": "up"}
    )
    assert phases(sup) == expected
    assert recorder.take() == ["+root", "+a", "+b", "-b", "+c"]


@pytest.mark.guarantee("G22")
@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("moment", ["start", "restart", "request"])
def test_an_interrupt_in_an_init_ends_the_loop(loop: Loop, error: type[BaseException], moment: str) -> None:
    is_armed = moment == "start"

    def init(ctx: Context[Any]) -> None:
        if is_armed:
            raise error

    sup = start(loop, child("a"), child("b", init=init), child("c"))
    is_armed = True
    if moment == "restart":
        loop.send(id_of(sup, "b"), crash)
    elif moment == "request":
        with suppress(ChildStateError, StartError):
            sup.start_child(child("d", init=init))
    with pytest.raises(error):
        loop.run()
    assert loop.statistics().alive == 0
    assert loop.statistics().waiting == 0


@pytest.mark.guarantee("G54", "G46", "G21")
@pytest.mark.parametrize("how", ["stop", "kill_actor", "fail_actor", "stop_actor", "destroy", "by a child"])
def test_children_end_in_reverse_order_however_it_ends(loop: Loop, recorder: NameRecorder, how: str) -> None:
    inner = SupervisorSpec(children=[child("x"), child("y")])
    sup = start(loop, child("a"), below("mid", inner), child("z"))
    order(loop, sup, "a", crash)
    recorder.take()
    if how == "stop":
        sup.stop()
    elif how == "destroy":
        loop.destroy()
    elif how == "by a child":
        order(loop, sup, "z", lambda ctx: sup.stop())
    else:
        getattr(loop, how)(sup.actor)
        assert loop.statistics().alive == 0, "at once"
    if how != "destroy":
        settle(loop)
    # `a` is the youngest by birth now, and the first by its supervisor's order.
    assert recorder.take() == ["-z", "-y", "-x", "-mid", "-a", "-root"]
    assert loop.statistics().alive == 0


# --- shutdown times -----------------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G52", "G55")
@pytest.mark.parametrize(
    ("shutdown", "seconds"), [(1, 1.0), (Shutdown.KILL, 0.0), (Shutdown.INFINITY, None)], ids=str
)
def test_a_child_that_ignores_its_cancellation_is_killed_after_its_shutdown_time(
    loop: Loop,
    clock: VirtualClock,
    recorder: NameRecorder,
    caplog: pytest.LogCaptureFixture,
    shutdown: Any,
    seconds: float | None,
) -> None:
    with StubbornCoroutine() as gate:
        sup = start(loop, child("a"), child("deaf", gate, shutdown=shutdown))
        deaf = id_of(sup, "deaf")
        loop.send(deaf, "begin")
        spin(loop)
        recorder.take()
        sup.stop()
        if seconds != 0:
            clock.advance(1e6 if seconds is None else seconds - 0.001)
            spin(loop)
            assert gate.cancels == 1
            assert loop.status(deaf) is ActorStatus.STOPPING
            assert phases(sup)["deaf"] == "stopping"
            assert recorder.take() == []
        if seconds is None:
            assert loop.statistics().timers_pending == 0
            gate.open()
        elif seconds:
            clock.advance(0.001)
        spin(loop)
        assert loop.status(deaf) is (ActorStatus.STOPPED if seconds is None else ActorStatus.FAILED)
        assert recorder.take() == ["-deaf", "-a", "-root"]
        assert loop.status(sup.actor) is ActorStatus.STOPPED, (
            "a killed child does not make its supervisor fail"
        )
        kills = [line for line in caplog.records if "kills child" in line.getMessage()]
        assert [(line.levelno, getattr(line, "child", None)) for line in kills] == (
            [(logging.WARNING, "deaf")] if seconds else []
        )


@pytest.mark.guarantee("G52")
def test_the_default_shutdown_is_five_seconds_for_a_worker(loop: Loop, clock: VirtualClock) -> None:
    with StubbornCoroutine() as gate:
        inner = SupervisorSpec(children=[child("x", gate), child("y", gate)])
        sup = start(loop, below("mid", inner))
        mid = nested(sup, "mid")
        for name in "xy":
            loop.send(id_of(mid, name), "begin")
        spin(loop)
        sup.stop()
        spin(loop)
        clock.advance(4.999)
        spin(loop)
        assert phases(mid) == {"x": "up", "y": "stopping"}
        clock.advance(0.001)
        spin(loop)
        assert phases(mid) == {"x": "stopping", "y": "down"}
        assert phases(sup) == {"mid": "stopping"}
        clock.advance(5.0)
        spin(loop)
        assert loop.status(sup.actor) is ActorStatus.STOPPED


@pytest.mark.guarantee("G52")
def test_sup_stop_timeout_of_a_nested_supervisor_kills_it(loop: Loop, clock: VirtualClock) -> None:
    with StubbornCoroutine() as gate:
        inner = SupervisorSpec(children=[child("x"), child("deaf", gate, shutdown=Shutdown.INFINITY)])
        sup = start(loop, below("mid", inner, shutdown=0.1))
        mid = nested(sup, "mid")
        x, deaf = id_of(mid, "x"), id_of(mid, "deaf")
        loop.send(deaf, "begin")
        spin(loop)
        sup.stop()
        clock.advance(0.1)
        spin(loop)
        assert loop.status(mid.actor) is ActorStatus.FAILED
        assert loop.status(x) is ActorStatus.STOPPED
        assert loop.status(sup.actor) is ActorStatus.STOPPED
        assert loop.status(deaf) >= ActorStatus.STOPPING


# --- who is started again -----------------------------------------------------------------------------------------------


@pytest.mark.spec("J18")
@pytest.mark.guarantee("G46", "G47", "G52")
@pytest.mark.parametrize("strategy", [ONE_FOR_ALL, REST_FOR_ONE])
def test_a_group_restart_waits_for_a_sibling_that_takes_its_time_to_stop(
    loop: Loop, clock: VirtualClock, recorder: NameRecorder, strategy: Strategy
) -> None:
    with StubbornCoroutine() as gate:
        sup = start(
            loop, child("a"), child("b"), child("deaf", gate, shutdown=1), child("d"), strategy=strategy
        )
        begin(loop, sup, "deaf")
        recorder.take()
        loop.send(id_of(sup, "a"), crash)
        spin(loop)
        assert recorder.take() == ["-a", "-d"]
        assert phases(sup) == {"a": "waiting", "b": "up", "deaf": "stopping", "d": "waiting"}
        clock.advance(1.0)
        spin(loop)
        assert recorder.take() == ["-deaf", "-b", "+a", "+b", "+deaf", "+d"]
        assert [info.restarts for info in sup.children()] == [1, 1, 1, 1]


# --- escalation ---------------------------------------------------------------------------------------------------------


# --- restarts that fail -------------------------------------------------------------------------------------------------


@pytest.mark.spec("J18", "J19")
@pytest.mark.guarantee("G48", "G50")
@pytest.mark.parametrize("strategy", list(Strategy))
def test_failing_restarts_go_on_until_one_succeeds(
    loop: Loop, recorder: NameRecorder, strategy: Strategy
) -> None:
    init = Fails(3)
    sup = start(loop, child("a", init=init), child("b"), strategy=strategy, max_restarts=4)
    order(loop, sup, "a", crash)
    assert init.calls == 5
    assert running(sup) == ["a", "b"]
    started = [entry for entry in recorder.restarts if entry[1] == "a"]
    assert started == [("root", "a", 4)], "only of what has started"
    with pytest.raises(RestartLimitError, match=r"restart 5") as caught:
        order(loop, sup, "a", crash)
    words = [str(cause) for cause in causes_of(caught.value)]
    assert words == ["crash", "init 2", "init 3", "init 4", "crash"]


@pytest.mark.spec("J18")
@pytest.mark.guarantee("G50")
@pytest.mark.parametrize(
    "strategy",
    list(Strategy),
    ids=["hanging_restart_loop", "hanging_restart_loop_one_for_all", "hanging_restart_loop_rest_for_one"],
)
def test_hanging_restart_loop(make_loop: LoopMaker, strategy: Strategy) -> None:
    """A child that fails as fast as it can be started does not keep its supervisor from being stopped."""
    loop = make_loop(max_msgs_per_actor=4, max_actors_per_tick=4)
    init = Fails(10**9)
    inner = SupervisorSpec(
        children=[child("a", init=init), child("b")], strategy=strategy, max_restarts=10**6
    )
    sup = start(loop, below("mid", inner))
    mid = nested(sup, "mid")
    loop.send(id_of(mid, "a"), crash)
    loop.poll_once()
    loop.poll_once()
    tries = init.calls
    assert tries > 2
    assert not sup.stop_child("mid"), "a message asks it to stop"
    loop.poll_once()
    assert loop.status(mid.actor) is ActorStatus.STOPPED
    assert init.calls <= tries + 1, "the request was served before the next try"
    settle(loop)
    assert phases(sup) == {"mid": "down"}
    check_statistics(loop)


@pytest.mark.guarantee("G50", "G12")
def test_a_hanging_restart_loop_leaves_everybody_else_their_turns(loop: Loop) -> None:
    """Under `run()`, an actor among others stops the supervisor by a call."""
    init = Fails(10**9)
    sup = start(loop, child("a", init=init), max_restarts=10**6)
    loop.send(id_of(sup, "a"), crash)
    turns = 0

    def count(ctx: Context[Any], data: object) -> Verdict | None:
        nonlocal turns
        turns += 1
        if turns < 20:
            ctx.loop.send(ctx.self_id, "again")
            return None
        sup.stop()
        return Verdict.STOP

    loop.send(loop.spawn(count), "go")
    loop.run(until_idle=True)
    assert turns == 20
    assert loop.status(sup.actor) is ActorStatus.STOPPED
    assert init.calls < 20 * 70


# --- significant children -----------------------------------------------------------------------------------------------

NEVER, ANY, ALL = AutoShutdown.NEVER, AutoShutdown.ANY_SIGNIFICANT, AutoShutdown.ALL_SIGNIFICANT


@pytest.mark.guarantee("G53")
@pytest.mark.parametrize("mode", [TEMPORARY, TRANSIENT])
def test_any_significant_and_all_significant(loop: Loop, mode: RestartPolicy) -> None:
    specs = [child(name, restart=mode, significant=True) for name in "st"]
    any_, all_ = start(loop, *specs, auto_shutdown=ANY), start(loop, auto_shutdown=ALL)
    for spec in specs:
        all_.start_child(spec)
    for sup in (any_, all_):
        order(loop, sup, "s", leave)
    assert loop.status(any_.actor) is ActorStatus.STOPPED
    assert loop.status(all_.actor) is ActorStatus.RUNNING
    order(loop, all_, "t", leave)
    assert loop.status(all_.actor) is ActorStatus.STOPPED


@pytest.mark.guarantee("G53", "G47")
@pytest.mark.parametrize("auto", [ANY, ALL])
@pytest.mark.parametrize("mode", [TEMPORARY, TRANSIENT])
@pytest.mark.parametrize("strategy", list(Strategy))
def test_only_the_own_exit_of_a_significant_child_stops_its_supervisor(
    loop: Loop, strategy: Strategy, mode: RestartPolicy, auto: AutoShutdown
) -> None:
    """Neither a stop on request, nor a stop with its group, nor the exit of another child."""
    specs = child("a"), child("other", restart=TEMPORARY), child("s", restart=mode, significant=True)
    sup = start(loop, *specs, auto_shutdown=auto, strategy=strategy)
    order(loop, sup, "other", leave)
    order(loop, sup, "a", crash)
    assert loop.status(sup.actor) is ActorStatus.RUNNING
    if "s" in phases(sup):
        assert sup.stop_child("s")
        settle(loop)
    assert running(sup) == ["a"]
    assert loop.status(sup.actor) is ActorStatus.RUNNING


@pytest.mark.guarantee("G53")
def test_significant_with_auto_shutdown_never_is_refused(loop: Loop) -> None:
    significant = child("s", restart=TEMPORARY, significant=True)
    with pytest.raises(InvalidArgumentError, match=r"NEVER.*'s'"):
        SupervisorSpec(children=[significant], auto_shutdown=NEVER)
    with pytest.raises(InvalidArgumentError, match=r"'s'.*NEVER"):
        start(loop).start_child(significant)
    with pytest.raises(InvalidArgumentError, match=r"ALWAYS"):
        child("s", significant=True)


# --- children on request ------------------------------------------------------------------------------------------------


@pytest.mark.spec("J17")
@pytest.mark.guarantee("G57")
def test_child_adm(loop: Loop, recorder: NameRecorder) -> None:
    sup = start(loop, child("a"))
    recorder.take()
    with pytest.raises(InvalidArgumentError, match=r"'a' already"):
        sup.start_child(child("a"))
    with pytest.raises(ChildStateError, match=r"'a'.*up"):
        sup.restart_child("a")
    with pytest.raises(ChildStateError, match=r"'a'.*up.*stop it"):
        sup.delete_child("a")
    assert sup.stop_child("a")
    assert recorder.take() == ["-a"]
    assert phases(sup) == {"a": "down"}
    assert sup.child("a") is None
    assert sup.stop_child("a"), "twice changes nothing"
    again = sup.restart_child("a")
    assert id_of(sup, "a") == again
    assert recorder.take() == ["+a"]
    with pytest.raises(ChildStateError, match=r"'a'.*up"):
        sup.restart_child("a")
    sup.stop_child("a")
    sup.delete_child("a")
    for call in (sup.child, sup.stop_child, sup.restart_child, sup.delete_child):
        with pytest.raises(NoSuchChildError, match=r"'root'.*'a'.*none"):
            call("a")
    sup.start_child(child("a"))
    assert running(sup) == ["a"]


@pytest.mark.guarantee("G57", "G49")
def test_delete_restart_and_terminate_of_a_child_that_is_restarting(loop: Loop, clock: VirtualClock) -> None:
    sup = start(loop, child("a", backoff=Backoff(initial=0.1)))
    order(loop, sup, "a", crash)
    assert phases(sup) == {"a": "waiting"}
    with pytest.raises(ChildStateError, match=r"'a'.*waiting"):
        sup.delete_child("a")
    with pytest.raises(ChildStateError, match=r"'a'.*waiting"):
        sup.restart_child("a")
    assert sup.stop_child("a")
    assert phases(sup) == {"a": "down"}
    clock.advance(1.0)
    settle(loop)
    assert phases(sup) == {"a": "down"}, "the restart that was planned is stale"
    assert loop.statistics().timers_pending == 0
    sup.restart_child("a")
    assert running(sup) == ["a"]
    sup.stop_child("a")
    sup.delete_child("a")
    assert sup.children() == ()


@pytest.mark.guarantee("G49", "G54")
@pytest.mark.parametrize("is_due", [False, True])
@pytest.mark.parametrize("strategy", list(Strategy))
def test_sup_stopped_while_a_backoff_pends_or_its_end_lies_in_the_mailbox(
    loop: Loop, clock: VirtualClock, strategy: Strategy, is_due: bool
) -> None:
    sup = start(loop, child("a", backoff=Backoff(initial=0.1)), child("b"), strategy=strategy)
    order(loop, sup, "a", crash)
    if is_due:
        call_in(loop, loop.spawn(run_message), lambda ctx: sup.stop())
        clock.advance(0.1)
    else:
        sup.stop()
    settle(loop)
    assert loop.status(sup.actor) is ActorStatus.STOPPED
    assert loop.statistics().timers_pending == 0
    clock.advance(1000.0)
    settle(loop)
    assert loop.statistics().alive == int(is_due), "only the one that stopped it"


@pytest.mark.guarantee("G47", "G57")
def test_stop_child_of_one_whose_restarts_fail_leaves_those_before_it_alone(make_loop: LoopMaker) -> None:
    loop = make_loop(max_msgs_per_actor=1, max_actors_per_tick=2)
    failing = child("a", init=Fails(10**6))
    sup = start(loop, child("first"), failing, child("b"), strategy=REST_FOR_ONE, max_restarts=10**6)
    loop.send(id_of(sup, "a"), crash)
    for _ in range(3):
        loop.poll_once()
    assert sup.stop_child("a")
    settle(loop)
    assert phases(sup) == {"first": "up", "a": "down", "b": "down"}
    order(loop, sup, "first", crash)
    assert phases(sup) == {"first": "up", "a": "down", "b": "up"}, "b starts again with its group"


# --- ends of a supervisor -----------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G54", "G52")
@pytest.mark.parametrize("shutdown", [Shutdown.KILL, 1, Shutdown.INFINITY])
def test_no_child_outlives_a_killed_supervisor(loop: Loop, clock: VirtualClock, shutdown: Any) -> None:
    """A coroutine that ignores its cancellation is abandoned; its late end has no effect."""
    with StubbornCoroutine() as gate:
        sup = start(loop, child("deaf", gate, shutdown=shutdown))
        deaf = id_of(sup, "deaf")
        loop.send(deaf, "begin")
        spin(loop)
        loop.kill_actor(sup.actor)
        spin(loop)
        clock.advance(1.0)
        spin(loop)
        assert shutdown is Shutdown.INFINITY or loop.status(deaf) >= ActorStatus.STOPPED
        gate.open()
        spin(loop)
        assert loop.statistics().alive == loop.statistics().in_flight == 0


@pytest.mark.guarantee("G54")
@pytest.mark.parametrize("end", ["crash", "leave"])
def test_parent_exit(loop: Loop, end: str, caplog: pytest.LogCaptureFixture) -> None:
    """A plain actor is no supervisor: its end leaves its children be, supervisors among them. They end as they would."""
    parent = loop.spawn(run_message)
    sup = supervise(loop, child("a"), max_restarts=0, parent=parent)
    loop.send(parent, ENDS[end])
    settle(loop)
    assert loop.status(parent) >= ActorStatus.STOPPED
    assert running(sup) == ["a"]
    with pytest.raises(RestartLimitError):
        # It had a parent and has none now, so the loop ends.
        order(loop, sup, "a", crash)
    assert loop.status(sup.actor) is ActorStatus.FAILED
    assert isinstance(sup.outcome, RestartLimitError)


@pytest.mark.guarantee("G54")
@pytest.mark.parametrize("how", ["kill_actor", "stop_actor"])
@pytest.mark.parametrize("moment", ["start", "request", "restart"])
def test_an_init_may_end_its_own_supervisor(loop: Loop, how: str, moment: str) -> None:
    roots: list[ActorId] = []
    armed = moment == "start"

    class Watching(NameRecorder):
        def on_actor_start(self, id: ActorId, name: str | None) -> None:  # noqa: A002 -- the hook's own name
            if name == "root":
                roots.append(id)

    def init(ctx: Context[Any]) -> None:
        if armed:
            getattr(ctx.loop, how)(roots[0])

    loop.set_observer(Watching())
    sup = start(loop, child("a"), child("b", init=init, keep_mailbox=True), child("c"), strategy=ONE_FOR_ALL)
    armed = True
    if moment == "restart":
        loop.fail_actor(id_of(sup, "a"))
        # The supervisor is ready before `b` is, and stops it with this unread.
        loop.send(id_of(sup, "b"), idle)
    elif moment == "request":
        with suppress(ChildStateError, StartError):
            sup.start_child(child("d", init=init))
    settle(loop)
    assert loop.status(sup.actor) >= ActorStatus.STOPPED
    assert loop.statistics().alive == loop.statistics().waiting == 0


@pytest.mark.guarantee("G42", "G52")
def test_the_cause_of_a_child_killed_by_its_supervisor_names_both(loop: Loop) -> None:
    seen: list[Seen] = []
    sup = start(loop, child("a", shutdown=Shutdown.KILL))
    loop.monitor(loop.spawn(record, seen), id_of(sup, "a"))
    sup.stop_child("a")
    settle(loop)
    (note,) = [message.data for message in seen]
    assert note.reason is ExitReason.FAIL
    assert isinstance(note.cause, ActorKilledError)
    assert "'a'" in str(note.cause)
    assert "'root'" in str(note.cause)


@pytest.mark.guarantee("G54")
def test_the_loop_is_asked_to_stop_during_a_group_stop(loop: Loop, caplog: pytest.LogCaptureFixture) -> None:
    class Hook:
        def on_actor_stop(self, id: ActorId, reason: object) -> None:  # noqa: A002 -- the hook's own name
            loop.request_stop()

    tree = supervise(
        loop,
        child("a"),
        ChildSpec("below", SupervisorSpec(children=[child("x")])),
        child("c"),
        strategy=Strategy.ONE_FOR_ALL,
    )
    loop.send(tree.address("a"), crash)
    loop.set_observer(Hook())
    loop.run()
    assert loop.statistics().alive == 0
    assert [line for line in caplog.records if line.levelno >= logging.ERROR] == []
