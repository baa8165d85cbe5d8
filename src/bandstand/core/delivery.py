"""Callbacks that report what became of one message or one actor, and the exception that stashes a message.

Most messages are sent and forgotten: if their actor exits first, they are dead letters, which are counted and published. Some have a caller
that waits: an ask, or a send that waits for room. The kernel does not know asks. It knows that the sender of a message may be a
`DeliveryCallback`, and calls it when the message cannot be delivered.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeAlias

from bandstand.core.enums import ExitReason

if TYPE_CHECKING:
    from bandstand.core.ids import ActorId

ReasonNumber: TypeAlias = int


class DeliveryCallback:
    """Learns what happens to one message. Subclasses override what they need; at most one of the methods is called.

    The methods run on the loop's thread, in the middle of the kernel's work. They must not raise.
    """

    __slots__ = ()

    def lost(
        self, actor: ActorId | None, name: str | None, reason: ReasonNumber, cause: BaseException | None
    ) -> None:
        """The actor exited before it handled the message."""

    def interrupted(
        self, actor: ActorId | None, name: str | None, reason: ReasonNumber, cause: BaseException | None
    ) -> None:
        """The actor exited while it was handling the message. Calls `lost` unless a subclass needs the difference."""
        self.lost(actor, name, reason, cause)

    def dropped(self, actor: ActorId | None, name: str | None) -> None:
        """The overflow policy of the mailbox dropped the message."""

    def accepted(self) -> None:
        """The message waited for room in the mailbox and is in it now."""

    def may_go_to_next(self) -> bool:
        """Return whether the next incarnation may handle the message, if its supervisor restarts the actor: a caller waits for the answer."""
        return False


class ExitCallback(DeliveryCallback):
    """Calls `callback(reason, cause)` when an actor exits. The callback runs during the exit and must not raise."""

    __slots__ = ("_callback",)

    def __init__(self, callback: Callable[[ExitReason, BaseException | None], object]) -> None:
        self._callback = callback

    def lost(
        self,
        actor: ActorId | None,  # noqa: ARG002  # as DeliveryCallback declares it
        name: str | None,  # noqa: ARG002  # likewise
        reason: ReasonNumber,
        cause: BaseException | None,
    ) -> None:
        """The actor exited."""
        self._callback(ExitReason(reason), cause)


class LoopExitCallback(DeliveryCallback):
    """Calls `callback()` if the loop ends before a scheduled call was due. The callback must not raise."""

    __slots__ = ("_callback",)

    def __init__(self, callback: Callable[[], object]) -> None:
        self._callback = callback

    def lost(
        self,
        actor: ActorId | None,  # noqa: ARG002  # as DeliveryCallback declares it
        name: str | None,  # noqa: ARG002  # likewise
        reason: ReasonNumber,  # noqa: ARG002  # likewise
        cause: BaseException | None,  # noqa: ARG002  # likewise
    ) -> None:
        """The loop ended."""
        self._callback()


class StashCounter(Protocol):
    """A stash, as far as the kernel needs to know it: the kernel holds the stashed messages and counts them here."""

    count: int


class StashMessage(BaseException):
    """Raised by a behavior to stash the current message and end the turn. The message is neither handled nor answered.

    An exception costs the messages that are not stashed nothing, and the kernel has the whole message where a behavior raises. It does not
    derive from `Exception`, so that an `except Exception` in a handler does not catch it.
    """

    def __init__(self, stash: StashCounter) -> None:
        super().__init__()
        self.stash = stash
