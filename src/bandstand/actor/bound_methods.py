"""What a handle offers without a call: `handle.add`, `handle.value`, `handle.tell`, `handle.ask` and `handle.ended`.

`handle.add(5)` sends. `handle.add.try_send(5)` returns whether it could. `await handle.add.when_room(5)` waits until it can.
`await handle.value()` asks; `handle.value.within(0.1)()` asks with another deadline; `handle.value.retry(AskRetry())()` asks again if it
can help; `handle.value.blocking()` and `handle.value.future()` ask from a thread without an event loop.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from inspect import Signature, formatannotation, signature
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, final

from bandstand.actor import cross_thread
from bandstand.actor.handle import (
    ask,
    loop_of,
    on_other_thread,
    refresh,
    stop_local,
    tell,
    tell_when_room,
    try_tell,
)
from bandstand.actor.reply import UNSET_TIMEOUT, checked_ask_ms, wait_for_exit
from bandstand.actor.retry import ask_until_answered, checked_retry
from bandstand.errors import (
    ActorNotLocalError,
    LoopClosedError,
    NoSuchActorError,
    UnknownMessageError,
    WrongThreadError,
)
from bandstand.errors.formatting import safe_repr
from bandstand.errors.validation import Seconds

if TYPE_CHECKING:
    from bandstand.actor.dispatch import Method
    from bandstand.actor.handle import Handle, HandleMethod
    from bandstand.actor.reply import Reply
    from bandstand.actor.retry import AskRetry
    from bandstand.core import ActorId, ExitReason

__all__ = (
    "Ask",
    "End",
    "MessageAsk",
    "MessageRetry",
    "MessageTell",
    "Request",
    "RetriedAsk",
    "Tell",
    "kill_actor",
    "stop_actor",
)

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


# -- what `help`, `inspect.signature` and IPython show --------------------------------------------------------------------


class _OfInstances:
    """An attribute that instances of a class have, and not the class itself; a property would be found on both."""

    def __init__(self, read: Callable[[Any], object], on_class: object = None) -> None:
        self._read = read
        self._on_class = on_class

    def __get__(self, instance: object, owner: type) -> Any:
        if instance is not None:
            return self._read(instance)
        if self._on_class is None:
            raise AttributeError(f"only the methods of a handle have this attribute, not {owner.__name__}")
        return self._on_class


def _signature(bound: Tell[Any] | Ask[Any, Any] | RetriedAsk[Any, Any]) -> Signature:
    """Return the signature of a method as its callers see it: without self, and with what the call returns."""
    whole = signature(bound.handle_method.binder)
    answer = whole.return_annotation
    if isinstance(bound, Tell):
        returned: object = None
    elif isinstance(bound, Ask):
        returned = "Reply" if answer is Signature.empty else f"Reply[{_source(answer)}]"
    else:
        returned = f"Coroutine[Any, Any, {'Any' if answer is Signature.empty else _source(answer)}]"
    return whole.replace(parameters=list(whole.parameters.values())[1:], return_annotation=returned)


def _source(annotation: object) -> str:
    return annotation if isinstance(annotation, str) else formatannotation(annotation)


def _document(bound: Tell[Any] | Ask[Any, Any] | RetriedAsk[Any, Any]) -> str:
    """Return the call and the docstring of a method, for `help`."""
    method = bound.handle_method
    call = f"{method.method.name}{_signature(bound)}"
    return f"{call}\n\n{method.binder.__doc__}" if method.binder.__doc__ else call


def _show_methods(*classes: type) -> None:
    for each in classes:
        # Not in the class bodies: there the names belong to the class itself.
        setattr(each, "__signature__", _OfInstances(_signature))  # noqa: B010
        setattr(each, "__doc__", _OfInstances(_document, each.__doc__))  # noqa: B010


# -- methods -----------------------------------------------------------------------------------------------------------


@final
class Tell(Generic[P]):
    """A one-way method of a handle."""

    __slots__ = ("handle", "handle_method")

    def __init__(self, handle: Handle, handle_method: HandleMethod) -> None:
        self.handle = handle
        self.handle_method = handle_method

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> None:
        """Send the message. If this returns, the message is handled exactly once, unless the actor exits first.

        Thread-safe.

        Raises:
            MailboxFullError: its lane has no room.
            NoSuchActorError: the actor has exited, or its supervisor has not restarted it yet.
            LoopClosedError: the loop was asked to stop.
            TypeError: these are not its arguments.
        """
        tell(self.handle, self.handle_method.method, self.handle_method.binder(None, *args, **kwargs))

    def try_send(self, /, *args: P.args, **kwargs: P.kwargs) -> bool:
        """Send the message. Return False where a call would raise, except for wrong arguments, which still raise."""
        return try_tell(
            self.handle, self.handle_method.method, self.handle_method.binder(None, *args, **kwargs)
        )

    def when_room(self, /, *args: P.args, **kwargs: P.kwargs) -> Reply[None]:
        """Send the message as soon as there is room. Await the result, on any event loop. Waiters are served in order.

        It ends when the message is in the mailbox, with `TargetEndedError` if the actor exits first, or with `AskCycleError` if that actor
        waits for this one. If it is cancelled, nothing is sent.

        Raises:
            NoSuchActorError, LoopClosedError, TypeError: as for a call.
        """
        data = self.handle_method.binder(None, *args, **kwargs)
        return _tell_when_room(self.handle, self.handle_method.method, data)

    @property
    def __name__(self) -> str:
        """The name of the method."""
        return self.handle_method.method.name

    def __repr__(self) -> str:
        return f"<{self.handle_method.method.name} of {self.handle!r}>"


@final
class Ask(Generic[P, R]):
    """A method of a handle that answers."""

    __slots__ = ("_ms", "handle", "handle_method")

    def __init__(self, handle: Handle, handle_method: HandleMethod, ms: int | None = None) -> None:
        self.handle = handle
        self.handle_method = handle_method
        self._ms = handle.__handle_ask_ms__ if ms is None else ms

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> Reply[R]:
        """Ask, and `await` the reply for the answer. On the loop's own thread, or on the thread of another event loop.

        Raises:
            MailboxFullError, NoSuchActorError, LoopClosedError, TypeError: nothing was sent, as for a one-way call.
            LoopBusyError: this thread runs no event loop; use `blocking` or `future`.
        """
        data = self.handle_method.binder(None, *args, **kwargs)
        return _ask(self.handle, self.handle_method.method, data, self._ms)

    def within(self, timeout: Seconds | None) -> Ask[P, R]:
        """Return the same method with another deadline, in seconds; None for no deadline.

        Raises:
            InvalidArgumentError: it is negative, or not a number.
        """
        return Ask(self.handle, self.handle_method, checked_ask_ms("timeout", timeout))

    def retry(self, retry: AskRetry) -> RetriedAsk[P, R]:
        """Return the same method, which asks again after a `TryAgainError`. Await its result.

        Raises:
            InvalidArgumentError: it is not an `AskRetry`.
        """
        return RetriedAsk(self.handle, self.handle_method, self._ms, checked_retry(retry))

    def blocking(self, /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Ask from a plain thread, and block until the answer arrives. Ctrl-C ends the wait.

        Raises:
            LoopBusyError: this thread runs an event loop, or is the thread of the actor's loop.
            AskTimeoutError, TargetEndedError, MailboxFullError, NoSuchActorError, LoopClosedError, TypeError: as for a reply that is awaited.
        """
        data = self.handle_method.binder(None, *args, **kwargs)
        answer: R = cross_thread.ask_blocking(self.handle, self.handle_method.method, data, self._ms)
        return answer

    def future(self, /, *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        """Ask from a plain thread, and return a `concurrent.futures.Future`. Cancelling the future cancels the ask.

        This raises what a call raises; the future holds the result of the ask.
        """
        data = self.handle_method.binder(None, *args, **kwargs)
        return cross_thread.ask_future(self.handle, self.handle_method.method, data, self._ms)

    @property
    def __name__(self) -> str:
        """The name of the method."""
        return self.handle_method.method.name

    def __repr__(self) -> str:
        return f"<{self.handle_method.method.name} of {self.handle!r}>"


@final
class RetriedAsk(Generic[P, R]):
    """A method of a handle that answers, asked with an `AskRetry`."""

    __slots__ = ("_handle", "_ms", "_retry", "handle_method")

    def __init__(self, handle: Handle, handle_method: HandleMethod, ms: int, retry: AskRetry) -> None:
        self._handle = handle
        self.handle_method = handle_method
        self._ms = ms
        self._retry = retry

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R]:
        """Return a coroutine that asks, and asks again as its `AskRetry` says. Cancelling it cancels the current ask.

        The delays are on the timers of the actor's loop; on another thread, on those of its event loop.

        Raises:
            TypeError: these are not its arguments.
        """
        data = self.handle_method.binder(None, *args, **kwargs)
        attempt = partial(_ask, self._handle, self.handle_method.method, data)
        return ask_until_answered(self._handle, attempt, self._ms, self._retry)

    @property
    def __name__(self) -> str:
        """The name of the method."""
        return self.handle_method.method.name

    def __repr__(self) -> str:
        return f"<{self.handle_method.method.name} of {self._handle!r}, retried>"


