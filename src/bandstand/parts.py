"""Ready-made actors: a rate limiter, a circuit breaker and a debouncer.

    limiter = system.spawn(RateLimiter, rate=10, burst=20)
    await acquire(limiter)

Each of them is an ordinary typed actor: spawn it, put it under a supervisor, or use its handle from other threads. They take
their time from the system's clock, so they work in virtual time.

The token bucket is kept as one number, the time at which the bucket is full again. That is exact in integers, where a
float number of tokens drifts, and there is nothing to refill while nothing happens. Callers reserve tokens and wait for them by
themselves. Refused: callers that wait inside the actor. An ask that has timed out there would still take its tokens, and under
overload all tokens would go to callers that are gone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from math import ceil
from typing import Any, Generic, TypeVar

from bandstand.actor import Actor, Alarm, ask, loop_of, tell
from bandstand.core import ExitReason
from bandstand.errors import InvalidArgumentError, TryAgainError
from bandstand.errors.formatting import safe_repr
from bandstand.errors.validation import Seconds, check_int, is_number, to_ms

__all__ = (
    "CircuitBreaker",
    "CircuitOpenError",
    "CircuitState",
    "Debouncer",
    "RateLimitError",
    "RateLimiter",
    "Reservation",
    "RetryLaterError",
    "acquire",
    "protect",
)

_R = TypeVar("_R")
_T = TypeVar("_T")

_MOST = 1_000_000


# --- rate limiter -----------------------------------------------------------------------------------------------------


class RetryLaterError(TryAgainError):
    """A call is refused now; `retry_after` says when to try again."""

    def __init__(self, text: str, retry_after: float = 0.0) -> None:
        super().__init__(text, retry_after)

    @property
    def retry_after(self) -> float:
        """After how many seconds the next try may succeed, at the earliest."""
        seconds: float = self.args[1]
        return seconds

    def __str__(self) -> str:
        return str(self.args[0])


class RateLimitError(RetryLaterError):
    """The tokens would not be there in time. None were taken."""


@dataclass(frozen=True, slots=True)
class Reservation:
    """Tokens that a `RateLimiter` has reserved."""

    delay: float
    """After how many seconds the tokens may be used."""
    number: int
    """Identifies it, for `RateLimiter.cancel`."""


class RateLimiter(Actor):
    """A token bucket: at most `burst` tokens at once, and `rate` tokens a second in the long run.

    In any span of time it grants at most `burst + rate * seconds` tokens. Callers are served in order. Use it with `acquire`.

    Args:
        rate: how many tokens a second are added, up to a million.
        burst: how many tokens the bucket holds. It is full at the start.

    Raises:
        InvalidArgumentError: an argument is not valid.
    """

    def __init__(self, rate: float, burst: int = 1) -> None:
        if not is_number(rate, 0, _MOST) or rate == 0:
            raise InvalidArgumentError(
                f"rate is {safe_repr(rate)}: pass tokens per second, above 0, up to 1,000,000"
            )
        check_int("burst", burst, 1, _MOST)
        # Rounded up: never more than the rate.
        self._interval_ns = ceil(1e9 / rate)
        self._burst = burst
        # When the bucket is full again, and when it was to be full before the last reservation.
        self._full_at_ns = 0
        self._previous_ns = 0
        self._number = 0

    @ask(raises=InvalidArgumentError)
    def try_acquire(self, tokens: int = 1) -> bool:
        """Take tokens if they are there now; return whether they are.

        Raises:
            InvalidArgumentError: the bucket never holds so many tokens.
        """
        wait_ns, full_at = self._plan(tokens)
        if wait_ns == 0:
            self._reserve(full_at)
        return wait_ns == 0

    @ask(raises=(InvalidArgumentError, RateLimitError))
    def reserve(self, tokens: int = 1, timeout: Seconds | None = None) -> Reservation:
        """Reserve tokens that are there now or later. The caller must wait for `delay` before it uses them; `acquire` does that.

        Args:
            tokens: how many.
            timeout: how long the caller is ready to wait; None for no limit.

        Raises:
            InvalidArgumentError: the bucket never holds so many tokens, or `timeout` is not a duration.
            RateLimitError: the tokens would not be there in time. None were taken.
        """
        limit_ns = None if timeout is None else to_ms("timeout", timeout, otherwise=", or None") * 1e6
        wait_ns, full_at = self._plan(tokens)
        if limit_ns is not None and wait_ns > limit_ns:
            late = (wait_ns - limit_ns) / 1e9
            raise RateLimitError(
                f"{tokens} tokens would be there in {wait_ns / 1e9:g} s, which is later than the timeout",
                late,
            )
        self._reserve(full_at)
        return Reservation(wait_ns / 1e9, self._number)

    @tell
    def cancel(self, number: int) -> None:
        """Give the tokens of a reservation back. If others have reserved tokens after it, its tokens are lost instead."""
        if number == self._number:
            self._full_at_ns = self._previous_ns
            self._number += 1

    def _plan(self, tokens: int) -> tuple[int, int]:
        """Return how long to wait for tokens, and when the bucket would be full again, in nanoseconds."""
        check_int("tokens", tokens, 1, self._burst)
        now = _now_ns(self)
        full_at = max(self._full_at_ns, now) + tokens * self._interval_ns
        return max(0, full_at - self._burst * self._interval_ns - now), full_at

    def _reserve(self, full_at: int) -> None:
        self._previous_ns, self._full_at_ns = self._full_at_ns, full_at
        self._number += 1


async def acquire(
    limiter: RateLimiter, tokens: int = 1, *, timeout: Seconds | None = None
) -> None:  # refused at once, instead of after the timeout
    """Take tokens of a rate limiter, and wait until they are there.

    If the caller is cancelled while it waits, the tokens are given back, unless others have reserved tokens after it.

    Args:
        limiter: the handle of the limiter.
        tokens: how many.
        timeout: how long to wait at most; None for no limit. If the tokens would not be there in time, the call fails at once.

    Raises:
        InvalidArgumentError: the bucket never holds so many tokens.
        RateLimitError: the tokens would not be there in time. None were taken.
    """
    reservation = await limiter.reserve(tokens, timeout)
    if reservation.delay > 0:
        try:
            await asyncio.sleep(reservation.delay)
        except asyncio.CancelledError:
            limiter.cancel.try_send(reservation.number)
            raise


# --- circuit breaker --------------------------------------------------------------------------------------------------


class CircuitState(StrEnum):
    """The state of a circuit breaker."""

    CLOSED = "closed"
    """Calls are allowed."""
    OPEN = "open"
    """Calls are refused."""
    HALF_OPEN = "half_open"
    """One call is allowed, as a trial."""


class CircuitOpenError(RetryLaterError):
    """A circuit breaker refuses a call, because the calls before it have failed."""


class CircuitBreaker(Actor):
    """Refuses calls to something that keeps failing, and tries it again later with a single call.

    It is *closed* at the start. After `max_failures` failures in a row it is *open*, and refuses every call for `reset_timeout`. Then it is
    *half open*: it allows one call. If that succeeds, the breaker is closed; if it fails, it is open again.

    Use it with `protect`. Without it: `ticket = await breaker.enter()`, then the call, then `breaker.report(ticket, is_success)`.

    Args:
        max_failures: after how many failures in a row it opens.
        reset_timeout: how long it refuses calls, and how long it waits for the result of a trial.

    Raises:
        InvalidArgumentError: an argument is not valid.
    """

    def __init__(self, max_failures: int = 5, reset_timeout: Seconds = 30.0) -> None:
        check_int("max_failures", max_failures, 1, _MOST)
        self._max_failures = max_failures
        self._reset_ns = ceil(to_ms("reset_timeout", reset_timeout, is_zero_allowed=False) * 1_000_000)
        self._state = CircuitState.CLOSED
        self._failures = 0
        # When the next call is allowed: the end of the open state, or of the patience with a trial.
        self._until_ns = 0
        # The ticket of the calls of the current period. A report with an older one changes nothing.
        self._ticket = 0

    @ask(raises=CircuitOpenError)
    def enter(self) -> int:
        """Ask for permission for one call; return the ticket for `report`.

        Raises:
            CircuitOpenError: the call is refused.
        """
        if self._state is CircuitState.CLOSED:
            return self._ticket
        left_ns = self._until_ns - _now_ns(self)
        if left_ns > 0:
            text = (
                "a trial call is under way"
                if self._state is CircuitState.HALF_OPEN
                else "too many calls failed"
            )
            seconds = left_ns / 1e9
            raise CircuitOpenError(
                f"the circuit is {self._state}: {text}; try again in {seconds:g} s", seconds
            )
        self._start_period(CircuitState.HALF_OPEN)
        return self._ticket

    @tell
    def report(self, ticket: int, is_success: bool | None) -> None:
        """Report how a call has ended; None if that says nothing, as after a cancellation."""
        if ticket != self._ticket:
            return
        if self._state is CircuitState.HALF_OPEN:
            if is_success is None:
                # The next caller makes the trial.
                self._until_ns = _now_ns(self)
            else:
                self._start_period(CircuitState.CLOSED if is_success else CircuitState.OPEN)
        elif self._state is CircuitState.CLOSED and is_success is not None:
            self._failures = 0 if is_success else self._failures + 1
            if self._failures >= self._max_failures:
                self._start_period(CircuitState.OPEN)

    @ask
    def state(self) -> CircuitState:
        """Return the state. An open breaker becomes half open with the first call that it allows."""
        return self._state

    def _start_period(self, state: CircuitState) -> None:
        self._state = state
        self._failures = 0
        self._ticket += 1
        self._until_ns = _now_ns(self) + self._reset_ns


async def protect(
    breaker: CircuitBreaker,
    work: Callable[[], Awaitable[_R]],
    *,
    failures: type[Exception] | tuple[type[Exception], ...] = Exception,
) -> _R:
    """Await `work()`, if a circuit breaker allows it, and report the result to the breaker.

    Args:
        breaker: the handle of the breaker.
        work: makes the awaitable. It is not called if the breaker refuses.
        failures: the exceptions that count as failures. Any other exception counts as a success, and a cancellation as neither.

    Raises:
        CircuitOpenError: the breaker refuses.
    """
    ticket = await breaker.enter()
    is_success: bool | None = None
    try:
        result = await work()
        is_success = True
    except Exception as error:
        is_success = not isinstance(error, failures)
        raise
    finally:
        breaker.report.try_send(ticket, is_success)
    return result


# --- debouncer --------------------------------------------------------------------------------------------------------


class Debouncer(Actor, Generic[_T]):
    """Passes on the latest of many values, once no new one has arrived for a while.

    Values that are replaced by a newer one are dropped. A value that waits when the actor stops is passed on; if it is killed
    or fails, the value is lost.

    Args:
        deliver: called with the latest value, in the turn of this actor: a plain function, or a one-way method of a handle.
        delay: how long no new value may arrive before the latest is passed on.
        max_delay: how long a value may be held back while newer ones keep arriving; None for no limit.

    Raises:
        InvalidArgumentError: an argument is not valid.
    """

    def __init__(
        self, deliver: Callable[[_T], Any], delay: Seconds, *, max_delay: Seconds | None = None
    ) -> None:
        if not callable(deliver):  # callers without types
            raise InvalidArgumentError(f"deliver is {safe_repr(deliver)}: pass a function of one argument")
        self._deliver = deliver
        self._delay_ms = to_ms("delay", delay)
        self._max_ms = None if max_delay is None else to_ms("max_delay", max_delay, otherwise=", or None")
        self._latest: list[_T] = []
        # Timers that are due when they are cancelled still call; the number of the timer that counts tells them apart.
        self._quiet: Alarm | None = None
        self._quiet_number = 0
        self._limit: Alarm | None = None
        self._limit_number = 0

    @tell
    def put(self, value: _T) -> None:
        """Pass on this value after the delay, unless a newer one arrives."""
        self._latest = [value]
        if self._quiet is not None:
            self._quiet.cancel()
        self._quiet_number += 1
        self._quiet = self.after(self._delay_ms / 1000, self._quiet_is_over, self._quiet_number)
        if self._limit is None and self._max_ms is not None:
            self._limit = self.after(self._max_ms / 1000, self._limit_is_over, self._limit_number)

    @tell
    def flush(self) -> None:
        """Pass on the value that waits, if there is one, now."""
        for alarm in (self._quiet, self._limit):
            if alarm is not None:
                alarm.cancel()
        self._quiet = self._limit = None
        self._quiet_number += 1
        self._limit_number += 1
        while self._latest:
            self._deliver(self._latest.pop())

    def _quiet_is_over(self, number: int) -> None:
        if number == self._quiet_number:
            self.flush()

    def _limit_is_over(self, number: int) -> None:
        if number == self._limit_number:
            self.flush()

    def on_stop(self, reason: ExitReason, _cause: BaseException | None, /) -> None:
        """Pass on the value that waits, unless the actor has failed."""
        if reason not in {ExitReason.PANIC, ExitReason.FAIL}:
            self.flush()


def _now_ns(actor: Actor) -> int:
    """Return the time of the actor's system in nanoseconds."""
    return round(loop_of(actor.me).kernel.timers.elapsed_ms() * 1e6)
