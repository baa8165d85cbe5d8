"""Messages on their way through a node: requests, which are owed an answer, and copies of events, which are not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

try:
    import cython
except ModuleNotFoundError:  # interpreted, without Cython installed
    from bandstand.core import _cython as cython  # type: ignore[no-redef]  # one of the two

if TYPE_CHECKING:
    from collections.abc import Callable

    from bandstand.actor.timers import DeferredCall
    from bandstand.bus.admission import CreditLimit
    from bandstand.bus.capability_slot import CapabilitySlot
    from bandstand.bus.contracts.capability import HandlerSpec
    from bandstand.bus.frame import Frame
    from bandstand.core import ActorId, TimerId

__all__ = (
    "DONE",
    "DUPLICATE",
    "NEW",
    "NO_REQUESTER",
    "RECOVERED_CLIENT",
    "ROUTED",
    "DeferredTurn",
    "Delivery",
    "NoRequester",
    "OpenRequest",
    "PendingRequest",
    "RecoveredClient",
    "RedeliveryRequester",
    "Requester",
    "Route",
    "item_name",
    "new_client_request",
)

Count: TypeAlias = int
Flag: TypeAlias = bool

# The stages of a request. A stage only ever increases. Compiled modules import these numbers as C integers.
DUPLICATE: Final[int] = -1
"""Another request has the same id, or had it and its answer is remembered."""
NEW: Final[int] = 0
ROUTED: Final[int] = 1
DONE: Final[int] = 2


class Requester(Protocol):
    """The sender of a request, which takes its answer."""

    def settle(self, frame: Frame, settles: bool, /) -> bool:
        """Take the one answer. Return False if it cannot be delivered.

        Args:
            frame: the answer.
            settles: whether it gives a client the credit back that its request has taken.
        """
        ...


class NoRequester:
    """The requester of a request whose answer is not used. If there is an `on_end`, it is called as `settle` is."""

    __slots__ = ("_on_end",)

    def __init__(self, on_end: Callable[[Frame, bool], object] | None = None) -> None:
        self._on_end = on_end

    def settle(self, frame: Frame, settles: bool, /) -> bool:
        """Return False: the answer is not delivered."""
        if self._on_end is not None:
            self._on_end(frame, settles)
        return False


NO_REQUESTER: Final = NoRequester()


class RecoveredClient:
    """The requester of a command whose client was connected before the node ended. Its answer waits for a repeat of the command."""

    __slots__ = ()

    def settle(self, _frame: Frame, _settles: bool, /) -> bool:
        """Return False: the answer is not delivered."""
        return False


RECOVERED_CLIENT: Final = RecoveredClient()


class RedeliveryRequester:
    """The requester of a dead letter that is sent again: the answer decides whether the letter is removed."""

    __slots__ = ("_callback",)

    def __init__(self, callback: Callable[[Frame], object]) -> None:
        self._callback = callback

    def settle(self, frame: Frame, _settles: bool, /) -> bool:
        """Call the callback with the answer."""
        self._callback(frame)
        return True


class Route:
    """A kind and type of message with the capability that handles it, and what the way there needs, looked up once."""

    __slots__ = (
        "codec",
        "entry",
        "method",
        "place",
        "read",
        "remembers",
        "reply",
        "retry",
        "slot",
        "envelope",
        "is_durable",
        "is_retry_safe",
        "timeout_ms",
        "type",
    )

    def __init__(
        self, slot: CapabilitySlot, entry: HandlerSpec, place: Count, timeout_ms: Count, remembers: Flag
    ) -> None:
        self.slot = slot
        self.entry = entry
        self.type = entry.type
        # Its index among the routes of its capability.
        self.place = place
        # Decodes data into the type that the capability declares.
        self.codec = entry.codec
        self.read = entry.codec.read
        self.envelope = entry.envelope
        self.method = entry.method
        self.reply = entry.reply_codec
        self.timeout_ms = timeout_ms
        # The retry policy; None for no retries.
        self.retry = entry.retry
        # Whether answers are remembered, so that a request with a known id is a duplicate.
        self.remembers = remembers and entry.is_remembered
        # Whether it is written to the journal, if the node has one. Those of `Syscall` are about the connection, or the node as it runs now.
        self.is_durable = entry.kind == "command" and not entry.type.startswith("Syscall.")
        self.is_retry_safe = entry.is_retry_safe


@cython.freelist(512)
@cython.cclass
class OpenRequest:
    """A command that is in the journal, and has no answer there.

    Args:
        number: its number.
        at: when it was accepted, in milliseconds since 1970.
        flags: those of its record.
        line: its wire line.
    """

    __slots__ = ("at", "begun", "flags", "has_place", "is_marked", "line", "number", "outputs", "page")

    def __init__(self, number: Count, at: Count, flags: Count, line: bytes) -> None:
        self.number = number
        self.at = at
        self.flags = flags
        self.line = line
        # How often a handler may have begun on it, and the page that has its record; 0 if none is durable yet.
        self.begun: Count = 0
        self.page: Count = 0
        # While the node runs. Whether a record that is not durable yet marks it as begun; whether it takes one of the places of its capability;
        # and what its handler has sent.
        self.is_marked: Flag = False
        self.has_place: Flag = False
        self.outputs: list[Any] | None = None


@cython.freelist(512)
@cython.cclass
class PendingRequest:
    """A request, from its admission until its one answer is sent.

    Its stage only ever increases, and the code that sets it to `DONE` sends the answer. So there is exactly one answer.
    """

    __slots__ = (
        "answer",
        "counted_route",
        "credit",
        "duplicates",
        "entry",
        "frame",
        "holds_id",
        "is_answered",
        "is_begun",
        "is_owed",
        "is_queued",
        "parent",
        "payload",
        "requester",
        "retries",
        "route",
        "settles",
        "stage",
        "timer",
    )

    def __init__(
        self,
        requester: Requester,
        frame: Frame,
        credit: CreditLimit,
        settles: Flag,
        parent: PendingRequest | Delivery | None = None,
    ) -> None:
        self.requester = requester
        self.frame = frame
        # The limit that it takes a slot of, until it is done.
        self.credit = credit
        # Whether the answer gives a client its credit back.
        self.settles = settles
        # The message whose handler awaits this request.
        self.parent = parent
        self.stage: Count = 0
        # Whether the table of requests has it under its id; False for a duplicate.
        self.holds_id: Flag = False
        # Its answer, while that is in the router's mailbox.
        self.answer: Frame | None = None
        # Whether an answer is in the router's mailbox. Further answers are discarded.
        self.is_answered: Flag = False
        # Whether the request or its answer is in the router's mailbox. It keeps its credit until that is taken out.
        self.is_queued: Flag = False
        # Whether a handler has started on it.
        self.is_begun: Flag = False
        self.route: Route | None = None
        # The route in whose load it is counted; None if it is not a client's.
        self.counted_route: Route | None = None
        # Any: only the capability that declares it knows its type.
        self.payload: Any = None
        # Its deadline.
        self.timer: TimerId | None = None
        # How often it was retried.
        self.retries: Count = 0
        # Requests with the same id and content, which get the same answer.
        self.duplicates: list[PendingRequest] | None = None
        # What the journal says of it; None if it is not journaled.
        self.entry: OpenRequest | None = None
        # Whether it follows from something in the journal, or has no requester that would learn of a refusal. Then it cannot be refused.
        self.is_owed: Flag = False

    def __repr__(self) -> str:
        return describe_item(self)


def new_client_request(
    requester: Requester, frame: Frame, credit: CreditLimit, route: Route | None
) -> PendingRequest:
    """Make a request of a client without calling `__init__`, which would be a Python call."""
    pending = PendingRequest.__new__(PendingRequest)
    pending.requester = requester
    pending.frame = frame
    pending.credit = credit
    pending.settles = True
    pending.parent = None
    pending.stage = 0
    pending.holds_id = False
    pending.answer = None
    pending.is_answered = False
    pending.is_queued = False
    pending.is_begun = False
    pending.route = None
    pending.counted_route = route
    pending.payload = None
    pending.timer = None
    pending.retries = 0
    pending.duplicates = None
    pending.entry = None
    pending.is_owed = False
    return pending


class Delivery:
    """An event on its way to one subscriber, with its own copy of the data."""

    __slots__ = ("frame", "payload", "route")

    # Any: as for `PendingRequest`.
    def __init__(self, frame: Frame, route: Route, payload: Any) -> None:
        self.frame = frame
        self.route = route
        self.payload = payload

    def __repr__(self) -> str:
        return describe_item(self)


class DeferredTurn(Delivery):
    """A call that a capability makes in a turn of its own, for a timer or for the result of background work.

    It has the frame and the route of the message that has started the timer or the work: what the call sends is caused by that message. Both
    are None if there is no such message, as in `on_start`.
    """

    __slots__ = ("actor",)

    def __init__(self, frame: Any, route: Any, call: DeferredCall, actor: ActorId) -> None:
        super().__init__(frame, route, call)
        # The incarnation that makes the call. Its mailbox is kept for the next one, which does not make it.
        self.actor = actor


def item_name(item: PendingRequest | Delivery) -> str:
    """Return the type of a message, or the name of the function that a timer or background work has called."""
    name: str = item.payload.description if isinstance(item, DeferredTurn) else item.frame.type
    return name


def describe_item(item: PendingRequest | Delivery) -> str:
    """Return the type of a message and its data as JSON, for crash reports, which shorten it."""
    if isinstance(item, DeferredTurn):
        return item_name(item)
    return f"{item.frame.type} {bytes(item.frame.data).decode(errors='replace')}"
