"""Everything that can go wrong, as one tree.

    BandstandError                   root of all; `code` is the specification's number
    ├── InternalError           -1   an assertion of the runtime itself has tripped
    ├── NoMemory                -2   (also a MemoryError)
    ├── InvalidArgument         -3   (also a ValueError) the call can never work: the caller is wrong
    ├── LoopClosed              -4   the loop is stopping, stopped or destroyed
    ├── NoSuchActor             -5   (also a LookupError) the actor has ended, or there never was one
    ├── ActorNotLocal           -6   (also a LookupError) the id belongs to another loop
    ├── MailboxFull             -7   the target's lane has no room
    ├── TimerInvalid            -8   unknown, fired or cancelled already
    ├── IoRegistrationFailed    -9   (also an OSError) the descriptor cannot be watched
    ├── IoNotWatched           -10   the descriptor is not being watched
    ├── MaxActors              -11   the actor table is full
    ├── WrongThread           -100   the call belongs on the loop's own thread
    ├── LoopBusy              -101   the call cannot be made from where it was made: inside a behavior, or while running
    ├── BadVerdict            -102   a behavior returned something that is no verdict
    ├── MailboxOverrun        -103   a system message met a mailbox full to the last slot; the actor was failed
    ├── ActorFailed           -104   somebody failed the actor with fail_actor() and gave a reason in words
    ├── ActorKilled           -105   the actor was ended without waiting for what it was doing
    ├── LinkBroken            -106   an actor it was linked with has ended abnormally
    ├── StartFailed           -107   a child did not start, and what its supervisor had started was ended again
    ├── GaveUp                -108   a supervisor has restarted too often and gave up; the last causes are its cause
    ├── NoSuchChild           -109   (also a LookupError) the supervisor has no child of that name
    ├── ChildState            -110   the child, or its supervisor, is in no state for what was asked
    ├── MaxChildren           -111   a dynamic supervisor has as many children as it may have
    ├── AskTimeout            -112   (also a TimeoutError) nobody has answered in time
    ├── AskCycle              -113   an actor would wait for one that waits for it
    ├── TargetEnded           -114   the actor that was asked has ended without an answer; its cause is why
    ├── MessageDropped        -115   an ask was given up by the overflow policy of a full mailbox
    ├── UnknownMessage        -116   (also a TypeError) no method of the actor takes a message of this class
    ├── BadDeclaration        -117   (also a TypeError) a class of actors contradicts itself, or its interface
    ├── ChildFailed           -118   a child that an actor had started by itself has ended abnormally
    ├── BadMessage            -119   (also a ValueError) what came over the wire is no message
    ├── BadContract           -120   (also a TypeError) what a capability declares cannot be served
    ├── OutboundFault         -121   a capability has said what its contract does not allow
    ├── RequestFailed         -122   (also a Refused) a command or query was answered with an error
    ├── Refused               -123   raised in a handler: answer with an error, and live on
    ├── BootFailed            -124   a node did not start; what it had started was ended again
    ├── CannotListen          -125   (also an OSError) an adapter cannot start; says what is in the way
    ├── ChannelClosed         -126   the channel is closed: it accepts nothing, and has nothing left
    ├── ChannelTimeout        -127   (also a TimeoutError) nobody came to the other side of a channel in time
    ├── Cancelled             -128   a cancel token has ended the wait; says why
    ├── ScopeClosed           -129   the scope is over, and takes nothing in any more
    ├── PodGone               -130   (also a NoSuchActor) the pod has ended for good
    ├── PodDown               -131   (also a NoSuchActor) the pod is being started, and the handle does not wait
    ├── PodTimeout            -132   (also a TimeoutError) the pod was not back in time
    ├── PodFailed             -133   a pod has failed for good, and its troupe with it; says which, whose fault and why
    └── RemoteError           -134   an exception from another process that cannot be rebuilt here; says what it was

Numbers down to -99 are the specification's; our own begin at -100. An error says in a sentence what happened, where,
and what to do. Errors survive pickling: they hold numbers and names, never live objects.
"""

from typing import ClassVar

