"""Logging that never raises, and rate limits for it."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, final

from bandstand.errors.formatting import safe_repr, safe_str, safe_traceback, traceback_of

__all__ = ("CrashLimiter", "RateLimitedLog", "SafeLogger", "repeated")

if TYPE_CHECKING:
    from bandstand.core.config import Clock

# The traceback of a crash is logged again after this time, in nanoseconds.
_KNOWN_NS: Final = 60_000_000_000
# How many lines per second similar crashes get; further ones are only counted.
_LINES: Final = 10
_SECOND_NS: Final = 1_000_000_000
# How many kinds of crashes are remembered; the oldest is forgotten first.
_KINDS: Final = 256
# Arguments of these types are formatted as they are.
_PLAIN: Final = (str, int, float, bool, type(None))


@final
class _Shown:
    """An argument of a log line: formatted safely, and only if the line is written."""

    __slots__ = ("_value",)

    def __init__(self, value: object) -> None:
        self._value = value

    def __repr__(self) -> str:
        return safe_repr(self._value)

    def __str__(self) -> str:
        return safe_str(self._value)


@final
class SafeLogger:
    """A logger of the standard library whose methods do not raise.

    If a handler, filter or formatter raises, an argument cannot be formatted, or standard error is closed, the line is lost and nothing
    else happens. Tracebacks are formatted here with a size limit and passed on as `exc_text`; `exc_info` has the exception
    for handlers that need it. KeyboardInterrupt and SystemExit propagate: logging may block, and Ctrl-C must be able to end that.
    """

    __slots__ = ("_logger",)

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(name)

    def isEnabledFor(self, level: int) -> bool:  # noqa: N802  # the name in the standard library
        """Return whether a line of this level would be written."""
        return self._logger.isEnabledFor(level)

    def debug(self, message: str, *args: object, extra: Mapping[str, object] | None = None) -> None:
        """Log a line."""
        self._log(logging.DEBUG, message, args, None, extra)

    def info(self, message: str, *args: object, extra: Mapping[str, object] | None = None) -> None:
        """Log a line."""
        self._log(logging.INFO, message, args, None, extra)

    def warning(
        self,
        message: str,
        *args: object,
        exc_info: BaseException | None = None,
        extra: Mapping[str, object] | None = None,
    ) -> None:
        """Log a line, with the traceback of an exception if one is given."""
        self._log(logging.WARNING, message, args, exc_info, extra)

    def error(
        self,
        message: str,
        *args: object,
        exc_info: BaseException | None = None,
        extra: Mapping[str, object] | None = None,
    ) -> None:
        """Log a line, with the traceback of an exception if one is given."""
        self._log(logging.ERROR, message, args, exc_info, extra)

    def critical(
        self,
        message: str,
        *args: object,
        exc_info: BaseException | None = None,
        extra: Mapping[str, object] | None = None,
    ) -> None:
        """Log a line, with the traceback of an exception if one is given."""
        self._log(logging.CRITICAL, message, args, exc_info, extra)

    def exception(self, message: str, *args: object, extra: Mapping[str, object] | None = None) -> None:
        """Log a line with the traceback of the exception that is being handled."""
        self._log(logging.ERROR, message, args, sys.exc_info()[1], extra)

    def log(
        self,
        level: int,
        message: str,
        *args: object,
        exc_info: BaseException | None = None,
        extra: Mapping[str, object] | None = None,
    ) -> None:
        """Log a line of any level."""
        self._log(level, message, args, exc_info, extra)

    def _log(
        self,
        level: int,
        message: str,
        args: tuple[object, ...],
        error: BaseException | None,
        extra: Mapping[str, object] | None,
    ) -> None:
        logger = self._logger
        try:
            if not logger.isEnabledFor(level):
                return
            shown = tuple([each if type(each) in _PLAIN else _Shown(each) for each in args])
            # The caller of the public method.
            path, line, function, _ = logger.findCaller(stacklevel=3)
            caught = None if error is None else (type(error), error, traceback_of(error))
            record = logger.makeRecord(
                logger.name, level, path, line, message, shown, caught, function, extra=extra
            )
            if error is not None:
                record.exc_text = safe_traceback(error).rstrip("\n")
            logger.handle(record)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException:  # noqa: BLE001, S110  # the log is the last place to report an error
            pass


class _Kind:
    """One kind of crash."""

    __slots__ = ("count", "lines", "second", "since")

    def __init__(self, now: int) -> None:
        self.since = self.second = now
        self.count = self.lines = 0


@final
class CrashLimiter:
    """Decides how each crash is logged, so that an actor that keeps failing does not flood the log.

    Crashes are of one kind if they happen in the same place, with an exception of the same class that was raised in the same line. A place is
    a class of actors under one supervisor, so that it is the same over restarts, and for children that have names of their own. The first
    of a kind is logged with its traceback, and again after a minute. Others get a line without it, up to ten per second; the rest are counted.
    """

    __slots__ = ("_clock", "_kinds", "unlogged")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._kinds: dict[object, _Kind] = {}
        self.unlogged = 0
        """How many crashes were not logged."""

    def admit(self, place: str, error: BaseException | None) -> int:
        """Return 1 to log this crash with its traceback, 0 not to log it, otherwise its number among its kind."""
        now = self._clock.now_ns()
        # The ids, not the objects: a class may be unhashable, and the key would keep it alive.
        key = (place, id(type(error)), *_line_of(error))
        kind = self._kinds.get(key)
        if kind is None or now - kind.since >= _KNOWN_NS:
            self._kinds.pop(key, None)
            if len(self._kinds) >= _KINDS:
                del self._kinds[next(iter(self._kinds))]
            kind = self._kinds[key] = _Kind(now)
        kind.count += 1
        if now - kind.second >= _SECOND_NS:
            kind.second = now
            kind.lines = 0
        kind.lines += 1
        if kind.lines > _LINES:
            self.unlogged += 1
            return 0
        return kind.count


def repeated(count: int) -> str:
    """Return the suffix of a crash's log line: empty for the first of its kind."""
    return "" if count == 1 else f" (number {count} of its kind; the first was logged with its traceback)"


