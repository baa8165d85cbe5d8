"""The requests of a node by their ids: open ones, remembered answers, duplicates and retries.

**One table.** Open requests and remembered answers share a dictionary, so a request costs one entry, from its admission until it is
forgotten. Three limits bound what is remembered: the number of answers, their bytes of data, and time; the oldest go first. Time is checked when
an answer is remembered or looked up, so an idle node may hold expired answers, but it does not send them.

**Duplicates.** An id names one request, on whatever connection it comes: a client that did not get the answer, because its connection broke, sends the
request again with the same id. The same content is the same request: it is handled once and gets the same answer. While the first is open, a
duplicate joins it and shares its deadline. Other content under a used id is a mistake: it is answered with a fault, and does not affect the
first. This holds for what clients send: commands, and queries whose class says `remember=True`. A scheduled message is sent once each time it was
scheduled, whatever its id.

The answers that are remembered are those of a capability: a reply, a refusal, a crash. After a fault that means that nothing was done, or that the
result is unknown, the same request is handled anew (see `faults.TRANSIENT`). The same holds once the answer is forgotten, and after a timeout, even while the
handler of the first is still running.

**Retries.** A request that is retried keeps its id, credit and deadline, and its requester does not see the failures in between. The delays are
those of supervisors. A retry that would come after the deadline is not started: the last error is the answer.
"""

# The checker sees one of the two definitions of `join_data`.
# pyright: reportPossiblyUnboundVariable=false

from __future__ import annotations

from random import random
from typing import TYPE_CHECKING, TypeAlias

import msgspec
from msgspec import Raw

from bandstand.bus.durations import to_whole_ms
from bandstand.bus.faults import CONFLICT
from bandstand.bus.frame import Frame, Metadata, data_of, id_of, kind_of, metadata_of, type_of
from bandstand.bus.request import DONE, NEW, ROUTED, PendingRequest
from bandstand.bus.wire import DECODE_ERRORS
from bandstand.errors import InvalidMessageError
from bandstand.errors.validation import LONGEST_MS

try:
    import cython
except ModuleNotFoundError:  # interpreted, without Cython installed
    from bandstand.core import _cython as cython  # type: ignore[no-redef]  # one of the two

if TYPE_CHECKING:
    from bandstand.bus.frame import Kind
    from bandstand.bus.request import Route
    from bandstand.bus.router import Router
    from bandstand.core import TimerId

__all__ = (
    "DuplicateRequests",
    "RememberedAnswer",
    "RequestTable",
    "RetryDue",
    "RetryQueue",
    "has_same_content",
)

Count: TypeAlias = int
Flag: TypeAlias = bool
Moment: TypeAlias = float

# How many requests ahead what will be forgotten is loaded.
PREFETCHED = 4

CANONICAL_ERRORS = (*DECODE_ERRORS, ValueError, TypeError)


if not cython.compiled:
    # Compiled, these are C functions in the .pxd.
    def join_data(first: Raw, second: Raw) -> bytes:
        """Return the data of a request and of its answer as one `bytes`."""
        return b"".join((first, second))

    def prefetch(soon: object) -> None:
        """Do nothing: there is no such thing in Python."""


@cython.freelist(64)
@cython.cclass
class RememberedAnswer:
    """The answer to a request that is done, and what is needed to recognise the request.

    A node holds ten thousands of them, and each one that is forgotten is no longer in the processor's cache. So there are as few objects as
    possible: the data of the request and of the answer are one `bytes`, and nothing else of the two frames is kept.
    """

    __slots__ = ("answer_kind", "answer_type", "data", "id", "kind", "request_size", "type", "until_ms")

    # The request; its data and that of the answer are one `bytes`.
    id: str
    kind: Kind
    type: str
    answer_kind: Kind
    answer_type: str
    data: bytes
    request_size: Count
    # When it is forgotten, on the loop's clock.
    until_ms: Moment

    def request_data(self) -> bytes:
        """Return the data of the request."""
        return self.data[: self.request_size]

    def answer_data(self) -> Raw:
        """Return the data of the answer."""
        return Raw(self.data[self.request_size :])


