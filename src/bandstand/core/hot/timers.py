"""Messages that come later: `send_after` and `cancel_timer` over the wheel.

A timer belongs to its target: it is linked from the target's cell and goes with it. Once set, it is delivered exactly
once or cancelled and never delivered. A timer that is due while its lane has no room stays due: it waits in a queue of
its cell, in order, outside the wheel, and is delivered when the actor has made room. It never drops and never
displaces a message, whatever the mailbox's overflow policy, and waiting costs no wake-ups.

Never early: a delay is rounded up to the wheel's next millisecond after the moment of the call, and the wheel is turned
only to the last full millisecond the clock has reached.
"""

# monotonic_now comes from one of two places, of which the checker sees one.
# pyright: reportPossiblyUnboundVariable=false

from __future__ import annotations

from collections.abc import Callable
from math import ceil, isfinite
from time import monotonic_ns
from typing import TypeAlias

from bandstand.core.delivery import DeliveryCallback
from bandstand.core.enums import DATA, FAR, GONE, MILLISECOND, NEVER, OVERDUE, SYSTEM, Lane
from bandstand.core.hot.links import Links
from bandstand.core.ids import ActorId
from bandstand.core.mailbox import ActorCell
from bandstand.core.timer_wheel import Timer, TimerQueue, TimerWheel
from bandstand.errors import InvalidArgument, NoMemory, TimerInvalid
from bandstand.errors.formatting import safe_repr

try:
    import cython
except ModuleNotFoundError:  # interpreted, where Cython is not installed
    from bandstand.core import _cython as cython  # type: ignore[no-redef]  # one of the two

if not cython.compiled:
    # Compiled, this is a C function of the .pxd that reads the very same clock.
    monotonic_now = monotonic_ns

Count: TypeAlias = int
LaneNumber: TypeAlias = int
Nanoseconds: TypeAlias = int
Ticks: TypeAlias = int

# A hundred years. The wheel reaches 139, counted from the loop's creation.
LONGEST: Ticks = 100 * 366 * 24 * 3600 * 1000
# The clock is read when so many messages of due timers have been enqueued.
LOOK_AFTER: Count = 256
DATA_LANE = Lane.DATA
ZERO = 0
LAST_USER_TAG = (1 << 32) - 1


