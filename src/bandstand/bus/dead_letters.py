"""Dead letters: messages that the bus could not deliver or answer. They are kept for inspection and for another attempt.

These become dead letters: a request that no capability handled, or whose handler failed; an event that a subscriber could not take; an answer whose
client had disconnected. A request that a handler has answered is not a dead letter, and neither is a malformed message: its sender got
an error. The store is limited by number and by bytes. It drops the oldest dead letters first, and counts them.

A dead letter has the id of its message. If another dead letter has the same id, with other content or for another capability, a number is
appended: `x~2`.

`DeadLetterStore` belongs to the router. `DeadLetterWorker` is the built-in capability `Dead` that gives clients access to it. It is a Worker
because a replay takes as long as the handler of the message, and other requests must not wait for it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Annotated, Final, Literal, TypeAlias

import msgspec
from msgspec import Meta, Raw, Struct

from bandstand.bus.contracts.capability import Contract, RestartLimits
from bandstand.bus.contracts.messages import Command, Message, Query, TypePattern
from bandstand.bus.faults import (
    ACTOR_CRASH,
    ACTOR_FAULT,
    IN_DOUBT,
    OVERLOADED,
    REFUSED,
    ROUTING_ERROR,
    SCHEMA_ERROR,
    SHUTTING_DOWN,
    TIMEOUT,
    UNHEALTHY,
    Fault,
    FaultAnswer,
)
from bandstand.bus.frame import LONGEST_TIMEOUT_MS, Frame, Kind, Metadata
from bandstand.bus.request import Delivery, PendingRequest, RedeliveryRequester
from bandstand.bus.request_table import has_same_content
from bandstand.bus.tap import Filter
from bandstand.bus.tracing import ancestors_of, read_lineage
from bandstand.bus.worker import ErrorEvent, Listeners, MessageEvent
from bandstand.errors import InvalidMessageError, RefusedError
from bandstand.supervision import Backoff

if TYPE_CHECKING:
    from bandstand.bus.fanout import EventFanout
    from bandstand.bus.router import Router

__all__ = (
    "REASONS",
    "DeadLetterDetails",
    "DeadLetterEntry",
    "DeadLetterInfo",
    "DeadLetterPage",
    "DeadLetterStore",
    "ListDeadLetters",
    "Purge",
    "Purged",
    "Reason",
    "Replay",
    "Replayed",
    "Settle",
    "Settled",
    "Show",
    "dead_letters_contract",
)

Reason: TypeAlias = Literal[
    "unrouted",
    "overloaded",
    "unhealthy",
    "crashed",
    "fault",
    "timeout",
    "shuttingDown",
    "undelivered",
    "abandoned",
    "inDoubt",
]
"""Why a message became a dead letter."""

REASONS: Final[dict[str, Reason]] = {
    ACTOR_CRASH: "crashed",
    ACTOR_FAULT: "fault",
    OVERLOADED: "overloaded",
    IN_DOUBT: "inDoubt",
    ROUTING_ERROR: "unrouted",
    SHUTTING_DOWN: "shuttingDown",
    TIMEOUT: "timeout",
    UNHEALTHY: "unhealthy",
}
"""A request that is answered with one of these faults becomes a dead letter."""


# -- the store ---------------------------------------------------------------------------------------------------------


class DeadLetterEntry:
    """One dead letter in the store."""

    __slots__ = (
        "answer",
        "at_ms",
        "attempts",
        "capability",
        "frame",
        "id",
        "is_replayed",
        "reason",
        "text",
    )

    def __init__(
        self,
        frame: Frame,
        reason: Reason,
        at_ms: int,
        *,
        answer: Frame | None,
        said: str,
        capability: str | None,
        attempts: int,
    ) -> None:
        self.id = frame.metadata.id
        self.frame = frame
        self.reason: Reason = reason
        self.at_ms = at_ms
        self.answer = answer
        """The answer to the request; None for an event."""
        self.capability = capability
        self.attempts = attempts
        self.is_replayed = False
        """Whether a replay is in progress."""
        self.text = said
        """What went wrong, if the answer does not say it."""

    @property
    def said(self) -> str:
        """What went wrong, in one sentence."""
        if self.text or self.answer is None:
            return self.text
        # Decoded on demand: most dead letters are never looked at.
        return msgspec.json.decode(self.answer.data, type=Fault).message

    @property
    def size(self) -> int:
        """The number of bytes of data in the message and its answer."""
        return len(self.frame.data) + (0 if self.answer is None else len(self.answer.data))

    def has_same_message(self, other: DeadLetterEntry) -> bool:
        """Return whether both contain the same message for the same capability."""
        mine, its = self.frame, other.frame
        return (
            (mine.kind, mine.type, self.capability) == (its.kind, its.type, other.capability)
            and mine.metadata.id == its.metadata.id
            and bytes(mine.data) == bytes(its.data)
        )

    def matches(self, pattern: str | None, reason: Reason | None) -> bool:
        """Return whether the message type matches the pattern, and the reason is `reason`; None matches all."""
        return (reason is None or self.reason == reason) and (
            pattern is None or Filter(types=[pattern]).matches(self.frame)
        )

    def info(self) -> DeadLetterInfo:
        """Return the summary that clients receive."""
        frame = self.frame
        return DeadLetterInfo(
            id=self.id,
            reason=self.reason,
            kind=frame.kind,
            type=frame.type,
            at=self.at_ms,
            attempts=self.attempts,
            said=self.said,
            bytes=self.size,
            capability=self.capability,
            causation=frame.metadata.causation,
            correlation=frame.metadata.correlation,
        )


class DeadLetterStore:
    """The dead letters of one node.

    The counters always balance: `made == len(store) + fallen + removed`.

    Args:
        max_count: the number of dead letters to keep.
        max_bytes: the number of bytes of data to keep.
    """

    __slots__ = (
        "_entries",
        "_max_bytes",
        "_max_count",
        "fallen",
        "held_bytes",
        "made",
        "on_added",
        "on_gone",
        "removed",
    )

    def __init__(self, max_count: int, max_bytes: int) -> None:
        self._max_count = max_count
        self._max_bytes = max_bytes
        self._entries: OrderedDict[str, DeadLetterEntry] = OrderedDict()
        self.held_bytes = 0
        self.made = 0
        """The number of dead letters added so far."""
        self.fallen = 0
        """The number of dead letters dropped because the store was full."""
        self.removed = 0
        """The number of dead letters replayed successfully, purged, or claimed by a repeated request."""
        self.on_added: Callable[[DeadLetterEntry], object] | None = None
        """Called with each dead letter that is added."""
        self.on_gone: Callable[[str, PendingRequest | None], object] | None = None
        """Called with the id of each dead letter that is removed or dropped, and the command that removes it, if one does."""

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[DeadLetterEntry]:
        """Iterate over the dead letters, the newest first."""
        return reversed(self._entries.values())

    def find(self, name: str) -> DeadLetterEntry | None:
        """Return the dead letter with this id, or None."""
        return self._entries.get(name)

    def has_answer(self, request: Frame, answer: Frame) -> bool:
        """Return whether there is a dead letter of a request with this very answer."""
        name, number = request.metadata.id, 1
        while (entry := self._entries.get(name)) is not None:
            if entry.answer is answer:
                return True
            number += 1
            name = f"{request.metadata.id}~{number}"
        return False

    def add(
        self,
        frame: Frame,
        reason: Reason,
        at_ms: int,
        *,
        answer: Frame | None = None,
        said: str = "",
        capability: str | None = None,
        attempts: int = 1,
    ) -> None:
        """Add a dead letter, and drop the oldest ones if the store is full."""
        entry = DeadLetterEntry(
            frame, reason, at_ms, answer=answer, said=said, capability=capability, attempts=attempts
        )
        self.made += 1
        number = 1
        while (other := self._entries.get(entry.id)) is not None:
            if other.has_same_message(entry):
                # The same message has failed again: keep one dead letter with the sum of the attempts.
                entry.attempts += other.attempts
                self.remove(other)
                break
            number += 1
            entry.id = f"{frame.metadata.id}~{number}"
        if entry.size > self._max_bytes or not self._max_count:
            self.fallen += 1
            return
        self._entries[entry.id] = entry
        self.held_bytes += entry.size
        if self.on_added is not None:
            self.on_added(entry)
        self._drop_oldest()

    def _drop_oldest(self) -> None:
        while len(self._entries) > self._max_count or self.held_bytes > self._max_bytes:
            name, oldest = self._entries.popitem(last=False)
            self.held_bytes -= oldest.size
            self.fallen += 1
            if self.on_gone is not None:
                self.on_gone(name, None)

    def restore(self, name: str, entry: DeadLetterEntry) -> None:
        """Add a dead letter from the journal."""
        entry.id = name
        self.made += 1
        self._entries[name] = entry
        self.held_bytes += entry.size
        self._drop_oldest()

    def remove(self, entry: DeadLetterEntry, parent: PendingRequest | None = None) -> bool:
        """Remove a dead letter; return False if it is not in the store any more.

        Args:
            entry: the dead letter.
            parent: the command that removes it. A node with a journal writes both the answer and the removal, or none.
        """
        if self._entries.get(entry.id) is not entry:
            return False
        del self._entries[entry.id]
        self.held_bytes -= entry.size
        self.removed += 1
        if self.on_gone is not None:
            self.on_gone(entry.id, parent)
        return True

    def claim(self, name: str) -> None:
        """Remove an abandoned request: its client has come back and received the answer."""
        entry = self._entries.get(name)
        if entry is not None and entry.reason == "abandoned":
            self.remove(entry)


# -- messages ----------------------------------------------------------------------------------------------------------

# The length of a message id, plus an appended number.
DeadLetterId = Annotated[
    str, Meta(min_length=1, max_length=220, description="The id of a dead letter.", examples=["mine-1"])
]


class DeadLetterInfo(Struct, rename="camel", omit_defaults=True):
    """One message that the bus could not deliver or answer."""

    id: str
    """The id of the message, with a number appended if another dead letter has the same id."""
    reason: Reason
    kind: Kind
    type: str
    at: int
    """The time of the failure, in milliseconds since 1970."""
    attempts: int
    """The number of attempts, including retries and replays."""
    said: str
    """What went wrong, in one sentence."""
    bytes: int
    """The number of bytes of data that are kept."""
    capability: str | None = None
    """The capability that the message was for, if any."""
    causation: str | None = None
    correlation: str | None = None


class DeadLetterPage(Struct):
    """Dead letters, the newest first."""

    letters: list[DeadLetterInfo]
    held: int
    """The number of dead letters in the store."""
    fallen: int
    """The number of dead letters dropped because the store was full."""


class DeadLetterDetails(Struct):
    """A dead letter with its message, its answer and its causes."""

    letter: DeadLetterInfo
    message: Frame
    answer: Frame | None
    """The answer, if the message is a request."""
    lineage: list[Frame]
    """The messages that caused it, the oldest first, as far as the log reaches."""


class Replayed(Struct):
    """The result of a replay."""

    id: str
    replay: str
    """The id of the message that was sent."""
    outcome: Literal["replied", "failed", "delivered"]
    """`replied`: the dead letter is removed; `failed`: it stays; `delivered`: an event reached its subscriber, and the dead letter is removed."""
    answer: Frame | None


class Purged(Struct):
    """The result of a purge."""

    purged: int


class ListDeadLetters(Query[DeadLetterPage], type="Dead.List", remember=False):
    """List dead letters, the newest first."""

    type: TypePattern | None = None
    reason: Reason | None = None
    limit: Annotated[int, Meta(ge=1, le=1000)] = 100
    before: Annotated[
        DeadLetterId | None, Meta(description="Only dead letters that are older than this one.")
    ] = None


class Show(Query[DeadLetterDetails], type="Dead.Show", remember=False):
    """Show one dead letter: the complete message, its answer, and the messages that caused it."""

    id: DeadLetterId


class Replay(Command[Replayed], type="Dead.Replay"):
    """Send the message of a dead letter again, with a new id. The dead letter is removed if that succeeds, and a repeat of a command in doubt gets the reply."""

    id: DeadLetterId


class Purge(Command[Purged], type="Dead.Purge", retry_safe=True):
    """Delete the dead letters with this id, type and reason; all of them by default."""

    id: DeadLetterId | None = None
    type: TypePattern | None = None
    reason: Reason | None = None


class Settled(Struct):
    """The id of a command that is no longer in doubt."""

    id: str


class Settle(Command[Settled], type="Dead.Settle", retry_safe=True):
    """Say what has become of a command that was answered with Sys.InDoubt. A repeat with its id gets that answer from now on."""

    id: Annotated[
        str, Meta(min_length=1, max_length=200, description="The id of the command.", examples=["mine-1"])
    ]
    outcome: Annotated[
        Literal["done", "failed", "again"],
        Meta(
            description="done: it was carried out, and `data` is its reply; failed: it was not, and must not be; again: a repeat is carried out.",
            examples=["done"],
        ),
    ]
    data: Raw = Raw(b"null")
    """The reply, if the outcome is `done`."""
    message: str = ""
    """Why it has failed, if the outcome is `failed`."""


# -- the capability ----------------------------------------------------------------------------------------------------


def dead_letters_contract(router: Router, fanout: EventFanout) -> Contract:
    """Return the contract of the capability `Dead` of one node."""
    return Contract(
        id="Dead",
        description="Keeps messages that could not be delivered or answered: list, show, replay or delete them.",
        inbound=ListDeadLetters | Show | Replay | Purge | Settle,
        spawn=lambda: DeadLetterWorker(router, fanout),
        restarts=RestartLimits(max_restarts=1_000_000, backoff=Backoff(initial=0.1, maximum=0.1)),
        # A replayed message has its own deadline.
        timeout=LONGEST_TIMEOUT_MS / 1000,
    )


class DeadLetterWorker(Listeners):
    """The capability `Dead`."""

    def __init__(self, router: Router, fanout: EventFanout) -> None:
        self._router = router
        self._fanout = fanout
        self._store = router.dead_letters

    @property
    def _command(self) -> PendingRequest | None:
        """The command that is being handled."""
        item = self._router.slots["Dead"].sync_message
        return item if isinstance(item, PendingRequest) else None

    def post_message(self, message: Message, /) -> None:
        """Handle one request. A replay is answered when its outcome is known, everything else immediately."""
        assert message.metadata is not None
        request_id, data = message.metadata.id, message.data
        try:
            if isinstance(data, ListDeadLetters):
                self._reply(request_id, ListDeadLetters, self._list(data))
            elif isinstance(data, Show):
                self._reply(request_id, Show, self._show(self._find(data.id)))
            elif isinstance(data, Purge):
                self._reply(request_id, Purge, self._purge(data))
            elif isinstance(data, Replay):
                self._replay(request_id, self._find(data.id))
            elif isinstance(data, Settle):
                self._reply(request_id, Settle, self._settle(data))
        except RefusedError as refusal:
            self.dispatch_event(ErrorEvent(refusal, request_id))

    def terminate(self) -> None:
        """Do nothing: replays in progress continue without this object."""

    def _reply(self, request_id: str, kind: type[Query[object] | Command[object]], data: object) -> None:
        reply = Message(kind="reply", type=kind.message_type, data=data)
        self.dispatch_event(MessageEvent(reply, request_id))

    def _find(self, name: str) -> DeadLetterEntry:
        entry = self._store.find(name)
        if entry is None:
            raise RefusedError(
                f"there is no dead letter {name}: it was replayed, purged or dropped; Dead.List lists the dead letters"
            )
        return entry

    def _list(self, query: ListDeadLetters) -> DeadLetterPage:
        entries = iter(self._store)
        if query.before is not None:
            before = self._find(query.before)
            while next(entries) is not before:
                pass
        found: list[DeadLetterInfo] = []
        for entry in entries:
            if len(found) == query.limit:
                break
            if entry.matches(query.type, query.reason):
                found.append(entry.info())
        return DeadLetterPage(found, len(self._store), self._store.fallen)

    def _show(self, entry: DeadLetterEntry) -> DeadLetterDetails:
        cause = entry.frame.metadata.causation
        related = () if cause is None else read_lineage(self._router.log, cause)
        return DeadLetterDetails(entry.info(), entry.frame, entry.answer, ancestors_of(related, entry.frame))

    def _purge(self, command: Purge) -> Purged:
        entries = list(self._store) if command.id is None else [self._find(command.id)]
        purged = [
            self._store.remove(entry, self._command)
            for entry in entries
            if entry.matches(command.type, command.reason)
        ]
        return Purged(len(purged))

    def _settle(self, command: Settle) -> Settled:
        router = self._router
        durable = router.durable
        doubt = None if durable is None else durable.find_doubt(command.id)
        if durable is None or doubt is None:
            raise RefusedError(
                f"no command with the id {command.id} is in doubt; Dead.List lists those that are"
            )
        durable.settle(doubt, self._outcome(command, doubt.frame()), self._command)
        if router.steps is not None and command.outcome != "again":
            router.steps.forget_command(command.id, self._command)
        entry = self._store.find(command.id)
        if entry is not None and entry.reason in {"inDoubt", "timeout"}:
            self._store.remove(entry, self._command)
        return Settled(command.id)

    def _outcome(self, command: Settle, request: Frame) -> Frame | None:
        """Return the answer that a repeat gets; None if it is carried out."""
        router = self._router
        if command.outcome == "again":
            return None
        if command.outcome == "failed":
            return router.faults.make(REFUSED, command.message or "it was not carried out", request=request)
        route = router.find(request.kind, request.type)
        if route is not None and route.reply is not None:
            try:
                route.reply.read(command.data)
            except InvalidMessageError as problem:
                where = f"$.data.data{problem.path.removeprefix('$')}"
                raise RefusedError(FaultAnswer(SCHEMA_ERROR, str(problem), where)) from None
        own = request.metadata
        metadata = Metadata(router.ids(), router.ids.last_ms, own.id, own.correlation)
        return Frame(kind="reply", type=request.type, data=command.data.copy(), metadata=metadata)

    def _end_doubt(self, entry: DeadLetterEntry, answer: Frame, command: PendingRequest | None) -> None:
        """Let repeats of a command in doubt get the reply to its replay."""
        durable, own = self._router.durable, entry.frame.metadata
        doubt = None if durable is None else durable.find_doubt(own.id)
        if durable is not None and doubt is not None and has_same_content(doubt.frame(), entry.frame):
            ids = self._router.ids
            metadata = Metadata(ids(), ids.last_ms, own.id, own.correlation)
            reply = Frame(kind="reply", type=answer.type, data=answer.data, metadata=metadata)
            durable.settle(doubt, reply, command)

    # -- replays -------------------------------------------------------------------------------------------------------

    def _replay(self, request_id: str, entry: DeadLetterEntry) -> None:
        if entry.is_replayed:
            raise RefusedError(f"a replay of dead letter {entry.id} is in progress: wait for its result")
        frame, command = self._copy(entry.frame), self._command
        if frame.kind == "event":
            self._finish(request_id, command, entry, frame, None, is_success=self._deliver(entry, frame))
            return

        def finish(answer: Frame) -> None:
            self._finish(request_id, command, entry, frame, answer, is_success=answer.kind == "reply")

        router = self._router
        if router.steps is not None:
            router.steps.note_replay(entry.frame, frame, router.find(frame.kind, frame.type))
        if not router.submit(
            PendingRequest(RedeliveryRequester(finish), frame, router.internal_credit, settles=False)
        ):
            problem = f"the node has reached its limit of requests in progress; dead letter {entry.id} was not replayed: try later"
            raise RefusedError(FaultAnswer(OVERLOADED, problem))
        entry.is_replayed = True

    def _copy(self, frame: Frame) -> Frame:
        """Return the same message with a new id, and with the original as its cause."""
        own, ids = frame.metadata, self._router.ids
        route = self._router.find(frame.kind, frame.type)
        # At least the default timeout: the time that the client had left is irrelevant now.
        timeout = own.timeout if route is None or (own.timeout or 0) > route.timeout_ms else None
        metadata = Metadata(ids(), ids.last_ms, own.id, own.correlation, timeout)
        return Frame(kind=frame.kind, type=frame.type, data=frame.data, metadata=metadata)

    def _deliver(self, entry: DeadLetterEntry, frame: Frame) -> bool:
        """Deliver an event to the one subscriber that has missed it; return whether that succeeded."""
        fanout = self._fanout
        route = fanout.route_to(frame.type, entry.capability or "")
        if route is None:
            return False
        self._router.note(frame, route.slot.id)
        try:
            payload = route.read(frame.data)
        except InvalidMessageError:
            return False
        return fanout.deliver(Delivery(frame, route, payload))

    def _finish(
        self,
        request_id: str,
        command: PendingRequest | None,
        entry: DeadLetterEntry,
        frame: Frame,
        answer: Frame | None,
        *,
        is_success: bool,
    ) -> None:
        entry.is_replayed = False
        if is_success:
            if answer is not None:
                self._end_doubt(entry, answer, command)
            if self._router.steps is not None:
                self._router.steps.forget_command(entry.frame.metadata.id, command)
            self._store.remove(entry, command)
        else:
            entry.attempts += 1
        outcome: Literal["replied", "failed", "delivered"] = "replied" if answer is not None else "delivered"
        result = Replayed(entry.id, frame.metadata.id, outcome if is_success else "failed", answer)
        self._reply(request_id, Replay, result)
