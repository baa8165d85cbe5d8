"""Where a capability stands: the actor that calls its handlers, as far as every message comes by.

A handler is called, what it returns is written as its contract says, and the answer is on its way to the router. What is rare is
left to `Seat`: coroutines, refusals, Workers, functions that give back several messages.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeAlias

from bandstand.bus.frame import Frame, Kind, Metadata
from bandstand.bus.hot.fields import correlation_of, id_of, metadata_of
from bandstand.bus.hot.pending import Delivery, Pending
from bandstand.bus.numbers import DONE
from bandstand.errors import ActorFailed
from bandstand.errors.formatting import safe_repr

if TYPE_CHECKING:
    from msgspec import Raw

    from bandstand.bus.hot.switch import Switch
    from bandstand.core.ids import ActorId

Count: TypeAlias = int

# Of how many classes it is kept in mind that they are no coroutines.
MOST_KINDS = 1024


class Stand:
    """One capability of a node, as far as it is hot."""

    __slots__ = (
        "_plain",
        "actor",
        "at_hand",
        "events",
        "handled",
        "handlers",
        "held",
        "load",
        "room",
        "switch",
        "sync_item",
    )

    def __init__(self, switch: Switch) -> None:
        self.switch = switch
        # The present incarnation; None while there is none.
        self.actor: ActorId | None = None
        # What the incarnation is at.
        self.at_hand: Pending | Delivery | None = None
        # The same, while a plain handler runs.
        self.sync_item: Pending | Delivery | None = None
        self.handled: Count = 0
        # How many requests of clients are under way to it; and how many there may be until one more takes the slow way in (see `admission`).
        self.load: Count = 0
        self.room: Count = 0
        # Events that were sent to it and that no handler has begun with. They are begun with in the order in which they were sent.
        self.events: deque[Delivery] = deque()
        # What to call for each route, by its place; None if messages are not handled by calling something and replying with what it
        # returns. Any: the types of messages are the contract's affair.
        self.handlers: tuple[Callable[[Any], Any], ...] | None = None
        # What came while there was no incarnation.
        self.held: deque[Pending | Delivery] = deque()
        # Classes of results that are no coroutines: to ask that of a class costs as much as the whole rest of a call.
        self._plain: set[type[object]] = {type(None)}

    def behave(self, ctx: Any, item: Any) -> Any:
        """Deal with one message: the behavior of the actor."""
        if type(item) is Pending:
            pending = item
            timer = pending.timer
            # A timer whose place is below 0 has fired: the router is about to answer that the deadline has passed.
            if pending.stage == DONE or (timer is not None and timer.place < 0):
                # Its deadline has passed, or whoever asked has gone: it need not be done any more.
                self.switch.books.expired += 1
                if self.held:
                    self.take_held()
                return None
            pending.is_begun = True
            route = pending.route
            assert route is not None
            payload = pending.payload
        else:
            delivery = item
            if self.events:
                self.events.popleft()
            route = delivery.route
            payload = delivery.payload
        self.at_hand = item
        self.handled += 1
        if self.held:
            self.take_held()
        handlers = self.handlers
        if handlers is None or route.shape is not None:
            return self.perform(item)
        self.sync_item = item
        try:
            result: object = handlers[route.place](payload)
            kind: type[object] = type(result)
            if kind in self._plain or not self._is_coroutine(kind):
                self.reply(item, result)
                self.at_hand = None
                return None
        except Exception as error:
            if not self.is_refused(item, error):
                raise
            self.at_hand = None
            return None
        except SystemExit as error:
            # It is the handler's wish, and not the node's, to end.
            raise ActorFailed(
                f"the handler of {route.type} called sys.exit({safe_repr(error.code)})"
            ) from error
        finally:
            self.sync_item = None
        return self.await_result(item, result)

    def _is_coroutine(self, kind: type[object]) -> bool:
        is_one = issubclass(kind, Coroutine)
        if not is_one:
            if len(self._plain) >= MOST_KINDS:
                # Of a handler that makes a class for each of its answers.
                self._plain.clear()
            self._plain.add(kind)  # pyright: ignore[reportUnknownArgumentType]  # narrowed to what it is not
        return is_one

    def reply(self, item: Pending | Delivery, value: object) -> None:
        """Answer the message at hand with what its handler has returned.

        Raises:
            OutboundFault: it is not what the contract says.
        """
        if isinstance(item, Delivery):
            self.check_silence(item, value)
            return
        pending = item
        route = pending.route
        assert route is not None
        assert route.reply is not None
        self.answer(pending, "reply", route.type, route.reply.write(value))

    def answer(self, item: Pending | Delivery, kind: Kind, type_name: str, data: Raw) -> None:
        """Send the answer to the message at hand on its way; nothing, if it was an event."""
        if isinstance(item, Delivery):
            return
        pending = item
        asked = metadata_of(pending.frame)
        ids = self.switch.ids
        name = ids.make()
        self.switch.answer(
            pending,
            Frame(
                kind=kind,
                type=type_name,
                data=data,
                metadata=Metadata(name, ids.last_ms, id_of(asked), correlation_of(asked)),
            ),
        )

    # -- what is rare ------------------------------------------------------------------------------------------------------

    def take_held(self) -> None:
        """There is room for what had to wait."""
        raise NotImplementedError  # a hook: who derives from this fills it in

    def perform(self, item: Pending | Delivery) -> Any:
        """Deal with a message some other way."""
        raise NotImplementedError  # a hook: who derives from this fills it in

    def await_result(self, item: Pending | Delivery, result: Any) -> Any:
        """The handler has returned a coroutine: one that sees it to its end."""
        raise NotImplementedError  # a hook: who derives from this fills it in

    def is_refused(self, item: Pending | Delivery, error: Exception) -> bool:
        """Answer the message at hand if its handler has refused it. False if it has failed."""
        raise NotImplementedError  # a hook: who derives from this fills it in

    def check_silence(self, item: Delivery, value: object) -> None:
        """The handler of an event has returned something."""
        raise NotImplementedError  # a hook: who derives from this fills it in
