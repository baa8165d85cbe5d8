"""`bandstand tail`: shows the messages that pass through a node, as they pass."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TextIO, final

import msgspec

from bandstand.bus.client.subscription import Gap, Passed
from bandstand.bus.frame import Kind
from bandstand.cli.output import (
    KIND_COLOURS,
    Colours,
    ErrorReporter,
    ExitCode,
    clock_time,
    print_line,
    printable,
    printable_json,
    terminal_width,
    truncate,
)
from bandstand.errors import AskTimeoutError

if TYPE_CHECKING:
    from bandstand.cli.settings import Target

__all__ = ("TailOptions", "format_message", "report_gap", "tail")

_GAP_REASONS: Final = {
    "lagged": "this client was too slow, so the node dropped them",
    "overflow": "this terminal was too slow",
    "reconnected": "the connection was lost and is back",
}


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class TailOptions:
    """Which messages to show, and how many."""

    patterns: Sequence[str] = ()
    kinds: Sequence[Kind] = ()
    count: int = 0
    """Exit after this many messages; 0 for no limit."""
    duration: float = 0.0
    """Exit after this many seconds; 0 for no limit."""
    is_json: bool = False


def tail(options: TailOptions, target: Target, out: TextIO, err: TextIO) -> ExitCode:
    """Print messages as they pass, until Ctrl-C or a limit of the options."""
    colours = Colours(out)
    count = 0
    until = time.monotonic() + options.duration if options.duration else None
    with ErrorReporter(err) as reporter, target.connected(reconnects=True) as bus:
        try:
            stream = bus.watch(*options.patterns, kinds=options.kinds)
            # From here on no message is missed: a script that starts `tail` can wait for this line.
            print_line(err, "bandstand: watching")
            while not options.count or count < options.count:
                item = stream.next(None if until is None else max(0.0, until - time.monotonic()))
                if isinstance(item, Gap):
                    report_gap(item, options, out, err)
                elif options.patterns or options.kinds or not _is_about_node(item):
                    count += 1
                    text = (
                        _json(item) if options.is_json else format_message(item, colours, terminal_width(out))
                    )
                    print_line(out, text)
        except (AskTimeoutError, KeyboardInterrupt):
            # The time is over, or the user pressed Ctrl-C: the normal end.
            return ExitCode.SUCCESS
        return ExitCode.SUCCESS
    return reporter.exit_code


def _is_about_node(item: Passed) -> bool:
    """Return whether a message is about the node itself; such messages are shown only on request."""
    frame = item.message
    return frame.kind != "error" and frame.type.startswith(("Syscall.", "Sys."))


def report_gap(gap: Gap, options: TailOptions, out: TextIO, err: TextIO) -> None:
    """Print that messages are missing here."""
    if options.is_json:
        print_line(out, f'{{"gap":{msgspec.json.encode(gap).decode()}}}')
        return
    count = "some" if gap.missed is None else f"{gap.missed}"
    print_line(err, f"bandstand: {count} messages are missing here: {_GAP_REASONS[gap.why]}")


def _json(item: Passed) -> str:
    return printable_json(msgspec.json.encode(item).decode())


def format_message(item: Passed, colours: Colours, width: int) -> str:
    """Return a message as one line, cut to a width; 0 for no limit."""
    frame = item.message
    when = clock_time(frame.metadata.timestamp)
    kind, to = printable(frame.kind), printable(item.to)
    name, data = printable(frame.metadata.id), printable(bytes(frame.data).decode())
    head = f"{when} {kind:<7} {printable(frame.type)} → {to or 'none'}"
    rest = truncate(f"{name}  {data}", max(width - len(head) - 2, 10) if width else 0)
    return f"{colours(head, KIND_COLOURS[frame.kind])}  {rest}"
