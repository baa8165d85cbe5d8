"""Handles: typed references to actors, and how a call of a handle's method becomes a message.

Each actor class has its own handle class, created together with it. A handle is the id of an actor with the actor's methods on
it. It is cheap, hashable, comparable and usable on every thread. A handle of a supervised child or of a pod's role has a
`StableRef`; when the actor it knows has exited, it looks up the current incarnation there.

`handle.add(5)` is the hottest line that users write. A descriptor that creates a bound object for each access would cost more
than the rest of the message. So a compiled `HandleMethod` is to Python what a function is: a *method descriptor*, which is called
with the handle as first argument, through the vectorcall protocol and without a tuple of arguments (see the `.pxd`).
`handle.add` without a call goes through `__get__` and returns a `Tell` or an `Ask`.

Arguments are bound on the caller's side: a wrong call raises `TypeError` in the caller and sends nothing. A call with all
arguments by position needs no binding; any other goes through the method's binder, a function of the same signature.

The state of a handle and of an actor's object is stored under names that start with `__handle_` or `__actor_`, because their other names belong to
the user: each message of an actor class is a method of its handle class.
"""

# Functions of C have another definition for the interpreted mode, and pyright sees one of them.
# pyright: reportPossiblyUnboundVariable=false
from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, TypeAlias, cast

from bandstand.actor.dispatch import Method
from bandstand.actor.enums import HELD, RETRY
from bandstand.actor.reply import AskTable, LocalReply, ReplyCallback, wait_for_room
from bandstand.core.enums import ACCEPTED, DATA, FULL, NO_ACTOR, OTHER_THREAD
from bandstand.core.ids import ActorId
from bandstand.core.kernel import Kernel
from bandstand.errors import (
    BandstandError,
    InvalidArgumentError,
    LoopClosedError,
    MailboxFullError,
    NoSuchActorError,
)
from bandstand.errors.formatting import safe_repr

try:
    import cython
except ModuleNotFoundError:  # interpreted, where Cython is not installed
    from bandstand.core import _cython as cython  # type: ignore[no-redef]  # one of the two

if TYPE_CHECKING:
    from contextvars import Context

    from bandstand.actor.actor import BaseActor
    from bandstand.actor.when_down import WhenDown
    from bandstand.core.loop import Loop
    from bandstand.core.mailbox import ActorCell
    from bandstand.core.timer_wheel import Timer

PostResult: TypeAlias = int
Milliseconds: TypeAlias = int

ZERO = 0
# Whether the caller may be blocked until an actor is there to take the message.
MAY_WAIT = True
AT_ONCE = False

if not cython.compiled:
    # In compiled mode these are C functions, declared in the .pxd files.
    from bandstand.actor.reply import new_reply

    set_attribute = object.__setattr__

    def new_handle(kind: type[Handle]) -> Handle:
        """Make a handle of a class without calling its constructor."""
        return kind.__new__(kind)


# -- handles -----------------------------------------------------------------------------------------------------------


class StableRef(Protocol):
    """A reference to an actor that outlives its incarnations: a supervised child, or a pod's role. Thread-safe."""

    def find(self) -> ActorId | None:
        """Return the current incarnation; None while there is none."""
        ...

    def refusal(self) -> NoSuchActorError:
        """Return the error for a message that is refused because there is no actor."""
        ...

    @property
    def holds_messages(self) -> bool:
        """Whether the next incarnation may run on another loop, so that `hold` needs callbacks that work on any thread."""
        ...

    def hold(
        self, handle: Handle, method: Method, data: object, callback: ReplyCallback | None, may_wait: bool, /
    ) -> int:
        """Decide about a message while there is no actor to take it.

        Args:
            handle: the handle it was sent with.
            method: the method that was called.
            data: its arguments, bound; unless `holds_messages`, wrapped for the loop of the handle.
            callback: what receives the answer; None for a one-way message.
            may_wait: whether the caller may be blocked.

        Returns:
            REFUSED; HELD if the message is kept for the next incarnation; or RETRY if this has waited and there is one now.
        """
        ...

    def with_policy(self, policy: WhenDown, timeout_ms: float | None, /) -> StableRef:
        """Return an equal reference with another policy for `hold`; None keeps the timeout."""
        ...

    def track(self, handle: Handle, /) -> None:
        """Take note of a new handle with such a reference."""
        ...

    def reduce(self) -> tuple[Any, ...] | None:
        """Return what `pickle` needs to make an equal handle in another process; None if there is no such handle."""
        ...


