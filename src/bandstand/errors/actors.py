"""What can go wrong with supervised actors, and with typed ones."""

from bandstand.errors.formatting import describe_exception
from bandstand.errors.exceptions import BandstandError

__all__ = (
    "AskCycle",
    "AskTimeout",
    "BadDeclaration",
    "BadTransition",
    "ChildFailed",
    "ChildState",
    "GaveUp",
    "IgnoreChild",
    "MaxChildren",
    "MessageDropped",
    "NoSuchChild",
    "NotInThisState",
    "StashFull",
    "TargetEnded",
    "UnknownMessage",
)


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


class IgnoreChild(BandstandError):
    """Raise it in an init, or in `__init__` or `on_start` of a typed actor, to have the supervisor go on without this child.

    The child does not run, and that is no failure: its siblings start, and nothing is restarted. A permanent or transient child stays in
    the supervisor's list, down, and `restart_child` tries again; a temporary child, and one of a dynamic supervisor, is forgotten.
    """

    code = -148


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
        why = "" if cause is None else f" ({describe_exception(cause)})"
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


class StashFull(BandstandError):
    """A stash holds as many messages as it may. Raised in the handler: unless it is caught, the actor fails."""

    code = -145


class NotInThisState(BandstandError):
    """A state machine was asked for something that its present state does not handle. It lives on."""

    code = -146


class BadTransition(BandstandError):
    """A state machine cannot go there from here: nothing to return to, too deep, or in the middle of a transition."""

    code = -147