_show_methods(Tell, Ask, RetriedAsk)


def _tell_when_room(handle: Handle, method: Method, data: object) -> Reply[None]:
    if on_other_thread(handle):
        return cross_thread.tell_when_room(handle, method, data)
    return tell_when_room(handle, method, data)  # type: ignore[return-value]  # LocalReply is registered as a Reply


def _ask(handle: Handle, method: Method, data: object, ms: int) -> Reply[Any]:
    reply = ask(handle, method, data, ms)
    return cross_thread.ask(handle, method, data, ms) if reply is None else reply  # type: ignore[return-value]  # likewise


# -- message classes ---------------------------------------------------------------------------------------------------


class Request(Generic[R_co]):
    """The base of messages that are answered: `class GetBalance(Request[int])` is answered with an int."""

    __slots__ = ()


@final
class MessageTell:
    """`handle.tell` of a `MessageActor`: sends a message by its class."""

    __slots__ = ("_handle",)

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    def __call__(self, message: object) -> None:
        """Send a message."""
        tell(self._handle, _one_way(self._handle, message), message)

    def try_send(self, message: object) -> bool:
        """Send a message. Return False if it is not accepted."""
        return try_tell(self._handle, _one_way(self._handle, message), message)

    def when_room(self, message: object) -> Reply[None]:
        """Send a message as soon as there is room."""
        return _tell_when_room(self._handle, _one_way(self._handle, message), message)


