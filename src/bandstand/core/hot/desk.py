"""What the storeys above ask of the kernel: how things stand, ticks outside their time, and the comings and goings of descriptors.

Nothing here is called for every message.
"""

# tick_inside and pop come from one of two places, of which the checker sees one.
# pyright: reportPossiblyUnboundVariable=false
# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Callable
from contextvars import Context
from typing import TYPE_CHECKING, TypeAlias

from bandstand.core.enums import (
    DATA,
    FAIL_REASON,
    MAX_INLINE_TICKS,
    MILLISECOND,
    NEVER,
    NORMAL,
    PANIC,
    SystemTag,
    Verdict,
)
from bandstand.core.hot.flights import Flights

try:
    import cython
except ModuleNotFoundError:  # interpreted, where Cython is not installed
    from bandstand.core import _cython as cython  # type: ignore[no-redef]  # one of the two

if not cython.compiled:
    # Compiled, it is written into this module.
    from bandstand.core.mailbox import pop

if TYPE_CHECKING:
    from bandstand.core.context import ActorContext
    from bandstand.core.delivery import DeliveryCallback
    from bandstand.core.ids import ActorId
    from bandstand.core.mailbox import ActorCell, Ring
    from bandstand.core.timer_wheel import Timer

IO = SystemTag.IO
ELEMENT = SystemTag.ELEMENT
OK_VERDICT = Verdict.OK

Count: TypeAlias = int
Nanoseconds: TypeAlias = int


