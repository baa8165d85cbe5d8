"""A growing ring of messages: one lane of one mailbox.

A message is three neighbouring entries of one list (data, tag, sender), not an object of its own: pushing and popping
allocate nothing. Before there is a list there is room for one message, in the ring itself: most actors never have two waiting,
and one that comes and goes has seen one message in all; its list would cost as much as its whole mailbox. The list starts with four
places and doubles as needed; how many it may hold is the mailbox's business, not the ring's. A ring that has run empty after
a burst gives its memory back (see `rest`). What the last one has given back is kept for the next that grows as large: a flood that
comes in bursts would make a long list, from small to large, for each of them.

`push` and `pop` are what every message costs, so they are functions that are compiled into those who call them, and know how a list is
made: the `.pxd` has them, and below are their interpreted twins. What most messages have in common, a tag and no
sender, stays in its slot when a message leaves, and need not be counted in and out again for the next.
"""

# push, pop, widen, move and forget_tags come from one of two places, of which the checker sees one.
# pyright: reportPossiblyUnboundVariable=false

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

try:
    import cython
except ModuleNotFoundError:  # interpreted, where Cython is not installed
    from bandstand.core import interpreted as cython  # type: ignore[no-redef]  # one of the two

if TYPE_CHECKING:
    from bandstand.core.hot.turn import Turn

Count: TypeAlias = int

FIRST_ROOM = 4
REST_ROOM = 256
# What a new list of entries is a copy of, which costs half of what it costs to make such a list of one None.
BLANK: list[object] = [None] * (3 * FIRST_ROOM)
# The entries that were given back last, empty; nothing, if they were more than these.
SPARE: list[list[object]] = []
SPARE_ROOM = 16_384
NO_ENTRIES: list[object] = []
# Stands in the place of a sender where there is none.
ZERO = 0


# Most actors that come and go have one of these, an id and a turn: those that are gone serve the next. Said here and not in the .pxd, where it would be
# passed over without a word.
@cython.freelist(1024)
@cython.cclass
class Ring:
    """First in, first out. `count` messages, room for `room` before it grows; `room` is a power of two.

    With room for one, that one is in `data`, `tag` and `sender`; else all are in `entries`.
    """

    __slots__ = ("count", "data", "entries", "head", "room", "sender", "tag")

    def __init__(self) -> None:
        self.data: object = None
        self.tag: object = None
        self.sender: object = None
        self.entries = NO_ENTRIES
        self.room: Count = 1
        self.head: Count = 0
        self.count: Count = 0

    def push(self, data: object, tag: object, sender: object) -> Count:
        """Append a message; the new count."""
        return push(self, data, tag, sender)

    def pop(self, turn: Turn) -> object:
        """Take the oldest message: its data is returned, its tag and sender go into `turn`."""
        if self.count == 0:
            raise IndexError("there is no message in the ring")
        if turn is None:  # pyright: ignore[reportUnnecessaryComparison]  # callers without types
            raise TypeError("turn is None: pass a Turn")
        return pop(self, turn)

    def next_is(self, tag: object) -> bool:
        """Whether there is a message, and the oldest has this very tag."""
        if self.room == 1:
            return self.count > 0 and self.tag is tag
        return self.count > 0 and self.entries[3 * self.head + 1] is tag

    def peek(self) -> object:
        """The data of the oldest message, which stays. Never call it empty."""
        return self.data if self.room == 1 else self.entries[3 * self.head]

    @cython.boundscheck(False)
    def take_alike(self, items: list[object], most: Count, tag: object, strange: type) -> Count:
        """Take the data of the oldest messages into a list, until it has so many; how many those were.

        As long as they have this very tag and no sender, and their data are of any other type than `strange`.
        """
        taken = 0
        while self.room > 1 and self.count > 0 and len(items) < most:
            # Looked up each time: interpreted, a signal's handler may send between any two of these lines.
            entries = self.entries
            at = 3 * self.head
            if entries[at + 1] is not tag or entries[at + 2] is not ZERO or type(entries[at]) is strange:
                break
            items.append(entries[at])
            entries[at] = None
            self.head = (self.head + 1) & (self.room - 1)
            self.count -= 1
            taken += 1
        return taken

    def shift(self) -> tuple[object, object, object]:
        """Take the oldest message as (data, tag, sender): the way out for dead letters and dropped messages."""
        if self.room == 1:
            return self.take_only()
        entries = self.entries
        at = 3 * self.head
        letter = (entries[at], entries[at + 1], entries[at + 2])
        entries[at] = None
        entries[at + 2] = None
        self.head = (self.head + 1) & (self.room - 1)
        self.count -= 1
        return letter

    def pop_newest(self) -> tuple[object, object, object]:
        """Take the newest message as (data, tag, sender): what a conflated lane gives up."""
        if self.room == 1:
            return self.take_only()
        entries = self.entries
        at = 3 * ((self.head + self.count - 1) & (self.room - 1))
        letter = (entries[at], entries[at + 1], entries[at + 2])
        entries[at] = None
        entries[at + 2] = None
        self.count -= 1
        return letter

    def take_only(self) -> tuple[object, object, object]:
        """Take the one message that is in the ring itself, as (data, tag, sender)."""
        letter = (self.data, self.tag, self.sender)
        self.data = None
        self.tag = None
        self.sender = None
        self.count = 0
        return letter

    def push_front(self, data: object, tag: object, sender: object) -> None:
        """Put a message before the oldest one: it comes back from where it was kept."""
        while self.count == self.room:
            self.grow()
        if self.room == 1:
            push(self, data, tag, sender)
            return
        self.head = (self.head + self.room - 1) & (self.room - 1)
        at = 3 * self.head
        entries = self.entries
        entries[at] = data
        entries[at + 2] = sender
        self.count += 1
        # Last, as in `push`.
        entries[at + 1] = tag

    def has(self, sender: object) -> bool:
        """Whether a message of one sender waits here."""
        if self.room == 1:
            return self.count > 0 and self.sender is sender
        at = 0
        while at < self.count:
            if self.entries[3 * ((self.head + at) & (self.room - 1)) + 2] is sender:
                return True
            at += 1
        return False

    def pull(self, sender: object) -> tuple[object, object, object] | None:
        """Take the message of one sender out of the middle, as (data, tag, sender); None if it is not here."""
        found: tuple[object, object, object] | None = None
        left = self.count
        while left > 0:
            letter = self.shift()
            if found is None and letter[2] is sender:
                found = letter
            else:
                push(self, letter[0], letter[1], letter[2])
            left -= 1
        return found

    def grow(self) -> None:
        """Double the room at least.

        To make a list may run the collector, and that a finalizer, which may send to this very ring: then it has grown, and there is
        nothing to do. Whoever calls this looks again.
        """
        if self.room == 1:
            entries = BLANK[:]
            if self.room > 1:
                return
            entries[0] = self.data
            entries[1] = self.tag
            entries[2] = self.sender
            self.data = None
            self.tag = None
            self.sender = None
            self.entries = entries
            self.room = FIRST_ROOM
            return
        if self.room == 0:
            raise RuntimeError("the ring was made without its constructor: make it by Ring()")
        if self.room >= REST_ROOM and len(SPARE) > 0:
            spare = take_spare()
            if len(spare) > len(self.entries):
                move(self, spare)
                return
        widen(self)

    def rest(self) -> None:
        """Give back the memory of a past burst. Called when the ring is empty; small rings keep what they have."""
        if self.room > REST_ROOM:
            entries = self.entries
            self.entries = NO_ENTRIES
            self.room = 1
            self.head = 0
            # Now: a tag that is let go of may have something to send, and to this very ring.
            if len(entries) <= 3 * SPARE_ROOM:
                forget_tags(entries)
                SPARE[:] = [entries]


