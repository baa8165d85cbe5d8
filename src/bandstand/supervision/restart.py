"""The restart policy: what to do when a child exits. Pure functions and data, without clocks and without effects.

Everything in bandstand that restarts something decides by this module. It answers three questions about an exit:

1. Is the child restarted? `exit_action` decides by the child's policy and its exit reason:

       restart      NORMAL       FAIL, PANIC
       ALWAYS       restart      restart
       ON_FAILURE   stay down    restart
       NEVER        forget       forget

2. Is this one restart too many? An `Intensity` allows `max_restarts` restarts within `period`. With the default, 3 in 5 s, the
   fourth restart within any five seconds is not made. A restart counts until `period` has passed since it. So a child that
   fails every 1.7 s is restarted for ever, because no five seconds contain four of its failures, and one that fails every 1.6 s
   ends its supervisor with its fourth failure (at 0, 1.6, 3.2 and 4.8 s).

3. How long to wait first? A `Backoff` waits `initial` after the first abnormal exit, and `factor` times as long after each
   further one, up to `maximum`. A child that has run for a whole `period` starts again with `initial`.

`plan_restart` answers the second and the third question. The limit counts restarts whether they wait or not, and takes precedence.
Delays lengthen the period: while a child has delays, the period is longer by `max_restarts` times the last one. So a child that fails
as soon as it starts is restarted `max_restarts` times, however long it waits each time. With the default delays it fails at 0,
0.1, 0.3, 0.7, 1.5, 3.1, 6.3, 12.7 and 22.7 s. A supervisor whose spec sets no limit allows a child with a backoff as many restarts as
it takes to wait the longest delay once, here 8, and gives up at the ninth failure.

A child that has its own limit has its own history, and its restarts do not count for its supervisor. The restart that is one too many
for such a child gives up the child, not the supervisor. `count_given_up` decides whether the supervisor follows.

`restart_group` and `triggers_auto_shutdown` decide what an exit means for the siblings and for the supervisor.

The module is compiled: a supervisor asks for a plan at every restart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from math import ceil, log
from typing import NamedTuple, TypeAlias

from bandstand.core import ExitReason
from bandstand.errors import InvalidArgumentError
from bandstand.errors.formatting import safe_repr
from bandstand.errors.validation import LONGEST_MS, Seconds, is_number, to_ms, to_seconds

try:
    import cython
except ModuleNotFoundError:  # interpreted, where Cython is not installed
    from bandstand.core import _cython as cython  # type: ignore[no-redef]  # one of the two

__all__ = (
    "DEFAULT_MAX_RESTARTS",
    "DEFAULT_PERIOD",
    "AutoShutdown",
    "Backoff",
    "ExitAction",
    "History",
    "Intensity",
    "RestartBudget",
    "RestartPlan",
    "RestartPolicy",
    "Restarts",
    "Strategy",
    "Wait",
    "budget_of",
    "check_intensity",
    "count_given_up",
    "counting_period_ms",
    "exit_action",
    "plan_restart",
    "restart_group",
    "triggers_auto_shutdown",
)

# Annotations only: the .pxd gives the C types.
Count: TypeAlias = int
Milliseconds: TypeAlias = float

NORMAL = ExitReason.NORMAL
# The limit of a spec that sets none.
DEFAULT_MAX_RESTARTS = 3
DEFAULT_PERIOD = 5.0
# A history copies its list once this many entries, and more than half of the list, are out of date.
COMPACT_FROM = 32
# How many delays lengthen the period at most. Without this bound, a supervisor that never gives up would remember every restart.
MAX_DELAYS = 1000


# -- is the child restarted? ---------------------------------------------------------------------------------------------------


class RestartPolicy(Enum):
    """When a child, or a pod, that has ended is restarted."""

    ALWAYS = "always"
    """After every exit. OTP calls such a child permanent."""
    ON_FAILURE = "on_failure"
    """After an abnormal exit: FAIL, or an exception. OTP: transient."""
    NEVER = "never"
    """Never; a supervisor forgets such a child. OTP: temporary."""


class ExitAction(Enum):
    """What a supervisor does with a child that has exited by itself."""

    RESTART = "restart"
    STAY_DOWN = "stay down"
    """The child is not restarted. The supervisor keeps its spec, and `restart_child` can start it again."""
    FORGET = "forget"
    """The child is not restarted, and the supervisor drops its spec."""


def exit_action(restart: RestartPolicy, reason: ExitReason) -> ExitAction:
    """Decide what happens to a child with this policy that has exited for this reason."""
    if restart is RestartPolicy.NEVER:
        return ExitAction.FORGET
    if restart is RestartPolicy.ALWAYS or reason is not NORMAL:
        return ExitAction.RESTART
    return ExitAction.STAY_DOWN


# -- what does it mean for others? ----------------------------------------------------------------------------------------------


class Strategy(Enum):
    """Which children are restarted together with one that is."""

    ONE_FOR_ONE = "one_for_one"
    """None."""
    ONE_FOR_ALL = "one_for_all"
    """All its siblings: for children that cannot work without each other."""
    REST_FOR_ONE = "rest_for_one"
    """Those after it in the supervisor's order: for children that depend on the ones before them."""


