"""`Syscall`: what a node tells about itself, and the few things it can be told to do.

Its queries are about this moment, and its subscriptions about the connection they come by: a repeat is answered anew.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from bandstand.bus.adapters.greeting import Authenticate, Authenticated
from bandstand.bus.backstage import Backstage
from bandstand.bus.contracts.contract import RestartLimits
from bandstand.bus.contracts.describe import Description, describe
from bandstand.bus.contracts.messages import Command, Event, Query
from bandstand.bus.faults import ROUTING_ERROR, FaultAnswer
from bandstand.bus.figures import NodeStats, figures_of
from bandstand.bus.frame import KINDS, Frame, Kind
from bandstand.bus.gate import Client, Lagged
from bandstand.bus.genealogy import Trace, Traced, trace
from bandstand.bus.health import CapabilityHealth, HealthReport, health_of
from bandstand.bus.seat import SeatState
from bandstand.bus.summary import BootSummary
from bandstand.bus.tap import Filter
from bandstand.bus.watching import Pattern, Traffic, Watchman
from bandstand.errors import ActorKilled, Refused, StartFailed
from bandstand.errors.formatting import describe_exception

__all__ = (
    "CapabilityHealth",
    "Describe",
    "Health",
    "HealthTick",
    "NodeStats",
    "Ping",
    "Recent",
    "Reset",
    "StatsQuery",
    "Subscribe",
    "Syscall",
    "Unsubscribe",
)

Name = Annotated[str, Meta(min_length=1, max_length=200)]

# How many messages `Recent` looks through.
FAR_BACK = 10_000


class Pong(Struct, rename="camel"):
    """The node is there."""

    pong: bool
    uptime_ms: int


class Subscribed(Struct, omit_defaults=True):
    """What a connection listens to now."""

    types: list[str]
    unknown: list[str] = msgspec.field(default_factory=list[str])
    """Those of them that no capability has declared: perhaps misspelt."""


class History(Struct):
    """Messages that have passed, the oldest first."""

    messages: list[Frame]


class Describe(Query[Description], type="Syscall.Describe", remember=False):
    """Describe what can be sent to this node, with JSON Schemas and examples."""

    type: Annotated[
        str | None, Meta(description="Only this type, as Memory.Set.", examples=["Memory.Set"])
    ] = None
    capability: Annotated[
        str | None, Meta(description="Only this capability, as Memory.", examples=["Memory"])
    ] = None


class Ping(Query[Pong], type="Syscall.Ping", remember=False):
    """Ask whether the node is there."""


class Health(Query[HealthReport], type="Syscall.Health", remember=False):
    """Ask how the node and its capabilities are."""


class StatsQuery(Query[NodeStats], type="Syscall.Stats", remember=False):
    """Ask what the node has done so far."""


class Subscribe(Command[Subscribed], type="Syscall.Subscribe", remember=False):
    """Have events sent to this connection, besides those it has subscribed to already."""

    types: Annotated[list[Pattern], Meta(min_length=1, max_length=1000)]


class Unsubscribe(Command[Subscribed], type="Syscall.Unsubscribe", remember=False):
    """Do not have these sent any more; with no types at all, none."""

    types: Annotated[list[Pattern], Meta(max_length=1000)] = msgspec.field(default_factory=list[str])


class Reset(Command[None], type="Syscall.Reset"):
    """Start a capability anew: one that has failed too often and is out of service, or one whose handler is stuck at a request that has timed out."""

    capability: Annotated[Name, Meta(examples=["Memory"])]


class Recent(Query[History], type="Syscall.Recent", remember=False):
    """Read the last messages that have passed this node."""

    limit: Annotated[int, Meta(ge=1, le=1000)] = 100
    kinds: list[Kind] = msgspec.field(default_factory=list[Kind])
    types: list[Pattern] = msgspec.field(default_factory=list[str])


class HealthTick(Event, type="Sys.HealthTick", rename="camel"):
    """The node is alive. It comes every so often, for whatever has to be done every so often."""

    uptime_ms: int
    in_flight: int
    unhealthy: list[str]


class Syscall(Watchman):
    """Tells what this node can do, how it is and what it has done, and sends its events to whoever subscribes."""

    # What the node itself says: declared here, so that it is described.
    outbound = BootSummary | HealthTick | Lagged | Traffic
    # Without it nobody could be reset, itself included: it is started again however often it fails.
    policy = RestartLimits(max_restarts=1_000_000, backoff_ms=100)

    def __init__(self, backstage: Backstage) -> None:
        super().__init__(backstage)
        # What is said of everything does not change while the node runs, and is asked for often.
        self._whole: Description | None = None

    def describe(self, msg: Describe) -> Description:
        """Describe all of it, or a part."""
        if msg.type is None and msg.capability is None:
            if self._whole is None:
                self._whole = describe(self._backstage.blueprints)
            return self._whole
        found = describe(self._backstage.blueprints, type=msg.type, capability=msg.capability)
        if not found.capabilities:
            raise Refused(FaultAnswer(ROUTING_ERROR, self._nothing_of(msg)))
        return found

    def _nothing_of(self, msg: Describe) -> str:
        index = self._backstage.router.index
        wanted = " ".join(name for name in (msg.capability, msg.type) if name)
        said = [name for blueprint in self._backstage.blueprints for _, name in blueprint.outbound]
        near = index.similar(msg.type, said) if index is not None and msg.type else ()
        if near:
            return f"there is no {wanted} here; did you mean {' or '.join(near)}?"
        there = ", ".join(blueprint.id for blueprint in self._backstage.blueprints)
        return f"there is no {wanted} here; the capabilities are {there}"

    def ping(self, _msg: Ping) -> Pong:
        """Answer."""
        return Pong(pong=True, uptime_ms=int(self._backstage.uptime_ms()))

    def health(self, _msg: Health) -> HealthReport:
        """Look at every capability."""
        seats = self._backstage.router.seats
        sick = any(seat.is_out_of_service for seat in seats.values())
        return HealthReport(
            status="degraded" if sick else "healthy",
            uptime_ms=int(self._backstage.uptime_ms()),
            capabilities={name: health_of(seat) for name, seat in seats.items()},
        )

    def stats(self, _msg: StatsQuery) -> NodeStats:
        """Take a snapshot of the books."""
        return figures_of(self._backstage)

    def authenticate(self, _msg: Authenticate) -> Authenticated:
        """Say that it is good: whoever gets this far has been let in."""
        return Authenticated(ok=True)

    def subscribe(self, msg: Subscribe) -> Subscribed:
        """Add to what the connection listens to."""
        client = self._client()
        types = client.wants | set(msg.types)
        most = self._backstage.router.config.max_subscriptions
        if len(types) > most:
            raise Refused(f"a connection can listen to {most} types; a pattern, as Memory.*, stands for many")
        return self._listen(client, types)

    def unsubscribe(self, msg: Unsubscribe) -> Subscribed:
        """Take away from it."""
        client = self._client()
        return self._listen(client, client.wants - set(msg.types) if msg.types else frozenset[str]())

    def _listen(self, client: Client, types: frozenset[str]) -> Subscribed:
        client.subscribe(types)
        fanout = self._backstage.fanout
        fanout.listen(client)
        known = fanout.known
        unknown = [name for name in types if "*" not in name and name not in known]
        return Subscribed(sorted(types), sorted(unknown))

    def reset(self, msg: Reset) -> None:
        """Start it anew."""
        seats = self._backstage.router.seats
        seat = seats.get(msg.capability)
        if seat is None:
            raise Refused(f"there is no capability {msg.capability}; there are {', '.join(seats)}")
        if seat.is_stuck or seat.is_unresponsive:
            seat.crash(ActorKilled(f"{seat.id} was stuck, and was reset"))
            return
        if seat.state is not SeatState.UNHEALTHY:
            raise Refused(f"{msg.capability} is {seat.state.value}, and not stuck: there is nothing to reset")
        try:
            self._backstage.ward.reset(seat)
        except StartFailed as error:
            raise Refused(
                f"{msg.capability} was started and failed at once: {error.__cause__ or error}"
            ) from error

    def recent(self, msg: Recent) -> History:
        """Look into the log."""
        where = Filter(kinds=msg.kinds or KINDS, types=msg.types)
        try:
            frames = self._backstage.router.log.recent(FAR_BACK)
        except Exception as error:
            raise Refused(f"the log cannot be read: {describe_exception(error)}") from error
        # Not the answers to this very question: each would hold all those before it.
        found = [
            frame
            for frame in frames
            if where.matches(frame) and (frame.type != Recent.message_type or frame.kind != "reply")
        ]
        return History(found[-msg.limit :])

    def trace(self, msg: Trace) -> Traced:
        """Look into the log."""
        return trace(self._backstage.router.log, msg, self._destination_of)

    def _destination_of(self, frame: Frame) -> str | None:
        backstage = self._backstage
        if frame.kind == "event":
            return ", ".join(backstage.fanout.subscribers_of(frame.type)) or None
        route = backstage.router.find(frame.kind, frame.type) if frame.is_request else None
        return None if route is None else route.seat.id
