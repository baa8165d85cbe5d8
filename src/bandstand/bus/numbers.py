"""The numbers that the hot modules of this room share. Never compiled, like those of the core."""

from typing import Final

# Where a request stands. It only ever goes forward.
NEW: Final[int] = 0
ROUTED: Final[int] = 1
DONE: Final[int] = 2

# An id: the letters and digits that it is made of, how many bits of it are counted up, and the nanoseconds of a millisecond.
ALPHABET: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
TAIL_BITS: Final[int] = 20
MS: Final[int] = 1_000_000