class Handle:
    """The base class of all handles.

    Attributes:
        __handle_kernel__: the kernel of the actor's loop.
        __handle_actor__: the actor; with a `StableRef`, the last known incarnation.
        __handle_name__: the actor's name for display, or None.
        __handle_asks__: the `AskTable` of the loop.
        __handle_ask_ms__: how long an ask waits, in milliseconds; negative for no limit.
        __handle_ref__: where to find the next incarnation; None for a handle of one actor.
    """

    __slots__ = (
        "__weakref__",
        "__handle_actor__",
        "__handle_ask_ms__",
        "__handle_asks__",
        "__handle_kernel__",
        "__handle_name__",
        "__handle_ref__",
    )

    def __init__(
        self,
        kernel: Kernel,
        actor: ActorId,
        name: str | None,
        asks: AskTable,
        ask_ms: Milliseconds,
        ref: StableRef | None,
    ) -> None:
        self.__handle_kernel__ = kernel
        self.__handle_actor__ = actor
        self.__handle_name__ = name
        self.__handle_asks__ = asks
        self.__handle_ask_ms__ = ask_ms
        self.__handle_ref__ = ref

    def __actor_id__(self) -> ActorId:
        """Return the id of the actor; with a `StableRef`, of the current incarnation. Thread-safe."""
        refresh(self)
        return self.__handle_actor__

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return bool(identity(self) == identity(other))

    def __hash__(self) -> int:
        return hash(identity(self))

    def __reduce__(self) -> tuple[Any, ...]:
        reduced = None if self.__handle_ref__ is None else self.__handle_ref__.reduce()
        if reduced is None:
            raise TypeError(f"{self!r} belongs to its loop and cannot be pickled or copied")
        return reduced

    def __repr__(self) -> str:
        name = "" if self.__handle_name__ is None else f" {self.__handle_name__!r}"
        kind: str = getattr(type(self), "__handle_class_name__", "Handle")
        return f"<{kind}{name} {self.__handle_actor__!r}>"


def attach_handle(
    loop: Any, instance: object, actor: ActorId, name: str | None, ask_ms: int | None
) -> Handle:
    """Make the handle of a new actor, and store it in the actor's object. `ask_ms` is None for the default of the class."""
    kind: Any = type(instance)
    handle = new_handle(kind.__actor_schema__.handle)
    handle.__handle_kernel__ = loop.kernel
    handle.__handle_actor__ = actor
    handle.__handle_name__ = name
    handle.__handle_asks__ = loop.ask_table
    handle.__handle_ask_ms__ = kind.__actor_ask_ms__ if ask_ms is None else ask_ms
    handle.__handle_ref__ = None
    # Not by setattr: the class may have its own __setattr__, as a frozen dataclass has.
    set_attribute(instance, "__actor_handle__", handle)
    set_attribute(instance, "__actor_children__", None)
    return handle


def with_ref(handle: Handle, ref: StableRef) -> Handle:
    """Return a copy of a handle with another `StableRef`."""
    return type(handle)(
        handle.__handle_kernel__,
        handle.__handle_actor__,
        handle.__handle_name__,
        handle.__handle_asks__,
        handle.__handle_ask_ms__,
        ref,
    )


def renew(handle: Handle) -> bool:
    """Look up the current incarnation. Return False if there is none, or it is already known."""
    ref = handle.__handle_ref__
    if ref is None:
        return False
    actor: ActorId | None = ref.find()
    if actor is None or actor is handle.__handle_actor__:
        return False
    # One store: another thread that reads it meanwhile finds the loop through the actor. The rest is for display.
    handle.__handle_actor__ = actor
    home: Any = actor.home
    if home is not handle.__handle_kernel__:
        handle.__handle_kernel__ = home
        handle.__handle_asks__ = home.loop.ask_table
    return True


def refresh(handle: Handle) -> bool:
    """Look up the current incarnation if the known one has exited. Return whether the actor accepts messages."""
    return handle.__handle_actor__.is_alive or (renew(handle) and handle.__handle_actor__.is_alive)


