"""Text for terminals, exit codes, and the report of errors.

Answers go to standard output, errors to standard error. Text that comes from a node or its clients is untrusted: control characters
in it are escaped, because a terminal would obey them.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final, TextIO, final

import msgspec

from bandstand.bus.faults import IN_DOUBT, ROUTING_ERROR, SCHEMA_ERROR, TIMEOUT
from bandstand.bus.wire import write_frame
from bandstand.errors import InvalidArgumentError, InvalidMessageError, RequestFailedError
from bandstand.streams import CannotWrite

if TYPE_CHECKING:
    from bandstand.bus.frame import Frame

__all__ = (
    "KIND_COLOURS",
    "Colours",
    "ErrorReporter",
    "ExitCode",
    "ProgressBar",
    "answer_data",
    "clock_time",
    "date_time",
    "error_text",
    "format_table",
    "one_line",
    "print_answer",
    "print_line",
    "printable",
    "printable_json",
    "printable_lines",
    "terminal_width",
    "truncate",
)

KIND_COLOURS: Final = {
    "command": "cyan",
    "query": "blue",
    "event": "magenta",
    "reply": "green",
    "error": "red",
}
"""The colours of the kinds of messages."""

_COLOUR_CODES: Final = {
    "red": 31,
    "green": 32,
    "yellow": 33,
    "blue": 34,
    "magenta": 35,
    "cyan": 36,
    "dim": 2,
    "bold": 1,
}
# The width of a terminal that does not report one.
_DEFAULT_WIDTH: Final = 110
# The time between two updates of a progress bar, in seconds.
_REDRAW_S: Final = 0.1
_BAR_WIDTH: Final = 24
# Python cannot convert larger integers to a float, and would print all of their digits.
_MAX_FLOAT: Final = 1e308


# --- text -------------------------------------------------------------------------------------------------------------


@final
class Colours:
    """Colours text if the stream is a terminal and `NO_COLOR` is not set."""

    def __init__(self, stream: TextIO) -> None:
        self.is_on = stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"

    def __call__(self, text: str, colour: str) -> str:
        """Return the text in a colour."""
        return f"\x1b[{_COLOUR_CODES[colour]}m{text}\x1b[0m" if self.is_on and text else text


def printable(text: str) -> str:
    """Escape all characters that are not printable, also line ends: a line end could forge a row of a table."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def printable_lines(text: str) -> str:
    """Escape all characters that are not printable, except line ends."""
    return "\n".join(map(printable, text.split("\n")))


def printable_json(text: str) -> str:
    r"""Escape all characters in a JSON text that are not printable, in the syntax of JSON. Its value stays the same.

    Line ends stay: in JSON they are only between values, never inside a string.
    """
    return "".join(char if char.isprintable() or char == "\n" else json.dumps(char)[1:-1] for char in text)


def one_line(value: object) -> str:
    """Return the text of a value on one line."""
    return " ".join(str(value).split())


def terminal_width(stream: TextIO) -> int:
    """Return the number of columns of the terminal; 0 if the stream is not a terminal."""
    return shutil.get_terminal_size((_DEFAULT_WIDTH, 24)).columns if stream.isatty() else 0


def truncate(text: str, width: int) -> str:
    """Cut a text to a width; 0 for no limit."""
    return text if not width or len(text) <= width else f"{text[: max(0, width - 1)]}…"


def clock_time(ms: float) -> str:
    """Return a Unix time in milliseconds as the local time of day."""
    return _local_time(ms, "%H:%M:%S.%f")


def date_time(ms: float) -> str:
    """Return a Unix time in milliseconds as the local date and time."""
    return _local_time(ms, "%Y-%m-%d %H:%M:%S.%f")


def _local_time(ms: float, form: str) -> str:
    try:
        return datetime.fromtimestamp(ms / 1000).strftime(form)[:-3]  # noqa: DTZ006  # local time, for people
    except (OverflowError, ValueError, OSError):
        # Clients set the timestamps of their messages, so they can be out of range.
        return f"{ms:g}" if -_MAX_FLOAT < ms < _MAX_FLOAT else "?"


