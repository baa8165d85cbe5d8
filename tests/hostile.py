"""Exceptions that cannot be shown as others can: what raises one must fare no worse than with any other.

A module of its own: processes import it by its name.
"""

from __future__ import annotations

from typing import Any


class Unshowable:
    """Raises at each attempt to show it."""

    def __init__(self, error: type[BaseException] = ValueError) -> None:
        self.error = error

    def __repr__(self) -> str:
        raise self.error

    __str__ = __repr__


class MuteError(Exception):
    """Its text cannot be made."""

    def __str__(self) -> str:
        raise RuntimeError("no words")

    __repr__ = __str__


class RootlessError(Exception):
    """What Python asks of an exception besides its text raises too."""

    @property
    def __cause__(self) -> Any:  # type: ignore[override]
        raise RuntimeError("no cause")

    @property
    def __notes__(self) -> Any:  # type: ignore[override]  # pyright: ignore[reportIncompatibleVariableOverride]
        raise RuntimeError("no notes")


HUGE = 3_000_000
HOW = ("plain", "repr", "interrupt", "mute", "rootless", "surrogate", "huge")
"""The first is an exception like others: everything must be as with that."""


def hostile(how: str) -> Exception:
    """An exception of that kind."""
    kinds: dict[str, Exception] = {
        "plain": ValueError("plain"),
        "repr": ValueError(Unshowable()),
        "interrupt": ValueError(Unshowable(KeyboardInterrupt)),
        "mute": MuteError("unheard"),
        "rootless": RootlessError("without a cause"),
        "surrogate": ValueError("\udc80"),
        "huge": ValueError("x" * HUGE),
    }
    return kinds[how]
