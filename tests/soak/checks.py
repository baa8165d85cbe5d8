"""Failures that no test would look for: unexpected log records, warnings, exceptions in threads and finalizers, and hangs."""

from __future__ import annotations

import asyncio
import faulthandler
import logging
import os
import sys
import threading
import warnings
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, TypeAlias

from bandstand.errors import (
    ActorFailedError,
    ActorKilledError,
    ContractViolationError,
    InvalidVerdictError,
    MailboxOverrunError,
    RestartLimitError,
)

Fail: TypeAlias = Callable[[str], None]
"""Report a failure, as a sentence."""

GRACE = 45.0
"""Seconds that a run may take longer than planned, on the busiest machine."""


class IntentionalError(Exception):
    """Raised on purpose."""


INTENTIONAL = (
    IntentionalError,
    ActorFailedError,
    ActorKilledError,
    InvalidVerdictError,
    RestartLimitError,
    MailboxOverrunError,
    ContractViolationError,
    # A handler that calls sys.exit() fails its pod.
    SystemExit,
    asyncio.CancelledError,
)


class UnexpectedRecords(logging.Handler):
    """Reports every warning and error in the log that has another cause than an intentional error."""

    def __init__(self, fail: Fail) -> None:
        super().__init__(logging.WARNING)
        self._fail = fail

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        # Records without an exception are about dead letters, drops and the like, which are counted elsewhere.
        is_counted = record.name.startswith("bandstand") and error is None
        if not is_counted and not isinstance(error, INTENTIONAL):
            self._fail(f"logged by {record.name}: {record.getMessage()} ({error!r})")


@contextmanager
def unexpected_errors(fail: Fail) -> Generator[None]:
    """Report unexpected log records, warnings, and exceptions of threads and finalizers while the block runs."""
    handler = UnexpectedRecords(fail)
    loggers = [logging.getLogger("bandstand"), logging.getLogger("asyncio")]
    before = [(logger.level, logger.propagate) for logger in loggers]
    unraisable, in_thread = sys.unraisablehook, threading.excepthook
    for logger in loggers:
        logger.addHandler(handler)
        logger.setLevel(logging.WARNING)
        logger.propagate = False

    def show_warning(
        message: Warning | str, category: type[Warning], filename: str, lineno: int, *_: Any, **_options: Any
    ) -> None:
        # Deprecations inside asyncio are not ours.
        if not issubclass(category, (DeprecationWarning, PendingDeprecationWarning)):
            fail(f"{category.__name__}: {message} ({filename}:{lineno})")

    sys.unraisablehook = lambda what: fail(f"unraisable: {what.exc_value!r} in {what.object!r}")
    threading.excepthook = lambda what: fail(f"in a thread: {what.exc_value!r}{place_of(what.exc_value)}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.showwarning = show_warning
            yield
    finally:
        sys.unraisablehook, threading.excepthook = unraisable, in_thread
        for logger, (level, propagate) in zip(loggers, before, strict=True):
            logger.removeHandler(handler)
            logger.setLevel(level)
            logger.propagate = propagate


@contextmanager
def no_hang(seconds: float, report: Callable[[], None]) -> Generator[None]:
    """If the block takes much longer than `seconds`, print where every thread is, report, and end the process with code 1."""

    def end() -> None:
        faulthandler.dump_traceback(file=sys.stderr, all_threads=True)
        report()
        sys.stdout.flush()
        sys.stderr.flush()
        # The main thread may be stuck where no exception reaches it.
        os._exit(1)

    timer = threading.Timer(seconds + GRACE, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()


def place_of(error: BaseException | None) -> str:
    """Return where an exception was raised: " at file:line"."""
    trace = None if error is None else error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return "" if trace is None else f" at {trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