def format_table(rows: Iterable[Sequence[str]], head: Sequence[str] = ()) -> str:
    """Return rows as text with aligned columns."""
    lines = [list(head), *map(list, rows)] if head else [list(row) for row in rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def print_line(stream: TextIO, text: str) -> None:
    """Write a line and flush it, so that it is seen at once."""
    stream.write(text + "\n")
    stream.flush()


@final
class ProgressBar:
    """A progress bar on standard error, if that is a terminal.

    Args:
        err: standard error.
        now: the time in seconds.
        is_on: whether to draw at all.
    """

    def __init__(
        self, err: TextIO, now: Callable[[], float] = time.perf_counter, *, is_on: bool = True
    ) -> None:
        self._err = err
        self._now = now
        self._is_on = is_on and err.isatty()
        self._due = 0.0

    def is_due(self) -> bool:
        """Return False if there is no bar, or the last update was a moment ago."""
        return self._is_on and self._now() >= self._due

    def draw(self, share: float, text: str) -> None:
        """Draw the bar: a share of the work, from 0 to 1, and what has been done."""
        if self._is_on:
            self._due = self._now() + _REDRAW_S
            share = min(1.0, max(0.0, share))
            done = int(share * _BAR_WIDTH)
            self._err.write(f"\r[{'█' * done}{'·' * (_BAR_WIDTH - done)}] {share:4.0%}  {text} ")
            self._err.flush()

    def clear(self) -> None:
        """Erase the bar."""
        if self._is_on:
            self._err.write("\r\x1b[K")
            self._err.flush()


# --- exit codes and errors --------------------------------------------------------------------------------------------


@final
class ExitCode(IntEnum):
    """The exit codes of commands."""

    SUCCESS = 0
    FAILED = 1
    USAGE = 2
    ROUTING = 3
    SCHEMA = 4
    TIMEOUT = 5
    NO_NODE = 6
    IN_DOUBT = 10
    OUTPUT = CannotWrite.exit_code
    DAMAGED = 8
    NO_JOURNAL = 9


_FAULT_CODES: Final = {
    IN_DOUBT: ExitCode.IN_DOUBT,
    ROUTING_ERROR: ExitCode.ROUTING,
    SCHEMA_ERROR: ExitCode.SCHEMA,
    TIMEOUT: ExitCode.TIMEOUT,
}


def print_answer(answer: Frame, out: TextIO, err: TextIO, *, is_json: bool = False) -> ExitCode:
    """Print a reply, or the error that was the answer, and return the exit code."""
    if is_json:
        out.write(printable_json(write_frame(answer).decode()) + "\n")
    elif answer.kind == "reply":
        out.write(printable_json(msgspec.json.format(answer.data).decode()) + "\n")
    if answer.kind == "reply":
        return ExitCode.SUCCESS
    err.write(f"bandstand: {error_text(answer)}\n")
    return _FAULT_CODES.get(answer.type, ExitCode.FAILED)


def error_text(answer: Frame) -> str:
    """Return the text of an error message of the bus, for people."""
    data: object = msgspec.json.decode(answer.data)
    match data:
        case {"message": str(message), "path": str(path)} if path not in message:
            text = f"{answer.type}: {message} (at {path})"
        case {"message": str(message)}:
            text = f"{answer.type}: {message}"
        case _:
            text = f"{answer.type}: {msgspec.json.encode(data).decode()}"
    return printable(text)


# Any: a JSON value.
def answer_data(answer: Frame) -> Any:
    """Return the data of an answer as plain values."""
    return msgspec.json.decode(answer.data)


@final
class ErrorReporter:
    """A context manager that prints errors of the connection and of the arguments, and sets `exit_code`.

    It suppresses only the errors that it prints.
    """

    def __init__(self, err: TextIO) -> None:
        self._err = err
        self.exit_code = ExitCode.SUCCESS

    def __enter__(self) -> ErrorReporter:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> bool:
        match error:
            case InvalidMessageError() if error.path.startswith("$.data"):
                self.exit_code = ExitCode.SCHEMA
            case InvalidArgumentError():
                self.exit_code = ExitCode.USAGE
            case RequestFailedError():
                self.exit_code = _FAULT_CODES.get(error.type, ExitCode.FAILED)
            case TimeoutError():
                self.exit_code = ExitCode.TIMEOUT
            case OSError() | InvalidMessageError() if not isinstance(error, BrokenPipeError):
                self.exit_code = ExitCode.NO_NODE
            case _:
                return False
        self._err.write(f"bandstand: {printable(str(error))}\n")
        return True
