"""A receipt: what stands in the sender's place of a message whose sender wants to know what became of it.

Most messages are sent and forgotten: if their actor ends first they are dead letters, counted and published. Some have
somebody waiting for them, who must be told at once: an ask, or a send that waits for room. The kernel knows no asks. It
knows that a message may have a receipt, and that whoever cannot deliver the message tells it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from bandstand.core.hot.ids import ActorId

ReasonNumber: TypeAlias = int


class Receipt:
    """Somebody's interest in one message. The rooms above derive from it; each of these calls is the last."""

    __slots__ = ()

    def lost(
        self, actor: ActorId | None, name: str | None, reason: ReasonNumber, cause: BaseException | None
    ) -> None:
        """The actor has ended, for that reason, and has not handled the message, or not to its end."""

    def cut_off(
        self, actor: ActorId | None, name: str | None, reason: ReasonNumber, cause: BaseException | None
    ) -> None:
        """The same of the message at hand: it was begun. Whoever need not know that is told that it is lost."""
        self.lost(actor, name, reason, cause)

    def dropped(self, actor: ActorId | None, name: str | None) -> None:
        """The message was given up by the overflow policy of the actor's mailbox."""

    def landed(self) -> None:
        """The message, which waited for room, has it."""