__all__ = (
    "ActorFailed",
    "ActorKilled",
    "ActorNotLocal",
    "AskCycle",
    "AskTimeout",
    "BadContract",
    "BadDeclaration",
    "BadMessage",
    "BadVerdict",
    "BandstandError",
    "BootFailed",
    "Cancelled",
    "CannotListen",
    "ChannelClosed",
    "ChannelTimeout",
    "ChildFailed",
    "ChildState",
    "GaveUp",
    "InternalError",
    "InvalidArgument",
    "IoNotWatched",
    "IoRegistrationFailed",
    "LinkBroken",
    "LoopBusy",
    "LoopClosed",
    "MailboxFull",
    "MailboxOverrun",
    "MaxActors",
    "MaxChildren",
    "MessageDropped",
    "NoMemory",
    "NoSuchActor",
    "NoSuchChild",
    "OutboundFault",
    "PodDown",
    "PodFailed",
    "PodGone",
    "PodTimeout",
    "Refused",
    "RemoteError",
    "RequestFailed",
    "ScopeClosed",
    "StartFailed",
    "TargetEnded",
    "TimerInvalid",
    "UnknownMessage",
    "WrongThread",
)


class BandstandError(Exception):
    """The root of all errors of bandstand. Catch it to catch them all."""

    code: ClassVar[int] = -1
    """The specification's number for this kind of error; our own kinds are at -100 and below."""


class InternalError(BandstandError):
    """An assertion of the runtime itself has tripped; the loop cannot go on. Please report it."""

    code = -1


class NoMemory(BandstandError, MemoryError):
    """There was no memory for a new actor or timer. Nothing has changed."""

    code = -2


class InvalidArgument(BandstandError, ValueError):
    """An argument can never work. The message names the argument and what would be right."""

    code = -3


class LoopClosed(BandstandError):
    """The loop is stopping, stopped or destroyed: it runs, spawns and accepts nothing any more."""

    code = -4


class NoSuchActor(BandstandError, LookupError):
    """The actor has ended, or there never was one with this id."""

    code = -5


class ActorNotLocal(BandstandError, LookupError):
    """The id belongs to another loop. Ids are good on the loop that gave them out."""

    code = -6


class MailboxFull(BandstandError):
    """The target's lane has no room. The message was not enqueued; the sender decides what becomes of it."""

    code = -7

    actor: int = 0
    """The number of the actor whose mailbox is full."""
    name: str | None = None
    """Its name, if it has one."""
    lane: str = ""
    """The lane that has no room."""
    depth: int = 0
    """How many messages wait in that lane."""
    cap: int = 0
    """The mailbox's cap, the system's reserve included."""

    @classmethod
    def of(
        cls, actor: object, number: int, name: str | None, lane: str, depth: int, cap: int
    ) -> "MailboxFull":
        """Build the error for one mailbox."""
        who = f"{actor!r} {name!r}" if name else f"{actor!r}"
        error = cls(
            f"the mailbox of {who} is full: {depth} messages wait in its {lane} lane (cap {cap}, the system's reserve "
            f"included). Slow the sender down, use try_send, or spawn the actor with a larger mailbox_cap or another "
            f"overflow policy."
        )
        error.actor, error.name, error.lane, error.depth, error.cap = number, name, lane, depth, cap
        return error


class TimerInvalid(BandstandError):
    """The timer is unknown here, has fired, or was cancelled already."""

    code = -8


class IoRegistrationFailed(BandstandError, OSError):
    """The descriptor cannot be watched, or is being watched already."""

    code = -9


class IoNotWatched(BandstandError):
    """The descriptor is not being watched."""

    code = -10


class MaxActors(BandstandError):
    """The actor table is full: `LoopConfig.max_actors` are alive."""

    code = -11


class WrongThread(BandstandError):
    """The call belongs on the loop's own thread. The message names both threads."""

    code = -100


class LoopBusy(BandstandError):
    """The call cannot be made from here: inside a behavior, or while the loop is running."""

    code = -101


class BadVerdict(BandstandError):
    """A behavior returned something other than None, OK, STOP or FAIL. Its actor fails with this as the cause."""

    code = -102


class MailboxOverrun(BandstandError):
    """A system message met a mailbox full to the last slot. The actor fails with this as the cause."""

    code = -103


