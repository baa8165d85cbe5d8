"""The inbox: messages and calls from other threads.

The sender learns the outcome in its own thread. It reserves a slot of the target's lane there and then, so an accepted
message has its room; the message waits in the inbox until the next tick moves it into the mailbox. A burst wakes the loop
once: the first message arms the inbox. The tick disarms it *before* it empties it, so a message that comes too late to be
seen finds the inbox disarmed and wakes the loop again. Urgent entries (calls, and messages above the DATA lane) also
interrupt the running visit, and the inbox is emptied before the next one.

A message is a few neighbouring entries of one list, not an object: a mark (its lane and flags), its cell, its data, and
its tag and sender if it has any. A plain DATA message has no mark: it is its cell and its data. What a flood writes here
leaves the processor's caches, so every entry left out counts.

Compiled, reserving a slot and appending is one run of C code under the interpreter lock, so it is atomic and needs no lock
of its own. Interpreted, another thread may run between any two bytecodes, so a lock is held. The loop's own sends do not
take it and may fill the last slot at that moment: then a lane exceeds its cap by at most one message for each sending thread.
"""

# PyThread_get_thread_ident comes from the .pxd when compiled; the checker sees one of two definitions.
# pyright: reportPossiblyUnboundVariable=false

from __future__ import annotations

from _thread import RLock
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from bandstand.core.delivery import DeliveryCallback
from bandstand.core.enums import DATA, STOPPED, STOPPING, Overflow
from bandstand.core.ids import ActorId
from bandstand.core.mailbox import ActorCell
from bandstand.errors import BandstandError, NoSuchActorError
from bandstand.errors.formatting import safe_repr

try:
    import cython
except ModuleNotFoundError:  # interpreted, where Cython is not installed
    from bandstand.core import _cython as cython  # type: ignore[no-redef]  # one of the two

if not cython.compiled:
    # Compiled, this is C's function, declared in the .pxd.
    from threading import get_ident as PyThread_get_thread_ident

if TYPE_CHECKING:
    from bandstand.core.kernel import Kernel

Count: TypeAlias = int
LaneNumber: TypeAlias = int

# Flags in a mark: the message has no reserved slot; it has a tag or a sender.
UNRESERVED = 8
ADDRESSED = 16
# The mark of a call.
CALL = 32
ZERO = 0
CONFLATE = Overflow.CONFLATE
DROP_NEWEST = Overflow.DROP_NEWEST


