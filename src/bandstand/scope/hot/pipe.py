"""A channel without its types: elements in order, and those who wait on either side of it, in order.

    senders ──▶ [ head … ring of elements … tail ] ──▶ receivers

What always holds, between any two critical sections: receivers wait only while there is no element and no sender; senders wait
only while the ring is full. So whoever comes first is served first, and nobody overtakes a line: a send meets a receiver and
hands its element over, or finds room, or joins the line; a receive takes the oldest element, and the first sender in the line
moves up.

Whoever has been served stands in `served` until the critical section is over, and is woken then: waking calls other people's
code.

An element that was handed to a receiver whose task was cancelled at the same moment comes back, to the front; several do so in
the order in which they were sent, by their numbers. A channel may then hold more elements than its capacity. None is lost, and
none is there twice.
"""

from __future__ import annotations

from typing import Any, NoReturn, Self, TypeAlias
from warnings import warn

from bandstand.errors import ChannelClosed, ChannelTimeout
from bandstand.scope.checks import check_token, checked_ms
from bandstand.scope.hot.parked import LOCK, Parked
from bandstand.scope.numbers import (
    BOUNDLESS,
    CANCELLED,
    CLOSED,
    DONE,
    EXPIRED,
    FOREVER,
    FRESH,
    LEFT,
    SPENT,
    WAITING,
)

try:
    import cython
except ModuleNotFoundError:  # interpreted, where Cython is not installed
    from bandstand.core import interpreted as cython  # type: ignore[no-redef]  # one of the two

Count: TypeAlias = int
State: TypeAlias = int

FIRST_ROOM = 4
REST_ROOM = 256
# What `take` answers instead of an element.
EMPTY: Any = object()
OVER: Any = object()
# What `push` answers if the list must grow first.
AGAIN: State = -1
SEND = True
RECEIVE = False


class Line:
    """Operations that wait, first come, first served: a list through the operations themselves, so that one can leave."""

    __slots__ = ("count", "first", "last")

    def __init__(self) -> None:
        self.first: Passage | None = None
        self.last: Passage | None = None
        self.count: Count = 0

    def append(self, op: Passage) -> None:
        """Put an operation at the end."""
        last = self.last
        op.line = self
        op.before = last
        op.after = None
        if last is None:
            self.first = op
        else:
            last.after = op
        self.last = op
        self.count += 1

    def remove(self, op: Passage) -> None:
        """Take an operation out, wherever it stands."""
        before = op.before
        after = op.after
        if before is None:
            self.first = after
        else:
            before.after = after
        if after is None:
            self.last = before
        else:
            after.before = before
        op.line = None
        op.before = None
        op.after = None
        self.count -= 1


