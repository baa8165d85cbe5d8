"""Replies: what an ask returns, and the table of all asks of one loop.

An ask needs no task and usually no future. The `LocalReply` travels as the sender of the message. Code outside a tick that
awaits it runs the tick itself, and usually finds the answer when the tick ends. Only if the reply is still pending does it get
a future, a deadline on the timer wheel, and an edge in the wait graph, where a cycle is detected before it becomes a deadlock.

A reply ends exactly once: with the answer, with an error that the handler declares, because the target exits, at its deadline,
or because the asker cancels. The loop drops an answer that arrives after that, and counts it as late.

The wait graph holds a wait for an actor if the reply was requested in the actor's current turn and is awaited by its own
coroutine or by a task created there (`asyncio.gather`, `asyncio.wait_for`). Background work does not block its actor, so it is
not part of the graph. A wait that cannot be attributed to an actor (a task that asks, another thread) ends at its deadline.

A reply is a `collections.abc.Coroutine`, so that it can be the coroutine of a task; `task_steps` does that.
"""

# PyThread_get_thread_ident and new_reply have one definition for each mode, and pyright sees one of them.
# pyright: reportPossiblyUnboundVariable=false
from __future__ import annotations

from _thread import allocate_lock
from abc import ABC, abstractmethod
from asyncio import CancelledError, get_running_loop
from collections.abc import Callable, Coroutine, Generator
from math import ceil
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias, TypeVar

from bandstand.actor.enums import ANSWERED, CANCELLED, EXPIRED, FAILED, LOST, PENDING
from bandstand.actor.task_steps import TaskSteps, thrown
from bandstand.actor.wait_graph import (
    CROSS_LOOP_WAITS,
    add_cross_loop_wait,
    add_wait_of,
    cycle_error,
    probe_other_processes,
    refuse_cross_loop_cycle,
)
from bandstand.core.delivery import DeliveryCallback
from bandstand.core.enums import OTHER_LOOP, THIS_LOOP, ExitReason
from bandstand.core.kernel import Kernel
from bandstand.core.mailbox import ActorCell
from bandstand.errors import (
    AskTimeoutError,
    LoopBusyError,
    MessageDroppedError,
    TargetEndedError,
    WrongThreadError,
)
from bandstand.errors.validation import Seconds, to_ms

try:
    import cython
except ModuleNotFoundError:  # interpreted, where Cython is not installed
    from bandstand.core import _cython as cython  # type: ignore[no-redef]  # one of the two

if not cython.compiled:
    # In compiled mode this is the C function, declared in the .pxd.
    from threading import get_ident as PyThread_get_thread_ident

if TYPE_CHECKING:
    from bandstand.actor.dispatch import Method
    from bandstand.actor.reentrancy import Reentrancy
    from bandstand.core.ids import ActorId
    from bandstand.core.timer_wheel import Timer
    from bandstand.errors import AskCycleError

Count: TypeAlias = int
Kind: TypeAlias = int
Milliseconds: TypeAlias = int
Nanoseconds: TypeAlias = int
ReasonNumber: TypeAlias = int
State: TypeAlias = int

R_co = TypeVar("R_co", covariant=True)

REASONS = tuple(ExitReason)
STATE_NAMES = ("pending", "answered", "failed", "cancelled", "expired", "lost")

# What a LocalReply waits for: the answer to an ask, room in a mailbox, or the exit of an actor.
ASK = 0
ROOM = 1
EXIT = 2

NO_ROOM = "before there was room for"

# "The caller passed no deadline", where None means "no deadline". Compared by value: a spec may come from another process.
UNSET_TIMEOUT = float("-inf")


# True for mypy alone.
MYPY = False


class ForgottenAwait:
    """What a reply would be in a condition: pyright's error names this class."""


