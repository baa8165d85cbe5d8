"""Write to the log from where a failure must not make another one."""

from __future__ import annotations

from collections.abc import Mapping
from logging import Logger

from bandstand.errors.formatting import safe_traceback

__all__ = ("log_safely",)


def log_safely(
    logger: Logger,
    level: int,
    message: str,
    *args: object,
    error: BaseException | None = None,
    extra: Mapping[str, object] | None = None,
) -> None:
    """Log a line, with the traceback of `error`; a handler, filter, formatter or argument that raises loses the line, and nothing else.

    The traceback is formatted here, bounded, and comes with the record (`exc_text`); `exc_info` has the exception for handlers that want
    it. KeyboardInterrupt and SystemExit go on: a log may block, and Ctrl-C must be able to end that.
    """
    try:
        if not logger.isEnabledFor(level):
            return
        # Whoever called this: the line is theirs.
        path, line, function, _ = logger.findCaller(stacklevel=2)
        caught = None if error is None else (type(error), error, error.__traceback__)
        record = logger.makeRecord(
            logger.name, level, path, line, message, args, caught, function, extra=extra
        )
        if error is not None:
            record.exc_text = safe_traceback(error).rstrip("\n")
        logger.handle(record)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:  # noqa: BLE001, S110  # there is no place left to say it
        pass
