"""What the arguments of this room must keep to."""

from __future__ import annotations

from typing import Any

from bandstand.errors import InvalidArgument
from bandstand.errors.formatting import safe_repr

__all__ = ("check_token", "checked_ms")

# A hundred years: every clock and every wheel can reckon with that.
LONGEST_MS = 100 * 366 * 86_400_000


def checked_ms(ms: Any, name: str = "timeout_ms") -> float:
    """How long to wait at most; `name` is what the caller calls it.

    Raises:
        InvalidArgument: it is no number of milliseconds from 0 to a hundred years.
    """
    if not isinstance(ms, (int, float)) or not 0 <= ms <= LONGEST_MS:
        raise InvalidArgument(
            f"{name} is {safe_repr(ms)}: pass a number of milliseconds up to a hundred years, 0 for at once, or None for ever"
        )
    return float(ms)


def check_token(token: Any) -> None:
    """Refuse what is no token.

    Raises:
        InvalidArgument: it is none.
    """
    if not hasattr(token, "enlist"):
        raise InvalidArgument(f"token is {safe_repr(token)}: pass a CancelToken, or None")
