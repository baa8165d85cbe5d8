"""The elements of a channel: a ring that grows, and whose front elements may come back to.

The lowest storey of a channel: store, conduit (what its operations ask of it), pipe. They are one object, as the kernel's storeys
are: separate ones would put a pointer between a send and its element.

Whatever may start the collector is done outside critical sections, and looked at again inside: `parked` says why. An element that comes back
stands before all that were not received yet, and among others that came back by its number.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from bandstand.scope.hot.parked import LOCK

try:
    import cython
except ModuleNotFoundError:  # interpreted, where Cython is not installed
    from bandstand.core import _cython as cython  # type: ignore[no-redef]  # one of the two

Count: TypeAlias = int

FIRST_ROOM = 4


class Store:
    """Elements, first in, first out. `count` of them, room for `room` before the list must grow; `room` is a power of two."""

    __slots__ = ("conflates", "count", "entries", "head", "returned", "room")

    def __init__(self, conflates: bool) -> None:
        # Whether it keeps the newest element only.
        self.conflates = conflates
        self.entries: list[Any] = [None] * FIRST_ROOM
        self.room: Count = FIRST_ROOM
        self.head: Count = 0
        self.count: Count = 0
        # The numbers of those at the front that have come back.
        self.returned: list[Count] = []

    # -- outside a critical section ------------------------------------------------------------------------------------

    def make_room(self) -> None:
        """Have room for one element more. Outside a critical section: it allocates, and anything may happen meanwhile."""
        while self.count == self.room:
            room = 2 * self.room
            fresh: list[Any] = [None] * room
            if not cython.compiled:
                with LOCK:
                    self.move(fresh, room)
            else:
                self.move(fresh, room)  # type: ignore[unreachable]  # to the checkers

    def rest(self) -> None:
        """Give back the memory of a past burst. Outside a critical section: it allocates."""
        fresh: list[Any] = [None] * FIRST_ROOM
        if not cython.compiled:
            with LOCK:
                self.shrink(fresh)
        else:
            self.shrink(fresh)  # type: ignore[unreachable]  # to the checkers

    # -- inside a critical section -------------------------------------------------------------------------------------

    def append(self, item: object) -> None:
        """Put an element at the end. There is room."""
        self.entries[(self.head + self.count) & (self.room - 1)] = item
        self.count += 1

    def shift(self) -> Any:
        """Take the oldest element. There is one."""
        at = self.head
        item = self.entries[at]
        self.entries[at] = None
        self.head = (at + 1) & (self.room - 1)
        self.count -= 1
        if self.returned:
            self.returned.pop(0)
        return item

    def insert_returned(self, item: object, number: Count) -> None:
        """Have an element back: before all others, but for those that came back and were sent before it. There is room."""
        at = 0
        while at < len(self.returned) and self.returned[at] < number:
            at += 1
        self.returned.insert(at, number)
        self.head = (self.head + self.room - 1) & (self.room - 1)
        step = 0
        while step < at:
            self.entries[(self.head + step) & (self.room - 1)] = self.entries[
                (self.head + step + 1) & (self.room - 1)
            ]
            step += 1
        self.entries[(self.head + at) & (self.room - 1)] = item
        self.count += 1

    def replace(self, item: object) -> None:
        """Have an element in the place of the newest one: the last thing that is done."""
        at = (self.head + self.count - 1) & (self.room - 1)
        # It goes when we return, and not before: its end may call anybody.
        old = self.entries[at]
        self.entries[at] = item
        del old

    def newest(self) -> Any:
        """What may be replaced."""
        return self.entries[(self.head + self.count - 1) & (self.room - 1)] if self.conflates else None

    def move(self, fresh: list[Any], room: Count) -> None:
        """Move everything into a larger list, unless somebody has done that meanwhile."""
        if self.count != self.room or room != 2 * self.room:
            return
        at = 0
        while at < self.count:
            fresh[at] = self.entries[(self.head + at) & (self.room - 1)]
            at += 1
        old = self.entries
        self.entries = fresh
        self.room = room
        self.head = 0
        del old

    def shrink(self, fresh: list[Any]) -> None:
        """Begin again with a small list, unless there are elements again."""
        if self.count == 0:
            old = self.entries
            self.entries = fresh
            self.room = FIRST_ROOM
            self.head = 0
            del old