class Reply(Coroutine[Any, Any, R_co], ABC):
    """The answer to one ask. Await it to get the answer; awaiting it again gives the same answer.

    A reply works wherever asyncio takes a coroutine: `asyncio.create_task`, `TaskGroup.create_task`, `asyncio.gather`,
    `asyncio.wait_for`. Cancelling such a task cancels the ask, unless another coroutine awaits the reply.

    The ask is sent when the method is called, not when the reply is awaited, so several asks can run at the same time. A reply
    ends exactly once: with the answer, with an exception that the method declares (`@ask(raises=...)`), with `TargetEndedError` if
    the actor exits first, with `AskTimeoutError` at its deadline, or cancelled. The deadline counts from the ask and applies while
    the reply is awaited. A reply can only be awaited on the thread that asked.
    """

    __slots__ = ()

    @abstractmethod
    def __await__(self) -> Generator[Any, Any, R_co]:
        """Wait for the answer."""
        ...

    if not MYPY:
        # A return type that is no bool makes pyright report a condition whose `await` is missing. mypy reports it (truthy-bool) only if there
        # is no such method; NoReturn would end its analysis of the function there.
        @abstractmethod
        def __bool__(self) -> ForgottenAwait:
            """Refuse a truth test: a reply is not the answer and would always be true.

            Raises:
                TypeError: always.
            """
            ...

    @abstractmethod
    def result(self) -> R_co:
        """Return the answer, or raise the error that the reply ended with.

        Raises:
            LoopBusyError: the reply is still pending.
        """
        ...

    @abstractmethod
    def cancel(self) -> bool:
        """Cancel the ask. Return False if the reply has already ended.

        A handler that has not started never runs; one that is suspended is cancelled at its current `await`.
        """
        ...

    @abstractmethod
    def done(self) -> bool:
        """Return whether the reply has ended."""
        ...


class ReplyCallback(DeliveryCallback):
    """Receives the result of one message, on the loop's own thread or for another one.

    Attributes:
        actor: the actor that was asked. Once the message is dispatched, the incarnation that handles it.
        relay: called when the asker cancels, if the actor only forwards the message; None otherwise.
    """

    __slots__ = ("actor", "relay")

    def __init__(self, actor: ActorId) -> None:
        self.actor = actor
        self.relay: Callable[[], object] | None = None

    def answer(self, value: object) -> None:
        """Take the handler's answer."""

    def fail(self, error: BaseException) -> None:
        """Take an error that the handler declares. It is an answer, not a failure of the actor."""

    def is_cancelled(self) -> bool:
        """Return whether the asker has cancelled."""
        return False

    def done(self) -> bool:
        """Return whether a result has arrived. The asker may not have run since then."""
        return False

    def redirect(self, actor: ActorId) -> None:
        """Note that the message was held back, and now goes to this actor."""
        self.actor = actor

    def withdrawn(self) -> None:
        """Take note that the actor, which runs in another process, will not answer, because the asker has cancelled."""

    def reroute(self) -> bool:
        """Return whether the message goes another way, after its link was lost and before it was sent. Then `lost` is not called."""
        return False


