"""All exceptions of bandstand, grouped by the package that raises them. `bandstand.errors` lists them by their codes.

Exceptions hold numbers and names, never live objects, so that they can be pickled and sent to another process.
"""

from __future__ import annotations

from typing import ClassVar, Final, Self

from bandstand.errors.formatting import describe_exception, leave_out_runtime_frames, safe_repr


class BandstandError(Exception):
    """The base class of all bandstand exceptions."""

    code: ClassVar[int] = -1
    """A number that identifies the kind of error and never changes. Kinds that only bandstand has start at -100."""


# --- categories -------------------------------------------------------------------------------------------------------


class LoopError(BandstandError):
    """The loop itself does not allow the call, or has no resources for it."""


class SendError(BandstandError):
    """A message was not sent: its target does not exist, has no room, or does not accept it."""


class AskError(BandstandError):
    """An ask ended without an answer."""


class SupervisionError(BandstandError):
    """An actor failed, or a supervisor cannot do what it was asked to do."""


class ScopeError(BandstandError):
    """A scope, channel or topic has ended, or a wait on it has."""


class PodError(BandstandError):
    """A pod is not running, or an exception came from another process."""


class BusError(BandstandError):
    """A message of the bus is not valid or was answered with an error, or a node cannot start or be reached."""


class JournalError(BandstandError):
    """A journal cannot be opened, read or written."""


class ConfigError(BandstandError):
    """An argument, a declaration or a setting is not valid. The message says what to write instead."""


class TryAgainError(BandstandError):
    """The same call may succeed later: the target has just ended, its mailbox is full, or its pod or node is not there now.

    This is a second base class of errors in several categories, for the condition of a retry. After `TargetEndedError`,
    `MessageDroppedError` and `NodeGoneError` the first try may have been handled.
    """


class InternalError(LoopError):
    """An assertion of the runtime failed, and the loop cannot continue. Please report it."""

    code = -1


class InvalidArgumentError(ConfigError, ValueError):
    """An argument is never valid for this call. The message names the argument and says what to pass."""

    code = -3


# --- loop and actors --------------------------------------------------------------------------------------------------


class OutOfMemoryError(LoopError, MemoryError):
    """There is no memory for a new actor or timer. Nothing has changed."""

    code = -2


class LoopClosedError(LoopError):
    """The loop is stopping, stopped or destroyed: it does not run, spawn or accept messages."""

    code = -4


class NoSuchActorError(SendError, LookupError):
    """The actor has ended, or no actor ever had this id."""

    code = -5


class ActorRestartingError(NoSuchActorError, TryAgainError):
    """The actor has ended, its supervisor is going to restart it, and this call does not wait for that."""

    code = -149


class ActorNotLocalError(SendError, LookupError):
    """The id belongs to another loop. An id is valid only on the loop that created it."""

    code = -6


ALL_SLOTS: Final = 1 << 30
"""More slots than any mailbox has. A lane whose byte limit is reached counts this many extra slots as taken."""


class MailboxFullError(SendError, TryAgainError):
    """The lane of the target's mailbox is full. The message was not enqueued."""

    code = -7

    actor: int = 0
    """The number of the actor whose mailbox is full."""
    name: str | None = None
    """The name of the actor, if it has one."""
    lane: str = ""
    """The name of the full lane."""
    depth: int = 0
    """The number of messages in that lane."""
    cap: int = 0
    """The capacity of the mailbox, including the slots reserved for system messages."""

    @classmethod
    def of(cls, actor: object, number: int, name: str | None, lane: str, depth: int, cap: int) -> Self:
        """Build the error for one mailbox."""
        who = f"{actor!r} {name!r}" if name else f"{actor!r}"
        if depth >= ALL_SLOTS:
            depth -= ALL_SLOTS
            error = cls(
                f"the mailbox of {who} is full: the messages on their way to its {lane} lane in another process have reached "
                f"its byte limit. Slow the sender down, use try_send, or declare the role with larger mailbox_bytes or "
                f"another overflow policy."
            )
        else:
            error = cls(
                f"the mailbox of {who} is full: {depth} messages wait in its {lane} lane (cap {cap}, including the slots "
                f"reserved for system messages). Slow the sender down, use try_send, or spawn the actor with a larger "
                f"mailbox or another overflow policy."
            )
        error.actor, error.name, error.lane, error.depth, error.cap = number, name, lane, depth, cap
        return error


