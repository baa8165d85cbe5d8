"""A receipt: what stands in the sender's place of a message whose sender wants to know what became of it.

Most messages are sent and forgotten: if their actor ends first they are dead letters, counted and published. Some have
somebody waiting for them, who must be callback at once: an ask, or a send that waits for room. The kernel knows no asks. It
knows that a message may have a receipt, and that whoever cannot deliver the message tells it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeAlias

from bandstand.core.enums import ExitReason

if TYPE_CHECKING:
    from bandstand.core.ids import ActorId

ReasonNumber: TypeAlias = int


class DeliveryCallback:
    """Somebody's interest in one message. The rooms above derive from it; each of these calls is the last."""

    __slots__ = ()

    def lost(
        self, actor: ActorId | None, name: str | None, reason: ReasonNumber, cause: BaseException | None
    ) -> None:
        """The actor has ended, for that reason, and has not handled the message, or not to its end."""

    def interrupted(
        self, actor: ActorId | None, name: str | None, reason: ReasonNumber, cause: BaseException | None
    ) -> None:
        """The same of the message at hand: it was begun. Whoever need not know that is told that it is lost."""
        self.lost(actor, name, reason, cause)

    def dropped(self, actor: ActorId | None, name: str | None) -> None:
        """The message was given up by the overflow policy of the actor's mailbox."""

    def accepted(self) -> None:
        """The message, which waited for room, has it."""


class ExitCallback(DeliveryCallback):
    """Calls a function, once, with the reason and the cause of an actor's end, inside its exit: it must not raise."""

    __slots__ = ("_callback",)

    def __init__(self, callback: Callable[[ExitReason, BaseException | None], object]) -> None:
        self._callback = callback

    def lost(
        self,
        actor: ActorId | None,
        name: str | None,
        reason: ReasonNumber,
        cause: BaseException | None,
    ) -> None:
        """The actor has ended."""
        self._callback(ExitReason(reason), cause)


class LoopExitCallback(DeliveryCallback):
    """Calls a function, once, if the loop has ended before a call of it was due: it must not raise."""

    __slots__ = ("_callback",)

    def __init__(self, callback: Callable[[], object]) -> None:
        self._callback = callback

    def lost(
        self,
        actor: ActorId | None,
        name: str | None,
        reason: ReasonNumber,
        cause: BaseException | None,
    ) -> None:
        """The loop has ended."""
        self._callback()


class StashCounter(Protocol):
    """Where messages are kept. The kernel counts them on it, and holds them itself."""

    count: int


class StashMessage(BaseException):
    """The message at hand is kept: it is neither handled nor answered."""

    def __init__(self, stash: StashCounter) -> None:
        super().__init__()
        self.stash = stash
