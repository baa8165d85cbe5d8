"""What follows from a child's end. Pure: words in, frozen plans out; `Judge` only carries them out.

The table of restarts, which a test holds row by row:

    mode         NORMAL    FAIL, PANIC
    permanent    restart   restart
    transient    leave     restart
    temporary    forget    forget
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import NamedTuple

from bandstand.core import ExitReason
from bandstand.supervise.backoff import Backoff
from bandstand.supervise.intensity import History, Intensity
from bandstand.supervise.vocabulary import AutoShutdown, ChildMode, Strategy

__all__ = ("RESTART", "Fate", "Plan", "ends_supervisor", "fate_of", "plan_restart", "who_restarts")


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


# Past a named tuple's own constructor, which is a Python function: for the way of most restarts.
new_tuple: Callable[[type[Plan], tuple[bool, float, float, History]], Plan]
new_tuple = tuple.__new__  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]  # made for any tuple


class Plan(NamedTuple):
    """What to do about one restart, and what to remember of it."""

    gives_up: bool
    """Whether it is one too many. Then nothing else holds but the history."""
    delay_ms: float
    """How long to wait before it; 0 for not at all."""
    stored_ms: float
    """What the child's backoff grows from the next time."""
    history: History


def plan_restart(
    intensity: Intensity,
    history: History,
    now: float,
    backoff: Backoff | None,
    reason: ExitReason,
    stored_ms: float,
    lived_ms: float,
    chance: float,
) -> Plan:
    """Decide about one restart: the intensity first, which wins; then how long to wait.

    Args:
        intensity: how often is too often.
        history: the supervisor's restarts so far.
        now: the time, in milliseconds.
        backoff: the child's, if it has one. Only abnormal exits wait.
        reason: how the child ended.
        stored_ms: what its backoff has stored.
        lived_ms: how long it had run; a period without failure makes its backoff begin anew.
        chance: a random number from 0 to 1.
    """
    history = history.add(now, intensity.period_ms)
    is_too_many = history.count > intensity.limit
    if lived_ms >= intensity.period_ms:
        stored_ms = 0
    if backoff is None or reason is NORMAL:
        return new_tuple(Plan, (is_too_many, 0, stored_ms, history))
    wait = backoff.after(stored_ms, chance=chance)
    return Plan(is_too_many, wait.ms, wait.stored_ms, history)
