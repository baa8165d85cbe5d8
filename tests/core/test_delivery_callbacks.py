"""Delivery callbacks: they run once, with what became of a message."""

# Putting a receipt in the sender's place is not public.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from bandstand.core import ActorId, Context, ExitReason, Lane, Loop, Overflow, Verdict
from bandstand.core.delivery import DeliveryCallback
from bandstand.errors import ActorKilledError
from tests.core.support import (
    USER_LANES,
    LoopMaker,
    RecordingObserver,
    collect,
    failer,
    idle,
    in_thread,
    settle,
    stopper,
)

pytestmark = pytest.mark.guarantee("G60")

REASONS = tuple(ExitReason)


class Slip(DeliveryCallback):
    """A receipt that writes down what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[Any, ...]] = []

    def lost(self, actor: ActorId | None, name: str | None, reason: int, cause: BaseException | None) -> None:
        self.told.append(("lost", actor, name, REASONS[reason], cause))

    def dropped(self, actor: ActorId | None, name: str | None) -> None:
        self.told.append(("dropped", actor, name))

    def accepted(self) -> None:
        self.told.append(("landed",))


def send(loop: Loop, actor: ActorId, data: object = "x", lane: Lane = Lane.DATA) -> Slip:
    slip = Slip()
    # A receipt stands in the sender's place; only the rooms above put one there.
    loop.kernel.send_with_callback(actor, lane.value, data, 0, slip)
    return slip


def send_afar(loop: Loop, actor: ActorId, count: int) -> list[Slip]:
    slips = [Slip() for _ in range(count)]

    def work() -> None:
        for place, slip in enumerate(slips):
            loop.kernel.inbox.post(actor, Lane.DATA.value, place, 0, slip)

    assert in_thread(work) is None
    return slips


@pytest.mark.parametrize("lane", USER_LANES)
def test_a_waiting_message_is_lost(loop: Loop, diary: RecordingObserver, lane: Lane) -> None:
    actor = loop.spawn(idle, name="gone")
    slips = [send(loop, actor, lane=lane) for _ in range(3)]
    loop.stop_actor(actor)
    for slip in slips:
        assert slip.told == [("lost", actor, "gone", ExitReason.NORMAL, None)]
    # The observer sees the dead letters, but not who waits for them.
    assert [letter[4] for letter in diary.dead] == [0, 0, 0]


@pytest.mark.parametrize("behavior", [stopper, failer])
def test_a_message_that_stops_is_handled(
    loop: Loop, behavior: Callable[[Context[Any], object], Verdict]
) -> None:
    actor, other = loop.spawn(behavior), loop.spawn(idle)
    at_hand, behind, handled = send(loop, actor), send(loop, actor), send(loop, other)
    settle(loop)
    loop.stop_actor(other)
    assert at_hand.told == handled.told == []
    assert [told[0] for told in behind.told] == ["lost"]


def test_a_kill_tells_those_who_wait_for_the_message_at_hand(loop: Loop) -> None:
    async def stuck(ctx: Context[None], data: object) -> None:
        await asyncio.Event().wait()

    actor = loop.spawn(stuck)
    at_hand, behind = send(loop, actor), send(loop, actor)
    loop.poll_once()
    loop.poll_once()
    loop.kill_actor(actor)
    for slip in (at_hand, behind):
        assert len(slip.told) == 1
        assert slip.told[0][3] is ExitReason.FAIL
        assert isinstance(slip.told[0][4], ActorKilledError)


def test_the_end_of_a_loop_tells_everybody(make_loop: LoopMaker) -> None:
    loop = make_loop()
    actors = [loop.spawn(idle) for _ in range(3)]
    slips = [send(loop, actor) for actor in actors for _ in range(2)]
    slips += send_afar(loop, actors[0], 2)
    loop.destroy()
    assert [len(slip.told) for slip in slips] == [1] * 8
    assert {slip.told[0][0] for slip in slips} == {"lost"}


@pytest.mark.parametrize(
    ("overflow", "given_up"),
    [(Overflow.DROP_OLDEST, [0, 1]), (Overflow.DROP_NEWEST, [2, 3]), (Overflow.CONFLATE, [1, 2])],
)
def test_a_dropped_message(
    loop: Loop, diary: RecordingObserver, overflow: Overflow, given_up: list[int]
) -> None:
    got: list[Any] = []
    actor = loop.spawn(collect, got, name="full", mailbox_cap=loop.config.sys_reserved + 2, overflow=overflow)
    slips = [send(loop, actor, number) for number in range(4)]
    assert [number for number, slip in enumerate(slips) if slip.told] == given_up
    for number in given_up:
        assert slips[number].told == [("dropped", actor, "full")]
    assert [letter[4] for letter in diary.dropped] == [0, 0]
    settle(loop)
    assert got == [number for number in range(4) if number not in given_up]


@pytest.mark.parametrize("overflow", [Overflow.DROP_OLDEST, Overflow.DROP_NEWEST, Overflow.CONFLATE])
def test_callbacks_run_once_for_threads(loop: Loop, diary: RecordingObserver, overflow: Overflow) -> None:
    # Many times the cap, so that the inbox itself is thinned out on the sender's thread.
    got: list[Any] = []
    cap = loop.config.sys_reserved + 4
    actor = loop.spawn(collect, got, mailbox_cap=cap, overflow=overflow)
    slips = send_afar(loop, actor, 200)
    settle(loop)
    for place, slip in enumerate(slips):
        assert [told[0] for told in slip.told] == ([] if place in got else ["dropped"])
    assert got == sorted(got)
    assert 0 < len(got) < 200


def test_the_base_takes_every_call(loop: Loop) -> None:
    actor = loop.spawn(idle)
    receipt = DeliveryCallback()
    receipt.lost(actor, None, 0, None)
    receipt.dropped(actor, None)
    receipt.accepted()
