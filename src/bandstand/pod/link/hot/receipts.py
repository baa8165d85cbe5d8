"""The receipts of messages that have come in: what they are told goes back over the link.

One-way messages of one method share a receipt, which counts: an actor handles those of a lane in their order, so a number says which. Only where
some are given up out of their order (by an overflow policy, or because they cannot be rebuilt) the sums are right, and which of them it was is a guess.
An ask has a receipt of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from bandstand.actor.reply import ReplyCallback, cancel_handler
from bandstand.core.ids import ActorId
from bandstand.pod.link.faults import to_fault
from bandstand.pod.link.hot.doors import NOBODY
from bandstand.pod.link.numbers import DROPPED, FAILED, LOST

if TYPE_CHECKING:
    from bandstand.actor.dispatch import Method
    from bandstand.pod.link.hot.inbound import Inbound

Count: TypeAlias = int
LaneNumber: TypeAlias = int
Number: TypeAlias = int


class Tally(ReplyCallback):
    """The receipt of the one-way messages of one method: how many have ended, and how, since that was last said."""

    __slots__ = ("_inbound", "code", "dead", "dropped_count", "handled", "is_due")

    def __init__(self, code: Number, inbound: Inbound) -> None:
        super().__init__(NOBODY)
        self.code: Number = code
        self._inbound = inbound
        self.handled: Count = 0
        self.dead: Count = 0
        self.dropped_count: Count = 0
        self.is_due = False

    def answer(self, value: object) -> None:  # there is none
        """One was handled to its end."""
        self.handled += 1
        if not self.is_due:
            self._inbound.note(self)

    def lost(
        self,
        actor: ActorId | None,  # which one it was does not matter
        name: str | None,
        reason: Number,
        cause: BaseException | None,
    ) -> None:
        """One had its actor end first."""
        self.dead += 1
        if not self.is_due:
            self._inbound.note(self)

    def dropped(self, actor: ActorId | None, name: str | None) -> None:
        """One was given up by the overflow policy."""
        self.dropped_count += 1
        if not self.is_due:
            self._inbound.note(self)


class Question(ReplyCallback):
    """The receipt of an ask from the other side."""

    __slots__ = ("_inbound", "_is_over", "_lane", "_number", "method")

    def __init__(
        self, actor: ActorId, number: Number, lane: LaneNumber, inbound: Inbound, method: Method | None
    ) -> None:
        super().__init__(actor)
        self.method = method
        self._number: Number = number
        self._lane: LaneNumber = lane
        self._inbound = inbound
        # It has ended, or was taken back.
        self._is_over = False

    def answer(self, value: object) -> None:
        """The handler has answered."""
        if not self._is_over:
            self._is_over = True
            self._inbound.answer(self._number, self._lane, value)

    def fail(self, error: BaseException) -> None:
        """The handler answers with an error."""
        self._end(FAILED, to_fault(error))

    def lost(
        self,
        actor: ActorId | None,  # the other side has a name of its own for it
        name: str | None,
        reason: Number,
        cause: BaseException | None,
    ) -> None:
        """The actor has ended first."""
        self._end(LOST, (reason, None if cause is None else to_fault(cause)))

    def dropped(self, actor: ActorId | None, name: str | None) -> None:
        """It was given up by the overflow policy."""
        self._end(DROPPED, None)

    def _end(self, kind: int, value: object) -> None:
        if not self._is_over:
            self._is_over = True
            self._inbound.end(self._number, self._lane, kind, value)

    def is_cancelled(self) -> bool:
        """Whether the asker has taken it back, or is gone."""
        return self._is_over

    def withdraw(self) -> None:
        """It is taken back: its handler never begins, or is cancelled."""
        self._is_over = True
        cancel_handler(self.actor, self)
