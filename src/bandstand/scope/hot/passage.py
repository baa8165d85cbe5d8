"""One element on its way into a channel, or out of it: the operation, what is awaited, and the place in the line.

Whoever has been served stands in `served` until the critical section is over, and is woken then: waking calls other people's
code.
"""

from __future__ import annotations

from typing import Any, Self, TypeAlias
from warnings import warn

from bandstand.errors import ChannelClosed, ChannelTimeout
from bandstand.scope.hot.parked import LOCK, Parked
from bandstand.scope.hot.store import Store
from bandstand.scope.numbers import CANCELLED, CLOSED, DONE, EMPTY, EXPIRED, FRESH, LEFT, OVER, SPENT, WAITING

try:
    import cython
except ModuleNotFoundError:  # interpreted, where Cython is not installed
    from bandstand.core import _cython as cython  # type: ignore[no-redef]  # one of the two

Count: TypeAlias = int
State: TypeAlias = int


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


class Conduit(Store):
    """A channel, for its operations: those who wait, and what an operation asks of it. `Pipe` is the whole of it."""

    __slots__ = ("cancelled", "expired", "receivers", "senders", "served", "turn_in", "turn_out")

    def __init__(self, conflates: bool) -> None:
        super().__init__(conflates)
        self.senders = Line()
        self.receivers = Line()
        # Those who were served, and are to be woken.
        self.served = Line()
        self.expired: Count = 0
        self.cancelled: Count = 0
        # When a choice last took it, to send and to receive.
        self.turn_in: Count = 0
        self.turn_out: Count = 0

    def offer(self, item: object, group: Group | None) -> State:
        """Send an element: DONE, CLOSED, or WAITING if it would have to wait."""
        raise NotImplementedError  # the pipe does

    def take(self, group: Group | None) -> Any:
        """Receive an element: EMPTY if one would have to wait, OVER if none will ever come."""
        raise NotImplementedError  # the pipe does

    def stand_in_line(self, op: Passage) -> None:
        """Do an operation at once, or have it stand in line. Whoever was served is woken by the caller."""
        raise NotImplementedError  # the pipe does

    def put_back(self, item: object, number: Count) -> None:
        """Have an element back that was handed to somebody who was not there any more."""
        raise NotImplementedError  # the pipe does

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

    def next_served(self) -> Passage | None:
        """Who is to be woken next."""
        op = self.served.first
        if op is not None:
            self.served.remove(op)
        return op


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

    def set_up(self, pipe: Conduit, is_send: bool, item: object, ms: float, token: Any) -> None:
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
            rest = "and accepts nothing any more" if self.is_send else "and nothing is left in it"
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

    __slots__ = ("chosen", "is_strict", "opened", "ops")

    def __init__(self) -> None:
        super().__init__()
        self.ops: list[Passage] = []
        # The one that was done, and how many still can be: a closed channel is never chosen.
        self.chosen: Passage | None = None
        self.opened: Count = 0
        # Whether one closed channel is its end.
        self.is_strict = False

    def settle(self, op: Passage, state: State) -> bool:
        """One of them is over; whether all is. Inside a critical section."""
        op.state = state
        if state == CLOSED:
            self.opened -= 1
            if self.opened > 0 and not self.is_strict:
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