class Passage(Parked):
    """One element on its way: into a channel, or out of it."""

    __slots__ = (
        "after",
        "before",
        "group",
        "is_last",
        "is_part",
        "is_send",
        "item",
        "line",
        "number",
        "pipe",
    )

    def set_up(self, pipe: Pipe, is_send: bool, item: object, ms: float, token: Any) -> None:
        """What its making does: past `__init__`, which costs an object of every call in C, too."""
        if not cython.compiled:
            # In C it is made with all of this.
            Parked.__init__(self)
            # Whether the end of the channel is the end of an `async for`, and no error.
            self.is_last = False
            # Which element of its channel was handed to it.
            self.number: Count = 0
            # Whether it is a part of a choice; and of which, from when that is awaited: before, they would hold each other.
            self.is_part = False
            self.group: Group | None = None
            # Where it stands.
            self.line: Line | None = None
            self.before: Passage | None = None
            self.after: Passage | None = None
        self.ms = ms
        self.token = token
        self.pipe = pipe
        self.is_send = is_send
        self.item: Any = item

    def __await__(self) -> Self:
        """Wait for it as a task does."""
        if self.state != FRESH or self.is_part:
            raise self.refused_again()
        return self

    def begin(self) -> bool:
        """Send or receive at once; False if that cannot be."""
        pipe = self.pipe
        if self.is_send:
            state = pipe.offer(self.item, self.group)
            if state == WAITING:
                return False
            if state == DONE:
                self.item = None
            self.state = state
        else:
            item = pipe.take(self.group)
            if item is EMPTY:
                return False
            if item is OVER:
                self.state = CLOSED
            else:
                self.item = item
                self.state = DONE
        return True

    def stand(self) -> bool:
        """Send or receive at once, or join the line."""
        pipe = self.pipe
        pipe.stand_in_line(self)
        if pipe.served.first is not None:
            pipe.wake_served()
        return self.state != WAITING

    def leave(self, state: State) -> bool:
        """Leave the line, if it still stands there."""
        if not cython.compiled:
            with LOCK:
                return self.quit(state)
        return self.quit(state)  # type: ignore[unreachable]  # to the checkers

    def quit(self, state: State) -> bool:
        """The same, inside a critical section."""
        if self.state != WAITING:
            return False
        self.state = state
        line = self.line
        if line is not None:
            line.remove(self)
        pipe = self.pipe
        if state == EXPIRED:
            pipe.expired += 1
        else:
            pipe.cancelled += 1
        return True

    def give_back(self) -> None:
        """An element that nobody is there to receive goes back to the front."""
        if not cython.compiled:
            with LOCK:
                item = self.let_go()
        else:
            item = self.let_go()  # type: ignore[unreachable]  # to the checkers
        if item is not EMPTY:
            self.pipe.put_back(item, self.number)

    def let_go(self) -> Any:
        """The element that was handed to it, once; EMPTY if there is none. Inside a critical section."""
        if self.state != DONE or self.is_send:
            return EMPTY
        item, self.item = self.item, None
        self.state = LEFT
        return item

    def settle(self, state: State) -> None:
        """It is over: by a partner, or by the channel's end. Inside a critical section."""
        line = self.line
        if line is not None:
            line.remove(self)
        group = self.group
        if group is None:
            self.state = state
        elif not group.settle(self, state):
            # Others of the choice are still open.
            return
        self.pipe.served.append(self)

    def finish(self) -> Any:
        """What came of it."""
        state = self.state
        self.state = SPENT
        self.future = None
        if state == DONE:
            if self.is_send:
                return None
            item, self.item = self.item, None
            return item
        if state == CLOSED and self.is_last:
            raise StopAsyncIteration
        raise self.error(state)

    def error(self, state: State) -> BaseException:
        """The error for an operation that was not done."""
        verb = "send to" if self.is_send else "receive from"
        if state == CLOSED:
            rest = "it accepts nothing any more" if self.is_send else "and nothing is left in it"
            return ChannelClosed(f"cannot {verb} {self.pipe!r}: it is closed, {rest}")
        if state == EXPIRED:
            waited = "at once" if self.ms == 0 else f"within {self.ms:.15g} ms"
            what = "nobody took the element" if self.is_send else "there was no element"
            return ChannelTimeout(f"cannot {verb} {self.pipe!r}: {what} {waited}")
        if state != CANCELLED:
            return self.refused_again()
        error: BaseException = self.token.error(f"{verb} {self.pipe!r}")
        return error

    def wake(self) -> None:
        """Have whoever waits go on: for this, or for the choice that it is a part of."""
        group = self.group
        if group is None:
            Parked.wake(self)
        else:
            group.wake()

    def __dealloc__(self) -> None:
        # Compiled, this is called at its end, and costs less than a finalizer; interpreted it is one: see below.
        if self.state == FRESH and not self.is_part and self.pipe is not None:  # pyright: ignore[reportUnnecessaryComparison]  # it is, in C
            # As Python says it of a coroutine: or an element that nobody sent would be missed much later.
            warn(f"{self!r} was never awaited: nothing has happened", RuntimeWarning, stacklevel=2)

    def __repr__(self) -> str:
        return f"<{'send to' if self.is_send else 'receive from'} {self.pipe!r}>"