def forget_actor(handle: Handle) -> None:
    """Make a handle look up its actor at the next message. Thread-safe."""
    handle.__handle_actor__ = ActorId(0, None, handle.__handle_kernel__)


def identity(handle: Any) -> Any:
    """Return what makes two handles equal: the `StableRef`, or the actor if there is none."""
    return handle.__handle_actor__ if handle.__handle_ref__ is None else handle.__handle_ref__


def ref_of(handle: Handle) -> StableRef | None:
    """Return the `StableRef` of a handle; None for a handle of one actor."""
    return handle.__handle_ref__


def class_of(handle: object) -> type[BaseActor]:
    """Return the actor class that a handle was made for."""
    return cast("type[BaseActor]", cast("Any", type(handle)).__handle_class__)


def checked_handle(handle: object) -> Handle:
    """Return the argument if it is a handle.

    Raises:
        InvalidArgumentError: it is not a handle.
    """
    if not isinstance(handle, Handle):
        raise InvalidArgumentError(f"{safe_repr(handle)} is not a handle: pass what spawn() returned")
    return handle


def id_of(handle: object) -> ActorId:
    """Return the id of a handle's actor; for a supervised child, of its current incarnation. Thread-safe.

    Raises:
        InvalidArgumentError: it is not a handle.
    """
    return checked_handle(handle).__actor_id__()


def loop_of(handle: object) -> Loop:
    """Return the loop that a handle's actor runs on.

    Raises:
        InvalidArgumentError: it is not a handle.
    """
    return checked_handle(handle).__handle_kernel__.loop


def is_alive(handle: object) -> bool:
    """Return whether a handle's actor accepts messages at this moment. Thread-safe; it may exit right after.

    Raises:
        InvalidArgumentError: it is not a handle.
    """
    return refresh(checked_handle(handle))


def kernel_of(actor: ActorId) -> Kernel:
    """Return the kernel of the loop that an actor belongs to. Every handle has an actor of a loop, even if it has exited."""
    kernel: Kernel = actor.home  # type: ignore[assignment]  # None only for an id that no loop has made
    return kernel


def on_other_thread(handle: Handle) -> bool:
    """Return whether this is not the thread of the loop of a handle's actor."""
    kernel = kernel_of(handle.__handle_actor__)
    return kernel.is_other_thread()


def stop_local(handle: Handle) -> bool:
    """Stop the known actor, if this is its thread. Return False if it is not, or the actor has exited."""
    kernel = kernel_of(handle.__handle_actor__)
    if kernel.is_other_thread():
        return False
    try:
        handle.__handle_kernel__.actors.stop_actor(handle.__handle_actor__)
    except BandstandError:
        return False
    return True


# -- posting to a known actor --------------------------------------------------------------------------------------------


def post(kernel: Kernel, actor: ActorId, method: Method, message: object, sender: object) -> PostResult:
    """Post a wrapped message on the loop's own thread, by a direct call if that is allowed.

    Returns:
        ACCEPTED; or FULL, NO_ACTOR or OTHER_THREAD, and then nothing has happened.
    """
    if (
        kernel.inlines_calls
        and kernel.coroutines.stepper is None
        and not method.is_async
        and kernel.call_inline(actor, method.lane, message, method, sender)
    ):
        return ACCEPTED
    return kernel.post(actor, method.lane, message, method, sender)


def post_to(actor: ActorId, method: Method, message: object, sender: object) -> PostResult:
    """Post a wrapped message, never by a direct call. Thread-safe.

    Args:
        actor: the actor.
        method: the method to call.
        message: the data, as `wrap` returns it.
        sender: a `ReplyCallback`, or 0.

    Returns:
        ACCEPTED, FULL or NO_ACTOR.
    """
    kernel = kernel_of(actor)
    outcome = kernel.post(actor, method.lane, message, method, sender)
    if outcome != OTHER_THREAD:
        return outcome
    try:
        kernel.inbox.post(actor, method.lane, message, method, sender)
    except MailboxFullError:
        return FULL
    except BandstandError:
        return NO_ACTOR
    return ACCEPTED