@final
class MessageAsk:
    """`handle.ask` of a `MessageActor`: asks by a message of a `Request` class.

    Each form takes a deadline, `timeout`: None for no deadline; the default is the actor's own.
    """

    __slots__ = ("_handle",)

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    def __call__(self, message: Request[R], /, *, timeout: Seconds | None = UNSET_TIMEOUT) -> Reply[R]:
        """Ask, and `await` the reply.

        Raises:
            UnknownMessageError: no method takes messages of this class.
            MailboxFullError, NoSuchActorError, LoopClosedError, LoopBusyError: as for any ask.
        """
        method, ms = self.checked(message, timeout)
        return _ask(self._handle, method, message, ms)

    def retry(self, retry: AskRetry) -> MessageRetry:
        """Return what asks again after a `TryAgainError`: `await handle.ask.retry(AskRetry())(message)`.

        Raises:
            InvalidArgumentError: it is not an `AskRetry`.
        """
        return MessageRetry(self, self._handle, checked_retry(retry))

    def blocking(self, message: Request[R], /, *, timeout: Seconds | None = UNSET_TIMEOUT) -> R:
        """Ask from a plain thread, and block until the answer arrives."""
        method, ms = self.checked(message, timeout)
        answer: R = cross_thread.ask_blocking(self._handle, method, message, ms)
        return answer

    def future(self, message: Request[R], /, *, timeout: Seconds | None = UNSET_TIMEOUT) -> Future[R]:
        """Ask from a plain thread, and return a future."""
        method, ms = self.checked(message, timeout)
        return cross_thread.ask_future(self._handle, method, message, ms)

    def checked(self, message: object, timeout: Seconds | None) -> tuple[Method, int]:
        """Return the method for a message, and the deadline in milliseconds.

        Raises:
            UnknownMessageError: no method answers messages of this class.
        """
        method = _method_for(self._handle, message)
        if not method.is_ask:
            raise UnknownMessageError(
                f"{type(message).__qualname__} is not a Request, so it is not answered: use handle.tell(...), or derive it from Request"
            )
        return method, self._handle.__handle_ask_ms__ if timeout == UNSET_TIMEOUT else checked_ask_ms(
            "timeout", timeout
        )


@final
class MessageRetry:
    """`handle.ask` of a `MessageActor`, asked with an `AskRetry`."""

    __slots__ = ("_ask", "_handle", "_retry")

    def __init__(self, ask: MessageAsk, handle: Handle, retry: AskRetry) -> None:
        self._ask = ask
        self._handle = handle
        self._retry = retry

    def __call__(
        self, message: Request[R], /, *, timeout: Seconds | None = UNSET_TIMEOUT
    ) -> Coroutine[Any, Any, R]:
        """Return a coroutine that asks, and asks again as its `AskRetry` says.

        Raises:
            UnknownMessageError: no method answers messages of this class.
        """
        method, ms = self._ask.checked(message, timeout)
        return ask_until_answered(self._handle, partial(_ask, self._handle, method, message), ms, self._retry)