class AutoShutdown(Enum):
    """Whether a supervisor stops when its significant children have exited."""

    NEVER = "never"
    ANY_SIGNIFICANT = "any_significant"
    """When the first of them exits and is not restarted."""
    ALL_SIGNIFICANT = "all_significant"
    """When the last of them has."""


def restart_group(strategy: Strategy, index: int, count: int) -> range:
    """Return the indexes of the children to restart when child `index` of `count` is restarted, itself included."""
    if strategy is Strategy.ONE_FOR_ONE:
        return range(index, index + 1)
    return range(count) if strategy is Strategy.ONE_FOR_ALL else range(index, count)


def triggers_auto_shutdown(auto_shutdown: AutoShutdown, others: Sequence[bool]) -> bool:
    """Decide whether the exit of a significant child that is not restarted stops its supervisor.

    Args:
        auto_shutdown: what the supervisor's spec says.
        others: for every other significant child, whether it is still up or about to be.
    """
    if auto_shutdown is AutoShutdown.ANY_SIGNIFICANT:
        return True
    return auto_shutdown is AutoShutdown.ALL_SIGNIFICANT and not any(others)


# -- is it one restart too many? ------------------------------------------------------------------------------------------------


@cython.freelist(8)
@cython.cclass
class History:
    """The times of the restarts that may still count, all in one unit, the oldest first. Immutable.

    `add` returns a new history. To copy the times for it would make n restarts cost n² steps. So histories share one list, which
    is only appended to, and each is a window onto it; adding to a history that is not the newest copies its window.
    """

    __slots__ = ("_end", "_start", "_times", "count")

    def __init__(self, times: tuple[float, ...] = ()) -> None:
        self._times = [float(time) for time in times]
        self._start: Count = 0
        self._end: Count = len(self._times)
        self.count: Count = self._end

    def __len__(self) -> int:
        return self.count

    @property
    def times(self) -> tuple[float, ...]:
        """The times."""
        return tuple(self._times[self._start : self._end])

    def add(self, now: float, period: float) -> History:
        """Return the history with a restart at `now`, and without those that are at least `period` old."""
        start, end, times = self._start, self._end, self._times
        expired = now - period
        while start < end:
            time = times[start]
            if time > expired:
                break
            start += 1
        if end != len(times) or (start > COMPACT_FROM and start > end - start):
            times = times[start:end]
            end -= start
            start = 0
        times.append(float(now))
        history = History.__new__(History)
        history.set_window(times, start, end + 1)
        return history

    def count_within(self, now: float, period: float) -> int:
        """Return how many of the restarts are less than `period` old."""
        expired = now - period
        return sum(time > expired for time in self.times)

    def set_window(self, times: list[float], start: Count, end: Count) -> None:
        """Make this new history the window of a list from `start` to `end`. Only `add` calls it."""
        self._times = times
        self._start = start
        self._end = end
        self.count = end - start

    def __eq__(self, other: object) -> bool:
        return self.times == other.times if isinstance(other, History) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.times)

    def __reduce__(self) -> tuple[type[History], tuple[tuple[float, ...]]]:
        return History, (self.times,)

    def __repr__(self) -> str:
        return f"History({self.times!r})"


class Restarts(NamedTuple):
    """A history with one restart more, and whether that restart is one too many."""

    history: History
    is_too_many: bool