def post_or_wait(actor: ActorId, method: Method, message: object, callback: ReplyCallback) -> PostResult:
    """Post a wrapped message on the actor's thread, never by a direct call; if its lane is full, it waits for room.

    If the mailbox has an overflow policy, that decides instead, and `callback` is informed.

    Returns:
        ACCEPTED; FULL if the message waits for room, in order; or NO_ACTOR.
    """
    kernel = kernel_of(actor)
    outcome = kernel.post(actor, method.lane, message, method, callback)
    cell: ActorCell | None = actor.cell
    if outcome != FULL or cell is None:
        return outcome
    if cell.closing:
        return NO_ACTOR
    if cell.overflow is not None:
        return kernel.enqueue(cell, method.lane, message, method, callback)
    kernel.timers.wait_for_room(cell, method.lane, message, method, callback, callback)
    return FULL


def deliver(
    handle: Handle,
    actor: ActorId,
    method: Method,
    data: object,
    callback: ReplyCallback | None,
    context: Context | None,
) -> PostResult:
    """Post a message that was held, as if `handle` had sent it in that context. Thread-safe; the handle does not change.

    Without a context the data is already wrapped. An error from wrapping it is raised here.

    Returns:
        ACCEPTED, FULL or NO_ACTOR.
    """
    message = data
    if context is not None:
        home: Any = actor.home
        there = type(handle)(
            home, actor, handle.__handle_name__, home.loop.ask_table, handle.__handle_ask_ms__, None
        )
        message = context.run(wrap, home, there, method, data)
    if callback is None:
        return post_to(actor, method, message, 0)
    # Before posting: the answer may arrive before this returns.
    before = callback.actor
    callback.redirect(actor)
    outcome = post_to(actor, method, message, callback)
    if outcome != ACCEPTED:
        callback.actor = before
    return outcome


def post_held(
    handle: Handle, actor: ActorId, method: Method, message: object, callback: ReplyCallback | None
) -> None:
    """Send a wrapped message that was held to the incarnation that has started. On the actor's thread only.

    Raises:
        MailboxFullError, NoSuchActorError, LoopClosedError: nothing was sent.
    """
    kernel = kernel_of(actor)
    if callback is None:
        make_room(kernel, actor, method, message, 0)
        return
    before = callback.actor
    callback.redirect(actor)
    if callback.done():
        # The ask would close a cycle, and has ended with that error.
        return
    try:
        make_room(kernel, actor, method, message, callback)
    except BandstandError:
        callback.actor = before
        raise
    renew(handle)


def has_room(actor: ActorId, method: Method) -> bool:
    """Return whether an actor's mailbox would take a message of this method now. Thread-safe; it may fill right after."""
    cell: ActorCell | None = actor.cell
    return cell is not None and (cell.overflow is not None or cell.has_room(method.lane))


def is_draining(actor: ActorId) -> bool:
    """Return whether a live actor, or its whole loop, only finishes what is queued. Thread-safe.

    A draining loop still takes the messages that its own actors send in their turns.
    """
    cell: ActorCell | None = actor.cell
    if cell is None:
        return False
    kernel = kernel_of(actor)
    return cell.closing or (kernel.is_internal_only and (kernel.current is None or kernel.is_other_thread()))


def wrap(kernel: Kernel, handle: Handle, method: Method, data: object) -> object:
    """Return the data of a message, in an envelope if context variables or a tracer's value travel along."""
    carrier = kernel.carrier
    return data if carrier is None else carrier.wrap(kernel, handle, method, data)


def wrapped(handle: Handle, method: Method, data: object) -> object:
    """Wrap the data of a message here, to post it later. Loop thread only."""
    return wrap(handle.__handle_kernel__, handle, method, data)


# -- sending through a handle --------------------------------------------------------------------------------------------


@cython.nonecheck(False)
def try_fast_path(kernel: Kernel, actor: ActorId, method: Method, data: object) -> bool:
    """Send a one-way message inside a tick, if nothing travels along and its DATA lane has room. Return False otherwise.

    `kernel` is the handle's. If another thread renews the handle at this moment, the actor is another kernel's, and nothing is
    sent.
    """
    if kernel is None or actor is None:  # type: ignore[redundant-expr]  # pyright: ignore[reportUnnecessaryComparison]  # callers without types
        # A handle that was made without its constructor; the slow path raises the error.
        return False  # type: ignore[unreachable]
    if (
        method.lane != DATA
        or not kernel.is_ticking
        or kernel.is_context_foreign
        or kernel.inlines_calls
        or kernel.is_internal_only
        or kernel.wraps_every_message
    ):
        return False
    return kernel.push_fast(actor, data, method, ZERO)


