"""Which message is at hand: what is said now follows from it."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bandstand.bus.hot.pending import Delivery, Pending

__all__ = ("AT_HAND",)

AT_HAND: ContextVar[Pending | Delivery | None] = ContextVar("bandstand.bus.at_hand", default=None)
"""The message that the code at hand is about; tasks take it along."""
