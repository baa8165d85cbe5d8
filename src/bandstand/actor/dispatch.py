"""Dispatch: from a message in a mailbox to a call of the actor's method.

`dispatch_message` is the behavior of every typed actor; its state is the user's object. A message needs no envelope of its own:
its tag is the `Method`, its data are the arguments, and its sender is the `ReplyCallback` if one is expected. A message with any
other tag is a system message, or was sent without the handle, and takes a slower path.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from bandstand.actor.async_handlers import (
    acknowledge,
    answer_ask,
    refuse_result,
    run_batch,
    run_batch_async,
    run_one_way,
)
from bandstand.actor.context_vars import Envelope
from bandstand.actor.enums import NO_ARGUMENTS, ONE_ARGUMENT, POSITIONAL_ARGUMENTS
from bandstand.actor.reply import ReplyCallback
from bandstand.core.context import ActorContext
from bandstand.core.coroutines import is_coroutine
from bandstand.core.enums import SYSTEM

if TYPE_CHECKING:
    from bandstand.core.ids import ActorId
    from bandstand.core.mailbox import ActorCell

Count: TypeAlias = int
LaneNumber: TypeAlias = int
ReasonNumber: TypeAlias = int
Shape: TypeAlias = int

ZERO = 0


class Method:
    """One kind of message of a typed actor: which function to call, and how.

    Attributes:
        owner: the name of the class, for messages to people.
        name: the name of the method.
        function: what to call with the actor's object and the arguments.
        lane: the lane its messages use.
        shape: how the message data holds the arguments: NO_ARGUMENTS, ONE_ARGUMENT, POSITIONAL_ARGUMENTS or KEYWORD_ARGUMENTS.
        arity: how many positional arguments make a message without binding them to the signature.
        is_ask: whether it answers.
        is_async: whether it takes the slower path: a coroutine function, or one that takes a batch.
        awaits: whether the function is a coroutine function.
        raises: the exceptions that are answers of an ask; any other exception is a failure of the actor.
        limit: how many messages the function takes at once, as a list; 0 if it takes one message.
        is_reentrant: whether it may be handled out of turn to break an ask cycle.
    """

    __slots__ = (
        "arity",
        "awaits",
        "function",
        "is_ask",
        "is_async",
        "is_reentrant",
        "lane",
        "limit",
        "name",
        "owner",
        "raises",
        "shape",
    )

    def __init__(
        self,
        owner: str,
        name: str,
        function: Callable[..., Any],
        lane: LaneNumber,
        shape: Shape,
        arity: Shape,
        is_ask: bool,
        is_async: bool,
        raises: tuple[type[BaseException], ...],
        limit: Count = 0,
        is_reentrant: bool = False,
    ) -> None:
        self.owner = owner
        self.name = name
        self.function = function
        self.lane = lane
        self.shape = shape
        self.arity = arity
        self.is_ask = is_ask
        self.awaits = is_async
        self.is_async = is_async or limit > 0
        self.raises = raises
        self.limit: Count = limit
        self.is_reentrant = is_reentrant

    def call(self, instance: object, data: object) -> Any:
        """Call the function on an actor's object with the arguments of a message."""
        if self.shape == ONE_ARGUMENT:
            return self.function(instance, data)
        if self.shape == NO_ARGUMENTS:
            return self.function(instance)
        arguments: Any = data
        if self.shape == POSITIONAL_ARGUMENTS:
            return self.function(instance, *arguments)
        return self.function(instance, *arguments[0], **arguments[1])

    def arguments(self, data: object) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the positional and keyword arguments that the data of a message holds."""
        if self.shape == NO_ARGUMENTS:
            return (), {}
        if self.shape == ONE_ARGUMENT:
            return (data,), {}
        arguments: Any = data
        return (arguments, {}) if self.shape == POSITIONAL_ARGUMENTS else (arguments[0], arguments[1])

    def __repr__(self) -> str:
        return f"<{self.owner}.{self.name}>"


def dispatch_message(ctx: ActorContext, data: object) -> object:
    """Handle one message of a typed actor. Return None, or a coroutine for the kernel to run."""
    tag = ctx.tag
    if type(tag) is not Method:
        return ctx.state.__actor_receive__(data, ctx.lane_number == SYSTEM)  # type: ignore[attr-defined]  # an actor
    method = tag
    if type(data) is Envelope:
        return open_envelope(ctx, method, data)
    return call_handler(ctx, method, data)


def open_envelope(ctx: ActorContext, method: Method, envelope: Envelope) -> object:
    """Handle a message in the context that came with it."""
    carried = envelope.carried
    if method.limit > 0:
        return carried.run(ctx, method, partial(collect_batch, ctx, method, envelope.data, carried))
    return carried.run(ctx, method, partial(call_handler, ctx, method, envelope.data))


def call_handler(ctx: ActorContext, method: Method, data: object) -> object:
    """Call a method for one message, and pass its answer to the sender if it is an ask."""
    if not method.is_ask:
        if method.is_async:
            if method.limit > 0:
                return collect_batch(ctx, method, data, None)
            return run_one_way(method, ctx.state, data, ctx.sender)
        result: object = method.call(ctx.state, data)
        if result is None:
            if ctx.sender is not ZERO:
                # No answer is expected, but the sender wants to know that the message was handled.
                callback: Any = ctx.sender
                callback.answer(None)
            return None
        # A timer or background callback may return a coroutine.
        if is_coroutine(result):
            return result if ctx.sender is ZERO else acknowledge(result, ctx.sender)
        return refuse_result(method, result)
    asked: Any = ctx.sender
    if asked.is_cancelled():
        return None
    # From now on a cancellation is for this incarnation, and so is an edge of the wait graph.
    asked.actor = ctx.self_id
    if method.is_async:
        if method.limit > 0:
            return collect_batch(ctx, method, data, None)
        return answer_ask(method, asked, ctx.state, data)
    if len(method.raises) == 0:
        # An exception is a failure of the actor, and the exit informs the asker.
        result = method.call(ctx.state, data)
    else:
        try:
            result = method.call(ctx.state, data)
        except method.raises as error:
            asked.fail(error)
            return None
    if is_coroutine(result):
        # A plain wrapper around a coroutine function.
        return answer_ask(method, asked, None, None, result)
    asked.answer(result)
    return None


def collect_batch(ctx: ActorContext, method: Method, data: object, carried: Any) -> object:
    """Call a method that takes a list, with this message and those of the same method right behind it in its lane.

    The list has at most `method.limit` messages, all with the same `carried` context. Cancelled asks are left out. A
    `BatchCallback` replaces the sender if any of the messages has one.
    """
    actor = ctx.self_id
    kernel: Any = actor.home
    cell: Any = actor.cell
    items: list[object] = []
    callbacks: list[Any] = []
    has_callbacks = False
    while True:
        if ctx.sender is ZERO:
            items.append(data)
            if carried is None:
                # The common case: a run of messages without a sender.
                kernel.take_same(cell, ctx, items, method.limit, Envelope)
        else:
            asked: Any = ctx.sender
            if not (method.is_ask and asked.is_cancelled()):
                has_callbacks = True
                # The messages since the last one with a callback have none.
                callbacks += [None] * (len(items) - len(callbacks))
                items.append(data)
                callbacks.append(asked)
        if len(items) >= method.limit:
            break
        ring = kernel.lane_if_next_is_same(cell, ctx)
        if ring is None:
            break
        data = ring.peek()
        if type(data) is Envelope:
            envelope = data
            if carried is None or not carried.fits(envelope.carried):
                break
            data = envelope.data
        elif carried is not None:
            break
        kernel.take_next(cell, ctx, ring)
    if has_callbacks:
        ctx.sender = BatchCallback(method, actor, callbacks + [None] * (len(items) - len(callbacks)))
    else:
        ctx.sender = 0
    if len(items) == 0:
        return None
    if method.awaits:
        return run_batch_async(method, ctx.state, items, ctx.sender)
    return run_batch(method, ctx.state, items, ctx.sender)


class BatchCallback(ReplyCallback):
    """The callback of a batch: a turn has one sender, and this one passes each result to the callbacks of all messages.

    `callbacks` are in the order of the messages, with None for a message without one.
    """

    __slots__ = ("callbacks", "method")

    def __init__(self, method: Method, actor: ActorId, callbacks: list[Any]) -> None:
        super().__init__(actor)
        self.method = method
        self.callbacks = callbacks
        if method.is_ask:
            for each in callbacks:
                # From now on a cancellation is for this incarnation, and so is an edge of the wait graph.
                each.actor = actor
                if method.awaits:
                    each.relay = self.cancel_if_unwanted

    def settle(self, answers: Any) -> None:
        """Pass each message its answer. An answer that is a declared exception is raised by the asker."""
        raises = self.method.raises
        for each, answer in zip(self.callbacks, answers, strict=True):
            each.relay = None
            if len(raises) > 0 and isinstance(answer, raises):
                each.fail(answer)
            else:
                each.answer(answer)

    def answer(self, value: object) -> None:
        """Take note that all one-way messages were handled."""
        for each in self.callbacks:
            if each is not None:
                each.answer(value)

    def fail(self, error: BaseException) -> None:
        """Answer all asks with the same error."""
        for each in self.callbacks:
            each.relay = None
            each.fail(error)

    def interrupted(
        self, actor: ActorId | None, name: str | None, reason: ReasonNumber, cause: BaseException | None
    ) -> None:
        """Take note that the actor has exited while it handled the batch."""
        for each in self.callbacks:
            if each is not None:
                each.interrupted(actor, name, reason, cause)

    def is_cancelled(self) -> bool:
        """Return whether all askers have cancelled."""
        if not self.method.is_ask:
            return False
        for each in self.callbacks:  # noqa: SIM110  # a cdef method cannot contain a generator
            if not each.is_cancelled():
                return False
        return True

    def cancel_if_unwanted(self) -> None:
        """Cancel the handler if the last asker has cancelled."""
        cell: Any = self.actor.cell
        if cell is None or cell.driver is None or cell.ctx is None:
            return
        if cell.ctx.sender is self and self.is_cancelled():
            cell.driver.cancel()


class MailboxGauge:
    """How many messages wait for an actor. Also right during its exit, when its id no longer leads to the mailbox."""

    __slots__ = ("cell",)

    def __init__(self, actor: ActorId) -> None:
        self.cell: ActorCell | None = cell_of(actor)

    def depth(self) -> int:
        """Return how many messages wait; 0 after `close`."""
        return 0 if self.cell is None else self.cell.waiting()

    def close(self) -> None:
        """Stop reading. Call this at the end of the actor's exit: the kernel may reuse the mailbox."""
        self.cell = None


def cell_of(actor: ActorId) -> ActorCell | None:
    """Return the cell of an actor: a function, because the constructor of a C class has no typed arguments."""
    return actor.cell
