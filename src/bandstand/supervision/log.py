"""What a supervisor says: one structured line for each restart, and the story of why it gave up.

The fields are in the line for people, and on the log record for programs: `supervisor`, `child`, `reason`, `attempt`, `delay_ms`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from bandstand.core import ExitReason, Loop
from bandstand.core.logs import SafeLogger, repeated
from bandstand.errors import ActorFailed, GaveUp, StartFailed
from bandstand.errors.formatting import describe_exception, safe_repr
from bandstand.supervision.intensity import Intensity

__all__ = (
    "Failure",
    "gave_up",
    "is_heard",
    "log_end",
    "log_give_up",
    "log_ignored",
    "log_kill",
    "log_restart",
    "log_stray",
    "start_failed",
)

logger = SafeLogger("bandstand.supervision")
# Whether anybody listens: a restart need not put words together for nobody.
is_heard = logger.isEnabledFor

# How many of the last causes a supervisor that gives up tells of.
CAUSES_TOLD = 10
# How much of a cause fits into a line.
LONGEST_CAUSE = 200
NORMAL_HINT = (
    ", and a permanent child is started again after that too: make it transient if its work has an end"
)


Failure: TypeAlias = tuple[str, ExitReason, BaseException | None]
"""One end of one child, as it is told later: its name, the reason and the cause. A bare tuple: every restart makes one."""


def error_of(failure: Failure) -> BaseException:
    """The cause of a failure; where there was none but a verdict, an error that says so."""
    child, reason, cause = failure
    if cause is not None:
        return cause
    if reason is ExitReason.NORMAL:
        return ActorFailed(f"child {child!r} ended normally, although it is permanent")
    return ActorFailed(f"child {child!r} returned FAIL, or was failed without a reason")


def log_restart(
    loop: Loop, supervisor: str, failure: Failure, attempt: int, delay_ms: float, siblings: Iterable[str]
) -> None:
    """Say that a child is being started again; of many that are alike, only how many."""
    child, reason, cause = failure
    count = loop.events.admit_crash(f"child {supervisor}/{child}", cause)
    if count == 0:
        return
    others = ", ".join(siblings)
    logger.warning(
        "supervisor %r restarts child %r: reason %s%s, attempt %d, delay %g ms%s%s",
        supervisor,
        child,
        reason.name,
        _why(cause),
        attempt,
        delay_ms,
        f", together with {others}" if others else "",
        repeated(count),
        exc_info=cause,
        is_known=count > 1,
        extra=_fields(supervisor, failure, attempt=attempt, delay_ms=delay_ms),
    )


def log_end(supervisor: str, failure: Failure, what: str) -> None:
    """Say that a child has ended abnormally and is not started again."""
    child, reason, cause = failure
    logger.error(
        "supervisor %r %s child %r: reason %s",
        supervisor,
        what,
        child,
        reason.name,
        exc_info=cause,
        extra=_fields(supervisor, failure),
    )


def log_ignored(supervisor: str, child: str, why: BaseException | None) -> None:
    """Say that a child does not run, because its init has said so."""
    logger.info(
        "supervisor %r goes on without child %r: %s",
        supervisor,
        child,
        "it is not needed" if why is None else describe_exception(why),
        extra={"supervisor": supervisor, "child": child},
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


def _why(cause: BaseException | None) -> str:
    """The cause in brackets, in at most a line: the traceback says the rest."""
    return "" if cause is None else f" ({safe_repr(cause, LONGEST_CAUSE)})"


def _fields(supervisor: str, failure: Failure, **more: object) -> dict[str, object]:
    child, reason, _ = failure
    return {"supervisor": supervisor, "child": child, "reason": reason.name, **more}


def gave_up(supervisor: str, failures: Iterable[Failure], count: int, intensity: Intensity) -> GaveUp:
    """The error of a supervisor that gives up after `count` restarts, one too many: the last failure is the last straw."""
    told = list(failures)
    child, reason, cause = told[-1]
    error = GaveUp(
        f"supervisor {supervisor!r} gave up on child {child!r}: this would be restart {count} within "
        f"{intensity.period_ms:g} ms, and {intensity.limit} are allowed; it ended with reason {reason.name}"
        + (_why(cause) if reason is not ExitReason.NORMAL else NORMAL_HINT)
    )
    error.__cause__ = BaseExceptionGroup(
        f"the last {len(told)} failures under supervisor {supervisor!r}", [error_of(one) for one in told]
    )
    return error


def start_failed(supervisor: str, child: str, cause: BaseException | None) -> StartFailed:
    """The error of a child that did not start."""
    return StartFailed.of(f"child {child!r} of supervisor {supervisor!r}", child, cause)


def log_stray(supervisor: str, data: object) -> None:
    """Say that somebody sends messages to a supervisor, which has no use for them."""
    logger.warning(
        "supervisor %r was sent a %s: a supervisor handles no messages, and this one was dropped",
        supervisor,
        type(data).__name__,
        extra={"supervisor": supervisor},
    )