class AskTable:
    """The asks of one loop: counters, and the waits between its actors.

    Invariant: `asked == answered + failed + cancelled + expired + pending`.
    """

    __slots__ = (
        "answered",
        "asked",
        "cancelled",
        "expired",
        "failed",
        "late",
        "lock",
        "other_threads",
        "reentrancy",
        "unhandled",
        "waits",
    )

    def __init__(self) -> None:
        self.asked: Count = 0
        self.answered: Count = 0
        self.failed: Count = 0
        self.cancelled: Count = 0
        self.expired: Count = 0
        self.late: Count = 0
        # Asks from other threads have their own counters, under a lock: the ones above are plain read-modify-write.
        self.other_threads: dict[str, Count] = dict.fromkeys(
            ("asked", "answered", "failed", "cancelled", "expired", "late"), 0
        )
        self.lock = allocate_lock()
        # Messages that the target has no method for.
        self.unhandled: Count = 0
        # For each actor that waits in its turn, the replies it waits for.
        self.waits: dict[ActorCell, list[ReplyCallback]] = {}
        # Runs reentrant asks that would close a cycle; set by the loop.
        self.reentrancy: Reentrancy | None = None

    def count_other_thread(self, name: str, change: Count = 1) -> None:
        """Change a counter on behalf of another thread."""
        with self.lock:
            self.other_threads[name] += change

    def counts(self) -> dict[str, Count]:
        """Return the counters by name."""
        others = self.other_threads
        return {
            "asked": self.asked + others["asked"],
            "answered": self.answered + others["answered"],
            "failed": self.failed + others["failed"],
            "cancelled": self.cancelled + others["cancelled"],
            "expired": self.expired + others["expired"],
            "late": self.late + others["late"],
            "unhandled": self.unhandled,
        }

    def edges(self) -> list[tuple[ActorId | None, str | None, ReplyCallback]]:
        """Return every wait: id and name of the actor that waits, and the reply it waits for."""
        return [(cell.actor, cell.name, reply) for cell, replies in self.waits.items() for reply in replies]

    def waits_of(self, actor: ActorId) -> list[ReplyCallback]:
        """Return the replies that an actor waits for in its turn. Thread-safe."""
        cell = actor.cell
        return [] if cell is None else list(self.waits.get(cell, ()))

    def find_cycle(self, asker: ActorCell, target: ActorCell | None) -> list[ReplyCallback] | None:
        """Return the chain of replies by which `target` waits for `asker`, in order; None if it does not."""
        if target is asker:
            return []
        if target is None or not self.waits:
            return None
        paths: list[tuple[ActorCell, list[ReplyCallback]]] = [(target, [])]
        seen = {target}
        while paths:
            cell, path = paths.pop()
            for reply in self.waits.get(cell, ()):
                if reply.done():
                    # The asker has its answer and only needs to be scheduled.
                    continue
                following = reply.actor.cell
                if following is asker:
                    return [*path, reply]
                if following is not None and following not in seen:
                    seen.add(following)
                    paths.append((following, [*path, reply]))
        return None


