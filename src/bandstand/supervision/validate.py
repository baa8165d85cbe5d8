"""Refusing what a spec cannot mean, in one voice: where, which field, what it is, and what to pass instead."""

from __future__ import annotations

from enum import Enum
from math import isfinite
from typing import TypeGuard

from bandstand.errors import InvalidArgument
from bandstand.errors.formatting import safe_repr

__all__ = ("LONGEST_MS", "check_intensity", "check_member", "check_ms", "is_number")

LONGEST_MS = 100 * 366 * 24 * 3600 * 1000
"""A hundred years: the longest a loop's timers can wait."""


def is_number(value: object) -> TypeGuard[float]:
    """Whether a value is a finite number; a bool is none to us."""
    # An int may be too large for isfinite, which wants a float.
    return type(value) is int or (type(value) is float and isfinite(value))


def check_ms(where: str, field: str, value: object, *, is_zero_allowed: bool) -> None:
    """Refuse what is no time in milliseconds that a loop could wait."""
    if not is_number(value) or value > LONGEST_MS or value < 0 or (value == 0 and not is_zero_allowed):
        least = "from 0 on" if is_zero_allowed else "above 0"
        raise InvalidArgument(
            f"{where}: {field} is {safe_repr(value)}: pass milliseconds {least}, at most a hundred years ({LONGEST_MS})"
        )


def check_member(where: str, field: str, value: object, kind: type[Enum]) -> None:
    """Refuse a value that is no member of its enumeration."""
    if not isinstance(value, kind):
        members = ", ".join(f"{kind.__name__}.{member.name}" for member in kind)
        raise InvalidArgument(f"{where}: {field} is {safe_repr(value)}: pass one of {members}")


def check_intensity(where: str, intensity: object, period_ms: object) -> None:
    """Refuse a restart intensity that has no sense."""
    if type(intensity) is not int or intensity < 0:
        raise InvalidArgument(
            f"{where}: intensity is {safe_repr(intensity)}: pass how many restarts are allowed, from 0 on"
        )
    check_ms(where, "period_ms", period_ms, is_zero_allowed=False)