def tell(handle: Handle, method: Method, data: object) -> None:
    """Send a one-way message. Thread-safe.

    Raises:
        MailboxFullError, NoSuchActorError, LoopClosedError, PodDownError: nothing was sent.
    """
    send(handle, method, data, MAY_WAIT)


def try_tell(handle: Handle, method: Method, data: object) -> bool:
    """Send a one-way message. Return False if it is not accepted. Thread-safe."""
    try:
        send(handle, method, data, AT_ONCE)
    except BandstandError:
        return False
    return True


def send(handle: Handle, method: Method, data: object, may_wait: bool) -> None:
    """Send a one-way message; `may_wait` says whether the caller may be blocked while there is no actor. Thread-safe."""
    # The loop of the actor, not of the handle: another thread may be renewing this handle.
    actor = handle.__handle_actor__
    kernel = kernel_of(actor)
    if kernel.is_other_thread():
        send_off_thread(handle, method, data, 0, may_wait)
        return
    carrier = kernel.carrier
    message = data if carrier is None else carrier.wrap(kernel, handle, method, data)
    outcome = post(kernel, actor, method, message, 0)
    if outcome == NO_ACTOR and (renew(handle) or handle.__handle_actor__ is not actor):
        actor = handle.__handle_actor__
        if actor.home is not kernel:
            # On another loop, which wraps messages its own way.
            send(handle, method, data, may_wait)
            return
        outcome = post(kernel, actor, method, message, 0)
    if outcome != ACCEPTED:
        send_again(handle, method, data, message, 0, outcome, may_wait)


def send_again(
    handle: Handle,
    method: Method,
    data: object,
    message: object,
    sender: object,
    outcome: PostResult,
    may_wait: bool,
) -> None:
    """Send a message that was not accepted at once: make room for it, hold it, or try the ways that are open to other threads.

    `message` is the wrapped `data`.

    Raises:
        MailboxFullError, NoSuchActorError, LoopClosedError, PodDownError: nothing was sent.
    """
    actor = handle.__handle_actor__
    kernel = handle.__handle_kernel__
    if outcome == FULL and actor.home is kernel and not (may_hold(handle) and is_draining(actor)):
        make_room(kernel, actor, method, message, sender)
    elif outcome == NO_ACTOR and not may_hold(handle):
        ref = handle.__handle_ref__
        callback: Any = None if sender is ZERO else sender
        if ref is None or kernel.is_closed or ref.hold(handle, method, message, callback, may_wait) != HELD:
            kernel.counters.refused += 1
            raise refusal(handle)
    else:
        send_off_thread(handle, method, data, sender, may_wait)


def send_off_thread(handle: Handle, method: Method, data: object, sender: object, may_wait: bool) -> None:
    """Send a message from any thread, now or, if the `StableRef` holds it, later.

    `sender` is a `ReplyCallback` that works on any thread, or 0. If the actor exits between the lookup and the send, this tries
    once more where another incarnation can come.

    Raises:
        MailboxFullError, NoSuchActorError, LoopClosedError, PodDownError: nothing was sent.
    """
    ref = handle.__handle_ref__
    holds = may_hold(handle)
    tries = 1 if ref is None else 2
    while True:
        tries -= 1
        actor = handle.__handle_actor__
        kernel = kernel_of(actor)
        if kernel.is_closed or not actor.is_alive or (holds and is_draining(actor)):
            # Another thread may have renewed the handle meanwhile.
            if renew(handle) or handle.__handle_actor__ is not actor:
                actor = handle.__handle_actor__
                kernel = kernel_of(actor)
            elif ref is None or tries < 0:
                raise refusal(handle)
            else:
                callback: Any = None if sender is ZERO else sender
                held = data if holds else wrap(kernel, handle, method, data)
                verdict = ref.hold(handle, method, held, callback, may_wait)
                if verdict == HELD:
                    return
                if verdict != RETRY:
                    raise refusal(handle)
                continue
        message = wrap(kernel, handle, method, data)
        if not kernel.is_other_thread():
            # This is the loop's own thread: through the inbox, messages that are sent later would overtake this one.
            outcome = kernel.post(actor, method.lane, message, method, sender)
            if outcome == FULL:
                make_room(kernel, actor, method, message, sender)
                return
            if outcome == ACCEPTED:
                return
            if tries <= 0:
                raise refusal(handle)
            continue
        try:
            kernel.inbox.post(actor, method.lane, message, method, sender)
        except (NoSuchActorError, LoopClosedError):
            # It has exited between the lookup and the send.
            if tries <= 0:
                if holds:
                    raise refusal(handle) from None
                raise
        else:
            return