class LocalReply(ReplyCallback):
    """An awaitable result on the loop's own thread: of an ask, of a wait for mailbox room, or of a wait for an exit.

    `kind` says which. Only asks change the counters of the `AskTable`. `scope.event.OneShotEvent` is the counterpart for any
    thread; it has a lock.
    """

    __slots__ = (
        "alarm",
        "asked_at",
        "asker",
        "driver",
        "kernel",
        "kind",
        "method",
        "ms",
        "name",
        "serial",
        "state",
        "steps",
        "table",
        "timer",
        "value",
        "waiter",
        "waiters",
    )

    def __init__(
        self,
        kind: Kind,
        kernel: Kernel,
        actor: ActorId,
        name: str | None,
        method: Method | None,
        table: AskTable,
    ) -> None:
        super().__init__(actor)
        self.kind: Kind = kind
        self.kernel = kernel
        self.name = name
        self.method = method
        self.table = table
        # How long to wait, in milliseconds; negative for no limit.
        self.ms: Milliseconds = -1
        self.asked_at: Nanoseconds = self.kernel.timers.elapsed()
        # The actor whose coroutine asked, the driver that ran it, and which of that driver's coroutines it was.
        self.asker: ActorCell | None = None
        self.driver: Any = None
        self.serial: Count = 0
        self.state: State = PENDING
        self.value: Any = None
        # The deadline: on the timer wheel, or on the event loop if nothing drives the loop.
        self.timer: Timer | None = None
        self.alarm: Any = None
        # Futures of the coroutines that wait for this reply; None before the first.
        self.waiters: list[Any] | None = None
        # The kernel's entry for a wait for room or for an exit.
        self.waiter: Timer | None = None
        # The awaits of tasks whose coroutine is this reply; None before the first.
        self.steps: TaskSteps | None = None

    # -- results -------------------------------------------------------------------------------------------------------

    def answer(self, value: object) -> None:
        """Take the handler's answer."""
        if self.state == PENDING:
            self.table.answered += 1
            self.settle(ANSWERED, value)
        elif self.state >= CANCELLED:
            self.table.late += 1

    def fail(self, error: BaseException) -> None:
        """End with an error: one the handler declares, or why a message cannot be sent."""
        if self.kind != ASK:
            self.end_wait(FAILED, error)
        elif self.state == PENDING:
            self.table.failed += 1
            self.settle(FAILED, error)
        elif self.state >= CANCELLED:
            self.table.late += 1

    def lost(
        self,
        actor: ActorId | None,  # noqa: ARG002  # the reply has it
        name: str | None,  # noqa: ARG002  # same
        reason: ReasonNumber,
        cause: BaseException | None,
    ) -> None:
        """Take note that the target has exited."""
        if self.kind == EXIT:
            self.end_wait(ANSWERED, REASONS[reason])
        elif self.state == PENDING:
            if self.kind == ROOM:
                self.lose(
                    TargetEndedError.of(self.target(), self.what(), REASONS[reason].name, cause, NO_ROOM)
                )
            else:
                self.lose(TargetEndedError.of(self.target(), self.what(), REASONS[reason].name, cause))

    def dropped(self, actor: ActorId | None, name: str | None) -> None:  # noqa: ARG002  # the reply has both
        """Take note that the target's overflow policy has dropped the message."""
        if self.state == PENDING:
            self.lose(
                MessageDroppedError(
                    f"{self.what()}, asked of {self.target()}, was dropped by the overflow policy of its full mailbox"
                )
            )

    def redirect(self, actor: ActorId) -> None:
        """Note that the message was held back, and now goes to this actor; fail if that actor waits for the one that asked."""
        self.actor = actor
        asker = self.asker
        driver: Any = self.driver
        if asker is None or driver.serial != self.serial or asker.driver is not driver:
            # No actor asked, or its turn is over.
            return
        chain: list[Any] | None = self.table.find_cycle(asker, actor.cell)
        if chain is not None:
            self.fail(self.make_cycle_error(asker, chain))

    def accepted(self) -> None:
        """Take note that the message has its room in the mailbox."""
        self.end_wait(ANSWERED, None)

    def may_go_to_next(self) -> bool:
        """Return whether this is an ask that has not ended."""
        return self.kind == ASK and self.state == PENDING

    def lose(self, error: BaseException) -> None:
        """End a pending reply with an error although the handler may still answer. Such an answer counts as late."""
        if self.kind == ASK:
            self.table.failed += 1
            self.settle(LOST, error)
        else:
            self.end_wait(FAILED, error)

    def expire(self) -> None:
        """End at the deadline."""
        self.timer = None
        if self.state != PENDING:
            return
        self.table.expired += 1
        waited = (self.kernel.timers.elapsed() - self.asked_at) / 1e9
        # The arguments of the error, not the error: its traceback would keep the asker alive while the message is queued.
        self.settle(EXPIRED, (self.target(), self.what(), waited, mailbox_depth(self.actor)))
        reentrancy = self.table.reentrancy
        if reentrancy is not None and self.method is not None and self.method.is_reentrant:
            reentrancy.stop(self.actor)

    def cancel(self) -> bool:
        """Cancel the ask or the wait. Return False if it has already ended.

        A handler that has not started never runs; one that is suspended is cancelled at its current `await`. Coroutines that
        await the reply get a `CancelledError`.
        """
        if self.state != PENDING:
            return False
        if self.kind == ASK:
            self.table.cancelled += 1
            self.settle(CANCELLED, None)
            cancel_handler(self.actor, self)
        else:
            if self.waiter is not None:
                self.kernel.timers.stop_waiting(self.waiter)
            self.end_wait(CANCELLED, None)
        return True

    def end_wait(self, state: State, value: object) -> None:
        """End a wait for room or for an exit, unless it has ended."""
        self.waiter = None
        if self.state == PENDING:
            self.settle(state, value)

    def settle(self, state: State, value: object) -> None:
        """Store the result and wake every waiter."""
        self.state = state
        self.value = value
        if self.waiters is not None:
            self.wake()

    def wake(self) -> None:
        """Cancel the deadline and wake every waiter."""
        timer = self.timer
        if timer is not None:
            self.timer = None
            self.kernel.timers.cancel_call(timer)
        if self.alarm is not None:
            self.alarm.cancel()
            self.alarm = None
        assert self.waiters is not None
        for future in self.waiters:
            if not future.done():
                future.set_result(None)

    def is_cancelled(self) -> bool:
        """Return whether the asker has cancelled."""
        return self.state == CANCELLED

    def done(self) -> bool:
        """Return whether the reply has ended."""
        return self.state != PENDING

    def result(self) -> Any:
        """Return the answer, or raise the error that the reply ended with."""
        if self.state == ANSWERED:
            return self.value
        if self.state == PENDING:
            raise LoopBusyError(f"{self.target()} has not answered {self.what()} yet: await the reply")
        if self.state == CANCELLED:
            raise CancelledError
        if self.state == EXPIRED:
            raise AskTimeoutError.of(*self.value)
        error = self.value
        # Without the old traceback: a reply that is awaited twice would show both.
        raise error.with_traceback(None)

    # -- waiting -------------------------------------------------------------------------------------------------------

    def __await__(self) -> Generator[Any, Any, Any]:
        """Wait for the result: run ticks if this is possible, else wait by a future of the running event loop."""
        if self.state == PENDING:
            kernel = self.kernel
            if PyThread_get_thread_ident() != kernel.owner:
                raise WrongThreadError(
                    f"the reply to {self.what()} can be awaited only on the thread that asked for it"
                )
            while kernel.tick_inline():
                if self.state != PENDING:
                    break
        if self.state == PENDING:
            future, asker, cross_loop_wait = self.begin_wait()
            try:
                yield from future
            except BaseException:  # a cancellation, or the event loop is closing
                assert self.waiters is not None
                self.waiters.remove(future)
                if not self.waiters:
                    self.cancel()
                raise
            finally:
                if asker is not None:
                    self.remove_edge(asker)
                elif cross_loop_wait is not None:
                    cross_loop_wait.end()
        return self.result()

    # A task of asyncio calls these three, if the reply is its coroutine.

    def send(self, value: Any, /) -> Any:
        """Step the current task's await."""
        if self.steps is None:
            self.steps = TaskSteps()
        return self.steps.send(self, value)

    def throw(
        self,
        error: type[BaseException] | BaseException,
        value: object = None,
        traceback: TracebackType | None = None,
        /,
    ) -> Any:
        """Raise an error in the current task's await; if that has not begun, cancel the ask and raise the error."""
        if self.steps is None:
            self.steps = TaskSteps()
        return self.steps.throw(self, thrown(error, value, traceback))

    def close(self) -> None:
        """End the current task's await; if that has not begun, cancel the ask."""
        if self.steps is None:
            self.cancel_unless_awaited()
        else:
            self.steps.close(self)

    def cancel_unless_awaited(self) -> None:
        """Cancel the ask, unless a coroutine awaits the reply."""
        if not self.waiters:
            self.cancel()

    def begin_wait(self) -> tuple[Any, ActorCell | None, Any]:
        """Add a waiter and an edge of the wait graph. Return the waiter's future, the actor that waits, and a cross-loop wait.

        Raises:
            AskCycleError: the target waits for the actor that is about to wait.
        """
        asker = self.current_asker()
        cross_loop_wait: Any = None
        kernel = self.kernel
        source = THIS_LOOP
        if asker is None:
            sibling = kernel.running_sibling()
            if sibling is None:
                # Code outside all actors, as far as this kernel knows.
                cross_loop_wait = add_cross_loop_wait(self, self.method)
            else:
                # An actor of another loop on this event loop. The target may wait for it only if it has a suspended coroutine.
                cell: Any = sibling.current
                target = self.actor.cell
                may_wait = target is None or target.driver is not None
                cross_loop_wait = add_wait_of(cell.actor, self, self.method, may_wait)
                kernel = sibling
                source = OTHER_LOOP
        else:
            self.refuse_cycle(asker)
            if CROSS_LOOP_WAITS:
                refuse_cross_loop_cycle(asker.actor, self, self.method)  # type: ignore[arg-type]  # a live cell has an id
        future: Any = kernel.coroutines.new_future(source)
        if future is None:
            future = get_running_loop().create_future()
        if self.waiters is None:
            self.waiters = [future]
            self.set_deadline()
        else:
            self.waiters.append(future)
        if asker is not None:
            waits = self.table.waits
            if asker in waits:
                waits[asker].append(self)
            else:
                waits[asker] = [self]
            if CROSS_LOOP_WAITS:
                probe_other_processes(self.actor)
        return (future, asker, cross_loop_wait)

    def add_waiter(self, waiter: Any) -> None:
        """Call `waiter.set_result(None)` when the reply ends, unless `waiter.done()`."""
        if self.state != PENDING:
            waiter.set_result(None)
        elif self.waiters is None:
            self.waiters = [waiter]
        else:
            self.waiters.append(waiter)

    def set_deadline(self) -> None:
        """Start the timer that ends the wait at its deadline."""
        if self.ms < 0 or self.timer is not None or self.alarm is not None:
            return
        kernel = self.kernel
        passed = (kernel.timers.elapsed() - self.asked_at) // 1000000
        left = self.ms - passed
        if left < 0:
            left = 0
        if kernel.coroutines.may_inline:
            self.timer = kernel.timers.call_after(left, self.expire)
        else:
            # Nothing drives the loop, so its timer wheel may never advance.
            self.alarm = get_running_loop().call_later(left / 1000.0, self.expire)

    def note_asker(self) -> None:
        """Note which actor's coroutine asks. A plain handler cannot wait, so it is not noted."""
        driver = self.kernel.coroutines.stepper
        if driver is not None:
            self.asker = self.kernel.current
            self.driver = driver
            self.serial = driver.serial

    def current_asker(self) -> ActorCell | None:
        """Return the actor that waits: the one that is running, or the one whose coroutine asked, if it still runs it."""
        current = self.kernel.current
        if current is not None:
            return current
        asker = self.asker
        driver: Any = self.driver
        if asker is None or driver.serial != self.serial or asker.driver is not driver:
            # No actor asked, or its turn is over.
            return None
        return asker

    def detach(self) -> None:
        """Do not count this reply as a wait of the turn that asked: background work awaits it."""
        self.asker = None

    # -- the wait graph ------------------------------------------------------------------------------------------------

    def refuse_cycle(self, asker: ActorCell) -> None:
        """Raise if the target waits, directly or through others, for the actor that is about to wait.

        If one of the asks in the cycle is reentrant, it is handled now instead, and there is no cycle.

        Raises:
            AskCycleError: no ask in the cycle is reentrant.
        """
        chain: list[Any] | None = self.table.find_cycle(asker, self.actor.cell)
        if chain is None:
            return
        while self.break_cycle(chain):
            left: list[Any] | None = self.table.find_cycle(asker, self.actor.cell)
            if left is None:
                return
            chain = left
        self.cancel()
        raise self.make_cycle_error(asker, chain)

    def make_cycle_error(self, asker: ActorCell, chain: list[Any]) -> AskCycleError:
        """Return the error for a cycle of asks."""
        steps = [f"{self.label(asker)} asks {self.target()} for {self.what()}"]
        steps += [f"which waits for {reply.target()} to answer {reply.what()}" for reply in chain]
        return cycle_error(steps)

    def break_cycle(self, chain: list[Any]) -> bool:
        """Have one reentrant ask of a cycle handled now. Return False if there is none."""
        reentrancy = self.table.reentrancy
        if reentrancy is None:
            return False
        for reply in [self, *chain]:
            method = reply.method
            if method is not None and method.is_reentrant and reentrancy.handle_now(reply, method):
                return True
        return False

    def remove_edge(self, asker: ActorCell) -> None:
        """Remove this wait of an actor from the wait graph."""
        waits = self.table.waits
        mine = waits.get(asker)
        if mine is not None:
            if self in mine:
                mine.remove(self)
            if not mine:
                del waits[asker]

    def wait_info(self) -> tuple[ActorId, str | None, str, Nanoseconds]:
        """Return the target, its name, what it was asked for, and when by the loop's clock."""
        return (self.actor, self.name, self.what(), self.asked_at)

    # -- text ----------------------------------------------------------------------------------------------------------

    def target(self) -> str:
        """Return the target's name and id for a message."""
        return repr(self.actor) if self.name is None else f"{self.name!r} {self.actor!r}"

    def label(self, cell: ActorCell) -> str:
        """Return the name and id of an actor for a message."""
        return repr(cell.actor) if cell.name is None else f"{cell.name!r} {cell.actor!r}"

    def what(self) -> str:
        """Return a description of what was asked."""
        if self.kind == EXIT:
            return "its end"
        method = self.method
        return "a message" if method is None else f"{method.owner}.{method.name}()"

    def __bool__(self) -> NoReturn:
        raise TypeError(f"the reply to {self.what()} is not the answer and would always be true: await it")

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"{self!r} belongs to one ask and cannot be pickled or copied")

    def __repr__(self) -> str:
        return f"<Reply {STATE_NAMES[self.state]}: {self.what()} of {self.target()}>"


