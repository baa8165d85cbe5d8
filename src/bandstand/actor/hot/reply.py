"""A reply: the one place where the answer to one ask arrives, once.

An ask costs no task and, mostly, no future. The reply travels in the sender's place of the message; whoever awaits it
outside a tick runs the tick himself, and usually finds the answer there when it is over. Only one who really has to wait
gets a future, a deadline on the wheel, and an edge in the graph of who waits for whom, where a cycle is found before it
becomes a deadlock.

One shot. The first of these counts: the answer, an error that the handler answers with, the target's end, the deadline, the
asker's cancellation. An answer that comes after one of the latter is dropped and counted as late.

Who waits for whom. An actor waits when a reply that was asked for in its present turn is awaited: by its own coroutine, or
by a task made for it there (`asyncio.gather`, `asyncio.wait_for`). Work in the background is nobody's turn, and waits for
itself alone. What cannot be attributed (a task that asks by itself, another thread) has its deadline.
"""

# PyThread_get_thread_ident comes from one of two places, of which the checker sees one.
# pyright: reportPossiblyUnboundVariable=false
# The hot modules are one mechanism in several files, across both rooms: they share kernels' insides by .pxd.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from asyncio import CancelledError, get_running_loop
from collections.abc import Generator
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from bandstand.actor.crossing import CROSSINGS, begin_crossing, chase_afar, refuse_crossing
from bandstand.actor.enums import ANSWERED, CANCELLED, EXPIRED, FAILED, LOST, PENDING
from bandstand.actor.hot.asks import Asked, Asks
from bandstand.core.hot.cell import Cell
from bandstand.core.hot.desk import Desk
from bandstand.core.vocabulary import ExitReason
from bandstand.errors import (
    AskCycle,
    AskTimeout,
    LoopBusy,
    MessageDropped,
    TargetEnded,
    WrongThread,
)

try:
    import cython
except ModuleNotFoundError:  # interpreted, where Cython is not installed
    from bandstand.core import interpreted as cython  # type: ignore[no-redef]  # one of the two

if not cython.compiled:
    # Compiled, this is C's function, declared in the .pxd.
    from threading import get_ident as PyThread_get_thread_ident

if TYPE_CHECKING:
    from bandstand.actor.hot.method import Method
    from bandstand.core.hot.ids import ActorId
    from bandstand.core.hot.wheel import Timer

Count: TypeAlias = int
Milliseconds: TypeAlias = int
Nanoseconds: TypeAlias = int
ReasonNumber: TypeAlias = int
State: TypeAlias = int

REASONS = tuple(ExitReason)


