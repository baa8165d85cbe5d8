"""Backoff: how long to wait before a child that keeps failing is started again. Pure arithmetic.

The first abnormal exit waits `initial_ms`, each further one `factor` times as long as the one before, up to `max_ms`. Jitter
is added to what is waited, never to what is remembered, so it cannot run away. A child that has lived through a whole
stable period since it was last started begins anew.

The intensity of the supervisor counts restarts whether they wait or not, and wins: a supervisor with the default of 3 in
5 s gives up at the fourth failure although a backoff would have waited. To let a backoff do its work, allow as many restarts
as it can make in a period: with the default delays (100, 200, 400, 800, 1600, 3200 ms …) a child that fails at once whenever it is
started fails at 0, 0.1, 0.3, 0.7, 1.5, 3.1 and 6.3 s, so six fall into the first five seconds, and an intensity of 6 never gives
up on it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from bandstand.errors import InvalidArgument
from bandstand.errors.formatting import safe_repr
from bandstand.supervision.validate import LONGEST_MS, check_ms, is_number

__all__ = ("Backoff", "Wait")


class Wait(NamedTuple):
    """How long to wait now, and what to remember for the next time."""

    ms: float
    """What is waited, jitter included."""
    stored_ms: float
    """The delay without jitter: what the next one grows from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """Delays that grow while a child keeps failing.

    Raises:
        InvalidArgument: a value, or two values together, have no sense.
    """

    initial_ms: float = 100
    """The first delay."""
    max_ms: float = 10_000
    """The longest."""
    factor: float = 2.0
    """By how much each delay is longer than the one before."""
    jitter_ms: float = 0
    """Each delay is changed by a random amount between minus and plus this much, and kept between 0 and `max_ms`."""

    def __post_init__(self) -> None:
        check_ms("Backoff", "initial_ms", self.initial_ms, is_zero_allowed=False)
        check_ms("Backoff", "max_ms", self.max_ms, is_zero_allowed=False)
        check_ms("Backoff", "jitter_ms", self.jitter_ms, is_zero_allowed=True)
        if self.max_ms < self.initial_ms:
            raise InvalidArgument(
                f"Backoff: initial_ms is {self.initial_ms} and max_ms is {self.max_ms}: the longest delay cannot be "
                f"shorter than the first"
            )
        if not is_number(self.factor) or not 1 <= self.factor <= LONGEST_MS:
            raise InvalidArgument(
                f"Backoff: factor is {safe_repr(self.factor)}: pass a number from 1 on; delays do not shrink while a child keeps failing"
            )

    def after(self, stored_ms: float, *, chance: float = 0.5) -> Wait:
        """The delay after one more abnormal exit.

        Args:
            stored_ms: what the last `Wait` said to remember; 0 the first time, and after a stable period.
            chance: a random number from 0 to 1, for the jitter.
        """
        stored = float(self.initial_ms) if stored_ms <= 0 else min(stored_ms * self.factor, self.max_ms)
        waited = stored
        if self.jitter_ms:
            waited = min(max(0.0, stored + (2 * chance - 1) * self.jitter_ms), self.max_ms)
        return Wait(waited, stored)
