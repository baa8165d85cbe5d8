"""Durations as messages carry them: in whole milliseconds. The Python API takes seconds, and people write them with a unit."""

from __future__ import annotations

import re
from math import ceil
from typing import Final

from bandstand.bus.frame import LONGEST_TIMEOUT_MS
from bandstand.errors import InvalidArgumentError
from bandstand.errors.formatting import safe_repr
from bandstand.errors.validation import to_ms

__all__ = ("checked_timeout_ms", "parse_duration", "to_whole_ms")

_DURATION: Final = re.compile(r"(\d[\d_]*(?:\.\d+)?|\.\d+) ?(ms|s|min|h|d)?", re.ASCII)
_UNITS: Final = {"s": 1.0, "min": 60.0, "h": 3600.0, "d": 86_400.0}


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


def parse_duration(text: str) -> float:
    """Parse a duration, and return it in seconds: `"5"`, `"0.5"`, `"500ms"`, `"5s"`, `"2min"`, `"1h"`, `"30d"`.

    Raises:
        InvalidArgumentError: the text is not a duration.
    """
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        raise InvalidArgumentError(
            f"{safe_repr(text)} is not a time: pass seconds, or a number with a unit, such as 500ms, 5s, 2min or 1h"
        )
    number = float(found[1].replace("_", ""))
    return number / 1000 if found[2] == "ms" else number * _UNITS[found[2] or "s"]
