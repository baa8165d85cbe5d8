"""A hierarchical timing wheel: all deadlines of a loop, with O(1) to set and O(1) to cancel.

The problem. A runtime sets far more deadlines than ever expire (every ask has one). So setting and cancelling must cost the same with ten
pending timers as with a million, and a cancelled timer must leave nothing behind: at a million asks per second, five seconds of
cancelled entries would be five million objects.

The choice. Seven levels of 64 slots, 1 ms at the lowest level, 2^42 ms (139 years) in all. A slot is a ring of timers linked through the
timers themselves, so cancelling is unlinking. The level of a timer is that of the highest group of six bits in which its deadline differs
from the wheel's time. So its slot depends only on (time, deadline): two timers with the same deadline always share a slot, whenever they
were set. Slots are appended to and cascaded in order, so timers with equal deadlines expire in the order in which they were set. All timers of
a lower level expire before all of a higher one, and a word of occupancy bits per level finds the next slot without a search.

Refused: a heap (O(log n), and cancelled entries linger), a sorted list (O(n)), a dict of lists by deadline (it has no next deadline). The
cost: a timer far in the future moves at most six times before it expires.

The wheel only knows milliseconds. Its caller knows the clock, and what a timer means.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from bandstand.core.enums import DUE, GONE, LEVELS, NEVER

try:
    import cython
except ModuleNotFoundError:  # interpreted, where Cython is not installed
    from bandstand.core import _cython as cython  # type: ignore[no-redef]  # one of the two

if TYPE_CHECKING:
    from bandstand.core.delivery import DeliveryCallback
    from bandstand.core.mailbox import ActorCell

Ticks: TypeAlias = int
Place: TypeAlias = int
Word: TypeAlias = int

# A typed constant: in C, 1 << 63 would overflow an int.
ONE: Word = 1


def lowest_bit(word: Word) -> Place:
    """Return the position of the lowest set bit of a non-zero 64-bit word, by halving: the same code in C and in Python."""
    position = 0
    if word & 0xFFFFFFFF == 0:
        word >>= 32
        position += 32
    if word & 0xFFFF == 0:
        word >>= 16
        position += 16
    if word & 0xFF == 0:
        word >>= 8
        position += 8
    if word & 0xF == 0:
        word >>= 4
        position += 4
    if word & 0x3 == 0:
        word >>= 2
        position += 2
    if word & 0x1 == 0:
        position += 1
    return position


@cython.freelist(1024)
@cython.cclass
class Timer:
    """One deadline and the message it sends. Users see it as the opaque `TimerId`.

    `place` is where it is: slot (place & 63) of level (place >> 6), or one of the negative constants DUE, OVERDUE and GONE.
    """

    __slots__ = (
        "after",
        "before",
        "cell",
        "data",
        "deadline",
        "lane",
        "next_of_cell",
        "place",
        "previous_of_cell",
        "sender",
        "tag",
        "waiter",
    )

    def __init__(self) -> None:
        self.deadline: Ticks = 0
        self.place: Place = GONE
        self.before: Timer | None = None
        self.after: Timer | None = None
        self.cell: ActorCell | None = None
        self.previous_of_cell: Timer | None = None
        self.next_of_cell: Timer | None = None
        self.data: object = None
        self.tag: Any = 0
        self.sender: object = 0
        self.lane: Place = 3
        # Set for a send that waits for room in a mailbox; None for a timer.
        self.waiter: DeliveryCallback | None = None

    @property
    def pending(self) -> bool:
        """Whether the timer has neither fired nor been cancelled."""
        return self.place != GONE

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"{self!r} belongs to its loop and cannot be pickled or copied")

    def __repr__(self) -> str:
        return f"<TimerId {'pending' if self.place != GONE else 'done'} at {hex(id(self))}>"


class TimerQueue:
    """Timers that are due, or that wait for room: a list linked through `before` and `after`."""

    __slots__ = ("first", "last")

    def __init__(self) -> None:
        self.first: Timer | None = None
        self.last: Timer | None = None

    @cython.nonecheck(False)
    def append(self, timer: Timer) -> None:
        """Append a timer."""
        last = self.last
        timer.before = last
        timer.after = None
        if last is None:
            self.first = timer
        else:
            last.after = timer
        self.last = timer

    @cython.nonecheck(False)
    def remove(self, timer: Timer) -> None:
        """Unlink a timer."""
        before = timer.before
        after = timer.after
        if before is None:
            self.first = after
        else:
            before.after = after
        if after is None:
            self.last = before
        else:
            after.before = before
        timer.before = None
        timer.after = None


class WheelLevel:
    """The 64 slots of one level, and a word with a bit for each slot that holds a timer."""

    __slots__ = ("occupied", "slots")

    def __init__(self) -> None:
        self.occupied: Word = 0
        self.slots: list[Timer | None] = [None] * 64

    @cython.nonecheck(False)
    def insert(self, timer: Timer, slot: Place) -> None:
        """Add a timer as the last of its slot. A slot is a ring; its entry is the oldest timer."""
        first = self.slots[slot]
        if first is None:
            timer.before = timer
            timer.after = timer
            self.slots[slot] = timer
            self.occupied |= ONE << slot
            return
        last = first.before
        assert last is not None
        timer.before = last
        timer.after = first
        last.after = timer
        first.before = timer

    @cython.nonecheck(False)
    def remove(self, timer: Timer, slot: Place) -> None:
        """Unlink a timer from its slot."""
        after = timer.after
        before = timer.before
        assert after is not None
        assert before is not None
        if after is timer:
            self.slots[slot] = None
            self.occupied &= ~(ONE << slot)
        else:
            before.after = after
            after.before = before
            if self.slots[slot] is timer:
                self.slots[slot] = after
        timer.before = None
        timer.after = None


class TimerWheel:
    """All pending timers of one loop.

    `time` is the time up to which the wheel has advanced. `soonest` is when `expire` must be called next, `NEVER` if nothing is pending: a
    lower bound, never later than the next deadline. `pending` counts the timers that are scheduled and neither taken nor cancelled.
    """

    __slots__ = ("due", "levels", "pending", "soonest", "time")

    def __init__(self, time: Ticks) -> None:
        self.time: Ticks = time
        self.soonest: Ticks = NEVER
        self.pending: Ticks = 0
        self.due = TimerQueue()
        self.levels = [WheelLevel() for _ in range(LEVELS)]

    def schedule(self, timer: Timer, deadline: Ticks) -> None:
        """Add a timer with a deadline below 2^42. If the deadline has passed, the timer is due at once."""
        timer.deadline = deadline
        self.pending += 1
        self.soonest = min(self.soonest, deadline)
        self.place_timer(timer)

    def cancel(self, timer: Timer) -> None:
        """Remove a pending timer."""
        place = timer.place
        if place == DUE:
            self.due.remove(timer)
        else:
            level = self.levels[place >> 6]
            level.remove(timer, place & 63)
        timer.place = GONE
        self.pending -= 1
        if self.pending == 0:
            self.soonest = NEVER

    def expire(self, now: Ticks) -> None:
        """Advance to `now`, and move the timers that are due to `due`: by deadline, then in the order they were set."""
        if now > self.time:
            while True:
                place = self.next_place()
                if place < 0:
                    break
                start = self.start_of(place)
                if start > now:
                    break
                self.time = start
                self.cascade(place)
            self.time = now
        self.soonest = self.next_turn()

    def take(self) -> Timer | None:
        """Remove and return the next due timer; None if there is none."""
        timer = self.due.first
        if timer is None:
            return None
        self.due.remove(timer)
        timer.place = GONE
        self.pending -= 1
        if self.due.first is None:
            self.soonest = self.next_turn()
        return timer

    def remaining(self) -> list[Timer]:
        """Return all pending timers in no particular order. For the end of the loop."""
        found: list[Timer] = []
        timer = self.due.first
        while timer is not None:
            found.append(timer)
            timer = timer.after
        for level in self.levels:
            for first in level.slots:
                timer = first
                while timer is not None:
                    found.append(timer)
                    timer = timer.after
                    if timer is first:
                        break
        return found

    def place_timer(self, timer: Timer) -> None:
        """Put a timer into the slot of its deadline, or into `due`."""
        deadline = timer.deadline
        if deadline <= self.time:
            timer.place = DUE
            self.due.append(timer)
            return
        difference = (deadline ^ self.time) >> 6
        number = 0
        shift = 0
        while difference != 0:
            difference >>= 6
            number += 1
            shift += 6
        slot = (deadline >> shift) & 63
        timer.place = (number << 6) | slot
        level = self.levels[number]
        level.insert(timer, slot)

    def cascade(self, place: Place) -> None:
        """Empty a slot that the wheel has reached: its timers move to lower levels or become due, in order."""
        level = self.levels[place >> 6]
        slot = place & 63
        timer = level.slots[slot]
        level.slots[slot] = None
        level.occupied &= ~(ONE << slot)
        assert timer is not None
        last = timer.before
        assert last is not None
        last.after = None
        while timer is not None:
            following = timer.after
            self.place_timer(timer)
            timer = following

    def next_place(self) -> Place:
        """Return the slot that the wheel reaches next; -1 if all slots are empty."""
        number = 0
        while number < LEVELS:
            level = self.levels[number]
            if level.occupied != 0:
                return (number << 6) | lowest_bit(level.occupied)
            number += 1
        return -1

    def start_of(self, place: Place) -> Ticks:
        """Return when the wheel reaches a slot: on level 0 that is the deadline, above the begin of the slot's span."""
        shift = 6 * (place >> 6)
        return (((self.time >> (shift + 6)) << 6) | (place & 63)) << shift

    def next_turn(self) -> Ticks:
        """Return when `expire` must be called next: now if timers are due, otherwise when the wheel reaches the next slot."""
        if self.due.first is not None:
            return self.time
        place = self.next_place()
        if place < 0:
            return NEVER
        return self.start_of(place)
