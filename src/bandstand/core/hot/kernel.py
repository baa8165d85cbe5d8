"""Who runs: sending, and the tick that lets ready actors handle what was sent.

A tick is one call by the host, so the event loop below is entered once for many messages. Its order is fixed: what
other threads have sent comes in, descriptors are polled, due timers become messages, then ready actors run. Two budgets
hold it: an actor handles at most `max_msgs` messages a visit, and at most `max_actors` visits are made. A third bound is
time: a tick ends when it has run for `max_tick`, and as soon as the next deadline is due, so that a flood delays neither
I/O nor timers for long. A visit ends with its tick: the actor keeps what it has not handled for its next visit.

Reading the clock costs about half a message, so it is not read after every one. `_pace` says how many messages may be
handled between two looks, in one visit or in several. It starts at one, doubles while messages are quick, up to MAX_PACE,
and falls back to one when a look shows that they are slow. It would not do alone: one slow actor among many quick ones
would have the pace of the others. So each cell has a `speed`. The clock is read after each message of one that was slow when
it was last read, and after the first of one that is new. A tick that empties the queue before its first look never reads it again.

Other threads interrupt a visit as well. `_attention` is set by whatever must not wait for the next tick: a message on
a lane above DATA, a call such as kill or stop, and the request to stop the loop. It is looked at before each message.

A behavior may also be a coroutine function. Calling it gives a coroutine, which is handed upstairs to be performed
(`_perform`): most finish at once and are judged like any other verdict. One that suspends is *in flight*: its cell keeps
its place outside the run queue, so no other message of that actor is begun, and comes back through `_resume`.
"""

# call, can_await and pop come from one of two places, of which the checker sees one.
# pyright: reportPossiblyUnboundVariable=false

from __future__ import annotations

from collections.abc import Callable, Coroutine
from types import CoroutineType
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

from bandstand.core.context import ActorContext
from bandstand.core.delivery import StashMessage
from bandstand.core.enums import (
    DATA,
    FAIL_REASON,
    MILLISECOND,
    NORMAL,
    PANIC,
    QUICK,
    RUNNING,
    SLOW,
    STOPPING,
    SYSTEM,
    SystemTag,
    Verdict,
)
from bandstand.core.hot.sending import Sending
from bandstand.core.mailbox import SHRINK_ROOM, ActorCell
from bandstand.errors import BadVerdict
from bandstand.errors.formatting import safe_repr

try:
    import cython
except ModuleNotFoundError:  # interpreted, where Cython is not installed
    from bandstand.core import _cython as cython  # type: ignore[no-redef]  # one of the two

if TYPE_CHECKING:
    from contextvars import Context

Count: TypeAlias = int
Nanoseconds: TypeAlias = int

MAX_PACE: Count = 8
SLOW_AFTER: Nanoseconds = 500_000

IO = SystemTag.IO
ZERO = 0
# Whether a coroutine that is given as a verdict is to be performed. One that a coroutine returned is not.
MAY_PERFORM = True
FINAL = False
# What performing a coroutine answers when it has suspended.
PENDING = object()
OK_VERDICT = Verdict.OK
STOP_VERDICT = Verdict.STOP
FAIL_VERDICT = Verdict.FAIL


if not cython.compiled:
    from bandstand.core.mailbox import pop

    # Compiled, these are a call and a look at two pointers, in the .pxd.
    def call(behavior: Any, turn: ActorContext, data: object) -> object:
        """Call a behavior."""
        return behavior(turn, data)

    def can_await(value: object) -> bool:
        """Whether something has an `__await__`."""
        return hasattr(type(value), "__await__")


def is_coroutine(value: object) -> TypeGuard[Coroutine[Any, Any, Any]]:
    """Whether a behavior has returned a coroutine, of Python's own kind or of another compiler's.

    Whatever an ask answers with is looked at, and to ask the abstract class takes as long as the rest of the ask: so first
    whether it can be awaited at all.
    """
    return can_await(value) and (type(value) is CoroutineType or isinstance(value, Coroutine))