if not cython.compiled:
    Passage.__del__ = Passage.__dealloc__  # type: ignore[attr-defined]  # only here


class Group(Parked):
    """Several operations of which one is done: what channels must know of a choice. `Choosing` is the whole of it."""

    __slots__ = ("chosen", "opened", "ops")

    def __init__(self) -> None:
        super().__init__()
        self.ops: list[Passage] = []
        # The one that was done, and how many still can be: a closed channel is never chosen.
        self.chosen: Passage | None = None
        self.opened: Count = 0

    def settle(self, op: Passage, state: State) -> bool:
        """One of them is over; whether all is. Inside a critical section."""
        op.state = state
        if state == CLOSED:
            self.opened -= 1
            if self.opened > 0:
                return False
        else:
            self.chosen = op
        self.state = state
        self.withdraw(LEFT)
        return True

    def leave(self, state: State) -> bool:
        """Leave all the lines, if none of them has been served."""
        if not cython.compiled:
            with LOCK:
                return self.quit(state)
        return self.quit(state)  # type: ignore[unreachable]  # to the checkers

    def quit(self, state: State) -> bool:
        """The same, inside a critical section."""
        if self.state != WAITING:
            return False
        self.state = state
        self.withdraw(state)
        return True

    def withdraw(self, state: State) -> None:
        """Have those leave their lines that still stand there."""
        for op in self.ops:
            if op.state == WAITING:
                op.quit(state)


