"""The enumerations of the loop, and the integer constants of its compiled modules.

The numbers of the members are stable: logs contain them. Compiled code compares C integers instead of members: each constant is defined
here, in a module that is never compiled, so that Python code can import it too. A compiled module imports the ones it needs, and its `.pxd`
declares their C types.
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

    Priority is strict: an actor takes a message from a lane only while all lanes above it are empty. Within a lane, messages stay in the
    order in which they were sent. `SYSTEM` belongs to the runtime; users cannot send to it.
    """

    SYSTEM = 0
    CONTROL = 1
    MANAGEMENT = 2
    DATA = 3


class Verdict(Enum):
    """The return value of a behavior: whether its actor goes on, stops or fails. `None` means `OK`."""

    OK = "ok"
    STOP = "stop"
    FAIL = "fail"


OK: Final = Verdict.OK
STOP: Final = Verdict.STOP
FAIL: Final = Verdict.FAIL


class ActorStatus(IntEnum):
    """The life cycle of an actor. Ordered: from `STOPPING` on, the actor accepts no user messages."""

    INIT = 0
    RUNNING = 1
    STOPPING = 2
    STOPPED = 3
    FAILED = 4


class ExitReason(IntEnum):
    """Why an actor exited: `NORMAL` because it was stopped, `FAIL` by its verdict, `PANIC` by an exception."""

    NORMAL = 0
    FAIL = 1
    PANIC = 2


class Overflow(str, Enum):  # noqa: UP042  # a StrEnum would have another str()
    """What happens to a message for a full lane. Chosen per actor at spawn; the `SYSTEM` lane never overflows this way.

    `REJECT` is the default: the send raises `MailboxFullError` and the sender decides. The other policies accept the send and drop a message:
    `DROP_NEWEST` the new one, `DROP_OLDEST` the one that has waited longest, `CONFLATE` the newest one waiting, so that the last
    message sent always arrives. Timers drop nothing: a due timer waits for room under every policy.
    """

    # A str, as Lane is an int: inspect.signature cannot show other defaults of compiled methods.
    REJECT = "reject"
    DROP_NEWEST = "drop_newest"
    DROP_OLDEST = "drop_oldest"
    CONFLATE = "conflate"


class Interest(Flag):
    """What to watch a file descriptor for."""

    READ = auto()
    WRITE = auto()


class Readiness(Flag):
    """What a watched descriptor is ready for. `ERROR` alone means that it was closed without `unwatch_fd`."""

    READ = auto()
    WRITE = auto()
    ERROR = auto()


class SystemTag(IntEnum):
    """The tags of system messages. They are negative; the tags of users are not, so users cannot forge one."""

    CHILD_EXIT = -1
    DOWN = -2
    IO = -3
    EXIT = -4
    CHILD_START = -5
    ELEMENT = -6
    CHILD_RESTART = -7
    SHUTDOWN = -8


# -- the members as integers -----------------------------------------------------------------------------------------

SYSTEM: Final[int] = Lane.SYSTEM.value
CONTROL: Final[int] = Lane.CONTROL.value
MANAGEMENT: Final[int] = Lane.MANAGEMENT.value
DATA: Final[int] = Lane.DATA.value

# Which unread messages of a child its supervisor's next child of that name gets: none; all; those whose callers wait for an answer.
KEEPS_NOTHING: Final[int] = 0
KEEPS_ALL: Final[int] = 1
KEEPS_ASKS: Final[int] = 2

INIT: Final[int] = ActorStatus.INIT.value
RUNNING: Final[int] = ActorStatus.RUNNING.value
STOPPING: Final[int] = ActorStatus.STOPPING.value
STOPPED: Final[int] = ActorStatus.STOPPED.value
FAILED: Final[int] = ActorStatus.FAILED.value

NORMAL: Final[int] = ExitReason.NORMAL.value
FAIL_REASON: Final[int] = ExitReason.FAIL.value
PANIC: Final[int] = ExitReason.PANIC.value

# Messages with tags from CHILD_EXIT down to ELEMENT have slots outside the cap of a mailbox; those below take any free slot.
LAST_RESERVED: Final[int] = SystemTag.ELEMENT.value

# -- other constants -------------------------------------------------------------------------------------------------

# The result of a send.
ACCEPTED: Final[int] = 0
FULL: Final[int] = 1
NO_ACTOR: Final[int] = 2
OTHER_THREAD: Final[int] = 3

# Timer.place of a timer that is not in a slot of the wheel: fired or cancelled; due; due and waiting for room in a mailbox.
GONE: Final[int] = -1
DUE: Final[int] = -2
OVERDUE: Final[int] = -3

# How fast an actor handled its last measured message.
UNTIMED: Final[int] = 0
QUICK: Final[int] = 1
SLOW: Final[int] = 2

# What completes a DriverFuture: something inside its loop, a call of the event loop, or another loop on the same event loop.
THIS_LOOP: Final[int] = 0
HOST_CALL: Final[int] = 1
OTHER_LOOP: Final[int] = 2

# How many ticks a waiting caller may run inline before the event loop gets control.
MAX_INLINE_TICKS: Final[int] = 256

# The timer wheel counts milliseconds in seven levels of six bits: 139 years. NEVER is beyond them, and still fits into 64 bits after the
# conversion to nanoseconds; with one more bit it would overflow.
MILLISECOND: Final[int] = 1_000_000
LEVELS: Final[int] = 7
FAR: Final[int] = 1 << 42
NEVER: Final[int] = 1 << 43

# The parts of an actor's number: 16 bits of loop tag, 24 bits of index, 24 bits of generation.
INDEX_SHIFT: Final[int] = 24
LOOP_SHIFT: Final[int] = 48
MAX_INDEX: Final[int] = (1 << 24) - 1
MAX_GENERATION: Final[int] = (1 << 24) - 1
MAX_LOOP_TAG: Final[int] = (1 << 16) - 1
