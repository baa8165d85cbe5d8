"""Messages from other threads: `send_async`, and the inbox through which they come in.

The verdict falls in the calling thread. A slot of the target's lane is promised there and then, so what was accepted
has its room; the message itself waits in the inbox until the next tick puts it into the mailbox. A burst wakes the loop
once: the first message arms the inbox, and the tick disarms it *before* it empties it, so a message that came too late
to be seen finds the inbox disarmed and wakes the loop again.

Compiled, promising a slot is a few C statements under the interpreter's lock and needs no lock of ours. Interpreted,
another thread may come in between any two bytecodes, so a lock is held; the loop's own sends do not take it, and may
fill the last slot a moment before a promise is seen. A lane may then exceed its cap by one message for each thread that
is sending at that instant.
"""

from __future__ import annotations

from _thread import allocate_lock
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from bandstand.core.hot.timers import Timers
from bandstand.core.numbers import STOPPED
from bandstand.core.vocabulary import Lane
from bandstand.errors import BandstandError

try:
    import cython
except ModuleNotFoundError:  # interpreted, where Cython is not installed
    from bandstand.core import interpreted as cython  # type: ignore[no-redef]  # one of the two

if TYPE_CHECKING:
    from bandstand.core.hot.cell import Cell
    from bandstand.core.hot.ids import ActorId

Count: TypeAlias = int
LaneNumber: TypeAlias = int
Arrival: TypeAlias = "tuple[Cell, int, bool, object, object, object]"


class Arrivals(Timers):
    """The inbox of a loop."""

    __slots__ = ("_armed_inbox", "_down", "_inbox", "_lock")

    def __init__(self, loop_tag: Count, max_actors: Count, reserve: Count, now: Callable[[], int]) -> None:
        super().__init__(loop_tag, max_actors, reserve, now)
        self._inbox: deque[Arrival] = deque()
        # Whether the loop knows, or has been told, that the inbox is not empty.
        self._armed_inbox = False
        # Set once every actor has ended: what comes in now can only be a dead letter.
        self._down = False
        self._lock = allocate_lock()

    def _wake_from_afar(self) -> None:
        """Wake the host from whatever thread this is. The loop above overrides it."""

    def send_async(
        self,
        target: ActorId | int,
        data: object,
        *,
        tag: int = 0,
        lane: Lane = Lane.DATA,
        sender: ActorId | int = 0,
    ) -> None:
        """Send as `send` does, from any thread.

        What is accepted has its slot: it is delivered, or becomes a dead letter when the target or the loop ends first.
        Messages of one thread are delivered in the order of its calls. Wakes the loop once a burst.

        Raises:
            MailboxFull, NoSuchActor, ActorNotLocal, LoopClosed: at once, in the calling thread.
            InvalidArgument: `tag` or `lane` is the system's, or `target` is no id.
        """
        cell = self._find(target)
        if cell is None:
            raise self._refused_afar(target)
        number = self._checked(tag, lane)
        promised = self._promise(cell, number)
        if not promised:
            if cell.overflow is None:
                raise self._full_afar(cell, number)
            if not self._add_surplus(cell):
                return
        self._inbox.append((cell, number, promised, data, tag, sender))
        if not self._armed_inbox:
            self._armed_inbox = True
            self._wake_from_afar()
        if self._down:
            # The loop ended between the look and the append: nobody but us will empty the inbox.
            self._drain()

    def _promise(self, cell: Cell, lane: LaneNumber) -> bool:
        if not cython.compiled:
            with self._lock:
                return cell.promise(lane)
        return cell.promise(lane)  # type: ignore[unreachable]  # for the checkers the source is never compiled

    def _add_surplus(self, cell: Cell) -> bool:
        """Let a message without a promise into the inbox; False if a whole mailbox of them waits there already.

        Then this one is given up here: a loop that does not come to empty its inbox must not fill the memory.
        """
        with self._lock:
            if cell.surplus < cell.cap:
                cell.surplus += 1
                return True
            self._accepted += 1
            self._dropped += 1
            return False

    def _refused_afar(self, target: object) -> BandstandError:
        with self._lock:
            return self._unreachable(target)

    def _full_afar(self, cell: Cell, lane: LaneNumber) -> BandstandError:
        with self._lock:
            self._refused += 1
        return self._full(cell, lane)

    def _drain(self) -> None:
        """Put what has come in into the mailboxes: as many as are there now, so that a flood cannot hold the tick."""
        self._armed_inbox = False
        inbox = self._inbox
        left = len(inbox)
        while left > 0:
            left -= 1
            try:
                arrival = inbox.popleft()
            except IndexError:
                # Two threads are emptying the inbox of a loop that has ended.
                return
            self._arrive(arrival)

    def _arrive(self, arrival: Arrival) -> None:
        """Let one message in: into the mailbox, or to the dead letters if its actor has ended."""
        cell, lane, promised, data, tag, sender = arrival
        if cell.status >= STOPPED:
            self._accepted += 1
            self._bury_one(cell, lane, data, tag, sender)
        elif promised:
            self._accepted += 1
            cell.arrive(lane, data, tag, sender)
            if not cell.queued:
                self._ready(cell)
        else:
            # Its lane was full and its policy is to give something up: that is decided now, here.
            with self._lock:
                cell.surplus -= 1
            self._enqueue(cell, lane, data, tag, sender)
