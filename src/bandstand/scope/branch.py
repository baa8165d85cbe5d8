"""A place in a tree of cancellations: who is told of what, and what may be forgotten.

The problem. Cancelling a parent cancels its children. But a server makes a child for every request and drops it: a parent that
lists its children keeps millions of them, and a wheel that keeps their deadlines keeps them as well.

The choice. The tree knows the way up. To be cancelled is a question, answered by a walk to the root and a look at the clock: the
answer is right for everybody the moment it becomes so, even while the event loop is blocked. The way down exists only
where somebody listens: a branch stands in its parent's list, and its deadline on the wheel, just as long as there is someone to
be told. What nobody listens to is ordinary garbage.

Refused: weak references to children (a callback for each, and a deadline still needs its timer); telling children eagerly (the
same lists, and "cancelled" would lag behind while it is being told).

Critical sections are under `LOCK`, and nobody is called inside of one. That lock is reentrant, and a finalizer or a signal handler
may come in between any two calls and use the same branch: so each section looks again at what it relies on.
"""

# A branch knows its parent and those below it from inside: they are of its own class.
# ruff: noqa: SLF001

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from bandstand.core.logs import SafeLogger
from bandstand.errors import InvalidArgument
from bandstand.errors.formatting import describe_exception, safe_repr, safe_str
from bandstand.scope.hot.parked import LOCK

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bandstand.scope.alarm import Deadline

__all__ = ("Branch", "Ending", "Listener")

logger = SafeLogger("bandstand.scope")


class Listener(Protocol):
    """Somebody who is told of a cancellation. A key of a dict: those who are equal are one."""

    def interrupt(self) -> object:
        """It has come. Called once, outside of locks, on the thread that cancels."""
        ...


@dataclass(slots=True)
class Ending:
    """How a branch was cancelled, and everybody below it. They share it; nobody changes it but `forget`."""

    reason: str
    """In words."""
    cause: BaseException | None
    """The exception it is about, if there is one."""
    number: int
    """The number of the branch where it began."""

    def forget(self, errors: list[BaseException]) -> None:
        """Keep no exception of these: its traceback holds frames, which may hold the token."""
        if any(self.cause is error for error in errors):
            self.cause = None

    @classmethod
    def of(cls, reason: str | BaseException | None, number: int) -> Ending:
        """What somebody who cancels has said.

        Raises:
            InvalidArgument: the reason is no string and no exception.
        """
        if reason is None:
            return cls("no reason was given", None, number)
        if isinstance(reason, str):
            return cls(safe_str(reason), None, number)
        if isinstance(reason, BaseException):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers without types
            return cls(describe_exception(reason), reason, number)
        raise InvalidArgument(f"reason is {safe_repr(reason)}: pass a string, an exception, or None")


