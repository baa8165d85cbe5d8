"""Asks that are repeated when they fail for a reason that may pass."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from math import ceil
from typing import TYPE_CHECKING, TypeVar

from bandstand.actor.handle import on_other_thread
from bandstand.errors import InvalidArgumentError, LoopClosedError, TryAgainError
from bandstand.errors.formatting import safe_repr
from bandstand.errors.validation import check_int, to_ms
from bandstand.supervision import Backoff

if TYPE_CHECKING:
    from bandstand.actor.handle import Handle
    from bandstand.actor.reply import Reply
    from bandstand.errors.validation import Seconds

__all__ = ("AskRetry", "ask_until_answered", "checked_retry")

R = TypeVar("R")

MAX_ATTEMPTS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class AskRetry:
    """How often an ask is repeated, and how long to wait in between: `await handle.value.retry(AskRetry(attempts=5))()`.

    An ask is repeated only if it ends with a `TryAgainError`: the mailbox was full, the actor is being restarted, or it exited
    without an answer. In the last case the failed attempt may have been handled, so retry only what may be handled twice. A
    timeout is not repeated, nor is an exception that the method declares.

    Raises:
        InvalidArgumentError: a value is out of range.
    """

    attempts: int = 3
    """How often to ask at most, the first time included."""
    backoff: Backoff = field(default_factory=Backoff)
    """How long to wait before each further attempt."""
    timeout: Seconds | None = None
    """How long all attempts and delays may take together, in seconds; None for no limit. Each attempt also has the deadline of the
    ask. If the next delay would end later, the last error is raised at once."""

    def __post_init__(self) -> None:
        check_int("AskRetry: attempts", self.attempts, 1, MAX_ATTEMPTS)
        if not isinstance(self.backoff, Backoff):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers without types
            raise InvalidArgumentError(f"AskRetry: backoff is {safe_repr(self.backoff)}: pass a Backoff")
        if self.timeout is not None:
            to_ms("AskRetry: timeout", self.timeout, otherwise=", or None")


def checked_retry(retry: AskRetry) -> AskRetry:
    """Return the argument if it is an `AskRetry`.

    Raises:
        InvalidArgumentError: it is not.
    """
    if not isinstance(retry, AskRetry):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers without types
        raise InvalidArgumentError(f"retry is {safe_repr(retry)}: pass an AskRetry")
    return retry


async def ask_until_answered(handle: Handle, ask: Callable[[int], Reply[R]], ms: int, retry: AskRetry) -> R:
    """Ask, and ask again after a `TryAgainError`.

    Args:
        handle: the handle that is asked, whose loop has the timers.
        ask: asks once, with a deadline in milliseconds, negative for none.
        ms: the deadline of each attempt.
        retry: how often, and how long to wait.

    Raises:
        TryAgainError: the error of the last attempt.
        LoopClosedError: the loop ended during a delay.
    """
    deadline = None if retry.timeout is None else _now_ms(handle) + to_ms("AskRetry: timeout", retry.timeout)
    attempt = 0
    stored_ms = 0.0
    while True:
        attempt += 1
        attempt_ms = ms
        if deadline is not None:
            left = ceil(max(0.0, deadline - _now_ms(handle)))
            attempt_ms = left if ms < 0 else min(ms, left)
        try:
            return await ask(attempt_ms)
        except TryAgainError as error:
            delay_ms, stored_ms = retry.backoff.after_ms(stored_ms, random.random())  # noqa: S311  # jitter
            is_over = deadline is not None and _now_ms(handle) + delay_ms >= deadline
            if attempt >= retry.attempts or is_over:
                if attempt > 1:
                    error.add_note(f"asked {attempt} times")
                raise
        await _sleep(handle, delay_ms)


def _uses_own_timers(handle: Handle) -> bool:
    """Return whether the timers of the actor's loop can be used here. If nothing drives that loop, they may never fire."""
    return not on_other_thread(handle) and handle.__handle_kernel__.coroutines.may_inline


def _now_ms(handle: Handle) -> float:
    if on_other_thread(handle):
        return asyncio.get_running_loop().time() * 1000
    return handle.__handle_kernel__.timers.elapsed_ms()


async def _sleep(handle: Handle, ms: float) -> None:
    if not _uses_own_timers(handle):
        await asyncio.sleep(ms / 1000)
        return
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def wake() -> None:
        if not future.done():
            future.set_result(None)

    def fail() -> None:
        if not future.done():
            future.set_exception(LoopClosedError("the loop ended before the next attempt of an ask"))

    cancel = handle.__handle_kernel__.call_later(ceil(ms), wake, fail)
    try:
        await future
    finally:
        cancel()
