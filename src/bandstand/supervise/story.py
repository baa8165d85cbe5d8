"""What a supervisor says: one structured line for each restart, and the story of why it gave up.

The fields are in the line for people, and on the log record for programs: `supervisor`, `child`, `reason`, `attempt`, `delay_ms`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import NamedTuple

from bandstand.core import ExitReason
from bandstand.errors import ActorFailed, GaveUp, StartFailed
from bandstand.supervise.intensity import Intensity

__all__ = (
    "Failure",
    "gave_up",
    "log_end",
    "log_give_up",
    "log_kill",
    "log_restart",
    "log_stray",
    "start_failed",
)

logger = logging.getLogger("bandstand.supervise")

# How many of the last causes a supervisor that gives up tells of.
CAUSES_TOLD = 10


class Failure(NamedTuple):
    """One end of one child, as it is told later."""

    child: str
    reason: ExitReason
    cause: BaseException | None

    def error(self) -> BaseException:
        """The cause; where there was none but a verdict, an error that says so."""
        if self.cause is not None:
            return self.cause
        if self.reason is ExitReason.NORMAL:
            return ActorFailed(f"child {self.child!r} ended normally, although it is permanent")
        return ActorFailed(f"child {self.child!r} returned FAIL, or was failed without a reason")


def log_restart(
    supervisor: str, failure: Failure, attempt: int, delay_ms: float, siblings: Iterable[str]
) -> None:
    """Say that a child is being started again."""
    if not logger.isEnabledFor(logging.WARNING):
        return
    others = ", ".join(siblings)
    logger.warning(
        "supervisor %r restarts child %r: reason %s, attempt %d, delay %g ms%s",
        supervisor,
        failure.child,
        failure.reason.name,
        attempt,
        delay_ms,
        f", together with {others}" if others else "",
        exc_info=failure.cause,
        extra=_fields(supervisor, failure, attempt=attempt, delay_ms=delay_ms),
    )


def log_end(supervisor: str, failure: Failure, what: str) -> None:
    """Say that a child has ended abnormally and is not started again."""
    logger.error(
        "supervisor %r %s child %r: reason %s",
        supervisor,
        what,
        failure.child,
        failure.reason.name,
        exc_info=failure.cause,
        extra=_fields(supervisor, failure),
    )


def log_kill(supervisor: str, child: str, patience_ms: float) -> None:
    """Say that a child did not stop in its time."""
    logger.warning(
        "supervisor %r kills child %r: it was stopped and has not ended within its %g ms",
        supervisor,
        child,
        patience_ms,
        extra={"supervisor": supervisor, "child": child, "patience_ms": patience_ms},
    )


def log_give_up(supervisor: str, failure: Failure, error: GaveUp) -> None:
    """Say that a supervisor gives up."""
    logger.error("%s", error, extra=_fields(supervisor, failure))


def _fields(supervisor: str, failure: Failure, **more: object) -> dict[str, object]:
    return {"supervisor": supervisor, "child": failure.child, "reason": failure.reason.name, **more}


def gave_up(supervisor: str, failures: Iterable[Failure], count: int, intensity: Intensity) -> GaveUp:
    """The error of a supervisor that gives up after `count` restarts, one too many: the last failure is the last straw."""
    told = list(failures)[-CAUSES_TOLD:]
    last = told[-1]
    error = GaveUp(
        f"supervisor {supervisor!r} gave up on child {last.child!r}: this would be restart {count} within "
        f"{intensity.period_ms:g} ms, and {intensity.limit} are allowed; it ended with reason {last.reason.name}"
        + (f" ({last.cause!r})" if last.cause is not None else "")
    )
    error.__cause__ = BaseExceptionGroup(
        f"the last {len(told)} failures under supervisor {supervisor!r}", [one.error() for one in told]
    )
    return error


def start_failed(supervisor: str, child: str, cause: BaseException | None) -> StartFailed:
    """The error of a child that did not start."""
    why = f": {cause!r}" if cause is not None else ""
    error = StartFailed(f"child {child!r} of supervisor {supervisor!r} did not start{why}")
    error.__cause__ = cause
    return error


def log_stray(supervisor: str, data: object) -> None:
    """Say that somebody sends messages to a supervisor, which has no use for them."""
    logger.warning(
        "supervisor %r was sent a %s: a supervisor handles no messages, and this one was dropped",
        supervisor,
        type(data).__name__,
        extra={"supervisor": supervisor},
    )
