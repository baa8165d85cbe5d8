"""The gate: what adapters hand in, by whom, and how much at a time.

A client has a line, and a place here: what it subscribes to, and how many events it has missed. A request is taken in only if there
is credit for it; a line that had to wait is told when there is some again, in the order in which they came.
"""

from __future__ import annotations

from enum import Enum
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta, Raw

from bandstand.bus.admission import Admission
from bandstand.bus.contracts.messages import Event
from bandstand.bus.faults import SCHEMA_ERROR, SHUTTING_DOWN
from bandstand.bus.frame import Frame, Metadata
from bandstand.bus.hot.entrance import Entrance
from bandstand.bus.hot.party import Party
from bandstand.bus.hot.purse import Purse
from bandstand.bus.numbers import RESERVE
from bandstand.bus.tap import Filter
from bandstand.bus.unsent import Unsent
from bandstand.core import Lane

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from bandstand.bus.fanout import Fanout
    from bandstand.bus.ports import Line
    from bandstand.bus.router import Router
    from bandstand.errors import BadMessage

__all__ = ("Client", "Credit", "Gate", "Lagged")


class Lagged(Event, type="Sys.Lagged"):
    """This connection did not keep up: so many events were not sent to it since the last one that was."""

    missed: Annotated[int, Meta(ge=1)]


class Client(Party):
    """A client, from when its line opens until it closes."""

    __slots__ = ("_gate", "_where", "missed", "wants")

    def __init__(self, gate: Gate, line: Line) -> None:
        super().__init__(line)
        self._gate = gate
        self.wants: frozenset[str] = frozenset()
        """The types of events it has subscribed to, or the beginnings of such, as `Memory.*`."""
        self.missed = 0
        self._where: Filter | None = None

    def subscribe(self, types: Iterable[str]) -> None:
        """Have it listen to these, and to nothing else."""
        self.wants = frozenset(types)
        self._where = Filter(types=self.wants) if self.wants else None

    def hears(self, frame: Frame) -> bool:
        """Whether it listens to this."""
        return self._where is not None and self._where.matches(frame)

    def publish(self, frame: Frame) -> None:
        """Write an event to it, if it keeps up; else it is told later how many it has missed."""
        if not self.is_open:
            return
        if not self.line.is_writable:
            self.missed += 1
            self._gate.count_lag()
            return
        self.catch_up()
        self.line.deliver(frame, settles=False)

    def catch_up(self) -> None:
        """Tell it how many events it has missed, if any."""
        if self.missed:
            missed, self.missed = self.missed, 0
            self._gate.tell(self.line, self._gate.lagged(missed))


class Credit(Enum):
    """What the gate says to itself, by the router's own lane."""

    CREDIT = "credit"


CREDIT = Credit.CREDIT


