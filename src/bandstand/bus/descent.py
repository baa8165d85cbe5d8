"""Who follows from whom, among messages that were written down: for logs that have no index of it."""

from __future__ import annotations

from collections.abc import Iterable

from bandstand.bus.frame import Frame

__all__ = ("lineage_of",)


def lineage_of(frames: Iterable[Frame], name: str, limit: int) -> tuple[Frame, ...]:
    """The message with this id, those it follows from, and all that follow from it, in the order in which they were written down.

    Each once, however often it was sent; none, if there is no such message. Where there are more than `limit`, the farthest are left out, those
    that follow before those that went before. One walk over the frames, whatever they say of each other.
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
    # Insertion is distance; what strangers say may go in circles.
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
