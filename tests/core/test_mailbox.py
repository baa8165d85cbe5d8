"""The room of a mailbox: caps, the reserve for system messages, reservations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from bandstand.core import ActorId, ActorStatus, Context, ExitReason, Lane, Loop, SystemTag
from bandstand.errors import InvalidArgumentError, MailboxOverrunError
from tests.core.support import (
    USER_LANES,
    LoopMaker,
    RecordingObserver,
    Seen,
    check_statistics,
    downs,
    exits,
    fill,
    idle,
    record,
    settle,
)


@pytest.mark.spec("J5")
@pytest.mark.guarantee("G7")
@pytest.mark.parametrize("cap", [None, 0, 10])
def test_the_default_cap_is_1024_and_users_get_1020_of_it(make_loop: LoopMaker, cap: int | None) -> None:
    loop = make_loop()
    assert (loop.config.default_mailbox_cap, loop.config.sys_reserved) == (1024, 4)
    assert fill(loop, loop.spawn(idle, mailbox_cap=cap)) == (6 if cap == 10 else 1020)


@pytest.mark.spec("J5")
@pytest.mark.guarantee("G7")
@pytest.mark.parametrize("cap", [1, 2, 3, 4, -1, -1024, 2.5, "7", True, (1 << 30) + 1, 1 << 70], ids=repr)
def test_a_cap_that_can_never_work_is_an_invalid_argument(loop: Loop, cap: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="mailbox_cap"):
        loop.spawn(idle, mailbox_cap=cap)
    assert loop.statistics().spawned == 0


@pytest.mark.spec("J6")
@pytest.mark.guarantee("G8")
def test_exits_and_downs_arrive_whatever_fills_the_mailbox(loop: Loop, seen: list[Seen]) -> None:
    boss = loop.spawn(record, seen, mailbox_cap=5)
    children = [loop.spawn(idle, supervisor=boss) for _ in range(40)]
    strangers = [loop.spawn(idle) for _ in range(40)]
    for stranger in strangers:
        loop.monitor(boss, stranger)
    for lane in USER_LANES:
        assert fill(loop, boss, lane) == 1
    for actor in children + strangers:
        loop.stop_actor(actor)
    settle(loop)
    assert [note.child for note in exits(seen)] == children
    assert [note.actor for note in downs(seen)] == strangers
    assert len(seen) == 83


@pytest.mark.spec("J25")
@pytest.mark.guarantee("G11")
@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        *(("tag", tag) for tag in (-1, -2, -5, 1 << 32, 1 << 70, 2.5, None, "tag", SystemTag.CHILD_EXIT)),
        *(("lane", lane) for lane in (Lane.SYSTEM, 0, 3, -1, None, "DATA", 2.5)),
    ],
    ids=repr,
)
def test_the_tags_and_the_lane_of_the_system_cannot_be_used(loop: Loop, field: str, wrong: Any) -> None:
    """Not even to send to an actor that has ended."""
    actor, ended = loop.spawn(idle), loop.spawn(idle)
    loop.stop_actor(ended)
    options: dict[str, Any] = {field: wrong}
    for refused in (
        lambda: loop.send(actor, "x", **options),
        lambda: loop.try_send(actor, "x", **options),
        lambda: loop.try_send(ended, "x", **options),
        lambda: loop.send_after(actor, 0.001, "x", **options),
        lambda: loop.send_async(actor, "x", **options),
    ):
        with pytest.raises(InvalidArgumentError, match=field):
            refused()
    assert (loop.statistics().sent, loop.statistics().timers_set) == (0, 0)


@pytest.mark.spec("J25")
@pytest.mark.guarantee("G11")
@pytest.mark.parametrize("tag", [0, 1, 255, (1 << 31), (1 << 32) - 1])
def test_a_message_carries_its_tag_and_its_sender(loop: Loop, tag: int, seen: list[Seen]) -> None:
    actor, sender = loop.spawn(record, seen), loop.spawn(idle)
    loop.send(actor, "plain")
    for lane in USER_LANES:
        loop.send(actor, "with all", tag=tag, lane=lane, sender=sender)
    loop.send_after(actor, 0, "later", tag=tag, sender=sender)
    settle(loop)
    assert seen == [
        Seen("with all", tag, sender, Lane.CONTROL),
        Seen("with all", tag, sender, Lane.MANAGEMENT),
        Seen("plain", 0, 0, Lane.DATA),
        Seen("with all", tag, sender, Lane.DATA),
        Seen("later", tag, sender, Lane.DATA),
    ]


# --- unreserved system messages: what a supervisor will say to itself ---------------------------------------------------


def speak(loop: Loop, actor: ActorId) -> bool:
    return loop.kernel.send_system(actor, "system", SystemTag.SHUTDOWN)


@pytest.mark.spec("J6", "J16")
@pytest.mark.guarantee("G8")
def test_a_mailbox_full_of_system_messages_is_fatal(loop: Loop, diary: RecordingObserver) -> None:
    seen: list[Seen] = []
    boss = loop.spawn(record, seen, mailbox_cap=5)
    fill(loop, boss)
    diary.full.clear()
    actor = loop.spawn(idle, mailbox_cap=10, supervisor=boss, name="overrun")
    assert fill(loop, actor) == 6
    diary.full.clear()
    for _ in range(4):
        assert speak(loop, actor)
    assert not speak(loop, actor)
    assert diary.full == [actor]
    assert loop.status(actor) is ActorStatus.FAILED
    assert diary.stopped == [(actor, ExitReason.FAIL)]
    assert len(diary.dead) == 10
    settle(loop)
    (note,) = exits(seen)
    assert (note.child, note.reason) == (actor, ExitReason.FAIL)
    assert isinstance(note.cause, MailboxOverrunError)
    for part in (repr(actor), "overrun", "10"):
        assert part in str(note.cause)
    assert loop.status(boss) is ActorStatus.RUNNING


@pytest.mark.spec("J6")
@pytest.mark.guarantee("G8")
def test_reserved_messages_take_nothing_from_the_unreserved(loop: Loop) -> None:
    boss = loop.spawn(idle, mailbox_cap=10)
    for child in [loop.spawn(idle, supervisor=boss) for _ in range(30)]:
        loop.stop_actor(child)
    for _ in range(10):
        assert speak(loop, boss)
    assert not speak(loop, boss)


@pytest.mark.spec("J5")
@pytest.mark.parametrize("count", [1, 3, 300, 900])
def test_a_tag_that_is_let_go_of_may_send_to_the_mailbox_it_was_in(loop: Loop, count: int) -> None:
    words: list[object] = []

    class Tag(int):
        def __del__(self) -> None:
            loop.send(actor, f"the last of {int(self)}")

    def hear(_ctx: Context[None], data: object) -> None:
        words.append(data)

    actor = loop.spawn(hear)
    for number in range(count):
        loop.send(actor, number, tag=Tag(7))
        if number % 400 == 399:
            settle(loop)
    settle(loop)
    for number in range(count, 2 * count):
        loop.send(actor, number)
        if number % 400 == 399:
            settle(loop)
    settle(loop)
    assert [word for word in words if type(word) is int] == list(range(2 * count))
    assert {word for word in words if type(word) is not int} <= {"the last of 7"}
    books = loop.statistics()
    # What the turn holds, and what lies in slots that nobody needed since, has not spoken yet.
    assert books.sent == books.handled == len(words) <= 3 * count


@pytest.mark.guarantee("G275")
@pytest.mark.parametrize("sender", [None, "x", object(), 1.5, idle], ids=repr)
def test_a_sender_is_an_id_or_an_int(loop: Loop, sender: Any) -> None:
    actor = loop.spawn(idle)
    loop.send(actor, "first")
    calls: list[Callable[[Lane], object]] = [
        lambda lane: loop.send(actor, "x", sender=sender, lane=lane),
        lambda lane: loop.try_send(actor, "x", sender=sender, lane=lane),
        lambda lane: loop.send_async(actor, "x", sender=sender, lane=lane),
        lambda lane: loop.send_after(actor, 0.001, "x", sender=sender, lane=lane),
    ]
    for call in calls:
        for lane in (Lane.DATA, Lane.CONTROL):
            with pytest.raises(InvalidArgumentError, match=r"sender is .*: pass the id of an actor"):
                call(lane)
    check_statistics(loop)
    assert loop.poll_once() == 1
