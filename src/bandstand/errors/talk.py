"""What can go wrong on the bus, and in channels and scopes."""

from bandstand.errors.exceptions import BandstandError

__all__ = (
    "BadContract",
    "BadMessage",
    "BootFailed",
    "Cancelled",
    "CannotListen",
    "ChannelClosed",
    "ChannelTimeout",
    "NodeGone",
    "OutboundFault",
    "Refused",
    "RequestFailed",
    "ScopeClosed",
)


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


class NodeGone(BandstandError, ConnectionError):
    """There is no connection to a node: nobody listens there, or it has hung up and was not back in time.

    The message says whether what was asked for may have been done: what was never sent was not.
    """

    code = -135
