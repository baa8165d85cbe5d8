"""Children: how they start, what their supervisor receives, what they keep, and in which order they end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from bandstand.core import (
    FAIL,
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
    NoSuchActorError,
    RestartLimitError,
)
from bandstand.testing import run_async
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


# --- inside another's turn ----------------------------------------------------------------------------------------------


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


# --- where there is no room ---------------------------------------------------------------------------------------------


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


# --- the system's timers, and the time ----------------------------------------------------------------------------------


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


# --- failing the whole loop ---------------------------------------------------------------------------------------------


def failing(loop: Loop, error: BandstandError) -> ActorId:
    """An actor that fails the loop at its first message, which is sent."""
    actor = loop.spawn(lambda ctx, data: loop.kernel.fail(error))
    loop.send(actor, "now")
    return actor


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
