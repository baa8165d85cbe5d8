"""The numbers behind the words, for code that is compiled.

The hot modules compare C integers, not enumeration members. Each number has its one home here; a hot module imports
those it needs, and its `.pxd` says of which C type they are. This module is never compiled.
"""

from typing import Final

from bandstand.core.vocabulary import ActorStatus, ExitReason, Lane, SystemTag

SYSTEM: Final[int] = Lane.SYSTEM.value
CONTROL: Final[int] = Lane.CONTROL.value
MANAGEMENT: Final[int] = Lane.MANAGEMENT.value
DATA: Final[int] = Lane.DATA.value

INIT: Final[int] = ActorStatus.INIT.value
RUNNING: Final[int] = ActorStatus.RUNNING.value
STOPPING: Final[int] = ActorStatus.STOPPING.value
STOPPED: Final[int] = ActorStatus.STOPPED.value
FAILED: Final[int] = ActorStatus.FAILED.value

NORMAL: Final[int] = ExitReason.NORMAL.value
FAIL_REASON: Final[int] = ExitReason.FAIL.value
PANIC: Final[int] = ExitReason.PANIC.value

# Tags from CHILD_EXIT down to ELEMENT travel in slots of their own, outside the cap; those below take any free slot.
LAST_RESERVED: Final[int] = SystemTag.ELEMENT.value

# What became of a send.
ACCEPTED: Final[int] = 0
FULL: Final[int] = 1
AWAY: Final[int] = 2
AFAR: Final[int] = 3

# Where a timer is, if not in a slot of the wheel.
GONE: Final[int] = -1
DUE: Final[int] = -2
OVERDUE: Final[int] = -3

# How quick an actor is, as far as the clock was read for it.
UNTIMED: Final[int] = 0
QUICK: Final[int] = 1
SLOW: Final[int] = 2

# How many ticks may be run by those who wait for an answer, before the host has its turn.
MOST_INLINE: Final[int] = 256

# Wheel time: milliseconds. The wheel has seven levels of six bits, 139 years. NEVER is beyond all of them, and still
# fits 64 bits when it is turned into nanoseconds; one bit more and compiled code would see it as long past.
MILLISECOND: Final[int] = 1_000_000
LEVELS: Final[int] = 7
FAR: Final[int] = 1 << 42
NEVER: Final[int] = 1 << 43

# The three parts of an actor's number: 16 bits of loop tag, 24 of index, 24 of generation.
INDEX_SHIFT: Final[int] = 24
LOOP_SHIFT: Final[int] = 48
MAX_INDEX: Final[int] = (1 << 24) - 1
MAX_GENERATION: Final[int] = (1 << 24) - 1
MAX_LOOP_TAG: Final[int] = (1 << 16) - 1
