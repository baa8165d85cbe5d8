"""A choice: several operations, of which exactly one is done.

Fair among those that could be done at once: the channel that a choice has taken the longest ago comes first, and the order in
which they are written decides only between those that never were. So no channel starves, whatever the others do, and the same
program chooses the same way every time.

If none can be done at once, all of them stand in their lines at the same time. Whoever serves the first of them takes the
others out of their lines inside the same critical section: nothing is received twice, and nothing is taken for nobody.
"""

from __future__ import annotations

from typing import Any, TypeAlias
from warnings import warn

from bandstand.errors import ChannelClosed, ChannelTimeout, InvalidArgument
from bandstand.errors.formatting import safe_repr
from bandstand.scope.hot.passage import Group, Passage
from bandstand.scope.numbers import CANCELLED, CLOSED, DONE, EXPIRED, FOREVER, FRESH, LEFT, SPENT, WAITING

try:
    import cython
except ModuleNotFoundError:  # interpreted, where Cython is not installed
    from bandstand.core import _cython as cython  # type: ignore[no-redef]  # one of the two

Count: TypeAlias = int
State: TypeAlias = int


class Turns:
    """How many choices have been made: what tells whose turn it is."""

    __slots__ = ("made",)

    def __init__(self) -> None:
        self.made: Count = 0


TURNS = Turns()


class Choosing(Group):
    """One choice, to be awaited: the number of the operation that was done, and its result."""

    __slots__ = ()

    def __init__(self, ops: tuple[Any, ...], ms: float, token: Any, is_strict: bool) -> None:
        super().__init__()
        self.ms = ms
        self.token = token
        self.is_strict = is_strict
        for op in ops:
            if not isinstance(op, Passage):
                raise InvalidArgument(
                    f"select() has {safe_repr(op)}: pass channel.receive() and channel.send(element), not awaited"
                )
            self.check(op)
        # None of them before all are checked: what is refused was not used.
        for op in ops:
            self.adopt(op)
        self.opened = len(self.ops)

    def check(self, op: Passage) -> None:
        """Refuse an operation that cannot be a part of it."""
        if op.state != FRESH or op.is_part:
            raise InvalidArgument(
                f"select() has {safe_repr(op)}, which has been used already: make another one"
            )
        if op.ms != FOREVER or op.token is not None:
            raise InvalidArgument(
                f"select() has {safe_repr(op)} with a timeout or a token of its own: give them to select(), for all of them"
            )

    def adopt(self, op: Passage) -> None:
        """Make an operation a part of it."""
        if op.is_part:
            self.disown()
            raise InvalidArgument(f"select() has {safe_repr(op)} twice: make another one")
        op.is_part = True
        self.ops.append(op)

    def disown(self) -> None:
        """It is not made after all: its operations are as they were."""
        for op in self.ops:
            op.is_part = False

    def by_turn(self) -> list[Passage]:
        """The operations, that of the channel that was chosen the longest ago first."""
        return sorted(self.ops, key=turn_of)

    def begin(self) -> bool:
        """Do one of them at once; False if none can be."""
        for op in self.ops:
            op.group = self
        for op in self.by_turn():
            if op.begin():
                if op.state == DONE:
                    self.chosen = op
                    self.state = DONE
                    return True
                self.opened -= 1
        if self.opened == 0 or (self.is_strict and self.opened < len(self.ops)):
            self.state = CLOSED
            return True
        return False

    def stand(self) -> bool:
        """Do one of them at once, or have all of them stand in line."""
        self.state = WAITING
        for op in self.by_turn():
            if op.state == FRESH:
                op.pipe.stand_in_line(op)
                if op.pipe.served.first is not None:
                    op.pipe.wake_served()
                if self.state != WAITING:
                    break
        return self.state != WAITING

    def give_back(self) -> None:
        """The one that was done is undone, if it can be."""
        chosen = self.chosen
        if chosen is not None:
            self.dissolve()
            chosen.give_back()

    def dissolve(self) -> None:
        """It is over: its operations need not know it any more, and are of no use to anybody."""
        for op in self.ops:
            op.group = None
            if op is not self.chosen and op.state != CLOSED:
                op.state = LEFT

    def finish(self) -> Any:
        """Which was done, and what came of it."""
        state = self.state
        self.state = SPENT
        self.future = None
        self.dissolve()
        chosen = self.chosen
        if state == DONE and chosen is not None:
            TURNS.made += 1
            if chosen.is_send:
                chosen.pipe.turn_in = TURNS.made
            else:
                chosen.pipe.turn_out = TURNS.made
            return self.ops.index(chosen), chosen.finish()
        raise self.error(state)

    def error(self, state: State) -> BaseException:
        """The error for a choice that was not made."""
        if state not in {CLOSED, EXPIRED, CANCELLED}:
            return self.refused_again()
        what = ", ".join(map(repr, self.ops))
        if state == CLOSED:
            whose = "all of the channels are" if self.opened == 0 else "one of the channels is"
            return ChannelClosed(f"cannot choose between {what}: {whose} closed, with nothing left")
        if state == EXPIRED:
            waited = "at once" if self.ms == 0 else f"within {self.ms:.15g} ms"
            return ChannelTimeout(f"none of {what} could be done {waited}")
        error: BaseException = self.token.error(f"the choice between {what}")
        return error

    def __dealloc__(self) -> None:
        # As for a single operation.
        if self.state == FRESH and self.opened > 0 and self.ops is not None:  # pyright: ignore[reportUnnecessaryComparison]  # same
            warn(f"{self!r} was never awaited: nothing has happened", RuntimeWarning, stacklevel=2)

    def __repr__(self) -> str:
        return f"<select of {', '.join(map(repr, self.ops))}>"


if not cython.compiled:
    Choosing.__del__ = Choosing.__dealloc__  # type: ignore[attr-defined]  # only here


def turn_of(op: Passage) -> Count:
    """When a choice last took this side of an operation's channel."""
    return op.pipe.turn_in if op.is_send else op.pipe.turn_out
