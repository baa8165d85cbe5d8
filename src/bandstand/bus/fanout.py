"""Event fan-out: sends each event to its subscribers. A capability gets its own copy, a client a line.

Publishing never waits. A capability whose mailbox is full, or that is out of service, misses the event: that is counted, and makes a dead letter. A
client that does not keep up misses it too, and learns how many events it has missed once it reads again. An event that nothing subscribes to is
counted and logged: often its type is misspelled on one side.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bandstand.bus.capability_slot import CapabilityState
from bandstand.bus.contracts.capability import SYSTEM_PREFIX
from bandstand.bus.faults import ROUTING_ERROR, SCHEMA_ERROR, FaultAnswer
from bandstand.bus.request import Delivery
from bandstand.core.logs import RateLimitedLog, SafeLogger
from bandstand.errors import InvalidMessageError, RefusedError

if TYPE_CHECKING:
    from bandstand.bus.admission import CreditLimit
    from bandstand.bus.contracts.codec import PayloadCodec
    from bandstand.bus.frame import Frame
    from bandstand.bus.ingress import Peer
    from bandstand.bus.request import Route
    from bandstand.bus.router import Router
    from bandstand.core import Clock

__all__ = ("EventFanout",)

logger = SafeLogger("bandstand.bus")

# How many event types have a cached list of listeners. Clients can invent types without end.
MAX_CACHED_TYPES = 4096


class EventFanout:
    """Sends events to the capabilities and clients that subscribe."""

    __slots__ = (
        "_declared",
        "_last_suspect",
        "_listeners",
        "_listeners_by_type",
        "_router",
        "_subscribers",
        "_suspect_count",
        "_suspect_log",
        "_unheard_texts",
    )

    def __init__(self, router: Router, clock: Clock) -> None:
        self._router = router
        self._subscribers: dict[str, tuple[Route, ...]] = {}
        # The events that capabilities declare: events of clients are checked against them.
        self._declared: dict[str, PayloadCodec] = {}
        self._listeners: list[Peer] = []
        # A cache: the clients that subscribe to a type.
        self._listeners_by_type: dict[str, tuple[Peer, ...]] = {}
        # Events without a subscriber whose type is similar to one that has some: probably a typing error.
        self._suspect_log = RateLimitedLog(
            logger, clock, "%d events (%d in all) had no subscriber; the latest is %s"
        )
        self._suspect_count = 0
        self._last_suspect = ""
        # A cache: what the log says of a suspect event, by its type and whether it came from a client; "" if it is not suspect.
        self._unheard_texts: dict[tuple[str, bool], str] = {}

    def install_subscribers(self) -> None:
        """Install the subscriptions of the router's capabilities."""
        subscribers: dict[str, list[Route]] = {}
        for slot in self._router.slots.values():
            for route in slot.routes:
                if route.entry.kind == "event":
                    subscribers.setdefault(route.type, []).append(route)
            for (kind, type_name), payload in slot.spec.outbound.items():
                if kind == "event":
                    self._declared.setdefault(type_name, payload)
        self._subscribers = {type_name: tuple(routes) for type_name, routes in subscribers.items()}

    @property
    def known(self) -> frozenset[str]:
        """The types of events that a capability declares or subscribes to."""
        return frozenset(self._declared) | frozenset(self._subscribers)

    # -- clients -----------------------------------------------------------------------------------------------------------

    def update_listener(self, peer: Peer) -> None:
        """Add, update or remove a client after its subscriptions have changed."""
        if peer.wants and peer not in self._listeners:
            self._listeners.append(peer)
        elif not peer.wants and peer in self._listeners:
            self._listeners.remove(peer)
        self._listeners_by_type.clear()

    def _listeners_for(self, frame: Frame) -> tuple[Peer, ...]:
        listeners = self._listeners_by_type.get(frame.type)
        if listeners is None:
            if len(self._listeners_by_type) >= MAX_CACHED_TYPES:
                self._listeners_by_type.clear()
            listeners = tuple(peer for peer in self._listeners if peer.hears(frame))
            self._listeners_by_type[frame.type] = listeners
        return listeners

    # -- events ------------------------------------------------------------------------------------------------------------

    def publish(self, frame: Frame, peer: Peer | None, credit: CreditLimit | None = None) -> None:
        """Route an event. An event of a client is checked first, and answered with an error if it is wrong.

        Args:
            frame: the event.
            peer: the client that has sent it; None if a capability or the node has.
            credit: the limit that it takes a slot of until it is routed.
        """
        router = self._router
        routes = self._subscribers.get(frame.type, ())
        # The names are needed only for taps.
        names = ", ".join([route.slot.id for route in routes]) if router.taps.entries else ""
        router.note(frame, names or "none")
        durable = router.durable
        if peer is not None:
            try:
                self.check(frame, "$")
                if durable is not None:
                    durable.check_room()
            except RefusedError as refusal:
                self._release(credit)
                self._reject(peer, frame, refusal)
                return
        router.counters.events += 1
        if durable is not None and not frame.type.startswith(SYSTEM_PREFIX):
            durable.publish(frame, peer, credit)
        else:
            self._release(credit)
            self.send(frame, peer)

    def _release(self, credit: CreditLimit | None) -> None:
        if credit is not None:
            credit.used -= 1
            if self._router.on_credit is not None:
                self._router.on_credit()

    def send(self, frame: Frame, peer: Peer | None) -> None:
        """Send an event to its subscribers. On a node with a journal it is durable by now."""
        router = self._router
        routes = self._subscribers.get(frame.type, ())
        for route in routes:
            try:
                payload = route.read(frame.data)
            except InvalidMessageError as problem:
                # Publisher and subscriber declare the event differently.
                text = f"event {frame.type} does not match the declaration of {route.slot.id}: {problem}"
                fault = router.faults.make(SCHEMA_ERROR, text, request=frame, path=problem.path)
                router.sink(fault)
                router.add_dead_letter(Delivery(frame, route, None), "undelivered", fault)
                continue
            delivery = Delivery(frame, route, payload)
            if not self.deliver(delivery):
                router.counters.undelivered += 1
                is_unhealthy = route.slot.state is CapabilityState.UNHEALTHY
                why = "is out of service" if is_unhealthy else "has a full mailbox"
                router.add_dead_letter(
                    delivery, "undelivered", None, f"{route.slot.id} {why}, and has missed the event"
                )
        listeners = self._listeners_for(frame) if self._listeners else ()
        for listener in listeners:
            listener.publish(frame)
        if not routes and not listeners and not frame.type.startswith(SYSTEM_PREFIX):
            router.counters.unheard += 1
            self._report_unheard(frame.type, is_client=peer is not None)

    def _report_unheard(self, type_name: str, *, is_client: bool) -> None:
        """Warn of an event without a subscriber if its type looks misspelled; otherwise mention the type once, at level INFO."""
        text = self._unheard_texts.get((type_name, is_client))
        if text is None:
            if len(self._unheard_texts) >= MAX_CACHED_TYPES:
                self._unheard_texts.clear()
            source = self._source_of(type_name, is_client=is_client)
            near = () if self._router.index is None else self._router.index.nearest_events(type_name)
            text = f"{type_name} of {source}: did you mean {' or '.join(near)}?" if near else ""
            self._unheard_texts[type_name, is_client] = text
            if not near:
                logger.info(
                    "%s of %s has no subscriber: no capability has a handler for it, and no client subscribes to it",
                    type_name,
                    source,
                )
        if text:
            self._suspect_count += 1
            self._last_suspect = text
            self._suspect_log.update(self._suspect_count, text)

    def _source_of(self, type_name: str, *, is_client: bool) -> str:
        # A capability emits only what it declares.
        emitters = [
            slot.id for slot in self._router.slots.values() if ("event", type_name) in slot.spec.outbound
        ]
        return "a client" if is_client else " or ".join(emitters) or "the program"

    def flush_log(self) -> None:
        """Log the suspect events that are not logged yet: the node is stopping."""
        self._suspect_log.update(self._suspect_count, self._last_suspect, force=True)

    def check(self, frame: Frame, path: str) -> None:
        """Refuse an event that a client may not publish, or whose data is wrong. `path` is its place, for the error.

        Raises:
            Refused: with the fault that it would be answered with.
        """
        if frame.type.startswith("Sys."):
            text = f"{frame.type}: only the node publishes events that begin with Sys."
            raise RefusedError(FaultAnswer(ROUTING_ERROR, text, f"{path}.type"))
        declared = self._declared.get(frame.type)
        readers = [] if declared is None else [declared.read]
        for read in (*readers, *(route.read for route in self._subscribers.get(frame.type, ()))):
            try:
                read(frame.data)
            except InvalidMessageError as problem:
                where = f"{path}{problem.path.removeprefix('$')}"
                raise RefusedError(FaultAnswer(SCHEMA_ERROR, str(problem), where)) from None

    def _reject(self, peer: Peer, frame: Frame, refusal: RefusedError) -> None:
        router, answer = self._router, refusal.answer
        assert isinstance(answer, FaultAnswer)
        router.counters.refused += 1
        fault = router.faults.make(answer.type, answer.message, request=frame, path=answer.path)
        router.note(fault, "requester")
        peer.settle(fault, False)  # noqa: FBT003  # an event takes no credit of its connection

    def subscribers_of(self, type_name: str) -> tuple[str, ...]:
        """Return the capabilities that subscribe to a type of events."""
        return tuple(route.slot.id for route in self._subscribers.get(type_name, ()))

    def route_to(self, type_name: str, capability: str) -> Route | None:
        """Return the route of an event to one subscriber; None if it does not subscribe."""
        routes = self._subscribers.get(type_name, ())
        return next((route for route in routes if route.slot.id == capability), None)

    def deliver(self, delivery: Delivery) -> bool:
        """Send an event to one subscriber. Return False if its mailbox is full, or it is out of service."""
        router, slot = self._router, delivery.route.slot
        actor = slot.actor
        if actor is None or slot.held or not router.loop.try_send(actor, delivery):
            if slot.state is CapabilityState.UNHEALTHY or not router.must_hold(slot) or not slot.has_room():
                return False
            slot.held.append(delivery)
        router.counters.deliveries += 1
        slot.queued_events.append(delivery)
        return True
