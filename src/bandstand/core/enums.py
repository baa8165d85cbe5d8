"""The closed vocabularies of the loop: every word an actor, a mailbox or an exit may use.

They stand below everything else in the room, so that the compiled kernel and the code above it speak of the same
objects. Members are compared by identity on the hot path; their numbers stay what they are, for logs have them.
"""

from enum import Enum, Flag, IntEnum, auto
from typing import Final

__all__ = (
    "FAIL",
    "OK",
    "STOP",
    "ActorStatus",
    "ExitReason",
    "Interest",
    "Lane",
    "Overflow",
    "Readiness",
    "SystemTag",
    "Verdict",
)


class Lane(IntEnum):
    """The four lanes of every mailbox, most urgent first.

    Priority between lanes is strict: a message is taken from a lane only while every lane above it is empty. Inside a
    lane the order is that of the successful sends. `SYSTEM` belongs to the runtime; a user's send to it is refused.
    """

    SYSTEM = 0
    CONTROL = 1
    MANAGEMENT = 2
    DATA = 3


class Verdict(Enum):
    """What a behavior says about its actor when it returns; `None` means `OK`."""

    OK = "ok"
    STOP = "stop"
    FAIL = "fail"


OK: Final = Verdict.OK
STOP: Final = Verdict.STOP
FAIL: Final = Verdict.FAIL


class ActorStatus(IntEnum):
    """Where an actor stands in its life. Ordered: at or past `STOPPING` it accepts nothing any more."""

    INIT = 0
    RUNNING = 1
    STOPPING = 2
    STOPPED = 3
    FAILED = 4


class ExitReason(IntEnum):
    """Why an actor ended: `NORMAL` by its own or another's wish, `FAIL` by verdict, `PANIC` by an exception."""

    NORMAL = 0
    FAIL = 1
    PANIC = 2


class Overflow(str, Enum):  # noqa: UP042  # a StrEnum would have another str()
    """What a full lane does with one message more. Chosen for each actor at spawn; never holds for `SYSTEM`.

    `REJECT` is the default: the send raises `MailboxFull` and the sender decides. The others accept the send and give
    something up, counted as dropped: `DROP_NEWEST` the message that comes, `DROP_OLDEST` the one that waited longest,
    `CONFLATE` the newest one waiting, so that the last word always arrives. Timers never drop and never displace: a
    due timer waits for room under every policy.
    """

    # A str, as Lane is an int: inspect.signature shows no other constants as defaults of compiled methods.
    REJECT = "reject"
    DROP_NEWEST = "drop_newest"
    DROP_OLDEST = "drop_oldest"
    CONFLATE = "conflate"


class Interest(Flag):
    """What to watch a file descriptor for."""

    READ = auto()
    WRITE = auto()


class Readiness(Flag):
    """What a watched descriptor is ready for. `ERROR` alone: it was closed behind the runtime's back."""

    READ = auto()
    WRITE = auto()
    ERROR = auto()


class SystemTag(IntEnum):
    """Tags of the runtime's own messages. Negative, and a user's tag is not: nobody can forge one."""

    CHILD_EXIT = -1
    DOWN = -2
    IO = -3
    EXIT = -4
    CHILD_START = -5
    ELEMENT = -6
    CHILD_RESTART = -7
    SHUTDOWN = -8


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
NO_ACTOR: Final[int] = 2
OTHER_THREAD: Final[int] = 3

# Where a timer is, if not in a slot of the wheel.
GONE: Final[int] = -1
DUE: Final[int] = -2
OVERDUE: Final[int] = -3

# How quick an actor is, as far as the clock was read for it.
UNTIMED: Final[int] = 0
QUICK: Final[int] = 1
SLOW: Final[int] = 2

# How many ticks may be run by those who wait for an answer, before the host has its turn.
MAX_INLINE_TICKS: Final[int] = 256

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
