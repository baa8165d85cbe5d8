"""The log lines and the errors of a supervisor.

The logger is `bandstand.supervision`. Each line has its fields on the log record as well: `supervisor`, `child`, `reason`, `attempt`,
`delay`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TypeAlias, final

from bandstand.core import ExitReason, Loop
from bandstand.core.crash_report import CrashFacts, CrashReport
from bandstand.core.logs import SafeLogger, repeated
from bandstand.core.reporter import in_brackets
from bandstand.errors import ActorFailedError, RestartLimitError, StartError
from bandstand.errors.formatting import describe_exception
from bandstand.supervision.restart import Intensity

__all__ = (
    "MAX_FAILURES",
    "ChildFailure",
    "SupervisorLog",
    "gave_up",
    "is_enabled_for",
    "start_failed",
    "why_given_up",
)

logger = SafeLogger("bandstand.supervision")
is_enabled_for = logging.getLogger("bandstand.supervision").isEnabledFor
"""Whether lines of a level are written. Every restart asks, so that it need not format a line that goes nowhere."""

MAX_FAILURES = 10
"""How many of the last failures a `RestartLimitError` contains."""
NORMAL_EXIT_HINT = (
    ", and a permanent child is restarted after that too: make it transient if its work can be finished"
)

ChildFailure: TypeAlias = tuple[str, ExitReason, BaseException | None]
"""One exit of one child: its name, the reason and the cause. A plain tuple, because every restart makes one."""


@final
class SupervisorLog:
    """Writes the log lines of one supervisor."""

    __slots__ = ("_loop", "_supervisor")

    def __init__(self, loop: Loop, supervisor: str) -> None:
        self._loop = loop
        self._supervisor = supervisor

    def restart(
        self,
        failure: ChildFailure,
        crash: CrashFacts | None,
        attempt: int,
        delay: float,
        siblings: Iterable[str],
    ) -> None:
        """Log that a child is restarted. Similar failures in quick succession are only counted."""
        child, reason, cause = failure
        count = self._admit(failure, crash)
        if count == 0:
            return
        others = ", ".join(siblings)
        logger.warning(
            "supervisor %r restarts child %r: reason %s%s, attempt %d, delay %g s%s%s%s",
            self._supervisor,
            child,
            reason.name,
            in_brackets(cause),
            attempt,
            delay,
            f", together with {others}" if others else "",
            repeated(count),
            self._details(crash) if count == 1 else "",
            exc_info=cause if count == 1 else None,
            extra=self._fields(failure, attempt=attempt, delay=delay),
        )

    def final_exit(self, failure: ChildFailure, crash: CrashFacts | None) -> None:
        """Log that a child has failed and is not restarted."""
        self._log_failure("supervisor %r does not restart child %r: reason %s%s%s%s", failure, crash)

    def failed_while_stopping(self, failure: ChildFailure, crash: CrashFacts | None) -> None:
        """Log that a child failed while it was being stopped."""
        self._log_failure(
            "supervisor %r was stopping child %r when it failed: reason %s%s%s%s", failure, crash
        )

    def failed_start(self, failure: ChildFailure, crash: CrashFacts | None) -> None:
        """Log that a start that was requested has failed after the request returned."""
        self._log_failure("supervisor %r could not start child %r: reason %s%s%s%s", failure, crash)

    def ignored(self, child: str, error: BaseException) -> None:
        """Log that a child does not run because its init raised `IgnoreChild`."""
        logger.info(
            "supervisor %r continues without child %r: %s",
            self._supervisor,
            child,
            describe_exception(error),
            extra={"supervisor": self._supervisor, "child": child},
        )

    def killed(self, child: str, stop_timeout: float) -> None:
        """Log that a child is killed because it did not stop in time."""
        logger.warning(
            "supervisor %r kills child %r: it did not stop within %g s",
            self._supervisor,
            child,
            stop_timeout,
            extra={"supervisor": self._supervisor, "child": child, "stop_timeout": stop_timeout},
        )

    def gave_up(self, failure: ChildFailure, error: RestartLimitError) -> None:
        """Log that the supervisor gives up."""
        logger.error("%s", error, extra=self._fields(failure))

    def gave_up_child(self, failure: ChildFailure, crash: CrashFacts | None, why: str) -> None:
        """Log that the supervisor gives up one child. Unlike a restart, each has its line; the traceback is rate-limited."""
        count = self._admit(failure, crash)
        logger.error(
            "supervisor %r gives up child %r: %s%s",
            self._supervisor,
            failure[0],
            why,
            self._details(crash) if count == 1 else "",
            exc_info=failure[2] if count == 1 else None,
            extra=self._fields(failure),
        )

    def stray_message(self, data: object) -> None:
        """Log that the supervisor has received a user message."""
        logger.warning(
            "supervisor %r received a %s and dropped it: a supervisor handles no messages",
            self._supervisor,
            type(data).__name__,
            extra={"supervisor": self._supervisor},
        )

    def _log_failure(self, text: str, failure: ChildFailure, crash: CrashFacts | None) -> None:
        child, reason, cause = failure
        count = self._admit(failure, crash)
        if count == 0:
            return
        logger.error(
            text,
            self._supervisor,
            child,
            reason.name,
            in_brackets(cause),
            repeated(count),
            self._details(crash) if count == 1 else "",
            exc_info=cause if count == 1 else None,
            extra=self._fields(failure),
        )

    def _admit(self, failure: ChildFailure, crash: CrashFacts | None) -> int:
        """Return how to log a crash, as `CrashLimiter.admit` does."""
        kind = "" if crash is None else self._loop.kernel.reporter.describe_kind(crash[0], crash[1])
        return self._loop.events.admit_crash(f"child {self._supervisor}/{kind or failure[0]}", failure[2])

    def _details(self, crash: CrashFacts | None) -> str:
        return "" if crash is None else CrashReport(self._loop.kernel.reporter, crash).lines()

    def _fields(self, failure: ChildFailure, **more: object) -> dict[str, object]:
        child, reason, _ = failure
        return {"supervisor": self._supervisor, "child": child, "reason": reason.name, **more}


def why_given_up(failure: ChildFailure, count: int, limit: Intensity) -> str:
    """Return why a child is given up that has exceeded its own limit.

    Args:
        failure: the last failure.
        count: the restarts within the period, with the one that is not made.
        limit: how many were allowed.
    """
    _, reason, cause = failure
    return (
        f"this would be restart {count} within {limit.period:g} s, and its max_restarts is {limit.max_restarts}; it ended with reason "
        f"{reason.name}" + (in_brackets(cause) if reason is not ExitReason.NORMAL else NORMAL_EXIT_HINT)
    )


def gave_up(
    supervisor: str,
    failures: Iterable[ChildFailure],
    count: int,
    intensity: Intensity,
    *,
    is_given_up: bool = False,
) -> RestartLimitError:
    """Return the error of a supervisor that gives up.

    Args:
        supervisor: its name.
        failures: the last failures; the last one is the one too many.
        count: the restarts within the period, with the one that is not made.
        intensity: how many were allowed.
        is_given_up: the last child has exceeded its own limit, and that was one too many for the supervisor.
    """
    last = list(failures)
    child, reason, cause = last[-1]
    what = (
        f"it has exceeded its own max_restarts, which is number {count} of the restarts and the children given up within "
        if is_given_up
        else f"this would be restart {count} within "
    )
    error = RestartLimitError(
        f"supervisor {supervisor!r} gave up on child {child!r}: {what}"
        f"{intensity.period:g} s, and {intensity.max_restarts} are allowed; it ended with reason {reason.name}"
        + (in_brackets(cause) if reason is not ExitReason.NORMAL else NORMAL_EXIT_HINT)
    )
    error.__cause__ = BaseExceptionGroup(
        f"the last {len(last)} failures under supervisor {supervisor!r}", [_error_of(one) for one in last]
    )
    return error


def start_failed(supervisor: str, child: str, cause: BaseException | None) -> StartError:
    """Return the error of a child that did not start."""
    return StartError.of(f"child {child!r} of supervisor {supervisor!r}", child, cause)


def _error_of(failure: ChildFailure) -> BaseException:
    """Return the cause of a failure, or an error that describes it if it has no cause."""
    child, reason, cause = failure
    if cause is not None:
        return cause
    if reason is ExitReason.NORMAL:
        return ActorFailedError(f"child {child!r} ended normally, although it is permanent")
    return ActorFailedError(f"child {child!r} returned FAIL, or was failed without a reason")
