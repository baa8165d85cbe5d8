"""The interface of a worker, and `BufferedWorker`, which implements it around a function.

A worker is an object that takes messages with `post_message` and sends its own as events. The interface is that of a `Worker` in a browser:
`post_message` takes a message and returns at once, `message` events carry what the worker sends, `error` events report exceptions, and
`terminate` ends it. Any object with this interface can be a capability: a thread behind a queue, a process, a connection to another machine.
`Listeners` implements the events, and `BufferedWorker` the rest.

An exception in a listener is logged, and the other listeners are called.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterable, Iterator
from contextlib import aclosing
from time import monotonic
from typing import Any, ClassVar, Literal, Protocol, TypeAlias, cast, final

from msgspec import Struct

from bandstand.bus.contracts.messages import Message
from bandstand.core.logs import SafeLogger
from bandstand.errors import ContractError, InvalidArgumentError, WrongThreadError
from bandstand.errors.formatting import safe_repr

__all__ = (
    "BufferedWorker",
    "ErrorEvent",
    "EventName",
    "Listener",
    "Listeners",
    "MessageEvent",
    "Worker",
    "WorkerEvent",
    "as_worker",
)

logger = SafeLogger("bandstand.bus")

# A handler's result that must be awaited. (object: its own result is inspected later.)
_AsyncResult: TypeAlias = Awaitable[object] | AsyncGenerator[object, None]

# How many messages a `BufferedWorker` handles, and for how long at most, before it yields to the event loop.
BURST_MESSAGES = 64
BURST_S = 0.005
# The kinds of messages that answer the worker's own requests.
_ANSWER_KINDS = frozenset({"reply", "error"})


class MessageEvent(Struct, frozen=True):
    """A worker sends a message."""

    type: ClassVar[Literal["message"]] = "message"

    # Any: a Message, or any other output of a capability; the runtime inspects it.
    data: Any
    """The message."""
    causation: str | None = None
    """The id of the message that caused it, if the worker knows it and `data` does not contain it."""


class ErrorEvent(Struct, frozen=True):
    """An exception was raised in a worker."""

    type: ClassVar[Literal["error"]] = "error"

    error: BaseException
    """The exception."""
    causation: str | None = None
    """The id of the message that was being handled, if there was one."""


EventName: TypeAlias = Literal["message", "error"]
WorkerEvent: TypeAlias = MessageEvent | ErrorEvent
# Any: which of the two events it gets depends on the name it is added with.
Listener: TypeAlias = Callable[[Any], object]


class Worker(Protocol):
    """The interface of a worker. Everything is called on the node's own thread.

    Two more attributes are used if they exist: `backlog`, the number of messages that wait in it (from the contract's `mailbox` on it gets no
    more), and `is_idle`, whether it handles nothing (a node in batch mode waits for that before it ends).
    """

    onmessage: Callable[[MessageEvent], object] | None
    """Called with each message that it sends."""
    onerror: Callable[[ErrorEvent], object] | None
    """Called with each exception that is raised in it."""

    def post_message(self, message: Message, /) -> None:
        """Take a message and return at once. It is handled later, after those that were posted before."""
        ...

    def terminate(self) -> None:
        """End at once, and drop the messages that wait. The runtime answers every open request."""
        ...

    def add_event_listener(self, type: EventName, callback: Listener, /) -> None:  # noqa: A002  # the standard's name
        """Call a function with every event of that name."""
        ...

    def remove_event_listener(self, type: EventName, callback: Listener, /) -> None:  # noqa: A002  # likewise
        """Remove a listener."""
        ...

    def dispatch_event(self, event: WorkerEvent, /) -> bool:
        """Call all listeners of an event."""
        ...


def as_worker(made: object, where: str) -> Worker | None:
    """Return the object if it is a worker; None if it has no `post_message()`, and may be a function.

    Args:
        made: the result of a capability's `spawn`.
        where: the name of the capability, for the error.

    Raises:
        ContractError: it has `post_message()`, but other parts of the interface are missing.
    """
    if not callable(getattr(made, "post_message", None)):
        return None
    methods = ("terminate", "add_event_listener", "remove_event_listener", "dispatch_event")
    missing = [f"{name}()" for name in methods if not callable(getattr(made, name, None))]
    missing += [name for name in ("onmessage", "onerror") if not hasattr(made, name)]
    if missing:
        raise ContractError(
            f"{where}: {type(made).__name__} has post_message() but not {', '.join(missing)}: derive it from Listeners, which has "
            f"everything but post_message() and terminate()"
        )
    return cast("Worker", made)


class Listeners:
    """The events of a worker. Derive from it.

    It has no `__init__` to call.
    """

    onmessage: Callable[[MessageEvent], object] | None = None
    """Called with each message that it sends, after the listeners that were added."""
    onerror: Callable[[ErrorEvent], object] | None = None
    """Called with each exception that is raised in it, after the listeners that were added."""

    # Replaced and never changed, so that a loop over it is safe.
    _listeners: tuple[tuple[str, Listener], ...] = ()

    def add_event_listener(self, type: EventName, callback: Listener, /) -> None:  # noqa: A002  # the standard's name
        """Call a function with every event of that name. It is called once per event, even if it is added twice.

        Raises:
            InvalidArgumentError: there is no such event, or the listener is not callable.
        """
        if type not in {"message", "error"}:
            raise InvalidArgumentError(
                f"add_event_listener: {safe_repr(type)} is no event of a worker: pass 'message' or 'error'"
            )
        if not callable(callback):
            raise InvalidArgumentError(
                f"add_event_listener: {safe_repr(callback)} cannot be called: pass a function of one event"
            )
        if (type, callback) not in self._listeners:
            self._listeners = (*self._listeners, (type, callback))

    def remove_event_listener(self, type: EventName, callback: Listener, /) -> None:  # noqa: A002  # likewise
        """Remove a listener. Do nothing if it was never added."""
        self._listeners = tuple(entry for entry in self._listeners if entry != (type, callback))

    def dispatch_event(self, event: WorkerEvent, /) -> bool:
        """Call all listeners of an event, in the order in which they were added.

        If a listener raises, its exception is logged and the next one is called. An error without a listener is logged too.

        Returns:
            True, as in the standard for events that cannot be cancelled.
        """
        has_listener = False
        for entry in self._listeners:
            name, callback = entry
            # Looked up again: an earlier listener may have removed this one.
            if name == event.type and entry in self._listeners:
                has_listener = True
                self._call(callback, event)
        own: Listener | None = self.onmessage if isinstance(event, MessageEvent) else self.onerror
        if own is not None:
            self._call(own, event)
        elif not has_listener and isinstance(event, ErrorEvent):
            logger.error("%r reported an error and has no error listener", self, exc_info=event.error)
        return True

    def _call(self, callback: Listener, event: WorkerEvent) -> None:
        try:
            callback(event)
        except Exception:
            logger.exception("the listener %r of %r raised; the other listeners are called", callback, self)


@final
class BufferedWorker(Listeners):
    """A worker around a function: it has a mailbox, and handles one message at a time, in their order.

    An exception in the handler is reported as an `ErrorEvent`, and the worker goes on with the next message: the listener decides whether to
    terminate it. A worker that was terminated sends nothing, even if its handler continues.

    A handler that does not wait needs no Task. For one that does, a single Task handles all messages in the mailbox. (A coroutine always runs in
    a Task: `asyncio.timeout` and others need one.)

    Args:
        handler: called with each message; `def` or `async def`. It returns None, an output, or a list, a tuple or an iterator of outputs. The
            outputs of a generator, plain or async, are sent while it runs.
        soon: schedules a function to be called later on this thread; by default the running event loop's `call_soon`.
        hears_answers: whether the handler is also called with the answers to its own requests, which are of kind `reply` or `error`.
    """

    def __init__(
        self,
        # object: None, an output or several, or an awaitable of these; inspected at run time.
        handler: Callable[[Message], object],
        *,
        soon: Callable[[Callable[[], None]], object] | None = None,
        hears_answers: bool = False,
    ) -> None:
        self._handler = handler
        self._hears_answers = hears_answers
        self._soon = soon
        self._mailbox: deque[Message] = deque()
        # Whether something runs, or is scheduled, that empties the mailbox.
        self._is_busy = False
        self._is_terminated = False
        # The task that awaits the handler, while it does.
        self._task: asyncio.Task[None] | None = None
        # What the task awaits first, until it has started.
        self._not_started: _AsyncResult | None = None

    def __repr__(self) -> str:
        return f"BufferedWorker({getattr(self._handler, '__qualname__', self._handler)!s})"

    @property
    def is_idle(self) -> bool:
        """Whether its mailbox is empty and it handles nothing."""
        return not self._is_busy

    @property
    def backlog(self) -> int:
        """The number of messages in its mailbox. From the capability's `mailbox` on it gets no more."""
        return len(self._mailbox)

    @property
    def is_terminated(self) -> bool:
        """Whether it was terminated."""
        return self._is_terminated

    def post_message(self, message: Message, /) -> None:
        """Take a message and return at once. After `terminate`, messages are ignored.

        Raises:
            WrongThreadError: no event loop runs here, and `soon` was not given.
        """
        if self._is_terminated or (message.kind in _ANSWER_KINDS and not self._hears_answers):
            return
        if not self._is_busy:
            self._call_soon()
            self._is_busy = True
        self._mailbox.append(message)

    def terminate(self) -> None:
        """End at once: drop the messages in the mailbox, and cancel a handler that waits.

        The code that posted the messages has to answer them.
        """
        self._is_terminated = True
        self._mailbox.clear()
        if self._task is not None:
            self._task.cancel()
            not_started, self._not_started = self._not_started, None
            if isinstance(not_started, Coroutine):
                # The task will never await it.
                not_started.close()
        else:
            self._is_busy = False

    def _call_soon(self) -> None:
        soon = self._soon
        if soon is None:
            try:
                soon = asyncio.get_running_loop().call_soon
            except RuntimeError:
                raise WrongThreadError(
                    f"a message was posted to {self!r} where no event loop runs: post it on the loop's own thread, or create the "
                    f"worker with soon=..., a function that schedules a call"
                ) from None
        soon(self._run)

    def _run(self) -> None:
        """Handle messages until a handler must be awaited, or the burst is used up."""
        try:
            end = monotonic() + BURST_S
            for _ in range(BURST_MESSAGES):
                if not self._mailbox:
                    break
                message = self._mailbox.popleft()
                result = self._call_handler(message)
                if result is not None:
                    self._not_started = result
                    self._task = asyncio.get_running_loop().create_task(self._run_async(message, result))
                    break
                if monotonic() >= end:
                    break
        finally:
            if self._task is None:
                self._reschedule()

    async def _run_async(self, message: Message, result: _AsyncResult) -> None:
        """Await the result of a handler, then handle messages until the mailbox is empty."""
        handled = 0
        end = monotonic() + BURST_S
        self._not_started = None
        try:
            await self._finish(message, result)
            while self._mailbox:
                message = self._mailbox.popleft()
                following = self._call_handler(message)
                if following is not None:
                    await self._finish(message, following)
                handled += 1
                if handled >= BURST_MESSAGES or monotonic() >= end:
                    await asyncio.sleep(0)
                    handled = 0
                    end = monotonic() + BURST_S
        except asyncio.CancelledError:
            # Terminated, or the owner of the event loop cancels all its tasks, which has the same effect.
            self._is_terminated = True
            self._mailbox.clear()
            raise
        finally:
            self._task = None
            self._reschedule()

    def _reschedule(self) -> None:
        if self._mailbox:
            self._call_soon()
        else:
            self._is_busy = False

    def _call_handler(self, message: Message) -> _AsyncResult | None:
        """Call the handler. Send its outputs, or return its result if it must be awaited."""
        try:
            result = self._handler(message)
            if isinstance(result, (Awaitable, AsyncGenerator)):
                return cast("_AsyncResult", result)
            self._send_all(result, message)
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001  # the listener decides
            self._report(error, message)
        return None

    async def _finish(self, message: Message, result: _AsyncResult) -> None:
        try:
            if isinstance(result, AsyncGenerator):
                async with aclosing(result) as outputs:
                    async for output in outputs:
                        if not self._send(output, message):
                            break
            else:
                self._send_all(await result, message)
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            is_cancelled = task is not None and task.cancelling() > 0
            # If this task was not cancelled, something that the handler awaited was: an error like any other.
            if not (is_cancelled and self._is_terminated):
                self._report(error, message)
            if is_cancelled:
                raise
        except Exception as error:  # noqa: BLE001  # the listener decides
            self._report(error, message)

    def _send_all(self, result: object, message: Message) -> None:
        # Not every iterable: a mapping or a model is one output.
        if isinstance(result, (list, tuple, Iterator)):
            for output in cast("Iterable[object]", result):
                if not self._send(output, message):
                    break
        elif result is not None:
            self._send(result, message)

    def _send(self, output: object, message: Message) -> bool:
        """Send one output. Return False if the worker was terminated."""
        if self._is_terminated:
            return False
        return self.dispatch_event(MessageEvent(output, _id_of(message)))

    def _report(self, error: BaseException, message: Message) -> None:
        if self._is_terminated:
            logger.warning(
                "%r raised after it was terminated; the error is not reported", self, exc_info=error
            )
        else:
            self.dispatch_event(ErrorEvent(error, _id_of(message)))


def _id_of(message: Message) -> str | None:
    return message.metadata.id if message.metadata is not None else None
