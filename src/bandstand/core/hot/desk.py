"""What the storeys above ask of the kernel: how things stand, and the comings and goings of coroutines and descriptors.

The top of what is compiled. Nothing here is called for every message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from bandstand.core.hot.births import Births
from bandstand.core.hot.kernel import FINAL
from bandstand.core.numbers import FAIL_REASON, INIT, MILLISECOND, NEVER, NORMAL, PANIC, STOPPED, STOPPING
from bandstand.core.vocabulary import SystemTag, Verdict

if TYPE_CHECKING:
    from bandstand.core.hot.cell import Cell, Driver
    from bandstand.core.hot.ids import ActorId

IO = SystemTag.IO
OK_VERDICT = Verdict.OK

Count: TypeAlias = int
Nanoseconds: TypeAlias = int


class Desk(Births):
    """The kernel, for those who drive it."""

    __slots__ = ()

    def _has_ready(self) -> bool:
        """Whether an actor could run now, or something waits that the last tick had no time for."""
        return self._queue.count > 0 or self._wheel.due.first is not None or len(self._inbox) > 0

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
            if cell.supervisor is None or cell.supervisor.family is None:
                self._end(cell, NORMAL, None)
        # Whoever the supervisors have left.
        for cell in self._table.living():
            self._end(cell, NORMAL, None)
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

    def _suspend(self, cell: Cell, driver: Driver) -> None:
        """Note that a cell's coroutine has suspended, and who drives it."""
        cell.driver = driver
        cell.message = self._message
        self._in_flight += 1

    def _unsuspend(self, cell: Cell) -> None:
        """Take that back: it will be driven by another, or by nobody."""
        cell.driver = None
        self._in_flight -= 1

    def _begin_step(self, cell: Cell) -> None:
        """A driver steps the cell's coroutine: until it ends, the actor is the one that is running."""
        self._current = cell
        if self._watching:
            self._message = cell.message
            self._messages += 1

    def _end_step(self) -> None:
        """The step has ended."""
        self._current = None
        if self._watching:
            self._message = None

    def _has_ended(self, cell: Cell) -> bool:
        """Whether an actor has ended, though its coroutine may not have."""
        return cell.status >= STOPPED

    def _is_stepping(self) -> bool:
        """Whether a behavior is being called or a coroutine stepped at this moment."""
        return self._current is not None

    def _resume(self, cell: Cell, verdict: object, error: BaseException | None, was_cancelled: bool) -> None:
        """Take a cell back whose coroutine has ended: with a verdict, or with an error that may be a cancellation."""
        cell.driver = None
        cell.message = None
        self._in_flight -= 1
        if isinstance(error, (KeyboardInterrupt, SystemExit)):
            self._leave(error)
        if cell.status >= STOPPED:
            # It was killed, or the loop could not wait any longer and has ended the actor without it.
            return
        if error is None:
            if cell.status == INIT:
                self._born(cell, verdict)
            elif verdict is not None and verdict is not OK_VERDICT:
                self._judge(cell, verdict, FINAL)
        elif isinstance(error, (KeyboardInterrupt, SystemExit)):
            pass
        elif cell.status < STOPPING:
            self._panic(cell, error)
        elif not was_cancelled:
            self._complain(f"the behavior of {self._called(cell)} raised while it was being stopped", error)
        self._settle(cell)

    def _abandon(self) -> list[str]:
        """End the actors whose coroutine has not ended in time, without it; what they are called."""
        names: list[str] = []
        for cell in self._table.living():
            if cell.driver is not None:
                names.append(self._called(cell))
                self._exit(cell, cell.reason, cell.cause)
        return names

    def _begin_watch(self, owner: object) -> ActorId:
        """Note that an actor watches one descriptor more; its id."""
        cell = self._reach(owner)
        if cell is None:
            raise self._missing(owner)
        cell.fds += 1
        self._watched_fds += 1
        assert cell.actor is not None
        return cell.actor

    def _actor_of(self, cell: Cell) -> ActorId:
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

    def _at_hand(self) -> tuple[Count, ActorId | None, str | None, object]:
        """For the watchdog, from its own thread: how many messages there have been, whose is being handled, and which."""
        cell = self._current
        if cell is None:
            return (self._messages, None, None, None)
        return (self._messages, cell.actor, cell.name, self._message)
