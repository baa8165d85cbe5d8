"""The numbers that the hot modules of this room share. Never compiled, like those of the core."""

from typing import Final

# Where a request stands. It only ever goes forward. The first is for one whose id another has, or had.
REPEAT: Final[int] = -1
NEW: Final[int] = 0
ROUTED: Final[int] = 1
DONE: Final[int] = 2

# An id: the letters and digits that it is made of, how many bits of it are counted up, and the nanoseconds of a millisecond.
ALPHABET: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
TAIL_BITS: Final[int] = 20
MS: Final[int] = 1_000_000

# How many levels of arrays and objects a message may have, its envelope included.
DEEPEST: Final[int] = 128
# Bytes of a line from which on it is looked at more closely, and whether its data is worth keeping the line for.
LONG: Final[int] = 2048
# How many lines are cut at a time: enough that cutting costs nothing, few enough that what becomes of them stays in the
# processor's cache until they are answered (64 were up to a tenth faster than 512).
BATCH: Final[int] = 64
# Stands for a line that was too long: this very object, whatever others are equal to it.
OVERLONG: Final = b"\0 a line that was too long"

# How many requests a new client may have without an answer, before it has taken some; and how many bytes of answers may be
# owed to one, reckoned by the largest it had of late.
FIRST_WINDOW: Final[int] = 32
ANSWER_BYTES: Final[int] = 4 << 20

# How many requests to Syscall are let in although all credit is used up.
RESERVE: Final[int] = 64
