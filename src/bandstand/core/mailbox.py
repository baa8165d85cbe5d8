"""Mailboxes and actor cells: everything a message passes between a send and its behavior.

`Ring` is one lane, `Lanes` four lanes with their limits, `ActorCell` a mailbox with a behavior and its scheduling state, `RunQueue` the
ready cells. They share a module because a message crosses all four, and compiled as one unit that path has no Python call in it.

Limits. A mailbox has `cap` slots. Each user lane by itself may hold `cap` minus the system's reserve, so a full DATA lane never rejects a
CONTROL message. A system message takes any free slot, including the reserve. The free slots are counted against the fullest user lane, so
a program that uses one lane sees exactly one mailbox of `cap` slots.

Reserved slots. Each child, monitor, link and watched descriptor has system slots of its own, outside the cap. So the messages they cause
(a start, an exit, a down, an I/O event) never find a full mailbox. No counter is needed: rings grow, there are exactly as many such slots
as children, monitors, links and descriptors, and the tags of those messages show that they are outside the cap. Only the other
system messages, counted in `unreserved`, can find the mailbox full.

Memory. A message is three neighbouring entries of a list (data, tag, sender), not an object: push and pop allocate nothing. A lane has no
ring before its first message. A ring has no list before its second waiting message: most actors never have two, and a short-lived actor
often gets one message in all, for which a list would cost as much as the rest of the mailbox. A list starts with four messages and doubles
as needed. A ring that runs empty after a burst gives its list back (`Ring.shrink`); the last one is kept for the next ring that grows as
large, because a flood in bursts would otherwise build a long list again for each burst.

Speed. `push` and `pop` are what every message costs. Compiled, they are inline C functions in the `.pxd` that access the slots of a list
directly; the functions below are their interpreted equivalents. The tag stays in its slot when a message leaves, and so does a missing
sender: most messages have the same ones, and then no reference count changes.
"""

# The checker sees only one of the two definitions of push, pop, widen, move and forget_tags.
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
    from bandstand.core.ids import ActorId
    from bandstand.core.kernel import Kernel
    from bandstand.core.links import Monitor
    from bandstand.core.messages import ChildSummary
    from bandstand.core.timer_wheel import Timer, TimerQueue

Count: TypeAlias = int
LaneNumber: TypeAlias = int
ReasonNumber: TypeAlias = int
StatusNumber: TypeAlias = int
TagNumber: TypeAlias = int

# How many messages the first list of a ring holds.
FIRST_ROOM = 4
# An empty ring with room for more messages than this gives its list back.
SHRINK_ROOM = 256
# The first list of a ring is a copy of this one: that costs half of multiplying [None].
BLANK: list[object] = [None] * (3 * FIRST_ROOM)
# The list that was given back last, unless it had room for more messages than SPARE_ROOM.
SPARE: list[list[object]] = []
SPARE_ROOM = 16_384
NO_ENTRIES: list[object] = []
# The sender of a message without a sender.
ZERO = 0


