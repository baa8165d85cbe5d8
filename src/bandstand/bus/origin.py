"""Who asks, and so where the answer goes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from bandstand.bus.frame import Frame

__all__ = ("NOBODY", "Encore", "Nobody", "Origin")


class Origin(Protocol):
    """Who asked: a client, a capability, nobody."""

    def settle(self, frame: Frame, settles: bool, /) -> bool:
        """Take the one answer. False if there is nobody who would.

        Args:
            frame: the answer.
            settles: whether it gives a client the credit back that its request has taken.
        """
        ...


class Nobody:
    """Who asks without wanting to know."""

    __slots__ = ()

    def settle(self, _frame: Frame, _settles: bool, /) -> bool:
        """Nobody is there."""
        return False


NOBODY: Final = Nobody()


class Encore:
    """Who has a dead letter sent again: the answer decides what becomes of it."""

    __slots__ = ("_then",)

    def __init__(self, then: Callable[[Frame], object]) -> None:
        self._then = then

    def settle(self, frame: Frame, _settles: bool, /) -> bool:
        """Look how it went."""
        self._then(frame)
        return True
