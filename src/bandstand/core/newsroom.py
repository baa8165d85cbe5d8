"""Where the events of a loop are told: into the books, into the log, and to whoever listens.

The kernel counts dead letters, drops, restarts and escalations itself, as it always has: a message that nothing happens to pays for
none of this. Its hooks are put in just while somebody listens. Everything else is told here, by the rooms above, when it
happens. So the books are true whether or not anybody listens, and there is one place that knows the sum.

A listener is somebody's code in the middle of the loop's work. What it raises is logged and goes no further. It may itself cause events:
those are told after the one at hand, in their order, so that nothing recurses. Without a bound that would be an endless loop
instead of an endless recursion; so after a number of them the loop goes on with its work, and the rest is told at the next tick. As many as
wait then are bounded, too: what is above is in the books, as untold, and in the log.

Refused: telling by a message to an actor, which would cost an actor for each loop and could be full; telling from other threads
as it happens, which would make every listener a program with threads. A stall is seen by another thread, and told afterwards on the loop's own.
"""

# One mechanism with the loop that owns it, and with its own listenings.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, TypeAlias, final

from bandstand.core.bulletin import Bulletin
from bandstand.core.events import (
    DeadLetter,
    Dropped,
    Escalated,
    EventCounts,
    Lagged,
    Restarted,
    RuntimeEvent,
    Stalled,
    Unhandled,
)
from bandstand.core.vocabulary import Lane
from bandstand.errors import InvalidArgument, LoopClosed
from bandstand.errors.formatting import safe_repr

if TYPE_CHECKING:
    from bandstand.core.clock import Clock
    from bandstand.core.hot.ids import ActorId
    from bandstand.core.logs import SafeLogger
    from bandstand.core.loop import Loop

__all__ = ("Listener", "Listening", "Newsroom")

Listener: TypeAlias = Callable[[RuntimeEvent], object]
"""What is called with each event."""

# How many events that listeners have caused are told in one go, before the loop goes on with its work.
MOST_IN_A_ROW = 64
# How many may wait to be told.
MOST_WAITING = 10_000


@final
class Listening:
    """That somebody listens. Keep it to end it."""

    __slots__ = ("_hear", "_newsroom")

    def __init__(self, newsroom: Newsroom, listener: Listener) -> None:
        self._newsroom = newsroom
        self._hear: Listener | None = listener

    def cancel(self) -> bool:
        """Listen no more, not even to what has happened already and waits to be told; False if it was over already.

        Raises:
            WrongThread: called off the loop's thread.
        """
        return self._newsroom._forget(self)  # noqa: SLF001  # one mechanism


