"""Waits that are no asks: for room in a mailbox, and for an actor's end. They end as replies do, and are awaited like them."""

# The hot modules are one mechanism in several files, across both rooms: they share kernels' insides by .pxd.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from bandstand.actor.enums import ANSWERED, CANCELLED, FAILED, PENDING
from bandstand.actor.hot.asks import Asks
from bandstand.actor.hot.reply import Reply
from bandstand.core.hot.desk import Desk
from bandstand.core.vocabulary import ExitReason
from bandstand.errors import TargetEnded

if TYPE_CHECKING:
    from bandstand.actor.hot.method import Method
    from bandstand.core.hot.ids import ActorId
    from bandstand.core.hot.wheel import Timer

Milliseconds: TypeAlias = int
ReasonNumber: TypeAlias = int
State: TypeAlias = int

REASONS = tuple(ExitReason)
NO_ROOM = "before there was room for"


class Landing(Reply):
    """What one awaits who waits for room in a mailbox: it ends when the message is in, or its actor has ended."""

    __slots__ = ("message",)

    def __init__(
        self,
        kernel: Desk,
        actor: ActorId,
        name: str | None,
        method: Method | None,
        ms: Milliseconds,
        asks: Asks,
    ) -> None:
        super().__init__(kernel, actor, name, method, ms, asks)
        # What waits in the cell in our name.
        self.message: Timer | None = None

    def settle(self, state: State, value: object) -> None:
        """It has ended; nothing of this is counted among the asks."""
        self.message = None
        if self.state == PENDING:
            self.state = state
            self.value = value
            self.wake()

    def landed(self) -> None:
        """The message is in."""
        self.settle(ANSWERED, None)

    def fail(self, error: BaseException) -> None:
        """The message is not in, and will not be."""
        self.settle(FAILED, error)

    def lost(
        self, actor: ActorId | None, name: str | None, reason: ReasonNumber, cause: BaseException | None
    ) -> None:
        """The target has ended before there was room."""
        if self.state == PENDING:
            self.lose(TargetEnded.of(self.target(), self.what(), REASONS[reason].name, cause, NO_ROOM))

    def lose(self, error: BaseException) -> None:
        """The same: nothing of this is counted among the asks."""
        self.settle(FAILED, error)

    def cancel(self) -> bool:
        """Wait no more, and send nothing any more; False if it had ended."""
        if self.state != PENDING:
            return False
        message = self.message
        if message is not None:
            self.kernel._stop_waiting(message)
        self.settle(CANCELLED, None)
        return True


class Ending(Landing):
    """What one awaits who waits for an actor's end: it gives the reason."""

    __slots__ = ()

    def what(self) -> str:
        """How to speak of what is waited for."""
        return "its end"

    def lost(
        self, actor: ActorId | None, name: str | None, reason: ReasonNumber, cause: BaseException | None
    ) -> None:
        """It has ended: that is the answer."""
        self.settle(ANSWERED, REASONS[reason])


def end_of(kernel: Desk, actor: ActorId, name: str | None, asks: Asks) -> Ending:
    """A wait for an actor's end; over already if the actor has ended."""
    ending = Ending(kernel, actor, name, None, -1, asks)
    ending.asked_at = kernel._elapsed()
    cell = actor.cell
    if cell is None:
        ending.settle(ANSWERED, REASONS[actor.reason])
    else:
        ending.message = kernel._await_end(cell, ending)
    return ending
