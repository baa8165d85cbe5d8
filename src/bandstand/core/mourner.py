"""Hearing of an actor's end from outside of all actors, however it ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, final

from bandstand.core.hot.receipt import Receipt
from bandstand.core.vocabulary import ExitReason

if TYPE_CHECKING:
    from bandstand.core.hot.ids import ActorId

__all__ = ("Heir", "Mourner")


@final
class Mourner(Receipt):
    """Calls a function, once, with the reason and the cause of an actor's end, inside its exit: it must not raise."""

    __slots__ = ("_told",)

    def __init__(self, told: Callable[[ExitReason, BaseException | None], object]) -> None:
        self._told = told

    def lost(self, actor: ActorId | None, name: str | None, reason: int, cause: BaseException | None) -> None:
        """The actor has ended."""
        del actor, name
        self._told(ExitReason(reason), cause)


@final
class Heir(Receipt):
    """Calls a function, once, if the loop has ended before a call of it was due: it must not raise."""

    __slots__ = ("_told",)

    def __init__(self, told: Callable[[], object]) -> None:
        self._told = told

    def lost(self, actor: ActorId | None, name: str | None, reason: int, cause: BaseException | None) -> None:
        """The loop has ended."""
        del actor, name, reason, cause
        self._told()
