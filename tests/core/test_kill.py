"""Kill does not wait: an actor ends at once, whatever its coroutine does."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from bandstand.core import STOP, ActorId, ActorStatus, Context, ExitReason, Lane, Loop, Verdict
from bandstand.errors import (
    ActorKilledError,
    ActorNotLocalError,
    InvalidArgumentError,
    LinkBrokenError,
    LoopClosedError,
    NoSuchActorError,
)
from tests.core.child_groups import Stubborn, add_child, exit_messages, poll_until
from tests.core.support import (
    Boom,
    HostFactory,
    LoopMaker,
    RecordingObserver,
    Seen,
    call_in,
    collect,
    downs,
    exits,
    idle,
    record,
    run_message,
    settle,
)

pytestmark = pytest.mark.guarantee("G42")


@pytest.fixture
def stubborn(loop: Loop) -> Iterator[Stubborn]:
    """A coroutine that ignores every cancellation, until the end of the test."""
    stubborn = Stubborn()
    yield stubborn
    stubborn.release.set()


@pytest.fixture
def notes(loop: Loop) -> list[Seen]:
    return []


@pytest.fixture
def boss(loop: Loop, notes: list[Seen]) -> ActorId:
    return loop.spawn(record, notes)


def begin(loop: Loop, stubborn: Stubborn, boss: ActorId | None = None) -> ActorId:
    """An actor whose coroutine is in flight and will not end."""
    actor = loop.spawn(stubborn, supervisor=boss, name="stubborn")
    before = stubborn.begun
    loop.send(actor, "x")
    poll_until(loop, lambda: stubborn.begun > before)
    return actor


# --- at once ------------------------------------------------------------------------------------------------------------


def test_a_killed_actor_has_failed_at_once(loop: Loop, boss: ActorId, notes: list[Seen]) -> None:
    actor = loop.spawn(idle, supervisor=boss, name="victim")
    loop.kill_actor(actor)
    assert loop.status(actor) is ActorStatus.FAILED
    settle(loop)
    (note,) = exits(notes)
    assert (note.child, note.reason) == (actor, ExitReason.FAIL)
    assert isinstance(note.cause, ActorKilledError)
    for part in (repr(actor), "victim"):
        assert part in str(note.cause)


@pytest.mark.guarantee("G25")
def test_messages_of_a_killed_actor_are_dead_letters(loop: Loop, diary: RecordingObserver) -> None:
    actor = loop.spawn(idle)
    loop.send(actor, "data")
    loop.send(actor, "control", lane=Lane.CONTROL)
    timer = loop.send_after(actor, 0.005, "timer")
    loop.kill_actor(actor)
    assert [data for _, _, data, *_ in diary.dead] == ["control", "data"]
    assert not timer.pending


def test_a_kill_does_not_wait(loop: Loop, boss: ActorId, notes: list[Seen], stubborn: Stubborn) -> None:
    actor = begin(loop, stubborn, boss)
    loop.kill_actor(actor)
    assert loop.status(actor) is ActorStatus.FAILED
    assert not loop.try_send(actor, "x")
    poll_until(loop, lambda: stubborn.cancellations)
    settle(loop)
    assert stubborn.ended == 0
    (note,) = exits(notes)
    assert isinstance(note.cause, ActorKilledError)


@pytest.mark.guarantee("G32")
def test_a_coroutine_that_obeys_is_cancelled_once(loop: Loop) -> None:
    log: list[str] = []

    async def behavior(ctx: Context[Any], data: object) -> None:
        log.append("begun")
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            log.append("cancelled")
            raise

    actor = loop.spawn(behavior)
    loop.send(actor, "x")
    poll_until(loop, lambda: log)
    loop.kill_actor(actor)
    assert loop.status(actor) is ActorStatus.FAILED
    assert log == ["begun"], "the actor has ended, its coroutine has not heard of it yet"
    poll_until(loop, lambda: not loop.statistics().in_flight)
    assert log == ["begun", "cancelled"]


@pytest.mark.parametrize("by_number", [False, True])
def test_kill_after_stop(
    loop: Loop, boss: ActorId, notes: list[Seen], stubborn: Stubborn, by_number: bool
) -> None:
    actor = begin(loop, stubborn, boss)
    loop.stop_actor(actor)
    poll_until(loop, lambda: stubborn.cancellations)
    assert loop.status(actor) is ActorStatus.STOPPING
    with pytest.raises(NoSuchActorError):
        loop.stop_actor(actor)
    loop.kill_actor(int(actor) if by_number else actor)
    assert loop.status(actor) is ActorStatus.FAILED
    settle(loop)
    (note,) = exits(notes)
    assert note.reason is ExitReason.FAIL
    assert isinstance(note.cause, ActorKilledError)


def test_a_second_kill_is_refused(loop: Loop, boss: ActorId, notes: list[Seen], stubborn: Stubborn) -> None:
    for actor in (begin(loop, stubborn, boss), loop.spawn(idle, supervisor=boss)):
        loop.kill_actor(actor)
        for address in (actor, int(actor)):
            with pytest.raises(NoSuchActorError):
                loop.kill_actor(address)
    settle(loop)
    assert len(exits(notes)) == 2


@pytest.mark.guarantee("G23")
def test_a_kill_is_reported_once(
    loop: Loop, diary: RecordingObserver, boss: ActorId, notes: list[Seen], stubborn: Stubborn
) -> None:
    actor = begin(loop, stubborn, boss)
    loop.monitor(boss, actor)
    loop.trap_exits(boss)
    loop.link(boss, actor)
    loop.kill_actor(actor)
    stubborn.release.set()
    poll_until(loop, lambda: not loop.statistics().in_flight)
    settle(loop)
    assert [len(exits(notes)), len(downs(notes)), len(exit_messages(notes))] == [1, 1, 1]
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


@pytest.mark.guarantee("G27")
def test_run_until_idle_returns_when_the_coroutine_of_the_killed_has_ended(loop: Loop) -> None:
    begun: list[object] = []
    ended: list[str] = []

    async def behavior(ctx: Context[Any], data: object) -> None:
        begun.append(data)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            for _ in range(5):
                await asyncio.sleep(0)
            ended.append("at last")

    actor = loop.spawn(behavior)
    loop.send(actor, "x")
    call_in(loop, loop.spawn(run_message), lambda ctx: ctx.loop.kill_actor(actor))
    loop.run(until_idle=True)
    assert ended == ["at last"]
    assert loop.statistics().in_flight == 0


@pytest.mark.guarantee("G30")
def test_the_end_of_the_loop_waits_for_the_coroutines_of_the_killed_too(loop: Loop) -> None:
    begun: list[object] = []
    ended: list[str] = []

    async def behavior(ctx: Context[Any], data: object) -> None:
        begun.append(data)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            for _ in range(20):
                await asyncio.sleep(0)
            ended.append("at last")

    actor = loop.spawn(behavior)
    loop.send(actor, "x")
    poll_until(loop, lambda: begun)
    loop.kill_actor(actor)
    loop.destroy()
    assert ended == ["at last"]
    assert loop.statistics().ended_fail == 1


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


@pytest.mark.guarantee("G28")
def test_a_guest_leaves_nothing_of_the_killed_behind(make_loop: LoopMaker, loop_factory: HostFactory) -> None:
    loop = make_loop()

    async def behavior(ctx: Context[Any], data: object) -> None:
        await asyncio.Event().wait()

    async def main() -> int:
        async with loop:
            actor = loop.spawn(behavior)
            loop.send(actor, "x")
            while not loop.statistics().in_flight:  # noqa: ASYNC110 -- there is no event for it
                await asyncio.sleep(0)
            loop.kill_actor(actor)
            assert loop.status(actor) is ActorStatus.FAILED
        return len(asyncio.all_tasks())

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        assert runner.run(main()) == 1


# --- oneself ------------------------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G3")
def test_an_actor_kills_itself(
    loop: Loop, diary: RecordingObserver, boss: ActorId, notes: list[Seen]
) -> None:
    during: list[object] = []

    def act(ctx: Context[Any]) -> Verdict:
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
    assert note.reason is ExitReason.FAIL, "the wish came before the verdict"
    assert isinstance(note.cause, ActorKilledError)
    assert [data for _, _, data, *_ in diary.dead] == ["never handled"]


def test_an_actor_that_kills_itself_twice_ends_once(loop: Loop, boss: ActorId, notes: list[Seen]) -> None:
    def act(ctx: Context[Any]) -> None:
        ctx.loop.stop_actor(ctx.self_id)
        ctx.loop.kill_actor(ctx.self_id)
        ctx.loop.kill_actor(ctx.self_id)

    loop.send(loop.spawn(run_message, supervisor=boss), act)
    settle(loop)
    (note,) = exits(notes)
    assert note.reason is ExitReason.FAIL
    assert isinstance(note.cause, ActorKilledError)


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


@pytest.mark.guarantee("G32")
def test_a_coroutine_that_killed_its_actor_passes_no_cancellation_on(loop: Loop, seen: list[Any]) -> None:
    """The task that drove it may drive another's message next."""

    async def suicide(ctx: Context[Any], data: object) -> None:
        await asyncio.sleep(0)
        ctx.loop.kill_actor(ctx.self_id)

    async def worker(ctx: Context[Any], data: object) -> None:
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        seen.append(data)

    for number in range(20):
        loop.send(loop.spawn(suicide), "x")
        loop.send(loop.spawn(worker), number)
    loop.run(until_idle=True)
    assert sorted(seen) == list(range(20))