# A compiled class cannot inherit from a plain one.
Reply.register(LocalReply)

if not cython.compiled:
    # In compiled mode this is an inline function in the .pxd: an object of C starts with None and 0 in every field.
    def new_reply() -> LocalReply:
        """Make a pending reply to an ask. The caller sets kernel, actor, name, method, table, ms and asked_at."""
        reply = LocalReply.__new__(LocalReply)
        reply.kind = ASK
        reply.relay = reply.asker = reply.driver = None
        reply.serial = 0
        reply.state = PENDING
        reply.value = None
        reply.timer = reply.alarm = reply.waiters = reply.waiter = reply.steps = None
        return reply


def wait_for_room(
    kernel: Kernel, actor: ActorId, name: str | None, method: Method, table: AskTable
) -> LocalReply:
    """Return a pending reply for a message that waits for room in a mailbox. The caller sets its `waiter`."""
    reply = LocalReply(ROOM, kernel, actor, name, method, table)
    reply.note_asker()
    return reply


def wait_for_exit(kernel: Kernel, actor: ActorId, name: str | None, table: AskTable) -> LocalReply:
    """Return a reply that ends with the exit reason of an actor; it has already ended if the actor has."""
    reply = LocalReply(EXIT, kernel, actor, name, None, table)
    cell = actor.cell
    if cell is None:
        reply.end_wait(ANSWERED, REASONS[actor.reason])
    else:
        reply.waiter = kernel.timers.watch_exit(cell, reply)
    return reply


