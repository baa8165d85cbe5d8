"""Another order of ready actors for every seed, the same one for the same seed."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bandstand.core import Loop

__all__ = ("shuffle",)


def shuffle(loop: Loop, seed: int) -> None:
    """Have the loop run its ready actors in an order that depends on `seed` alone.

    What a test proves under many seeds does not hang on the order in which actors happened to become ready. Order
    inside one actor, priority of lanes and all numbered promises hold as ever.
    """
    from bandstand.core.lowlevel import set_scheduler

    set_scheduler(loop, Random(seed).randrange)  # noqa: S311  # reproducible is what it must be
