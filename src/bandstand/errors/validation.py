"""Checks of arguments that several packages make, with one shape of error text: what it is, and what to pass instead.

A check that belongs to one class stands beside that class. What is here is used by at least two packages. `name` is how the error
names the argument: `"timeout"`, or with the object it belongs to, `"Backoff: maximum"`.
"""

from __future__ import annotations

from datetime import timedelta
from enum import Enum
from typing import TypeAlias, TypeGuard

from bandstand.errors.exceptions import InvalidArgumentError
from bandstand.errors.formatting import safe_repr

__all__ = (
    "LONGEST_MS",
    "LONGEST_S",
    "Seconds",
    "check_int",
    "check_member",
    "is_number",
    "to_ms",
    "to_seconds",
)

Seconds: TypeAlias = float | timedelta
"""The type of a parameter that is a duration."""

LONGEST_MS = 100 * 366 * 24 * 3600 * 1000
"""A hundred years: the longest time that a timer, a deadline or a timeout may have."""
LONGEST_S = LONGEST_MS // 1000

# How much a product may differ from a whole number, relatively, to be taken for it. 16.1 * 1000 is 16100.000000000002.
ROUNDING_ERROR = 1e-15


def is_number(value: object, least: float, most: float) -> TypeGuard[float]:
    """Return True for a number in a range. A bool is not a number, and NaN is in no range."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and least <= value <= most


def to_ms(
    name: str, value: object, *, is_zero_allowed: bool = True, most: int = LONGEST_MS, otherwise: str = ""
) -> float:
    """Check a duration in seconds, or a `timedelta`, and return it in milliseconds, which the runtime counts in.

    Args:
        name: how the error names the argument.
        value: the duration.
        is_zero_allowed: whether it may be 0.
        most: the longest duration, in milliseconds.
        otherwise: what else may be passed, for the error: ", or None".

    Raises:
        InvalidArgumentError: it is not a number, is negative, or is longer than `most`.
    """
    if isinstance(value, timedelta):
        ms = value / timedelta(milliseconds=1)
    elif is_number(value, 0, most):
        ms = value * 1000.0
        nearest = round(ms)
        if abs(ms - nearest) <= ms * ROUNDING_ERROR:
            ms = float(nearest)
    else:
        ms = -1.0
    if 0 <= ms <= most and (is_zero_allowed or ms > 0):
        return ms
    least = "from 0" if is_zero_allowed else "above 0, up"
    limit = f"a hundred years ({LONGEST_MS // 1000})" if most == LONGEST_MS else f"{most / 1000:g}"
    raise InvalidArgumentError(
        f"{name} is {safe_repr(value)}: pass seconds {least} to {limit}, or a timedelta{otherwise}"
    )


def to_seconds(
    name: str, value: object, *, is_zero_allowed: bool = True, most: int = LONGEST_MS, otherwise: str = ""
) -> float:
    """Check a duration in seconds, or a `timedelta`, and return it in seconds, as records keep it. Arguments as in `to_ms`.

    Raises:
        InvalidArgumentError: it is not a number, is negative, or is longer than `most`.
    """
    ms = to_ms(name, value, is_zero_allowed=is_zero_allowed, most=most, otherwise=otherwise)
    return float(value) if isinstance(value, (int, float)) else ms / 1000


def check_int(name: str, value: object, least: int, most: int) -> None:
    """Check an integer.

    Raises:
        InvalidArgumentError: it is not an int, or is outside the range.
    """
    if type(value) is not int or not least <= value <= most:
        raise InvalidArgumentError(f"{name} is {safe_repr(value)}: pass an int from {least} to {most}")


def check_member(name: str, value: object, kind: type[Enum]) -> None:
    """Check a member of an enumeration.

    Raises:
        InvalidArgumentError: it is not one.
    """
    if not isinstance(value, kind):
        members = ", ".join(f"{kind.__name__}.{member.name}" for member in kind)
        raise InvalidArgumentError(f"{name} is {safe_repr(value)}: pass one of {members}")
