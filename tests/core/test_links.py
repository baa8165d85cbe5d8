"""Links: actors that share an abnormal exit, and actors that trap exits."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from bandstand.core import ActorId, ActorStatus, Context, ExitReason, Lane, Loop, SystemTag
from bandstand.errors import ActorKilledError, LinkBrokenError, NoSuchActorError
from tests.core.child_groups import Stubborn, exit_messages, poll_until
from tests.core.support import (
    Boom,
    OnStop,
    RecordingObserver,
    Seen,
    downs,
    exits,
    failer,
    fill,
    idle,
    panicker,
    record,
    run_message,
    settle,
    stopper,
)

pytestmark = pytest.mark.guarantee("G43")

Ending = Callable[[Loop, ActorId], object]


def by_verdict(loop: Loop, actor: ActorId) -> None:
    loop.send(actor, "now")
    settle(loop)


ABNORMAL: dict[str, tuple[Any, Ending, ExitReason, type[BaseException] | None]] = {
    "fail_actor": (idle, lambda loop, actor: loop.fail_actor(actor, Boom("why")), ExitReason.FAIL, Boom),
    "fail_actor without a reason": (idle, lambda loop, actor: loop.fail_actor(actor), ExitReason.FAIL, None),
    "FAIL": (failer, by_verdict, ExitReason.FAIL, None),
    "an exception": (panicker, by_verdict, ExitReason.PANIC, Boom),
    "kill_actor": (idle, lambda loop, actor: loop.kill_actor(actor), ExitReason.FAIL, ActorKilledError),
}
NORMAL: dict[str, tuple[Any, Ending]] = {
    "stop_actor": (idle, lambda loop, actor: loop.stop_actor(actor)),
    "STOP": (stopper, by_verdict),
}


# --- sharing an end -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("side", ["one", "other"])
@pytest.mark.parametrize("how", ABNORMAL)
def test_an_abnormal_exit_is_shared(loop: Loop, how: str, side: str, seen: list[Seen]) -> None:
    behavior, end, reason, cause = ABNORMAL[how]
    boss = loop.spawn(record, seen)
    first, peer = loop.spawn(behavior), loop.spawn(idle, supervisor=boss, name="peer")
    loop.link(*((first, peer) if side == "one" else (peer, first)))
    end(loop, first)
    assert loop.status(peer) is ActorStatus.FAILED
    settle(loop)
    (note,) = exits(seen)
    assert (note.child, note.reason) == (peer, reason)
    assert isinstance(note.cause, LinkBrokenError)
    assert type(note.cause.__cause__) is (type(None) if cause is None else cause)
    for part in (repr(peer), "peer", repr(first), reason.name):
        assert part in str(note.cause)


def test_the_last_of_a_chain_has_the_first_cause(loop: Loop, seen: list[Seen]) -> None:
    boss = loop.spawn(record, seen)
    row = [loop.spawn(idle, supervisor=boss) for _ in range(5)]
    for one, other in pairwise(row):
        loop.link(one, other)
    error = Boom("the first cause")
    loop.fail_actor(row[0], error)
    settle(loop)
    assert [note.child for note in exits(seen)] == row
    last = exits(seen)[-1].cause
    assert isinstance(last, LinkBrokenError)
    assert last.__cause__ is error
    assert repr(row[-2]) in str(last)


# --- traps --------------------------------------------------------------------------------------------------------------


@pytest.mark.spec("J25")
@pytest.mark.guarantee("G11")
@pytest.mark.parametrize("how", ABNORMAL)
def test_an_actor_that_traps_is_told_once_on_the_system_lane(loop: Loop, how: str, seen: list[Seen]) -> None:
    behavior, end, reason, cause = ABNORMAL[how]
    first, peer = loop.spawn(behavior), loop.spawn(record, seen)
    loop.trap_exits(peer)
    loop.link(first, peer)
    end(loop, first)
    settle(loop)
    assert loop.status(peer) is ActorStatus.RUNNING
    (message,) = seen
    assert (message.tag, message.lane, message.sender) == (SystemTag.EXIT, Lane.SYSTEM, 0)
    (note,) = exit_messages(seen)
    assert (note.actor, note.reason) == (first, reason)
    assert type(note.cause) is (type(None) if cause is None else cause)


@pytest.mark.parametrize("how", NORMAL)
def test_an_actor_that_traps_hears_of_normal_ends_too(loop: Loop, how: str, seen: list[Seen]) -> None:
    behavior, end = NORMAL[how]
    first, peer = loop.spawn(behavior), loop.spawn(record, seen)
    loop.link(first, peer)
    loop.trap_exits(peer)
    end(loop, first)
    settle(loop)
    assert [(note.actor, note.reason, note.cause) for note in exit_messages(seen)] == [
        (first, ExitReason.NORMAL, None)
    ]


@pytest.mark.parametrize("turned", [False, True])
def test_unlink_takes_a_link_back_once_from_either_side(loop: Loop, turned: bool) -> None:
    one, other, ended = loop.spawn(idle), loop.spawn(idle), loop.spawn(idle)
    loop.link(one, ended)
    loop.stop_actor(ended)
    for pair in ((one, other), (one, one), (one, ended), (ended, one)):
        assert not loop.unlink(*pair), "there is no link"
    pair = (other, one) if turned else (one, other)
    for _ in range(2):
        loop.link(one, other)
        assert loop.unlink(*pair)
        assert not loop.unlink(*pair)
        assert not loop.unlink(*reversed(pair))
    loop.fail_actor(one)
    assert loop.status(other) is ActorStatus.RUNNING


# --- making and taking back ---------------------------------------------------------------------------------------------


# --- with the ended and the ending --------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ABNORMAL)
def test_linking_with_a_failed_actor_ends_the_other(loop: Loop, how: str, seen: list[Seen]) -> None:
    behavior, end, reason, _ = ABNORMAL[how]
    ended = loop.spawn(behavior)
    end(loop, ended)
    actor = loop.spawn(idle, supervisor=loop.spawn(record, seen))
    loop.link(actor, ended)
    assert loop.status(actor) is ActorStatus.FAILED
    settle(loop)
    (note,) = exits(seen)
    assert note.reason is reason
    assert isinstance(note.cause, LinkBrokenError)
    assert repr(ended) in str(note.cause)


@pytest.mark.parametrize(
    ("behavior", "reason"),
    [(stopper, ExitReason.NORMAL), (failer, ExitReason.FAIL), (panicker, ExitReason.PANIC)],
)
def test_an_actor_that_traps_hears_of_an_ended_one(loop: Loop, behavior: Any, reason: ExitReason) -> None:
    seen: list[Seen] = []
    trap, ended = loop.spawn(record, seen, mailbox_cap=5), loop.spawn(behavior)
    loop.send(ended, "x")
    settle(loop)
    fill(loop, trap)
    loop.trap_exits(trap)
    loop.link(trap, ended)
    settle(loop)
    assert [(note.actor, note.reason) for note in exit_messages(seen)] == [(ended, reason)]


def test_a_link_with_a_stopping_actor(loop: Loop) -> None:
    peer = loop.spawn(idle)
    during: list[object] = []

    def act(ctx: Context[Any]) -> None:
        ctx.loop.fail_actor(ctx.self_id, Boom("x"))
        ctx.loop.link(peer, ctx.self_id)
        during.append(ctx.loop.status(peer))
        with pytest.raises(NoSuchActorError):
            ctx.loop.link(ctx.self_id, peer)
        with pytest.raises(NoSuchActorError):
            ctx.loop.trap_exits(ctx.self_id)

    loop.send(loop.spawn(run_message), act)
    settle(loop)
    assert during == [ActorStatus.RUNNING]
    assert loop.status(peer) is ActorStatus.FAILED


def test_a_stopping_actor_keeps_its_reason(loop: Loop, diary: RecordingObserver) -> None:
    peer = loop.spawn(idle)

    def act(ctx: Context[Any]) -> None:
        ctx.loop.stop_actor(ctx.self_id)
        ctx.loop.fail_actor(peer)

    actor = loop.spawn(run_message)
    loop.link(actor, peer)
    loop.send(actor, act)
    settle(loop)
    assert diary.stopped == [(peer, ExitReason.FAIL), (actor, ExitReason.NORMAL)]


@pytest.mark.guarantee("G32")
def test_links_wait_for_a_coroutine(loop: Loop) -> None:
    stubborn = Stubborn()
    first, slow, last = loop.spawn(idle), loop.spawn(stubborn), loop.spawn(idle)
    loop.link(first, slow)
    loop.link(slow, last)
    loop.send(slow, "x")
    poll_until(loop, lambda: stubborn.begun)
    loop.fail_actor(first)
    loop.poll_once()
    assert loop.status(last) is ActorStatus.RUNNING
    stubborn.release.set()
    poll_until(loop, lambda: loop.status(last) is ActorStatus.FAILED)
    assert loop.status(slow) is ActorStatus.FAILED


# --- together with everything else --------------------------------------------------------------------------------------


@pytest.mark.guarantee("G21")
def test_supervisor_monitor_and_link_messages_have_an_order(loop: Loop, seen: list[Seen]) -> None:
    boss = loop.spawn(record, seen)
    child = loop.spawn(idle, supervisor=boss)
    loop.trap_exits(boss)
    loop.link(child, boss)
    loop.monitor(boss, child)
    loop.kill_actor(child)
    settle(loop)
    assert [type(message.data).__name__ for message in seen] == ["ChildExit", "Down", "Exit"]
    assert [message.tag for message in seen] == [SystemTag.CHILD_EXIT, SystemTag.DOWN, SystemTag.EXIT]
    assert (exits(seen)[0].cause, downs(seen)[0].cause) == (exit_messages(seen)[0].cause,) * 2


@pytest.mark.guarantee("G21")
def test_links_are_silent_at_the_end_of_the_loop(loop: Loop, diary: RecordingObserver) -> None:
    trap, one, two = loop.spawn(idle), loop.spawn(idle), loop.spawn(idle)
    loop.trap_exits(trap)
    for pair in ((trap, one), (one, two), (two, trap)):
        loop.link(*pair)
    loop.destroy()
    assert diary.stopped == [(actor, ExitReason.NORMAL) for actor in (two, one, trap)]
    assert loop.statistics().sent == 0


@pytest.mark.guarantee("G24")
def test_a_hook_may_change_links_during_an_exit(loop: Loop) -> None:
    row = [loop.spawn(idle) for _ in range(6)]
    late, bystander = loop.spawn(idle), loop.spawn(idle)
    for one, other in pairwise(row):
        loop.link(one, other)

    def meddle(actor: ActorId, reason: ExitReason) -> None:
        if actor is row[1]:
            loop.link(late, actor)
            loop.unlink(row[3], row[4])
            loop.link(row[4], bystander)
        if actor is row[2]:
            loop.stop_actor(row[3])

    loop.set_observer(OnStop(meddle))
    loop.fail_actor(row[0])
    loop.set_observer(None)
    failed, stopped, running = ActorStatus.FAILED, ActorStatus.STOPPED, ActorStatus.RUNNING
    assert [loop.status(actor) for actor in row] == [failed, failed, failed, stopped, running, running]
    assert (loop.status(late), loop.status(bystander)) == (failed, running)
    loop.fail_actor(bystander)
    assert loop.status(row[5]) is failed