@pytest.mark.guarantee("G44")
def test_an_init_that_kills_its_own_actor(loop: Loop, boss: ActorId, notes: list[Seen]) -> None:
    during: list[ActorStatus] = []

    def init(ctx: Context[Any]) -> str:
        ctx.loop.kill_actor(ctx.self_id)
        during.append(ctx.loop.status(ctx.self_id))
        return "state"

    actor = add_child(loop, idle, init, supervisor=boss)
    assert during == [ActorStatus.STOPPING]
    assert loop.status(actor) is ActorStatus.FAILED
    settle(loop)
    (note,) = exits(notes)
    assert isinstance(note.cause, ActorKilledError)


@pytest.mark.guarantee("G44")
@pytest.mark.parametrize("has_begun", [False, True])
def test_kill_in_init(
    loop: Loop, boss: ActorId, notes: list[Seen], stubborn: Stubborn, has_begun: bool
) -> None:
    actor = add_child(loop, idle, stubborn, supervisor=boss)
    if has_begun:
        poll_until(loop, lambda: stubborn.begun)
    loop.kill_actor(actor)
    assert loop.status(actor) is ActorStatus.FAILED
    stubborn.release.set()
    poll_until(loop, lambda: not loop.statistics().in_flight)
    settle(loop)
    assert loop.status(actor) is ActorStatus.FAILED
    assert [type(message.data).__name__ for message in notes] == ["ChildExit"]


