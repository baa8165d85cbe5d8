"""Checks of arguments, with one shape of error text: where, which field, what it is, what to pass instead."""

from __future__ import annotations

from enum import Enum
from math import isfinite
from typing import TypeGuard

from bandstand.errors import InvalidArgument
from bandstand.errors.formatting import safe_repr

__all__ = ("LONGEST_MS", "check_member", "check_ms", "is_number")

LONGEST_MS = 100 * 366 * 24 * 3600 * 1000
"""A hundred years: the longest time a loop's timer can wait."""


def is_number(value: object) -> TypeGuard[float]:
    """Return whether a value is a finite number. A bool is not."""
    # isfinite() converts to a float, and an int may be too large for that.
    return type(value) is int or (type(value) is float and isfinite(value))


def check_ms(where: str, field: str, value: object, *, is_zero_allowed: bool) -> None:
    """Raise `InvalidArgument` unless a value is a time in milliseconds that a loop can wait."""
    if not is_number(value) or value > LONGEST_MS or value < 0 or (value == 0 and not is_zero_allowed):
        least = "from 0 on" if is_zero_allowed else "above 0"
        raise InvalidArgument(
            f"{where}: {field} is {safe_repr(value)}: pass milliseconds {least}, at most a hundred years ({LONGEST_MS})"
        )


def check_member(where: str, field: str, value: object, kind: type[Enum]) -> None:
    """Raise `InvalidArgument` unless a value is a member of an enumeration."""
    if not isinstance(value, kind):
        members = ", ".join(f"{kind.__name__}.{member.name}" for member in kind)
        raise InvalidArgument(f"{where}: {field} is {safe_repr(value)}: pass one of {members}")
