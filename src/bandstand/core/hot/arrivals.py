"""Messages from other threads: `send_async`, and the inbox through which they come in.

The verdict falls in the calling thread. A slot of the target's lane is promised there and then, so what was accepted
has its room; the message itself waits in the inbox until the next tick puts it into the mailbox. A burst wakes the loop
once: the first message arms the inbox, and the tick disarms it *before* it empties it, so a message that came too late
to be seen finds the inbox disarmed and wakes the loop again. What is urgent, a call or a message above DATA, does not wait
for the next tick: it ends the visit at hand, and the inbox is emptied before the next one.

A message is a few neighbouring entries of the inbox, not an object of its own, as in a mailbox's ring: its mark (lane, and
how it came), its cell and its data, and, if it has any, its tag and sender. Most have neither, and are of the DATA lane: those are a cell and
data alone. What a flood writes here leaves the processor's caches, so entries that say nothing are worth leaving out.
Compiled, promising a slot and appending them is one run of C under the interpreter's lock: nobody comes in between, and no lock of ours is
needed. Interpreted, another thread may come in between any two bytecodes, so a lock is held; the loop's own sends do not
take it, and may fill the last slot a moment before a promise is seen. A lane may then exceed its cap by one message for
each thread that is sending at that instant.
"""

# PyThread_get_thread_ident comes from one of two places, of which the checker sees one.
# pyright: reportPossiblyUnboundVariable=false

from __future__ import annotations

from _thread import RLock
from collections.abc import Callable
from typing import Any, TypeAlias

from bandstand.core.delivery import DeliveryCallback
from bandstand.core.enums import DATA, STOPPED, STOPPING, Lane, Overflow
from bandstand.core.hot.timers import Timers
from bandstand.core.ids import ActorId
from bandstand.core.mailbox import ActorCell
from bandstand.errors import BandstandError, NoSuchActor
from bandstand.errors.formatting import safe_repr

try:
    import cython
except ModuleNotFoundError:  # interpreted, where Cython is not installed
    from bandstand.core import _cython as cython  # type: ignore[no-redef]  # one of the two

if not cython.compiled:
    # Compiled, this is C's function, declared in the .pxd.
    from threading import get_ident as PyThread_get_thread_ident

Count: TypeAlias = int
LaneNumber: TypeAlias = int

# Added to the lane of a message that came without a promise, and of one that has a tag or a sender.
UNPROMISED = 8
ADDRESSED = 16
# The mark of what is no message but a function to be called on the loop's own thread.
CALL = 32
ZERO = 0
DATA_LANE = Lane.DATA
CONFLATE = Overflow.CONFLATE
DROP_NEWEST = Overflow.DROP_NEWEST


