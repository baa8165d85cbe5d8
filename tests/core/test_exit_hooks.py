"""Exit hooks: what an actor runs when it ends, unless it is killed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from bandstand.core import ActorId, ActorStatus, ExitReason, Loop, Verdict
from bandstand.errors import ActorNotLocalError, LoopBusyError, NoSuchActorError
from tests.core.support import (
    LoopMaker,
    RecordingObserver,
    call_in,
    idle,
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