class Branch:
    """What a token is, underneath."""

    __slots__ = ("_deadline", "_ending", "_listeners", "_number", "_parent")

    def __init__(self, parent: Branch | None, number: int, deadline: Deadline | None) -> None:
        self._parent = parent
        self._number = number
        self._deadline = deadline
        # Set once, by whoever sees first that it is over; what it says never changes.
        self._ending: Ending | None = None
        self._listeners: dict[Listener | Branch, None] = {}

    def enlist(self, listener: Listener) -> None:
        """Have `listener.interrupt()` called once, when it is cancelled; now, if it is. For those who build waits."""
        if self._look() is None:
            with LOCK:
                self._listeners[listener] = None
                disturbed = self._settle()
            self._tend(disturbed)
            # It may have come since the look; then whoever takes the listener out is the one to tell it.
            if self._look() is None or not self.dismiss(listener):
                return
        listener.interrupt()

    def dismiss(self, listener: Listener) -> bool:
        """Forget a listener. Whether it was there: if so it is not told, else it was, is being told, or never came."""
        with LOCK:
            if listener not in self._listeners:
                return False
            del self._listeners[listener]
            disturbed = () if self._listeners else self._settle()
        self._tend(disturbed)
        return True

    def forget(self, errors: list[BaseException]) -> None:
        """Keep the reason in words, but none of these exceptions. For whoever raises them."""
        ending = self._look()
        if ending is not None:
            ending.forget(errors)

    def left_ms(self) -> float | None:
        """How long it is until the next deadline, here or above; None if there is none. For threads, which look by themselves."""
        soonest: float | None = None
        branch: Branch | None = self
        while branch is not None:
            if branch._deadline is not None:
                left = branch._deadline.left_ms
                soonest = left if soonest is None else min(soonest, left)
            branch = branch._parent
        return soonest

    def _end(self, ending: Ending) -> bool:
        """Be cancelled, unless it is; whether this did it. Whoever listens is told, in any case."""
        with LOCK:
            self._look()
            # Nothing is called between this look and the act: no finalizer and no signal handler comes in between.
            is_first = self._ending is None
            if is_first:
                self._ending = ending
        self._tell()
        return is_first

    def _look(self) -> Ending | None:
        """How it was cancelled, if it is. What comes from above goes before an own deadline that nobody has seen yet."""
        if self._ending is not None:
            return self._ending
        top: Branch | None = None
        branch: Branch | None = self
        while branch is not None:
            if branch._ending is not None:
                top = branch
                break
            if branch._deadline is not None and branch._deadline.is_over:
                top = branch
            branch = branch._parent
        return None if top is None else self._learn(top)

    def _learn(self, top: Branch) -> Ending:
        """Note what holds for one above, or for itself, with everybody on the way down who does not know better."""
        path: list[Branch] = [self]
        while path[-1] is not top:
            parent = path[-1]._parent
            assert parent is not None
            path.append(parent)
        ending = top._expired()
        with LOCK:
            for branch in reversed(path):
                if branch._ending is None:
                    branch._ending = ending
                ending = branch._ending
        return ending

    def _expired(self) -> Ending:
        """How it was cancelled; by its deadline, if nobody has said so yet."""
        if self._ending is not None:
            return self._ending
        assert self._deadline is not None
        return self._late(self._deadline.reason)

    def _late(self, reason: str) -> Ending:
        return Ending(reason, TimeoutError(reason), self._number)

    def _expire(self, reason: str) -> None:
        """What the deadline calls when it has come, or when nobody keeps it any more."""
        self._end(self._late(reason))

    def _is_heard(self) -> bool:
        """What the deadline asks: whether somebody listens."""
        return bool(self._listeners)

    def _tell(self) -> None:
        """Tell all who listen, here and below, in the order they came. Without recursion: trees may be deep."""
        error: BaseException | None = None
        under_way = [self._take()]
        while under_way:
            listener = next(under_way[-1], None)
            if listener is None:
                under_way.pop()
            elif isinstance(listener, Branch):
                listener._look()
                under_way.append(listener._take())
            else:
                try:
                    listener.interrupt()
                except Exception:
                    logger.exception(
                        "%r raised, told of the end of %r; the others are told all the same", listener, self
                    )
                except BaseException as first:  # noqa: BLE001  # Ctrl-C: it goes on when the others have been told
                    error = error or first
        if error is not None:
            raise error

    def _take(self) -> Iterator[Listener | Branch]:
        """Everybody who listens: whoever takes them tells them."""
        nobody: dict[Listener | Branch, None] = {}
        with LOCK:
            # Nothing is called between these two.
            listeners = self._listeners
            self._listeners = nobody
            disturbed = self._settle() if listeners else ()
        self._tend(disturbed)
        return iter(listeners)

    def _settle(self) -> list[Branch]:
        """Have it stand with its parent just while somebody listens, and so on upwards; whose deadlines to tend. LOCK is held.

        Each step is repeated until it is right: a finalizer may have changed what it was based on.
        """
        disturbed: list[Branch] = []
        branch = self
        while True:
            if branch._deadline is not None:
                disturbed.append(branch)
            parent = branch._parent
            if parent is None:
                return disturbed
            was_right = True
            while (branch in parent._listeners) != bool(branch._listeners):
                was_right = False
                if branch._listeners:
                    parent._listeners[branch] = None
                else:
                    parent._listeners.pop(branch, None)
            if was_right:
                return disturbed
            branch = parent

    @staticmethod
    def _tend(disturbed: Iterable[Branch]) -> None:
        """Have deadlines be on the wheel while somebody listens."""
        for branch in disturbed:
            assert branch._deadline is not None
            branch._deadline.tend(branch._is_heard, branch._expire)
