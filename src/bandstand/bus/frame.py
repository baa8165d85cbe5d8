"""The envelope: what every message looks like, on the wire and on its way through a node.

    {"kind": "command", "type": "Memory.Set", "data": {...}, "metadata": {"id": "...", "timestamp": 1767910000000}}

`data` stays as it came, as bytes, until it is known whose it is: then it is decoded once, into the type that its capability
has declared. So a frame can be kept, watched and handed on without anybody being able to change it.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias, get_args

from msgspec import Meta, Raw, Struct

__all__ = ("KINDS", "LONGEST_DELAY_MS", "LONGEST_TIMEOUT_MS", "Frame", "Kind", "Metadata", "TypeName")

Kind: TypeAlias = Literal["command", "query", "event", "reply", "error"]
"""What a message is: a wish, a question, a fact, or the answer to one of the first two."""

KINDS: tuple[Kind, ...] = get_args(Kind)

# What a wheel can reckon with is more; what a client may have waited for is not.
LONGEST_TIMEOUT_MS = 86_400_000

# A year and a day: a wheel can reckon with far more, but whoever asks for more has mistaken the unit.
LONGEST_DELAY_MS = 366 * 86_400_000

TypeName: TypeAlias = Annotated[str, Meta(min_length=1, max_length=200)]
Id: TypeAlias = Annotated[str, Meta(min_length=1, max_length=200)]


class Metadata(Struct, frozen=True, omit_defaults=True, gc=False):
    """Who a message is, when it was said, and what it follows from."""

    id: Id
    """Unique; an answer names it as its causation."""
    timestamp: int | float
    """Milliseconds since 1970, by the clock of whoever said it."""
    causation: Id | None = None
    """The id of the message that this one follows from."""
    correlation: Id | None = None
    """What groups the messages of one piece of work; every message that follows from this one carries it on."""
    timeout: Annotated[int, Meta(ge=1, le=LONGEST_TIMEOUT_MS)] | None = None
    """Milliseconds a command or query may take; None for what the node says."""


class Frame(Struct, frozen=True, gc=False, kw_only=True):
    """A message with its data still encoded."""

    kind: Kind
    type: TypeName
    data: Raw = Raw(b"{}")
    metadata: Metadata

    @property
    def is_request(self) -> bool:
        """Whether it is owed an answer."""
        return self.kind in {"command", "query"}