class Kernel(Sending):
    """The loop without its host: everything that needs no event loop, no logging and no thread but its own."""

    __slots__ = (
        "_abroad",
        "_in_flight",
        "_is_overfull",
        "_is_time_up",
        "_leaving",
        "_looked",
        "_max_actors",
        "_max_msgs",
        "_max_tick",
        "_message",
        "_messages",
        "_pace",
        "_shuffle",
        "_since",
        "_tick_end",
        "_ticking",
        "_ticks",
        "_watched_fds",
        "_watching",
    )

    def __init__(
        self,
        loop_tag: Count,
        max_actors: Count,
        reserve: Count,
        max_msgs_per_actor: Count,
        max_actors_per_tick: Count,
        max_tick: Nanoseconds,
        now: Callable[[], int],
    ) -> None:
        super().__init__(loop_tag, max_actors, reserve, now)
        self._max_msgs: Count = max_msgs_per_actor
        self._max_actors: Count = max_actors_per_tick
        self._max_tick: Nanoseconds = max_tick
        self._ticks: Count = 0
        # When the tick has run for long enough, and whether a look at the clock has found that, or a due deadline.
        self._tick_end: Nanoseconds = 0
        self._is_time_up = False
        # Whether more timers are due than one tick may fire.
        self._is_overfull = False
        # When the clock was last read, how many messages were handled since, and after how many it is read again.
        self._looked: Nanoseconds = 0
        self._since: Count = 0
        self._pace: Count = 1
        # While a tick runs, or anything else that must not be nested.
        self._ticking = False
        # The KeyboardInterrupt or SystemExit with which run() must end.
        self._leaving: BaseException | None = None
        # Actors whose coroutine is suspended.
        self._in_flight: Count = 0
        # How many descriptors are watched: polling is skipped while there are none.
        self._watched_fds: Count = 0
        # For the watchdog, if there is one: the message at hand, and how many there have been.
        self._watching = False
        self._message: object = None
        self._messages: Count = 0
        # While what runs has context variables of its own: a coroutine, or a message that brought its sender's.
        self._abroad = False
        # For tests: picks which ready actor runs next; None is first come, first served.
        self._shuffle: Callable[[int], int] | None = None

    def _perform(
        self, cell: ActorCell, coroutine: Coroutine[Any, Any, Any], context: Context | None
    ) -> object:
        """Begin a coroutine: what it returned, or PENDING if it has suspended. The loop above overrides it."""
        return PENDING

    def _continue(self, driver: object) -> None:
        """Have a driver's coroutine go on, whose pause is over. The loop above overrides it."""

    def _poll_io(self) -> None:
        """ActorContext ready descriptors into messages. The loop above overrides it."""

    def _rearm_io(self, watch: object) -> None:
        """Watch a descriptor again, now that its event has been handled. The loop above overrides it."""

    def _check_io(self, watch: object, event: object) -> object:
        """What to deliver of an event that was taken from a mailbox; None for nothing. The loop above overrides it."""
        return event

    def _leave(self, error: BaseException) -> None:
        """End the whole loop with `error`: the first one counts."""
        if self._leaving is None:
            self._leaving = error
        self._closed = True
        self._halt()
        # It may have come between two ticks, and then nobody would notice.
        self._stir()

    def _tick(self) -> Count:
        """Run one tick; how many messages were handled, less those that were set aside after all. Never nested: the caller sees to that."""
        self._ticks += 1
        start = self._elapsed()
        end = start + self._max_tick
        before = self._handled
        overfull = False
        if self._armed_inbox or len(self._inbox) > 0:
            self._drain()
        if self._watched_fds > 0:
            self._poll_io()
        if self._wheel.soonest * MILLISECOND <= start:
            overfull = self._fire(start, end)
        if self._queue.count > 0:
            self._run(start, overfull)
        return self._handled - before

    @cython.nonecheck(False)
    def _run(self, start: Nanoseconds, overfull: bool) -> None:
        """Let ready actors run, within both budgets and the time."""
        visits = self._max_actors
        # If more timers are due than one tick may fire, actors get a share of their own, or they would starve.
        self._tick_end = start + (2 * self._max_tick if overfull else self._max_tick)
        self._is_overfull = overfull
        self._is_time_up = False
        self._looked = start
        self._since = 0
        queue = self._queue
        while visits > 0 and queue.count > 0:
            if self._attention:
                if self._halted:
                    return
                # Something urgent has come from another thread.
                self._drain()
            visits -= 1
            cell = queue.pop() if self._shuffle is None else queue.pick(self._shuffle(queue.count))
            seen = self._visit(cell)
            self._since += seen
            if self._is_time_up:
                return
            if (
                (self._since >= self._pace or cell.speed == SLOW)
                and queue.count > 0
                and self._look_at_clock(cell)
            ):
                return

    def _look_at_clock(self, cell: ActorCell) -> bool:
        """Read the clock after a message of a cell, and set the pace; whether the tick's time is up."""
        now = self._elapsed()
        if now - self._looked < SLOW_AFTER:
            cell.speed = QUICK
            self._pace = min(2 * self._pace, MAX_PACE)
        else:
            cell.speed = SLOW
            self._pace = 1
        self._looked = now
        self._since = 0
        self._is_time_up = now >= self._tick_end or (
            not self._is_overfull and now >= self._wheel.soonest * MILLISECOND
        )
        return self._is_time_up

    @cython.nonecheck(False)
    def _visit(self, cell: ActorCell) -> Count:
        """Let one actor handle what waits for it, until its budget or the tick's time is used up, or something urgent comes.

        How many messages it saw, or if the clock was read, how many since.
        """
        driver = cell.driver
        if driver is not None:
            # Its coroutine had paused, and may go on, though the actor was killed meanwhile: what it does last is waited for, too.
            self._continue(driver)
            return 1
        if cell.status >= STOPPING:
            # It ended while it stood in the queue.
            return 0
        turn = cell.turn
        if turn is None:
            turn = self._make_turn(cell)
        behavior = cell.behavior
        budget = self._max_msgs if cell.budget == 0 else cell.budget
        handled = 0
        # How many it may have handled when the clock is read again, and how many it had when it was read last.
        limit = min(budget, self._pace - self._since if cell.speed == QUICK else 1)
        looked = 0
        data: object = None
        self._current = cell
        while True:
            is_due = False
            try:
                while not self._attention:
                    if handled >= limit:
                        is_due = handled < budget
                        break
                    if cell.urgent == 0:
                        # By far the most common case, and so without the mailbox's help.
                        ring = cell.data
                        if ring is None or ring.count == 0:
                            break
                        turn.lane_number = DATA
                        data = pop(ring, turn)
                    else:
                        data = cell.take_urgent(turn)
                    handled += 1
                    self._handled += 1
                    if cell.overdue is not None:
                        # The slot that this message has left belongs to a timer that is due, before anybody else's message.
                        self._land_overdue(cell)
                    if turn.lane_number == SYSTEM and turn.tag is IO:
                        data = self._took_io(cell, turn, data)
                        if data is None:
                            continue
                    if self._watching:
                        self._message = data
                        self._messages += 1
                    verdict = call(behavior, turn, data)
                    if verdict is not None and verdict is not OK_VERDICT:
                        self._judge(cell, verdict, MAY_PERFORM)
                    if turn.sender is not ZERO and cell.driver is None:
                        # Handled to its end: whoever sent it need not be kept, nor told of a later end.
                        turn.sender = 0
                    if cell.status != RUNNING or cell.driver is not None or cell.watch is not None:
                        break
            except (KeyboardInterrupt, SystemExit) as error:
                self._leave(error)
            except BaseException as error:  # noqa: BLE001  # a panic is whatever a behavior raises
                self._raised(cell, turn, data, error)
            # Not inside the try: a clock that raises is no failure of the actor.
            if not is_due or cell.waiting() == 0 or self._look_at_clock(cell):
                break
            looked = handled
            limit = min(budget, handled + self._pace)
        self._current = None
        if self._watching:
            self._message = None
        if cell.driver is None:
            self._settle(cell)
        else:
            cell.message = data
            if cell.status >= STOPPING:
                # It wished to end and then suspended.
                cell.driver.cancel()
        return handled - looked

    @cython.nonecheck(False)
    def _make_turn(self, cell: ActorCell) -> ActorContext:
        """Make the context with which a cell's behavior is called; from now on it holds the state."""
        turn = ActorContext.__new__(ActorContext)
        turn.self_id = cell.actor  # type: ignore[assignment]  # a living cell has an id
        turn.loop = self
        turn.state = cell.state
        cell.turn = turn
        cell.state = None
        return turn

    def _took_io(self, cell: ActorCell, turn: ActorContext, event: object) -> object:
        """Look at an I/O event that was taken: None if its descriptor was unwatched while the event waited.

        Else the descriptor is armed again when the visit ends, which is soon enough: polling comes once a tick.
        """
        watch, turn.sender = turn.sender, 0
        event = self._check_io(watch, event)
        if event is None:
            self._handled -= 1
            self._dropped += 1
            self._dropped_system += 1
        else:
            cell.watch = watch
        return event

    @cython.nonecheck(False)
    def _settle(self, cell: ActorCell) -> None:
        """After a behavior has ended: end the actor, or queue it again, or let it rest."""
        if cell.status >= STOPPING:
            self._finish(cell)
            return
        if cell.watch is not None:
            watch, cell.watch = cell.watch, None
            self._rearm_io(watch)
        if cell.overdue is not None:
            self._land_overdue(cell)
        if cell.waiting() > 0:
            self._queue.push(cell)
            self._stir()
        elif cell.closing and not cell.is_expecting():
            # It was to end when it had handled everything, and it has.
            self._end(cell, NORMAL, None)
        else:
            cell.queued = False
            ring = cell.data
            if ring is not None and ring.room > SHRINK_ROOM:
                ring.shrink()

    def _raised(self, cell: ActorCell, turn: ActorContext, data: object, error: BaseException) -> None:
        """A behavior has raised: it panics, or wants its message kept for later."""
        # By its type: isinstance() asks the exception for its __class__, which may raise.
        if issubclass(type(error), StashMessage):
            self._set_aside(cell, turn, data, error.stash)  # type: ignore[attr-defined]  # it is one
        else:
            self._panic(cell, error)

    def _panic(self, cell: ActorCell, error: BaseException) -> None:
        """Note that a behavior has raised."""
        self._mark_stopping(cell)
        cell.reason = PANIC
        cell.cause = error

    def _forget_sender(self, cell: ActorCell) -> None:
        """A coroutine has ended: whoever sent its message need not be kept until the next one."""
        turn = cell.turn
        if turn is not None:
            turn.sender = 0

    def _judge(self, cell: ActorCell, verdict: object, may_perform: bool) -> None:
        """Apply what a behavior returned, if it is not OK. An earlier wish to end stands."""
        # The two words come first: to find out that something is no coroutine takes as long as a whole message.
        if (
            may_perform
            and verdict is not STOP_VERDICT
            and verdict is not FAIL_VERDICT
            and is_coroutine(verdict)
        ):
            if cell.status >= STOPPING:
                verdict.close()
                return
            verdict = self._perform(cell, verdict, cell.context)
            if verdict is None or verdict is OK_VERDICT or verdict is PENDING:
                return
        if cell.status >= STOPPING:
            return
        self._mark_stopping(cell)
        if verdict is STOP_VERDICT:
            cell.reason = NORMAL
        elif verdict is FAIL_VERDICT:
            cell.reason = FAIL_REASON
        else:
            cell.reason = PANIC
            cell.cause = BadVerdict(
                f"the behavior of {self._called(cell)} returned {safe_repr(verdict)}: a behavior returns None, OK, STOP or FAIL; to "
                f"answer, send to ctx.sender"
            )