if not cython.compiled:

    def push(ring: Ring, data: object, tag: object, sender: object) -> Count:
        """Append a message; the new count."""
        while ring.count == ring.room:
            ring.grow()
        if ring.room == 1:
            ring.data = data
            ring.tag = tag
            ring.sender = sender
            ring.count = 1
            return 1
        at = 3 * ((ring.head + ring.count) & (ring.room - 1))
        entries = ring.entries
        entries[at] = data
        entries[at + 2] = sender
        ring.count += 1
        # Last: what is overwritten here may have something to send, and to this very ring.
        entries[at + 1] = tag
        return ring.count

    def pop(ring: Ring, turn: Turn) -> object:
        """Take the oldest message: its data is returned, its tag and sender go into `turn`. Never call it empty."""
        if ring.room == 1:
            data, tag, sender = ring.data, ring.tag, ring.sender
            ring.data = None
            ring.sender = None
            ring.count = 0
        else:
            entries = ring.entries
            at = 3 * ring.head
            data, tag, sender = entries[at : at + 3]
            entries[at] = None
            entries[at + 2] = None
            ring.head = (ring.head + 1) & (ring.room - 1)
            ring.count -= 1
        # Last: what the turn lets go of here may have something to send, and to this very ring.
        turn.tag = tag
        turn.sender = sender
        return data

    def widen(ring: Ring) -> None:
        """Double the room of a full ring that has a list."""
        room, cut = ring.room, 3 * ring.head
        longer = ring.entries[cut:] + ring.entries[:cut] + [None] * len(ring.entries)
        if ring.room == room:
            ring.entries = longer
            ring.head = 0
            ring.room = 2 * room

    def move(ring: Ring, spare: list[object]) -> None:
        """Give a full ring a longer list in place of the one it has, the oldest message first."""
        room, cut = ring.room, 3 * ring.head
        spare[: len(ring.entries)] = ring.entries[cut:] + ring.entries[:cut]
        if ring.room == room:
            ring.entries = spare
            ring.head = 0
            ring.room = len(spare) // 3

    def forget_tags(entries: list[object]) -> None:
        """Let go of the tags that messages have left behind: nothing else of them is still there."""
        entries[1::3] = [None] * (len(entries) // 3)


def new_ring() -> Ring:
    """Make a ring past its constructor, which is called by way of Python: an actor's first message makes one."""
    ring = Ring.__new__(Ring)
    ring.data = None
    ring.tag = None
    ring.sender = None
    ring.entries = NO_ENTRIES
    ring.room = 1
    ring.head = 0
    ring.count = 0
    return ring


def take_spare() -> list[object]:
    """The entries that are kept; none, if another thread was quicker."""
    try:
        return SPARE.pop()
    except IndexError:
        return []
