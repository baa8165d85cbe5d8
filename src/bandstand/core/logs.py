"""The log, for code in which a failure must not make another one."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, final

from bandstand.errors.formatting import describe_exception, safe_repr, safe_str, safe_traceback, traceback_of

__all__ = ("CrashLimiter", "RateLimitedLog", "SafeLogger", "repeated")

if TYPE_CHECKING:
    from bandstand.core.clock import Clock

# How long a traceback counts as known, in nanoseconds: within this time the same one is not logged again.
_KNOWN_NS: Final = 60_000_000_000
# How many lines in one second there are for crashes that are alike; what comes then is counted only.
_LINES: Final = 10
_SECOND_NS: Final = 1_000_000_000
# How many kinds of crashes are distinguished; the oldest is forgotten first.
_KINDS: Final = 256
# What can be shown as it is, whatever the message does with it.
_PLAIN: Final = (str, int, float, bool, type(None))


@final
class _Shown:
    """An argument of a log line that a program made: shown safely, and only if the line is."""

    __slots__ = ("_value",)

    def __init__(self, value: object) -> None:
        self._value = value

    def __repr__(self) -> str:
        return safe_repr(self._value)

    def __str__(self) -> str:
        return safe_str(self._value)


@final
class SafeLogger:
    """A logger of the standard library, used so that writing a line cannot fail.

    A handler, filter or formatter that raises, an argument that cannot be shown, or a standard error that is closed, loses the line and
    nothing else. Tracebacks are formatted here, bounded, and come with the record as `exc_text`; `exc_info` has the exception for
    handlers that want it. KeyboardInterrupt and SystemExit go on: a log may block, and Ctrl-C must be able to end that.
    """

    __slots__ = ("_logger",)

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(name)

    def isEnabledFor(self, level: int) -> bool:  # noqa: N802  # as the standard library calls it
        """Whether a line of this level is written anywhere."""
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
        is_known: bool = False,
    ) -> None:
        """Log a line, with the traceback of an exception if there is one; in brief, if that is known already."""
        self._log(logging.WARNING, message, args, exc_info, extra, is_known=is_known)

    def error(
        self,
        message: str,
        *args: object,
        exc_info: BaseException | None = None,
        extra: Mapping[str, object] | None = None,
        is_known: bool = False,
    ) -> None:
        """Log a line, with the traceback of an exception if there is one; in brief, if that is known already."""
        self._log(logging.ERROR, message, args, exc_info, extra, is_known=is_known)

    def critical(
        self,
        message: str,
        *args: object,
        exc_info: BaseException | None = None,
        extra: Mapping[str, object] | None = None,
    ) -> None:
        """Log a line, with the traceback of an exception if there is one."""
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
        *,
        is_known: bool = False,
    ) -> None:
        logger = self._logger
        try:
            if not logger.isEnabledFor(level):
                return
            shown = tuple([each if type(each) in _PLAIN else _Shown(each) for each in args])
            # The caller of one of the methods above.
            path, line, function, _ = logger.findCaller(stacklevel=3)
            caught = None if error is None else (type(error), error, traceback_of(error))
            record = logger.makeRecord(
                logger.name, level, path, line, message, shown, caught, function, extra=extra
            )
            if error is not None:
                record.exc_text = (
                    describe_exception(error) if is_known else safe_traceback(error).rstrip("\n")
                )
            logger.handle(record)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException:  # noqa: BLE001, S110  # there is no place left to say it
            pass


class _Kind:
    """Crashes that are alike."""

    __slots__ = ("count", "lines", "second", "since")

    def __init__(self, now: int) -> None:
        self.since = self.second = now
        self.count = self.lines = 0


@final
class CrashLimiter:
    """How much of each crash goes to the log: an actor that keeps failing must not flood it.

    Crashes are alike that happen in the same place, with an exception of the same class, raised in the same line. The first is logged
    with its traceback, and again after a minute. The others have a line each without one, up to ten a second; the rest are counted.
    """

    __slots__ = ("_clock", "_kinds", "unlogged")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._kinds: dict[object, _Kind] = {}
        self.unlogged = 0
        """How many crashes have no line."""

    def admit(self, place: str, error: BaseException | None) -> int:
        """1 if this crash is to be logged with its traceback; else which of its kind it is, or 0 if it is only counted."""
        now = self._clock.now_ns()
        # Numbers: classes of the program can be no keys, and would be kept alive.
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
    """What the line of a crash says if it is not the first of its kind."""
    return "" if count == 1 else f" (number {count} of its kind; the first was logged with its traceback)"


def _line_of(error: BaseException | None) -> tuple[int, int]:
    """Where it was raised: the code, and the line."""
    trace = None if error is None else traceback_of(error)
    if trace is None:
        return 0, 0
    while trace.tb_next is not None:
        trace = trace.tb_next
    return id(trace.tb_frame.f_code), trace.tb_lineno


@final
class RateLimitedLog:
    """Speaks of one kind of event, at most once a second.

    Args:
        logger: where.
        clock: what a second is.
        words: the line, with a `%d` for how many there were since the last one, a `%d` for how many in all, and a `%s` for the
            latest if there is something to say of it.
    """

    __slots__ = ("_clock", "_logger", "_next", "_words", "said")

    def __init__(self, logger: SafeLogger, clock: Clock, words: str) -> None:
        self._logger = logger
        self._clock = clock
        self._words = words
        self._next = 0
        self.said = 0
        """How many have been mentioned."""

    def speak(self, count: int, *latest: str, is_last: bool = False) -> bool:
        """Mention what has been counted since last time, unless that was less than a second ago; whether none is owed now.

        With `is_last` it is mentioned in any case: there will be no next time.
        """
        if count == self.said:
            return True
        now = 0 if is_last else self._clock.now_ns()
        if not is_last and now < self._next:
            return False
        self._logger.warning(self._words, count - self.said, count, *latest)
        self.said = count
        self._next = now + _SECOND_NS
        return True
