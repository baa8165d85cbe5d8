"""The lineage of a message: what it follows from, and the tree of all that it has caused, from the log."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Annotated

from msgspec import Meta, Struct

from bandstand.bus.contracts.messages import Query
from bandstand.bus.frame import Frame, Kind
from bandstand.bus.ports import Log
from bandstand.errors import Refused
from bandstand.errors.formatting import describe_exception

__all__ = ("Step", "Trace", "Traced", "ancestors_of", "read_lineage", "trace")

# How many levels of a tree are told. Each is two of JSON's, and a reader takes no more than `numbers.DEEPEST` of those.
DEEPEST_STEP = 50
# The largest number that every reader of JSON can tell from the next. What strangers say the time is may be as far off as they like.
LONGEST_MS = (1 << 53) - 1
# How many messages are looked at for what one follows from.
FAR_UP = 1000


class Step(Struct, rename="camel", omit_defaults=True):
    """One message of a lineage."""

    id: str
    kind: Kind
    type: str
    timestamp: int | float
    """Milliseconds since 1970, by the clock of whoever said it."""
    after_ms: int
    """Milliseconds after the first message of the lineage, as far as the clocks agree."""
    children: list[Step]
    """What follows from it, in the order in which it was said."""
    destination: str | None = None
    """Who handles it, or hears of it; left out for an answer, and for what goes to nobody."""


class Traced(Struct):
    """A message with what it follows from, and what follows from it."""

    found: bool
    """False if the log does not have it: it never passed, or so long ago that it was forgotten."""
    ancestors: list[Step]
    """What it follows from, the oldest first. They have no children here."""
    tree: Step | None
    """The message itself, with all that it has caused."""
    complete: bool
    """False if something of it is missing: it was forgotten, or is more than was asked for."""


class Trace(Query[Traced], type="Syscall.Trace", remember=False):
    """Look up what a message follows from, and the tree of everything that it has caused."""

    id: Annotated[
        str, Meta(min_length=1, max_length=200, description="The id of a message.", examples=["mine-1"])
    ]
    limit: Annotated[int, Meta(ge=1, le=10_000, description="How many messages at most.")] = 1000


def trace(log: Log, msg: Trace, destination_of: Callable[[Frame], str | None]) -> Traced:
    """Answer a `Trace`.

    Raises:
        Refused: the log cannot be read.
    """
    frames = read_lineage(log, msg.id, msg.limit + 1)
    is_whole = len(frames) <= msg.limit
    if not is_whole:
        frames = read_lineage(log, msg.id, msg.limit)
    by_id = {frame.metadata.id: frame for frame in frames if frame.metadata.id != msg.id}
    wanted = next((frame for frame in frames if frame.metadata.id == msg.id), None)
    if wanted is None:
        return Traced(found=False, ancestors=[], tree=None, complete=False)
    above = ancestors_of(by_id.values(), wanted)
    top = above[0] if above else wanted
    start = start_of(top, frames)

    def step(frame: Frame) -> Step:
        own = frame.metadata
        after = _between(start, own.timestamp) if frame is not top else 0
        return Step(own.id, frame.kind, frame.type, own.timestamp, after, [], destination_of(frame))

    ancestors = [step(frame) for frame in above]
    root = step(wanted)
    is_whole = is_whole and top.metadata.causation is None
    depths = {msg.id: (root, 1)}
    passed = {frame.metadata.id for frame in above}
    # In the order in which they were written down, causes come before what follows from them; what does not, goes in circles.
    for frame in by_id.values():
        own = frame.metadata
        if own.id in passed:
            continue
        parent, depth = depths.get(own.causation or "", (None, 0))
        if parent is None or depth >= DEEPEST_STEP:
            is_whole = False
            continue
        made = step(frame)
        parent.children.append(made)
        depths[own.id] = (made, depth + 1)
    return Traced(found=True, ancestors=ancestors, tree=root, complete=is_whole)


def ancestors_of(frames: Iterable[Frame], frame: Frame) -> list[Frame]:
    """What a message follows from, the oldest first, as far as it is among these frames."""
    by_id = {each.metadata.id: each for each in frames}
    found: list[Frame] = []
    above = by_id.pop(frame.metadata.causation or "", None)
    while above is not None:
        found.append(above)
        # Each once: what strangers say may go in circles.
        above = by_id.pop(above.metadata.causation or "", None)
    return found[::-1]


def read_lineage(log: Log, name: str, limit: int = FAR_UP) -> Sequence[Frame]:
    """All that the log has about a message.

    Raises:
        Refused: it cannot be read.
    """
    try:
        return log.lineage(name, limit)
    except Exception as error:
        raise Refused(f"the log cannot be read: {describe_exception(error)}") from error


def start_of(top: Frame, frames: Iterable[Frame]) -> float:
    """When a lineage begins: as its first message says, unless that says nothing, or what others contradict."""
    said = [frame.metadata.timestamp for frame in frames if frame is not top and frame.metadata.timestamp > 0]
    own = top.metadata.timestamp
    first = min(said, default=own)
    return own if 0 < own <= first else first


def _between(start: float, end: float) -> int:
    """Milliseconds from one time to the other: none if that is the earlier one, and no more than can be told."""
    if end <= start:
        return 0
    # Compared first: the difference of an integer that is too large for a float and of a float is none at all.
    return min(int(end - start), LONGEST_MS) if start > -LONGEST_MS and end < LONGEST_MS else LONGEST_MS
