"""What nobody checks by hand: errors in the log, warnings, exceptions in threads and finalizers. Each is a failure here."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import warnings
from collections.abc import Generator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, TextIO

from bandstand.errors import (
    ActorFailedError,
    ActorKilledError,
    ContractViolationError,
    InvalidVerdictError,
    MailboxOverrunError,
    RestartLimitError,
)
from tests.soak.books import Fail

if TYPE_CHECKING:
    from collections.abc import Callable


class Mishap(Exception):  # noqa: N818  # it is one
    """What players and hooks raise on purpose."""


ON_PURPOSE = (
    Mishap,
    ActorFailedError,
    ActorKilledError,
    InvalidVerdictError,
    RestartLimitError,
    MailboxOverrunError,
    ContractViolationError,
    # A handler of a pod that leaves: it fails the pod.
    SystemExit,
    asyncio.CancelledError,
)


class _Ear(logging.Handler):
    """Hears what is logged; what is not of our own making is a failure."""

    def __init__(self, fail: Fail) -> None:
        super().__init__(logging.WARNING)
        self._fail = fail

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, ON_PURPOSE):
            return
        if record.name.startswith("bandstand") and error is None:
            # Dead letters, drops, stragglers, a verdict without a cause: all of it is counted elsewhere.
            return
        self._fail(f"logged by {record.name}: {record.getMessage()} ({error!r})")


@contextmanager
def listening(fail: Fail) -> Generator[None]:
    """Turn whatever goes wrong off stage into failures, for the length of the block."""
    ear = _Ear(fail)
    loggers = [logging.getLogger("bandstand"), logging.getLogger("asyncio")]
    before = [(logger.level, logger.propagate) for logger in loggers]
    unraisable, in_thread = sys.unraisablehook, threading.excepthook
    for logger in loggers:
        logger.addHandler(ear)
        logger.setLevel(logging.WARNING)
        logger.propagate = False
    sys.unraisablehook = lambda what: fail(f"unraisable: {what.exc_value!r} in {what.object!r}")
    threading.excepthook = lambda what: fail(f"in a thread: {what.exc_value!r}{_where(what.exc_traceback)}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.showwarning = _as_failure(fail)
            yield
    finally:
        sys.unraisablehook, threading.excepthook = unraisable, in_thread
        for logger, (level, propagate) in zip(loggers, before, strict=True):
            logger.removeHandler(ear)
            logger.setLevel(level)
            logger.propagate = propagate


def _as_failure(fail: Fail) -> Callable[..., None]:
    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        # Old ways of asyncio under a newer Python are not ours to mend.
        if not issubclass(category, (DeprecationWarning, PendingDeprecationWarning)):
            fail(f"{category.__name__}: {message} ({filename}:{lineno})")

    return show


def _where(trace: TracebackType | None) -> str:
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return "" if trace is None else f" at {trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
