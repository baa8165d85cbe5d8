"""The numbers that the hot modules of this room share. Never compiled, like those of the core."""

from typing import Final

# How the arguments of a message are packed: none; the only one by itself; a tuple of all; a tuple and a dict.
NOTHING: Final[int] = 0
ONE: Final[int] = 1
SEVERAL: Final[int] = 2
NAMED: Final[int] = 3

# Where a reply stands. From CANCELLED on, an answer comes too late.
PENDING: Final[int] = 0
ANSWERED: Final[int] = 1
FAILED: Final[int] = 2
CANCELLED: Final[int] = 3
EXPIRED: Final[int] = 4
LOST: Final[int] = 5

# What a place says of a message while nobody is there: refused, kept for whoever comes, or somebody has come: try again.
REFUSED: Final[int] = 0
HELD: Final[int] = 1
RETRY: Final[int] = 2
