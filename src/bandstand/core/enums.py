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