def make_room(kernel: Kernel, actor: ActorId, method: Method, message: object, sender: object) -> None:
    """Put a message into a mailbox; if its lane is full, apply the overflow policy.

    Raises:
        MailboxFullError: the policy rejects it.
    """
    kernel.send_with_callback(actor, method.lane, message, method, sender)


def may_hold(handle: Handle) -> bool:
    """Return whether messages may be held while there is no actor."""
    ref = handle.__handle_ref__
    return ref is not None and bool(ref.holds_messages)


def refusal(handle: Handle) -> BandstandError:
    """Return the error that says why a message was refused."""
    ref = handle.__handle_ref__
    if handle.__handle_kernel__.is_closed and not may_hold(handle):
        return LoopClosedError("the loop is closed: it was asked to stop, or was destroyed")
    if ref is not None:
        return ref.refusal()
    end = handle.__handle_actor__.describe_end()
    return NoSuchActorError(f"{safe_repr(handle)} accepts no messages: its actor {end}")


def ask(handle: Handle, method: Method, data: object, ms: Milliseconds) -> LocalReply | None:
    """Ask, on the loop's own thread.

    Returns:
        The reply; None if nothing was sent because this is another thread, or because the `StableRef` may hold the message. Then
        the caller asks with `cross_thread.ask`.

    Raises:
        MailboxFullError, NoSuchActorError, LoopClosedError: nothing was sent.
    """
    actor = handle.__handle_actor__
    kernel = kernel_of(actor)
    if kernel.is_other_thread():
        return None
    carrier = kernel.carrier
    message = data if carrier is None else carrier.wrap(kernel, handle, method, data)
    table = handle.__handle_asks__
    reply = new_reply()
    reply.kernel = kernel
    reply.actor = actor
    reply.name = handle.__handle_name__
    reply.method = method
    reply.table = table
    reply.ms = ms
    reply.asked_at = kernel.timers.elapsed()
    reply.note_asker()
    # Counted first: a direct call may answer before it returns.
    table.asked += 1
    outcome = post(kernel, actor, method, message, reply)
    if outcome == ACCEPTED:
        return reply
    if outcome == NO_ACTOR and renew(handle) and handle.__handle_actor__.home is kernel:
        # Another incarnation takes it.
        reply.actor = handle.__handle_actor__
        outcome = post(kernel, reply.actor, method, message, reply)
        if outcome == ACCEPTED:
            return reply
    table.asked -= 1
    if may_hold(handle) and (outcome != FULL or is_draining(reply.actor)):
        return None
    send_again(handle, method, data, message, reply, outcome, AT_ONCE)
    table.asked += 1
    return reply


def tell_when_room(handle: Handle, method: Method, data: object) -> LocalReply:
    """Send a one-way message as soon as there is room. The reply ends when it is in the mailbox. Loop thread only."""
    reply = wait_for_room(
        handle.__handle_kernel__,
        handle.__handle_actor__,
        handle.__handle_name__,
        method,
        handle.__handle_asks__,
    )
    reply.waiter = post_when_room(handle, method, data, reply)
    reply.actor = handle.__handle_actor__
    return reply


