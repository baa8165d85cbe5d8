"""The Worker shape: a capability as an object that is posted messages to, and says what it has to say by events.

It is the shape that browsers have given to whatever runs on its own: `post_message` puts in and returns at once,
`message` events bring out, `error` events tell of what went wrong, `terminate` ends it. Whoever brings an object of that
shape can be a capability with it: a thread behind a queue, a process, a connection to another machine. `Listeners` is the half of
it that is the same for all, and `BufferedWorker` is the whole of it around a function.

A listener that raises is the listener's affair, and not the worker's: it is logged, and the others are called.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Literal, Protocol, TypeAlias, cast

from msgspec import Struct

from bandstand.bus.contracts.messages import Message
from bandstand.core.logs import SafeLogger
from bandstand.errors import BadContract, InvalidArgument
from bandstand.errors.formatting import safe_repr

__all__ = (
    "ErrorEvent",
    "EventName",
    "Listener",
    "Listeners",
    "MessageEvent",
    "Worker",
    "WorkerEvent",
    "worker_of",
)

logger = SafeLogger("bandstand.bus")


class MessageEvent(Struct, frozen=True):
    """A worker says something."""

    type: ClassVar[Literal["message"]] = "message"

    # Any: a Message, or whatever a capability may say; what it is, the runtime finds out.
    data: Any
    """What it says."""
    causation: str | None = None
    """The id of the message that it follows from, where the worker knows and the data does not tell."""


class ErrorEvent(Struct, frozen=True):
    """Something went wrong in a worker."""

    type: ClassVar[Literal["error"]] = "error"

    error: BaseException
    """What was raised."""
    causation: str | None = None
    """The id of the message that was at hand, if one was."""


EventName: TypeAlias = Literal["message", "error"]
WorkerEvent: TypeAlias = MessageEvent | ErrorEvent
# Any: the name by which it is added decides which of the two events it gets.
Listener: TypeAlias = Callable[[Any], object]


class Worker(Protocol):
    """What can be a capability: bring any object of this shape. All of it is called on the node's own thread.

    Two more attributes are looked at if it has them: `backlog`, how many messages wait for it (past the contract's `mailbox_cap` it is
    given no more), and `is_idle`, whether it is at nothing (a node in batch mode does not end before).
    """

    onmessage: Callable[[MessageEvent], object] | None
    """Called with what it says."""
    onerror: Callable[[ErrorEvent], object] | None
    """Called when something went wrong in it."""

    def post_message(self, message: Message, /) -> None:
        """Take a message, and return at once: it is handled later, and after those that were posted before."""
        ...

    def terminate(self) -> None:
        """End at once, without what still waits. The runtime answers every request that is open."""
        ...

    def add_event_listener(self, type: EventName, callback: Listener, /) -> None:  # noqa: A002  # the standard's name
        """Call a function with every event of that name."""
        ...

    def remove_event_listener(self, type: EventName, callback: Listener, /) -> None:  # noqa: A002  # likewise
        """Do not call it any more."""
        ...

    def dispatch_event(self, event: WorkerEvent, /) -> bool:
        """Call everybody who listens for an event of that name."""
        ...


def worker_of(made: object, where: str) -> Worker | None:
    """The object itself if it is a worker; None if it is nothing like one, and perhaps a function.

    Args:
        made: what a capability's `spawn` has made.
        where: whose it is, for the error.

    Raises:
        BadContract: it has a part of a worker, and others are missing.
    """
    if not callable(getattr(made, "post_message", None)):
        return None
    methods = ("terminate", "add_event_listener", "remove_event_listener", "dispatch_event")
    missing = [f"{name}()" for name in methods if not callable(getattr(made, name, None))]
    missing += [name for name in ("onmessage", "onerror") if not hasattr(made, name)]
    if missing:
        raise BadContract(
            f"{where}: {type(made).__name__} has post_message() but not {', '.join(missing)}: a worker has them all; derive it "
            f"from Listeners, which brings all but post_message() and terminate()"
        )
    return cast("Worker", made)


class Listeners:
    """Who listens to a worker: the part of the shape that is the same for all. Derive from it.

    There is nothing to initialise, so a class that derives from it need not call its `__init__`.
    """

    onmessage: Callable[[MessageEvent], object] | None = None
    """Called with what it says, after those that were added."""
    onerror: Callable[[ErrorEvent], object] | None = None
    """Called when something went wrong in it, after those that were added."""

    # Never changed but replaced, so that it can be gone through while it changes.
    _listeners: tuple[tuple[str, Listener], ...] = ()

    def add_event_listener(self, type: EventName, callback: Listener, /) -> None:  # noqa: A002  # the standard's name
        """Call a function with every event of that name; once, however often it is added.

        Raises:
            InvalidArgument: there is no such event, or it cannot be called.
        """
        if type not in {"message", "error"}:
            raise InvalidArgument(
                f"add_event_listener: {safe_repr(type)} is no event of a worker: pass 'message' or 'error'"
            )
        if not callable(callback):
            raise InvalidArgument(
                f"add_event_listener: {safe_repr(callback)} cannot be called: pass a function of one event"
            )
        if (type, callback) not in self._listeners:
            self._listeners = (*self._listeners, (type, callback))

    def remove_event_listener(self, type: EventName, callback: Listener, /) -> None:  # noqa: A002  # likewise
        """Do not call it any more. Nothing happens if it was never added."""
        self._listeners = tuple(entry for entry in self._listeners if entry != (type, callback))

    def dispatch_event(self, event: WorkerEvent, /) -> bool:
        """Call everybody who listens for an event of that name, in the order in which they were added.

        One that raises is logged, and the next is called. An error that nobody listens for is logged as well.

        Returns:
            True: there is nothing about these events that a listener could prevent.
        """
        is_heard = False
        for entry in self._listeners:
            name, callback = entry
            # Looked up again: a listener may have removed one that comes after it.
            if name == event.type and entry in self._listeners:
                is_heard = True
                self._tell(callback, event)
        own: Listener | None = self.onmessage if isinstance(event, MessageEvent) else self.onerror
        if own is not None:
            self._tell(own, event)
        elif not is_heard and isinstance(event, ErrorEvent):
            logger.error("An error of %r that nobody listens for.", self, exc_info=event.error)
        return True

    def _tell(self, callback: Listener, event: WorkerEvent) -> None:
        try:
            callback(event)
        except Exception:
            logger.exception(
                "The listener %r of %r raised; the others are called all the same.", callback, self
            )
