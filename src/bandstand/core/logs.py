"""The log, for code in which a failure must not make another one."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from typing import Final, final

from bandstand.errors.formatting import safe_repr, safe_str, safe_traceback, traceback_of

__all__ = ("SafeLogger",)

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
    ) -> None:
        """Log a line, with the traceback of an exception if there is one."""
        self._log(logging.WARNING, message, args, exc_info, extra)

    def error(
        self,
        message: str,
        *args: object,
        exc_info: BaseException | None = None,
        extra: Mapping[str, object] | None = None,
    ) -> None:
        """Log a line, with the traceback of an exception if there is one."""
        self._log(logging.ERROR, message, args, exc_info, extra)

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
    ) -> None:
        logger = self._logger
        try:
            if not logger.isEnabledFor(level):
                return
            shown = tuple([each if type(each) in _PLAIN else _Shown(each) for each in args])
            # The place of whoever called one of the methods above.
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
        except BaseException:  # noqa: BLE001, S110  # there is no place left to say it
            pass
