"""Children: how they start, what their supervisor receives, what they keep, and in which order they end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from bandstand.core import (
    FAIL,
    STOP,
    ActorId,
    ActorStatus,
    ChildExit,
    ChildStart,
    Context,
    ExitReason,
    Lane,
    Loop,
    SystemTag,
)
from bandstand.core.actors import NOT_YET
from bandstand.errors import (
    ActorKilledError,
    BandstandError,
    InvalidArgumentError,
    LoopClosedError,
    MaxActorsError,
    NoSuchActorError,
    RestartLimitError,
)
from bandstand.testing import VirtualClock, run_async
from tests.core.child_groups import (
    RecordingChildGroup,
    Stubborn,
    add_child,
    add_supervisor,
    poll_until,
    start_messages,
)
from tests.core.support import (
    USER_LANES,
    Boom,
    HostFactory,
    LoopMaker,
    OnStart,
    RecordingObserver,
    Seen,
    call_in,
    check_statistics,
    collect,
    exits,
    fill,
    idle,
    record,
    run_message,
    settle,
)

LETTERS = ("a", "b", "c")


ENDS: dict[str, Callable[[Loop, ActorId], object]] = {
    "stop": lambda loop, actor: loop.stop_actor(actor),
    "fail": lambda loop, actor: loop.fail_actor(actor, Boom("x")),
    "kill": lambda loop, actor: loop.kill_actor(actor),
}


def giving(state: Any) -> Callable[[Context[Any]], Any]:
    def init(ctx: Context[Any]) -> Any:
        return state

    return init


def raising(error: BaseException) -> Callable[[Context[Any]], Any]:
    def init(ctx: Context[Any]) -> None:
        raise error

    return init


def doing(deed: Callable[[Context[Any]], object], state: Any = None) -> Callable[[Context[Any]], Any]:
    """An init that does something and then gives a state."""

    def init(ctx: Context[Any]) -> Any:
        deed(ctx)
        return state

    return init


# --- an init that is a function -----------------------------------------------------------------------------------------


@pytest.mark.spec("J17")
@pytest.mark.guarantee("G44")
def test_an_init_returns_the_state(
    loop: Loop, boss: ActorId, notes: list[Seen], diary: RecordingObserver
) -> None:
    during: list[object] = []
    inbox: list[Any] = []

    def init(ctx: Context[Any]) -> list[Any]:
        during.extend([ctx.loop.status(ctx.self_id), ctx.loop is loop, ctx.state, ctx.tag, ctx.sender])
        during.append(type(ctx.lane))
        return inbox

    child = add_child(loop, collect, init, supervisor=boss, name="child")
    assert during == [ActorStatus.INIT, True, None, 0, 0, Lane], "there is no message"
    assert loop.status(child) is ActorStatus.RUNNING
    assert diary.started == [(child, "child")]
    loop.send(child, "x")
    settle(loop)
    assert inbox == ["x"]
    assert notes == [], "a start inside the call is not told"


@pytest.mark.guarantee("G44")
@pytest.mark.parametrize("error", [Boom("x"), asyncio.CancelledError(), StopIteration()], ids=repr)
def test_an_init_that_raises_is_a_panic(
    loop: Loop, boss: ActorId, notes: list[Seen], diary: RecordingObserver, error: BaseException
) -> None:
    def init(ctx: Context[Any]) -> None:
        ctx.loop.send(ctx.self_id, "unread")
        ctx.loop.send_after(ctx.self_id, 0.005, "timer")
        raise error

    assert loop.kernel.actors.take_init_error() is None
    child = add_child(loop, idle, init, supervisor=boss)
    assert loop.kernel.actors.take_init_error() is error
    assert loop.kernel.actors.take_init_error() is None, "once"
    assert loop.status(child) is ActorStatus.FAILED
    assert diary.stopped == [(child, ExitReason.PANIC)]
    assert [data for _, _, data, *_ in diary.dead] == ["unread"]
    settle(loop)
    assert [message.data for message in notes] == [ChildExit(child, ExitReason.PANIC, error)]


@pytest.mark.guarantee("G44")
def test_an_async_init_that_raises_is_a_panic(
    loop: Loop, boss: ActorId, notes: list[Seen], diary: RecordingObserver
) -> None:
    error = Boom("x")

    async def init(ctx: Context[Any]) -> None:
        await asyncio.sleep(0)
        raise error

    child = add_child(loop, idle, init, supervisor=boss)
    loop.send(child, "unread")
    loop.run(until_idle=True)
    assert loop.status(child) is ActorStatus.FAILED
    assert [message.data for message in notes] == [ChildExit(child, ExitReason.PANIC, error)]
    assert [data for _, _, data, *_ in diary.dead] == ["unread"]


@pytest.mark.guarantee("G44", "G22")
@pytest.mark.parametrize(
    ("how", "reason", "cause"),
    [
        ("stop", ExitReason.NORMAL, type(None)),
        ("fail", ExitReason.FAIL, Boom),
        ("kill", ExitReason.FAIL, ActorKilledError),
    ],
)
@pytest.mark.parametrize("then", ["returns", "raises", "gives a coroutine", "is not ready yet"])
def test_an_init_that_ends_its_own_actor(
    loop: Loop, boss: ActorId, notes: list[Seen], how: str, reason: ExitReason, cause: type, then: str
) -> None:
    during: list[ActorStatus] = []

    async def more() -> None:
        raise AssertionError("never begun")

    def init(ctx: Context[Any]) -> Any:
        ENDS[how](ctx.loop, ctx.self_id)
        during.append(ctx.loop.status(ctx.self_id))
        if then == "raises":
            raise Boom("afterwards")
        if then == "gives a coroutine":
            return more()
        return NOT_YET if then == "is not ready yet" else "state"

    child = add_child(loop, idle, init, supervisor=boss)
    assert during == [ActorStatus.STOPPING]
    assert loop.status(child) >= ActorStatus.STOPPED
    settle(loop)
    (note,) = exits(notes)
    assert (note.reason, type(note.cause)) == (reason, cause), "the first wish stands"
    assert loop.statistics().in_flight == 0


@pytest.mark.guarantee("G44", "G22")
@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3)], ids=repr)
@pytest.mark.parametrize("wish", ["none", "stop", "kill"])
@pytest.mark.parametrize("where", ["outside", "in a turn"])
def test_an_interrupt_in_an_init_ends_the_loop(
    loop: Loop, diary: RecordingObserver, error: BaseException, wish: str, where: str
) -> None:
    born: list[ActorId] = []

    def init(ctx: Context[Any]) -> None:
        born.append(ctx.self_id)
        if wish == "stop":
            ctx.loop.stop_actor(ctx.self_id)
        elif wish == "kill":
            ctx.loop.kill_actor(ctx.self_id)
        raise error

    def give_birth(ctx: object) -> None:
        add_child(loop, idle, init)

    parent = loop.spawn(run_message)

    def go() -> None:
        if where == "outside":
            give_birth(None)
        else:
            loop.send(parent, give_birth)
        loop.run()

    with pytest.raises(type(error)) as caught:
        go()
    assert caught.value is error
    assert loop.statistics().alive == 0
    assert sorted(int(actor) for actor, _ in diary.stopped) == sorted([int(parent), int(born[0])])


@pytest.mark.guarantee("G44", "G24")
def test_an_observer_that_stops_a_child_at_its_start(loop: Loop, boss: ActorId, notes: list[Seen]) -> None:
    calls: list[str] = []
    loop.set_observer(OnStart(loop.stop_actor))
    child = add_child(loop, idle, doing(lambda ctx: calls.append("init")), supervisor=boss)
    loop.set_observer(None)
    settle(loop)
    assert calls == []
    assert [note.child for note in exits(notes)] == [child]


@pytest.mark.guarantee("G44", "G24")
@pytest.mark.parametrize("kind", ["none", "function", "coroutine"])
def test_messages_of_the_observer_wait_for_the_init(loop: Loop, kind: str) -> None:
    log: list[Any] = []

    async def slow(ctx: Context[Any]) -> str:
        for _ in range(3):
            await asyncio.sleep(0)
        log.append("init")
        return "state"

    inits: dict[str, Any] = {
        "none": None,
        "function": doing(lambda ctx: log.append("init"), "state"),
        "coroutine": slow,
    }
    other: list[Any] = []
    bystander = loop.spawn(collect, other)
    loop.set_observer(OnStart(lambda actor: loop.send(actor, "hello")))
    child = add_child(loop, lambda ctx, data: log.append((data, ctx.state)), inits[kind])
    loop.set_observer(None)
    loop.send(child, "second")
    loop.send(bystander, "x")
    assert loop.statistics().ready <= 2, "each actor is in the run queue once"
    poll_until(loop, lambda: loop.statistics().waiting == 0)
    state = None if kind == "none" else "state"
    assert log == [*([] if kind == "none" else ["init"]), ("hello", state), ("second", state)]
    assert other == ["x"]
    settle(loop)


# --- inside another's turn ----------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G44", "G54")
@pytest.mark.parametrize("how", ENDS)
def test_an_init_that_ends_its_running_supervisor(loop: Loop, diary: RecordingObserver, how: str) -> None:
    boss, family = add_supervisor(loop, run_message)
    log: list[object] = []

    def init(ctx: Context[Any]) -> str:
        ENDS[how](loop, boss)
        log.append(("in init", loop.status(boss), loop.status(ctx.self_id)))
        return "state"

    def give_birth(ctx: Context[Any]) -> None:
        child = add_child(loop, idle, init, supervisor=boss)
        family.children.append(child)
        log.append(("after", loop.status(boss), loop.status(child)))
        log.append(list(diary.stopped))
        assert ctx.self_id is boss

    call_in(loop, boss, give_birth)
    settle(loop)
    assert log == [
        ("in init", ActorStatus.STOPPING, ActorStatus.INIT),
        ("after", ActorStatus.STOPPING, ActorStatus.RUNNING),
        [],
    ]
    (child,) = family.children
    assert diary.stopped == [
        (child, ExitReason.NORMAL),
        (boss, ExitReason.NORMAL if how == "stop" else ExitReason.FAIL),
    ]
    assert family.taken == 1


@pytest.mark.guarantee("G44", "G15")
def test_the_behavior_of_the_supervisor_goes_on(loop: Loop) -> None:
    log: list[object] = []

    def give_birth(ctx: Context[Any]) -> None:
        before = (ctx.self_id, ctx.tag, ctx.sender, ctx.lane, ctx.state)
        add_child(loop, idle, giving("the child's"), supervisor=ctx.self_id)
        add_child(loop, idle, raising(Boom("x")), supervisor=ctx.self_id)
        log.append((ctx.self_id, ctx.tag, ctx.sender, ctx.lane, ctx.state) == before)
        # Still the one that is running: its end waits for its return.
        loop.stop_actor(ctx.self_id)
        log.append(loop.status(ctx.self_id))

    boss = loop.spawn(run_message, "the boss's own")
    loop.send(boss, give_birth, tag=5, lane=Lane.CONTROL, sender=boss)
    settle(loop)
    assert log == [True, ActorStatus.STOPPING]
    assert loop.status(boss) is ActorStatus.STOPPED


# --- an init that is a coroutine function -------------------------------------------------------------------------------


@pytest.mark.spec("J17", "J25")
@pytest.mark.guarantee("G44")
def test_messages_wait_for_an_async_init(
    loop: Loop, boss: ActorId, notes: list[Seen], stubborn: Stubborn
) -> None:
    inbox: list[Any] = []
    stubborn.answer = inbox
    child = add_child(loop, collect, stubborn, supervisor=boss)
    assert stubborn.begun == 0, "it is begun by the host, never inside the call"
    for number in range(3):
        loop.send(child, number)
    loop.send(child, "urgent", lane=Lane.CONTROL)
    loop.send_after(child, 0, "timer")
    loop.send_async(child, "from afar")
    poll_until(loop, lambda: stubborn.begun)
    for _ in range(5):
        loop.poll_once()
    assert loop.status(child) is ActorStatus.INIT
    assert (inbox, start_messages(notes)) == ([], [])
    stubborn.release.set()
    poll_until(loop, lambda: loop.statistics().waiting == 0)
    assert loop.status(child) is ActorStatus.RUNNING
    assert inbox == ["urgent", 0, 1, 2, "from afar", "timer"]
    assert [(message.data, message.tag, message.lane) for message in notes] == [
        (ChildStart(child), SystemTag.CHILD_START, Lane.SYSTEM)
    ]


@pytest.mark.guarantee("G44")
def test_a_child_start_never_meets_a_full_mailbox(loop: Loop, seen: list[Seen]) -> None:
    boss = loop.spawn(record, seen, mailbox_cap=5)
    gate = asyncio.Event()

    async def init(ctx: Context[Any]) -> None:
        await gate.wait()

    children = [add_child(loop, idle, init, supervisor=boss) for _ in range(50)]
    poll_until(loop, lambda: loop.statistics().ready == 0)
    assert fill(loop, boss) == 1
    gate.set()
    poll_until(loop, lambda: loop.statistics().in_flight == 0 and loop.statistics().waiting == 0)
    assert start_messages(seen) == children
    assert loop.status(boss) is ActorStatus.RUNNING


@pytest.mark.guarantee("G44", "G22")
@pytest.mark.parametrize("verdict", [STOP, FAIL, "anything", 0, False, NOT_YET], ids=repr)
def test_what_an_init_gives_is_the_state_and_no_verdict(loop: Loop, verdict: Any) -> None:
    async def init(ctx: Context[Any]) -> Any:
        return verdict

    states: list[Any] = []
    children = [add_child(loop, lambda ctx, data: states.append(ctx.state), init)]
    if verdict is not NOT_YET:
        children.append(add_child(loop, lambda ctx, data: states.append(ctx.state), giving(verdict)))
    for child in children:
        loop.send(child, "x")
    loop.run(until_idle=True)
    assert states == [verdict] * len(children)


@pytest.mark.guarantee("G44", "G32")
@pytest.mark.parametrize("has_begun", [False, True])
def test_a_stop_cancels_an_async_init(loop: Loop, boss: ActorId, notes: list[Seen], has_begun: bool) -> None:
    log: list[str] = []

    async def init(ctx: Context[Any]) -> str:
        log.append("begun")
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            log.append("cancelled")
            raise
        return "state"

    child = add_child(loop, idle, init, supervisor=boss)
    if has_begun:
        poll_until(loop, lambda: log)
    loop.stop_actor(child)
    assert loop.status(child) is (ActorStatus.STOPPING if has_begun else ActorStatus.STOPPED)
    assert not loop.try_send(child, "x")
    loop.run(until_idle=True)
    assert loop.status(child) is ActorStatus.STOPPED
    assert log == (["begun", "cancelled"] if has_begun else [])
    assert [message.data for message in notes] == [ChildExit(child, ExitReason.NORMAL, None)]


@pytest.mark.guarantee("G22", "G44")
@pytest.mark.parametrize("where", ["init", "hook"])
def test_an_interrupt_between_two_ticks_is_raised_at_once(loop: Loop, where: str) -> None:
    log: list[str] = []
    interrupt = raising(KeyboardInterrupt())

    async def behavior(ctx: Context[Any], data: object) -> None:
        await asyncio.sleep(0)
        loop.set_observer(OnStart(cast("Any", interrupt)) if where == "hook" else None)
        add_child(loop, idle, interrupt if where == "init" else None)
        loop.set_observer(None)
        # Not for ever: a loop that has not noticed would wait as long.
        for _ in range(200):
            await asyncio.sleep(0)
        log.append("nobody has noticed")

    loop.send(loop.spawn(behavior), "x")
    with pytest.raises(KeyboardInterrupt):
        loop.run()
    assert log == []
    assert loop.statistics().alive == 0


# --- an init that goes on by messages -----------------------------------------------------------------------------------


@pytest.mark.guarantee("G44")
def test_an_actor_can_declare_itself_started_later(loop: Loop, boss: ActorId, notes: list[Seen]) -> None:
    seen: list[tuple[Any, ActorStatus]] = []

    def behavior(ctx: Context[Any], data: Any) -> None:
        seen.append((data, loop.status(ctx.self_id)))
        if data == "ready":
            loop.kernel.actors.declare_started(ctx.self_id)

    init = doing(lambda ctx: ctx.loop.send(ctx.self_id, "its own"), NOT_YET)
    child = add_child(loop, behavior, init, supervisor=boss)
    assert loop.status(child) is ActorStatus.INIT
    for word in ("one", "ready", "two"):
        loop.send(child, word)
    settle(loop)
    assert seen == [
        *((word, ActorStatus.INIT) for word in ("its own", "one", "ready")),
        ("two", ActorStatus.RUNNING),
    ]
    assert start_messages(notes) == [child]
    loop.kernel.actors.declare_started(child)
    settle(loop)
    assert start_messages(notes) == [child], "once"


@pytest.mark.guarantee("G44")
def test_an_actor_that_never_started_can_end(loop: Loop, boss: ActorId, notes: list[Seen]) -> None:
    children = [add_child(loop, lambda ctx, data: FAIL, giving(NOT_YET), supervisor=boss) for _ in range(3)]
    loop.stop_actor(children[0])
    loop.kill_actor(children[1])
    loop.send(children[2], "x")
    settle(loop)
    assert [(note.child, note.reason) for note in exits(notes)] == list(
        zip(children, [ExitReason.NORMAL, ExitReason.FAIL, ExitReason.FAIL], strict=True)
    )
    for child in children:
        loop.kernel.actors.declare_started(child)
    settle(loop)
    assert start_messages(notes) == []


@pytest.mark.guarantee("G44")
def test_a_start_without_a_supervisor_is_no_message(loop: Loop, boss: ActorId) -> None:
    child = add_child(loop, idle, giving(NOT_YET), supervisor=boss)
    loop.stop_actor(boss)
    loop.kernel.actors.declare_started(child)
    assert loop.status(child) is ActorStatus.RUNNING
    assert loop.statistics().sent == 0


# --- what a child leaves ------------------------------------------------------------------------------------------------


def write(loop: Loop, actor: ActorId, letters: tuple[str, ...] = LETTERS) -> None:
    for letter in letters:
        for lane in reversed(USER_LANES):
            loop.send(actor, f"{lane.name} {letter}", lane=lane)


IN_ORDER = [f"{lane.name} {letter}" for lane in USER_LANES for letter in LETTERS]


@pytest.mark.guarantee("G51", "G5", "G6")
@pytest.mark.parametrize("init", [None, giving("state")], ids=["no init", "init"])
def test_kept_messages_come_first_by_lanes(loop: Loop, init: Any, seen: list[Any]) -> None:
    boss, family = add_supervisor(loop)
    other: list[Any] = []
    bystander = loop.spawn(collect, other)

    def behavior(ctx: Context[Any], data: object) -> None:
        seen.append(data)

    first = add_child(loop, behavior, init, supervisor=boss, keeps=True)
    write(loop, first)
    loop.fail_actor(first)
    assert family.kept == [first]
    assert loop.statistics().dead == 0
    settle(loop)
    second = add_child(loop, behavior, init, supervisor=boss, keeps=True, estate=family.mailboxes.pop())
    loop.send(second, "new")
    loop.send(second, "new and urgent", lane=Lane.CONTROL)
    assert loop.statistics().ready == 1, "it is in the run queue once"
    loop.send(bystander, "x")
    settle(loop)
    assert seen == [*IN_ORDER[:3], "new and urgent", *IN_ORDER[3:], "new"]
    assert other == ["x"]


@pytest.mark.guarantee("G51")
@pytest.mark.parametrize("kind", ["function", "coroutine"])
def test_a_failed_init_keeps_the_mailbox(loop: Loop, kind: str, seen: list[Any]) -> None:
    boss, family = add_supervisor(loop)

    async def slow(ctx: Context[Any]) -> None:
        await asyncio.sleep(0)
        raise Boom("x")

    first = add_child(loop, idle, supervisor=boss, keeps=True)
    write(loop, first)
    loop.stop_actor(first)
    init = raising(Boom("x")) if kind == "function" else slow
    second = add_child(loop, collect, init, supervisor=boss, keeps=True, estate=family.mailboxes.pop())
    poll_until(loop, lambda: family.mailboxes)
    assert family.kept == [first, second]
    add_child(loop, collect, giving(seen), supervisor=boss, keeps=True, estate=family.mailboxes.pop())
    settle(loop)
    assert seen == IN_ORDER


@pytest.mark.guarantee("G51")
def test_the_current_message_is_not_kept(loop: Loop, seen: list[Any]) -> None:
    boss, family = add_supervisor(loop)
    first = add_child(loop, lambda ctx, data: FAIL, supervisor=boss, keeps=True)
    for word in ("at hand", "kept", "kept, too"):
        loop.send(first, word)
    settle(loop)
    add_child(loop, collect, giving(seen), supervisor=boss, keeps=True, estate=family.mailboxes.pop())
    settle(loop)
    assert seen == ["kept", "kept, too"]


@pytest.mark.guarantee("G51", "G10")
def test_system_messages_and_timers_are_not_kept(loop: Loop, diary: RecordingObserver) -> None:
    boss, family = add_supervisor(loop)
    seen: list[Any] = []
    first = add_child(loop, idle, supervisor=boss, keeps=True)
    grandchild = loop.spawn(idle, supervisor=first)
    timer = loop.send_after(first, 0.005, "timer")
    loop.send(first, "kept")
    loop.send_async(first, "on its way")
    loop.stop_actor(grandchild)
    loop.kernel.send_system(first, "the system's", SystemTag.SHUTDOWN)
    loop.stop_actor(first)
    assert not timer.pending
    add_child(loop, collect, giving(seen), supervisor=boss, keeps=True, estate=family.mailboxes.pop())
    settle(loop)
    assert seen == ["kept"]
    assert [(lane, tag) for _, lane, _, tag, _ in diary.dead] == [
        (Lane.SYSTEM, SystemTag.CHILD_EXIT),
        (Lane.SYSTEM, SystemTag.SHUTDOWN),
        (Lane.DATA, 0),
    ]


@pytest.mark.guarantee("G51", "G7")
def test_a_kept_mailbox_may_exceed_the_cap(loop: Loop, seen: list[Any]) -> None:
    boss, family = add_supervisor(loop)
    first = add_child(loop, idle, supervisor=boss, keeps=True, cap=50)
    assert fill(loop, first) == 46
    loop.stop_actor(first)
    second = add_child(
        loop, collect, giving(seen), supervisor=boss, keeps=True, cap=5, estate=family.mailboxes.pop()
    )
    assert not loop.try_send(second, "no room")
    assert loop.try_send(second, "room", lane=Lane.CONTROL)
    settle(loop)
    assert len(seen) == 47
    assert fill(loop, second) == 1


@pytest.mark.guarantee("G51", "G10")
def test_a_discarded_mailbox_becomes_dead_letters(loop: Loop, diary: RecordingObserver) -> None:
    boss, family = add_supervisor(loop)
    child = add_child(loop, idle, supervisor=boss, keeps=True)
    write(loop, child)
    loop.stop_actor(child)
    assert diary.dead == []
    estate = family.mailboxes.pop()
    loop.kernel.discard_mailbox(estate)
    assert [data for _, _, data, *_ in diary.dead] == IN_ORDER
    assert {target for target, *_ in diary.dead} == {child}
    loop.kernel.discard_mailbox(estate)
    assert loop.statistics().dead == len(IN_ORDER)
    settle(loop)
    check_statistics(loop)
    assert loop.statistics().waiting == 0


@pytest.mark.guarantee("G51", "G21")
@pytest.mark.parametrize("why", ["no family", "no supervisor", "the supervisor has ended", "the loop ends"])
def test_an_unkept_mailbox_becomes_dead_letters(loop: Loop, diary: RecordingObserver, why: str) -> None:
    boss, family = add_supervisor(loop)
    supervisor = {"no family": loop.spawn(idle), "no supervisor": None}.get(why, boss)
    child = add_child(loop, idle, supervisor=supervisor, keeps=True)
    write(loop, child)
    if why == "the supervisor has ended":
        loop.stop_actor(boss)
        loop.stop_actor(child)
    elif why == "the loop ends":
        family.children.append(child)
        loop.destroy()
    else:
        loop.stop_actor(child)
    assert family.kept == []
    assert [data for _, _, data, *_ in diary.dead] == IN_ORDER


@pytest.mark.guarantee("G51", "G10", "G24")
def test_a_child_group_that_raises_on_keep(
    loop: Loop, diary: RecordingObserver, caplog: pytest.LogCaptureFixture
) -> None:
    class Careless(RecordingChildGroup):
        def keep(self, actor: ActorId, estate: Any) -> None:
            raise Boom("dropped it")

    boss = loop.spawn(idle)
    loop.kernel.actors.set_child_group(boss, Careless(loop))
    child = add_child(loop, idle, supervisor=boss, keeps=True)
    write(loop, child)
    loop.stop_actor(child)
    assert "dropped it" in caplog.text
    settle(loop)
    assert loop.statistics().waiting == 0
    assert len(diary.dead) == len(IN_ORDER)


# --- families -----------------------------------------------------------------------------------------------------------


def by_panic(loop: Loop, boss: ActorId) -> None:
    loop.send(boss, raising(Boom("x")))
    settle(loop)


def by_verdict(loop: Loop, boss: ActorId) -> None:
    loop.send(boss, giving(STOP))
    settle(loop)


BOSS_ENDS: dict[str, Callable[[Loop, ActorId], object]] = {
    **ENDS,
    "panic": by_panic,
    "verdict": by_verdict,
    "loop end": lambda loop, boss: loop.destroy(),
}


@pytest.mark.spec("J16")
@pytest.mark.guarantee("G21")
def test_the_order_of_an_exit(loop: Loop) -> None:
    facts: list[object] = []
    boss, family = add_supervisor(loop)
    child = add_child(loop, idle, supervisor=boss)
    family.children.append(child)
    watcher, peer = loop.spawn(idle), loop.spawn(idle)
    loop.monitor(watcher, boss)
    loop.link(boss, peer)
    timer = loop.send_after(boss, 0.005, "timer")
    loop.send(boss, "unread")

    class Order:
        """Only notes what it finds: an assertion in here would be contained."""

        def on_dead_letter(self, *letter: object) -> None:
            facts.append(("dead letter", timer.pending))

        def on_actor_stop(self, id: ActorId, reason: ExitReason) -> None:  # noqa: A002 -- the hook's own name
            name = {child: "child", boss: "boss", peer: "peer"}[id]
            facts.append(
                (name, loop.status(boss), timer.pending, loop.statistics().dead, loop.statistics().alive)
            )

    loop.set_observer(Order())
    loop.fail_actor(boss)
    loop.set_observer(None)
    assert facts == [
        ("child", ActorStatus.FAILED, True, 0, 3),
        ("dead letter", False),
        ("boss", ActorStatus.FAILED, False, 1, 2),
        ("peer", ActorStatus.FAILED, False, 1, 1),
    ]
    assert loop.status(child) is ActorStatus.STOPPED


@pytest.mark.guarantee("G21", "G54")
@pytest.mark.parametrize("how", BOSS_ENDS)
def test_a_whole_tree_ends_leaves_first(loop: Loop, diary: RecordingObserver, how: str) -> None:
    """In the order of each family, which need not be that of the births."""
    root, top = add_supervisor(loop, run_message)
    expected: list[ActorId] = []
    for _ in range(3):
        middle = add_child(loop, idle, supervisor=root)
        family = RecordingChildGroup(loop)
        loop.kernel.actors.set_child_group(middle, family)
        top.children.append(middle)
        leaves = [add_child(loop, idle, supervisor=middle) for _ in range(4)]
        family.children = [leaves[place] for place in (2, 0, 3, 1)]
        expected = [*reversed(family.children), middle, *expected]
    BOSS_ENDS[how](loop, root)
    assert [actor for actor, _ in diary.stopped] == [*expected, root]
    assert {reason for actor, reason in diary.stopped if actor is not root} == {ExitReason.NORMAL}
    assert top.taken == 1
    assert loop.statistics().dead == 0, "nobody tells a supervisor that has ended"


@pytest.mark.guarantee("G21", "G24")
def test_a_child_group_that_raises_at_its_end(loop: Loop, caplog: pytest.LogCaptureFixture) -> None:
    class Careless(RecordingChildGroup):
        def take_all(self, children: list[ActorId]) -> None:
            raise Boom("not my business")

    boss = loop.spawn(idle)
    loop.kernel.actors.set_child_group(boss, Careless(loop))
    child = add_child(loop, idle, supervisor=boss)
    loop.stop_actor(boss)
    assert loop.status(boss) is ActorStatus.STOPPED
    assert loop.status(child) is ActorStatus.RUNNING
    assert "not my business" in caplog.text
    loop.destroy()
    assert loop.statistics().alive == 0


@pytest.mark.guarantee("G21", "G54")
def test_a_child_in_flight_does_not_delay_it(
    loop: Loop, diary: RecordingObserver, stubborn: Stubborn
) -> None:
    boss, family = add_supervisor(loop)
    slow, quick = add_child(loop, stubborn, supervisor=boss), add_child(loop, idle, supervisor=boss)
    family.children = [quick, slow]
    loop.send(slow, "x")
    poll_until(loop, lambda: stubborn.begun)
    loop.stop_actor(boss)
    assert [actor for actor, _ in diary.stopped] == [quick, boss]
    assert loop.status(slow) is ActorStatus.STOPPING
    stubborn.release.set()
    poll_until(loop, lambda: loop.status(slow) is ActorStatus.STOPPED)


@pytest.mark.guarantee("G54")
def test_a_child_group_of_an_ended_actor_is_not_called(loop: Loop) -> None:
    boss = loop.spawn(idle)
    loop.stop_actor(boss)
    family = RecordingChildGroup(loop)
    loop.kernel.actors.set_child_group(boss, family)
    loop.destroy()
    assert family.taken == 0


@pytest.mark.guarantee("G21", "G42")
def test_stop_or_kill_ignores_ended_actors(
    loop: Loop, boss: ActorId, notes: list[Seen], stubborn: Stubborn
) -> None:
    stopped, killed, slow = (
        loop.spawn(idle, supervisor=boss),
        loop.spawn(idle, supervisor=boss),
        loop.spawn(stubborn, supervisor=boss),
    )
    loop.send(slow, "x")
    poll_until(loop, lambda: stubborn.begun)
    cause = ActorKilledError("enough")
    for _ in range(2):
        loop.kernel.actors.stop_or_kill(stopped)
        loop.kernel.actors.stop_or_kill(killed, cause)
        loop.kernel.actors.stop_or_kill(slow)
    assert loop.status(slow) is ActorStatus.STOPPING
    loop.kernel.actors.stop_or_kill(slow, cause)
    settle(loop)
    assert [message.data for message in notes] == [
        ChildExit(stopped, ExitReason.NORMAL, None),
        ChildExit(killed, ExitReason.FAIL, cause),
        ChildExit(slow, ExitReason.FAIL, cause),
    ]


# --- where there is no room ---------------------------------------------------------------------------------------------


@pytest.mark.spec("J10")
def test_a_child_too_many_keeps_its_mailbox(make_loop: LoopMaker, seen: list[Any]) -> None:
    loop = make_loop(max_actors=2)
    boss, family = add_supervisor(loop)
    child = add_child(loop, idle, supervisor=boss, keeps=True)
    write(loop, child)
    loop.stop_actor(child)
    blocker = loop.spawn(idle)
    (estate,) = family.mailboxes
    with pytest.raises(MaxActorsError):
        add_child(loop, idle, supervisor=boss, keeps=True, estate=estate)
    loop.stop_actor(blocker)
    add_child(loop, collect, giving(seen), supervisor=boss, keeps=True, estate=estate)
    settle(loop)
    assert seen == IN_ORDER


@pytest.mark.guarantee("G26")
def test_a_refused_child_has_no_init(loop: Loop, boss: ActorId) -> None:
    calls: list[str] = []
    init = doing(lambda ctx: calls.append("init"))
    ended = loop.spawn(idle)
    loop.stop_actor(ended)
    with pytest.raises(NoSuchActorError):
        add_child(loop, idle, init, supervisor=ended)
    loop.request_stop()
    for supervisor in (boss, None):
        with pytest.raises(LoopClosedError):
            add_child(loop, idle, init, supervisor=supervisor)
    assert calls == []
    assert loop.statistics().spawned == 2


@pytest.mark.spec("J16")
@pytest.mark.guarantee("G24")
def test_the_observer_hears_of_restarts(loop: Loop, caplog: pytest.LogCaptureFixture) -> None:
    told: list[object] = []
    boss, child = loop.spawn(idle), loop.spawn(idle)

    class Listener:
        def on_actor_restart(self, supervisor: ActorId, child: ActorId, attempt: int) -> None:
            told.append((supervisor, child, attempt))

        def on_supervisor_escalate(self, supervisor: ActorId) -> None:
            told.append(supervisor)
            raise Boom("contained")

    for observer in (None, Listener(), None):
        loop.set_observer(observer)
        loop.kernel.report_restart(boss, child, 3)
        loop.kernel.report_escalation(boss)
    assert told == [(boss, child, 3), boss]
    assert "contained" in caplog.text


def test_a_cap_is_checked_against_the_reserve(make_loop: LoopMaker) -> None:
    loop = make_loop(default_mailbox_cap=77, sys_reserved=6)
    assert [loop.kernel.actors.checked_cap(cap) for cap in (None, 0, 7, 1 << 30)] == [77, 77, 7, 1 << 30]
    bad: tuple[Any, ...] = (6, 1, -1, (1 << 30) + 1, 7.0, "7", True)
    for cap in bad:
        with pytest.raises(InvalidArgumentError):
            loop.kernel.actors.checked_cap(cap)


# --- the system's timers, and the time ----------------------------------------------------------------------------------


@pytest.mark.guarantee("G11", "G17")
def test_a_system_message_can_be_sent_for_later(loop: Loop, clock: VirtualClock, notes: list[Seen]) -> None:
    actor = loop.spawn(record, notes)
    timer = loop.kernel.start_system_timer(actor, 10, "later", SystemTag.CHILD_RESTART)
    assert timer is not None
    cancelled = loop.kernel.start_system_timer(actor, 10, "never", SystemTag.SHUTDOWN)
    assert cancelled is not None
    loop.cancel_timer(cancelled)
    clock.advance(0.009)
    settle(loop)
    assert notes == []
    clock.advance(0.001)
    settle(loop)
    assert notes == [Seen("later", SystemTag.CHILD_RESTART, 0, Lane.SYSTEM)]
    assert not timer.pending


@pytest.mark.guarantee("G16", "G19")
def test_a_system_timer_ends_with_its_target(loop: Loop, clock: VirtualClock) -> None:
    actor = loop.spawn(idle)
    timer = loop.kernel.start_system_timer(actor, 10, "later", SystemTag.SHUTDOWN)
    loop.kill_actor(actor)
    assert timer is not None
    assert not timer.pending
    assert loop.kernel.start_system_timer(actor, 10, "later", SystemTag.SHUTDOWN) is None


@pytest.mark.guarantee("G11")
@pytest.mark.parametrize(
    "tag", [tag for tag in SystemTag if tag not in {SystemTag.CHILD_RESTART, SystemTag.SHUTDOWN}]
)
def test_the_tags_of_exits_starts_and_io_cannot_be_sent(loop: Loop, tag: SystemTag) -> None:
    actor = loop.spawn(idle)
    with pytest.raises(InvalidArgumentError):
        loop.kernel.send_system(actor, "x", tag)
    with pytest.raises(InvalidArgumentError):
        loop.kernel.start_system_timer(actor, 1, "x", tag)


def test_elapsed_time_is_in_milliseconds(make_loop: LoopMaker, clock: VirtualClock) -> None:
    clock.advance(0.5)
    now = make_loop().kernel.timers.elapsed_ms
    assert now() == 0
    clock.advance(0.0015)
    assert now() == pytest.approx(1.5)


# --- failing the whole loop ---------------------------------------------------------------------------------------------


def failing(loop: Loop, error: BandstandError) -> ActorId:
    """An actor that fails the loop at its first message, which is sent."""
    actor = loop.spawn(lambda ctx, data: loop.kernel.fail(error))
    loop.send(actor, "now")
    return actor


@pytest.mark.guarantee("G48", "G26")
@pytest.mark.parametrize("driver", ["run", "poll_once"])
def test_a_failed_loop_ends_all_and_raises(loop: Loop, diary: RecordingObserver, driver: str) -> None:
    error = RestartLimitError("too often")
    actors = [failing(loop, error), loop.spawn(idle)]
    loop.send(actors[1], "unread")
    with pytest.raises(RestartLimitError) as caught:
        getattr(loop, driver)()
    assert caught.value is error
    assert diary.stopped == [(actor, ExitReason.NORMAL) for actor in reversed(actors)]
    assert [data for _, _, data, *_ in diary.dead] == ["unread"]
    with pytest.raises(LoopClosedError):
        loop.run()


@pytest.mark.guarantee("G48", "G26")
def test_a_loop_that_failed_before_run_raises_in_run(loop: Loop, diary: RecordingObserver) -> None:
    error = RestartLimitError("the first one counts")
    actor = loop.spawn(idle)
    loop.kernel.fail(error)
    loop.kernel.fail(RestartLimitError("second"))
    assert loop.status(actor) is ActorStatus.RUNNING
    assert loop.kernel.is_closed
    for refused in (loop.kernel.check_open, lambda: loop.spawn(idle)):
        with pytest.raises(LoopClosedError):
            refused()
    with pytest.raises(RestartLimitError) as caught:
        loop.run()
    assert caught.value is error
    assert diary.stopped == [(actor, ExitReason.NORMAL)]
    with pytest.raises(LoopClosedError):
        loop.run()


@pytest.mark.guarantee("G48", "G28")
@pytest.mark.parametrize("coroutines", [False, True])
def test_a_failed_loop_cancels_the_body(
    make_loop: LoopMaker, loop_factory: HostFactory, coroutines: bool
) -> None:
    loop = make_loop()
    error = RestartLimitError("too often")
    log: list[object] = []

    async def waiting(ctx: Context[Any], data: object) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            log.append("behavior")

    async def block() -> None:
        async with loop:
            if coroutines:
                loop.send(loop.spawn(waiting), "x")
            failing(loop, error)
            try:
                await asyncio.Event().wait()
            finally:
                log.append("body")

    async def main() -> None:
        with pytest.raises(RestartLimitError) as caught:
            await block()
        assert caught.value is error
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0
        await asyncio.sleep(0)
        assert len(asyncio.all_tasks()) == 1

    run_async(main, loop_factory=loop_factory)
    assert sorted(map(str, log)) == (["behavior", "body"] if coroutines else ["body"])
    assert loop.statistics().alive == 0


@pytest.mark.guarantee("G48", "G28")
@pytest.mark.parametrize("where", ["by a tick of the body's own", "by the body itself", "by an actor"])
@pytest.mark.parametrize("coroutines", [False, True])
def test_a_body_that_ends_first(
    make_loop: LoopMaker, loop_factory: HostFactory, where: str, coroutines: bool
) -> None:
    loop = make_loop()
    error = RestartLimitError("too often")

    async def waiting(ctx: Context[Any], data: object) -> None:
        await asyncio.Event().wait()

    async def body() -> None:
        async with loop:
            if coroutines:
                loop.send(loop.spawn(waiting), "x")
                while not loop.statistics().in_flight:  # noqa: ASYNC110 -- there is no event for it
                    await asyncio.sleep(0)
            if where == "by the body itself":
                loop.kernel.fail(error)
            else:
                failing(loop, error)
                if where == "by a tick of the body's own":
                    loop.poll_once()
                else:
                    await asyncio.sleep(0)

    async def main() -> None:
        with pytest.raises(RestartLimitError) as caught:
            await body()
        assert caught.value is error
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0
        for _ in range(5):
            await asyncio.sleep(0)

    run_async(main, loop_factory=loop_factory)


@pytest.mark.guarantee("G48")
def test_a_failed_loop_cannot_be_entered(make_loop: LoopMaker, loop_factory: HostFactory) -> None:
    loop = make_loop()
    loop.kernel.fail(RestartLimitError("x"))
    entered: list[bool] = []

    async def main() -> None:
        async with loop:
            entered.append(True)

    with pytest.raises(RestartLimitError):
        run_async(main, loop_factory=loop_factory)
    assert entered == []