@dataclass(frozen=True, slots=True)
class Intensity:
    """A limit on restarts: at most `max_restarts` within `period` seconds.

    Raises:
        InvalidArgumentError: a value is out of range.
    """

    max_restarts: int = DEFAULT_MAX_RESTARTS
    period: Seconds = DEFAULT_PERIOD
    period_ms: float = field(init=False, repr=False, compare=False)
    """The period in milliseconds, which the runtime counts in."""

    def __post_init__(self) -> None:
        period = check_intensity("Intensity", self.max_restarts, self.period)
        object.__setattr__(self, "period", period)
        object.__setattr__(self, "period_ms", to_ms("Intensity: period", period))

    def add(self, history: History, now: float) -> Restarts:
        """Add a restart at `now`, in seconds, which must not be before those of the history."""
        recent = history.add(now, self.period_ms / 1000)
        return Restarts(recent, recent.count > self.max_restarts)


class RestartBudget(NamedTuple):
    """How much of a restart limit is used."""

    used: int
    """How many restarts count now."""
    max_restarts: int
    """How many are allowed. One more is one too many."""
    period: float
    """The seconds in which they are counted. Delays lengthen it: see the docstring of the module."""


def check_intensity(where: str, max_restarts: object, period: object) -> float:
    """Check that both values make an `Intensity`, and return the period in seconds.

    Raises:
        InvalidArgumentError: they do not.
    """
    if type(max_restarts) is not int or max_restarts < 0:
        raise InvalidArgumentError(
            f"{where}: max_restarts is {safe_repr(max_restarts)}: pass how many restarts are allowed, from 0 on"
        )
    return to_seconds(f"{where}: period", period, is_zero_allowed=False)


# -- how long to wait? ----------------------------------------------------------------------------------------------------------


