"""What follows from the end of a pod. Pure: words in, frozen plans out; the kubelet only carries them out.

The table, which a test holds row by row:

    restart       COMPLETED   FAILED
    ALWAYS        restart     restart
    ON_FAILURE    retire      restart
    NEVER         retire      retire

A restart that is one too many escalates: to the troupe around, or the troupe fails. So does the failure of whoever is *vital*: the
main pod, which nobody can start again, and a nested troupe whose parent watches it. Once the troupe is stopping, every end is
final. How often is too often, and how long to wait, is the supervisors' arithmetic, the only one there is.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from bandstand.core import ExitReason
from bandstand.pod.vocabulary import RestartPolicy
from bandstand.supervision import ChildMode, History
from bandstand.supervision.restart import ExitAction, exit_action, plan_restart

if TYPE_CHECKING:
    from bandstand.pod.ending import Ending
    from bandstand.supervision import Backoff, Intensity

__all__ = ("MODES", "Plan", "Record", "Verdict", "decide")

MODES = {
    RestartPolicy.ALWAYS: ChildMode.PERMANENT,
    RestartPolicy.ON_FAILURE: ChildMode.TRANSIENT,
    RestartPolicy.NEVER: ChildMode.TEMPORARY,
}
"""What supervisors call the same."""


class Verdict(Enum):
    """What becomes of a pod that has ended."""

    RESTART = "restart"
    RETIRE = "retire"
    """It has ended for good, and the troupe goes on without it."""
    ESCALATE = "escalate"
    """It has ended for good, and that is the business of whoever is above."""


@dataclass(frozen=True, slots=True)
class Record:
    """What is remembered of a pod from one incarnation to the next."""

    history: History = History()  # noqa: RUF009  # immutable
    """Its restarts that may still count."""
    stored_ms: float = 0.0
    """What its backoff grows from the next time."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do about one end, and what to remember of it."""

    verdict: Verdict
    reason: str
    """Why, in a sentence: for those who find the pod gone, and for the log."""
    delay_ms: float = 0.0
    """How long to wait before the restart; 0 for not at all."""
    record: Record = Record()


def decide(
    ending: Ending,
    record: Record,
    *,
    restart: RestartPolicy,
    intensity: Intensity,
    backoff: Backoff | None,
    now: float,
    lived_ms: float,
    chance: float,
    is_vital: bool = False,
    is_stopping: bool = False,
) -> Plan:
    """Decide about the end of one incarnation.

    Args:
        ending: how it has ended.
        record: what is remembered.
        restart: when it is to be started again.
        intensity: how often is too often.
        backoff: how long to wait after a failure; None for not at all.
        now: the time, in milliseconds, not counting that of starts.
        lived_ms: how long the incarnation has run.
        chance: a random number from 0 to 1, for the jitter.
        is_vital: whether the troupe cannot go on when it has failed for good.
        is_stopping: whether the troupe has begun to stop.
    """
    what = f"it has {'failed' if ending.is_failure else 'ended'}"
    reason = f"{what}: {ending.reason}" if ending.reason else what
    if is_stopping:
        return Plan(Verdict.RETIRE, "the troupe is stopping", record=record)
    exit_ = ExitReason.FAIL if ending.is_failure else ExitReason.NORMAL
    if exit_action(MODES[restart], exit_) is not ExitAction.RESTART:
        if is_vital and ending.is_failure:
            # That it has failed is what whoever is above says himself.
            return Plan(Verdict.ESCALATE, ending.reason or what, record=record)
        return Plan(Verdict.RETIRE, reason, record=record)
    plan = plan_restart(intensity, record.history, now, backoff, exit_, record.stored_ms, lived_ms, chance)
    record = Record(plan.history, plan.stored_ms)
    if plan.gives_up:
        times = "once" if plan.history.count == 1 else f"{plan.history.count} times"
        too_many = (
            f"it was to be started again {times} within {intensity.period_ms:g} ms, not counting its starts, and "
            f"{intensity.limit} are allowed; the last time {reason}"
        )
        return Plan(Verdict.ESCALATE, too_many, record=record)
    return Plan(Verdict.RESTART, reason, plan.delay_ms, record)
