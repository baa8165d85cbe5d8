"""What a supervisor reports: log lines, observer hooks, and the tree."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from bandstand.core import ActorId, ActorStatus, Context, ExitReason, Loop, TreeNode
from bandstand.errors import RestartLimitError
from bandstand.supervision import (
    Backoff,
    ChildSpec,
    DynamicSpec,
    Overseer,
    PartitionSpec,
    Phase,
    RestartPolicy,
    Shutdown,
    Strategy,
    Supervisor,
    SupervisorSpec,
    spawn_supervisor,
)
from bandstand.testing import VirtualClock
from tests.core.support import Boom, LoopMaker, Seen, call_in, exits, idle, record, run_message, settle
from tests.supervision.helpers import (
    EVERY_END,
    SupervisionRecorder,
    child,
    crash,
    fails_at_once,
    id_of,
    nested,
    pass_time,
    phases_of,
    restarts,
    since,
    supervise,
    watched,
)

pytestmark = pytest.mark.guarantee("G55")


ABSENT = object()


@pytest.fixture(autouse=True)
def level(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    with caplog.at_level(logging.DEBUG, logger="bandstand"):
        yield


def lines(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [entry for entry in caplog.records if entry.name == "bandstand.supervision"]


def fields(line: logging.LogRecord) -> dict[str, object]:
    """What a program reads off a line."""
    names = ("supervisor", "child", "reason", "attempt", "delay", "stop_timeout")
    found = {name: getattr(line, name, ABSENT) for name in names}
    return {name: value for name, value in found.items() if value is not ABSENT}


def cause_of(line: logging.LogRecord) -> BaseException | None:
    return line.exc_info[1] if line.exc_info else None


def boom(ctx: Context[Any]) -> None:
    raise Boom("of its own")


# --- a restart is one line --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", list(EVERY_END))
def test_a_restart_is_one_line_with_fields(loop: Loop, caplog: pytest.LogCaptureFixture, how: str) -> None:
    end, reason, cause = EVERY_END[how]
    tree = supervise(loop, ChildSpec("kid", run_message), name="family")
    assert lines(caplog) == [], "a start is no news"
    for attempt in (1, 2, 3):
        caplog.clear()
        end(loop, id_of(tree, "kid"))
        settle(loop)
        (line,) = caplog.records
        assert line.name == "bandstand.supervision"
        assert line.levelno == logging.WARNING
        assert fields(line) == {
            "supervisor": "family",
            "child": "kid",
            "reason": reason.name,
            "attempt": attempt,
            "delay": 0,
        }
        message = line.getMessage()
        for part in ("'family'", "'kid'", f"reason {reason.name}", f"attempt {attempt}", "delay 0 s"):
            assert part in message
        # Only the first of its kind has the traceback.
        has_traceback = cause is not None and attempt == 1
        assert (cause if has_traceback else None) is (type(cause_of(line)) if line.exc_info else None)
        assert (len(message.splitlines()) > 1) is (attempt == 1 and reason is not ExitReason.NORMAL)


@pytest.mark.spec("J20")
@pytest.mark.guarantee("G49")
def test_a_line_says_how_long_is_waited_and_comes_before_the_waiting(
    loop: Loop, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    run, init = fails_at_once([], since(clock))
    supervise(loop, ChildSpec("kid", run, init, backoff=Backoff()), max_restarts=9)
    settle(loop)
    assert len(lines(caplog)) == 1
    pass_time(loop, clock, 2000)
    found = [(line.__dict__["attempt"], line.__dict__["delay"]) for line in lines(caplog)]
    assert found == [(1, 0.1), (2, 0.2), (3, 0.4), (4, 0.8), (5, 1.6)]
    assert "attempt 3, delay 0.4 s" in caplog.text


@pytest.mark.guarantee("G47")
@pytest.mark.parametrize("strategy", [Strategy.ONE_FOR_ALL, Strategy.REST_FOR_ONE])
def test_a_group_is_one_line(loop: Loop, caplog: pytest.LogCaptureFixture, strategy: Strategy) -> None:
    children = [ChildSpec(name, idle) for name in ("ann", "bob", "cid")]
    children.append(ChildSpec("dan", idle, restart=RestartPolicy.NEVER))
    tree = supervise(loop, *children, strategy=strategy)
    loop.fail_actor(id_of(tree, "bob"))
    settle(loop)
    (line,) = lines(caplog)
    assert fields(line)["child"] == "bob"
    others = "ann, cid" if strategy is Strategy.ONE_FOR_ALL else "cid"
    assert line.getMessage().splitlines()[0].endswith(f"together with {others}")


@pytest.mark.parametrize("mode", [RestartPolicy.NEVER, RestartPolicy.ON_FAILURE])
def test_what_is_not_started_again_is_one_line_if_it_failed_and_none_if_not(
    loop: Loop, caplog: pytest.LogCaptureFixture, mode: RestartPolicy
) -> None:
    tree = supervise(
        loop,
        ChildSpec("good", run_message, restart=mode),
        ChildSpec("bad", run_message, restart=RestartPolicy.NEVER),
    )
    loop.stop_actor(id_of(tree, "good"))
    settle(loop)
    assert caplog.records == []
    call_in(loop, id_of(tree, "bad"), boom)
    settle(loop)
    (line,) = caplog.records
    assert line.levelno == logging.ERROR
    assert fields(line) == {"supervisor": "root", "child": "bad", "reason": "PANIC"}
    assert isinstance(cause_of(line), Boom)


def test_restarts_work_with_logging_off(loop: Loop, caplog: pytest.LogCaptureFixture) -> None:
    tree = supervise(loop, ChildSpec("kid", idle))
    with caplog.at_level(logging.CRITICAL, logger="bandstand.supervision"):
        loop.fail_actor(id_of(tree, "kid"))
        settle(loop)
    assert caplog.records == []
    assert restarts(tree) == {"kid": 1}


def test_a_quiet_life_says_nothing(loop: Loop, caplog: pytest.LogCaptureFixture) -> None:
    boss = loop.spawn(idle)
    below: ChildSpec[Any] = ChildSpec("below", SupervisorSpec(children=[ChildSpec("kid", idle)]))
    tree = supervise(loop, ChildSpec("kid", idle), below, parent=boss)
    loop.send(id_of(tree, "kid"), "hello")
    settle(loop)
    tree.stop_child("kid")
    tree.restart_child("kid")
    tree.stop()
    settle(loop)
    loop.destroy()
    assert caplog.records == []


# --- giving up is one line ----------------------------------------------------------------------------------------------------


@pytest.mark.spec("J19")
@pytest.mark.guarantee("G48")
def test_giving_up_is_one_line_and_one_call(loop: Loop, caplog: pytest.LogCaptureFixture) -> None:
    seen: list[Seen] = []
    recorder = watched(loop)
    boss = loop.spawn(record, seen)
    tree = supervise(
        loop, ChildSpec("kid", run_message), ChildSpec("other", run_message), name="family", parent=boss
    )
    for _ in range(4):
        call_in(loop, id_of(tree, "kid"), boom)
        settle(loop)
    *before, last = lines(caplog)
    assert [line.levelno for line in before] == [logging.WARNING] * 3
    assert last.levelno == logging.ERROR
    assert fields(last) == {"supervisor": "family", "child": "kid", "reason": "PANIC"}
    for part in ("'family' gave up on child 'kid'", "restart 4", "5 s", "3 are allowed", "of its own"):
        assert part in last.getMessage()
    (note,) = exits(seen)
    assert isinstance(note.cause, RestartLimitError)
    assert str(note.cause) == last.getMessage()
    group: Any = note.cause.__cause__
    assert type(group) in {ExceptionGroup, BaseExceptionGroup}
    assert [type(one) for one in group.exceptions] == [Boom] * 4
    assert recorder.escalated == [tree.actor]
    assert recorder.entries.index("escalate") < len(recorder.entries) - 2, (
        "the hook runs before the children stop"
    )
    after = recorder.entries[recorder.entries.index("escalate") :]
    assert after == ["escalate", "stop", "stop"], "the other child, then the supervisor"


@pytest.mark.spec("J19")
@pytest.mark.guarantee("G48")
def test_an_escalation_is_one_line_on_each_level(loop: Loop, caplog: pytest.LogCaptureFixture) -> None:
    boss = loop.spawn(idle)
    recorder = watched(loop)
    inner = SupervisorSpec(children=[ChildSpec("kid", run_message)], max_restarts=0)
    middle = SupervisorSpec(children=[ChildSpec("inner", inner)], max_restarts=1)
    tree = supervise(loop, ChildSpec("middle", middle), parent=boss)

    def fail() -> None:
        below = nested(tree, "middle")
        lowest = below.supervisor("inner", Supervisor)
        assert lowest is not None
        call_in(loop, id_of(lowest, "kid"), boom)
        settle(loop)

    fail()
    found = [(line.levelno, fields(line)["supervisor"], fields(line)["child"]) for line in lines(caplog)]
    assert found == [(logging.ERROR, "inner", "kid"), (logging.WARNING, "middle", "inner")]
    assert isinstance(cause_of(lines(caplog)[1]), RestartLimitError)
    assert len(recorder.escalated) == 1
    assert [attempt for _, _, attempt in recorder.restarted] == [1]
    caplog.clear()

    fail()
    found = [(line.levelno, fields(line)["supervisor"], fields(line)["child"]) for line in lines(caplog)]
    assert found == [
        (logging.ERROR, "inner", "kid"),
        (logging.ERROR, "middle", "inner"),
        (logging.WARNING, "root", "middle"),
    ]
    assert len(recorder.escalated) == len(set(recorder.escalated)) == 3
    assert loop.status(tree.actor) is ActorStatus.RUNNING
    assert restarts(tree) == {"middle": 1}


@pytest.mark.spec("J19")
@pytest.mark.guarantee("G48")
def test_several_that_fail_together_escalate_once(loop: Loop, caplog: pytest.LogCaptureFixture) -> None:
    boss = loop.spawn(idle)
    recorder = watched(loop)
    children = [ChildSpec(str(number), idle) for number in range(20)]
    tree = supervise(loop, *children, parent=boss)
    for number in range(20):
        loop.fail_actor(id_of(tree, str(number)))
    settle(loop)
    assert recorder.escalated == [tree.actor]
    levels = [line.levelno for line in lines(caplog)]
    assert levels[:4] == [logging.WARNING] * 3 + [logging.ERROR]
    # The others that failed are logged too, though they are not restarted: ten alike in a second, and the rest are counted.
    assert levels[4:] == [logging.ERROR] * 7
    assert all("was stopping child" in line.getMessage() for line in lines(caplog)[4:])
    assert len(recorder.restarted) == 3


# --- a kill is one line ---------------------------------------------------------------------------------------------------------


async def stubborn(ctx: Context[Any], data: object) -> None:
    """A coroutine that takes its time after it was cancelled."""
    try:
        await asyncio.sleep(10)
    finally:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(1)


@pytest.mark.guarantee("G52")
@pytest.mark.parametrize(
    ("shutdown", "said"), [(0.2, [0.2]), (2, []), (Shutdown.INFINITY, []), (Shutdown.KILL, [])]
)
def test_a_kill_because_of_a_shutdown_time_is_one_line(
    make_loop: LoopMaker,
    clock: VirtualClock,
    caplog: pytest.LogCaptureFixture,
    shutdown: Any,
    said: list[float],
) -> None:
    loop = make_loop(loop_factory=clock.new_event_loop)
    recorder = watched(loop)
    tree = supervise(
        loop, ChildSpec("kid", stubborn, shutdown=shutdown), ChildSpec("hand", run_message), name="family"
    )
    kid = id_of(tree, "kid")
    loop.send(kid, "go")

    def stop(ctx: Context[Any]) -> None:
        tree.stop_child("kid")

    loop.send_after(id_of(tree, "hand"), 0.05, stop)
    loop.run(until_idle=True)
    found = lines(caplog)
    assert [fields(line) for line in found] == [
        {"supervisor": "family", "child": "kid", "stop_timeout": seconds} for seconds in said
    ]
    assert all(line.levelno == logging.WARNING and "kills child 'kid'" in line.getMessage() for line in found)
    (reason,) = [reason for actor, reason in recorder.stopped if actor == kid]
    assert reason is (ExitReason.FAIL if said or shutdown is Shutdown.KILL else ExitReason.NORMAL)
    assert phases_of(tree)["kid"] is Phase.DOWN


# --- the observer ----------------------------------------------------------------------------------------------------------------


class Raiser(SupervisionRecorder):
    """Raises in every hook, after it has written it down."""

    def on_actor_start(self, id: ActorId, name: str | None) -> None:  # noqa: A002 -- the hook's own name
        super().on_actor_start(id, name)
        raise Boom("start")

    def on_actor_stop(self, id: ActorId, reason: ExitReason) -> None:  # noqa: A002 -- the hook's own name
        super().on_actor_stop(id, reason)
        raise Boom("stop")

    def on_actor_restart(self, supervisor: ActorId, child: ActorId, attempt: int) -> None:
        super().on_actor_restart(supervisor, child, attempt)
        raise Boom("restart")

    def on_supervisor_escalate(self, supervisor: ActorId) -> None:
        super().on_supervisor_escalate(supervisor)
        raise Boom("escalate")


@pytest.mark.spec("J16")
@pytest.mark.guarantee("G24")
@pytest.mark.parametrize("strategy", list(Strategy))
def test_an_observer_that_raises_harms_nothing(
    loop: Loop, clock: VirtualClock, caplog: pytest.LogCaptureFixture, strategy: Strategy
) -> None:
    def play(recorder: SupervisionRecorder) -> list[object]:
        seen: list[Seen] = []
        boss = loop.spawn(record, seen)
        loop.set_observer(recorder)
        children = [ChildSpec(name, idle, backoff=Backoff() if name == "b" else None) for name in "abc"]
        tree = supervise(loop, *children, strategy=strategy, max_restarts=3, parent=boss)
        numbers = {tree.actor: "tree"}
        for name in "bab":
            loop.fail_actor(id_of(tree, name))
            settle(loop)
            pass_time(loop, clock, 300)
        counts = dict(restarts(tree))
        loop.fail_actor(id_of(tree, "c"))
        settle(loop)
        loop.set_observer(None)
        (note,) = exits(seen)
        assert isinstance(note.cause, RestartLimitError)
        return [
            counts,
            recorder.entries,
            [(numbers[supervisor], attempt) for supervisor, _, attempt in recorder.restarted],
            [numbers[supervisor] for supervisor in recorder.escalated],
            [name for _, name in recorder.started],
            [reason for _, reason in recorder.stopped],
        ]

    calm = play(SupervisionRecorder())
    caplog.clear()
    raising = Raiser()
    assert play(raising) == calm
    contained = [entry for entry in caplog.records if isinstance(cause_of(entry), Boom)]
    assert len(contained) == len(raising.entries), "each is logged"


@pytest.mark.spec("J16")
@pytest.mark.parametrize("kind", ["dynamic", "partition"])
def test_every_kind_of_supervisor_is_seen(
    loop: Loop, clock: VirtualClock, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    boss = loop.spawn(idle, name="boss")
    kid: ChildSpec[Any] = ChildSpec("kid", idle, backoff=Backoff())
    tree: Overseer
    if kind == "dynamic":
        tree = crowd = spawn_supervisor(loop, DynamicSpec(child=kid, max_restarts=3), parent=boss)
        crowd.start_child()
        crowd.start_child()
    else:
        tree = spawn_supervisor(loop, PartitionSpec(child=kid, partitions=2, max_restarts=3), parent=boss)
    one, other = [info.name for info in tree.children()]
    recorder = watched(loop)
    for _ in range(4):
        loop.fail_actor(id_of(tree, one))
        settle(loop)
        if not recorder.restarted:
            assert str(loop.tree()).splitlines()[-3:] == [
                "└── root (running)",
                f"    ├── {one} (down, 1 restart, waiting)",
                f"    └── {other} (running)",
            ]
        pass_time(loop, clock, 500)
    assert [attempt for _, _, attempt in recorder.restarted] == [1, 2, 3]
    assert recorder.escalated == [tree.actor]
    assert {fields(line)["child"] for line in lines(caplog)} == {one}
    assert [line.levelno for line in lines(caplog)] == [logging.WARNING] * 3 + [logging.ERROR]


# --- the tree ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.spec("J16", "J20")
def test_the_tree_shows_the_living_and_those_that_wait(loop: Loop, clock: VirtualClock) -> None:
    stranger = loop.spawn(idle, name="stranger")
    below = SupervisorSpec(
        children=[ChildSpec("x", idle), ChildSpec("y", idle, restart=RestartPolicy.ON_FAILURE)]
    )
    tree = supervise(
        loop,
        ChildSpec("first", idle),
        ChildSpec("slow", idle, backoff=Backoff()),
        ChildSpec("below", below),
        ChildSpec("held", idle),
        name="family",
    )
    loop.fail_actor(id_of(tree, "first"))
    settle(loop)
    loop.fail_actor(id_of(tree, "slow"))
    inner = nested(tree, "below")
    loop.stop_actor(id_of(inner, "y"))
    tree.stop_child("held")
    settle(loop)
    loop.send(id_of(tree, "first"), "one")
    loop.send(id_of(tree, "first"), "two")
    picture = loop.tree()

    root = picture.find("family")
    assert root is not None
    assert picture.roots[0].actor == stranger
    assert [node.name for node in picture] == [
        "stranger",
        "family",
        "first",
        "slow",
        "below",
        "x",
        "y",
        "held",
    ]
    first, slow, middle, held = root.children
    assert (root.actor, root.status, root.note) == (tree.actor, ActorStatus.RUNNING, "")
    assert first == TreeNode("first", tree.child("first"), ActorStatus.RUNNING, 2, 1, "", ())
    assert slow == TreeNode("slow", None, None, 0, 1, "waiting", ())
    assert held == TreeNode("held", None, None, 0, 0, "", ())
    assert (middle.actor, middle.restarts, middle.status) == (inner.actor, 0, ActorStatus.RUNNING)
    assert middle.children == (
        TreeNode("x", inner.child("x"), ActorStatus.RUNNING, 0, 0, "", ()),
        TreeNode("y", None, None, 0, 0, "", ()),
    )
    assert str(picture).splitlines() == [
        "stranger (running)",
        "family (running)",
        "├── first (running, 2 waiting, 1 restart)",
        "├── slow (down, 1 restart, waiting)",
        "├── below (running)",
        "│   ├── x (running)",
        "│   └── y (down)",
        "└── held (down)",
    ]

    pass_time(loop, clock, 100)
    slow_again = loop.tree().find("slow")
    assert slow_again is not None
    assert str(slow_again) == "slow (running, 1 restart)"
    assert slow_again.actor == tree.child("slow")


def errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [line.getMessage() for line in caplog.records if line.levelno == logging.ERROR]


@pytest.mark.guarantee("G57")
@pytest.mark.parametrize("ended", ["with its group", "on request"])
def test_a_failure_before_a_stop_is_logged(loop: Loop, caplog: pytest.LogCaptureFixture, ended: str) -> None:
    tree = supervise(loop, child("a"), child("b"), strategy=Strategy.ONE_FOR_ALL)
    if ended == "on request":
        loop.fail_actor(id_of(tree, "b"), "by itself")
        assert tree.stop_child("b")
    else:
        for name in ("a", "b"):
            loop.send(id_of(tree, name), crash)
    settle(loop)
    (line,) = [line.getMessage() for line in caplog.records if line.levelno == logging.ERROR]
    assert "'b'" in line
    assert "was stopping child" in line


def test_a_first_start_does_not_count_as_a_restart(loop: Loop) -> None:
    async def slow(ctx: Context[Any]) -> None:
        pass

    tree = supervise(loop, child("a"), child("b", init=slow), child("never"), strategy=Strategy.ONE_FOR_ALL)
    loop.fail_actor(tree.address("a"))
    loop.run(until_idle=True)
    assert [info.restarts for info in tree.children()] == [1, 0, 0]
