"""The stage: where messages meet the actor. It is the behavior of every typed actor; the state is the user's object.

What a message is, its tag says: a method of the class. Anything else is a signal of the system, or a message that somebody
sent past the handle, and goes the long way.
"""

from __future__ import annotations

from typing import Any

from bandstand.actor.answering import (
    acknowledging,
    answering,
    batching,
    finishing,
    handle_batch,
    refuse_result,
)
from bandstand.actor.hot.bundle import Bundle
from bandstand.actor.hot.method import Method
from bandstand.core.hot.kernel import is_coroutine
from bandstand.core.hot.turn import Turn
from bandstand.core.numbers import SYSTEM

ZERO = 0


class Parcel:
    """The data of a message with what travels along: the sender's context, or a tracer's."""

    __slots__ = ("carried", "data")

    def __init__(self, data: object, carried: Any) -> None:
        self.data = data
        # Has one method, `handle(method, work)`: call `work()` where it should be called.
        self.carried = carried


def perform(turn: Turn, data: object) -> object:
    """Have an actor handle one message. What it returns is for the kernel: None, or a coroutine to be performed."""
    tag = turn.tag
    if type(tag) is not Method:
        return turn.state.__actor_receive__(data, turn.lane_number == SYSTEM)  # type: ignore[attr-defined]  # an actor
    method = tag
    if type(data) is Parcel:
        parcel = data
        return parcel.carried.handle(turn, method, parcel.data)
    return handle(turn, method, data)


def handle(turn: Turn, method: Method, data: object) -> object:
    """Call one method, and answer if somebody waits for it."""
    if not method.is_ask:
        if method.is_async:
            if method.limit > 0:
                return gather(turn, method, data, None)
            return finishing(method, turn.state, data, turn.sender)
        result: object = method.call(turn.state, data)
        if result is None:
            if turn.sender is not ZERO:
                # Nobody waits for an answer, but somebody wants to know that it was handled.
                told: Any = turn.sender
                told.answer(None)
            return None
        # A job may be a coroutine of the actor's own.
        if is_coroutine(result):
            return result if turn.sender is ZERO else acknowledging(result, turn.sender)
        return refuse_result(method, result)
    asked: Any = turn.sender
    if asked.is_withdrawn():
        # Its asker has gone before we began: then we never do.
        return None
    # Whoever cancels it, or waits for us, means this incarnation.
    asked.actor = turn.self_id
    if method.is_async:
        if method.limit > 0:
            return gather(turn, method, data, None)
        return answering(method, asked, turn.state, data)
    if len(method.raises) == 0:
        # What it raises is a failure of the actor, which the exit path tells the asker.
        result = method.call(turn.state, data)
    else:
        try:
            result = method.call(turn.state, data)
        except method.raises as error:
            asked.fail(error)
            return None
    if is_coroutine(result):
        # A wrapper that does not tell what it wraps.
        return answering(method, asked, None, None, result)
    asked.answer(result)
    return None


def gather(turn: Turn, method: Method, data: object, carried: Any) -> object:
    """Have a method that takes a list handle a message, with those of its kind that wait right behind it in its lane.

    Never more than its limit, and only those that travel alike: `carried` is what came along with the first. An ask that was taken back
    is not in the list. Whoever waits for one of them is told by a bundle, which stands in the sender's place.
    """
    kernel: Any = turn.loop
    actor = turn.self_id
    cell: Any = actor.cell
    items: list[object] = []
    told: list[Any] = []
    is_told = False
    while True:
        if turn.sender is ZERO:
            items.append(data)
            if carried is None:
                # Most often all of them are alike.
                kernel._take_alike(cell, turn, items, method.limit, Parcel)
        else:
            asked: Any = turn.sender
            if not (method.is_ask and asked.is_withdrawn()):
                is_told = True
                # Nobody waits for those since the last that had somebody.
                told += [None] * (len(items) - len(told))
                items.append(data)
                told.append(asked)
        if len(items) >= method.limit:
            break
        ring = kernel._ahead(cell, turn)
        if ring is None:
            break
        data = ring.peek()
        if type(data) is Parcel:
            parcel = data
            if carried is None or not carried.fits(parcel.carried):
                break
            data = parcel.data
        elif carried is not None:
            break
        kernel._take_ahead(cell, turn, ring)
    turn.sender = Bundle(method, actor, told + [None] * (len(items) - len(told))) if is_told else 0
    if len(items) == 0:
        return None
    if method.awaits:
        return batching(method, turn.state, items, turn.sender)
    return handle_batch(method, turn.state, items, turn.sender)