class Desk(Flights):
    """The kernel, for those who drive it."""

    __slots__ = ("_inline_left", "_inline_since", "_is_inline")

    def __init__(
        self,
        loop_tag: Count,
        max_actors: Count,
        reserve: Count,
        max_msgs_per_actor: Count,
        max_actors_per_tick: Count,
        max_tick: Nanoseconds,
        now: Callable[[], int],
    ) -> None:
        super().__init__(
            loop_tag, max_actors, reserve, max_msgs_per_actor, max_actors_per_tick, max_tick, now
        )
        # While whoever waits for an answer outside a tick runs one, and how often that may be until the host calls again.
        self._is_inline = False
        self._inline_left: Count = 0
        self._inline_since: Nanoseconds = 0

    def _tick_inline(self) -> bool:
        """Run a tick for somebody who waits outside of one; False if that cannot be, or not now.

        Through the host, an answer costs whoever awaits it a future and two turns of the event loop, several
        microseconds. Here it costs a call. It is bounded, in number and in time, from one call of the host to the next:
        I/O and other people's tasks must have their turn. Ticks never nest, and this one runs in the context of the loop,
        not of the caller.
        """
        if (
            not self._may_inline
            or self._ticking
            or self._current is not None
            or self._telling > 0
            or self._closed
        ):
            return False
        if self._inline_left <= 0 or self._queue.count == 0:
            return False
        if self._inline_left == MAX_INLINE_TICKS:
            self._inline_since = self._elapsed()
        elif self._elapsed() - self._inline_since >= self._max_tick:
            self._inline_left = 0
            return False
        self._inline_left -= 1
        self._ticking = True
        self._is_inline = True
        was_awake, self._awake = self._awake, True
        try:
            tick_inside(self, self._home_context)
        except BaseException as error:  # noqa: BLE001  # whatever it is, the loop cannot go on
            self._forget_current()
            self._break(error)
        finally:
            self._ticking = False
            self._is_inline = False
            if not was_awake:
                # Whatever is left to do, or to wait for, is the host's again.
                self._awake = False
                self._stir()
        return True

    def _break(self, error: BaseException) -> None:
        """End the loop: the runtime itself has failed. The loop above overrides it."""

    def _has_ready(self) -> bool:
        """Whether an actor could run now, or something waits that the last tick had no time for."""
        return self._queue.count > 0 or self._wheel.due.first is not None or len(self._inbox) > 0

    def _is_quiet(self) -> bool:
        """Whether nothing waits for any actor, and no coroutine is in flight."""
        return (
            self._accepted == self._handled + self._dead + self._dropped + self._aside
            and self._in_flight == 0
            and len(self._inbox) == 0
        )

    def _is_idle(self) -> bool:
        """Whether nothing is ready, no timer is pending, no behavior in flight and no descriptor watched."""
        return (
            not self._has_ready()
            and self._pending_timers() == 0
            and self._in_flight == 0
            and self._watched_fds == 0
        )

    def _wake_in(self) -> Nanoseconds:
        """Nanoseconds until the wheel must be turned next, 0 if now, -1 if never. Notes that the host is armed for it."""
        soonest = self._wheel.soonest
        self._armed = soonest
        if soonest == NEVER:
            return -1
        return max(0, soonest * MILLISECOND - self._elapsed())

    def _end_all(self) -> None:
        """End every living actor, the youngest first, and a supervisor's children in the reverse of their order.

        Supervisors and monitors, ending as well, are not told.
        """
        self._ending = True
        for cell in self._table.living():
            if cell.supervisor is None or cell.supervisor.children is None:
                self._end(cell, NORMAL, None)
        # Whoever the supervisors have left.
        for cell in self._table.living():
            self._end(cell, NORMAL, None)
        # No tick comes any more: what other threads have sent is dead, and what was to be called is called.
        self._drain()
        self._bequeath_calls()
        while self._queue.count > 0:
            self._queue.pop()

    def _books(self) -> dict[str, int]:
        """The counters, by the names of `Statistics`."""
        return {
            "sent": self._accepted + self._refused,
            "handled": self._handled,
            "refused": self._refused,
            "dead": self._dead,
            "dropped": self._dropped,
            "waiting": self._accepted - self._handled - self._dead - self._dropped,
            "alive": self._table.alive,
            "spawned": self._spawned,
            "ended_normal": self._stopped[NORMAL],
            "ended_fail": self._stopped[FAIL_REASON],
            "ended_panic": self._stopped[PANIC],
            "ready": self._queue.count,
            "in_flight": self._in_flight,
            "fds": self._watched_fds,
            "timers_set": self._timers_set,
            "timers_fired": self._timers_fired,
            "timers_cancelled": self._timers_cancelled,
            "timers_released": self._timers_released,
            "timers_pending": self._pending_timers(),
            "ticks": self._ticks,
        }

    def _ahead(self, cell: ActorCell, turn: ActorContext) -> Ring | None:
        """The lane of the message at hand, if the next one in it has the very same tag; else None."""
        ring = cell.lane(turn.lane_number)
        return ring if ring.next_is(turn.tag) else None

    def _take_ahead(self, cell: ActorCell, turn: ActorContext, ring: Ring) -> object:
        """Take the next message of the lane at hand into the present turn: its data; its sender is the turn's now."""
        data = pop(ring, turn)
        if turn.lane_number != DATA:
            cell.urgent -= 1
        self._handled += 1
        if cell.overdue is not None:
            self._land_overdue(cell)
        return data

    def _take_alike(
        self, cell: ActorCell, turn: ActorContext, items: list[object], most: Count, strange: type
    ) -> Count:
        """Take into a list what waits right behind the message at hand and is quite like it, until the list has so many; how many.

        That is: of the same tag, with nobody who waits for it, and with data of any other type than `strange`.
        """
        if cell.overdue is not None:
            # For each that leaves a timer's message comes in.
            return 0
        taken = cell.lane(turn.lane_number).take_alike(items, most, turn.tag, strange)
        if turn.lane_number != DATA:
            cell.urgent -= taken
        self._handled += taken
        return taken

    def _begin_watch(self, owner: object) -> ActorId:
        """Note that an actor watches one descriptor more; its id."""
        cell = self._reach(owner)
        if cell is None:
            raise self._missing(owner)
        cell.fds += 1
        self._watched_fds += 1
        assert cell.actor is not None
        return cell.actor

    def _actor_of(self, cell: ActorCell) -> ActorId:
        """The id of a cell, for those who do not look into cells."""
        assert cell.actor is not None
        return cell.actor

    def _end_watch(self, actor: ActorId) -> None:
        """Note that an actor, if it lives, watches one descriptor less."""
        cell = actor.cell
        if cell is not None:
            cell.fds -= 1
        self._look()

    def _send_io(self, actor: ActorId, event: object, watch: object) -> None:
        """Put an I/O event into the slot that its descriptor has in its owner's mailbox."""
        cell = actor.cell
        if cell is None:
            return
        cell.offer_reserved(event, IO, watch)
        self._accepted += 1
        if not cell.queued:
            self._ready(cell)

    def _bequeath_calls(self) -> None:
        """The loop has ended, and its wheel turns no more: whoever has a call pending there is told."""
        for timer in self._wheel.remaining():
            # Looked at anew each time: an heir may take others back.
            heir = timer.waiter
            if timer.cell is None and heir is not None:
                self._cancel_call(timer)
                heir.lost(None, None, NORMAL, None)

    def _is_stranded(self) -> bool:
        """Whether the event loop was closed under us, and nobody runs an actor any more. The loop above overrides it."""
        return False

    def _prod(self, actor: ActorId) -> None:
        """Have an actor look at the channel it consumes, if it lives: in a slot of its own, whatever fills its mailbox."""
        cell = actor.cell
        if cell is None:
            return
        cell.offer_reserved(None, ELEMENT, 0)
        self._accepted += 1
        if not cell.queued:
            self._ready(cell)

    def _is_current(self, actor: ActorId) -> bool:
        """Whether an actor is the one whose turn it is at this moment, or in whose turn another is being started."""
        cell = actor.cell
        return cell is not None and self._is_running_now(cell)

    def _mourn(self, actor: ActorId, mourner: DeliveryCallback) -> Timer | None:
        """Have somebody told of an actor's end; at once, if it has ended. What `_stop_mourning` takes; None if there is nothing to."""
        cell = actor.cell
        if cell is None:
            mourner.lost(actor, None, actor.reason, None)
            return None
        return self._await_end(cell, mourner)

    def _stop_mourning(self, timer: Timer) -> None:
        """Have him not told any more, if he has not been."""
        self._stop_waiting(timer)

    def _at_hand(self) -> tuple[Count, ActorId | None, str | None, object]:
        """For the watchdog, from its own thread: how many messages there have been, whose is being handled, and which."""
        cell = self._current
        if cell is None:
            return (self._messages, None, None, None)
        return (self._messages, cell.actor, cell.name, self._message)

    def _tag_of(self, actor: ActorId) -> object:
        """For the watchdog, from its own thread: the tag of the message that an actor is at; 0 if there is none."""
        cell = actor.cell
        turn = None if cell is None else cell.turn
        return 0 if turn is None else turn.tag

    def _is_at_rest(self, target: ActorId) -> bool:
        """Whether an actor has nothing to do: no message waits for it or is on its way, and none is at hand. Or it has ended."""
        actor = self._own_id(target)
        cell = actor.cell
        return cell is None or (
            cell.waiting() == 0
            and cell.driver is None
            and cell.surplus == 0
            and not cell.is_expecting()
            and not self._is_running_now(cell)
        )


if not cython.compiled:
    # Compiled, this is C, in the .pxd.
    def tick_inside(desk: Desk, context: Context) -> None:
        """Run a tick inside a context."""
        context.run(desk._tick)
