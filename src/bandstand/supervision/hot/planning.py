"""One restart planned: the intensity, the backoff and how long the child had lived. Pure, as all of `decision` is."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from bandstand.core import ExitReason

try:
    import cython
except ModuleNotFoundError:  # interpreted, where Cython is not installed
    from bandstand.core import _cython as cython  # type: ignore[no-redef]  # one of the two

if TYPE_CHECKING:
    from bandstand.supervision.backoff import Backoff
    from bandstand.supervision.hot.history import History
    from bandstand.supervision.intensity import Intensity

Milliseconds: TypeAlias = float

NORMAL = ExitReason.NORMAL


@cython.freelist(8)
@cython.cclass
class Plan:
    """What to do about one restart, and what to remember of it. Nobody changes one."""

    __slots__ = ("delay_ms", "gives_up", "history", "stored_ms")

    def __init__(
        self, gives_up: bool, delay_ms: Milliseconds, stored_ms: Milliseconds, history: History
    ) -> None:
        # Whether it is one too many. Then nothing else holds but the history.
        self.gives_up = gives_up
        # How long to wait before it; 0 for not at all.
        self.delay_ms = delay_ms
        # What the child's backoff grows from the next time.
        self.stored_ms = stored_ms
        self.history = history

    def __eq__(self, other: object) -> bool:
        return self._key() == other._key() if isinstance(other, Plan) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key())

    def __reduce__(self) -> tuple[type[Plan], tuple[bool, Milliseconds, Milliseconds, History]]:
        return Plan, self._key()

    def __repr__(self) -> str:
        return f"Plan{self._key()!r}"

    def _key(self) -> tuple[bool, Milliseconds, Milliseconds, History]:
        return self.gives_up, self.delay_ms, self.stored_ms, self.history


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
    plan = Plan.__new__(Plan)
    plan.history = history.add(now, period_ms)
    plan.gives_up = plan.history.count > intensity.limit
    plan.delay_ms = 0.0
    plan.stored_ms = 0.0 if lived_ms >= period_ms else stored_ms
    if backoff is not None and reason is not NORMAL:
        plan.delay_ms, plan.stored_ms = backoff.after(plan.stored_ms, chance=chance)
    return plan