class Inbox:
    """What other threads have sent to one loop and no tick has moved yet."""

    __slots__ = ("_dropped_callbacks", "_entries", "_kernel", "_lock", "is_armed")

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._entries: list[Any] = []
        # True if the loop knows, or was woken to find out, that the inbox has entries.
        self.is_armed = False
        # Delivery callbacks of dropped messages; they run once the lock is released.
        self._dropped_callbacks: list[tuple[DeliveryCallback, ActorId | None, str | None]] = []
        # Reentrant: a signal handler or a finalizer may send while its own thread is sending.
        self._lock = RLock()

    def is_empty(self) -> bool:
        """Return True if there is nothing to move."""
        return len(self._entries) == 0

    # -- from any thread --------------------------------------------------------------------------------------------

    def post_plain(self, target: object, data: object) -> bool:
        """Take a DATA message without tag and sender if nothing stands in the way; return False if something might.

        It makes the checks of `post` in one function. What does not pass goes through `post`, which raises the error.
        Interpreted, everything does: the lock must be held anyway.
        """
        if not cython.compiled:
            return False
        if type(target) is not ActorId:  # type: ignore[unreachable]  # to the checkers
            return False
        actor = target
        cell = actor.cell
        kernel = self._kernel
        if (
            cell is None
            or cell.status >= STOPPING
            or actor.home is not kernel
            or kernel.is_closed
            or kernel.is_internal_only
        ):
            return False
        ring = cell.data
        if ring is None or ring.count + cell.coming_data >= cell.limit:
            return False
        cell.coming_data += 1
        entries = self._entries
        entries.append(cell)
        entries.append(data)
        self._wake()
        return True

    def post(self, target: object, lane: LaneNumber, data: object, tag: object, sender: object) -> None:
        """Send a message with a checked lane and tag.

        Raises:
            MailboxFullError, NoSuchActorError, ActorNotLocalError, LoopClosedError: the message was not accepted.
            InvalidArgumentError: `target` is no id.
        """
        kernel = self._kernel
        cell = kernel.find(target)
        if cell is None or kernel.is_internal_only:
            raise self._unreachable_error(target)
        if not cython.compiled:
            with self._lock:
                is_in = self._append(cell, lane, data, tag, sender)
        else:
            is_in = self._append(cell, lane, data, tag, sender)  # type: ignore[unreachable]  # to the checkers
        if len(self._dropped_callbacks) > 0:
            self._run_dropped_callbacks()
        if not is_in:
            with self._lock:
                kernel.counters.refused += 1
            raise kernel.full_error(cell, lane)
        if lane != DATA:
            self._interrupt()
        self._wake()

    def call_soon(self, function: Callable[[], object]) -> None:
        """Call a function on the loop's thread before the next message; from that thread itself, at the next tick.

        What it raises is logged. If the loop has ended, it is called here and now.
        """
        if not cython.compiled:
            with self._lock:
                self._append_call(function)
        else:
            self._append_call(function)  # type: ignore[unreachable]  # to the checkers
        self._interrupt()
        self._wake()

    def count(self) -> Count:
        """Return how many messages wait here. From any thread, for a loop whose own thread is stuck."""
        entries = list(self._entries)
        count = 0
        at = 0
        while at < len(entries):
            mark = entries[at]
            if type(mark) is ActorCell:
                count += 1
                at += 2
            elif mark == CALL:
                at += 3
            else:
                count += 1
                at += 5 if mark & ADDRESSED else 3
        return count

    def _append_call(self, function: Callable[[], object]) -> None:
        entries = self._entries
        entries.append(CALL)
        entries.append(None)
        entries.append(function)

    def _append(self, cell: ActorCell, lane: LaneNumber, data: object, tag: object, sender: object) -> bool:
        """Reserve a slot and append a message; return False if the lane is full and the policy is to reject."""
        mark = lane
        if not cell.promise(lane):
            if cell.overflow is None or cell.closing:
                return False
            if cell.surplus >= 2 * cell.cap:
                self._drop_surplus(cell)
            cell.surplus += 1
            mark = lane | UNRESERVED
        entries = self._entries
        if tag is ZERO and sender is ZERO:
            if mark != DATA:
                entries.append(mark)
            entries.append(cell)
            entries.append(data)
            return True
        entries.append(mark | ADDRESSED)
        entries.append(cell)
        entries.append(data)
        entries.append(tag)
        entries.append(sender)
        return True

    def _drop_surplus(self, cell: ActorCell) -> None:
        """Drop messages without a slot, of one actor, by its overflow policy: the inbox must not fill the memory.

        As many as the mailbox holds are kept, under CONFLATE none. What is dropped is held until the end, so that no
        finalizer runs, and no other thread with it, while entries are being moved.
        """
        policy = cell.overflow
        to_drop = cell.surplus if policy is CONFLATE else cell.surplus - cell.cap
        drops_newest = policy is DROP_NEWEST
        to_keep = cell.surplus - to_drop
        entries = self._entries
        counters = self._kernel.counters
        held: list[Any] = []
        callbacks: list[DeliveryCallback] = []
        read = 0
        write = 0
        while read < len(entries):
            if type(entries[read]) is ActorCell:
                # A plain message with a slot; it has no mark.
                mark = 0
                size = 2
            else:
                mark = entries[read]
                size = 5 if mark & ADDRESSED else 3
            if mark & UNRESERVED and entries[read + 1] is cell:
                is_dropped = to_keep <= 0 if drops_newest else to_drop > 0
                to_keep -= 1
                to_drop -= 1
                if is_dropped:
                    held.append(entries[read + 2])
                    if size == 5:
                        held.append(entries[read + 4])
                        if isinstance(entries[read + 4], DeliveryCallback):
                            callbacks.append(entries[read + 4])
                    counters.accepted += 1
                    counters.dropped += 1
                    cell.surplus -= 1
                    read += size
                    continue
            if write == read:
                read += size
                write += size
                continue
            size += read
            while read < size:
                entries[write] = entries[read]
                read += 1
                write += 1
        del entries[write:]
        for callback in callbacks:
            self._dropped_callbacks.append((callback, cell.actor, cell.name))

    def _run_dropped_callbacks(self) -> None:
        with self._lock:
            dropped, self._dropped_callbacks = self._dropped_callbacks, []
        for callback, actor, name in dropped:
            callback.dropped(actor, name)

    def _unreachable_error(self, target: object) -> BandstandError:
        """Count a refused send, and return the error for it."""
        kernel = self._kernel
        with self._lock:
            error = kernel.refused_send_error(target)
        if kernel.is_internal_only and not kernel.is_closed:
            return NoSuchActorError(
                f"{safe_repr(target)} accepts no message from outside any more: its loop only finishes what it has"
            )
        return error

    def _interrupt(self) -> None:
        """End the running visit for something urgent. What the loop's own thread appends waits for the next tick."""
        if PyThread_get_thread_ident() != self._kernel.owner:
            self._kernel.is_interrupted = True

    def _wake(self) -> None:
        """Have the loop look at its inbox."""
        if not self.is_armed:
            self.is_armed = True
            self._kernel.runner.wake_threadsafe()
        if self._kernel.is_down:
            # The loop ended between the check and the append: no tick will empty the inbox.
            self.drain()

    # -- on the loop's own thread -----------------------------------------------------------------------------------

    def drain(self) -> None:
        """Move what is here now into the mailboxes. What comes meanwhile waits, so that a flood cannot hold the tick."""
        kernel = self._kernel
        self.is_armed = False
        kernel.is_interrupted = False
        if kernel.is_halted:
            # In this order: another thread may be halting the loop right now.
            kernel.is_interrupted = True
        fresh: list[Any] = []
        if not cython.compiled:
            with self._lock:
                batch, self._entries = self._entries, fresh
        else:
            batch, self._entries = self._entries, fresh  # type: ignore[unreachable]  # to the checkers
        at = 0
        end = len(batch)
        while at < end:
            if type(batch[at]) is ActorCell:
                self._deliver_plain(batch[at], batch[at + 1])
                at += 2
                continue
            mark = batch[at]
            if mark == CALL:
                kernel.call_hook(batch[at + 2], ())
                at += 3
            elif mark & ADDRESSED:
                self._deliver(batch[at + 1], mark ^ ADDRESSED, batch[at + 2], batch[at + 3], batch[at + 4])
                at += 5
            else:
                self._deliver(batch[at + 1], mark, batch[at + 2], ZERO, ZERO)
                at += 3

    def _deliver_plain(self, cell: ActorCell, data: object) -> None:
        """Deliver a message that has its slot, and neither a tag nor a sender."""
        kernel = self._kernel
        kernel.counters.accepted += 1
        if cell.status >= STOPPED:
            kernel.dead_letter(cell, DATA, data, ZERO, ZERO)
            return
        cell.coming_data -= 1
        ring = cell.data
        if ring is None:
            ring = cell.lane(DATA)
        ring.push(data, ZERO, ZERO)
        if not cell.queued:
            kernel.make_ready(cell)

    def _deliver(self, cell: ActorCell, mark: LaneNumber, data: object, tag: object, sender: object) -> None:
        """Deliver a message to its mailbox, or to the dead letters if its actor has exited."""
        kernel = self._kernel
        lane = mark & DATA
        if cell.status >= STOPPED:
            kernel.counters.accepted += 1
            kernel.dead_letter(cell, lane, data, tag, sender)
        elif mark == lane:
            kernel.counters.accepted += 1
            cell.arrive(lane, data, tag, sender)
            if not cell.queued:
                kernel.make_ready(cell)
        else:
            # Its lane was full: the overflow policy decides now, on the loop's thread.
            with self._lock:
                cell.surplus -= 1
            if cell.closing:
                # It was accepted, but its actor has closed its mailbox since.
                kernel.counters.accepted += 1
                kernel.dead_letter(cell, lane, data, tag, sender)
            else:
                kernel.enqueue(cell, lane, data, tag, sender)
