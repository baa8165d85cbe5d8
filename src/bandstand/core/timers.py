"""Timers: messages that arrive later, and calls the runtime makes later, on one timer wheel.

A timer belongs to its target actor: the target's cell links it, and it is released when the actor exits. A timer outlives
its sender, but not its target. A timer that was set is delivered exactly once, or cancelled and never delivered. A due
message that meets a full lane waits in a queue of its cell, in order, outside the wheel, and is delivered when the actor
has made room. It drops and displaces no other message, whatever the overflow policy, and waiting causes no wakeups.

A timer never fires early: a delay is rounded up to the wheel's next millisecond after the call, and the wheel is turned
only to the last full millisecond that the clock has reached.

Two more things use a timer without a deadline, because they need the same queue and the same release at the actor's exit:
a message that waits for room (`wait_for_room`), and a callback for an actor's exit (`watch_exit`).
"""

# monotonic_now comes from the .pxd when compiled; the checker sees one of two definitions.
# pyright: reportPossiblyUnboundVariable=false

from __future__ import annotations

from collections.abc import Callable
from time import monotonic_ns
from typing import TYPE_CHECKING, TypeAlias

from bandstand.core.enums import FAR, GONE, MILLISECOND, NEVER, NORMAL, OVERDUE, SYSTEM
from bandstand.core.timer_wheel import Timer, TimerQueue, TimerWheel
from bandstand.errors import InvalidArgumentError

try:
    import cython
except ModuleNotFoundError:  # interpreted, where Cython is not installed
    from bandstand.core import _cython as cython  # type: ignore[no-redef]  # one of the two

if not cython.compiled:
    # Compiled, a C function of the .pxd reads the same clock.
    monotonic_now = monotonic_ns

if TYPE_CHECKING:
    from bandstand.core.delivery import DeliveryCallback
    from bandstand.core.kernel import Kernel
    from bandstand.core.mailbox import ActorCell

Count: TypeAlias = int
LaneNumber: TypeAlias = int
Nanoseconds: TypeAlias = int
Ticks: TypeAlias = int

# `fire_due` reads the clock after this many messages, and after every callback.
CLOCK_INTERVAL: Count = 256


