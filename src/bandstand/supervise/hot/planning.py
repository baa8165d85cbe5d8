"""One restart planned: the intensity, the backoff and how long the child had lived. Pure, as all of `decision` is."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from bandstand.core import ExitReason
from bandstand.supervise.decision import Plan

if TYPE_CHECKING:
    from bandstand.supervise.backoff import Backoff
    from bandstand.supervise.hot.history import History
    from bandstand.supervise.intensity import Intensity

NORMAL = ExitReason.NORMAL

# Past a named tuple's own constructor, which is a Python function: for the way of most restarts.
new_tuple: Callable[[type[Plan], tuple[bool, float, float, History]], Plan]
new_tuple = tuple.__new__  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]  # made for any tuple


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
    period_ms = intensity.period_ms
    history = history.add(now, period_ms)
    is_too_many = history.count > intensity.limit
    if lived_ms >= period_ms:
        stored_ms = 0.0
    if backoff is None or reason is NORMAL:
        return new_tuple(Plan, (is_too_many, 0.0, stored_ms, history))
    wait = backoff.after(stored_ms, chance=chance)
    return Plan(is_too_many, wait.ms, wait.stored_ms, history)