class InvalidTimerError(LoopError):
    """The timer does not belong to this loop, has fired, or was cancelled."""

    code = -8


class IoRegistrationError(LoopError, OSError):
    """The file descriptor cannot be watched, or is already watched."""

    code = -9


class IoNotWatchedError(LoopError):
    """The file descriptor is not watched."""

    code = -10


class MaxActorsError(LoopError):
    """The actor table is full: `LoopConfig.max_actors` actors are alive."""

    code = -11


class WrongThreadError(LoopError):
    """The call is allowed only on the loop's own thread. The message names both threads."""

    code = -100


class LoopBusyError(LoopError):
    """The call is not allowed here: inside a behavior, or while the loop is running."""

    code = -101


class InvalidVerdictError(SupervisionError):
    """A behavior returned something other than None, OK, STOP or FAIL. The actor fails with this as its cause."""

    code = -102


class MailboxOverrunError(SupervisionError):
    """A system message found no free slot in a mailbox. The actor fails with this as its cause."""

    code = -103


class ActorFailedError(SupervisionError):
    """The cause of an actor that was failed with `fail_actor` and a textual reason."""

    code = -104


class ActorKilledError(SupervisionError):
    """The cause of an actor that was ended without waiting for its current work."""

    code = -105


class LinkBrokenError(SupervisionError):
    """The cause of an actor that ended because a linked actor failed; `__cause__` is the cause of that actor."""

    code = -106


# --- supervision ------------------------------------------------------------------------------------------------------

# The longest path that an error text shows; of a longer one it shows the beginning and the end.
_MAX_PATH_LENGTH = 1_000