def cancel_handler(actor: ActorId, callback: ReplyCallback) -> None:
    """Cancel the coroutine of the handler that works on this ask, here or where it was forwarded to. Loop thread only."""
    if callback.relay is not None:
        callback.relay()
        return
    cell = actor.cell
    if cell is not None and cell.driver is not None and cell.ctx is not None and cell.ctx.sender is callback:
        cell.driver.cancel()


def mailbox_depth(actor: ActorId) -> int:
    """Return how many messages wait for an actor; 0 if it has exited."""
    cell = actor.cell
    return 0 if cell is None else cell.waiting()


def check_ask_timeout(field: str, timeout: Seconds | None) -> None:
    """Check a deadline for asks; `UNSET_TIMEOUT` stands for the default of the actor class.

    Raises:
        InvalidArgumentError: it is not a deadline.
    """
    if timeout != UNSET_TIMEOUT:
        checked_ask_ms(field, timeout)


def checked_ask_ms(field: str, timeout: Seconds | None) -> int:
    """Return a deadline in whole milliseconds, rounded up; -1 for None, which means no deadline.

    Raises:
        InvalidArgumentError: it is negative, not a number, or more than a hundred years.
    """
    if timeout is None:
        return -1
    return ceil(to_ms(field, timeout, otherwise=", or None for no deadline"))
