"""Kill does not wait: an actor ends at once, whatever its coroutine does."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from bandstand.core import STOP, ActorId, ActorStatus, Context, ExitReason, Lane, Loop, Verdict
from bandstand.errors import ActorKilledError, NoSuchActorError
from tests.core.child_groups import Stubborn, exit_messages, poll_until
from tests.core.support import (
    Boom,
    LoopMaker,
    RecordingObserver,
    Seen,
    collect,
    downs,
    exits,
    idle,
    run_message,
    settle,
)

pytestmark = pytest.mark.guarantee("G42")


def begin(loop: Loop, stubborn: Stubborn, boss: ActorId | None = None) -> ActorId:
    """An actor whose coroutine is in flight and will not end."""
    actor = loop.spawn(stubborn, supervisor=boss, name="stubborn")
    before = stubborn.begun
    loop.send(actor, "x")
    poll_until(loop, lambda: stubborn.begun > before)
    return actor


# --- at once ------------------------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G23", "G25")
@pytest.mark.parametrize("in_flight", [False, True])
def test_a_kill_is_reported_at_once_and_once(
    loop: Loop,
    diary: RecordingObserver,
    boss: ActorId,
    notes: list[Seen],
    stubborn: Stubborn,
    in_flight: bool,
) -> None:
    actor = begin(loop, stubborn, boss) if in_flight else loop.spawn(idle, supervisor=boss, name="stubborn")
    loop.send(actor, "data")
    loop.send(actor, "control", lane=Lane.CONTROL)
    timer = loop.send_after(actor, 0.005, "timer")
    loop.monitor(boss, actor)
    loop.trap_exits(boss)
    loop.link(boss, actor)
    loop.kill_actor(actor)
    assert loop.status(actor) is ActorStatus.FAILED
    assert not loop.try_send(actor, "x")
    assert [data for _, _, data, *_ in diary.dead] == ["control", "data"]
    assert not timer.pending
    poll_until(loop, lambda: exits(notes))
    assert stubborn.ended == 0
    stubborn.release.set()
    poll_until(loop, lambda: not loop.statistics().in_flight)
    settle(loop)
    (note,) = exits(notes)
    assert (note.child, note.reason) == (actor, ExitReason.FAIL)
    assert isinstance(note.cause, ActorKilledError)
    for part in (repr(actor), "stubborn"):
        assert part in str(note.cause)
    assert (len(downs(notes)), len(exit_messages(notes))) == (1, 1)
    assert diary.stopped == [(actor, ExitReason.FAIL)]


# --- what the coroutine goes on to do -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (None, None),
        (STOP, None),
        (Verdict.FAIL, None),
        ("no verdict", None),
        (None, Boom("late")),
        (None, asyncio.CancelledError()),
    ],
    ids=repr,
)
def test_the_end_of_a_killed_coroutine_is_harmless(
    loop: Loop,
    diary: RecordingObserver,
    stubborn: Stubborn,
    answer: Any,
    error: BaseException | None,
    caplog: pytest.LogCaptureFixture,
) -> None:
    actor = begin(loop, stubborn)
    loop.kill_actor(actor)
    seen: list[Any] = []
    heir = loop.spawn(collect, seen)
    stubborn.answer, stubborn.error = answer, error
    stubborn.release.set()
    poll_until(loop, lambda: stubborn.ended and not loop.statistics().in_flight)
    loop.send(heir, "still here")
    settle(loop)
    assert seen == ["still here"]
    assert diary.stopped == [(actor, ExitReason.FAIL)]
    assert sum("stubborn" in line.getMessage() for line in caplog.records) == 1, "the kill itself"


def test_the_ghost_of_a_killed_actor_can_use_the_loop_but_not_its_own_id(loop: Loop, seen: list[Any]) -> None:
    facts: list[object] = []
    begun: list[object] = []
    other = loop.spawn(collect, seen)

    async def behavior(ctx: Context[Any], data: object) -> None:
        begun.append(data)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            facts.append(ctx.loop.status(ctx.self_id))
            facts.append(ctx.loop.try_send(ctx.self_id, "to itself"))
            for call in (ctx.loop.stop_actor, ctx.loop.fail_actor, ctx.loop.kill_actor):
                with pytest.raises(NoSuchActorError):
                    call(ctx.self_id)
            facts.append(ctx.state)
            ctx.loop.send(other, "from the ghost", sender=ctx.self_id)

    actor = loop.spawn(behavior, "its state")
    loop.send(actor, "x")
    poll_until(loop, lambda: begun)
    loop.kill_actor(actor)
    poll_until(loop, lambda: seen)
    assert facts == [ActorStatus.FAILED, False, "its state"]
    assert seen == ["from the ghost"]


@pytest.mark.guarantee("G22")
def test_an_interrupt_in_the_coroutine_of_a_killed_actor_is_not_lost(loop: Loop, stubborn: Stubborn) -> None:
    loop.kill_actor(begin(loop, stubborn))
    stubborn.error = KeyboardInterrupt()
    stubborn.release.set()

    def drive() -> None:
        for _ in range(100):
            loop.poll_once()

    with pytest.raises(KeyboardInterrupt):
        drive()


@pytest.mark.guarantee("G10")
def test_in_flight_counts_the_coroutine_until_it_has_really_ended(loop: Loop, stubborn: Stubborn) -> None:
    actors = [begin(loop, stubborn) for _ in range(3)]
    assert loop.statistics().in_flight == 3
    for actor in actors:
        loop.kill_actor(actor)
    books = loop.statistics()
    assert (books.in_flight, books.alive, books.ended_fail) == (3, 0, 3)
    stubborn.release.set()
    poll_until(loop, lambda: not loop.statistics().in_flight)
    assert stubborn.ended == 3


@pytest.mark.guarantee("G30")
def test_a_hanging_coroutine_does_not_block(make_loop: LoopMaker, caplog: pytest.LogCaptureFixture) -> None:
    loop = make_loop(stop_timeout=0.001)
    stubborn = Stubborn()
    actor = begin(loop, stubborn)
    loop.kill_actor(actor)
    loop.destroy()
    books = loop.statistics()
    assert (books.alive, books.ended_fail, books.ended_normal) == (0, 1, 0)
    assert stubborn.cancellations >= 1
    assert "had not ended" not in caplog.text, "its actor had ended long before"


# --- oneself ------------------------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G3")
def test_an_actor_kills_itself(
    loop: Loop, diary: RecordingObserver, boss: ActorId, notes: list[Seen]
) -> None:
    during: list[object] = []

    def act(ctx: Context[Any]) -> Verdict:
        ctx.loop.stop_actor(ctx.self_id)
        for _ in range(2):
            ctx.loop.kill_actor(ctx.self_id)
        during.append(ctx.loop.status(ctx.self_id))
        during.append(ctx.loop.try_send(ctx.self_id, "too late"))
        during.append(list(diary.stopped))
        return STOP

    actor = loop.spawn(run_message, supervisor=boss)
    loop.send(actor, act)
    loop.send(actor, "never handled")
    settle(loop)
    assert during == [ActorStatus.STOPPING, False, []]
    (note,) = exits(notes)
    assert note.reason is ExitReason.FAIL, "the kill came after the stop and before the verdict"
    assert isinstance(note.cause, ActorKilledError)
    assert [data for _, _, data, *_ in diary.dead] == ["never handled"]


@pytest.mark.guarantee("G32")
@pytest.mark.parametrize("moment", ["before the first suspension", "after it"])
@pytest.mark.parametrize("then", ["returns", "waits", "raises"])
def test_a_coroutine_kills_itself(
    loop: Loop, boss: ActorId, notes: list[Seen], moment: str, then: str
) -> None:
    log: list[object] = []

    async def behavior(ctx: Context[Any], data: object) -> None:
        if moment == "after it":
            await asyncio.sleep(0)
        ctx.loop.kill_actor(ctx.self_id)
        log.append(ctx.loop.status(ctx.self_id))
        if then == "waits":
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                log.append("cancelled")
                raise
        if then == "raises":
            raise asyncio.CancelledError

    actor = loop.spawn(behavior, supervisor=boss)
    loop.send(actor, "x")
    loop.run(until_idle=True)
    assert log == [ActorStatus.STOPPING, *(["cancelled"] if then == "waits" else [])]
    assert loop.status(actor) is ActorStatus.FAILED
    (note,) = exits(notes)
    if then != "raises":
        assert note.reason is ExitReason.FAIL
        assert isinstance(note.cause, ActorKilledError)
    assert loop.statistics().in_flight == 0