def _method_for(handle: Handle, message: object) -> Method:
    messages: dict[type, HandleMethod] = getattr(handle, "__handle_messages__")  # noqa: B009  # every handle class has them
    kind = type(message)
    found = messages.get(kind)
    if found is None:
        found = next((messages[base] for base in kind.__mro__ if base in messages), None)
        if found is None:
            known = ", ".join(sorted(each.__qualname__ for each in messages))
            raise UnknownMessageError(
                f"{safe_repr(handle)} has no method for messages of {kind.__qualname__}; it has methods for {known}"
            )
        messages[kind] = found
    return found.method


def _one_way(handle: Handle, message: object) -> Method:
    method = _method_for(handle, message)
    if method.is_ask:
        raise UnknownMessageError(
            f"{type(message).__qualname__} is a Request, which is answered: use `await handle.ask(...)`"
        )
    return method


# -- stopping, and waiting for the exit ----------------------------------------------------------------------------------


def stop_actor(handle: Handle, *, drain: bool = False) -> None:
    """Stop the actor of a handle."""
    if not drain and stop_local(handle):
        return
    # It has exited, there is a new incarnation, or this is another thread.
    loop = loop_of(handle)
    _apply(handle, loop.kernel.actors.close_mailbox if drain else loop.stop_actor)


def kill_actor(handle: Handle) -> None:
    """Kill the actor of a handle."""
    _apply(handle, loop_of(handle).kill_actor)


def _apply(handle: Handle, action: Callable[[ActorId], None]) -> None:
    if on_other_thread(handle):
        loop_of(handle).kernel.inbox.call_soon(partial(_apply_here, handle, action))
    else:
        _apply_here(handle, action)


def _apply_here(handle: Handle, action: Callable[[ActorId], None]) -> None:
    refresh(handle)
    # An actor that has exited is what the caller wants. This is another thread only if the loop has ended.
    with suppress(NoSuchActorError, LoopClosedError, ActorNotLocalError, WrongThreadError):
        action(handle.__handle_actor__)


@final
class End:
    """`handle.ended`: waits for the exit of an actor."""

    __slots__ = ("_handle",)

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    def __call__(self) -> Reply[ExitReason]:
        """Return a reply that ends with the exit reason; it has already ended if the actor has exited."""
        handle = self._handle
        if on_other_thread(handle):
            cross_thread.require_event_loop("ended")
            return cross_thread.CrossThreadEnd(handle, self.future())
        refresh(handle)
        return wait_for_exit(  # type: ignore[return-value]  # likewise
            handle.__handle_kernel__, handle.__handle_actor__, handle.__handle_name__, handle.__handle_asks__
        )

    def future(self) -> Future[ExitReason]:
        """Return a future, for a plain thread."""
        future: Future[ExitReason] = Future()
        loop_of(self._handle).kernel.inbox.call_soon(partial(self._watch, future))
        return future

    def blocking(self) -> ExitReason:
        """Block a plain thread until the actor exits."""
        cross_thread.require_plain_thread(self._handle, "ended")
        return self.future().result()

    def __repr__(self) -> str:
        return f"<the end of {self._handle!r}>"

    def _watch(self, future: Future[ExitReason]) -> None:
        handle = self._handle
        refresh(handle)
        reply = wait_for_exit(
            handle.__handle_kernel__, handle.__handle_actor__, handle.__handle_name__, handle.__handle_asks__
        )
        reply.add_waiter(_FutureWaiter(future, reply))
        future.add_done_callback(partial(self._unwatch, reply))

    def _unwatch(self, reply: Any, future: Future[ExitReason]) -> None:
        if future.cancelled():
            loop_of(self._handle).kernel.inbox.call_soon(reply.cancel)


@final
class _FutureWaiter:
    """A waiter of a reply that completes a future of another thread."""

    __slots__ = ("_future", "_reply")

    def __init__(self, future: Future[ExitReason], reply: Any) -> None:
        self._future = future
        self._reply = reply

    def done(self) -> bool:
        return self._future.done()

    def set_result(self, _nothing: None) -> None:
        if self._future.set_running_or_notify_cancel():
            self._future.set_result(self._reply.result())
