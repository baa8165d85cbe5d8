"""What became of messages: the books of a pod, or of a troupe."""

from __future__ import annotations

from dataclasses import astuple, dataclass
from typing import Self

__all__ = ("PodBooks",)


@dataclass(frozen=True, slots=True)
class PodBooks:
    """How many messages there were, and what became of them.

    `sent == handled + refused + dead + dropped + in_doubt + waiting`. A message that goes from one process to another is in the
    books of both: where it was sent, and where it was handled.
    """

    sent: int = 0
    handled: int = 0
    """Those that were handled to their end."""
    refused: int = 0
    """Those whose senders were told at once that they are not taken."""
    dead: int = 0
    """Those whose actor has ended first."""
    dropped: int = 0
    """Those that were given up by the overflow policy of a full mailbox."""
    in_doubt: int = 0
    """Those that were on their way to a process that has died, or in its hands: they were handled, or not."""
    waiting: int = 0
    """Those that have their fate before them."""

    def __add__(self, other: Self) -> Self:
        return type(self)(
            *(mine + theirs for mine, theirs in zip(astuple(self), astuple(other), strict=True))
        )

    @property
    def is_balanced(self) -> bool:
        """Whether every message has exactly one fate."""
        fates = (self.handled, self.refused, self.dead, self.dropped, self.in_doubt, self.waiting)
        return self.sent == sum(fates)
