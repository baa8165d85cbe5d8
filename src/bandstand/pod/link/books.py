"""What became of the messages of a link."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ("LinkBooks",)


@dataclass(frozen=True, slots=True)
class LinkBooks:
    """A snapshot: of what was sent by this end, and of what has come to it.

    `sent == handled + dead + dropped + in_doubt + waiting`. A message that its sender was refused is in no books of a link: it
    was never sent.
    """

    sent: int = 0
    """Messages that this end has taken to the other process."""
    handled: int = 0
    """Those that were handled there to their end, or answered, or taken back by their askers."""
    dead: int = 0
    """Those whose actor had ended before, or that were not written any more when the link was lost."""
    dropped: int = 0
    """Those that the overflow policy of a mailbox over there has given up."""
    in_doubt: int = 0
    """Those that were written, and not acknowledged when the link was lost: handled or not, nobody knows. Never sent again."""
    waiting: int = 0
    """Those that are not acknowledged yet."""
    received: int = 0
    """Messages that have come from the other process."""
