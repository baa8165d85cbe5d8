"""Answering an ask with a coroutine, and a batch of messages."""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, NoReturn

from bandstand.errors import BadVerdict
from bandstand.errors.formatting import safe_repr

if TYPE_CHECKING:
    from bandstand.actor.hot.asks import Asked
    from bandstand.actor.hot.method import Method

__all__ = ("acknowledging", "answering", "batching", "finishing", "handle_batch", "refuse_result")


async def answering(
    method: Method, asked: Asked, instance: object, data: object, work: Coroutine[Any, Any, Any] | None = None
) -> None:
    """Perform an async handler and answer with what it returns. It is called in here: if we never begin, nothing does.

    `work` is what a plain handler has returned that turned out to be a coroutine.

    A handler that is cancelled because its asker has gone has ended; that is no failure of its actor. What it raises that
    its method does not declare is one, and the exit path tells the asker.
    """
    if asked.is_withdrawn():
        # Its asker has gone before we began: then we never do.
        if work is not None:
            work.close()
        return
    try:
        result = await (method.call(instance, data) if work is None else work)
    except CancelledError:
        if not asked.is_withdrawn():
            raise
    except method.raises as error:
        asked.fail(error)
    else:
        asked.answer(result)


async def finishing(method: Method, instance: object, data: object, told: Any) -> None:
    """Perform an async handler that answers nobody; `told` is who wants to know that it was, or 0."""
    result = await method.call(instance, data)
    if result is not None:
        refuse_result(method, result)
    if told != 0:
        told.answer(None)


async def acknowledging(work: Coroutine[Any, Any, Any], told: Any) -> Any:
    """Perform a coroutine that a one-way handler has returned, and tell whoever wants to know."""
    verdict = await work
    told.answer(None)
    return verdict


def refuse_result(method: Method, result: object) -> NoReturn:
    """A one-way method has returned something, and there is nobody to give it to."""
    raise BadVerdict(
        f"{method.owner}.{method.name}() returned {safe_repr(result)}, but it is one-way and nobody waits for it: mark it with @ask, or "
        f"return nothing"
    )


def handle_batch(method: Method, instance: object, items: list[object], told: Any) -> Any:
    """Have a plain handler that takes a list handle a batch; `told` is the bundle of those who wait, or 0."""
    count = len(items)
    if not method.raises:
        # What it raises is a failure of the actor, which the exit path tells all of them.
        result = method.function(instance, items)
    else:
        try:
            result = method.function(instance, items)
        except method.raises as error:
            told.fail(error)
            return None
    if isinstance(result, Coroutine):
        # A wrapper that does not tell what it wraps.
        return batching(method, None, items, told, result)
    return _settle(method, result, count, told)


async def batching(
    method: Method, instance: object, items: list[object], told: Any, work: Any = None
) -> None:
    """The same for an async one, which is called in here; `work` is what a plain one has returned that turned out to be a coroutine."""
    count = len(items)
    try:
        result = await (method.function(instance, items) if work is None else work)
    except CancelledError:
        # Nobody waits any more: that is no failure of the actor.
        if told == 0 or not told.is_withdrawn():
            raise
    except method.raises as error:
        told.fail(error)
    else:
        _settle(method, result, count, told)


def _settle(method: Method, result: Any, count: int, told: Any) -> None:
    if not method.is_ask:
        if result is not None:
            refuse_result(method, result)
        if told != 0:
            told.answer(None)
        return
    answers: Any = result
    if not isinstance(result, list | tuple) or len(answers) != count:
        raise BadVerdict(
            f"{method.owner}.{method.name}() was given a list of {count} and returned {safe_repr(answers)}: it returns a list of as many answers, in "
            f"the same order"
        )
    told.settle(answers)
