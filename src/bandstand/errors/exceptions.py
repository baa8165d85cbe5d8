"""What can go wrong with a loop and the actors on it."""

from typing import ClassVar

from bandstand.errors.formatting import safe_repr

__all__ = (
    "ActorFailed",
    "ActorKilled",
    "ActorNotLocal",
    "BadVerdict",
    "BandstandError",
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
    "NoMemory",
    "NoSuchActor",
    "StartFailed",
    "TimerInvalid",
    "WrongThread",
)


# How many characters of the way to an actor are shown: its beginning and its end.
_LONGEST_PATH = 1_000


def _shortened(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit // 2]}…{text[-limit // 2 :]}"


class BandstandError(Exception):
    """The root of all errors of bandstand. Catch it to catch them all."""

    code: ClassVar[int] = -1
    """The number of this kind of error, the same for ever; kinds that only bandstand has are at -100 and below."""


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


# More slots than any mailbox has: so many of a lane are held while its messages have too many bytes.
ALL_SLOTS = 1 << 30


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
        if depth >= ALL_SLOTS:
            # They are held because its messages have too many bytes.
            depth -= ALL_SLOTS
            error = cls(
                f"the mailbox of {who} is full: as many bytes as may be are under way to its {lane} lane in another process. Slow "
                f"the sender down, use try_send, or declare the role with larger mailbox_bytes or another overflow policy."
            )
            error.actor, error.name, error.lane, error.depth, error.cap = number, name, lane, depth, cap
            return error
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
    """A child did not start. What its supervisor had started before it was ended again; `__cause__` is what went wrong.

    If the child is a supervisor, or starts actors of its own, then `__cause__` may be a `StartFailed` as well. The text names the way
    down to the actor that failed, and its error, once.
    """

    code = -107

    path: tuple[str, ...] = ()
    """What did not start, from the outermost to the innermost: the names of children, or of classes."""

    @property
    def root_cause(self) -> BaseException | None:
        """The first cause that is no `StartFailed` of a child; None if there is none."""
        cause: BaseException | None = self
        while isinstance(cause, StartFailed) and (cause.path or cause is self):
            cause = cause.__cause__
        return cause

    @classmethod
    def of(cls, what: str, name: str, cause: BaseException | None, how: str = "") -> "StartFailed":
        """Build the error for `what`, whose name in paths is `name`. `how` goes before the root cause."""
        inner = cause if isinstance(cause, StartFailed) else None
        path = (name, *(() if inner is None else inner.path))
        root = inner.root_cause if inner is not None and inner.path else cause
        text = f"{what} did not start"
        if len(path) > 1:
            text += f", because {safe_repr(_shortened('/'.join(path), _LONGEST_PATH))} did not"
        if root is not None:
            text += f": {how}{safe_repr(root)}"
        error = cls(text)
        error.path = path
        error.__cause__ = cause
        return error
