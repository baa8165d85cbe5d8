"""Credit: how much of something may be under way at once.

Every message that may wait for the router is paid for from one of a few purses, and the router's mailbox has room for all of them
together. So it is never full, whoever sends however much; and nobody's purse can be emptied by somebody else.
"""

from __future__ import annotations

from typing import TypeAlias

Count: TypeAlias = int
Flag: TypeAlias = bool


class Purse:
    """So many may be under way: `used` of `limit` are. `remembers` if the answers to what it pays for are remembered by their ids."""

    __slots__ = ("limit", "remembers", "used")

    def __init__(self, limit: Count, remembers: Flag = False) -> None:  # compiled, it is hot
        self.limit = limit
        self.remembers = remembers
        self.used: Count = 0

    def __repr__(self) -> str:
        return f"<Purse {self.used} of {self.limit}>"