class ActorFailed(BandstandError):
    """Somebody failed the actor with `fail_actor` and gave a reason in words: this is the cause that is reported."""

    code = -104


class ActorKilled(BandstandError):
    """The actor was ended without waiting for what it was doing. It is the cause that its supervisor hears of."""

    code = -105


class LinkBroken(BandstandError):
    """An actor that this one was linked with has ended abnormally, and took it along; `__cause__` is why it ended."""

    code = -106


class StartFailed(BandstandError):
    """A child did not start. What its supervisor had started before it was ended again; `__cause__` is what went wrong."""

    code = -107


class GaveUp(BandstandError):
    """A supervisor has restarted its children too often and gave up.

    The message says which child, how often and in what time; `__cause__` is a group of the last causes.
    """

    code = -108

    @property
    def failures(self) -> tuple[BaseException, ...]:
        """The last causes, the oldest first."""
        causes: tuple[BaseException, ...] = getattr(self.__cause__, "exceptions", ())
        return causes


class NoSuchChild(BandstandError, LookupError):
    """The supervisor has no child of that name."""

    code = -109


class ChildState(BandstandError):
    """The child, or its supervisor, is in no state for what was asked: running, stopped, or just being restarted."""

    code = -110


class MaxChildren(BandstandError):
    """A dynamic supervisor has as many children as its spec allows."""

    code = -111


class AskTimeout(BandstandError, TimeoutError):
    """Nobody has answered in time. The handler may still be at it; an answer that comes now is dropped and counted."""

    code = -112

    target: str = ""
    """Who was asked."""
    method: str = ""
    """For what."""
    waited_ms: float = 0.0
    """How long the asker has waited, in milliseconds."""
    depth: int = 0
    """How many messages waited for the target at that moment."""

    @classmethod
    def of(cls, target: str, method: str, waited_ms: float, depth: int) -> "AskTimeout":
        """Build the error for one ask."""
        error = cls(
            f"{target} has not answered {method} in {waited_ms:.0f} ms; {depth} more messages wait for it. It may be busy, "
            f"stuck, or waiting itself: give it more time with within(ms), or look at what it does."
        )
        error.target, error.method, error.waited_ms, error.depth = target, method, waited_ms, depth
        return error


class AskCycle(BandstandError):
    """An actor would wait for one that waits for it, directly or through others. The message prints the cycle."""

    code = -113


class TargetEnded(BandstandError):
    """The actor that was asked has ended without an answer. `__cause__` is why, if it has failed."""

    code = -114

    target: str = ""
    """Who was asked."""
    method: str = ""
    """For what."""
    reason: str = ""
    """The name of the `ExitReason`."""

    @classmethod
    def of(
        cls,
        target: str,
        method: str,
        reason: str,
        cause: BaseException | None,
        then: str = "and has not answered",
    ) -> "TargetEnded":
        """Build the error for one ask, or for one message that waited for room."""
        why = "" if cause is None else f" ({type(cause).__name__}: {cause})"
        error = cls(f"{target} has ended with reason {reason}{why} {then} {method}")
        error.target, error.method, error.reason = target, method, reason
        error.__cause__ = cause
        return error


class MessageDropped(BandstandError):
    """An ask was given up by the overflow policy of the target's full mailbox."""

    code = -115


class UnknownMessage(BandstandError, TypeError):
    """No method of the actor takes a message of this class. Nothing was sent."""

    code = -116


class BadDeclaration(BandstandError, TypeError):
    """A class of actors contradicts itself, or its interface. Raised when the class is made; names class and method."""

    code = -117


class ChildFailed(BandstandError):
    """A child that an actor had started by itself has ended abnormally, and the actor did not say what to do about it."""

    code = -118


class BadMessage(BandstandError, ValueError):
    """What came over the wire is no message, or its data is not what its type asks for. Says what, and where."""

    code = -119

    path: str = ""
    """Where in the message, as `$.metadata.id`; empty if it cannot be read at all."""
    request_id: str | None = None
    """The id of the message, if at least that could be read."""

    @classmethod
    def of(cls, problem: str, path: str = "", request_id: str | None = None) -> "BadMessage":
        """Build the error for one message."""
        error = cls(problem)
        error.path, error.request_id = path, request_id
        return error


