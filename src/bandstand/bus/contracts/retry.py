"""When a request that has failed is tried again, and when not any more. Declared for a type; none is, unless it says so."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final, cast

from bandstand.bus.faults import ACTOR_CRASH, ACTOR_FAULT, OVERLOADED, UNHEALTHY
from bandstand.errors import InvalidArgument
from bandstand.errors.formatting import safe_repr
from bandstand.supervision import Backoff

__all__ = ("Retry",)

RETRIABLE: Final = (ACTOR_CRASH, ACTOR_FAULT, OVERLOADED, UNHEALTHY)
"""Errors after which a request may be tried again: the next attempt may fare better, and nobody has said no."""
MOST_ATTEMPTS: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """How a request is tried again: the same request, with the same id, within its first deadline.

    A handler that has failed may have done a part of its work: declare it for what may be done twice. If the next attempt would come after
    the deadline, the last error is the answer, at once.

    Raises:
        InvalidArgument: a value has no sense. The message names the field.
    """

    attempts: int = 3
    """How often it is tried at most, the first time included."""
    backoff: Backoff = field(default_factory=Backoff)
    """How long to wait before the second attempt, the third, and so on."""
    on: Collection[str] = (OVERLOADED, ACTOR_CRASH)
    """After which errors: some of Sys.ActorCrash, Sys.ActorFault, Sys.Overloaded and Sys.Unhealthy."""

    def __post_init__(self) -> None:
        if type(self.attempts) is not int or not 2 <= self.attempts <= MOST_ATTEMPTS:
            raise InvalidArgument(
                f"Retry: attempts is {safe_repr(self.attempts)}: pass an int from 2 to {MOST_ATTEMPTS}; the first attempt counts too"
            )
        if not isinstance(self.backoff, Backoff):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers without types
            raise InvalidArgument(f"Retry: backoff is {safe_repr(self.backoff)}: pass a Backoff")
        given: object = self.on
        if isinstance(given, str) or not isinstance(given, Collection) or not given:
            raise InvalidArgument(
                f"Retry: on is {safe_repr(given)}: pass several types of errors, as on=[{OVERLOADED!r}]"
            )
        for name in cast("Collection[object]", given):
            if name not in RETRIABLE:
                raise InvalidArgument(
                    f"Retry: on has {name!r}: a request is tried again only after {', '.join(RETRIABLE)}"
                )
        # Frozen, and the same whatever it was given as.
        object.__setattr__(self, "on", tuple(sorted(set(self.on))))

    def delay_ms(self, retries: int, chance: float) -> float:
        """How long to wait before it is tried again.

        Args:
            retries: how often it was tried again already.
            chance: a random number from 0 to 1, for the jitter.
        """
        wait = self.backoff.after(0.0, chance=chance)
        for _ in range(retries):
            wait = self.backoff.after(wait.stored_ms, chance=chance)
        return wait.ms