def _line_of(error: BaseException | None) -> tuple[int, int]:
    """Return where an exception was raised, as (id of the code object, line)."""
    trace = None if error is None else traceback_of(error)
    if trace is None:
        return 0, 0
    while trace.tb_next is not None:
        trace = trace.tb_next
    return id(trace.tb_frame.f_code), trace.tb_lineno


@final
class RateLimitedLog:
    """Logs a growing counter, at most once per second and without omitting any increase.

    Each line says by how much the counter has grown since the last line, so nothing goes unmentioned, and an overloaded loop does not
    flood its log.

    Args:
        logger: where to log.
        clock: the clock that measures the second.
        text: the line, with a `%d` for the increase since the last line, a `%d` for the total, and optionally a `%s` for the latest
            event.
    """

    __slots__ = ("_clock", "_logged", "_logger", "_next", "_text")

    def __init__(self, logger: SafeLogger, clock: Clock, text: str) -> None:
        self._logger = logger
        self._clock = clock
        self._text = text
        self._next = 0
        self._logged = 0

    def update(self, total: int, *latest: str, force: bool = False) -> bool:
        """Log the increase since the last line, unless that was less than a second ago.

        Args:
            total: the current value of the counter.
            *latest: the argument for the `%s`, if the text has one.
            force: log even if the last line was less than a second ago, because there will be no later call.

        Returns:
            True if the log is up to date; False if the increase is still to be logged.
        """
        if total == self._logged:
            return True
        now = 0 if force else self._clock.now_ns()
        if not force and now < self._next:
            return False
        self._logger.warning(self._text, total - self._logged, total, *latest)
        self._logged = total
        self._next = now + _SECOND_NS
        return True