# Most actors have one ring, one id and one context, so freed ones are reused. The decorator works only here: Cython ignores it in the .pxd.
@cython.freelist(1024)
@cython.cclass
class Ring:
    """A growing FIFO queue of messages: one lane of a mailbox.

    It holds `count` messages and has room for `room`, a power of two, before it grows. With room for one, that message is in `data`, `tag`
    and `sender`; otherwise all messages are in `entries`. The mailbox decides how many messages a lane may hold; the ring does not.
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
        """Append a message and return the new count."""
        return push(self, data, tag, sender)

    def pop(self, ctx: ActorContext) -> object:
        """Remove the oldest message: return its data, and set the tag and sender of `ctx`."""
        if self.count == 0:
            raise IndexError("there is no message in the ring")
        if ctx is None:  # pyright: ignore[reportUnnecessaryComparison]  # callers without types
            raise TypeError("ctx is None: pass an ActorContext")
        return pop(self, ctx)

    def next_is(self, tag: object) -> bool:
        """Return whether there is a message, and the oldest one has this tag, compared by identity."""
        if self.room == 1:
            return self.count > 0 and self.tag is tag
        return self.count > 0 and self.entries[3 * self.head + 1] is tag

    def peek(self) -> object:
        """Return the data of the oldest message and leave it in the ring. The ring must not be empty."""
        return self.data if self.room == 1 else self.entries[3 * self.head]

    @cython.boundscheck(False)
    def take_alike(self, items: list[object], most: Count, tag: object, strange: type) -> Count:
        """Move the data of the oldest messages to the end of `items` until it has `most`; return how many were moved.

        Stops at the first message with another tag, with a sender, or with data of type `strange`.
        """
        taken = 0
        while self.room > 1 and self.count > 0 and len(items) < most:
            # Looked up in each round: interpreted, a signal handler may send to this ring between any two of these lines.
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
        """Remove the oldest message and return it as (data, tag, sender). For dead letters and dropped messages."""
        if self.room == 1:
            return self.take_only()
        entries = self.entries
        at = 3 * self.head
        message = (entries[at], entries[at + 1], entries[at + 2])
        entries[at] = None
        entries[at + 2] = None
        self.head = (self.head + 1) & (self.room - 1)
        self.count -= 1
        return message

    def pop_newest(self) -> tuple[object, object, object]:
        """Remove the newest message and return it as (data, tag, sender). For `Overflow.CONFLATE`."""
        if self.room == 1:
            return self.take_only()
        entries = self.entries
        at = 3 * ((self.head + self.count - 1) & (self.room - 1))
        message = (entries[at], entries[at + 1], entries[at + 2])
        entries[at] = None
        entries[at + 2] = None
        self.count -= 1
        return message

    def take_only(self) -> tuple[object, object, object]:
        """Remove the one message of a ring without a list and return it as (data, tag, sender)."""
        message = (self.data, self.tag, self.sender)
        self.data = None
        self.tag = None
        self.sender = None
        self.count = 0
        return message

    def push_front(self, data: object, tag: object, sender: object) -> None:
        """Insert a message before the oldest one: it comes back from a stash."""
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
        """Return whether the ring holds a message of this sender."""
        if self.room == 1:
            return self.count > 0 and self.sender is sender
        at = 0
        while at < self.count:
            if self.entries[3 * ((self.head + at) & (self.room - 1)) + 2] is sender:
                return True
            at += 1
        return False

    def pull(self, sender: object) -> tuple[object, object, object] | None:
        """Remove the first message of this sender and return it as (data, tag, sender); None if there is none."""
        found: tuple[object, object, object] | None = None
        left = self.count
        while left > 0:
            message = self.shift()
            if found is None and message[2] is sender:
                found = message
            else:
                push(self, message[0], message[1], message[2])
            left -= 1
        return found

    def grow(self) -> None:
        """At least double the room.

        Allocating a list may start a garbage collection, and a finalizer may then send to this ring. In that case the ring has grown already
        and there is nothing to do; callers check the room again.
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
        if self.room >= SHRINK_ROOM and len(SPARE) > 0:
            spare = take_spare()
            if len(spare) > len(self.entries):
                move(self, spare)
                return
        widen(self)

    def shrink(self) -> None:
        """Give back the memory of a past burst. The ring must be empty; a small ring keeps its list."""
        if self.room > SHRINK_ROOM:
            entries = self.entries
            self.entries = NO_ENTRIES
            self.room = 1
            self.head = 0
            # After the ring is consistent again: releasing a tag may run a finalizer that sends to this ring.
            if len(entries) <= 3 * SPARE_ROOM:
                forget_tags(entries)
                SPARE[:] = [entries]


