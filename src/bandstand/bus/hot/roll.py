"""The roll: all requests that are open, and those whose answers are remembered, by their ids.

One table serves both, so that a request costs one entry, from when it is let in until it is forgotten. What is remembered is bounded three
times: by how many, by how many bytes of data, and by time; the oldest goes first. Time is looked at when something is remembered or asked for,
so an idle node may hold longer what it does not give out any more.

`held_bytes` counts the data of requests and answers and not their envelopes: those are small, and their number bounds them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from bandstand.bus.hot.fields import data_of, id_of, metadata_of
from bandstand.bus.numbers import DONE
from bandstand.bus.origin import NOBODY

if TYPE_CHECKING:
    from bandstand.bus.frame import Frame
    from bandstand.bus.hot.pending import Pending

Count: TypeAlias = int
Flag: TypeAlias = bool
Moment: TypeAlias = float


class Roll:
    """Which requests there are.

    Args:
        most: how many answers are remembered.
        most_bytes: how many bytes of data they, and what they answer, may have together.
        keep_ms: for how long.
    """

    __slots__ = (
        "_count",
        "_keep_ms",
        "_known",
        "_most",
        "_most_bytes",
        "_repeats",
        "_ring",
        "_start",
        "held_bytes",
    )

    def __init__(self, most: Count, most_bytes: Count, keep_ms: Moment) -> None:
        self._most: Count = most
        self._most_bytes: Count = most_bytes
        self._keep_ms: Moment = keep_ms
        # The one that has an id; and those that came with an id that another has, in the order in which they came.
        self._known: dict[str, Pending] = {}
        self._repeats: dict[Pending, None] = {}
        # Those that are remembered: a ring that grows to its size, of which `_count` places from `_start` on are taken.
        self._ring: list[Pending | None] = []
        self._start: Count = 0
        self._count: Count = 0
        self.held_bytes: Count = 0

    def __len__(self) -> int:
        return self._count

    def enter(self, pending: Pending) -> Flag:
        """A request was let in. False if another has its id, or had it and is remembered."""
        if self._known.setdefault(id_of(metadata_of(pending.frame)), pending) is pending:
            return True
        self._repeats[pending] = None
        return False

    def find(self, name: str) -> Pending | None:
        """The one that has an id."""
        return self._known.get(name)

    def take_over(self, pending: Pending) -> None:
        """Give a request its id, whoever has had it."""
        name = id_of(metadata_of(pending.frame))
        other = self._known.get(name)
        if other is not None:
            self._repeats[other] = None
        self._repeats.pop(pending, None)
        self._known[name] = pending

    def count_open(self) -> Count:
        """How many have not been answered."""
        return len(self._known) - self._count + len(self._repeats)

    def open_requests(self) -> list[Pending]:
        """All that have not been answered: those that have their ids in the order in which they came, then the others."""
        return [*[pending for pending in self._known.values() if pending.stage != DONE], *self._repeats]

    def leave(self, pending: Pending) -> None:
        """A request is over, and is not remembered."""
        name = id_of(metadata_of(pending.frame))
        if self._known.get(name) is pending:
            del self._known[name]
        else:
            self._repeats.pop(pending, None)

    def keep(self, pending: Pending, answer: Frame, now_ms: Moment) -> None:
        """A request that has its id is over, and its answer is remembered, if there is room; nothing else of it is."""
        size = len(data_of(pending.frame)) + len(data_of(answer))
        if self._most == 0 or size > self._most_bytes:
            self.leave(pending)
            return
        pending.answer = answer
        pending.size = size
        pending.until_ms = now_ms + self._keep_ms
        pending.origin = NOBODY
        pending.parent = None
        pending.payload = None
        self.held_bytes += size
        if self._count == self._most:
            self._forget()
        place = self._start + self._count
        if place >= self._most:
            place -= self._most
        if place == len(self._ring):
            self._ring.append(pending)
        else:
            self._ring[place] = pending
        self._count += 1
        while self.held_bytes > self._most_bytes:
            self._forget()
        self.expire(now_ms)

    def expire(self, now_ms: Moment) -> None:
        """Forget those whose time is over."""
        while self._count:
            oldest = self._ring[self._start]
            assert oldest is not None
            if oldest.until_ms > now_ms:
                break
            self._forget()

    def _forget(self) -> None:
        start = self._start
        oldest = self._ring[start]
        assert oldest is not None
        self._ring[start] = None
        self.held_bytes -= oldest.size
        self._count -= 1
        start += 1
        self._start = 0 if start == self._most else start
        # Nobody takes the id of one that is remembered: it is its own.
        self._known.pop(id_of(metadata_of(oldest.frame)), None)
        oldest.answer = None
