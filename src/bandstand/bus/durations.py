"""Durations as messages carry them: in whole milliseconds. The Python API takes seconds."""

from __future__ import annotations

from math import ceil

from bandstand.bus.frame import LONGEST_TIMEOUT_MS
from bandstand.errors.validation import to_ms

__all__ = ("checked_timeout_ms", "to_whole_ms")


def to_whole_ms(
    name: str,
    value: object,
    *,
    is_zero_allowed: bool = True,
    most: int = LONGEST_TIMEOUT_MS,
    otherwise: str = "",
) -> int:
    """Check a duration in seconds, and return it in milliseconds, rounded up. Arguments as in `to_ms`.

    Raises:
        InvalidArgumentError: it is not a number, is negative, or is longer than `most`.
    """
    return ceil(to_ms(name, value, is_zero_allowed=is_zero_allowed, most=most, otherwise=otherwise))


def checked_timeout_ms(timeout: object, name: str = "timeout") -> int:
    """Check the timeout of a request in seconds, and return it in milliseconds, as its metadata has it.

    Raises:
        InvalidArgumentError: it is not a number, not above 0, or longer than a day.
    """
    return to_whole_ms(name, timeout, is_zero_allowed=False, otherwise=", or None")
