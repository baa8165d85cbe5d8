"""How an actor ends: verdicts, exceptions and requests."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from bandstand.core import FAIL, OK, STOP, ActorStatus, ChildExit, Context, ExitReason, Loop, Verdict
from bandstand.errors import ActorFailedError, InvalidVerdictError, NoSuchActorError
from tests.core.support import (
    Boom,
    BreakableClock,
    LoopMaker,
    OnStart,
    RecordingObserver,
    Seen,
    call_in,
    exits,
    idle,
    record,
    run_message,
    settle,
)


def end_of(loop: Loop, act: Any) -> tuple[ChildExit, ActorStatus]:
    """Have a supervised actor do something that ends it; what its supervisor hears, and its status."""
    seen: list[Seen] = []
    boss = loop.spawn(record, seen)
    child = loop.spawn(run_message, supervisor=boss, name="child")
    loop.send(child, act)
    settle(loop)
    (note,) = exits(seen)
    assert note.child is child
    return note, loop.status(child)


def returning(verdict: Any) -> Any:
    def act(ctx: Context[Any]) -> Any:
        return verdict

    return act


def raising(error: BaseException) -> Any:
    def act(ctx: Context[Any]) -> None:
        raise error

    return act


class Awaitable_:  # noqa: N801 -- an instance is meant
    def __await__(self) -> Any:
        yield


@pytest.mark.spec("J11", "J3")
@pytest.mark.guarantee("G22", "G3")
def test_verdicts(loop: Loop) -> None:
    assert (ExitReason.NORMAL, ExitReason.FAIL, ExitReason.PANIC) == (0, 1, 2)
    note, status = end_of(loop, returning(STOP))
    assert (note.reason, note.cause, status) == (ExitReason.NORMAL, None, ActorStatus.STOPPED)
    note, status = end_of(loop, returning(FAIL))
    assert (note.reason, note.cause, status) == (ExitReason.FAIL, None, ActorStatus.FAILED)
    actor = loop.spawn(run_message)
    for verdict in (None, OK, Verdict.OK):
        loop.send(actor, returning(verdict))
    assert settle(loop) == 3
    assert loop.status(actor) is ActorStatus.RUNNING


@pytest.mark.spec("J11", "J3")
@pytest.mark.guarantee("G22", "G3")
@pytest.mark.parametrize(
    "error",
    [Boom("x"), asyncio.CancelledError(), GeneratorExit(), BaseException("bare"), StopIteration()],
    ids=repr,
)
def test_an_exception_of_a_function_is_a_panic(loop: Loop, error: BaseException) -> None:
    note, status = end_of(loop, raising(error))
    assert (note.reason, status) == (ExitReason.PANIC, ActorStatus.FAILED)
    assert note.cause is error
    assert error.__traceback__ is not None


@pytest.mark.spec("J11")
@pytest.mark.guarantee("G22")
@pytest.mark.parametrize(
    "verdict", [0, 1, True, False, "ok", "stop", object(), ExitReason.NORMAL, Verdict, Awaitable_()], ids=repr
)
def test_a_wrong_verdict_is_a_panic(loop: Loop, verdict: object) -> None:
    note, status = end_of(loop, returning(verdict))
    assert (note.reason, status) == (ExitReason.PANIC, ActorStatus.FAILED)
    assert isinstance(note.cause, InvalidVerdictError)
    for part in (repr(note.child), "child", repr(verdict), "STOP"):
        assert part in str(note.cause)


@pytest.mark.spec("J11")
@pytest.mark.guarantee("G22")
@pytest.mark.parametrize("reason", [None, "in words", Boom("as an error")], ids=repr)
def test_fail_actor_is_fail_with_the_reason_as_cause(loop: Loop, reason: Any, seen: list[Seen]) -> None:
    boss = loop.spawn(record, seen)
    child = loop.spawn(idle, supervisor=boss)
    loop.fail_actor(child, reason)
    assert loop.status(child) is ActorStatus.FAILED
    settle(loop)
    (note,) = exits(seen)
    assert note.reason is ExitReason.FAIL
    if isinstance(reason, str):
        assert isinstance(note.cause, ActorFailedError)
        assert str(note.cause) == reason
    else:
        assert note.cause is reason


@pytest.mark.spec("J3")
@pytest.mark.guarantee("G3", "G25")
def test_an_actor_that_stops_itself_ends_after_its_behavior(loop: Loop, diary: RecordingObserver) -> None:
    during: list[Any] = []

    def act(ctx: Context[Any]) -> None:
        ctx.loop.stop_actor(ctx.self_id)
        during.append(ctx.loop.status(ctx.self_id))
        during.append(ctx.loop.try_send(ctx.self_id, "too late"))
        with pytest.raises(NoSuchActorError):
            ctx.loop.stop_actor(ctx.self_id)
        during.append(list(diary.stopped))

    actor = loop.spawn(run_message)
    loop.send(actor, act)
    loop.send(actor, "never handled")
    assert settle(loop) == 1
    assert during == [ActorStatus.STOPPING, False, []]
    assert diary.stopped == [(actor, ExitReason.NORMAL)]
    assert [data for _, _, data, *_ in diary.dead] == ["never handled"]


@pytest.mark.spec("J11")
@pytest.mark.guarantee("G22")
@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3)], ids=repr)
@pytest.mark.parametrize("driver", ["run", "poll_once"])
def test_interrupts_are_raised(
    loop: Loop, diary: RecordingObserver, error: BaseException, driver: str
) -> None:
    culprit, bystander = loop.spawn(run_message), loop.spawn(run_message)
    handled: list[str] = []
    loop.send(culprit, raising(error))
    call_in(loop, culprit, lambda ctx: handled.append("culprit"))
    call_in(loop, bystander, lambda ctx: handled.append("bystander"))
    with pytest.raises(type(error)) as caught:
        getattr(loop, driver)()
    assert caught.value is error
    assert handled == [], "no other message is begun"
    assert dict(diary.stopped) == {bystander: ExitReason.NORMAL, culprit: ExitReason.NORMAL}
    assert loop.statistics().dead == 2


@pytest.mark.spec("J11")
@pytest.mark.guarantee("G22")
@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3)], ids=repr)
def test_an_interrupt_in_the_kernel_is_raised(make_loop: LoopMaker, error: BaseException) -> None:
    """Ctrl-C comes between any two bytecodes; the clock stands for the runtime's own."""
    clock = BreakableClock()
    loop = make_loop(clock=clock)
    clock.break_with(error)
    with pytest.raises(type(error)):
        loop.run()


@pytest.mark.spec("J11")
@pytest.mark.guarantee("G22")
def test_an_interrupt_in_a_hook_is_not_lost(loop: Loop) -> None:
    loop.set_observer(OnStart(raising(KeyboardInterrupt())))

    def spawn_and_run() -> None:
        loop.spawn(idle)
        loop.run(until_idle=True)

    with pytest.raises(KeyboardInterrupt):
        spawn_and_run()


@pytest.mark.spec("J3", "J16")
@pytest.mark.guarantee("G3")
def test_an_actor_is_init_while_its_start_is_told(loop: Loop) -> None:
    during: list[ActorStatus] = []

    loop.set_observer(OnStart(lambda actor: during.append(loop.status(actor))))
    actor = loop.spawn(idle)
    assert during == [ActorStatus.INIT]
    assert loop.status(actor) is ActorStatus.RUNNING
    assert list(ActorStatus) == sorted(ActorStatus)
    assert [status.name for status in ActorStatus] == ["INIT", "RUNNING", "STOPPING", "STOPPED", "FAILED"]
