"""What goes to a terminal: colours where there are any, and nothing that would be an order to it.

What is shown here was said by strangers. A type may be called anything, and a terminal obeys some of what it is shown: so all that is not
printable is written out.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TextIO, final

__all__ = (
    "CANNOT_WRITE",
    "KIND_COLOURS",
    "Paint",
    "clock_time",
    "cut",
    "one_line",
    "printable",
    "printable_json",
    "printable_lines",
    "table",
    "width_of",
)

CODES = {"red": 31, "green": 32, "yellow": 33, "blue": 34, "magenta": 35, "cyan": 36, "dim": 2, "bold": 1}
KIND_COLOURS = {"command": "cyan", "query": "blue", "event": "magenta", "reply": "green", "error": "red"}
"""By what the kinds of messages are told apart, wherever they are shown."""
CANNOT_WRITE = 7
"""The exit code of a command whose output could not be written."""
# Where nobody says how wide it is.
USUAL = 110
# An integer that is larger can be written in no other way than with all of its digits.
FARTHEST = 1e308


@final
class Paint:
    """Colours, if the stream is a terminal and nobody has said `NO_COLOR`."""

    def __init__(self, stream: TextIO) -> None:
        self.is_on = stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"

    def __call__(self, text: str, colour: str) -> str:
        """The text in a colour."""
        return f"\x1b[{CODES[colour]}m{text}\x1b[0m" if self.is_on and text else text


def printable(text: str) -> str:
    """The same text on one line, with whatever is no letter or sign written out: a line end could forge a row of a table."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def printable_lines(text: str) -> str:
    """The same for a text of several lines: only those line ends stay."""
    return "\n".join(map(printable, text.split("\n")))


def printable_json(text: str) -> str:
    """The same JSON, with whatever is no letter, sign or line end as JSON writes it out, so that it reads the same.

    Line ends stay: they stand between values, and never inside a string.
    """
    return "".join(char if char.isprintable() or char == "\n" else json.dumps(char)[1:-1] for char in text)


def one_line(value: object) -> str:
    """A text that may have several lines, for a place that has room for one."""
    return " ".join(str(value).split())


def width_of(stream: TextIO) -> int:
    """How many columns there are; 0 for as many as one likes, where it is no terminal."""
    return shutil.get_terminal_size((USUAL, 24)).columns if stream.isatty() else 0


def cut(text: str, width: int) -> str:
    """As much of a text as fits; all of it if the width is 0."""
    return text if not width or len(text) <= width else f"{text[: max(0, width - 1)]}…"


def clock_time(ms: float) -> str:
    """Milliseconds since 1970 as the time of day here, to the millisecond."""
    try:
        return datetime.fromtimestamp(ms / 1000).strftime("%H:%M:%S.%f")[:-3]  # noqa: DTZ006  # the reader's own clock
    except (OverflowError, ValueError, OSError):
        # Whoever sends a message says what time it is, and may say what is no number for a clock.
        return f"{ms:g}" if -FARTHEST < ms < FARTHEST else "?"


def table(rows: Iterable[Sequence[str]], head: Sequence[str] = ()) -> str:
    """Columns as wide as they need to be."""
    lines = [list(head), *map(list, rows)] if head else [list(row) for row in rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )
