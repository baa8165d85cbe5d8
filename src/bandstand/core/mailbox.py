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

# push, pop, widen, move and forget_tags come from one of two places, of which the checker sees one.
# pyright: reportPossiblyUnboundVariable=false

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from bandstand.core.enums import CONTROL, DATA, INIT, LAST_RESERVED, MANAGEMENT, SYSTEM, UNTIMED

try:
    import cython
except ModuleNotFoundError:  # interpreted, where Cython is not installed
    from bandstand.core import _cython as cython  # type: ignore[no-redef]  # one of the two

if TYPE_CHECKING:
    from contextvars import Context

    from bandstand.core.context import ActorContext
    from bandstand.core.delivery import StashCounter
    from bandstand.core.enums import ExitReason, Overflow
    from bandstand.core.hot.monitors import Monitor
    from bandstand.core.hot.reach import Reach
    from bandstand.core.ids import ActorId
    from bandstand.core.messages import ChildSummary
    from bandstand.core.timer_wheel import Timer, TimerQueue

Count: TypeAlias = int
LaneNumber: TypeAlias = int
ReasonNumber: TypeAlias = int
StatusNumber: TypeAlias = int
TagNumber: TypeAlias = int

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

    def pop(self, turn: ActorContext) -> object:
        """Take the oldest message: its data is returned, its tag and sender go into `turn`."""
        if self.count == 0:
            raise IndexError("there is no message in the ring")
        if turn is None:  # pyright: ignore[reportUnnecessaryComparison]  # callers without types
            raise TypeError("turn is None: pass a ActorContext")
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

    def pop(ring: Ring, turn: ActorContext) -> object:
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

    def take_urgent(self, turn: ActorContext) -> object:
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


class CoroutineDriver(Protocol):
    """What a cell knows of whoever drives its coroutine."""

    def cancel(self) -> None:
        """Have the coroutine cancelled, as a task is."""
        ...


class ChildGroup(Protocol):
    """What the loop asks of a supervisor about its children."""

    def take_all(self, children: list[ActorId]) -> None:
        """The supervisor has ended: append the children that end with it, in their order. The loop ends them, the last one first."""
        ...

    def kill_cause(self) -> BaseException | None:
        """Why such a child is killed if it does not end at once; None if its coroutine may take its time to end."""
        ...

    def keep(self, actor: ActorId, estate: ActorCell) -> None:
        """Take charge of what a child has left unread: it goes to the next incarnation, or to the dead letters."""
        ...

    def members(self) -> Sequence[ChildSummary]:
        """The children in their order, with those that are not running, for the tree."""
        ...


# A ready cell holds the next one, and a supervised one its supervisor: without the trashcan, to drop a loop with many of them
# would be a recursion as deep. What is linked both ways needs none: the collector takes it apart piece by piece.
@cython.trashcan(True)
@cython.cclass
class ActorCell(Mailbox):
    """One actor from the inside. Only the kernel touches it."""

    __slots__ = (
        "actor",
        "behavior",
        "budget",
        "cause",
        "children",
        "context",
        "driver",
        "exit_hook",
        "exit_observed",
        "fds",
        "keeps_mailbox",
        "kernel",
        "links",
        "message",
        "name",
        "next_ready",
        "overdue",
        "overflow",
        "queued",
        "reason",
        "serial",
        "speed",
        "stashed",
        "state",
        "status",
        "supervisor",
        "timers",
        "traps",
        "turn",
        "watch",
        "watchers",
        "watching",
    )

    def __init__(self) -> None:
        self.set_cap(0, 0)
        self.kernel: Reach | None = None
        self.actor: ActorId | None = None
        self.behavior: Callable[..., Any] | None = None
        self.state: object = None
        # The how-manieth actor of its loop this is: the order in which they end is the reverse of it.
        self.serial: ReasonNumber = 0
        # How many messages it handles a visit; 0 for the loop's own number.
        self.budget: ReasonNumber = 0
        # How quick it was when the clock was last read after a message of it; UNTIMED while it is new.
        self.speed: ReasonNumber = UNTIMED
        self.name: str | None = None
        self.turn: ActorContext | None = None
        # What a coroutine's context variables start from, for an async behavior.
        self.context: Context | None = None
        # The message whose coroutine is in flight.
        self.message: object = None
        # Messages that it has put aside, in that order, each with its lane and the shelf it is on; None for nearly every actor.
        self.stashed: list[tuple[int, object, object, object, StashCounter]] | None = None
        # Who drives the coroutine that is in flight; None while there is none.
        self.driver: CoroutineDriver | None = None
        self.supervisor: ActorCell | None = None
        # In the run queue, or being visited: a send need not queue it.
        self.queued = False
        self.next_ready: ActorCell | None = None
        self.status: StatusNumber = INIT
        # How it is to end, once its behavior has returned.
        self.reason: ReasonNumber = 0
        self.cause: BaseException | None = None
        # None is `Overflow.REJECT`.
        self.overflow: Overflow | None = None
        self.timers: Timer | None = None
        # Due timers that met a full lane, a queue for each lane; None for nearly every actor.
        self.overdue: list[TimerQueue | None] | None = None
        # How many descriptors it has watched.
        self.fds: ReasonNumber = 0
        # The descriptor whose event is being handled, to be watched again afterwards.
        self.watch: object = None
        # For a supervisor: its children, which end with it. See `ChildGroup`.
        self.children: ChildGroup | None = None
        # What it still has to do when it ends, unless it is killed: called with the reason and the cause.
        self.exit_hook: Callable[[ExitReason, BaseException | None], object] | None = None
        # Whether somebody hears of its end who is no supervisor, so that the log need not tell.
        self.exit_observed = False
        # Whether what it leaves unread is kept for the supervisor's next child of that name.
        self.keeps_mailbox = False
        # Whom this actor is linked with, and whether it is told of their ends instead of sharing them.
        self.links: dict[ActorCell, None] | None = None
        self.traps = False
        # Who watches this actor, and whom it watches; None for nearly every actor. Dicts as ordered sets.
        self.watchers: dict[Monitor, None] | None = None
        self.watching: dict[Monitor, None] | None = None

    def adopt_timer(self, timer: Timer) -> None:
        """Link a timer whose target this actor is; it goes when the actor goes."""
        first = self.timers
        timer.cell = self
        timer.previous_of_cell = None
        timer.next_of_cell = first
        if first is not None:
            first.previous_of_cell = timer
        self.timers = timer

    def disown_timer(self, timer: Timer) -> None:
        """Unlink a timer that has fired or was cancelled."""
        before = timer.previous_of_cell
        after = timer.next_of_cell
        if before is None:
            self.timers = after
        else:
            before.next_of_cell = after
        if after is not None:
            after.previous_of_cell = before
        timer.previous_of_cell = None
        timer.next_of_cell = None
        timer.cell = None


class RunQueue:
    """First in, first out."""

    __slots__ = ("count", "first", "last")

    def __init__(self) -> None:
        self.first: ActorCell | None = None
        self.last: ActorCell | None = None
        self.count: Count = 0

    @cython.nonecheck(False)
    def push(self, cell: ActorCell) -> None:
        """Append a cell, unless it is in the queue: a visit that is due serves for everything there is to do."""
        last = self.last
        if cell is last or cell.next_ready is not None:
            return
        if last is None:
            self.first = cell
        else:
            last.next_ready = cell
        self.last = cell
        self.count += 1

    @cython.nonecheck(False)
    def pop(self) -> ActorCell:
        """Take the cell that has waited longest. Never call it empty."""
        cell = self.first
        assert cell is not None
        self.first = cell.next_ready
        if self.first is None:
            self.last = None
        cell.next_ready = None
        self.count -= 1
        return cell

    def pick(self, position: Count) -> ActorCell:
        """Take the cell at a position, counted from the one that has waited longest. For shuffled orders; O(n)."""
        if position == 0:
            return self.pop()
        before = self.first
        assert before is not None
        while position > 1:
            position -= 1
            before = before.next_ready
            assert before is not None
        cell = before.next_ready
        assert cell is not None
        before.next_ready = cell.next_ready
        if before.next_ready is None:
            self.last = before
        cell.next_ready = None
        self.count -= 1
        return cell
