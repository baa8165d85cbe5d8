"""`bandstand tail`: what passes a node, as it passes. Events, and all the traffic beside them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TextIO, final

import msgspec

from bandstand.bus.client.stream import Gap
from bandstand.bus.client.subscribing import Passed
from bandstand.bus.frame import Kind
from bandstand.cli.exits import Errors, Exit
from bandstand.cli.target import say
from bandstand.cli.terminal import (
    KIND_COLOURS,
    Paint,
    clock_time,
    cut,
    printable,
    printable_json,
    width_of,
)
from bandstand.errors import AskTimeout

if TYPE_CHECKING:
    from bandstand.cli.target import Target

__all__ = ("Tail", "show_line", "tail", "tell")

WORDS = {
    "lagged": "this terminal was too slow for the node",
    "overflow": "this terminal was too slow",
    "reconnected": "the node was gone, and is back",
}


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Tail:
    """What is to be shown."""

    patterns: Sequence[str] = ()
    kinds: Sequence[Kind] = ()
    count: int = 0
    """After how many to end; 0 for never."""
    for_ms: int = 0
    """After how long to end; 0 for never."""
    is_json: bool = False


def tail(wish: Tail, target: Target, out: TextIO, err: TextIO) -> Exit:
    """Print what passes until told to stop, or until so many have passed, or so long."""
    paint = Paint(out)
    seen = 0
    until = time.monotonic() + wish.for_ms / 1000 if wish.for_ms else None
    with Errors(err) as errors, target.connected(is_patient=True) as bus:
        try:
            stream = bus.watch(*wish.patterns, kinds=wish.kinds)
            # Whoever waits for the first line may know now that nothing will be missed.
            err.write("bandstand: watching\n")
            err.flush()
            while not wish.count or seen < wish.count:
                item = stream.next(None if until is None else max(0.0, until - time.monotonic()))
                if isinstance(item, Gap):
                    tell(item, wish, out, err)
                elif wish.patterns or wish.kinds or not _is_small_talk(item):
                    seen += 1
                    say(out, _json(item) if wish.is_json else show_line(item, paint, width_of(out)))
        except (AskTimeout, KeyboardInterrupt):
            # That it is told to stop is how it ends.
            return Exit.REPLY
        return Exit.REPLY
    return errors.exit


def _is_small_talk(item: Passed) -> bool:
    """Whether it is about the node itself: whoever has not asked for it wants to see what others do."""
    frame = item.message
    return frame.kind != "error" and frame.type.startswith(("Syscall.", "Sys."))


def tell(gap: Gap, wish: Tail, out: TextIO, err: TextIO) -> None:
    """Say that something is missing here."""
    if wish.is_json:
        say(out, f'{{"gap":{msgspec.json.encode(gap).decode()}}}')
        return
    many = "some" if gap.missed is None else f"{gap.missed}"
    say(err, f"bandstand: {many} messages are missing here: {WORDS[gap.why]}")


def _json(item: Passed) -> str:
    return printable_json(msgspec.json.encode(item).decode())


def show_line(item: Passed, paint: Paint, width: int) -> str:
    """A message as one line, cut to a width; 0 for all of it."""
    frame = item.message
    when = clock_time(frame.metadata.timestamp)
    kind, to = printable(frame.kind), printable(item.to)
    name, data = printable(frame.metadata.id), printable(bytes(frame.data).decode())
    head = f"{when} {kind:<7} {printable(frame.type)} → {to or 'nobody'}"
    rest = cut(f"{name}  {data}", max(width - len(head) - 2, 10) if width else 0)
    return f"{paint(head, KIND_COLOURS[frame.kind])}  {rest}"