def remembered_answer(frame: Frame, route: Route | None, answer: Frame, until_ms: Moment) -> RememberedAnswer:
    """Make what is remembered of a request and its answer. Not `__init__`: compiled, that would be a Python call."""
    request_data = data_of(frame)
    remembered = RememberedAnswer.__new__(RememberedAnswer)
    remembered.id = id_of(metadata_of(frame))
    remembered.kind = kind_of(frame)
    # The route's own string: that of the frame is one more object.
    remembered.type = type_of(frame) if route is None else route.type
    remembered.answer_kind = kind_of(answer)
    remembered.answer_type = remembered.type if remembered.answer_kind == "reply" else type_of(answer)
    remembered.request_size = len(request_data)
    remembered.data = join_data(request_data, data_of(answer))
    remembered.until_ms = until_ms
    return remembered


class RequestTable:
    """The open requests and the remembered answers of a node.

    `held_bytes` counts the data of requests and answers, not their envelopes: those are small, and `limit` bounds them.

    Args:
        limit: how many answers are remembered.
        limit_bytes: how many bytes of data they and their requests may have together.
        keep_ms: for how long an answer is remembered.
    """

    __slots__ = (
        "_count",
        "_duplicates",
        "_keep_ms",
        "_known",
        "_limit",
        "_limit_bytes",
        "_ring",
        "_start",
        "held_bytes",
    )

    def __init__(self, limit: Count, limit_bytes: Count, keep_ms: Moment) -> None:
        self._limit: Count = limit
        self._limit_bytes: Count = limit_bytes
        self._keep_ms: Moment = keep_ms
        # The holder of each id; and the open requests that came with the id of another, in their order.
        self._known: dict[str, PendingRequest | RememberedAnswer] = {}
        self._duplicates: dict[PendingRequest, None] = {}
        # The remembered answers: a ring that grows up to `limit`; `_count` places from `_start` on are used.
        self._ring: list[RememberedAnswer | None] = []
        self._start: Count = 0
        self._count: Count = 0
        self.held_bytes: Count = 0

    def __len__(self) -> int:
        return self._count

    def enter(self, pending: PendingRequest) -> Flag:
        """Add a request. Return False if its id is known: then it is a duplicate."""
        if self._known.setdefault(id_of(metadata_of(pending.frame)), pending) is pending:
            pending.holds_id = True
            return True
        self._duplicates[pending] = None
        return False

    def find(self, name: str) -> PendingRequest | RememberedAnswer | None:
        """Return the holder of an id."""
        return self._known.get(name)

    def take_over(self, pending: PendingRequest) -> None:
        """Make a duplicate the holder of its id. An open request that has held it becomes a duplicate."""
        name = id_of(metadata_of(pending.frame))
        other = self._known.get(name)
        if type(other) is PendingRequest:
            first = other
            first.holds_id = False
            self._duplicates[first] = None
        self._duplicates.pop(pending, None)
        self._known[name] = pending
        pending.holds_id = True

    def count_open(self) -> Count:
        """Return how many requests are open."""
        return len(self._known) - self._count + len(self._duplicates)

    def open_requests(self) -> list[PendingRequest]:
        """Return the open requests: the holders of ids in their order of arrival, then the duplicates."""
        holders = [
            holder
            for holder in self._known.values()
            if type(holder) is PendingRequest and holder.stage != DONE
        ]
        return [*holders, *self._duplicates]

    def leave(self, pending: PendingRequest) -> None:
        """Remove a request that is done, without remembering its answer."""
        if pending.holds_id:
            pending.holds_id = False
            del self._known[id_of(metadata_of(pending.frame))]
        else:
            self._duplicates.pop(pending, None)

    def keep(self, pending: PendingRequest, answer: Frame, now_ms: Moment) -> None:
        """Remove a request that holds its id and is done; remember its answer if the limits allow."""
        if self._limit == 0:
            self.leave(pending)
            return
        remembered = remembered_answer(pending.frame, pending.route, answer, now_ms + self._keep_ms)
        if len(remembered.data) > self._limit_bytes:
            self.leave(pending)
            return
        pending.holds_id = False
        self._add(remembered, now_ms)

    def _add(self, remembered: RememberedAnswer, now_ms: Moment) -> None:
        self._known[remembered.id] = remembered
        self.held_bytes += len(remembered.data)
        if self._count == self._limit:
            self._forget_oldest()
            self._prefetch()
        place = self._start + self._count
        if place >= self._limit:
            place -= self._limit
        if place == len(self._ring):
            self._ring.append(remembered)
        else:
            self._ring[place] = remembered
        self._count += 1
        while self.held_bytes > self._limit_bytes:
            self._forget_oldest()
        self.expire(now_ms)

    def restore(self, request: Frame, answer: Frame, now_ms: Moment, age_ms: Moment = 0.0) -> None:
        """Remember an answer from the journal, unless its id is in use.

        Args:
            request: the request.
            answer: its answer.
            now_ms: the time, on the loop's clock.
            age_ms: how long ago it was answered.
        """
        if self._limit == 0 or age_ms >= self._keep_ms or id_of(metadata_of(request)) in self._known:
            return
        remembered = remembered_answer(request, None, answer, now_ms + self._keep_ms - age_ms)
        if len(remembered.data) <= self._limit_bytes:
            self._add(remembered, now_ms)

    def expire(self, now_ms: Moment) -> None:
        """Forget the answers whose time is over."""
        while self._count:
            oldest = self._ring[self._start]
            assert oldest is not None
            if oldest.until_ms > now_ms:
                break
            self._forget_oldest()

    def _forget_oldest(self) -> None:
        start = self._start
        oldest = self._ring[start]
        assert oldest is not None
        self._ring[start] = None
        self.held_bytes -= len(oldest.data)
        self._count -= 1
        start += 1
        self._start = 0 if start == self._limit else start
        # No other request takes over the id of a remembered answer.
        self._known.pop(oldest.id, None)

    def _prefetch(self) -> None:
        """Load the answers that are forgotten next, and what they refer to: both were last used thousands of requests ago."""
        place = self._start + PREFETCHED
        if place + PREFETCHED < len(self._ring):
            prefetch(self._ring[place + PREFETCHED])
            soon = self._ring[place]
            if soon is not None:
                prefetch(soon.id)
                prefetch(soon.data)


