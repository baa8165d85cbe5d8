"""Exit hooks: what an actor runs when it ends, unless it is killed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest

from bandstand.core import ActorId, ActorStatus, Context, ExitReason, Loop, Verdict
from bandstand.errors import ActorNotLocalError, LoopBusyError, NoSuchActorError
from bandstand.testing import VirtualClock
from tests.core.support import (
    Boom,
    LoopMaker,
    RecordingObserver,
    Seen,
    call_in,
    exits,
    idle,
    record,
    run_message,
    settle,
    spin,
)

pytestmark = pytest.mark.guarantee("G65")

Told = list[tuple[ExitReason, BaseException | None]]


def spawn(loop: Loop, told: Told, **options: Any) -> ActorId:
    actor = loop.spawn(run_message, **options)
    loop.kernel.actors.set_exit_hook(actor, lambda reason, cause: told.append((reason, cause)))
    return actor


def crash(ctx: Context[Any]) -> None:
    raise Boom("crash")


ENDS: dict[str, tuple[Callable[[Loop, ActorId], None], ExitReason]] = {
    "stop": (lambda loop, actor: loop.stop_actor(actor), ExitReason.NORMAL),
    "verdict": (lambda loop, actor: call_in(loop, actor, lambda ctx: Verdict.STOP), ExitReason.NORMAL),
    "fail": (lambda loop, actor: loop.fail_actor(actor), ExitReason.FAIL),
    "fail verdict": (lambda loop, actor: call_in(loop, actor, lambda ctx: Verdict.FAIL), ExitReason.FAIL),
    "panic": (lambda loop, actor: call_in(loop, actor, crash), ExitReason.PANIC),
}


@pytest.mark.parametrize("end", ENDS)
def test_it_is_called_once_with_reason_and_cause(loop: Loop, diary: RecordingObserver, end: str) -> None:
    deed, reason = ENDS[end]
    told: Told = []
    actor = spawn(loop, [])
    loop.kernel.actors.set_exit_hook(actor, lambda reason, cause: told.append((reason, cause)))
    deed(loop, actor)
    settle(loop)
    ((why, cause),) = told
    assert why is reason
    assert isinstance(cause, Boom) == (reason is ExitReason.PANIC)
    assert diary.stopped == [(actor, reason)]


def test_a_killed_actor_has_no_exit_hook(loop: Loop, diary: RecordingObserver) -> None:
    told: Told = []
    loop.kill_actor(spawn(loop, told))
    inside = spawn(loop, told)
    call_in(loop, inside, lambda ctx: loop.kill_actor(inside))
    settle(loop)
    assert told == []
    assert len(diary.stopped) == 2


def test_it_runs_before_children_end_and_exits_are_sent(loop: Loop, diary: RecordingObserver) -> None:
    seen: list[Seen] = []
    above = loop.spawn(record, seen)
    actor = loop.spawn(idle, supervisor=above)
    watcher = loop.spawn(record, seen)
    loop.monitor(watcher, actor)
    during: list[Any] = []

    def epilogue(reason: ExitReason, cause: BaseException | None) -> None:
        during.append((loop.status(actor), list(diary.stopped)))

    loop.kernel.actors.set_exit_hook(actor, epilogue)
    loop.stop_actor(actor)
    assert during == [(ActorStatus.STOPPING, [])]
    settle(loop)
    assert len(seen) == 2
    assert len(exits(seen)) == 1


@pytest.mark.parametrize("in_its_turn", [True, False])
def test_an_actor_that_is_ending_accepts_nothing_and_does_not_drive_the_loop(
    loop: Loop, in_its_turn: bool
) -> None:
    actor = loop.spawn(run_message)
    caught: list[type[BaseException]] = []

    def epilogue(reason: ExitReason, cause: BaseException | None) -> None:
        assert loop.kernel.is_current(actor)
        for deed in (lambda: loop.send(actor, "x"), lambda: loop.send_after(actor, 0.001, "x")):
            with pytest.raises(NoSuchActorError):
                deed()
            caught.append(NoSuchActorError)
        with pytest.raises(LoopBusyError):
            loop.poll_once()
        caught.append(LoopBusyError)
        assert loop.try_send(actor, "x") is False

    loop.kernel.actors.set_exit_hook(actor, epilogue)
    if in_its_turn:
        call_in(loop, actor, lambda ctx: Verdict.STOP)
        settle(loop)
    else:
        loop.stop_actor(actor)
    assert caught == [NoSuchActorError, NoSuchActorError, LoopBusyError]


def test_a_coroutine_is_waited_for(loop: Loop, diary: RecordingObserver) -> None:
    steps: list[str] = []

    async def epilogue(reason: ExitReason, cause: BaseException | None) -> None:
        steps.append("begin")
        for _ in range(3):
            await asyncio.sleep(0)
        steps.append("end")

    actor = loop.spawn(idle)
    loop.kernel.actors.set_exit_hook(actor, epilogue)
    loop.send(actor, "never handled")
    loop.stop_actor(actor)
    assert loop.status(actor) is ActorStatus.STOPPING
    assert (diary.stopped, diary.dead) == ([], [])
    loop.poll_once()
    with pytest.raises(NoSuchActorError):
        loop.stop_actor(actor)
    spin(loop)
    assert steps == ["begin", "end"], "a second stop does not disturb it"
    assert diary.stopped == [(actor, ExitReason.NORMAL)]
    assert len(diary.dead) == 1


@pytest.mark.parametrize("is_async", [False, True])
def test_an_exception_is_logged(
    loop: Loop, diary: RecordingObserver, caplog: pytest.LogCaptureFixture, is_async: bool
) -> None:
    def plain(reason: ExitReason, cause: BaseException | None) -> None:
        raise Boom("goodbye")

    async def later(reason: ExitReason, cause: BaseException | None) -> None:
        await asyncio.sleep(0)
        raise Boom("goodbye")

    actor = loop.spawn(run_message, name="rude")
    loop.kernel.actors.set_exit_hook(actor, later if is_async else plain)
    call_in(loop, actor, lambda ctx: Verdict.STOP)
    spin(loop)
    assert diary.stopped == [(actor, ExitReason.NORMAL)]
    errors = [entry for entry in caplog.records if entry.levelno >= logging.ERROR]
    assert len(errors) == 1
    assert "rude" in errors[0].getMessage()


def test_a_keyboard_interrupt_in_it_ends_the_loop(make_loop: LoopMaker) -> None:
    loop = make_loop()

    def epilogue(reason: ExitReason, cause: BaseException | None) -> None:
        raise KeyboardInterrupt

    actor = loop.spawn(run_message)
    loop.kernel.actors.set_exit_hook(actor, epilogue)
    call_in(loop, actor, lambda ctx: Verdict.STOP)
    with pytest.raises(KeyboardInterrupt):
        loop.run()


def test_it_needs_a_living_local_actor(loop: Loop, make_loop: LoopMaker) -> None:
    told: Told = []
    actor = loop.spawn(idle)
    loop.stop_actor(actor)
    loop.kernel.actors.set_exit_hook(actor, lambda reason, cause: told.append((reason, cause)))
    other = make_loop().spawn(idle)
    with pytest.raises(ActorNotLocalError):
        loop.kernel.actors.set_exit_hook(other, lambda reason, cause: told.append((reason, cause)))
    assert told == []


@pytest.mark.parametrize("way", ["run", "async with"])
def test_the_end_of_a_loop_waits_for_exit_hooks(make_loop: LoopMaker, clock: VirtualClock, way: str) -> None:
    loop = make_loop(loop_factory=clock.new_event_loop)
    steps: list[str] = []

    async def epilogue(reason: ExitReason, cause: BaseException | None) -> None:
        await asyncio.sleep(0.01)
        steps.append("end")

    for _ in range(3):
        loop.kernel.actors.set_exit_hook(loop.spawn(idle), epilogue)

    async def main() -> None:
        async with loop:
            pass

    start = clock.now_ns()
    if way == "run":
        call_in(loop, loop.spawn(run_message), lambda ctx: loop.request_stop())
        loop.run()
    else:
        clock.run(main())
    assert steps == ["end"] * 3
    # And for nothing else: the time that a stop may take is not used up.
    assert clock.now_ns() - start < 1_000_000_000
