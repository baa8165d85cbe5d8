"""Dead letters: what the bus could not deliver or answer, kept so that somebody can look at it, and have it tried again.

A request that nobody has handled, or whose handler has failed; an event that a subscriber could not take; an answer whose client had gone. What a
handler has answered, and what was no message, is none: that was answered. The store is bounded by number and by bytes: the oldest falls out, and
is counted.

A letter has the id of its message. Where another letter has that already, with other content or for another capability, a number is added: `x~2`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import msgspec

from bandstand.bus.faults import (
    ACTOR_CRASH,
    ACTOR_FAULT,
    OVERLOADED,
    ROUTING_ERROR,
    SHUTTING_DOWN,
    TIMEOUT,
    UNHEALTHY,
    Fault,
)

if TYPE_CHECKING:
    from bandstand.bus.frame import Frame

__all__ = ("REASONS", "Letter", "Letters", "Reason")

Reason: TypeAlias = Literal[
    "unrouted",
    "overloaded",
    "unhealthy",
    "crashed",
    "fault",
    "timeout",
    "shuttingDown",
    "undelivered",
    "abandoned",
]
"""Why a message is a dead letter."""

REASONS: Final[dict[str, Reason]] = {
    ACTOR_CRASH: "crashed",
    ACTOR_FAULT: "fault",
    OVERLOADED: "overloaded",
    ROUTING_ERROR: "unrouted",
    SHUTTING_DOWN: "shuttingDown",
    TIMEOUT: "timeout",
    UNHEALTHY: "unhealthy",
}
"""The faults that make dead letters of what they answer."""


class Letter:
    """One message that did not get where it should."""

    __slots__ = (
        "_said",
        "answer",
        "at_ms",
        "attempts",
        "capability",
        "frame",
        "id",
        "is_replayed",
        "reason",
    )

    def __init__(
        self,
        frame: Frame,
        reason: Reason,
        at_ms: int,
        *,
        answer: Frame | None,
        said: str,
        capability: str | None,
        attempts: int,
    ) -> None:
        self.id = frame.metadata.id
        self.frame = frame
        self.reason: Reason = reason
        self.at_ms = at_ms
        self.answer = answer
        """What was answered; None for what nobody waits for."""
        self.capability = capability
        self.attempts = attempts
        self.is_replayed = False
        """Whether it is being sent again just now."""
        self._said = said

    @property
    def said(self) -> str:
        """What went wrong, in a sentence."""
        if self._said or self.answer is None:
            return self._said
        # Read only when somebody looks: most letters nobody does.
        return msgspec.json.decode(self.answer.data, type=Fault).message

    @property
    def size(self) -> int:
        """How many bytes of data it keeps."""
        return len(self.frame.data) + (0 if self.answer is None else len(self.answer.data))

    def is_like(self, other: Letter) -> bool:
        """Whether it is about the same message, for the same capability."""
        mine, its = self.frame, other.frame
        return (
            (mine.kind, mine.type, self.capability) == (its.kind, its.type, other.capability)
            and mine.metadata.id == its.metadata.id
            and bytes(mine.data) == bytes(its.data)
        )


class Letters:
    """The dead letters of one node.

    Args:
        most: how many are kept.
        most_bytes: how many bytes of data they may have together.
    """

    __slots__ = ("_letters", "_most", "_most_bytes", "fallen", "held_bytes", "made", "removed")

    def __init__(self, most: int, most_bytes: int) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._letters: OrderedDict[str, Letter] = OrderedDict()
        self.held_bytes = 0
        self.made = 0
        """How many there have been."""
        self.fallen = 0
        """Those that have fallen out, because there was no more room."""
        self.removed = 0
        """Those that were sent again with success, purged, or claimed by a repeat."""

    def __len__(self) -> int:
        return len(self._letters)

    def __iter__(self) -> Iterator[Letter]:
        """The newest first."""
        return reversed(self._letters.values())

    def find(self, name: str) -> Letter | None:
        """A letter by its id."""
        return self._letters.get(name)

    def add(
        self,
        frame: Frame,
        reason: Reason,
        at_ms: int,
        *,
        answer: Frame | None = None,
        said: str = "",
        capability: str | None = None,
        attempts: int = 1,
    ) -> None:
        """Keep a letter, and let the oldest fall out as far as it needs their room."""
        letter = Letter(
            frame, reason, at_ms, answer=answer, said=said, capability=capability, attempts=attempts
        )
        self.made += 1
        number = 1
        while (other := self._letters.get(letter.id)) is not None:
            if other.is_like(letter):
                # The same message has failed again: one letter, which tells of both.
                letter.attempts += other.attempts
                self.remove(other)
                break
            number += 1
            letter.id = f"{frame.metadata.id}~{number}"
        if letter.size > self._most_bytes or not self._most:
            self.fallen += 1
            return
        self._letters[letter.id] = letter
        self.held_bytes += letter.size
        while len(self._letters) > self._most or self.held_bytes > self._most_bytes:
            _, oldest = self._letters.popitem(last=False)
            self.held_bytes -= oldest.size
            self.fallen += 1

    def remove(self, letter: Letter) -> bool:
        """Take a letter away; False if it has gone already."""
        if self._letters.get(letter.id) is not letter:
            return False
        del self._letters[letter.id]
        self.held_bytes -= letter.size
        self.removed += 1
        return True

    def claim(self, name: str) -> None:
        """Somebody has got the answer to a request after all: it is abandoned no more."""
        letter = self._letters.get(name)
        if letter is not None and letter.reason == "abandoned":
            self.remove(letter)