class BadContract(BandstandError, TypeError):
    """What a capability declares cannot be served. Raised before anything starts; names capability and field."""

    code = -120


class OutboundFault(BandstandError):
    """A capability has said what its contract does not allow. Its actor fails with this as the cause."""

    code = -121


class Refused(BandstandError):
    """Raise it in a handler of a capability to answer the request with an error. The capability lives on.

    Args:
        answer: words, which are answered as `Sys.Refused`; or a `Failure` that the capability's contract names.
    """

    code = -123

    def __init__(self, answer: object) -> None:
        super().__init__(answer)
        self.answer = answer


class RequestFailed(Refused):
    """A command or query was answered with an error.

    A handler that has asked for something and does not catch it has refused its own message in turn, and lives on: nobody's
    error is another capability's crash.
    """

    code = -122

    type: str = ""
    """The error's type: `Sys.Timeout`, `Sys.SchemaError`, or one of a capability's own."""
    data: object = None
    """What the error says: plain values, as JSON has them."""

    @classmethod
    def of(cls, request: str, type: str, data: object, message: str) -> "RequestFailed":  # noqa: A002  # its name on the wire
        """Build the error for one request."""
        error = cls(f"{request} was answered with {type}: {message}")
        error.type, error.data = type, data
        return error


class BootFailed(BandstandError):
    """A node did not start. What it had started was ended again; `__cause__` is what went wrong."""

    code = -124

    phase: str = ""
    """The phase of the boot that has failed."""

    @classmethod
    def of(cls, phase: str, problem: str) -> "BootFailed":
        """Build the error for one phase."""
        error = cls(f"the node did not start: {phase} failed: {problem}")
        error.phase = phase
        return error


class CannotListen(BandstandError, OSError):
    """An adapter cannot start; says what is in the way. Nothing was left behind."""

    code = -125


class ChannelClosed(BandstandError):
    """The channel is closed: a send is refused at once, and a receive has nothing left to wait for."""

    code = -126


class ChannelTimeout(BandstandError, TimeoutError):
    """Nobody came to the other side of a channel in time. Nothing was sent, or received."""

    code = -127


class Cancelled(BandstandError):
    """A cancel token has ended what was going on. Not asyncio's `CancelledError`: no task was cancelled by anybody."""

    code = -128

    reason: str = ""
    """Why, in the words of whoever cancelled."""
    token: int = 0
    """The number of the token that was cancelled first, from which it came down the tree."""

    @classmethod
    def of(cls, what: str, reason: str, token: int) -> "Cancelled":
        """Build the error for one wait."""
        error = cls(f"{what} was cancelled: {reason}")
        error.reason, error.token = reason, token
        return error


class ScopeClosed(BandstandError):
    """The scope is over, or was never entered: it takes nothing in."""

    code = -129


class PodGone(NoSuchActor):
    """The pod has ended for good, or its troupe has: nobody will come back behind this handle."""

    code = -130


class PodDown(NoSuchActor):
    """The pod is down at this moment, and the handle was told not to wait for it, or as much waits for it as may."""

    code = -131


class PodTimeout(BandstandError, TimeoutError):
    """The pod was not back in time. The message was not sent."""

    code = -132


class PodFailed(BandstandError):
    """A pod has failed for good, and its troupe has ended with it. `__cause__` is why, if there was an exception."""

    code = -133

    pod: str = ""
    """Which."""
    actor: str = ""
    """Whose failure it was; empty if it was nobody's in particular."""
    reason: str = ""
    """Why, in a sentence."""

    @classmethod
    def of(cls, pod: str, actor: str, reason: str, cause: BaseException | None = None) -> "PodFailed":
        """Build the error for one pod."""
        whose = f", whose actor {actor!r} failed" if actor else ""
        error = cls(f"pod {pod!r}{whose}: {reason}")
        error.pod, error.actor, error.reason = pod, actor, reason
        error.__cause__ = cause
        return error


class RemoteError(BandstandError):
    """An exception of another process, which cannot be rebuilt in this one: it says what it was, and where."""

    code = -134

    kind: str = ""
    """The name of its class, with its module."""
