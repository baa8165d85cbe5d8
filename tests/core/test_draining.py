"""A mailbox that is closed: accepted messages are handled, nothing is accepted afterwards, and the counters balance."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bandstand.core import ActorId, ActorStatus, Lane, Loop, Overflow
from bandstand.errors import (
    ActorNotLocalError,
    LoopClosedError,
    MailboxFullError,
    NoSuchActorError,
    WrongThreadError,
)
from bandstand.testing import VirtualClock
from tests.core.support import (
    LoopMaker,
    RecordingObserver,
    check_statistics,
    collect,
    idle,
    in_thread,
    settle,
)

pytestmark = pytest.mark.guarantee("G65")


def send_all(loop: Loop, actor: ActorId, count: int, lanes: tuple[Lane, ...] = (Lane.DATA,)) -> None:
    """Send numbers, by these lanes in turn, from another thread than the loop's."""
    for number in range(count):
        loop.send_async(actor, number, lane=lanes[number % len(lanes)])


@pytest.mark.parametrize("overflow", [Overflow.DROP_OLDEST, Overflow.DROP_NEWEST, Overflow.CONFLATE])
def test_messages_before_the_close_have_one_outcome(
    loop: Loop, diary: RecordingObserver, overflow: Overflow
) -> None:
    # Beyond the cap, messages from other threads wait in the inbox without a slot of their own.
    got: list[Any] = []
    actor = loop.spawn(collect, got, mailbox_cap=loop.config.sys_reserved + 2, overflow=overflow)
    in_thread(lambda: send_all(loop, actor, 7))
    loop.kernel.actors.close_mailbox(actor)
    settle(loop)
    assert loop.status(actor) is ActorStatus.STOPPED
    assert len(got) + len(diary.dead) + len(diary.dropped) == 7
    assert got[:2] == [0, 1]


def test_what_is_refused(loop: Loop, make_loop: LoopMaker) -> None:
    other = make_loop()
    foreign = other.spawn(idle)
    with pytest.raises(ActorNotLocalError):
        loop.kernel.actors.close_mailbox(foreign)
    actor = loop.spawn(idle)
    assert isinstance(in_thread(lambda: loop.kernel.actors.close_mailbox(actor)), WrongThreadError)
    other.destroy()
    with pytest.raises((LoopClosedError, NoSuchActorError)):
        other.kernel.actors.close_mailbox(foreign)


deeds = st.lists(
    st.sampled_from(["send", "control", "afar", "later", "tick", "advance", "close", "close"]), max_size=40
)


class Box:
    """An actor, and everything that was accepted for it."""

    def __init__(self, overflow: Overflow, cap: int) -> None:
        self.clock = VirtualClock()
        self.loop = Loop(clock=self.clock)
        self.diary = RecordingObserver()
        self.loop.set_observer(self.diary)
        self.got: list[int] = []
        self.accepted: list[int] = []
        slots = self.loop.config.sys_reserved + cap
        self.actor = self.loop.spawn(collect, self.got, mailbox_cap=slots, overflow=overflow)

    @property
    def is_running(self) -> bool:
        return self.loop.status(self.actor) is ActorStatus.RUNNING

    def send(self, number: int, lane: Lane = Lane.DATA) -> None:
        if self.loop.try_send(self.actor, number, lane=lane):
            self.accepted.append(number)

    def control(self, number: int) -> None:
        self.send(number, Lane.CONTROL)

    def afar(self, number: int) -> None:
        result = in_thread(lambda: self.loop.send_async(self.actor, number))
        if not isinstance(result, (NoSuchActorError, MailboxFullError)):
            self.accepted.append(number)

    def later(self, number: int) -> None:
        if self.is_running:
            self.loop.send_after(self.actor, (number % 5) / 1000, -1 - number)

    def tick(self, number: int) -> None:
        self.loop.poll_once()

    def advance(self, number: int) -> None:
        self.clock.advance(0.002)

    def close(self, number: int) -> None:
        if self.is_running:
            self.loop.kernel.actors.close_mailbox(self.actor)


@given(deeds=deeds, overflow=st.sampled_from(list(Overflow)), cap=st.integers(1, 5))
def test_accepted_messages_are_handled(deeds: list[str], overflow: Overflow, cap: int) -> None:
    box = Box(overflow, cap)
    with box.loop as loop:
        for number, deed in enumerate(deeds):
            getattr(box, deed)(number)
        settle(loop)
        assert box.is_running == ("close" not in deeds)
        got, accepted = box.got, set(box.accepted)
        if overflow is Overflow.REJECT:
            assert sorted(number for number in got if number >= 0) == sorted(accepted)
        given_up = [letter[2] for letter in (*box.diary.dropped, *box.diary.dead)]
        fates = [*got, *given_up]
        assert accepted <= set(fates)
        assert len(fates) == len(set(fates))
        check_statistics(loop)