class DuplicateRequests:
    """Answers requests that came with the id of another."""

    __slots__ = ("_router",)

    def __init__(self, router: Router) -> None:
        self._router = router

    def take(self, pending: PendingRequest) -> None:
        """Handle a request whose id was known when it was admitted."""
        router, frame = self._router, pending.frame
        route = router.find(frame.kind, frame.type)
        if not pending.credit.remembers or (route is not None and not route.remembers):
            self._take_as_new(pending)
            return
        table = router.requests
        table.expire(router.now_ms())
        first = table.find(frame.metadata.id)
        if first is None or (type(first) is PendingRequest and not _is_remembered(first)):
            table.take_over(pending)
            self._take_as_new(pending)
            return
        if type(first) is PendingRequest:
            kind, type_name, data = first.frame.kind, first.frame.type, bytes(first.frame.data)
        else:
            assert isinstance(first, RememberedAnswer)
            kind, type_name, data = first.kind, first.type, first.request_data()
        if (kind, type_name) != (frame.kind, frame.type) or not is_same_data(data, bytes(frame.data)):
            router.counters.conflicting += 1
            router.note(frame, "none")
            text = (
                f"the id {frame.metadata.id} was used for another request ({kind} {type_name}), with other content; nothing was done: send "
                f"this one with a new id"
            )
            router.fail(pending, CONFLICT, text)
            return
        router.note(frame, "repeat")
        if type(first) is PendingRequest:
            router.counters.joined += 1
            if first.duplicates is None:
                first.duplicates = []
            first.duplicates.append(pending)
        else:
            assert isinstance(first, RememberedAnswer)
            router.counters.repeated += 1
            self._answer(pending, first.answer_kind, first.answer_type, first.answer_data())

    def _take_as_new(self, pending: PendingRequest) -> None:
        pending.stage = NEW
        self._router.take(pending)

    def settle_duplicates(self, first: PendingRequest, answer: Frame) -> None:
        """Send the answer of a request to the duplicates that have joined it."""
        duplicates, first.duplicates = first.duplicates, None
        for pending in duplicates or ():
            # It may have been withdrawn.
            if pending.stage != DONE:
                self._answer(pending, answer.kind, answer.type, answer.data)

    def _answer(self, pending: PendingRequest, kind: Kind, type_name: str, data: Raw) -> None:
        """End a duplicate: the same answer, in an envelope of its own."""
        router, own = self._router, pending.frame.metadata
        answer = Frame(
            kind=kind,
            type=type_name,
            data=data,
            metadata=Metadata(router.ids(), router.ids.last_ms, own.id, own.correlation),
        )
        router.close(pending)
        router.requests.leave(pending)
        router.note(answer, "requester")
        if kind == "reply":
            router.counters.answered += 1
        else:
            router.counters.fail(type_name)
        if router.settle(pending, answer):
            # The client now has the answer that was not delivered the first time.
            router.dead_letters.claim(own.id)
        else:
            router.leave_unsettled(pending, answer)
        if router.on_credit is not None:
            router.on_credit()


