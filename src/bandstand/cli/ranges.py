"""Parses times, sizes and ranges of pages on the command line."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Final

from bandstand.bus.durations import parse_duration
from bandstand.errors import InvalidArgumentError

__all__ = ("parse_pages", "parse_size", "parse_time")

_PAGES: Final = re.compile(r"(\d{1,18})?(-)?(\d{1,18})?", re.ASCII)
_SIZE: Final = re.compile(r"(\d[\d_]*(?:\.\d+)?) ?(B|[kKMGT]B|[KMGT]iB)?", re.ASCII)
_POWERS: Final = "KMGT"


def parse_time(text: str, now: float) -> int:
    """Parse a moment, and return it in milliseconds since 1970: a date and time in ISO 8601, or how long ago it was, such as `10min`.

    Args:
        text: the text. Without a time zone it is local time; without a time of day it is midnight.
        now: the present time, in seconds since 1970.

    Raises:
        InvalidArgumentError: it is neither.
    """
    try:
        return int((now - parse_duration(text)) * 1000)
    except InvalidArgumentError:
        pass
    try:
        return int(datetime.fromisoformat(text.strip()).timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        raise InvalidArgumentError(
            f"{text!r} is not a time: pass a date and time, such as 2026-01-09T12:30, or how long ago it was, such as 10min or 2d"
        ) from None


def parse_size(text: str) -> int:
    """Parse a number of bytes: `1000`, `500MB` or `2GiB`.

    Raises:
        InvalidArgumentError: it is not a size.
    """
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise InvalidArgumentError(
            f"{text!r} is not a size: pass bytes, or a number with a unit, such as 500MB or 2GiB"
        )
    unit = found[2] or "B"
    base = 1024 if "i" in unit else 1000
    power = 0 if unit == "B" else _POWERS.index(unit[0].upper()) + 1
    return int(float(found[1].replace("_", "")) * base**power)


def parse_pages(text: str) -> tuple[int, int | None]:
    """Parse a range of pages, and return the first and the last one; None for no last one: `3-120`, `3-`, `-120` or `7`.

    Raises:
        InvalidArgumentError: it is not a range.
    """
    found = _PAGES.fullmatch(text.strip())
    if found is not None and (found[1] or found[3]):
        first = int(found[1] or 1)
        last = int(found[3]) if found[3] else None if found[2] else first
        if first >= 1 and (last is None or last >= first):
            return first, last
    raise InvalidArgumentError(f"{text!r} is not a range of pages: pass it as 3-120, 3-, -120 or 7")