def _shorten(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit // 2]}…{text[-limit // 2 :]}"


class StartError(SupervisionError):
    """A child did not start. Children that the supervisor had started before it were stopped; `__cause__` is the reason.

    If the child is a supervisor, or starts actors itself, `__cause__` may be a `StartError` too. The text names the path
    down to the actor that failed, and its error, once.
    """

    code = -107

    path: tuple[str, ...] = ()
    """The names of the children, or of their classes, from the outermost to the one that failed."""

    @property
    def root_cause(self) -> BaseException | None:
        """The first cause that is not the `StartError` of a child; None if there is none."""
        cause: BaseException | None = self
        while isinstance(cause, StartError) and (cause.path or cause is self):
            cause = cause.__cause__
        return cause

    @classmethod
    def of(cls, what: str, name: str, cause: BaseException | None, how: str = "") -> Self:
        """Build the error for `what`, which appears in paths as `name`. The text has `how` before the root cause."""
        inner = cause if isinstance(cause, StartError) else None
        path = (name, *(() if inner is None else inner.path))
        root = inner.root_cause if inner is not None and inner.path else cause
        text = f"{what} did not start"
        if len(path) > 1:
            text += f", because {safe_repr(_shorten('/'.join(path), _MAX_PATH_LENGTH))} did not"
        if root is not None:
            text += f": {how}{safe_repr(root)}"
        error = cls(text)
        error.path = path
        error.__cause__ = cause
        return error


class RestartLimitError(SupervisionError):
    """A supervisor reached its restart limit and stopped.

    The message names the child, the number of restarts and the period. `__cause__` is an exception group of the last
    failures.
    """

    code = -108

    @property
    def failures(self) -> tuple[BaseException, ...]:
        """The last failures, oldest first."""
        causes: tuple[BaseException, ...] = getattr(self.__cause__, "exceptions", ())
        return causes


class NoSuchChildError(SupervisionError, LookupError):
    """The supervisor has no child with this name."""

    code = -109


class ChildStateError(SupervisionError):
    """The state of the child, or of its supervisor, does not allow the call: running, stopped, or restarting."""

    code = -110


class MaxChildrenError(SupervisionError):
    """A dynamic supervisor has reached the limit of children in its spec."""

    code = -111


class IgnoreChild(SupervisionError):  # noqa: N818  # ends an init without a failure, like StopIteration
    """Raised by an init, or by `__init__` or `on_start` of a typed actor: the supervisor continues without this child.

    The child does not run, and this is not a failure: its siblings start, and nothing is restarted. The child stays
    in the supervisor's list as not running, and `restart_child` tries again. A supervisor forgets a child with `restart=NEVER`, and a dynamic
    supervisor forgets any child.
    """

    code = -148


# --- typed actors -----------------------------------------------------------------------------------------------------


class AskTimeoutError(AskError, TimeoutError):
    """No answer arrived in time. The handler may still be running; its answer will be dropped and counted."""

    code = -112

    target: str = ""
    """The actor that was asked."""
    method: str = ""
    """The method that was called."""
    waited: float = 0.0
    """How long the caller waited, in seconds."""
    depth: int = 0
    """The number of messages in the target's mailbox at that moment."""

    @classmethod
    def of(cls, target: str, method: str, waited: float, depth: int) -> Self:
        """Build the error for one ask."""
        error = cls(
            f"{target} did not answer {method} within {waited * 1000:.0f} ms; {depth} more messages wait in its mailbox. It may be "
            f"busy, stuck, or waiting itself: allow more time with within(seconds), or check what it is doing."
        )
        error.target, error.method, error.waited, error.depth = target, method, waited, depth
        return error


class AskCycleError(AskError):
    """The ask would deadlock: the target waits for the caller, directly or through others. The message shows the cycle."""

    code = -113


class TargetEndedError(AskError, TryAgainError):
    """The actor that was asked ended without an answer. If it failed, `__cause__` is its cause."""

    code = -114

    target: str = ""
    """The actor that was asked."""
    method: str = ""
    """The method that was called."""
    reason: str = ""
    """The name of the `ExitReason`."""

    @classmethod
    def of(
        cls,
        target: str,
        method: str,
        reason: str,
        cause: BaseException | None,
        when: str = "without answering",
    ) -> Self:
        """Build the error for one ask, or for a message that waited for a free slot."""
        why = "" if cause is None else f" ({describe_exception(cause)})"
        error = cls(f"{target} has ended with reason {reason}{why} {when} {method}")
        if cause is not None:
            leave_out_runtime_frames(cause)
        error.target, error.method, error.reason = target, method, reason
        error.__cause__ = cause
        return error


class MessageDroppedError(AskError, TryAgainError):
    """The overflow policy of the target's full mailbox dropped an ask."""

    code = -115


class UnknownMessageError(SendError, TypeError):
    """No method of the actor accepts a message of this class. Nothing was sent."""

    code = -116


class DeclarationError(ConfigError, TypeError):
    """An actor class contradicts itself or its interface. Raised at class creation; names the class and the method."""

    code = -117


class ChildFailedError(SupervisionError):
    """A child that an actor started itself failed, and the actor does not override `on_signal` to handle it."""

    code = -118


class StashFullError(SendError):
    """The stash is full. Raised in the handler: the actor fails unless the handler catches it."""

    code = -145


class NotInThisStateError(SendError):
    """The current state of a state machine does not handle the message. The machine continues."""

    code = -146


class InvalidTransitionError(ConfigError):
    """A transition is not possible: no state to return to, nested too deeply, or another transition is running."""

    code = -147


# --- channels and scopes ----------------------------------------------------------------------------------------------


class ChannelClosedError(ScopeError):
    """The channel is closed: it accepts no elements, and has none left to receive."""

    code = -126


class ChannelTimeoutError(ScopeError, TimeoutError):
    """No one sent to, or received from, the channel in time. Nothing was sent or received."""

    code = -127


class TokenCancelledError(ScopeError):
    """A cancel token ended the wait. This is not `asyncio.CancelledError`: the task itself was not cancelled."""

    code = -128

    reason: str = ""
    """The reason that was passed to `cancel`."""
    token: int = 0
    """The number of the token on which `cancel` was called; the cancellation came down the tree from there."""

    @classmethod
    def of(cls, what: str, reason: str, token: int) -> Self:
        """Build the error for one wait."""
        error = cls(f"{what} was cancelled: {reason}")
        error.reason, error.token = reason, token
        return error


class ScopeClosedError(ScopeError):
    """The scope has ended, or was never entered: it cannot start children."""

    code = -129


# --- registry and topics ----------------------------------------------------------------------------------------------


class NameTakenError(SendError):
    """Another actor is registered under this name. The message says which."""

    code = -140


class NoSuchNameError(SendError, LookupError):
    """No actor is registered under this name. The message suggests similar names."""

    code = -141


class NameTimeoutError(SendError, TimeoutError):
    """No actor was registered under this name in time."""

    code = -142


class TopicClosedError(ScopeError):
    """The topic is closed: it accepts no events and no subscriptions."""

    code = -143


class SubscriptionCutOffError(ScopeError):
    """The subscription was closed because its backlog was full, as its policy demands. No more events arrive."""

    code = -144


# --- bus --------------------------------------------------------------------------------------------------------------


class InvalidMessageError(BusError, ValueError):
    """A line received over the wire is not a valid message, or its data does not match its type. Says what and where."""

    code = -119

    path: str = ""
    """The place in the message, such as `$.metadata.id`; empty if the line cannot be parsed."""
    request_id: str | None = None
    """The id of the message, if it could be read."""

    @classmethod
    def of(cls, problem: str, path: str = "", request_id: str | None = None) -> Self:
        """Build the error for one message."""
        error = cls(problem)
        error.path, error.request_id = path, request_id
        return error


class ContractError(ConfigError, TypeError):
    """The declaration of a capability is invalid. Raised before anything starts; names the capability and the field."""

    code = -120


class ContractViolationError(BusError):
    """A capability sent something that its contract does not allow. Its actor fails with this as its cause."""

    code = -121


class RefusedError(BusError):
    """Raise it in a handler of a capability to answer the request with an error. The capability continues.

    Args:
        answer: a text, which is answered as `Sys.Refused`; or a `Failure` that is part of the capability's contract.
    """

    code = -123

    def __init__(self, answer: object) -> None:
        super().__init__(answer)
        self.answer = answer


class RequestFailedError(RefusedError):
    """A command or query was answered with an error.

    It is a `RefusedError`: a handler that makes a request and does not catch this refuses its own message in turn, and the
    capability continues. An error of one capability never crashes another.
    """

    code = -122

    type: str = ""
    """The type of the error: `Sys.Timeout`, `Sys.SchemaError`, or one that a capability declares."""
    data: object = None
    """The data of the error, as plain JSON values."""

    @classmethod
    def of(cls, request: str, type: str, data: object, message: str) -> Self:  # noqa: A002  # its name on the wire
        """Build the error for one request."""
        error = cls(f"{request} was answered with {type}: {message}")
        error.type, error.data = type, data
        return error


class StepUnknownError(RefusedError):
    """A step of a workflow was begun, and its result is not recorded: it was carried out or not.

    A handler that does not catch it answers with `Sys.InDoubt`. The function of a step may raise it itself, to say that it does not know its outcome.
    """

    code = -175

    step: str = ""
    """The id of the step: the key of its workflow, a slash and its name."""

    @classmethod
    def of(cls, step: str, answer: object) -> Self:
        """Build the error for one step."""
        error = cls(answer)
        error.step = step
        return error

    def __str__(self) -> str:
        return str(getattr(self.answer, "message", self.answer))


class StepResultError(StepUnknownError):
    """The result of a step cannot be written, or a recorded one does not fit the type of the step any more. The message names the step and the field.

    A handler that does not catch it answers with `Sys.ActorFault`.
    """

    code = -176


class BootError(BusError):
    """A node did not start. Everything it had started was stopped; `__cause__` is the reason."""

    code = -124

    phase: str = ""
    """The phase of the boot that failed."""

    @classmethod
    def of(cls, phase: str, problem: str) -> Self:
        """Build the error for one phase."""
        error = cls(f"the node did not start: {phase} failed: {problem}")
        error.phase = phase
        return error


class ListenError(BusError, OSError):
    """An adapter cannot start; the message says why. No socket or file is left behind."""

    code = -125


class NodeGoneError(BusError, TryAgainError, ConnectionError):
    """There is no connection to a node: nothing listens there, or it disconnected and did not come back in time.

    The message says whether the request may have been carried out. A request that was never sent was not.
    """

    code = -135


# --- journal ----------------------------------------------------------------------------------------------------------


class JournalClosedError(JournalError):
    """The journal is not open."""

    code = -160


class JournalLockedError(JournalError):
    """Another process has the journal open for writing."""

    code = -161


class JournalFullError(JournalError, TryAgainError):
    """The disk is full. Nothing was written; the same write succeeds when there is room."""

    code = -162


class JournalOverloadedError(JournalError, TryAgainError):
    """Too many bytes wait for the disk. Nothing was written."""

    code = -163


class JournalFailedError(JournalError):
    """The disk has failed. What was not reported as written is in the journal or not, and nothing can be written any more."""

    code = -164


class JournalCorruptError(JournalError):
    """The journal is damaged: a record has changed, or a page is missing. The message says where.

    Nothing is repaired, and nothing behind the damage is read: restore the journal from a copy.
    """

    code = -165

    page: int = 0
    """The number of the damaged or missing page; 0 if the database itself cannot be read."""
    record: int = 0
    """The place of the damaged record in its page, from 1; 0 if it is the page."""

    @classmethod
    def at(cls, text: str, page: int, record: int = 0) -> Self:
        """Build the error for a page, or for a record of it."""
        error = cls(text)
        error.page, error.record = page, record
        return error


class EventStoreError(JournalError):
    """The events of an actor cannot be read back, or cannot be written by this incarnation of it."""

    code = -166


class EventSchemaError(ConfigError, TypeError):
    """Events in a journal do not fit the classes of the program. The message names the event and the field."""

    code = -167


# --- pods -------------------------------------------------------------------------------------------------------------


class PodGoneError(PodError, NoSuchActorError):
    """The pod, or its troupe, has ended for good: this handle will never work again."""

    code = -130


class PodDownError(PodError, NoSuchActorError, TryAgainError):
    """The pod is not running now, and the handle does not wait for it, or too many messages wait already."""

    code = -131


class PodTimeoutError(PodError, TryAgainError, TimeoutError):
    """The pod did not come back in time. The message was not sent."""

    code = -132


class PodFailedError(PodError):
    """A pod failed for good, and its troupe ended with it. If an exception was the reason, it is `__cause__`."""

    code = -133

    pod: str = ""
    """The name of the pod."""
    actor: str = ""
    """The name of the actor that failed; empty if the failure is not that of one actor."""
    reason: str = ""
    """The reason, as a sentence."""

    @classmethod
    def of(cls, pod: str, actor: str, reason: str, cause: BaseException | None = None) -> Self:
        """Build the error for one pod."""
        whose = f", whose actor {actor!r} failed" if actor else ""
        error = cls(f"pod {pod!r}{whose}: {reason}")
        error.pod, error.actor, error.reason = pod, actor, reason
        error.__cause__ = cause
        return error


class RemoteError(PodError):
    """An exception of another process that cannot be rebuilt in this one. The message describes it."""

    code = -134

    kind: str = ""
    """The full name of its class."""