def _is_remembered(pending: PendingRequest) -> bool:
    """Return whether the answer to an open request will be remembered, as far as that is known."""
    return pending.credit.remembers and (pending.route is None or pending.route.remembers)


def has_same_content(first: Frame, other: Frame) -> bool:
    """Return whether two requests have the same kind, type and data, however the data is written."""
    return (first.kind, first.type) == (other.kind, other.type) and is_same_data(
        bytes(first.data), bytes(other.data)
    )


def is_same_data(first: bytes, other: bytes) -> bool:
    """Return whether two JSON texts mean the same."""
    return first == other or _canonical(first) == _canonical(other)


def _canonical(data: bytes) -> bytes:
    """Return JSON with sorted keys and without white space; the data itself if Python cannot decode it."""
    try:
        return msgspec.json.encode(msgspec.json.decode(data), order="sorted")
    except CANONICAL_ERRORS:
        return data


class RetryDue:
    """A timer message: retry a request."""

    __slots__ = ("pending",)

    def __init__(self, pending: PendingRequest) -> None:
        self.pending = pending


class RetryQueue:
    """The requests that wait for their next attempt."""

    __slots__ = ("_router", "_waiting")

    def __init__(self, router: Router) -> None:
        self._router = router
        self._waiting: dict[PendingRequest, TimerId] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def __contains__(self, pending: PendingRequest) -> bool:
        return pending in self._waiting

    def plan(self, pending: PendingRequest, fault: Frame) -> bool:
        """Schedule the next attempt of a failed request. Return False if its policy or its deadline does not allow one."""
        router, route = self._router, pending.route
        retry = None if route is None else route.retry
        if retry is None or fault.type not in retry.on or pending.retries + 1 >= retry.attempts:
            return False
        delay = retry.delay(pending.retries, random())  # noqa: S311  # jitter, not a secret
        wait_ms = to_whole_ms("delay", delay, most=LONGEST_MS)
        if router.now_ms() + wait_ms >= router.due_ms(pending):
            return False
        pending.retries += 1
        router.counters.retries += 1
        pending.is_begun = pending.is_answered = False
        if pending.entry is not None:
            assert router.durable is not None
            router.durable.pause(pending)
        # The timer message needs no credit of its own: the request holds a slot of the router's mailbox, which is free now.
        self._waiting[pending] = router.loop.send_after(router.actor, wait_ms / 1000, RetryDue(pending))
        return True

    def fire(self, due: RetryDue) -> None:
        """Start the next attempt of a request."""
        router, pending = self._router, due.pending
        if self._waiting.pop(pending, None) is None or pending.stage != ROUTED:
            return
        route = pending.route
        assert route is not None
        try:
            # Decode the data again: the handler may have changed the payload.
            pending.payload = route.read(pending.frame.data)
        except InvalidMessageError as problem:
            router.fail_unread(pending, problem)
            return
        if pending.entry is None:
            router.deliver(pending)
        else:
            assert router.durable is not None
            router.durable.resume(pending)

    def cancel(self, pending: PendingRequest) -> None:
        """Cancel the next attempt of a request, if there is one."""
        timer = self._waiting.pop(pending, None)
        if timer is not None and timer.pending:
            self._router.loop.cancel_timer(timer)
