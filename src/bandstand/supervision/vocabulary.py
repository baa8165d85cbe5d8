"""The closed vocabularies of supervision. Every word is Erlang/OTP's own."""

from enum import Enum

__all__ = ("AutoShutdown", "ChildMode", "Mailbox", "Shutdown", "Strategy")


class ChildMode(Enum):
    """When a child that has ended is started again."""

    PERMANENT = "permanent"
    """Always."""
    TRANSIENT = "transient"
    """If it ended abnormally: by FAIL, or by an exception."""
    TEMPORARY = "temporary"
    """Never; its supervisor forgets it."""


class Strategy(Enum):
    """Who is started again together with a child that is."""

    ONE_FOR_ONE = "one_for_one"
    """Nobody."""
    ONE_FOR_ALL = "one_for_all"
    """All its siblings: for children that cannot do without each other."""
    REST_FOR_ONE = "rest_for_one"
    """Those after it in the supervisor's order: for children that build on the ones before them."""


class AutoShutdown(Enum):
    """When a supervisor ends by itself, in good order, because its significant children have ended."""

    NEVER = "never"
    ANY_SIGNIFICANT = "any_significant"
    """When one of them has ended and is not to be started again."""
    ALL_SIGNIFICANT = "all_significant"
    """When the last of them has."""


class Shutdown(Enum):
    """How a child is stopped, other than by a time in milliseconds."""

    KILL = "kill"
    """At once: a coroutine in flight is cancelled and not waited for."""
    INFINITY = "infinity"
    """It is waited for without end. For supervisors, whose children have times of their own."""


class Mailbox(Enum):
    """What becomes of the messages that a child has not handled when it ends and is started again."""

    FRESH = "fresh"
    """They are dead letters."""
    KEPT = "kept"
    """The next incarnation gets them, before anything else; the message that was being handled is not among them."""