def post_when_room(handle: Handle, method: Method, data: object, callback: ReplyCallback) -> Timer | None:
    """Send a one-way message as soon as there is room, and call `callback.accepted()` then, or now. Loop thread only.

    Returns:
        The waiter, for `stop_waiting`; None if the message is in the mailbox.

    Raises:
        NoSuchActorError, LoopClosedError: there is no actor to wait for.
    """
    actor = handle.__handle_actor__
    kernel = kernel_of(actor)
    message = wrap(kernel, handle, method, data)
    outcome = post(kernel, actor, method, message, 0)
    if outcome == NO_ACTOR and (renew(handle) or handle.__handle_actor__ is not actor):
        actor = handle.__handle_actor__
        if actor.home is not kernel and not on_other_thread(handle):
            return post_when_room(handle, method, data, callback)
        if actor.home is kernel:
            outcome = post(kernel, actor, method, message, 0)
    cell: ActorCell | None = actor.cell
    if outcome == FULL and cell is not None and cell.overflow is None and not cell.closing:
        return kernel.timers.wait_for_room(cell, method.lane, message, method, 0, callback)
    if outcome != ACCEPTED:
        send_again(handle, method, data, message, 0, outcome, AT_ONCE)
    callback.accepted()
    return None


def stop_waiting(handle: Handle, waiter: Timer) -> bool:
    """Cancel a wait for room, and the message. Return False if the message is in the mailbox. Loop thread only."""
    kernel = handle.__handle_kernel__
    return kernel.timers.stop_waiting(waiter)


# -- the methods of a handle class ---------------------------------------------------------------------------------------


class HandleMethod:
    """One method of a handle class: a descriptor that sends a message when it is called.

    Attributes:
        method: the method of the actor.
        binder: a function of the method's signature that returns the data of the message.
        bound: makes the `Tell` or `Ask` that `handle.method` is without a call.
    """

    __slots__ = ("binder", "bound", "method")

    def __init__(
        self, method: Method, binder: Callable[..., Any], bound: Callable[[Handle, HandleMethod], object]
    ) -> None:
        if not isinstance(method, Method):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers without types
            raise TypeError(f"method is {safe_repr(method)}: pass a Method")
        self.method = method
        self.binder = binder
        self.bound = bound
        enable_vectorcall(self)

    def __get__(self, handle: Handle | None, owner: object) -> Any:
        if handle is None:
            return self
        return self.bound(handle, self)

    def __call__(self, handle: Handle, /, *arguments: Any, **named: Any) -> Any:
        """Bind the arguments and send the message."""
        if not isinstance(handle, Handle):  # pyright: ignore[reportUnnecessaryIsInstance]  # called on the class, with anything
            raise TypeError(f"{self.method.name}() is called on a handle, not on {safe_repr(handle)}")
        return self.call(handle, self.binder(None, *arguments, **named))

    def call(self, handle: Handle, data: object) -> Any:
        """Send a message with bound arguments."""
        method = self.method
        if method.is_ask:
            reply = ask(handle, method, data, handle.__handle_ask_ms__)
            return ask_off_thread(handle, method, data) if reply is None else reply
        if not try_fast_path(handle.__handle_kernel__, handle.__handle_actor__, method, data):
            send(handle, method, data, MAY_WAIT)
        return None

    def __repr__(self) -> str:
        return f"<method {self.method.name!r} of handles of {self.method.owner}>"


def ask_off_thread(handle: Handle, method: Method, data: object) -> object:
    """Ask as another thread does. Return the reply."""
    # Imported here: cross_thread needs this module, and most programs never get here.
    from bandstand.actor import cross_thread

    return cross_thread.ask(handle, method, data, handle.__handle_ask_ms__)


class HiddenAttribute:
    """Stands on a handle class for an attribute of the actor class that handles do not have, and explains the error."""

    __slots__ = ("_name", "_owner")

    def __init__(self, owner: str, name: str) -> None:
        self._owner = owner
        self._name = name

    def __get__(self, handle: Handle | None, owner: object = None) -> NoReturn:
        raise AttributeError(
            f"a handle of {self._owner} has no {self._name!r}: it belongs to the actor, and only the actor's messages can be used "
            f"from outside. To read something, add a method with @ask.",
            name=self._name,
            obj=handle,
        )


if not cython.compiled:

    def enable_vectorcall(method: HandleMethod) -> None:
        """Make a handle method callable by vectorcall, in compiled mode."""