@pytest.mark.guarantee("G43")
def test_a_kill_is_shared_by_links(loop: Loop, boss: ActorId, notes: list[Seen], stubborn: Stubborn) -> None:
    actor, peer = begin(loop, stubborn), loop.spawn(idle, supervisor=boss)
    loop.link(actor, peer)
    loop.kill_actor(actor)
    assert loop.status(peer) is ActorStatus.FAILED
    settle(loop)
    (note,) = exits(notes)
    assert isinstance(note.cause, LinkBrokenError)
    assert isinstance(note.cause.__cause__, ActorKilledError)


# --- from inside others, and refusals -----------------------------------------------------------------------------------


def test_one_actor_kills_another_inside_its_own_turn(loop: Loop, stubborn: Stubborn) -> None:
    during: list[ActorStatus] = []
    victims = [begin(loop, stubborn), loop.spawn(idle)]
    loop.send(victims[1], "waiting in the queue")

    def act(ctx: Context[Any]) -> None:
        for victim in victims:
            ctx.loop.kill_actor(victim)
            during.append(ctx.loop.status(victim))

    call_in(loop, loop.spawn(run_message), act)
    settle(loop)
    assert during == [ActorStatus.FAILED] * 2


@pytest.mark.guarantee("G24")
def test_a_hook_may_kill_whoever_has_just_started(loop: Loop) -> None:
    class Hasty:
        def on_actor_start(self, id: ActorId, name: str | None) -> None:  # noqa: A002 -- the hook's own name
            loop.kill_actor(id)

    loop.set_observer(Hasty())
    actor = loop.spawn(idle)
    loop.set_observer(None)
    assert loop.status(actor) is ActorStatus.FAILED


@pytest.mark.spec("J12")
@pytest.mark.guarantee("G2", "G26")
def test_who_cannot_be_killed_is_refused_by_name(make_loop: LoopMaker) -> None:
    loop, other = make_loop(), make_loop()
    actor, theirs = loop.spawn(idle), other.spawn(idle)
    bad: Any = "actor"
    for address in (theirs, int(theirs)):
        with pytest.raises(ActorNotLocalError):
            loop.kill_actor(address)
    for nobody in (0, int(actor) + 7):
        with pytest.raises(NoSuchActorError):
            loop.kill_actor(nobody)
    with pytest.raises(InvalidArgumentError):
        loop.kill_actor(bad)
    loop.request_stop()
    with pytest.raises(LoopClosedError):
        loop.kill_actor(actor)
    assert other.status(theirs) is ActorStatus.RUNNING
