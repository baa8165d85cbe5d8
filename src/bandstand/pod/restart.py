"""Restarts of pods: how an incarnation ended, and what follows from that.

`decide_restart` is pure; a test checks its table row by row:

    restart       COMPLETED   FAILED
    ALWAYS        restart     restart
    ON_FAILURE    retire      restart
    NEVER         retire      retire

A restart over the intensity limit escalates: the deployment fails, or, if it is nested, the one around it decides. The failure of
an *essential* member escalates too: of the main pod, which cannot be restarted, and of a nested deployment that its parent watches.
Once the deployment is stopping, every end is final. Limits and delays are those of `bandstand.supervision.restart`.

`RestartTracker` adds the clock, the jitter and the state that is kept between incarnations.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import Enum
from time import monotonic
from typing import TYPE_CHECKING, Protocol, final

from bandstand.core import ExitReason
from bandstand.errors import PodFailedError
from bandstand.pod.enums import PodPhase
from bandstand.supervision import History, RestartPolicy
from bandstand.supervision.restart import ExitAction, exit_action, plan_restart

if TYPE_CHECKING:
    from bandstand.supervision import Backoff, Intensity

__all__ = (
    "PodAction",
    "PodEnding",
    "RestartDecision",
    "RestartSettings",
    "RestartState",
    "RestartTracker",
    "decide_restart",
)


@dataclass(frozen=True, slots=True)
class PodEnding:
    """How one incarnation of a pod ended: COMPLETED or FAILED, and why."""

    phase: PodPhase
    reason: str = ""
    """The reason, as a sentence."""
    actor: str = ""
    """The role of the actor that failed; empty if no single actor did."""
    cause: BaseException | None = None

    @property
    def is_failure(self) -> bool:
        """Whether the incarnation failed."""
        return self.phase is PodPhase.FAILED

    def error(self, pod: str) -> PodFailedError:
        """Return the ending of `pod` as an exception."""
        return PodFailedError.of(pod, self.actor, self.reason, self.cause)

    def describe(self) -> str:
        """Return the reason, with the actor that failed."""
        return f"actor {self.actor!r}: {self.reason}" if self.actor else self.reason


class PodAction(Enum):
    """What happens to a pod that ended."""

    RESTART = "restart"
    RETIRE = "retire"
    """The pod ended for good, and the deployment goes on without it."""
    ESCALATE = "escalate"
    """The pod ended for good, and the deployment fails."""


@dataclass(frozen=True, slots=True)
class RestartState:
    """What is kept of a pod from one incarnation to the next."""

    history: History = History()  # noqa: RUF009  # immutable
    """The restarts that may still count."""
    stored_ms: float = 0.0
    """The value that the next backoff delay grows from."""


@dataclass(frozen=True, slots=True)
class RestartDecision:
    """What to do about one ending, and the state to keep."""

    action: PodAction
    reason: str
    """The reason, as a sentence: for the log, and for callers that find the pod gone."""
    delay_ms: float = 0.0
    """How long to wait before the restart."""
    state: RestartState = RestartState()


def decide_restart(
    ending: PodEnding,
    state: RestartState,
    *,
    restart: RestartPolicy,
    intensity: Intensity,
    backoff: Backoff | None,
    now: float,
    ran_ms: float,
    chance: float,
    is_essential: bool = False,
    is_stopping: bool = False,
) -> RestartDecision:
    """Decide what follows from the end of one incarnation.

    Args:
        ending: how it ended.
        state: the state of the last decision.
        restart: the restart policy.
        intensity: how many restarts are allowed within a period.
        backoff: how long to wait after a failure; None for no wait.
        now: the time in milliseconds, without the time that starts took.
        ran_ms: how long the incarnation ran.
        chance: a random number from 0 to 1, for the jitter.
        is_essential: whether the deployment fails if it fails for good.
        is_stopping: whether the deployment is stopping.
    """
    what = "it has failed" if ending.is_failure else "it has ended"
    reason = f"{what}: {ending.reason}" if ending.reason else what
    if is_stopping:
        return RestartDecision(PodAction.RETIRE, "the troupe is stopping", state=state)
    exit_reason = ExitReason.FAIL if ending.is_failure else ExitReason.NORMAL
    if exit_action(restart, exit_reason) is not ExitAction.RESTART:
        if is_essential and ending.is_failure:
            # The error of the deployment says itself that the pod failed.
            return RestartDecision(PodAction.ESCALATE, ending.reason or what, state=state)
        return RestartDecision(PodAction.RETIRE, reason, state=state)
    plan = plan_restart(intensity, state.history, now, backoff, exit_reason, state.stored_ms, ran_ms, chance)
    state = RestartState(plan.history, plan.stored_ms)
    if plan.gives_up:
        count = plan.history.count
        too_many = (
            f"it needed {count} restart{'' if count == 1 else 's'} within {intensity.period:g} s, not counting start-up time, "
            f"and {intensity.max_restarts} are allowed; the last time {reason}"
        )
        return RestartDecision(PodAction.ESCALATE, too_many, state=state)
    return RestartDecision(PodAction.RESTART, reason, plan.delay_ms, state)


class RestartSettings(Protocol):
    """What the spec of a pod, or of a nested deployment, says about restarts."""

    @property
    def restart(self) -> RestartPolicy:
        """The restart policy."""
        ...

    @property
    def restarts(self) -> Intensity:
        """How many restarts are allowed within a period."""
        ...

    @property
    def backoff(self) -> Backoff | None:
        """How long to wait after a failure."""
        ...


@final
class RestartTracker:
    """Decides about the restarts of one pod, or of one nested deployment.

    The intensity is measured on a clock that stops while an incarnation starts. Otherwise a pod that is slow to start and fails each
    time would be restarted for ever: three restarts of 1.7 s each are never within five seconds.

    Args:
        settings: the restart settings of its spec.
        is_essential: whether the deployment fails if it fails for good.
    """

    __slots__ = ("_is_essential", "_running_since", "_settings", "_start_s", "_started_at", "_state")

    def __init__(self, settings: RestartSettings, *, is_essential: bool) -> None:
        self._settings = settings
        self._is_essential = is_essential
        self._state = RestartState()
        self._started_at = monotonic()
        # None until the current incarnation runs.
        self._running_since: float | None = None
        # The start-up time of all incarnations so far.
        self._start_s = 0.0

    def mark_starting(self) -> None:
        """Note that an incarnation is being started."""
        self._started_at = monotonic()
        self._running_since = None

    def mark_running(self) -> None:
        """Note that the current incarnation runs. A second call changes nothing."""
        if self._running_since is None:
            self._running_since = monotonic()

    def decide(self, ending: PodEnding, *, is_stopping: bool) -> RestartDecision:
        """Decide what follows from the end of the current incarnation, and keep the new state."""
        now = monotonic()
        running_since = now if self._running_since is None else self._running_since
        self._start_s += running_since - self._started_at
        decision = decide_restart(
            ending,
            self._state,
            restart=self._settings.restart,
            intensity=self._settings.restarts,
            backoff=self._settings.backoff,
            now=(now - self._start_s) * 1000,
            ran_ms=(now - running_since) * 1000,
            chance=random.random(),  # noqa: S311  # jitter
            is_essential=self._is_essential,
            is_stopping=is_stopping,
        )
        self._state = decision.state
        return decision