class Timers(Links):
    """The wheel of a loop, and the timers it carries."""

    __slots__ = (
        "_armed",
        "_epoch",
        "_is_real",
        "_now",
        "_timers_cancelled",
        "_timers_fired",
        "_timers_released",
        "_timers_set",
        "_wheel",
    )

    def __init__(self, loop_tag: Count, max_actors: Count, reserve: Count, now: Callable[[], int]) -> None:
        super().__init__(loop_tag, max_actors, reserve)
        self._now = now
        # The machine's own clock need not be asked through Python: that is a third of the cost of setting a timer.
        self._is_real = now is monotonic_ns
        self._epoch: Nanoseconds = monotonic_now() if self._is_real else now()
        self._wheel = TimerWheel(0)
        # For when the host has been asked to wake us, in wheel time; never later than the next deadline while asleep.
        self._armed: Ticks = NEVER
        self._timers_set: Count = 0
        self._timers_fired: Count = 0
        self._timers_cancelled: Count = 0
        self._timers_released: Count = 0

    def _rearm(self) -> None:
        """Ask the host to wake the loop for `_wheel.soonest`. The loop above overrides it."""

    @cython.nonecheck(False)
    def _elapsed(self) -> Nanoseconds:
        """Nanoseconds since the loop was made."""
        if self._is_real:
            return monotonic_now() - self._epoch
        return self._now() - self._epoch

    def send_after(
        self,
        target: ActorId | int,
        ms: float,
        data: object,
        *,
        tag: int = 0,
        lane: Lane = Lane.DATA,
        sender: ActorId | int = 0,
    ) -> Timer:
        """Send `data` to `target` in `ms` milliseconds, never earlier.

        The message is delivered exactly once, unless the timer is cancelled or the target ends first. Fractions of a
        millisecond round up; 0 means a later tick, never inside this call. Equal deadlines are delivered in the order
        of these calls. A due message that meets a full lane waits until there is room.

        Returns:
            The timer, to be given to `cancel_timer`.

        Raises:
            InvalidArgument: `ms` is negative, not a number, or more than a hundred years; `tag` or `lane` is the system's;
                `sender` is neither an id nor an int.
            NoSuchActor, ActorNotLocal: the target is not there.
            NoMemory: there is no memory for the timer.
            LoopClosed: the loop was asked to stop.
            WrongThread: called off the loop's thread.
        """
        return self._set_timer(target, ms, data, tag, lane, sender)

    def cancel_timer(self, timer: Timer) -> None:
        """Take a timer back: its message will not be delivered.

        Raises:
            TimerInvalid: it has fired, was cancelled, went with its target, or is another loop's.
            WrongThread: called off the loop's thread.
        """
        self._check_thread()
        if not self._cancel(timer):
            raise TimerInvalid(
                "the timer has fired, was cancelled, went with its actor, or belongs to another loop"
            )
        self._look()

    def _set_timer(
        self, target: object, ms: object, data: object, tag: object, lane: object, sender: object
    ) -> Timer:
        self._check_sender(sender)
        lane_number = self._checked(tag, lane)
        whole = self._checked_delay(ms)
        cell = self._reach(target)
        if cell is None:
            raise self._unreachable(target)
        try:
            return self._start_timer(cell, whole, lane_number, data, tag, sender)
        except MemoryError as error:
            raise NoMemory("there is no memory for one more timer") from error

    def _checked(self, tag: object, lane: object) -> LaneNumber:
        """Check a user's tag and lane; the lane's number."""
        if tag is not ZERO and (not isinstance(tag, int) or tag < 0 or tag > LAST_USER_TAG):
            raise InvalidArgument(f"tag is {safe_repr(tag)}: a user's tag is an int from 0 to 2**32 - 1")
        if lane is DATA_LANE:
            return DATA
        if not isinstance(lane, Lane):
            raise InvalidArgument(
                f"lane is {safe_repr(lane)}: pass Lane.CONTROL, Lane.MANAGEMENT or Lane.DATA"
            )
        if lane is Lane.SYSTEM:
            raise InvalidArgument("lane is Lane.SYSTEM: that lane is the runtime's own")
        return lane.value

    def _check_sender(self, sender: object) -> None:
        """Check a user's sender. Nothing else may stand there: a reply would be ended with the message."""
        if sender is not ZERO and not isinstance(sender, (ActorId, int)):
            raise InvalidArgument(
                f"sender is {safe_repr(sender)}: pass the id of an actor, or an int; 0 for nobody"
            )

    def _checked_delay(self, ms: object) -> Ticks:
        """A user's delay in whole milliseconds, rounded up."""
        if type(ms) is int:
            whole = ms
        elif isinstance(ms, (int, float)) and isfinite(ms):
            whole = ceil(ms)
        else:
            raise InvalidArgument(f"ms is {safe_repr(ms)}: pass a finite number of milliseconds")
        if ms < 0 or whole > LONGEST:
            raise InvalidArgument(
                f"ms is {safe_repr(ms)}: a delay is from 0 to a hundred years ({LONGEST} ms)"
            )
        return whole

    def _start_timer(
        self, cell: ActorCell, ms: Ticks, lane: LaneNumber, data: object, tag: object, sender: object
    ) -> Timer:
        """Set a timer of checked arguments."""
        return self._start_timer_at(cell, self._deadline(ms), lane, data, tag, sender)

    def _start_timer_at(
        self, cell: ActorCell, deadline: Ticks, lane: LaneNumber, data: object, tag: object, sender: object
    ) -> Timer:
        """Set a timer for a moment of wheel time."""
        timer = Timer.__new__(Timer)
        timer.data = data
        timer.tag = tag
        timer.sender = sender
        timer.lane = lane
        timer.place = GONE
        timer.before = None
        timer.after = None
        timer.waiter = None
        cell.add_timer(timer)
        self._wheel.schedule(timer, deadline)
        self._timers_set += 1
        if not self._awake and deadline < self._armed:
            self._rearm()
        return timer

    def _deadline(self, ms: Ticks) -> Ticks:
        """The first full millisecond of wheel time that is not before `ms` milliseconds from now."""
        elapsed = self._elapsed()
        deadline = elapsed // MILLISECOND if ms == 0 else ms + (elapsed + MILLISECOND - 1) // MILLISECOND
        if deadline >= FAR:
            raise InvalidArgument(f"ms is {ms}: that is beyond the 139 years a loop can reckon with")
        return deadline

    def _call_after(
        self, ms: Ticks, callback: Callable[[], object], heir: DeliveryCallback | None = None
    ) -> Timer:
        """Have the runtime's own `callback` called in `ms` milliseconds. No actor's timer, and in no statistics.

        If the loop ends before, `heir` is told: `lost`.
        """
        deadline = self._deadline(ms)
        timer = Timer.__new__(Timer)
        timer.data = callback
        timer.tag = 0
        timer.sender = 0
        timer.lane = SYSTEM
        timer.place = GONE
        timer.before = None
        timer.after = None
        timer.waiter = heir
        timer.cell = None
        timer.previous_of_cell = None
        timer.next_of_cell = None
        self._wheel.schedule(timer, deadline)
        if not self._awake and deadline < self._armed:
            self._rearm()
        return timer

    def _cancel_call(self, timer: Timer) -> None:
        """Take back a `_call_after` that is still pending."""
        if timer.place != GONE:
            self._wheel.cancel(timer)
        timer.data = None
        timer.waiter = None

    def _cancel(self, timer: object) -> bool:
        """Cancel a pending timer of this loop; False if it is not that."""
        if type(timer) is not Timer:
            return False
        known = timer
        if known.place == GONE:
            return False
        cell = known.cell
        if cell is None or cell.kernel is not self:
            return False
        self._withdraw(cell, known)
        self._timers_cancelled += 1
        return True

    def _withdraw(self, cell: ActorCell, timer: Timer) -> None:
        """Take a pending timer out of the wheel, or out of its cell's queue, and out of its cell."""
        if timer.place == OVERDUE:
            assert cell.overdue is not None
            queue = cell.overdue[timer.lane]
            assert queue is not None
            queue.remove(timer)
            timer.place = GONE
        elif timer.place != GONE:
            self._wheel.cancel(timer)
        cell.remove_timer(timer)
        timer.data = None

    def _release_timers(self, cell: ActorCell) -> None:
        """Release every timer of an actor that has ended."""
        while True:
            # The first one each time: whoever is told of the end may take others back.
            timer = cell.timers
            if timer is None:
                break
            waiter, timer.waiter = timer.waiter, None
            self._withdraw(cell, timer)
            if waiter is None:
                self._timers_released += 1
            else:
                waiter.lost(cell.actor, cell.name, cell.reason, cell.cause)
        cell.overdue = None

    def _pending_timers(self) -> Count:
        """Timers in the wheel, or due and waiting for room."""
        return self._timers_set - self._timers_fired - self._timers_cancelled - self._timers_released

    def _fire(self, elapsed: Nanoseconds, until: Nanoseconds) -> bool:
        """Turn due timers into messages until there are none or it is `until`; True if some are left."""
        wheel = self._wheel
        wheel.expire(elapsed // MILLISECOND)
        count = 0
        while True:
            timer = wheel.take()
            if timer is None:
                return False
            # A callback may take any time; to enqueue a message takes next to none.
            count += LOOK_AFTER if timer.cell is None else 1
            self._deliver(timer)
            if count >= LOOK_AFTER:
                count = 0
                if self._elapsed() >= until:
                    return wheel.soonest <= wheel.time

    def _deliver(self, timer: Timer) -> None:
        """Hand a due timer's message to its target, or have it wait for room."""
        cell = timer.cell
        if cell is None:
            callback, timer.data = timer.data, None
            timer.waiter = None
            self._tell(callback, ())  # type: ignore[arg-type]  # _call_after has seen to it
            return
        lane = timer.lane
        queues = cell.overdue
        if queues is not None:
            queue = queues[lane]
            if queue is not None and queue.first is not None:
                # Others wait for this lane already: nobody overtakes.
                timer.place = OVERDUE
                queue.append(timer)
                return
        if not self._land(cell, timer):
            self._hold(cell, timer)

    def _hold(self, cell: ActorCell, timer: Timer) -> None:
        """Put a message that met a full lane behind the others that wait for room there."""
        queues = cell.overdue
        if queues is None:
            queues = cell.overdue = [None, None, None, None]
        queue = queues[timer.lane]
        if queue is None:
            queue = queues[timer.lane] = TimerQueue()
        timer.place = OVERDUE
        queue.append(timer)

    def _wait_for_room(
        self,
        cell: ActorCell,
        lane: LaneNumber,
        data: object,
        tag: object,
        sender: object,
        waiter: DeliveryCallback,
    ) -> Timer:
        """Have a message of a full lane wait for room, in line with due timers; `waiter` is told when it has it.

        It is what a due timer does that meets a full lane, so it is one: without a deadline, and in no statistics.
        """
        timer = Timer()
        timer.lane = lane
        timer.data = data
        timer.tag = tag
        timer.sender = sender
        timer.waiter = waiter
        cell.add_timer(timer)
        self._hold(cell, timer)
        return timer

    def _await_end(self, cell: ActorCell, waiter: DeliveryCallback) -> Timer:
        """Have `waiter` told of an actor's end: a timer that never fires, and goes when its actor goes."""
        timer = Timer()
        timer.waiter = waiter
        cell.add_timer(timer)
        return timer

    def _stop_waiting(self, timer: Timer) -> bool:
        """Take back a message that waits for room; False if it has it, or its actor has ended."""
        cell = timer.cell
        if cell is None:
            return False
        timer.waiter = None
        self._withdraw(cell, timer)
        return True

    def _land(self, cell: ActorCell, timer: Timer) -> bool:
        """Enqueue a due timer's message; False if its lane is full."""
        if timer.lane == SYSTEM:
            landed = cell.offer_system(timer.data, timer.tag, timer.sender)
        else:
            landed = cell.offer(timer.lane, timer.data, timer.tag, timer.sender)
        if not landed:
            return False
        cell.remove_timer(timer)
        timer.data = None
        self._accepted += 1
        waiter = timer.waiter
        if waiter is None:
            self._timers_fired += 1
        else:
            timer.waiter = None
            waiter.accepted()
        if not cell.queued:
            self._ready(cell)
        return True

    def _land_overdue(self, cell: ActorCell) -> None:
        """Deliver what waits for room, now that the actor has made some."""
        queues = cell.overdue
        assert queues is not None
        left = 0
        for queue in queues:
            if queue is None:
                continue
            timer = queue.first
            while timer is not None:
                following = timer.after
                if not self._land(cell, timer):
                    left += 1
                    break
                queue.remove(timer)
                timer.place = GONE
                timer = following
        if left == 0:
            cell.overdue = None