class Gate(Entrance):
    """A node's `Ingress`."""

    __slots__ = (
        "_fanout",
        "_is_due",
        "_is_open",
        "_reserve",
        "_router",
        "_waiting",
        "_watch",
        "admission",
        "unsent",
    )

    def __init__(self, router: Router, fanout: Fanout) -> None:
        super().__init__(router, router.clients)
        self._router = router
        self._fanout = fanout
        self.admission = Admission(router)
        """Who waits for room at a capability."""
        self.unsent = Unsent(router.config.max_unsent_bytes)
        """What waits to be sent to all clients together."""
        self._reserve = Purse(RESERVE, True)  # noqa: FBT003  # by position: it is compiled
        self._is_due = False
        # Until the node has said that it is ready, clients wait.
        self._is_open = False
        # In their order; a line waits once.
        self._waiting: dict[Line, None] = {}
        # Who wants to know whenever credit is given back, beside those who wait for it.
        self._watch: Callable[[], object] | None = None

    def __len__(self) -> int:
        return len(self.clients)

    # -- Ingress ---------------------------------------------------------------------------------------------------------------

    def open(self, line: Line) -> None:
        """A client is there."""
        self.clients[line] = Client(self, line)

    def admit_otherwise(self, line: Line, frame: Frame) -> bool:
        """Take in an event; make whoever comes too early wait, and turn away whoever comes too late."""
        if not self._is_open:
            return self.hold_back(line)
        router = self._router
        client = self.clients[line]
        kind = frame.kind
        if kind in {"command", "query"}:
            self._turn_away(client, frame)
        elif kind == "event":
            purse = router.clients
            if purse.used >= purse.limit:
                return self.hold_back(line)
            purse.used += 1
            router.post(Said(client, frame))
        else:
            router.books.refused += 1
            said = f"{frame.type}: a {kind} is the node's to give: send a command, a query or an event"
            self.tell(line, router.faults.make(SCHEMA_ERROR, said, request=frame, path="$.kind"))
        return True

    def refuse(self, line: Line, problem: BadMessage) -> None:
        """Answer what was no message."""
        router = self._router
        router.books.refused += 1
        fault = router.faults.make(
            SCHEMA_ERROR, str(problem), request_id=problem.request_id, path=problem.path or None
        )
        self.tell(line, fault)

    def drained(self, line: Line) -> None:
        """A line can be written to again."""
        client = self.clients.get(line)
        if client is not None:
            client.catch_up()

    def close(self, line: Line) -> None:
        """A client is gone."""
        client = self.clients.pop(line, None)
        self._waiting.pop(line, None)
        self.admission.forget(line)
        if client is not None:
            client.is_open = False
            self._forget_queries(client)
            if client.wants:
                client.subscribe(())
                self._fanout.listen(client)

    def _forget_queries(self, client: Client) -> None:
        """Nobody wants to know any more what one that is gone has asked; where credit is short, it goes to others."""
        purse = self._router.clients
        if purse.used * 2 > purse.limit:
            for pending in self._router.open_requests():
                if pending.origin is client and pending.frame.kind == "query" and not pending.is_begun:
                    self._router.withdraw(pending)

    def unlock(self) -> None:
        """Let clients in."""
        self._is_open = self.is_free = True
        self._give_credit()

    def lock(self) -> None:
        """The node is stopping: requests that still come are turned away."""
        self.is_free = False

    # -- credit ----------------------------------------------------------------------------------------------------------------

    def admit_in_need(self, line: Line, frame: Frame) -> bool:
        """There is no room at its capability; or no credit, but for those who want to know what is the matter, and to do something about it."""
        if self.purse.used < self.purse.limit:
            return self.admission.admit(line, self.clients[line], frame)
        if frame.type.startswith("Syscall.") and self._router.admit(self.clients[line], frame, self._reserve):
            return True
        return self.hold_back(line)

    def hold_back(self, line: Line) -> bool:
        """There is no credit: the line is told when there is."""
        self._waiting[line] = None
        self._mind_credit()
        return False

    def watch_credit(self, function: Callable[[], object] | None) -> None:
        """Have a function called whenever a request is over and its credit given back; None for no one any more."""
        self._watch = function
        self._mind_credit()

    def _mind_credit(self) -> None:
        """Hear of credit while somebody waits for it or watches; else the router has nobody to call."""
        is_wanted = bool(self._waiting) or self._watch is not None
        self._router.on_credit = self._take_credit if is_wanted else None

    def _take_credit(self) -> None:
        self._give_credit()
        if self._watch is not None:
            self._watch()

    def _give_credit(self) -> None:
        """There may be credit again: those who have waited longest go on first, as many as can be let in."""
        purse, waiting = self._router.clients, self._waiting
        free = purse.limit - purse.used
        if free <= 0:
            return
        for line in list(islice(waiting, free)):
            del waiting[line]
            line.resume()
        if not waiting:
            self._mind_credit()
        elif not self._is_due:
            # Whether those who were told still want something is known only a little later; if not, it is the others' turn.
            self._is_due = True
            self._router.loop.send_after(self._router.actor, 1, CREDIT, lane=Lane.CONTROL)

    def look_again(self, _credit: Credit) -> None:
        """Those who were told of credit have had the time to use it."""
        self._is_due = False
        self._give_credit()

    # -- said to clients -------------------------------------------------------------------------------------------------------

    def route_event(self, said: Said) -> None:
        """An event of a client has its turn."""
        self._router.clients.used -= 1
        self._fanout.pass_on(said.frame, said)
        if self._router.on_credit is not None:
            self._router.on_credit()

    def tell(self, line: Line, frame: Frame, *, settles: bool = False) -> None:
        """Say something to one client that is no answer of a capability: it passes the choke point too."""
        self._router.note(frame, line.name)
        line.deliver(frame, settles)

    def _turn_away(self, client: Party, frame: Frame) -> None:
        self._router.books.refused += 1
        self.tell(
            client.line,
            self._router.faults.make(SHUTTING_DOWN, "the node is stopping", request=frame),
            settles=True,
        )

    def count_lag(self) -> None:
        """An event was not written to a client that does not keep up."""
        self._router.books.lagged += 1

    def lagged(self, missed: int) -> Frame:
        """What a client is told that has missed something."""
        ids = self._router.ids
        return Frame(
            kind="event",
            type=Lagged.message_type,
            data=Raw(msgspec.json.encode(Lagged(missed))),
            metadata=Metadata(ids(), ids.last_ms),
        )


class Said:
    """An event of a client, on its way to the router."""

    __slots__ = ("frame", "origin")

    def __init__(self, origin: Party, frame: Frame) -> None:
        self.origin = origin
        self.frame = frame