class Reply(Asked):
    """The answer to one ask, to be awaited. Awaiting it again gives the same again."""

    __slots__ = (
        "alarm",
        "asked_at",
        "asker",
        "asks",
        "kernel",
        "method",
        "ms",
        "name",
        "serial",
        "state",
        "stepper",
        "timer",
        "value",
        "waiters",
    )

    def __init__(
        self,
        kernel: Desk,
        actor: ActorId,
        name: str | None,
        method: Method | None,
        ms: Milliseconds,
        asks: Asks,
    ) -> None:
        super().__init__(actor)
        self.kernel = kernel
        self.name = name
        self.method = method
        self.ms = ms
        self.asks = asks
        self.asked_at: Nanoseconds = 0
        # The actor whose coroutine asked, and which of whose coroutines that was.
        self.asker: Cell | None = None
        self.stepper: Any = None
        self.serial: Count = 0
        self.state: State = PENDING
        self.value: Any = None
        self.timer: Timer | None = None
        # The host's, where nobody drives the loop.
        self.alarm: Any = None
        self.waiters: list[Any] | None = None

    # -- how it ends ---------------------------------------------------------------------------------------------------

    def answer(self, value: object) -> None:
        """The handler has answered."""
        if self.state != PENDING:
            if self.state >= CANCELLED:
                self.asks.late += 1
            return
        self.asks.answered += 1
        self.state = ANSWERED
        self.value = value
        if self.waiters is not None:
            self.wake()

    def fail(self, error: BaseException) -> None:
        """It ends with an error."""
        if self.state != PENDING:
            if self.state >= CANCELLED:
                self.asks.late += 1
            return
        self.asks.failed += 1
        self.state = FAILED
        self.value = error
        if self.waiters is not None:
            self.wake()

    def lost(
        self, actor: ActorId | None, name: str | None, reason: ReasonNumber, cause: BaseException | None
    ) -> None:
        """The target has ended without an answer."""
        if self.state == PENDING:
            self.lose(TargetEnded.of(self.target(), self.what(), REASONS[reason].name, cause))

    def dropped(self, actor: ActorId | None, name: str | None) -> None:
        """The target's mailbox was full, and its policy has given the ask up."""
        if self.state == PENDING:
            self.lose(
                MessageDropped(
                    f"{self.what()}, asked of {self.target()}, was given up by the overflow policy of its full mailbox"
                )
            )

    def lose(self, error: BaseException) -> None:
        """It is pending, and nobody will answer, or it would be too late."""
        self.fail(error)
        self.state = LOST

    def expire(self) -> None:
        """The deadline has come."""
        self.timer = None
        if self.state != PENDING:
            return
        self.asks.expired += 1
        self.state = EXPIRED
        waited = (self.kernel._elapsed() - self.asked_at) / 1e6
        # What the error is made of, not the error: its traceback would keep the asker alive while the message still waits.
        self.value = (self.target(), self.what(), waited, depth_of(self.actor))
        self.wake()
        recall = self.asks.recall
        if recall is not None and self.method is not None and self.method.is_reentrant:
            recall(self.actor)

    def cancel(self) -> bool:
        """Take the ask back: a handler that has not begun never does, one that is at it is cancelled at its next await.

        Whoever awaits it gets a CancelledError. False if it had ended already.
        """
        if self.state != PENDING:
            return False
        self.asks.cancelled += 1
        self.state = CANCELLED
        self.wake()
        interrupt_handler(self.actor, self)
        return True

    def is_withdrawn(self) -> bool:
        """Whether the asker has taken the ask back."""
        return self.state == CANCELLED

    def done(self) -> bool:
        """Whether it has ended, one way or the other."""
        return self.state != PENDING

    def detach(self) -> None:
        """Say that the turn in which it was asked does not wait for it."""
        self.asker = None

    # -- waiting for it ------------------------------------------------------------------------------------------------

    def result(self) -> Any:
        """What it ended with: the answer, or an error that is raised."""
        if self.state == ANSWERED:
            return self.value
        if self.state == PENDING:
            raise LoopBusy(f"{self.target()} has not answered {self.what()} yet: await the reply")
        if self.state == CANCELLED:
            raise CancelledError
        if self.state == EXPIRED:
            raise AskTimeout.of(*self.value)
        error = self.value
        # Raised anew each time: or a reply awaited twice would show the traceback of both.
        raise error.with_traceback(None)

    def __bool__(self) -> NoReturn:
        raise TypeError(f"the reply to {self.what()} is no answer, and would always be true: await it")

    def add_waiter(self, waiter: Any) -> None:
        """Have `waiter.set_result(None)` called when it has ended, unless `waiter.done()`."""
        if self.state != PENDING:
            waiter.set_result(None)
        elif self.waiters is None:
            self.waiters = [waiter]
        else:
            self.waiters.append(waiter)

    def __await__(self) -> Generator[Any, Any, Any]:
        """Wait for the answer."""
        if self.state == PENDING:
            kernel = self.kernel
            if PyThread_get_thread_ident() != kernel._owner:
                raise WrongThread(
                    f"the reply to {self.what()} can be awaited only on the thread that asked for it"
                )
            while kernel._tick_inline():
                if self.state != PENDING:
                    break
            if self.state == PENDING:
                yield from self.wait()
        return self.result()

    def wait(self) -> Generator[Any, Any, None]:
        """Wait by a future of the running event loop."""
        crossing: Any = None
        asker = self.present_asker()
        if asker is None:
            # The program, or an actor of another loop of this thread.
            crossing = begin_crossing(self, self.method)
        else:
            self.refuse_cycle(asker)
            if CROSSINGS:
                refuse_crossing(asker.actor, self, self.method)  # type: ignore[arg-type]  # a living cell has an id
        future = self.kernel._pause()
        if future is None:
            future = get_running_loop().create_future()
        if self.waiters is None:
            self.waiters = []
            self.set_deadline()
        self.waiters.append(future)
        if asker is not None:
            self.asks.waits.setdefault(asker, []).append(self)
            if CROSSINGS:
                chase_afar(self.actor)
        try:
            yield from future
        except BaseException:  # a cancellation, or the end of the event loop: it goes on, we only tidy up
            self.waiters.remove(future)
            if not self.waiters:
                self.cancel()
            raise
        finally:
            if asker is not None:
                self.forget(asker)
            elif crossing is not None:
                crossing.end()

    def set_deadline(self) -> None:
        """Have the wheel see to it that the wait ends, once somebody waits."""
        if self.ms >= 0 and self.timer is None and self.alarm is None:
            kernel = self.kernel
            passed = (kernel._elapsed() - self.asked_at) // 1000000
            left = self.ms - passed
            if left < 0:
                left = 0
            if kernel._may_inline:
                self.timer = kernel._call_after(left, self.expire)
            else:
                # Nobody drives the loop, and its wheel may never turn: but the wait has its end.
                self.alarm = get_running_loop().call_later(left / 1000.0, self.expire)

    def present_asker(self) -> Cell | None:
        """The actor that waits, if one does in its turn: the one that is running, or the one whose coroutine asked."""
        current = self.kernel._current
        if current is not None:
            return current
        asker = self.asker
        stepper: Any = self.stepper
        if asker is None or stepper.serial != self.serial or asker.driver is not stepper:
            # Nobody's turn, or one that is over.
            return None
        return asker

    def note_asker(self) -> None:
        """Note whose coroutine asks. A plain handler cannot wait, so it does not count."""
        stepper = self.kernel._stepper
        if stepper is not None:
            self.asker = self.kernel._current
            self.stepper = stepper
            self.serial = stepper.serial

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"{self!r} is the one place for one answer, and cannot be pickled or copied")

    def refuse_cycle(self, asker: Cell) -> None:
        """Raise if the target waits, directly or through others, for the one that is about to wait for it.

        Unless one of the asks that make up the cycle may be handled out of turn: then it is, and there is no cycle any more.
        """
        links: list[Any] | None = self.asks.cycle(asker, self.actor.cell)
        if links is None:
            return
        while self.gives_way(links):
            left: list[Any] | None = self.asks.cycle(asker, self.actor.cell)
            if left is None:
                return
            links = left
        steps = [f"{self.called(asker)} asks {self.target()} for {self.what()}"]
        steps += [f"which waits for {reply.target()} to answer {reply.what()}" for reply in links]
        self.cancel()
        raise AskCycle(
            f"{', '.join(steps)}: they would wait for each other until their deadlines. Ask in the background, or send a "
            f"message and let the answer come as one."
        )

    def gives_way(self, links: list[Any]) -> bool:
        """Have one of the asks of a cycle handled out of turn, if one may be; whether one is."""
        serve = self.asks.serve
        if serve is None:
            return False
        for reply in [self, *links]:
            method = reply.method
            if method is not None and method.is_reentrant and serve(reply, method):
                return True
        return False

    def account(self) -> tuple[ActorId, str | None, str, Nanoseconds]:
        """For people: of whom it was asked, what, and when, by the loop's clock."""
        return (self.actor, self.name, self.what(), self.asked_at)

    def forget(self, asker: Cell) -> None:
        """The asker waits for this no more."""
        waits = self.asks.waits
        mine = waits.get(asker)
        if mine is not None:
            if self in mine:
                mine.remove(self)
            if not mine:
                del waits[asker]

    def wake(self) -> None:
        """Release everybody who waits."""
        timer = self.timer
        if timer is not None:
            self.timer = None
            self.kernel._cancel_call(timer)
        if self.alarm is not None:
            self.alarm.cancel()
            self.alarm = None
        waiters = self.waiters
        if waiters is None:
            return
        for future in waiters:
            if not future.done():
                future.set_result(None)

    # -- words ---------------------------------------------------------------------------------------------------------

    def target(self) -> str:
        """How to speak of the target."""
        return repr(self.actor) if self.name is None else f"{self.name!r} {self.actor!r}"

    def called(self, cell: Cell) -> str:
        """How to speak of an actor."""
        return repr(cell.actor) if cell.name is None else f"{cell.name!r} {cell.actor!r}"

    def what(self) -> str:
        """How to speak of what was asked."""
        method = self.method
        return "a message" if method is None else f"{method.owner}.{method.name}()"

    def __repr__(self) -> str:
        states = ("pending", "answered", "failed", "cancelled", "expired", "lost")
        return f"<Reply {states[self.state]}: {self.what()} of {self.target()}>"


def depth_of(actor: ActorId) -> int:
    """How many messages wait for an actor."""
    cell = actor.cell
    return 0 if cell is None else cell.waiting()


def interrupt_handler(actor: ActorId, asked: Asked) -> None:
    """Cancel the coroutine of an actor's handler, if it is at this ask, here or wherever it was passed on to. Loop thread only."""
    if asked.relay is not None:
        asked.relay()
        return
    cell = actor.cell
    if cell is not None and cell.driver is not None and cell.turn is not None and cell.turn.sender is asked:
        cell.driver.cancel()