class Arrivals(Timers):
    """The inbox of a loop."""

    __slots__ = ("_armed_inbox", "_attention", "_down", "_given_up", "_halted", "_inbox", "_lock", "_shut")

    def __init__(self, loop_tag: Count, max_actors: Count, reserve: Count, now: Callable[[], int]) -> None:
        super().__init__(loop_tag, max_actors, reserve, now)
        self._inbox: list[Any] = []
        # Whether the loop knows, or has been told, that the inbox is not empty.
        self._armed_inbox = False
        # Whether no further message is to be begun: the loop was asked to stop. `_halt` sets it.
        self._halted = False
        # Whether the visit at hand is to end, for something urgent has come: a call, a message above DATA, a request to stop.
        self._attention = False
        # Those whose messages were given up, to be told.
        self._given_up: list[tuple[DeliveryCallback, ActorId | None, str | None]] = []
        # Set once every actor has ended: what comes in now can only be a dead letter.
        self._down = False
        # Whether only what its own actors send in their turns is taken, until what there is has been handled.
        self._shut = False
        # Reentrant: a signal handler or a finalizer may send while its own thread is sending.
        self._lock = RLock()

    def _halt(self) -> None:
        """Have no further message begun. From any thread."""
        self._halted = True
        self._attention = True

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
            InvalidArgument: `tag` or `lane` is the system's, `target` is no id, or `sender` is neither an id nor an int.
        """
        if lane is DATA_LANE and tag is ZERO and sender is ZERO and self._take_plain(target, data):
            self._announce()
            return
        self._check_sender(sender)
        self._post_afar(target, self._checked(tag, lane), data, tag, sender)

    def _post_afar(
        self, target: object, number: LaneNumber, data: object, tag: object, sender: object
    ) -> None:
        """The same, of a checked tag and lane."""
        cell = self._find(target)
        if cell is None or self._shut:
            raise self._refused_afar(target)
        if not cython.compiled:
            with self._lock:
                is_in = self._take_in(cell, number, data, tag, sender)
        else:
            is_in = self._take_in(cell, number, data, tag, sender)  # type: ignore[unreachable]  # to the checkers
        if len(self._given_up) > 0:
            self._tell_given_up()
        if not is_in:
            raise self._full_afar(cell, number)
        if number != DATA:
            self._call_attention()
        self._announce()

    def _tell_given_up(self) -> None:
        """Tell those whose messages were given up."""
        with self._lock:
            given_up, self._given_up = self._given_up, []
        for receipt, actor, name in given_up:
            receipt.dropped(actor, name)

    def _call_afar(self, function: Callable[[], object]) -> None:
        """Have a function called on the loop's own thread, at its next tick, from any thread.

        If the loop has ended it is called here and now: what it looks at has ended as well.
        """
        if not cython.compiled:
            with self._lock:
                self._take_call(function)
        else:
            self._take_call(function)  # type: ignore[unreachable]  # to the checkers
        self._call_attention()
        self._announce()

    def _take_call(self, function: Callable[[], object]) -> None:
        """Put a call into the inbox."""
        inbox = self._inbox
        inbox.append(CALL)
        inbox.append(None)
        inbox.append(function)

    def _call_attention(self) -> None:
        """Something urgent is in the inbox: end the visit at hand for it. What the loop's own thread has put there waits for the next tick."""
        if PyThread_get_thread_ident() != self._owner:
            self._attention = True

    def _announce(self) -> None:
        """Have the loop look at its inbox."""
        if not self._armed_inbox:
            self._armed_inbox = True
            self._wake_from_afar()
        if self._down:
            # The loop ended between the look and the append: nobody but us will empty the inbox.
            self._drain()

    def _take_in(self, cell: ActorCell, lane: LaneNumber, data: object, tag: object, sender: object) -> bool:
        """Promise a slot and put the message into the inbox; False if the lane is full and the policy is to refuse."""
        mark = lane
        if not cell.promise(lane):
            if cell.overflow is None or cell.closing:
                return False
            if cell.surplus >= 2 * cell.cap:
                self._thin_out(cell)
            cell.surplus += 1
            mark = lane | UNPROMISED
        inbox = self._inbox
        if tag is ZERO and sender is ZERO:
            if mark != DATA:
                inbox.append(mark)
            inbox.append(cell)
            inbox.append(data)
            return True
        inbox.append(mark | ADDRESSED)
        inbox.append(cell)
        inbox.append(data)
        inbox.append(tag)
        inbox.append(sender)
        return True

    def _take_plain(self, target: object, data: object) -> bool:
        """Take an untagged DATA message of nobody's if nothing at all stands in the way; False if something might.

        The same checks as `_find` and `_take_in` make, in one function. Whatever does not pass here goes the ordinary way, which
        then says what is wrong. Interpreted, everything does: nothing would be saved, as the lock must be held.
        """
        if not cython.compiled:
            return False
        if type(target) is not ActorId:  # type: ignore[unreachable]  # to the checkers
            return False
        actor = target
        cell = actor.cell
        if cell is None or cell.status >= STOPPING or actor.home is not self or self._closed or self._shut:
            return False
        ring = cell.data
        if ring is None or ring.count + cell.coming_data >= cell.limit:
            return False
        cell.coming_data += 1
        inbox = self._inbox
        inbox.append(cell)
        inbox.append(data)
        return True

    def _thin_out(self, cell: ActorCell) -> None:
        """Give up messages without a promise, of one actor, by its policy: the inbox must not fill the memory.

        A mailbox of them is kept, or under CONFLATE none but the one that comes; they are counted as dropped, and
        nobody is told one by one. What is given up is held until the end, so that nothing is finalized, and no other
        thread let in, while entries are being moved.
        """
        policy = cell.overflow
        give_up = cell.surplus if policy is CONFLATE else cell.surplus - cell.cap
        newest = policy is DROP_NEWEST
        kept = cell.surplus - give_up
        inbox = self._inbox
        held: list[Any] = []
        told: list[DeliveryCallback] = []
        read = 0
        write = 0
        while read < len(inbox):
            if type(inbox[read]) is ActorCell:
                # One that has its promise, and no mark.
                mark = 0
                size = 2
            else:
                mark = inbox[read]
                size = 5 if mark & ADDRESSED else 3
            if mark & UNPROMISED and inbox[read + 1] is cell:
                is_over = kept <= 0 if newest else give_up > 0
                kept -= 1
                give_up -= 1
                if is_over:
                    held.append(inbox[read + 2])
                    if size == 5:
                        held.append(inbox[read + 4])
                        if isinstance(inbox[read + 4], DeliveryCallback):
                            told.append(inbox[read + 4])
                    self._accepted += 1
                    self._dropped += 1
                    cell.surplus -= 1
                    read += size
                    continue
            if write == read:
                read += size
                write += size
                continue
            size += read
            while read < size:
                inbox[write] = inbox[read]
                read += 1
                write += 1
        del inbox[write:]
        for receipt in told:
            # Told when the lock is free again: a receipt may call anybody.
            self._given_up.append((receipt, cell.actor, cell.name))

    def _refused_afar(self, target: object) -> BandstandError:
        with self._lock:
            error = self._unreachable(target)
        if self._shut and not self._closed:
            return NoSuchActor(
                f"{safe_repr(target)} takes nothing from outside any more: its loop only finishes what it has"
            )
        return error

    def _full_afar(self, cell: ActorCell, lane: LaneNumber) -> BandstandError:
        with self._lock:
            self._refused += 1
        return self._full(cell, lane)

    def _unread(self) -> Count:
        """How many messages are in the inbox. From any thread: of a loop whose thread is stuck this is all that can be known."""
        entries = list(self._inbox)
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

    def _drain(self) -> None:
        """Put what has come in into the mailboxes: what is there now, so that a flood cannot hold the tick."""
        self._armed_inbox = False
        self._attention = False
        if self._halted:
            # In this order: it may be another thread that halts.
            self._attention = True
        fresh: list[Any] = []
        if not cython.compiled:
            with self._lock:
                batch, self._inbox = self._inbox, fresh
        else:
            batch, self._inbox = self._inbox, fresh  # type: ignore[unreachable]  # to the checkers
        at = 0
        end = len(batch)
        while at < end:
            if type(batch[at]) is ActorCell:
                self._arrive_plain(batch[at], batch[at + 1])
                at += 2
                continue
            mark = batch[at]
            if mark == CALL:
                self._tell(batch[at + 2], ())
                at += 3
            elif mark & ADDRESSED:
                self._arrive(batch[at + 1], mark ^ ADDRESSED, batch[at + 2], batch[at + 3], batch[at + 4])
                at += 5
            else:
                self._arrive(batch[at + 1], mark, batch[at + 2], ZERO, ZERO)
                at += 3

    def _arrive_plain(self, cell: ActorCell, data: object) -> None:
        """Let one message in that has its promise, and neither a tag nor a sender."""
        self._accepted += 1
        if cell.status >= STOPPED:
            self._bury_one(cell, DATA, data, ZERO, ZERO)
            return
        cell.coming_data -= 1
        ring = cell.data
        if ring is None:
            ring = cell.lane(DATA)
        ring.push(data, ZERO, ZERO)
        if not cell.queued:
            self._ready(cell)

    def _arrive(self, cell: ActorCell, mark: LaneNumber, data: object, tag: object, sender: object) -> None:
        """Let one message in: into the mailbox, or to the dead letters if its actor has ended."""
        lane = mark & DATA
        if cell.status >= STOPPED:
            self._accepted += 1
            self._bury_one(cell, lane, data, tag, sender)
        elif mark == lane:
            self._accepted += 1
            cell.arrive(lane, data, tag, sender)
            if not cell.queued:
                self._ready(cell)
        else:
            # Its lane was full and its policy is to give something up: that is decided now, here.
            with self._lock:
                cell.surplus -= 1
            if cell.closing:
                # It was accepted, but its actor takes nothing any more.
                self._accepted += 1
                self._bury_one(cell, lane, data, tag, sender)
            else:
                self._enqueue(cell, lane, data, tag, sender)
