"""A mailbox: four lanes, strict priority between them, and the arithmetic of who may still come in.

Room. A mailbox has `cap` slots. User messages stop at cap minus the system's reserve, in each user lane by itself, so a
full DATA lane never refuses a CONTROL message. A system message takes any free slot; the last of them are its alone.
"Free" is reckoned against the fullest user lane, so that a program that uses one lane sees exactly one mailbox of
`cap` slots.

Reservations. A child, a monitor, a link and a watched descriptor each have system slots of their own, on top of the cap.
What they will say one day (a start, an exit, a down, an I/O event) therefore never meets a full mailbox. There are as many
such slots as there are children, monitors, links and descriptors, and rings grow, so nothing needs to be counted: the tags of those messages tell that they lie outside the cap. Only the other system messages, counted in
`plain`, can find the mailbox full.

Lanes that nobody used cost nothing: a ring is made by the first message of its lane.
"""

# push and pop come from one of two places, of which the checker sees one.
# pyright: reportPossiblyUnboundVariable=false

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from bandstand.core.hot.ring import new_ring
from bandstand.core.numbers import CONTROL, DATA, LAST_RESERVED, MANAGEMENT, SYSTEM

try:
    import cython
except ModuleNotFoundError:  # interpreted, where Cython is not installed
    from bandstand.core import interpreted as cython  # type: ignore[no-redef]  # one of the two

if not cython.compiled:
    # Compiled, they are written into this module.
    from bandstand.core.hot.ring import pop, push

if TYPE_CHECKING:
    from bandstand.core.hot.ring import Ring
    from bandstand.core.hot.turn import Turn

Count: TypeAlias = int
LaneNumber: TypeAlias = int
TagNumber: TypeAlias = int