if not cython.compiled:

    def push(ring: Ring, data: object, tag: object, sender: object) -> Count:
        """Append a message and return the new count."""
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
        # Last: overwriting the old tag may run a finalizer that sends to this ring.
        entries[at + 1] = tag
        return ring.count

    def pop(ring: Ring, ctx: ActorContext) -> object:
        """Remove the oldest message: return its data, and set the tag and sender of `ctx`. The ring must not be empty."""
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
        # Last: releasing the old tag or sender of the turn may run a finalizer that sends to this ring.
        ctx.tag = tag
        ctx.sender = sender
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
        """Replace the list of a full ring by a longer one, and put the oldest message first."""
        room, cut = ring.room, 3 * ring.head
        spare[: len(ring.entries)] = ring.entries[cut:] + ring.entries[:cut]
        if ring.room == room:
            ring.entries = spare
            ring.head = 0
            ring.room = len(spare) // 3

    def forget_tags(entries: list[object]) -> None:
        """Release the tags in the list of an empty ring; its data and senders are released already."""
        entries[1::3] = [None] * (len(entries) // 3)


def new_ring() -> Ring:
    """Make a ring without calling `__init__`, which would be a Python call: the first message of each lane makes a ring."""
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
    """Return the spare list; an empty one if another thread has taken it."""
    try:
        return SPARE.pop()
    except IndexError:
        return []


class Lanes:
    """The four bounded lanes of a mailbox, with strict priority. They accept or reject; the caller applies the overflow policy."""

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
        "reserve",
        "surplus",
        "system",
        "unreserved",
        "urgent",
    )

    def __init__(self, cap: Count, reserve: Count) -> None:
        self.set_cap(cap, reserve)

    def set_cap(self, cap: Count, reserve: Count) -> None:
        """Make this an empty mailbox of `cap` slots, `reserve` of them for system messages only."""
        self.cap: Count = cap
        self.reserve: Count = reserve
        # How many messages each user lane may hold now. Stored, not computed, so that a send compares two numbers.
        self.limit: Count = cap - reserve
        # True once user messages are rejected; what waits is still handled.
        self.closing = False
        # System messages that wait in slots of the cap.
        self.unreserved: Count = 0
        # Slots promised to messages from other threads that have not arrived yet.
        self.coming_data: Count = 0
        self.coming_management: Count = 0
        self.coming_control: Count = 0
        # Messages from other threads without a promised slot: the overflow policy decides about them on the loop's thread.
        self.surplus: Count = 0
        # How many messages wait in the three lanes above DATA.
        self.urgent: Count = 0
        self.data: Ring | None = None
        self.management: Ring | None = None
        self.control: Ring | None = None
        self.system: Ring | None = None

    def offer(self, lane: LaneNumber, data: object, tag: object, sender: object) -> bool:
        """Enqueue a user message; return False if its lane is full."""
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
        """Promise a slot of a user lane to a message from another thread; return False if the lane is full.

        Compiled, this is a few C statements that hold the GIL, and so it is atomic.
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
        """Return how many slots of a user lane are promised to messages from other threads."""
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
        """Enqueue a stashed user message before all others of its lane. Always succeeds: the stash has its own limit."""
        ring = self.lane(lane)
        ring.push_front(data, tag, sender)
        if lane != DATA:
            self.urgent += 1

    def take_out(self, lane: LaneNumber, sender: object) -> tuple[object, object, object] | None:
        """Remove the message of one sender from a user lane and return it; None if it is not there."""
        ring = self.lane(lane)
        message = ring.pull(sender)
        if message is not None and lane != DATA:
            self.urgent -= 1
        return message

    def offer_system(self, data: object, tag: object, sender: object) -> bool:
        """Enqueue a system message in any free slot of the cap; return False if there is none."""
        if self.unreserved + self.fullest() >= self.cap:
            return False
        ring = self.lane(SYSTEM)
        push(ring, data, tag, sender)
        self.urgent += 1
        self.unreserved += 1
        self.update_limit()
        return True

    def offer_reserved(self, data: object, tag: object, sender: object) -> None:
        """Enqueue a system message in a slot of its own, outside the cap. Always succeeds."""
        ring = self.lane(SYSTEM)
        push(ring, data, tag, sender)
        self.urgent += 1

    def take_urgent(self, ctx: ActorContext) -> object:
        """Remove the next message of the lanes above DATA, by priority. Only call it while `urgent` is above 0.

        The kernel takes DATA messages from the ring itself: that is the hottest line of all.
        """
        self.urgent -= 1
        ring = self.system
        if ring is not None and ring.count > 0:
            ctx.lane_number = SYSTEM
            data = pop(ring, ctx)
            self.took_system(ctx.tag)
            return data
        ring = self.control
        if ring is not None and ring.count > 0:
            ctx.lane_number = CONTROL
            return pop(ring, ctx)
        ring = self.management
        assert ring is not None
        ctx.lane_number = MANAGEMENT
        return pop(ring, ctx)

    def took_system(self, tag: TagNumber) -> None:
        """Update the counts after a system message has left, if it was in a slot of the cap."""
        if tag < LAST_RESERVED:
            self.unreserved -= 1
            self.update_limit()

    def take_messages_of(self, other: Lanes) -> None:
        """Take over the user messages of a mailbox that is not used any more, in their order. This mailbox must be empty."""
        self.data, other.data = other.data, None
        self.management, other.management = other.management, None
        self.control, other.control = other.control, None
        self.urgent, other.urgent = other.urgent, 0

    def append_messages_of(self, other: Lanes) -> None:
        """Put the user messages of a mailbox that is not used any more behind those of this one, in their order. Always succeeds."""
        lane = CONTROL
        while lane <= DATA:
            source = other.ring(lane)
            if source is not None and source.count > 0:
                ring = self.lane(lane)
                if lane != DATA:
                    self.urgent += source.count
                while source.count > 0:
                    message = source.shift()
                    ring.push(message[0], message[1], message[2])
            lane += 1
        other.urgent = 0

    def lane(self, lane: LaneNumber) -> Ring:
        """Return the ring of one lane; make it if this is its first message."""
        ring = self.ring(lane)
        if ring is None:
            made = new_ring()
            # Allocating may start a garbage collection, and a finalizer may then send to this lane.
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
        """Return the ring of one lane; None before its first message."""
        if lane == DATA:
            return self.data
        if lane == CONTROL:
            return self.control
        if lane == MANAGEMENT:
            return self.management
        return self.system

    def depth(self, lane: LaneNumber) -> Count:
        """Return how many messages wait in one lane."""
        ring = self.ring(lane)
        return 0 if ring is None else ring.count

    def has_room(self, lane: LaneNumber) -> bool:
        """Return whether a user lane would accept a message."""
        return self.depth(lane) + self.coming(lane) < self.limit

    @cython.nonecheck(False)
    def waiting(self) -> Count:
        """Return how many messages wait in all lanes."""
        ring = self.data
        return self.urgent if ring is None else self.urgent + ring.count

    def fullest(self) -> Count:
        """Return how many messages wait in the fullest user lane, but not more than a user lane may hold.

        A lane may hold more after stashed messages were put back; those do not take slots from the system.
        """
        most = self.depth(DATA)
        most = max(most, self.depth(CONTROL))
        most = max(most, self.depth(MANAGEMENT))
        return min(most, self.cap - self.reserve)

    def update_limit(self) -> None:
        """Compute `limit` anew: slots that system messages take beyond their reserve are not available to users."""
        self.limit = 0 if self.closing else self.cap - max(self.reserve, self.unreserved)

    def close(self) -> None:
        """Reject user messages from now on. Waiting messages stay, and promised slots stay promised."""
        self.closing = True
        self.limit = 0

    def is_expecting(self) -> bool:
        """Return whether slots are promised to messages from other threads."""
        return self.coming_data + self.coming_management + self.coming_control > 0


class CoroutineDriver(Protocol):
    """Steps the coroutine of a cell, as far as the cell needs to know it."""

    def cancel(self) -> None:
        """Cancel the coroutine, as a task is cancelled."""
        ...


class ChildGroup(Protocol):
    """The children of an actor, as far as the kernel needs to know them. Supervisors and parent actors implement it."""

    def take_all(self, children: list[ActorId], /) -> None:
        """Append the children that end with their supervisor, in order. The kernel ends them, the last one first."""
        ...

    def kill_cause(self) -> BaseException | None:
        """Return the cause with which a child is killed that does not end at once; None if its coroutine may take its time."""
        ...

    def keep(self, actor: ActorId, mailbox: ActorCell, /) -> None:
        """Take the unread messages of a child that has exited: for its next incarnation, or as dead letters."""
        ...

    def members(self) -> Sequence[ChildSummary]:
        """Return the children in order, including those that are not running, for the tree."""
        ...


# A ready cell refers to the next one, and a child to its supervisor. Without the trashcan, deallocating a loop with many cells would recurse
# as deeply. Cells that refer to each other need none: the garbage collector breaks them up one by one.
@cython.trashcan(True)
@cython.cclass
class ActorCell(Lanes):
    """The internal state of one actor. Only the kernel uses it.

    An actor is a cell, not a task. An idle actor is this object and its id, a few hundred bytes; a message costs a push, a pop and a call.
    """

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
        "failed_message",
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
        "ctx",
        "watch",
        "watchers",
        "watching",
    )

    def __init__(self) -> None:
        self.set_cap(0, 0)
        self.kernel: Kernel | None = None
        self.actor: ActorId | None = None
        self.behavior: Callable[..., Any] | None = None
        self.state: object = None
        # Actors are numbered in the order of their spawns; a stopping loop ends them in reverse order.
        self.serial: ReasonNumber = 0
        # How many messages it handles per visit; 0 for the loop's default.
        self.budget: ReasonNumber = 0
        # UNTIMED, QUICK or SLOW, from the last time the clock was read after one of its messages.
        self.speed: ReasonNumber = UNTIMED
        self.name: str | None = None
        # The context that the behavior is called with.
        self.ctx: ActorContext | None = None
        # The context variables that its coroutines start from.
        self.context: Context | None = None
        # The message whose coroutine is suspended.
        self.message: object = None
        # Tag and data of the message that it has failed with, from then until its exit.
        self.failed_message: tuple[object, object] | None = None
        # Stashed messages in order, each with its lane and its stash; None for nearly all actors.
        self.stashed: list[tuple[int, object, object, object, StashCounter]] | None = None
        # Steps the suspended coroutine; None while there is none.
        self.driver: CoroutineDriver | None = None
        self.supervisor: ActorCell | None = None
        # In the run queue or being visited, so that a send need not queue it.
        self.queued = False
        self.next_ready: ActorCell | None = None
        self.status: StatusNumber = INIT
        # The exit reason that takes effect when its behavior returns.
        self.reason: ReasonNumber = 0
        self.cause: BaseException | None = None
        # None means `Overflow.REJECT`.
        self.overflow: Overflow | None = None
        self.timers: Timer | None = None
        # Due timers that found a full lane, one queue per lane; None for nearly all actors.
        self.overdue: list[TimerQueue | None] | None = None
        # How many descriptors are watched for it.
        self.fds: ReasonNumber = 0
        # The descriptor whose event is being handled; it is armed again afterwards.
        self.watch: object = None
        # The children that end with it; None for an actor without children.
        self.children: ChildGroup | None = None
        # Called with the reason and the cause when it exits, unless it is killed.
        self.exit_hook: Callable[[ExitReason, BaseException | None], object] | None = None
        # Something other than a supervisor observes its exit, so the log need not report it.
        self.exit_observed = False
        # Which of its unread messages the supervisor's next child of that name gets: see KEEPS_NOTHING and others in `actors`.
        self.keeps_mailbox: Count = 0
        # The actors it is linked with. If it traps exits, it gets messages about them and does not exit with them.
        self.links: dict[ActorCell, None] | None = None
        self.traps = False
        # The monitors on this actor, and those it holds on others. Dicts as ordered sets; None for nearly all actors.
        self.watchers: dict[Monitor, None] | None = None
        self.watching: dict[Monitor, None] | None = None

    def add_timer(self, timer: Timer) -> None:
        """Link a timer that targets this actor: it is released when the actor exits."""
        first = self.timers
        timer.cell = self
        timer.previous_of_cell = None
        timer.next_of_cell = first
        if first is not None:
            first.previous_of_cell = timer
        self.timers = timer

    def remove_timer(self, timer: Timer) -> None:
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
    """The ready cells, first in, first out.

    They are linked through `next_ready`, so queueing an actor allocates nothing. A cell is in the queue at most once.
    """

    __slots__ = ("count", "first", "last")

    def __init__(self) -> None:
        self.first: ActorCell | None = None
        self.last: ActorCell | None = None
        self.count: Count = 0

    @cython.nonecheck(False)
    def push(self, cell: ActorCell) -> None:
        """Append a cell, unless it is in the queue: one visit handles all its messages."""
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
        """Remove and return the cell that has waited longest. The queue must not be empty."""
        cell = self.first
        assert cell is not None
        self.first = cell.next_ready
        if self.first is None:
            self.last = None
        cell.next_ready = None
        self.count -= 1
        return cell

    def pick(self, position: Count) -> ActorCell:
        """Remove and return the cell at a position; 0 is the one that has waited longest. For shuffled orders; O(n)."""
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
