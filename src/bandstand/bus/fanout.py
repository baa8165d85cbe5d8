"""Events: who hears of what. Each capability that subscribes gets a copy of its own, each client that does a line.

Nobody is waited for. A capability whose mailbox is full, or that is out of service, misses the event: a dead letter, counted. A
client that does not keep up misses it too, and is told how many it has missed as soon as it takes something again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bandstand.bus.faults import ROUTING_ERROR, SCHEMA_ERROR, FaultAnswer
from bandstand.bus.hot.pending import Delivery
from bandstand.bus.seat import SeatState
from bandstand.errors import BadMessage, Refused

if TYPE_CHECKING:
    from bandstand.bus.contracts.payload import Payload
    from bandstand.bus.frame import Frame
    from bandstand.bus.gate import Client, Said
    from bandstand.bus.hot.route import Route
    from bandstand.bus.router import Router

__all__ = ("Fanout",)

# Types that clients make up are remembered too: this many.
MOST_TYPES = 4096


class Fanout:
    """Hands events to those who subscribe."""

    __slots__ = ("_declared", "_heard", "_listeners", "_router", "_subscribers")

    def __init__(self, router: Router) -> None:
        self._router = router
        self._subscribers: dict[str, tuple[Route, ...]] = {}
        # What the capabilities say an event looks like: those of clients are held against it.
        self._declared: dict[str, Payload[Any]] = {}
        self._listeners: list[Client] = []
        # Which clients listen to a type, found once for each.
        self._heard: dict[str, tuple[Client, ...]] = {}

    def seat_all(self) -> None:
        """Take over the indexes of the boot."""
        subscribers: dict[str, list[Route]] = {}
        for seat in self._router.seats.values():
            for route in seat.routes:
                if route.entry.kind == "event":
                    subscribers.setdefault(route.type, []).append(route)
            for (kind, type_name), payload in seat.blueprint.outbound.items():
                if kind == "event":
                    self._declared.setdefault(type_name, payload)
        self._subscribers = {type_name: tuple(routes) for type_name, routes in subscribers.items()}

    @property
    def known(self) -> frozenset[str]:
        """The types of events that somebody has declared."""
        return frozenset(self._declared) | frozenset(self._subscribers)

    # -- clients that listen ---------------------------------------------------------------------------------------------------

    def listen(self, client: Client) -> None:
        """A client's subscriptions have changed."""
        if client.wants and client not in self._listeners:
            self._listeners.append(client)
        elif not client.wants and client in self._listeners:
            self._listeners.remove(client)
        self._heard.clear()

    def _clients_for(self, frame: Frame) -> tuple[Client, ...]:
        heard = self._heard.get(frame.type)
        if heard is None:
            if len(self._heard) >= MOST_TYPES:
                self._heard.clear()
            heard = tuple(client for client in self._listeners if client.hears(frame))
            self._heard[frame.type] = heard
        return heard

    # -- events ----------------------------------------------------------------------------------------------------------------

    def pass_on(self, frame: Frame, said: Said | None) -> None:
        """Route an event; `said` is there if it came from a client, who is told what is wrong with it."""
        router = self._router
        routes = self._subscribers.get(frame.type, ())
        # The names are put together only if somebody looks.
        heard = ", ".join([route.seat.id for route in routes]) if router.taps.entries else ""
        router.note(frame, heard or "nobody")
        if said is not None:
            try:
                self.check(frame, "$")
            except Refused as refusal:
                self._turn_down(said, refusal)
                return
        router.books.events += 1
        for route in routes:
            try:
                payload = route.read(frame.data)
            except BadMessage as problem:
                # Who says it and who hears it have declared it differently.
                words = f"event {frame.type} is not what {route.seat.id} takes: {problem}"
                fault = router.faults.make(SCHEMA_ERROR, words, request=frame, path=problem.path)
                router.sink(fault)
                router.bury(Delivery(frame, route, None), "undelivered", fault)
                continue
            delivery = Delivery(frame, route, payload)
            if not self.deliver(delivery):
                router.books.undelivered += 1
                state = route.seat.state
                why = (
                    "is out of service"
                    if state is SeatState.UNHEALTHY
                    else "has as many messages waiting as may"
                )
                router.bury(delivery, "undelivered", None, f"{route.seat.id} {why}, and has missed the event")
        if self._listeners:
            for client in self._clients_for(frame):
                client.publish(frame)

    def check(self, frame: Frame, path: str) -> None:
        """Refuse an event that a client may not say, or says wrongly. `path` is where it stands.

        Raises:
            Refused: so it is, with the fault that it would be answered with.
        """
        if frame.type.startswith("Sys."):
            said = f"{frame.type}: only the node itself says what begins with Sys."
            raise Refused(FaultAnswer(ROUTING_ERROR, said, f"{path}.type"))
        declared = self._declared.get(frame.type)
        readers = [] if declared is None else [declared.read]
        for read in (*readers, *(route.read for route in self._subscribers.get(frame.type, ()))):
            try:
                read(frame.data)
            except BadMessage as problem:
                where = f"{path}{problem.path.removeprefix('$')}"
                raise Refused(FaultAnswer(SCHEMA_ERROR, str(problem), where)) from None

    def _turn_down(self, said: Said, refusal: Refused) -> None:
        router, answer = self._router, refusal.answer
        assert isinstance(answer, FaultAnswer)
        router.books.refused += 1
        fault = router.faults.make(answer.type, answer.message, request=said.frame, path=answer.path)
        router.note(fault, "requester")
        said.origin.settle(fault, False)  # noqa: FBT003  # who asked for nothing has no credit to get back

    def subscribers_of(self, type_name: str) -> tuple[str, ...]:
        """The capabilities that hear of a type of events."""
        return tuple(route.seat.id for route in self._subscribers.get(type_name, ()))

    def route_to(self, type_name: str, capability: str) -> Route | None:
        """How an event comes to one subscriber; None if it does not subscribe."""
        routes = self._subscribers.get(type_name, ())
        return next((route for route in routes if route.seat.id == capability), None)

    def deliver(self, delivery: Delivery) -> bool:
        """Hand an event to one subscriber; False if it has no room for it, or is out of service."""
        router, seat = self._router, delivery.route.seat
        actor = seat.actor
        if actor is None or seat.held or not router.loop.try_send(actor, delivery):
            if seat.state is SeatState.UNHEALTHY or not router.must_hold(seat) or not seat.has_room():
                return False
            seat.held.append(delivery)
        router.books.deliveries += 1
        seat.events.append(delivery)
        return True