class Pipe:
    """A channel without its types. `Channel` is what to use.

    `capacity` is how many elements it holds, BOUNDLESS for any number; `conflates` makes the newest element replace the last
    that nobody has received.
    """

    __slots__ = (
        "cancelled",
        "capacity",
        "closed",
        "conflated",
        "conflates",
        "count",
        "entries",
        "expired",
        "head",
        "label",
        "peak",
        "received",
        "receivers",
        "refused",
        "returned",
        "room",
        "senders",
        "sent",
        "served",
        "turn_in",
        "turn_out",
    )

    def __init__(self, capacity: Count, conflates: bool, label: str | None) -> None:
        self.capacity: Count = capacity
        self.conflates = conflates
        self.label = label
        self.closed = False
        self.entries: list[Any] = [None] * FIRST_ROOM
        self.room: Count = FIRST_ROOM
        self.head: Count = 0
        self.count: Count = 0
        # The numbers of those at the front that have come back.
        self.returned: list[Count] = []
        self.senders = Line()
        self.receivers = Line()
        self.served = Line()
        # The books: sent = received + conflated + what is in it.
        self.sent: Count = 0
        self.received: Count = 0
        self.conflated: Count = 0
        self.refused: Count = 0
        self.expired: Count = 0
        self.cancelled: Count = 0
        self.peak: Count = 0
        # When a choice last took it, to send and to receive.
        self.turn_in: Count = 0
        self.turn_out: Count = 0

    # -- what users call -----------------------------------------------------------------------------------------------

    def send(self, item: Any, *, timeout_ms: float | None = None, token: Any = None) -> Any:
        """Have an element sent: to be awaited. `Channel` says what of."""
        return self.passage(SEND, item, timeout_ms, token)

    def receive(self, *, timeout_ms: float | None = None, token: Any = None) -> Any:
        """Have an element received: to be awaited. `Channel` says what of."""
        return self.passage(RECEIVE, None, timeout_ms, token)

    def try_send(self, item: Any) -> bool:
        """Send an element if that can be at once. `Channel` says what of."""
        state = self.offer(item, None)
        if state == CLOSED:
            raise ChannelClosed(f"cannot send to {self!r}: it is closed, and accepts nothing any more")
        return state == DONE

    def try_receive(self, default: Any = None) -> Any:
        """Receive an element if there is one. `Channel` says what of."""
        item = self.take(None)
        if item is EMPTY:
            return default
        if item is OVER:
            raise ChannelClosed(f"cannot receive from {self!r}: it is closed, and nothing is left in it")
        return item

    def close(self) -> bool:
        """Close it. `Channel` says what of."""
        return self.shut()

    def __aiter__(self) -> Any:
        return self

    def __anext__(self) -> Any:
        op = self.passage(RECEIVE, None, None, None)
        op.is_last = True
        return op

    def passage(self, is_send: bool, item: object, timeout_ms: object, token: Any) -> Passage:
        """Make an operation, with what a user has said of it."""
        ms = FOREVER
        if timeout_ms is not None:
            ms = checked_ms(timeout_ms)
        if token is not None:
            check_token(token)
        op = Passage.__new__(Passage)
        op.set_up(self, is_send, item, ms, token)
        return op

    def books(self) -> tuple[int, int, int, int, int, int, int, int, int, int, bool]:
        """All the numbers of one moment. `Channel` says which."""
        if not cython.compiled:
            with LOCK:
                return self.snapshot()
        return self.snapshot()  # type: ignore[unreachable]  # to the checkers

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"{self!r} is of this process, and cannot be pickled or copied")

    def __len__(self) -> int:
        return self.count

    def __bool__(self) -> bool:
        # Not whether it is empty: a channel is a thing.
        return True

    # -- from outside: each is one critical section, and then the waking -----------------------------------------------

    def offer(self, item: object, group: Any) -> State:
        """Send an element: DONE, CLOSED, or WAITING if it would have to wait."""
        if self.receivers.first is not None:
            self.forget_gone(self.receivers, False)  # noqa: FBT003  # by position in C
        while True:
            if not cython.compiled:
                with LOCK:
                    replaced = self.newest()
                    state = self.push(item, group)
                # Not before: its end may call anybody, and wait for anybody.
                del replaced
            else:
                state = self.push(item, group)  # type: ignore[unreachable]  # to the checkers
            if state != AGAIN:
                break
            self.make_room()
        if self.served.first is not None:
            self.wake_served()
        return state

    def take(self, group: Any) -> Any:
        """Receive an element: EMPTY if one would have to wait, OVER if none will ever come."""
        if self.senders.first is not None:
            self.forget_gone(self.senders, False)  # noqa: FBT003  # by position in C
        if not cython.compiled:
            with LOCK:
                item = self.pull(group)
        else:
            item = self.pull(group)  # type: ignore[unreachable]  # to the checkers
        if self.served.first is not None:
            self.wake_served()
        if item is EMPTY and self.room > REST_ROOM:
            self.rest()
        return item

    def stand_in_line(self, op: Passage) -> None:
        """Do an operation at once, or have it stand in line. Whoever was served is woken by the caller."""
        while True:
            if not cython.compiled:
                with LOCK:
                    is_settled = self.join(op)
            else:
                is_settled = self.join(op)  # type: ignore[unreachable]  # to the checkers
            if is_settled:
                return
            self.make_room()

    def put_back(self, item: object, number: Count) -> None:
        """Have an element back that was handed to somebody who was not there any more."""
        if self.receivers.first is not None:
            # All who are lost, or each would give it back to the next, deeper and deeper.
            self.forget_gone(self.receivers, True)  # noqa: FBT003  # by position in C
        while True:
            if not cython.compiled:
                with LOCK:
                    replaced = self.newest()
                    is_back = self.unpull(item, number)
                del replaced
            else:
                is_back = self.unpull(item, number)  # type: ignore[unreachable]  # to the checkers
            if is_back:
                break
            self.make_room()
        if self.served.first is not None:
            self.wake_served()

    def shut(self) -> bool:
        """Close it; whether that was done just now."""
        if not cython.compiled:
            with LOCK:
                was_open = self.seal()
        else:
            was_open = self.seal()  # type: ignore[unreachable]  # to the checkers
        if self.served.first is not None:
            self.wake_served()
        return was_open

    def wake_served(self) -> None:
        """Wake those who have been served, in their order."""
        while True:
            if not cython.compiled:
                with LOCK:
                    op = self.next_served()
            else:
                op = self.next_served()  # type: ignore[unreachable]  # to the checkers
            if op is None:
                return
            op.wake()

    def forget_gone(self, line: Line, is_thorough: bool) -> None:
        """Have those leave the head of a line whose task has been cancelled, and who have not noticed yet.

        If thorough, also those whose event loop is no more.
        """
        while True:
            first = line.first
            if first is None:
                return
            whose: Parked = first if first.group is None else first.group
            if not whose.is_gone() and not (is_thorough and whose.is_lost()):
                return
            whose.leave(LEFT)

    def make_room(self) -> None:
        """Have room for one element more. Outside a critical section: it allocates, and anything may happen meanwhile."""
        while self.count == self.room:
            room = 2 * self.room
            fresh: list[Any] = [None] * room
            if not cython.compiled:
                with LOCK:
                    self.move(fresh, room)
            else:
                self.move(fresh, room)  # type: ignore[unreachable]  # to the checkers

    # -- inside a critical section -------------------------------------------------------------------------------------

    def push(self, item: object, group: Any) -> State:
        """Send an element, if that can be at once. There is room in the list."""
        if self.closed:
            self.refused += 1
            return CLOSED
        receiver = self.receivers.first
        if receiver is not None and group is not None:
            # A choice does not send to itself.
            while receiver is not None and receiver.group is group:
                receiver = receiver.after
        if receiver is not None:
            self.sent += 1
            self.received += 1
            receiver.item = item
            receiver.number = self.sent
            receiver.settle(DONE)
            return DONE
        if self.count < self.capacity or self.capacity == BOUNDLESS:
            if self.count == self.room:
                return AGAIN
            self.sent += 1
            self.entries[(self.head + self.count) & (self.room - 1)] = item
            self.count += 1
            if self.count > self.peak:
                self.peak = self.count
            return DONE
        if self.conflates:
            self.sent += 1
            self.conflated += 1
            if self.returned:
                self.returned.pop()
            self.replace(item)
            return DONE
        return WAITING

    def replace(self, item: object) -> None:
        """Have an element in the place of the newest one: the last thing that is done."""
        at = (self.head + self.count - 1) & (self.room - 1)
        # It goes when we return, and not before: its end may call anybody.
        old = self.entries[at]
        self.entries[at] = item
        del old

    def newest(self) -> Any:
        """What may be replaced."""
        return self.entries[(self.head + self.count - 1) & (self.room - 1)] if self.conflates else None

    def pull(self, group: Any) -> Any:
        """Receive an element, if there is one."""
        if self.count > 0:
            at = self.head
            item = self.entries[at]
            self.entries[at] = None
            self.head = (at + 1) & (self.room - 1)
            self.count -= 1
            self.received += 1
            if self.returned:
                self.returned.pop(0)
            if self.senders.first is not None and self.count < self.capacity:
                self.move_up()
            return item
        sender = self.senders.first
        if sender is not None and group is not None:
            while sender is not None and sender.group is group:
                sender = sender.after
        if sender is not None:
            item = sender.item
            sender.item = None
            self.sent += 1
            self.received += 1
            sender.settle(DONE)
            return item
        return OVER if self.closed else EMPTY

    def move_up(self) -> None:
        """There is room: the first sender in the line has it."""
        sender = self.senders.first
        assert sender is not None
        self.entries[(self.head + self.count) & (self.room - 1)] = sender.item
        sender.item = None
        self.count += 1
        self.sent += 1
        sender.settle(DONE)

    def unpull(self, item: object, number: Count) -> bool:
        """Have an element back, to the front, or to whoever waits for one; False if there is no room in the list."""
        receiver = self.receivers.first
        if receiver is not None:
            receiver.item = item
            receiver.number = number
            receiver.settle(DONE)
            return True
        if self.conflates and self.count > 0:
            # Of the two the newer one stays.
            self.received -= 1
            self.conflated += 1
            if self.returned and self.returned[0] < number:
                self.returned[0] = number
                self.replace(item)
            return True
        if self.count == self.room:
            return False
        # All that has not come back was sent later.
        at = 0
        while at < len(self.returned) and self.returned[at] < number:
            at += 1
        self.returned.insert(at, number)
        self.received -= 1
        self.head = (self.head + self.room - 1) & (self.room - 1)
        step = 0
        while step < at:
            self.entries[(self.head + step) & (self.room - 1)] = self.entries[
                (self.head + step + 1) & (self.room - 1)
            ]
            step += 1
        self.entries[(self.head + at) & (self.room - 1)] = item
        self.count += 1
        self.peak = max(self.peak, self.count)
        return True

    def join(self, op: Passage) -> bool:
        """Do an operation at once, or have it stand in line; False if there is no room in the list for its element."""
        group = op.group
        if group is not None and group.state != WAITING:
            # The choice was made while its operations joined their lines.
            return True
        if op.is_send:
            state = self.push(op.item, group)
            if state == AGAIN:
                return False
            if state == WAITING:
                op.state = WAITING
                self.senders.append(op)
                return True
            if state == DONE:
                op.item = None
        else:
            item = self.pull(group)
            if item is EMPTY:
                op.state = WAITING
                self.receivers.append(op)
                return True
            if item is OVER:
                state = CLOSED
            else:
                op.item = item
                state = DONE
        if group is None:
            op.state = state
        else:
            group.settle(op, state)
        return True

    def seal(self) -> bool:
        """Close it: those who wait, wait in vain."""
        if self.closed:
            return False
        self.closed = True
        # Held by a name of its own: the line may be all that holds it.
        op = self.senders.first
        while op is not None:
            self.refused += 1
            op.settle(CLOSED)
            op = self.senders.first
        op = self.receivers.first
        while op is not None:
            op.settle(CLOSED)
            op = self.receivers.first
        return True

    def snapshot(self) -> tuple[int, int, int, int, int, int, int, int, int, int, bool]:
        """All the numbers: read before the first of them is made an object, which may let others in."""
        sent = self.sent
        received = self.received
        conflated = self.conflated
        count = self.count
        refused = self.refused
        expired = self.expired
        cancelled = self.cancelled
        senders = self.senders.count
        receivers = self.receivers.count
        peak = self.peak
        closed = self.closed
        return sent, received, conflated, count, refused, expired, cancelled, senders, receivers, peak, closed

    def next_served(self) -> Passage | None:
        """Who is to be woken next."""
        op = self.served.first
        if op is not None:
            self.served.remove(op)
        return op

    def rest(self) -> None:
        """Give back the memory of a past burst. Outside a critical section: it allocates."""
        fresh: list[Any] = [None] * FIRST_ROOM
        if not cython.compiled:
            with LOCK:
                self.shrink(fresh)
        else:
            self.shrink(fresh)  # type: ignore[unreachable]  # to the checkers

    def shrink(self, fresh: list[Any]) -> None:
        """Begin again with a small list, unless there are elements again."""
        if self.count == 0:
            old = self.entries
            self.entries = fresh
            self.room = FIRST_ROOM
            self.head = 0
            del old

    def move(self, fresh: list[Any], room: Count) -> None:
        """Move everything into a larger list, unless somebody has done that meanwhile."""
        if self.count != self.room or room != 2 * self.room:
            return
        at = 0
        while at < self.count:
            fresh[at] = self.entries[(self.head + at) & (self.room - 1)]
            at += 1
        old = self.entries
        self.entries = fresh
        self.room = room
        self.head = 0
        del old