class Wait(NamedTuple):
    """A delay in seconds, and what to remember for the next one."""

    delay: float
    """The delay, with jitter."""
    stored: float
    """The delay without jitter, from which the next one grows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """Delays in seconds that grow while a child keeps failing.

    Raises:
        InvalidArgumentError: a value is out of range, or two values contradict each other.
    """

    initial: Seconds = 0.1
    """The first delay."""
    maximum: Seconds = 10.0
    """The longest delay."""
    factor: float = 2.0
    """How many times longer each delay is than the one before."""
    jitter: Seconds = 0.0
    """Each delay changes by a random amount between minus and plus this much, and stays between 0 and `maximum`."""
    _ms: tuple[float, float, float] = field(init=False, repr=False, compare=False)
    """`initial`, `maximum` and `jitter` in milliseconds, which the runtime counts in."""

    def __post_init__(self) -> None:
        initial_ms = to_ms("Backoff: initial", self.initial, is_zero_allowed=False)
        maximum_ms = to_ms("Backoff: maximum", self.maximum, is_zero_allowed=False)
        jitter_ms = to_ms("Backoff: jitter", self.jitter)
        for name in ("initial", "maximum", "jitter"):
            object.__setattr__(self, name, to_seconds(name, getattr(self, name)))
        object.__setattr__(self, "_ms", (initial_ms, maximum_ms, jitter_ms))
        if maximum_ms < initial_ms:
            raise InvalidArgumentError(
                f"Backoff: initial is {self.initial} and maximum is {self.maximum}: the longest delay cannot be "
                f"shorter than the first"
            )
        if not is_number(self.factor, 1, LONGEST_MS):
            raise InvalidArgumentError(
                f"Backoff: factor is {safe_repr(self.factor)}: pass a number from 1 on; delays do not shrink while a child keeps failing"
            )

    def after(self, stored: float, *, chance: float = 0.5) -> Wait:
        """Return the delay after one more abnormal exit.

        Args:
            stored: `Wait.stored` of the last delay; 0 for the first one, and after a stable period.
            chance: a random number from 0 to 1, for the jitter. The jitter is not stored, so it cannot add up.
        """
        delay_ms, stored_ms = self.after_ms(stored * 1000, chance)
        return Wait(delay_ms / 1000, stored_ms / 1000)

    def after_ms(self, stored_ms: float, chance: float) -> tuple[float, float]:
        """Do what `after` does in milliseconds."""
        initial_ms, maximum_ms, jitter_ms = self._ms
        stored = initial_ms if stored_ms <= 0 else min(stored_ms * self.factor, maximum_ms)
        if not jitter_ms:
            return stored, stored
        return min(max(0.0, stored + (2 * chance - 1) * jitter_ms), maximum_ms), stored

    @property
    def jitter_ms(self) -> float:
        """The jitter in milliseconds."""
        return self._ms[2]

    @property
    def restarts_to_maximum(self) -> int:
        """How many restarts it takes until the longest delay has been waited once; at least 3."""
        initial_ms, maximum_ms, _ = self._ms
        if self.factor == 1 or initial_ms == maximum_ms:
            return DEFAULT_MAX_RESTARTS
        # The tolerance is for the rounding error of the logarithms.
        steps = ceil(log(maximum_ms / initial_ms) / log(self.factor) - 1e-9)
        return max(DEFAULT_MAX_RESTARTS, 1 + steps)


# -- one restart ----------------------------------------------------------------------------------------------------------------


@cython.freelist(8)
@cython.cclass
class RestartPlan:
    """The decision about one restart, and what to remember for the next one. Immutable."""

    __slots__ = ("delay_ms", "gives_up", "history", "stored_ms")

    def __init__(
        self, gives_up: bool, delay_ms: Milliseconds, stored_ms: Milliseconds, history: History
    ) -> None:
        # The restart is one too many and is not made. Then only the history means anything.
        self.gives_up = gives_up
        # How long to wait before the restart; 0 for no wait.
        self.delay_ms = delay_ms
        # What the child's backoff grows from next time.
        self.stored_ms = stored_ms
        self.history = history

    def __eq__(self, other: object) -> bool:
        return self._key() == other._key() if isinstance(other, RestartPlan) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key())

    def __reduce__(self) -> tuple[type[RestartPlan], tuple[bool, Milliseconds, Milliseconds, History]]:
        return RestartPlan, self._key()

    def __repr__(self) -> str:
        return f"RestartPlan{self._key()!r}"

    def _key(self) -> tuple[bool, Milliseconds, Milliseconds, History]:
        return self.gives_up, self.delay_ms, self.stored_ms, self.history


def plan_restart(
    intensity: Intensity,
    history: History,
    now_ms: Milliseconds,
    backoff: Backoff | None,
    reason: ExitReason,
    stored_ms: Milliseconds,
    lived_ms: Milliseconds,
    chance: float,
) -> RestartPlan:
    """Decide about one restart: whether it is one too many, and how long to wait before it. All times are in milliseconds.

    Args:
        intensity: how many restarts are allowed.
        history: the restarts so far.
        now_ms: the time.
        backoff: the child's backoff, if it has one. Only abnormal exits wait.
        reason: how the child exited.
        stored_ms: what the last plan of this child said to remember; 0 if there was none.
        lived_ms: how long the child had run. After a whole period its backoff starts again.
        chance: a random number from 0 to 1, for the jitter.
    """
    period_ms = intensity.period_ms
    plan = RestartPlan.__new__(RestartPlan)
    plan.delay_ms = 0.0
    plan.stored_ms = 0.0 if lived_ms >= period_ms else stored_ms
    if backoff is not None and reason is not NORMAL:
        period_ms = counting_period_ms(intensity, backoff, plan.stored_ms)
        plan.delay_ms, plan.stored_ms = backoff.after_ms(plan.stored_ms, chance)
    plan.history = history.add(now_ms, period_ms)
    plan.gives_up = plan.history.count > intensity.max_restarts
    return plan


def counting_period_ms(
    intensity: Intensity, backoff: Backoff | None, stored_ms: Milliseconds
) -> Milliseconds:
    """Return the time in which restarts count for a child, in milliseconds: the period, longer while the child has delays.

    Args:
        intensity: how many restarts are allowed.
        backoff: the child's backoff, if it has one.
        stored_ms: what the last plan of this child said to remember; 0 if there was none, and after a stable period.
    """
    period_ms: Milliseconds = intensity.period_ms
    if backoff is not None and stored_ms > 0:
        # The delays before the restarts that count were not longer than the last one, but for the jitter.
        period_ms += min(intensity.max_restarts, MAX_DELAYS) * (stored_ms + backoff.jitter_ms)
    return period_ms


def budget_of(
    intensity: Intensity, history: History, now_ms: Milliseconds, period_ms: Milliseconds
) -> RestartBudget:
    """Return how much of a limit is used at a time.

    Args:
        intensity: the limit.
        history: the restarts so far.
        now_ms: the time.
        period_ms: the time in which restarts count: see `counting_period_ms`.
    """
    return RestartBudget(
        history.count_within(now_ms, period_ms), intensity.max_restarts, intensity.period_ms / 1000
    )


def count_given_up(limit: Intensity, history: History, now_ms: Milliseconds) -> Restarts:
    """Count a child that has exceeded its own limit against the limit of its supervisor, as one restart.

    Args:
        limit: the supervisor's limit.
        history: what has counted against it so far.
        now_ms: the time.
    """
    recent = history.add(now_ms, limit.period_ms)
    return Restarts(recent, recent.count > limit.max_restarts)
