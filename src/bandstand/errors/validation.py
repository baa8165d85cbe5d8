"""Checks of arguments that several packages make, with one shape of error text: what it is, and what to pass instead.

A check that belongs to one class stands beside that class. What is here is used by at least two packages. `name` is how the error
names the argument: `"timeout_ms"`, or with the object it belongs to, `"Backoff: max_ms"`.
"""

from __future__ import annotations

from enum import Enum
from typing import TypeGuard

from bandstand.errors.exceptions import InvalidArgument
from bandstand.errors.formatting import safe_repr

__all__ = ("LONGEST_MS", "check_int", "check_member", "check_ms", "is_number")

LONGEST_MS = 100 * 366 * 24 * 3600 * 1000
"""A hundred years: the longest time that a timer, a deadline or a timeout may have."""


def is_number(value: object, least: float, most: float) -> TypeGuard[float]:
    """Return True for a number in a range. A bool is not a number, and NaN is in no range."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and least <= value <= most


def check_ms(
    name: str, value: object, *, is_zero_allowed: bool = True, most: int = LONGEST_MS, otherwise: str = ""
) -> None:
    """Check a time in milliseconds. `otherwise` is what else may be passed, for the error.

    Raises:
        InvalidArgument: it is not a number, is negative, or is more than `most`.
    """
    if is_number(value, 0, most) and (is_zero_allowed or value > 0):
        return
    least = "from 0" if is_zero_allowed else "above 0, up"
    limit = f"a hundred years ({LONGEST_MS})" if most == LONGEST_MS else str(most)
    raise InvalidArgument(f"{name} is {safe_repr(value)}: pass milliseconds {least} to {limit}{otherwise}")


def check_int(name: str, value: object, least: int, most: int) -> None:
    """Check an integer.

    Raises:
        InvalidArgument: it is not an int, or is outside the range.
    """
    if type(value) is not int or not least <= value <= most:
        raise InvalidArgument(f"{name} is {safe_repr(value)}: pass an int from {least} to {most}")


def check_member(name: str, value: object, kind: type[Enum]) -> None:
    """Check a member of an enumeration.

    Raises:
        InvalidArgument: it is not one.
    """
    if not isinstance(value, kind):
        members = ", ".join(f"{kind.__name__}.{member.name}" for member in kind)
        raise InvalidArgument(f"{name} is {safe_repr(value)}: pass one of {members}")
