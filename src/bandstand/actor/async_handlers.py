"""Coroutines that run async handlers, and the handlers of batches.

This module is not compiled: the kernel recognises a Python coroutine by its exact type, and needs a slow test for any other.
"""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Callable, Coroutine, Generator
from contextlib import AbstractContextManager
from contextvars import Context
from inspect import iscoroutine
from types import coroutine
from typing import TYPE_CHECKING, Any, NoReturn

from bandstand.errors import InvalidVerdictError
from bandstand.errors.formatting import safe_repr

if TYPE_CHECKING:
    from bandstand.actor.dispatch import Method
    from bandstand.actor.reply import ReplyCallback

__all__ = (
    "acknowledge",
    "answer_ask",
    "refuse_result",
    "run_batch",
    "run_batch_async",
    "run_in_context",
    "run_one_way",
    "run_traced",
)


# -- one message -------------------------------------------------------------------------------------------------------


async def answer_ask(
    method: Method,
    asked: ReplyCallback,
    instance: object,
    data: object,
    work: Coroutine[Any, Any, Any] | None = None,
) -> None:
    """Run an async handler and answer with what it returns.

    The handler is called in here, so that none is left unawaited if this never starts. `work` is the coroutine that a plain
    handler has returned.

    If the handler is cancelled because its asker has cancelled, it ends normally. An exception that the method does not
    declare is a failure of the actor, and the exit informs the asker.
    """
    if asked.is_cancelled():
        if work is not None:
            work.close()
        return
    try:
        result = await (method.call(instance, data) if work is None else work)
    except CancelledError:
        if not asked.is_cancelled():
            raise
    except method.raises as error:
        asked.fail(error)
    else:
        asked.answer(result)


async def run_one_way(method: Method, instance: object, data: object, callback: Any) -> None:
    """Run an async one-way handler; `callback` learns that the message was handled, unless it is 0."""
    result = await method.call(instance, data)
    if result is not None:
        refuse_result(method, result)
    if callback != 0:
        callback.answer(None)


async def acknowledge(work: Coroutine[Any, Any, Any], callback: Any) -> Any:
    """Run a coroutine that a one-way handler has returned; `callback` learns that the message was handled."""
    verdict = await work
    callback.answer(None)
    return verdict


def refuse_result(method: Method, result: object) -> NoReturn:
    """Refuse the result of a one-way method.

    Raises:
        InvalidVerdictError: always.
    """
    raise InvalidVerdictError(
        f"{method.owner}.{method.name}() returned {safe_repr(result)}, but it is one-way and has no caller to return it to: mark it "
        f"with @ask, or return nothing"
    )


# -- batches -----------------------------------------------------------------------------------------------------------


def run_batch(method: Method, instance: object, items: list[object], callback: Any) -> Any:
    """Call a plain handler with a list of messages; `callback` is their `BatchCallback`, or 0."""
    count = len(items)
    if not method.raises:
        # An exception is a failure of the actor, and the exit informs all askers.
        result = method.function(instance, items)
    else:
        try:
            result = method.function(instance, items)
        except method.raises as error:
            callback.fail(error)
            return None
    if isinstance(result, Coroutine):
        # A plain wrapper around a coroutine function.
        return run_batch_async(method, None, items, callback, result)
    return _settle(method, result, count, callback)


async def run_batch_async(
    method: Method, instance: object, items: list[object], callback: Any, work: Any = None
) -> None:
    """Do the same with an async handler, which is called in here; `work` is the coroutine that a plain one has returned."""
    count = len(items)
    try:
        result = await (method.function(instance, items) if work is None else work)
    except CancelledError:
        # If all askers have cancelled, the handler ends normally.
        if callback == 0 or not callback.is_cancelled():
            raise
    except method.raises as error:
        callback.fail(error)
    else:
        _settle(method, result, count, callback)


def _settle(method: Method, result: Any, count: int, callback: Any) -> None:
    if not method.is_ask:
        if result is not None:
            refuse_result(method, result)
        if callback != 0:
            callback.answer(None)
        return
    answers: Any = result
    if not isinstance(result, list | tuple) or len(answers) != count:
        raise InvalidVerdictError(
            f"{method.owner}.{method.name}() was given a list of {count} and returned {safe_repr(answers)}: return a list of as many "
            f"answers, in the same order"
        )
    callback.settle(answers)


# -- context variables and tracers -------------------------------------------------------------------------------------


async def run_in_context(context: Context, make: Callable[[], Any]) -> Any:
    """Run a coroutine in a context. `make` is called in here, so that no coroutine is left unawaited if this never starts."""
    work = context.run(make)
    # None if the ask was cancelled.
    return await _steps(context, work) if iscoroutine(work) else work


@coroutine
def _steps(context: Context, work: Any) -> Generator[Any, Any, Any]:
    step: Callable[..., Any] = work.send
    value: Any = None
    while True:
        try:
            yielded = context.run(step, value)
        except StopIteration as stop:
            return stop.value
        try:
            value = yield yielded
            step = work.send
        except GeneratorExit:
            work.close()
            raise
        except BaseException as error:  # noqa: BLE001  # a cancellation, or the error of what it waited for
            step, value = work.throw, error


async def run_traced(manager: AbstractContextManager[Any], make: Callable[[], Any]) -> Any:
    """Run a coroutine inside a tracer's context manager."""
    with manager:
        result = make()
        return await result if iscoroutine(result) else result
