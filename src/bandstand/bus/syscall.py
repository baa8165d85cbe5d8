"""The built-in capability `Syscall`: clients inspect and operate a node with it.

It describes what can be sent, reports health and statistics, subscribes connections to events, copies traffic to connections that watch, restarts
capabilities, and reads the message log.

Queries are about the current state, and subscriptions about the connection they come from. So their answers are not remembered: a repeated
request is handled again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, final

import msgspec
from msgspec import Meta, Raw, Struct

from bandstand.bus.adapters.authentication import Authenticate, Authenticated
from bandstand.bus.boot_summary import BootSummary
from bandstand.bus.capability_slot import CapabilityState
from bandstand.bus.contracts.capability import Capability, RestartLimits
from bandstand.bus.contracts.describe import Description, describe
from bandstand.bus.contracts.messages import Command, Event, Query, TypePattern
from bandstand.bus.durable.reader import Offset, Selection
from bandstand.bus.faults import ROUTING_ERROR, FaultAnswer
from bandstand.bus.frame import KINDS, Frame, Kind, Metadata
from bandstand.bus.health import CapabilityHealth, HealthReport, HealthTick, health_of
from bandstand.bus.ingress import EventsMissed, Peer
from bandstand.bus.request import PendingRequest
from bandstand.bus.stats import NodeStats, collect_node_stats
from bandstand.bus.tap import Filter
from bandstand.bus.tracing import Trace, Traced, trace
from bandstand.errors import ActorKilledError, JournalError, RefusedError, StartError
from bandstand.errors.formatting import describe_exception, safe_str
from bandstand.supervision import Backoff

if TYPE_CHECKING:
    from bandstand.bus.capability_monitor import CapabilityMonitor
    from bandstand.bus.contracts.capability import CapabilitySpec
    from bandstand.bus.durable.history import JournalHistory
    from bandstand.bus.durable.reader import Entry
    from bandstand.bus.fanout import EventFanout
    from bandstand.bus.ingress import ClientIngress
    from bandstand.bus.router import Router
    from bandstand.bus.scheduler import Scheduler
    from bandstand.bus.tap import Tap

__all__ = (
    "CapabilityHealth",
    "Describe",
    "HealthQuery",
    "HealthTick",
    "LogEnded",
    "Logged",
    "NodeInternals",
    "NodeStats",
    "Ping",
    "Recent",
    "Reset",
    "StatsQuery",
    "Subscribe",
    "Syscall",
    "Traffic",
    "Unsubscribe",
    "Unwatch",
    "Watch",
    "Watching",
)

Name = Annotated[str, Meta(min_length=1, max_length=200)]

OffsetText = Annotated[
    str,
    Meta(
        # The lookahead excludes the trailing newline that Python's `$` allows.
        pattern=r"^[0-9]{1,18}-[0-9]{1,9}$(?!\n)",
        description="An offset in the journal: 0-0 is before the oldest message.",
        examples=["12-3"],
    ),
]

# How many logged messages `Recent` searches.
MAX_SEARCHED = 10_000
# How many reads of the journal run at once: other requests do not wait for them.
MAX_READS = 8
# How many connections may watch at once: each one adds to the cost of every message.
MAX_WATCHERS = 64


@dataclass(slots=True)
class NodeInternals:
    """The parts of a node that `Syscall` works with."""

    router: Router
    fanout: EventFanout
    ingress: ClientIngress
    scheduler: Scheduler
    monitor: CapabilityMonitor
    uptime_ms: Callable[[], float]
    history: JournalHistory | None = None
    """The journal of the node; None if it has none."""
    specs: tuple[CapabilitySpec, ...] = ()
    watchers: dict[Peer, TrafficWatcher] = field(default_factory=dict["Peer", "TrafficWatcher"])
    """The connections that watch. Kept here, so that they survive a restart of the capability."""


# -- messages --------------------------------------------------------------------------------------------------------------


class Pong(Struct, rename="camel"):
    """The reply to a ping."""

    pong: bool
    uptime_ms: int


class Subscribed(Struct, omit_defaults=True):
    """The subscriptions of a connection."""

    types: list[str]
    unknown: list[str] = msgspec.field(default_factory=list[str])
    """Types among them that no capability declares: perhaps misspelled."""


class MessageHistory(Struct, omit_defaults=True):
    """Logged messages, the oldest first."""

    messages: list[Frame]
    offsets: list[str] = msgspec.field(default_factory=list[str])
    """The places of the messages in the journal, if they come from there."""
    next: str | None = None
    """Pass it as `after` to continue."""
    end: bool = False
    """Whether the journal has nothing behind them now."""
    gap: bool = False
    """Whether messages behind `after` were deleted before they were read."""


class Watching(Struct):
    """What a connection watches."""

    types: list[str]
    kinds: list[Kind]


class Describe(Query[Description], type="Syscall.Describe", remember=False):
    """Describe what can be sent to this node, with JSON Schemas and examples."""

    type: Annotated[
        str | None, Meta(description="Only this type, as Memory.Set.", examples=["Memory.Set"])
    ] = None
    capability: Annotated[
        str | None, Meta(description="Only this capability, as Memory.", examples=["Memory"])
    ] = None


class Ping(Query[Pong], type="Syscall.Ping", remember=False):
    """Check that the node answers."""


class HealthQuery(Query[HealthReport], type="Syscall.Health", remember=False):
    """Report the health of the node and its capabilities."""


class StatsQuery(Query[NodeStats], type="Syscall.Stats", remember=False):
    """Report the statistics of the node."""


class Subscribe(Command[Subscribed], type="Syscall.Subscribe", remember=False):
    """Subscribe this connection to events, in addition to its present subscriptions.

    With `after`, it gets these events from the journal of the node: those behind that offset, and then those that are written later, each as Sys.Logged
    with its offset. That replaces what it got from the journal before, and is no subscription to the events themselves.
    """

    types: Annotated[list[TypePattern], Meta(min_length=1, max_length=1000)]
    after: OffsetText | None = None


class Unsubscribe(Command[Subscribed], type="Syscall.Unsubscribe", remember=False):
    """Remove subscriptions of this connection; all of them, and that to the journal, if `types` is empty."""

    types: Annotated[list[TypePattern], Meta(max_length=1000)] = msgspec.field(default_factory=list[str])


class Reset(Command[None], type="Syscall.Reset"):
    """Restart a capability that is out of service, or whose handler is stuck on a request that has timed out."""

    capability: Annotated[Name, Meta(examples=["Memory"])]


class Recent(Query[MessageHistory], type="Syscall.Recent", remember=False):
    """Read the last messages from the log of this node; with `after`, the commands, answers and events in its journal from there on."""

    limit: Annotated[int, Meta(ge=1, le=1000)] = 100
    kinds: list[Kind] = msgspec.field(default_factory=list[Kind])
    types: list[TypePattern] = msgspec.field(default_factory=list[str])
    after: OffsetText | None = None


class Watch(Command[Watching], type="Syscall.Watch", remember=False):
    """Send this connection a copy of every message that passes the router, as Sys.Traffic. Replaces what it watched before."""

    types: Annotated[list[TypePattern], Meta(max_length=1000)] = msgspec.field(default_factory=list[str])
    kinds: Annotated[list[Kind], Meta(description="Only these kinds; all if empty.")] = msgspec.field(
        default_factory=list[Kind]
    )


class Unwatch(Command[None], type="Syscall.Unwatch", remember=False):
    """Stop watching."""


class Traffic(Event, type="Sys.Traffic"):
    """A copy of a message that has passed the router. Only connections that have sent Syscall.Watch get it."""

    message: Frame
    to: Annotated[str, Meta(description="The destination of the message.")] = ""


class Logged(Event, type="Sys.Logged"):
    """An event in the journal. Only connections that have sent Syscall.Subscribe with `after` get it."""

    message: Frame
    offset: Annotated[
        str, Meta(description="Its place in the journal: pass it as `after` to continue behind it.")
    ]
    gap: Annotated[
        bool, Meta(description="Whether events before it were deleted before they could be sent.")
    ] = False


class LogEnded(Event, type="Sys.LogEnded"):
    """No more events come from the journal: it cannot be read. Only connections that have sent Syscall.Subscribe with `after` get it."""

    reason: str


# -- traffic ---------------------------------------------------------------------------------------------------------------


@final
class TrafficWatcher:
    """Copies messages to one connection that watches.

    A copy is the data of an event of its own, so the client cannot mistake it for an answer. Copies do not pass the router and are not watched in turn.
    The node does not wait for the client: copies that it misses are counted, and reported with `Sys.Lagged`, as for events.
    """

    def __init__(self, internals: NodeInternals, client: Peer, where: Filter) -> None:
        self._internals = internals
        self._client = client
        self._where = where
        # The tap has no filter: every message shows whether the client has disconnected.
        self._tap: Tap = internals.router.taps.add(self._copy)

    def stop(self) -> None:
        """Send no more copies."""
        self._tap.remove()
        watchers = self._internals.watchers
        if watchers.get(self._client) is self:
            del watchers[self._client]

    def _copy(self, frame: Frame, destination: str) -> None:
        client = self._client
        if not client.is_open:
            self.stop()
        elif self._where.matches(frame):
            ids = self._internals.router.ids
            data = Raw(msgspec.json.encode(Traffic(frame, destination)))
            metadata = Metadata(ids(), ids.last_ms, frame.metadata.id)
            client.publish(Frame(kind="event", type=Traffic.message_type, data=data, metadata=metadata))


@final
class LogFollower:
    """Sends events of the journal to one connection.

    The journal is read only while the client keeps up, so it misses no event.
    """

    def __init__(self, internals: NodeInternals, client: Peer) -> None:
        self._internals = internals
        self.client = client

    @property
    def is_open(self) -> bool:
        """Whether the client is connected."""
        return self.client.is_open

    @property
    def is_writable(self) -> bool:
        """Whether the client keeps up."""
        return self.client.line.is_writable

    def send(self, entry: Entry, *, has_gap: bool) -> None:
        """Send an event."""
        assert entry.message is not None
        self._deliver(Logged(entry.message, str(entry.offset), has_gap), entry.message.metadata.id)

    def end(self, reason: str) -> None:
        """Say that no more events come."""
        self._deliver(LogEnded(reason), None)

    def _deliver(self, event: Logged | LogEnded, cause: str | None) -> None:
        ids = self._internals.router.ids
        metadata = Metadata(ids(), ids.last_ms, cause)
        data = Raw(msgspec.json.encode(event))
        self.client.line.deliver(
            Frame(kind="event", type=event.message_type, data=data, metadata=metadata), settles=False
        )


# -- the capability --------------------------------------------------------------------------------------------------------


class Syscall(Capability):
    """Describes the node, reports its health, statistics and traffic, and sends events to connections that subscribe."""

    # The node publishes these events; they are declared here, so that they are described.
    outbound = BootSummary | HealthTick | EventsMissed | Traffic | Logged | LogEnded
    # It is restarted however often it fails: it is what resets the other capabilities.
    restarts = RestartLimits(max_restarts=1_000_000, backoff=Backoff(initial=0.1, maximum=0.1))
    concurrency = MAX_READS

    def __init__(self, internals: NodeInternals) -> None:
        self._internals = internals
        # The description of all capabilities does not change, and is requested often.
        self._description: Description | None = None

    def describe(self, msg: Describe) -> Description:
        """Describe all capabilities, one of them, or one type."""
        if msg.type is None and msg.capability is None:
            if self._description is None:
                self._description = describe(self._internals.specs)
            return self._description
        found = describe(self._internals.specs, type=msg.type, capability=msg.capability)
        if not found.capabilities:
            raise RefusedError(FaultAnswer(ROUTING_ERROR, self._not_found_text(msg)))
        return found

    def _not_found_text(self, msg: Describe) -> str:
        index = self._internals.router.index
        wanted = " ".join(name for name in (msg.capability, msg.type) if name)
        outbound = [name for spec in self._internals.specs for _, name in spec.outbound]
        near = index.similar(msg.type, outbound) if index is not None and msg.type else ()
        if near:
            return f"there is no {wanted} here; did you mean {' or '.join(near)}?"
        names = ", ".join(spec.id for spec in self._internals.specs)
        return f"there is no {wanted} here; the capabilities are {names}"

    def ping(self, _msg: Ping) -> Pong:
        """Answer."""
        return Pong(pong=True, uptime_ms=int(self._internals.uptime_ms()))

    def health(self, _msg: HealthQuery) -> HealthReport:
        """Report the health of every capability."""
        slots = self._internals.router.slots
        is_degraded = any(slot.is_out_of_service for slot in slots.values())
        return HealthReport(
            status="degraded" if is_degraded else "healthy",
            uptime_ms=int(self._internals.uptime_ms()),
            capabilities={name: health_of(slot) for name, slot in slots.items()},
        )

    def stats(self, _msg: StatsQuery) -> NodeStats:
        """Return a snapshot of the statistics."""
        internals = self._internals
        return collect_node_stats(internals.router, internals.scheduler, internals.ingress)

    def authenticate(self, _msg: Authenticate) -> Authenticated:
        """Confirm: the adapter has checked the token already, or needs none."""
        return Authenticated(ok=True)

    def reset(self, msg: Reset) -> None:
        """Restart a capability."""
        slots = self._internals.router.slots
        slot = slots.get(msg.capability)
        if slot is None:
            raise RefusedError(f"there is no capability {msg.capability}; there are {', '.join(slots)}")
        if slot.is_stuck or slot.is_unresponsive:
            slot.crash(ActorKilledError(f"{slot.id} was stuck, and was reset"))
            return
        if slot.state is not CapabilityState.UNHEALTHY:
            raise RefusedError(
                f"{msg.capability} is {slot.state.value}, and not stuck: there is nothing to reset"
            )
        try:
            self._internals.monitor.reset(slot)
        except StartError as error:
            raise RefusedError(
                f"{msg.capability} was started and failed at once: {error.__cause__ or error}"
            ) from error

    # -- connections -------------------------------------------------------------------------------------------------------

    def subscribe(self, msg: Subscribe) -> Subscribed:
        """Add subscriptions to the connection, or send it the journal."""
        client = self._client()
        if msg.after is not None:
            return self._follow(client, msg.types, Offset.parse(msg.after))
        types = client.wants | set(msg.types)
        limit = self._internals.router.config.max_subscriptions
        if len(types) > limit:
            raise RefusedError(
                f"a connection can subscribe to {limit} types; a pattern, as Memory.*, stands for many"
            )
        return self._set_subscriptions(client, types)

    def unsubscribe(self, msg: Unsubscribe) -> Subscribed:
        """Remove subscriptions of the connection."""
        client = self._client()
        types = client.wants - set(msg.types) if msg.types else frozenset[str]()
        if not msg.types:
            self._unfollow(client)
        return self._set_subscriptions(client, types)

    def _follow(self, client: Peer, types: list[str], after: Offset) -> Subscribed:
        history = self._history()
        self._unfollow(client)
        followers = [each for each in history.followers if each.is_open]
        if len(followers) >= MAX_WATCHERS:
            raise RefusedError(
                f"{MAX_WATCHERS} connections follow the journal already, which is the limit: try again later"
            )
        where = Selection(types=types, kinds=["event"], is_passed=True)
        history.follow(LogFollower(self._internals, client), after, where)
        return self._subscribed(frozenset(types))

    def _unfollow(self, client: Peer) -> None:
        """Send a connection no more of the journal, and forget those that have disconnected."""
        history = self._internals.history
        for each in () if history is None else history.followers:
            if not each.is_open or (isinstance(each, LogFollower) and each.client is client):
                assert history is not None
                history.stop(each)

    def _history(self) -> JournalHistory:
        history = self._internals.history
        if history is None:
            raise RefusedError(
                "this node has no journal: leave out `after`, or start the node with a journal"
            )
        return history

    def _set_subscriptions(self, client: Peer, types: frozenset[str]) -> Subscribed:
        client.subscribe(types)
        self._internals.fanout.update_listener(client)
        return self._subscribed(types)

    def _subscribed(self, types: frozenset[str]) -> Subscribed:
        known = self._internals.fanout.known
        unknown = [name for name in types if "*" not in name and name not in known]
        return Subscribed(sorted(types), sorted(unknown))

    def watch(self, msg: Watch) -> Watching:
        """Copy traffic to the connection."""
        client = self._client()
        watchers = self._internals.watchers
        if (before := watchers.get(client)) is not None:
            before.stop()
        if len(watchers) >= MAX_WATCHERS:
            raise RefusedError(
                f"{MAX_WATCHERS} connections watch already, which is the limit: try again later"
            )
        where = Filter(types=msg.types, kinds=msg.kinds)
        watchers[client] = TrafficWatcher(self._internals, client, where)
        return Watching(sorted(msg.types) or ["*"], sorted(msg.kinds))

    def unwatch(self, _msg: Unwatch) -> None:
        """Stop copying traffic to the connection."""
        watcher = self._internals.watchers.get(self._client())
        if watcher is not None:
            watcher.stop()

    def _client(self) -> Peer:
        """Return the connection that the current request came from.

        Raises:
            Refused: it came from inside the process, or the connection is closed.
        """
        item = self.bus.current_message
        if not isinstance(item, PendingRequest) or not isinstance(item.requester, Peer):
            raise RefusedError(
                "only a connection can subscribe or watch: a capability declares its subscriptions in its contract"
            )
        if not item.requester.is_open:
            raise RefusedError("the connection is closed")
        return item.requester

    # -- the log -----------------------------------------------------------------------------------------------------------

    async def recent(self, msg: Recent) -> MessageHistory:
        """Read messages from the log, or from the journal."""
        if msg.after is not None:
            return await self._recent_after(msg, msg.after)
        where = Filter(kinds=msg.kinds or KINDS, types=msg.types)
        try:
            frames = self._internals.router.log.recent(MAX_SEARCHED)
        except Exception as error:
            raise RefusedError(f"the log cannot be read: {describe_exception(error)}") from error
        # Without the replies to this query: each would contain all earlier ones.
        found = [
            frame
            for frame in frames
            if where.matches(frame) and (frame.type != Recent.message_type or frame.kind != "reply")
        ]
        return MessageHistory(found[-msg.limit :])

    async def _recent_after(self, msg: Recent, after: str) -> MessageHistory:
        history = self._internals.history
        if history is None:
            raise RefusedError(
                "this node has no journal: leave out `after`, or start the node with a journal"
            )
        where = Selection(types=msg.types, kinds=msg.kinds, is_passed=True)
        try:
            batch = await history.read(Offset.parse(after), where, msg.limit)
        except JournalError as error:
            raise RefusedError(f"the journal cannot be read: {safe_str(error)}") from error
        return MessageHistory(
            [entry.message for entry in batch.entries if entry.message is not None],
            [str(entry.offset) for entry in batch.entries],
            str(batch.next),
            batch.is_end,
            batch.has_gap,
        )

    def trace(self, msg: Trace) -> Traced:
        """Find the causes and effects of a message in the log."""
        return trace(self._internals.router.log, msg, self._destination_of)

    def _destination_of(self, frame: Frame) -> str | None:
        internals = self._internals
        if frame.kind == "event":
            return ", ".join(internals.fanout.subscribers_of(frame.type)) or None
        route = internals.router.find(frame.kind, frame.type) if frame.is_request else None
        return None if route is None else route.slot.id