@final
class Newsroom:
    """The events of one loop: `loop.events`. Everything belongs on the loop's own thread, and raises `WrongThread` elsewhere."""

    __slots__ = (
        "_bulletin",
        "_is_closed",
        "_is_due",
        "_is_telling",
        "_listenings",
        "_loop",
        "_told",
        "_waiting",
    )

    def __init__(self, loop: Loop, logger: SafeLogger, clock: Clock) -> None:
        self._loop = loop
        self._listenings: tuple[Listening, ...] = ()
        # What was told by others than the kernel, which counts for itself.
        self._told: dict[type, int] = dict.fromkeys(
            (DeadLetter, Dropped, Escalated, Lagged, Restarted, Stalled, Unhandled), 0
        )
        # What has happened, and to whom it is to be told: those who listened then.
        self._waiting: deque[tuple[RuntimeEvent, tuple[Listening, ...]]] = deque()
        self._is_telling = False
        self._is_due = False
        self._is_closed = False
        self._bulletin = Bulletin(logger, clock)

    # -- what a program uses -----------------------------------------------------------------------------------------------

    def listen(self, listener: Listener) -> Listening:
        """Have `listener(event)` called for each event from now on: on the loop's thread, inside what it tells of, and quickly.

        Two exceptions. What a listener causes itself is told after the event at hand, at the latest at a later tick. A stall is
        told when it is over. What it raises is logged. Several are called in the order they came; one that comes while an
        event is being told hears the next.

        Raises:
            InvalidArgument: it cannot be called, or is a coroutine function, which nobody would await.
            LoopClosed: the loop has ended.
            WrongThread: called off the loop's thread.
        """
        self._loop._check_thread()  # noqa: SLF001
        is_callable = callable(listener)  # callers without types
        if not is_callable or iscoroutinefunction(listener):
            raise InvalidArgument(
                f"listener is {safe_repr(listener)}: pass a plain function of one event; to await something, have it send to an actor"
            )
        if self._is_closed:
            raise LoopClosed("the loop has ended: it tells of nothing any more")
        listening = Listening(self, listener)
        self._listenings = (*self._listenings, listening)
        if len(self._listenings) == 1:
            self._loop._wire()  # noqa: SLF001
        return listening

    def tell(self, event: RuntimeEvent) -> None:
        """Something has happened: count it, tell whoever listens, and see that the log has a line. It raises nothing else.

        Raises:
            InvalidArgument: it is no event of the runtime.
            WrongThread: called off the loop's thread.
        """
        self._loop._check_thread()  # noqa: SLF001
        kind = type(event)
        if kind not in self._told:
            raise InvalidArgument(
                f"event is {safe_repr(event)}: pass one of {', '.join(sorted(map(_name, self._told)))}"
            )
        self._told[kind] += 1
        self._bulletin.note(event)
        self._loop._mentioned = -1  # noqa: SLF001
        self._publish(event)

    def counts(self) -> EventCounts:
        """How often each has happened since the loop was made, whether or not anybody listened.

        Raises:
            WrongThread: called off the loop's thread.
        """
        loop = self._loop
        loop._check_thread()  # noqa: SLF001
        told = self._told
        return EventCounts(
            dead_letters=loop._dead - loop._dead_system + told[DeadLetter],  # noqa: SLF001
            unhandled=told[Unhandled],
            dropped=loop._dropped - loop._dropped_system + told[Dropped],  # noqa: SLF001
            restarts=loop._restarts + told[Restarted],  # noqa: SLF001
            escalations=loop._escalations + told[Escalated],  # noqa: SLF001
            lagged=told[Lagged],
            stalls=told[Stalled],
            untold=self._bulletin.untold,
        )

    # -- what the loop uses ----------------------------------------------------------------------------------------------

    def hooks(self) -> dict[str, Callable[..., object]]:
        """What the kernel is to call, by the names of `Observer`: nothing while nobody listens."""
        if not self._listenings:
            return {}
        return {
            "on_dead_letter": self._hear_dead_letter,
            "on_dropped": self._hear_dropped,
            "on_actor_restart": self._hear_restart,
            "on_supervisor_escalate": self._hear_escalation,
        }

    def admit_crash(self, place: str, error: BaseException | None) -> int:
        """How a crash is to be logged: 1 with its traceback, more in a line, as that many of its kind, and 0 not at all."""
        count = self._bulletin.admit_crash(place, error)
        if count == 0:
            self._loop._mentioned = -1  # noqa: SLF001
        return count

    def speak(self, dead: int, dropped: int, *, is_last: bool = False) -> bool:
        """Say in the log what is due: each kind once a second at most, and all of it at the end; whether nothing is left to say."""
        told = self._told
        return self._bulletin.speak(dead + told[DeadLetter], dropped + told[Dropped], is_last=is_last)

    def close(self) -> None:
        """The loop ends. Whoever listens is told what waits, and then hears no more."""
        self._tell_waiting(len(self._waiting))
        self._bulletin.give_up(len(self._waiting))
        self._waiting.clear()
        for listening in self._listenings:
            listening._hear = None  # noqa: SLF001  # one mechanism
        self._listenings = ()
        self._is_closed = True

    def _hear_dead_letter(
        self, target: ActorId, lane: Lane, data: object, tag: object, _sender: object
    ) -> None:
        # What the system had to say to somebody who has ended is nothing that anybody has lost.
        if lane is not Lane.SYSTEM:
            self._publish(DeadLetter(target, lane, data, self._loop._what(data, tag)))  # noqa: SLF001

    def _hear_dropped(self, target: ActorId, lane: Lane, data: object, tag: object, _sender: object) -> None:
        self._publish(Dropped(target, lane, data, self._loop._what(data, tag)))  # noqa: SLF001

    def _hear_restart(self, supervisor: ActorId, child: ActorId, attempt: int) -> None:
        self._publish(Restarted(supervisor, child, attempt))

    def _hear_escalation(self, supervisor: ActorId) -> None:
        self._publish(Escalated(supervisor))

    def _publish(self, event: RuntimeEvent) -> None:
        """Tell whoever listens, after what waits already."""
        if not self._listenings:
            return
        if len(self._waiting) >= MOST_WAITING:
            self._bulletin.give_up(1)
            self._loop._mentioned = -1  # noqa: SLF001
            return
        self._waiting.append((event, self._listenings))
        if not self._is_telling:
            self._tell_waiting(MOST_IN_A_ROW)

    def _tell_waiting(self, most: int) -> None:
        """Tell so many of those that wait, and the rest at the next tick."""
        waiting = self._waiting
        self._is_telling = True
        try:
            while waiting and most > 0:
                most -= 1
                event, listenings = waiting.popleft()
                for listening in listenings:
                    hear = listening._hear  # noqa: SLF001  # one mechanism
                    if hear is not None:
                        self._tell_one(hear, event)
        finally:
            self._is_telling = False
        if waiting and not self._is_due:
            self._is_due = True
            self._loop._call_afar(self._go_on)  # noqa: SLF001

    def _tell_one(self, hear: Listener, event: RuntimeEvent) -> None:
        try:
            hear(event)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # noqa: BLE001  # whoever listens never hurts the loop
            self._loop._complain(f"a listener of the loop's events raised at {type(event).__name__}", error)  # noqa: SLF001

    def _go_on(self) -> None:
        self._is_due = False
        if not self._is_telling:
            self._tell_waiting(MOST_IN_A_ROW)

    def _forget(self, listening: Listening) -> bool:
        self._loop._check_thread()  # noqa: SLF001
        if listening._hear is None:  # noqa: SLF001  # one mechanism
            return False
        listening._hear = None  # noqa: SLF001  # same
        self._listenings = tuple(each for each in self._listenings if each is not listening)
        if not self._listenings:
            self._loop._wire()  # noqa: SLF001
        return True


def _name(kind: type) -> str:
    return kind.__name__