class Timers:
    """The clock, the timer wheel and the timers of one loop.

    `armed_for` is the wheel time for which the host was asked to wake the loop. While the loop sleeps it is never later
    than the next deadline.
    """

    __slots__ = (
        "_epoch",
        "_is_real_clock",
        "_kernel",
        "_now",
        "armed_for",
        "cancelled",
        "fired",
        "released",
        "started",
        "wheel",
    )

    def __init__(self, kernel: Kernel, now: Callable[[], int]) -> None:
        self._kernel = kernel
        self._now = now
        # Reading the machine's clock through Python would be a third of the cost of a timer.
        self._is_real_clock = now is monotonic_ns
        self._epoch: Nanoseconds = monotonic_now() if self._is_real_clock else now()
        self.wheel = TimerWheel(0)
        self.armed_for: Ticks = NEVER
        self.started: Count = 0
        self.fired: Count = 0
        self.cancelled: Count = 0
        # Timers whose target exited first.
        self.released: Count = 0

    # -- the clock --------------------------------------------------------------------------------------------------

    @cython.nonecheck(False)
    def elapsed(self) -> Nanoseconds:
        """Return the nanoseconds since the loop was made."""
        if self._is_real_clock:
            return monotonic_now() - self._epoch
        return self._now() - self._epoch

    def elapsed_ms(self) -> float:
        """Return the milliseconds since the loop was made."""
        # The float divisor keeps C from dividing integers.
        return self.elapsed() / 1e6

    def deadline_after(self, ms: Ticks) -> Ticks:
        """Return the first full millisecond of wheel time that is at least `ms` milliseconds from now."""
        elapsed = self.elapsed()
        deadline = elapsed // MILLISECOND if ms == 0 else ms + (elapsed + MILLISECOND - 1) // MILLISECOND
        if deadline >= FAR:
            raise InvalidArgumentError(f"ms is {ms}: a loop can count 139 years, and that is beyond them")
        return deadline

    def next_wakeup(self) -> Nanoseconds:
        """Return the nanoseconds until the wheel must be turned, 0 for now, -1 for never. Notes that the host is armed."""
        soonest = self.wheel.soonest
        self.armed_for = soonest
        if soonest == NEVER:
            return -1
        return max(0, soonest * MILLISECOND - self.elapsed())

    # -- messages that arrive later ---------------------------------------------------------------------------------

    def start(
        self, cell: ActorCell, ms: Ticks, lane: LaneNumber, data: object, tag: object, sender: object
    ) -> Timer:
        """Send a message in `ms` milliseconds. The arguments were checked."""
        return self.start_at(cell, self.deadline_after(ms), lane, data, tag, sender)

    def start_at(
        self, cell: ActorCell, deadline: Ticks, lane: LaneNumber, data: object, tag: object, sender: object
    ) -> Timer:
        """Send a message at a moment of wheel time. The arguments were checked."""
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
        self._schedule(timer, deadline)
        self.started += 1
        return timer

    def cancel(self, timer: object) -> bool:
        """Cancel a pending timer of this loop; return False if it is anything else."""
        if type(timer) is not Timer:
            return False
        known = timer
        if known.place == GONE:
            return False
        cell = known.cell
        if cell is None or cell.kernel is not self._kernel:
            return False
        self._withdraw(cell, known)
        self.cancelled += 1
        return True

    def pending(self) -> Count:
        """Return how many timers are in the wheel, or due and waiting for room."""
        return self.started - self.fired - self.cancelled - self.released

    def release_all(self, cell: ActorCell) -> None:
        """Release every timer of an actor that has exited."""
        while True:
            # Take the first one each time: a callback may cancel others.
            timer = cell.timers
            if timer is None:
                break
            waiter, timer.waiter = timer.waiter, None
            self._withdraw(cell, timer)
            if waiter is None:
                self.released += 1
            else:
                waiter.lost(cell.actor, cell.name, cell.reason, cell.cause)
        cell.overdue = None

    # -- calls of the runtime ---------------------------------------------------------------------------------------

    def call_after(
        self, ms: Ticks, callback: Callable[[], object], on_loop_exit: DeliveryCallback | None = None
    ) -> Timer:
        """Call the runtime's own `callback` in `ms` milliseconds. No statistics count it.

        If the loop ends first, `on_loop_exit.lost` is called instead.
        """
        deadline = self.deadline_after(ms)
        timer = Timer.__new__(Timer)
        timer.data = callback
        timer.tag = 0
        timer.sender = 0
        timer.lane = SYSTEM
        timer.place = GONE
        timer.before = None
        timer.after = None
        timer.waiter = on_loop_exit
        timer.cell = None
        timer.previous_of_cell = None
        timer.next_of_cell = None
        self._schedule(timer, deadline)
        return timer

    def cancel_call(self, timer: Timer) -> None:
        """Cancel a `call_after` if it is still pending."""
        if timer.place != GONE:
            self.wheel.cancel(timer)
        timer.data = None
        timer.waiter = None

    def end_calls(self) -> None:
        """The loop has ended and turns its wheel no more: run the `on_loop_exit` callbacks of pending calls."""
        for timer in self.wheel.remaining():
            # Look again each time: a callback may cancel others.
            callback = timer.waiter
            if timer.cell is None and callback is not None:
                self.cancel_call(timer)
                callback.lost(None, None, NORMAL, None)

    # -- timers without a deadline ----------------------------------------------------------------------------------

    def wait_for_room(
        self,
        cell: ActorCell,
        lane: LaneNumber,
        data: object,
        tag: object,
        sender: object,
        waiter: DeliveryCallback,
    ) -> Timer:
        """Queue a message for a full lane, in line with due timers; `waiter.accepted` is called when it is in."""
        timer = Timer()
        timer.lane = lane
        timer.data = data
        timer.tag = tag
        timer.sender = sender
        timer.waiter = waiter
        cell.add_timer(timer)
        self._queue_overdue(cell, timer)
        return timer

    def watch_exit(self, cell: ActorCell, callback: DeliveryCallback) -> Timer:
        """Have `callback.lost` called when an actor exits."""
        timer = Timer()
        timer.waiter = callback
        cell.add_timer(timer)
        return timer

    def stop_waiting(self, timer: Timer) -> bool:
        """Withdraw a `wait_for_room` or `watch_exit`; return False if the message is in or the actor has exited."""
        cell = timer.cell
        if cell is None:
            return False
        timer.waiter = None
        self._withdraw(cell, timer)
        return True

    # -- firing -----------------------------------------------------------------------------------------------------

    def fire_due(self, elapsed: Nanoseconds, until: Nanoseconds) -> bool:
        """Deliver due timers until there are none or the time is `until`; return True if some are left."""
        wheel = self.wheel
        wheel.expire(elapsed // MILLISECOND)
        count = 0
        while True:
            timer = wheel.take()
            if timer is None:
                return False
            # A callback may take any time; enqueueing a message takes next to none.
            count += CLOCK_INTERVAL if timer.cell is None else 1
            self._fire(timer)
            if count >= CLOCK_INTERVAL:
                count = 0
                if self.elapsed() >= until:
                    return wheel.soonest <= wheel.time

    def deliver_overdue(self, cell: ActorCell) -> None:
        """Deliver messages that wait for room in a mailbox that has some again."""
        queues = cell.overdue
        assert queues is not None
        left = 0
        for queue in queues:
            if queue is None:
                continue
            timer = queue.first
            while timer is not None:
                following = timer.after
                if not self._deliver(cell, timer):
                    left += 1
                    break
                queue.remove(timer)
                timer.place = GONE
                timer = following
        if left == 0:
            cell.overdue = None

    def _fire(self, timer: Timer) -> None:
        """Run a due call, or deliver a due message, or queue it if its lane is full."""
        cell = timer.cell
        if cell is None:
            callback, timer.data = timer.data, None
            timer.waiter = None
            self._kernel.call_hook(callback, ())  # type: ignore[arg-type]  # `call_after` was given a callable
            return
        lane = timer.lane
        queues = cell.overdue
        if queues is not None:
            queue = queues[lane]
            if queue is not None and queue.first is not None:
                # Other messages wait for this lane already: this one does not overtake them.
                timer.place = OVERDUE
                queue.append(timer)
                return
        if not self._deliver(cell, timer):
            self._queue_overdue(cell, timer)

    @cython.nonecheck(False)
    def _deliver(self, cell: ActorCell, timer: Timer) -> bool:
        """Enqueue a timer's message; return False if its lane is full."""
        if timer.lane == SYSTEM:
            is_in = cell.offer_system(timer.data, timer.tag, timer.sender)
        else:
            is_in = cell.offer(timer.lane, timer.data, timer.tag, timer.sender)
        if not is_in:
            return False
        cell.remove_timer(timer)
        timer.data = None
        kernel = self._kernel
        kernel.counters.accepted += 1
        waiter = timer.waiter
        if waiter is None:
            self.fired += 1
        else:
            timer.waiter = None
            waiter.accepted()
        if not cell.queued:
            kernel.make_ready(cell)
        return True

    def _queue_overdue(self, cell: ActorCell, timer: Timer) -> None:
        """Queue a message behind the others that wait for room in its lane."""
        queues = cell.overdue
        if queues is None:
            queues = cell.overdue = [None, None, None, None]
        queue = queues[timer.lane]
        if queue is None:
            queue = queues[timer.lane] = TimerQueue()
        timer.place = OVERDUE
        queue.append(timer)

    @cython.nonecheck(False)
    def _schedule(self, timer: Timer, deadline: Ticks) -> None:
        """Put a timer into the wheel, and have a sleeping host wake up early enough."""
        self.wheel.schedule(timer, deadline)
        if not self._kernel.is_awake and deadline < self.armed_for:
            self._kernel.rearm_host()

    @cython.nonecheck(False)
    def _withdraw(self, cell: ActorCell, timer: Timer) -> None:
        """Take a pending timer out of the wheel or its queue, and out of its cell."""
        if timer.place == OVERDUE:
            assert cell.overdue is not None
            queue = cell.overdue[timer.lane]
            assert queue is not None
            queue.remove(timer)
            timer.place = GONE
        elif timer.place != GONE:
            self.wheel.cancel(timer)
        cell.remove_timer(timer)
        timer.data = None
