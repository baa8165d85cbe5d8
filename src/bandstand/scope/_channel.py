"""A channel without its types: elements in order, and those who wait on either side of it, in order.

    senders ──▶ [ head … ring of elements … tail ] ──▶ receivers

What always holds, between any two critical sections: receivers wait only while there is no element and no sender; senders wait
only while the ring is full. So whoever comes first is served first, and nobody overtakes a line: a send meets a receiver and
hands its element over, or finds room, or joins the line; a receive takes the oldest element, and the first sender in the line
moves up.

An element that was handed to a receiver whose task was cancelled at the same moment comes back, to the front; several do so in
the order in which they were sent, by their numbers. A channel may then hold more elements than its capacity. None is lost, and
none is there twice.
"""

from __future__ import annotations

from typing import Any, NoReturn, TypeAlias

from bandstand.errors import ChannelClosed
from bandstand.scope.checks import check_token, checked_ms
from bandstand.scope.hot.parked import LOCK, Parked
from bandstand.scope.hot.passage import Conduit, Group, Line, Passage
from bandstand.scope.numbers import BOUNDLESS, CLOSED, DONE, EMPTY, FOREVER, LEFT, OVER, REST_ROOM, WAITING

try:
    import cython
except ModuleNotFoundError:  # interpreted, where Cython is not installed
    from bandstand.core import interpreted as cython  # type: ignore[no-redef]  # one of the two

Count: TypeAlias = int
State: TypeAlias = int

# What `push` answers if the list must grow first.
AGAIN: State = -1
SEND = True
RECEIVE = False


class Pipe(Conduit):
    """A channel without its types. `Channel` is what to use.

    `capacity` is how many elements it holds, BOUNDLESS for any number; `conflates` makes the newest element replace the last
    that nobody has received.
    """

    __slots__ = ("capacity", "closed", "conflated", "label", "peak", "received", "refused", "sent")

    def __init__(self, capacity: Count, conflates: bool, label: str | None) -> None:
        super().__init__(conflates)
        self.capacity: Count = capacity
        self.label = label
        self.closed = False
        # The books: sent = received + conflated + what is in it.
        self.sent: Count = 0
        self.received: Count = 0
        self.conflated: Count = 0
        self.refused: Count = 0
        self.peak: Count = 0

    # -- what users call -----------------------------------------------------------------------------------------------

    def send(self, item: Any, *, timeout_ms: float | None = None, token: Any = None) -> Any:
        """Send an element: `await channel.send(element)`. Waits for room, or, at a rendezvous, for a receiver.

        Nothing happens before it is awaited. `timeout_ms` is how long to wait at most, 0 for not at all; a CancelToken may end
        the wait as well. Raises ChannelClosed, ChannelTimeout, Cancelled: then the element was not sent.
        """
        return self.passage(SEND, item, timeout_ms, token)

    def receive(self, *, timeout_ms: float | None = None, token: Any = None) -> Any:
        """Receive the oldest element: `await channel.receive()`. Waits until there is one.

        Nothing happens before it is awaited. `timeout_ms` is how long to wait at most, 0 for not at all; a CancelToken may end
        the wait as well. Raises ChannelClosed if nothing is left, ChannelTimeout, Cancelled.
        """
        return self.passage(RECEIVE, None, timeout_ms, token)

    def try_send(self, item: Any) -> bool:
        """Send an element if that can be done at once; False if it cannot. Raises ChannelClosed. From any thread."""
        state = self.offer(item, None)
        if state == CLOSED:
            raise ChannelClosed(f"cannot send to {self!r}: it is closed, and accepts nothing any more")
        return state == DONE

    def try_receive(self, default: Any = None) -> Any:
        """Receive the oldest element; `default` if there is none. Raises ChannelClosed if nothing is left. From any thread."""
        item = self.take(None)
        if item is EMPTY:
            return default
        if item is OVER:
            raise ChannelClosed(f"cannot receive from {self!r}: it is closed, and nothing is left in it")
        return item

    def close(self) -> bool:
        """Close it: senders are refused at once, receivers drain it and are at the end. False if it was closed already."""
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

    def offer(self, item: object, group: Group | None) -> State:
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

    def take(self, group: Group | None) -> Any:
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

    # -- inside a critical section -------------------------------------------------------------------------------------

    def push(self, item: object, group: Group | None) -> State:
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
            self.append(item)
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

    def pull(self, group: Group | None) -> Any:
        """Receive an element, if there is one."""
        if self.count > 0:
            item = self.shift()
            self.received += 1
            if self.senders.first is not None and self.count < self.capacity:
                self.move_up(group)
            return item
        sender = self.next_sender(group)
        if sender is not None:
            item = sender.item
            sender.item = None
            self.sent += 1
            self.received += 1
            sender.settle(DONE)
            return item
        return OVER if self.closed else EMPTY

    def next_sender(self, group: Group | None) -> Passage | None:
        """The first sender in the line; not one of the choice that receives: it does one of its operations, not two."""
        sender = self.senders.first
        if group is not None:
            while sender is not None and sender.group is group:
                sender = sender.after
        return sender

    def move_up(self, group: Group | None) -> None:
        """There is room: the first sender in the line has it."""
        sender = self.next_sender(group)
        if sender is not None:
            self.append(sender.item)
            sender.item = None
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
        self.received -= 1
        self.insert_returned(item, number)
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
