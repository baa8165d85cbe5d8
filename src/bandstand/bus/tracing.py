"""Tracing: which message caused which. A message names its cause in `metadata.causation`.

`CURRENT_MESSAGE` supplies the cause of messages that are sent now. `lineage_of` finds causes and effects among logged messages, and `trace`
builds the answer to `Syscall.Trace`: the causes of a message, and the tree of its effects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, Struct

from bandstand.bus.contracts.messages import Query
from bandstand.bus.frame import Frame, Kind
from bandstand.errors import RefusedError
from bandstand.errors.formatting import describe_exception

if TYPE_CHECKING:
    from bandstand.bus.protocols import Log
    from bandstand.bus.request import Delivery, PendingRequest

__all__ = (
    "CURRENT_MESSAGE",
    "Step",
    "Trace",
    "Traced",
    "ancestors_of",
    "lineage_of",
    "read_lineage",
    "trace",
)

# The maximum depth of a tree. Each level takes two levels of JSON, and `wire` limits the nesting of those.
MAX_DEPTH = 50
# The largest integer that every JSON reader represents exactly. A client can send any number as the time.
MAX_MS = (1 << 53) - 1
# How many messages are read to find the causes of one.
MAX_LINEAGE = 1000

CURRENT_MESSAGE: ContextVar[PendingRequest | Delivery | None] = ContextVar(
    "bandstand.bus.current_message", default=None
)
"""The message that the current code handles: the cause of the messages it sends. Tasks inherit it."""


class Step(Struct, rename="camel", omit_defaults=True):
    """One message of a trace."""

    id: str
    kind: Kind
    type: str
    timestamp: int | float
    """Milliseconds since 1970, by the clock of the sender."""
    after_ms: int
    """Milliseconds after the first message of the trace, as far as the clocks agree."""
    children: list[Step]
    """The messages that it caused, in the order in which they were logged."""
    destination: str | None = None
    """The capabilities that receive it; omitted for an answer, and for a message without a receiver."""


class Traced(Struct):
    """A message with its causes and its effects."""

    found: bool
    """False if the message is not in the log: it was never sent, or the log has dropped it."""
    ancestors: list[Step]
    """The messages that caused it, the oldest first. Their `children` are empty."""
    tree: Step | None
    """The message, with all messages that it caused."""
    complete: bool
    """False if messages are missing: the log has dropped them, or there are more than `limit`."""


class Trace(Query[Traced], type="Syscall.Trace", remember=False):
    """Look up what caused a message, and the tree of all messages that it caused."""

    id: Annotated[
        str, Meta(min_length=1, max_length=200, description="The id of a message.", examples=["mine-1"])
    ]
    limit: Annotated[int, Meta(ge=1, le=10_000, description="The maximum number of messages.")] = 1000


def trace(log: Log, msg: Trace, destination_of: Callable[[Frame], str | None]) -> Traced:
    """Answer a `Trace`.

    Raises:
        Refused: the log cannot be read.
    """
    frames = read_lineage(log, msg.id, msg.limit + 1)
    is_complete = len(frames) <= msg.limit
    if not is_complete:
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
        after = _elapsed_ms(start, own.timestamp) if frame is not top else 0
        return Step(own.id, frame.kind, frame.type, own.timestamp, after, [], destination_of(frame))

    ancestors = [step(frame) for frame in above]
    root = step(wanted)
    is_complete = is_complete and top.metadata.causation is None
    depths = {msg.id: (root, 1)}
    passed = {frame.metadata.id for frame in above}
    # A cause is logged before its effects. A message that does not follow this order is part of a cycle, and is left out.
    for frame in by_id.values():
        own = frame.metadata
        if own.id in passed:
            continue
        parent, depth = depths.get(own.causation or "", (None, 0))
        if parent is None or depth >= MAX_DEPTH:
            is_complete = False
            continue
        made = step(frame)
        parent.children.append(made)
        depths[own.id] = (made, depth + 1)
    return Traced(found=True, ancestors=ancestors, tree=root, complete=is_complete)


def lineage_of(frames: Iterable[Frame], name: str, limit: int) -> tuple[Frame, ...]:
    """Return the message with this id, the messages that caused it, and those that it caused, in the order of `frames`.

    Each id is returned once; nothing if there is no such message. If there are more than `limit`, the most distant are omitted, effects before
    causes. For logs that have no index of causes: it reads the frames once.
    """
    found: dict[str, tuple[int, Frame]] = {}
    children: dict[str, list[str]] = {}
    for index, frame in enumerate(frames):
        own = frame.metadata
        if own.id in found:
            continue
        found[own.id] = (index, frame)
        if own.causation is not None:
            children.setdefault(own.causation, []).append(own.id)
    if name not in found:
        return ()
    # Ordered by distance. Clients choose ids and causes, so there can be cycles.
    kept: dict[str, None] = {name: None}
    above = found[name][1].metadata.causation
    while above in found and above not in kept and len(kept) < limit:
        kept[above] = None
        above = found[above][1].metadata.causation
    queue = [name]
    for each in queue:
        for child in children.get(each, ()):
            if child not in kept and len(kept) < limit:
                kept[child] = None
                queue.append(child)
    return tuple(frame for _, frame in sorted((found[each] for each in kept), key=lambda pair: pair[0]))


def ancestors_of(frames: Iterable[Frame], frame: Frame) -> list[Frame]:
    """Return the messages among these frames that caused a message, the oldest first."""
    by_id = {each.metadata.id: each for each in frames}
    found: list[Frame] = []
    above = by_id.pop(frame.metadata.causation or "", None)
    while above is not None:
        found.append(above)
        # Each is removed when it is found, so that a cycle ends.
        above = by_id.pop(above.metadata.causation or "", None)
    return found[::-1]


def read_lineage(log: Log, name: str, limit: int = MAX_LINEAGE) -> Sequence[Frame]:
    """Read the causes and effects of a message from a log.

    Raises:
        Refused: the log cannot be read.
    """
    try:
        return log.lineage(name, limit)
    except Exception as error:
        raise RefusedError(f"the log cannot be read: {describe_exception(error)}") from error


def start_of(top: Frame, frames: Iterable[Frame]) -> float:
    """Return the start of a trace: the timestamp of its first message, or the earliest one if the first message has none or a later one."""
    others = [
        frame.metadata.timestamp for frame in frames if frame is not top and frame.metadata.timestamp > 0
    ]
    own = top.metadata.timestamp
    first = min(others, default=own)
    return own if 0 < own <= first else first


def _elapsed_ms(start: float, end: float) -> int:
    """Return the milliseconds between two timestamps, from 0 to `MAX_MS`."""
    if end <= start:
        return 0
    # Compared before subtracting: an int that is too large for a float cannot be subtracted from one.
    return min(int(end - start), MAX_MS) if start > -MAX_MS and end < MAX_MS else MAX_MS
