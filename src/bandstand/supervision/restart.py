"""What follows from a child's end. Pure: words in, words out; `Rebirth` and `Judge` only carry them out.

The table of restarts, which a test holds row by row:

    mode         NORMAL    FAIL, PANIC
    permanent    restart   restart
    transient    leave     restart
    temporary    forget    forget
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from bandstand.core import ExitReason
from bandstand.supervision.vocabulary import AutoShutdown, ChildMode, Strategy

__all__ = ("RESTART", "Fate", "ends_supervisor", "fate_of", "who_restarts")


# By these names they cost a tenth of what asking the enumeration's class does, and a restart asks for most of them.
TEMPORARY = ChildMode.TEMPORARY
PERMANENT = ChildMode.PERMANENT
NORMAL = ExitReason.NORMAL


class Fate(Enum):
    """What becomes of a child that has ended by itself."""

    RESTART = "restart"
    LEAVE = "leave"
    """It stays down; its supervisor still knows it, and it can be started again on request."""
    FORGET = "forget"


RESTART = Fate.RESTART
LEAVE = Fate.LEAVE
FORGET = Fate.FORGET


def fate_of(mode: ChildMode, reason: ExitReason) -> Fate:
    """Whether a child is started again: by its mode and by how it ended."""
    if mode is TEMPORARY:
        return FORGET
    if mode is PERMANENT or reason is not NORMAL:
        return RESTART
    return LEAVE


def who_restarts(strategy: Strategy, place: int, count: int) -> range:
    """The places of those who are started again when the child at `place` of `count` is."""
    if strategy is Strategy.ONE_FOR_ONE:
        return range(place, place + 1)
    return range(count) if strategy is Strategy.ONE_FOR_ALL else range(place, count)


def ends_supervisor(auto: AutoShutdown, others: Sequence[bool]) -> bool:
    """Whether the end of a significant child that is not restarted ends its supervisor.

    `others` says of every other significant child whether it is still there.
    """
    if auto is AutoShutdown.ANY_SIGNIFICANT:
        return True
    return auto is AutoShutdown.ALL_SIGNIFICANT and not any(others)