class Mailbox:
    """Bounded, with four lanes. Knows rooms and counts; what to do about a full lane is its caller's business."""

    __slots__ = (
        "cap",
        "closing",
        "coming_control",
        "coming_data",
        "coming_management",
        "control",
        "data",
        "limit",
        "management",
        "plain",
        "reserve",
        "surplus",
        "system",
        "urgent",
    )

    def __init__(self, cap: Count, reserve: Count) -> None:
        self.set_cap(cap, reserve)

    def set_cap(self, cap: Count, reserve: Count) -> None:
        """Make it an empty mailbox of `cap` slots, `reserve` of them the system's alone."""
        self.cap: Count = cap
        self.reserve: Count = reserve
        # What a user lane may hold at present: `limit` is kept, not computed, so that a send compares two numbers.
        self.limit: Count = cap - reserve
        # Whether users may send nothing any more, though what waits is still handled.
        self.closing = False
        self.plain: Count = 0
        # Slots promised to messages from other threads that have not come in yet.
        self.coming_data: Count = 0
        self.coming_management: Count = 0
        self.coming_control: Count = 0
        # Messages from other threads that came without a promise, for the overflow policy to decide about.
        self.surplus: Count = 0
        # How many messages wait in the three lanes above DATA.
        self.urgent: Count = 0
        self.data: Ring | None = None
        self.management: Ring | None = None
        self.control: Ring | None = None
        self.system: Ring | None = None

    def offer(self, lane: LaneNumber, data: object, tag: object, sender: object) -> bool:
        """Enqueue a user message; False if its lane is full."""
        if lane == DATA:
            ring = self.data
            if ring is None:
                ring = self.lane(DATA)
            if ring.count + self.coming_data >= self.limit:
                return False
            push(ring, data, tag, sender)
            return True
        ring = self.lane(lane)
        if ring.count + self.coming(lane) >= self.limit:
            return False
        push(ring, data, tag, sender)
        self.urgent += 1
        return True

    def promise(self, lane: LaneNumber) -> bool:
        """Set a slot of a user lane aside for a message from another thread; False if the lane is full.

        Compiled, this is a handful of C statements under the interpreter's lock, and so is atomic.
        """
        if self.depth(lane) + self.coming(lane) >= self.limit:
            return False
        self.add_coming(lane, 1)
        return True

    def arrive(self, lane: LaneNumber, data: object, tag: object, sender: object) -> None:
        """Enqueue a message from another thread in the slot that was promised to it."""
        self.add_coming(lane, -1)
        ring = self.lane(lane)
        push(ring, data, tag, sender)
        if lane != DATA:
            self.urgent += 1

    def coming(self, lane: LaneNumber) -> Count:
        """How many slots of a user lane are promised to messages from other threads."""
        if lane == DATA:
            return self.coming_data
        if lane == CONTROL:
            return self.coming_control
        return self.coming_management

    def add_coming(self, lane: LaneNumber, change: Count) -> None:
        """Change how many slots of a user lane are promised."""
        if lane == DATA:
            self.coming_data += change
        elif lane == CONTROL:
            self.coming_control += change
        else:
            self.coming_management += change

    def put_back(self, lane: LaneNumber, data: object, tag: object, sender: object) -> None:
        """Enqueue a user message that was kept, before all others of its lane. Always succeeds: what was kept had room of its own."""
        ring = self.lane(lane)
        ring.push_front(data, tag, sender)
        if lane != DATA:
            self.urgent += 1

    def take_out(self, lane: LaneNumber, sender: object) -> tuple[object, object, object] | None:
        """Take the message of one sender out of a user lane, wherever it stands; None if it is not there."""
        ring = self.lane(lane)
        letter = ring.pull(sender)
        if letter is not None and lane != DATA:
            self.urgent -= 1
        return letter

    def offer_system(self, data: object, tag: object, sender: object) -> bool:
        """Enqueue a system message in any free slot; False if there is none to the last."""
        if self.plain + self.fullest() >= self.cap:
            return False
        ring = self.lane(SYSTEM)
        push(ring, data, tag, sender)
        self.urgent += 1
        self.plain += 1
        self.reckon()
        return True

    def offer_reserved(self, data: object, tag: object, sender: object) -> None:
        """Enqueue a system message in a slot of its own, outside the cap. Always succeeds."""
        ring = self.lane(SYSTEM)
        push(ring, data, tag, sender)
        self.urgent += 1

    def take_urgent(self, turn: Turn) -> object:
        """Take the next message of the lanes above DATA, by priority. Only if `urgent` says there is one.

        Messages of DATA the kernel takes from the ring itself: that is the hottest line of all.
        """
        self.urgent -= 1
        ring = self.system
        if ring is not None and ring.count > 0:
            turn.lane_number = SYSTEM
            data = pop(ring, turn)
            self.took_system(turn.tag)
            return data
        ring = self.control
        if ring is not None and ring.count > 0:
            turn.lane_number = CONTROL
            return pop(ring, turn)
        ring = self.management
        assert ring is not None
        turn.lane_number = MANAGEMENT
        return pop(ring, turn)

    def took_system(self, tag: TagNumber) -> None:
        """Account for a system message that has left, if it was in a slot of the cap."""
        if tag < LAST_RESERVED:
            self.plain -= 1
            self.reckon()

    def inherit(self, other: Mailbox) -> None:
        """Take over the unread user messages of a mailbox that is not used any more, in their order. This one is empty."""
        self.data, other.data = other.data, None
        self.management, other.management = other.management, None
        self.control, other.control = other.control, None
        self.urgent, other.urgent = other.urgent, 0

    def lane(self, lane: LaneNumber) -> Ring:
        """The ring of one lane, made now if this is its first message."""
        ring = self.ring(lane)
        if ring is None:
            made = new_ring()
            # To make it may run the collector, and that a finalizer, which may send to this very lane.
            ring = self.ring(lane)
            if ring is not None:
                return ring
            ring = made
            if lane == DATA:
                self.data = ring
            elif lane == CONTROL:
                self.control = ring
            elif lane == MANAGEMENT:
                self.management = ring
            else:
                self.system = ring
        return ring

    def ring(self, lane: LaneNumber) -> Ring | None:
        """The ring of one lane, if it has had a message."""
        if lane == DATA:
            return self.data
        if lane == CONTROL:
            return self.control
        if lane == MANAGEMENT:
            return self.management
        return self.system

    def depth(self, lane: LaneNumber) -> Count:
        """How many messages wait in one lane."""
        ring = self.ring(lane)
        return 0 if ring is None else ring.count

    def has_room(self, lane: LaneNumber) -> bool:
        """Whether a user lane would take one message more."""
        return self.depth(lane) + self.coming(lane) < self.limit

    @cython.nonecheck(False)
    def waiting(self) -> Count:
        """How many messages wait, all lanes together."""
        ring = self.data
        return self.urgent if ring is None else self.urgent + ring.count

    def fullest(self) -> Count:
        """How many messages wait in the fullest user lane; what was kept and came back beyond the users' share does not count."""
        most = self.depth(DATA)
        most = max(most, self.depth(CONTROL))
        most = max(most, self.depth(MANAGEMENT))
        return min(most, self.cap - self.reserve)

    def reckon(self) -> None:
        """Work out anew what a user lane may hold: what the system took beyond its reserve is gone for users."""
        self.limit = 0 if self.closing else self.cap - max(self.reserve, self.plain)

    def close(self) -> None:
        """Take no user message any more. What waits, and what is promised to come from other threads, stays."""
        self.closing = True
        self.limit = 0

    def is_expecting(self) -> bool:
        """Whether messages from other threads are on their way into promised slots."""
        return self.coming_data + self.coming_management + self.coming_control > 0
