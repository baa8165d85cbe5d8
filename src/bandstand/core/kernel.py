"""The kernel: sends messages, schedules actors, and runs ticks.

`Loop` is the public class of a loop; a `Kernel` is its engine. It has parts, each with its own state: the actors, the run
queue, the message counters, the timers, the inbox for other threads, links and monitors, the coroutine runner, the
descriptor watcher, and the runner that connects it to an asyncio event loop. It is one final compiled class, so that a
call inside it is a C call.

**The tick.** A tick is one call by the host, so the event loop below is entered once for many messages. Its order is fixed:
the inbox is emptied, descriptors are polled, due timers become messages, then ready actors run. Two budgets bound it: an
actor handles at most `max_msgs_per_actor` messages a visit, and a tick makes at most `max_actors_per_tick` visits. A third
bound is time: a tick ends after `LoopConfig.max_tick`, and as soon as the next deadline is due, so that a flood delays neither I/O
nor timers for long. A visit ends with its tick; the actor keeps the rest of its messages for its next visit.

Reading the clock costs about half a message, so it is not read after every one. `_clock_pace` says how many messages may be
handled between two readings. It starts at one, doubles while messages are quick, up to `MAX_CLOCK_PACE`, and falls back to
one when a reading shows that they are slow. One slow actor among many quick ones would still run at their pace, so each cell
has a `speed`: the clock is read after each message of an actor that was slow when it was last read, and after the first
message of a new one.

Other threads interrupt a visit. `is_interrupted` is set by whatever must not wait for the next tick: a message on a lane
above DATA, a call such as kill or stop, and the request to stop the loop. It is checked before each message.

**Inline calls.** Between two actors of one pod that are restarted together, a message may be handled inside the sender's
turn (`call_inline`): no push, no pop, no visit. This happens only where nothing but the time differs: the target is idle and
nothing waits for it; its failure ends it and never the caller; no actor is called while it is in a turn of its own; at most
`MAX_INLINE_DEPTH` turns nest; and no coroutine is involved, neither as caller nor as target.
"""

# Some names come from the .pxd when compiled; the checker sees one of two definitions.
# pyright: reportPossiblyUnboundVariable=false

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import Context
from math import ceil
from typing import TYPE_CHECKING, Any, TypeAlias

from bandstand.core.actors import Actors
from bandstand.core.context import ActorContext
from bandstand.core.coroutines import CoroutineRunner, is_coroutine
from bandstand.core.counters import MessageCounters
from bandstand.core.delivery import DeliveryCallback, LoopExitCallback, StashMessage
from bandstand.core.enums import (
    ACCEPTED,
    CONTROL,
    DATA,
    FAIL_REASON,
    FAR,
    FULL,
    INIT,
    LOOP_SHIFT,
    MANAGEMENT,
    MAX_INLINE_TICKS,
    MILLISECOND,
    NO_ACTOR,
    NORMAL,
    OTHER_THREAD,
    PANIC,
    QUICK,
    RUNNING,
    SLOW,
    STOPPING,
    SYSTEM,
    Lane,
    Overflow,
    SystemTag,
    Verdict,
)
from bandstand.core.ids import ActorId
from bandstand.core.inbox import Inbox
from bandstand.core.links import Links
from bandstand.core.mailbox import SHRINK_ROOM, ActorCell, RunQueue
from bandstand.core.timers import Timers
from bandstand.errors import (
    ActorNotLocalError,
    BandstandError,
    InternalError,
    InvalidArgumentError,
    InvalidVerdictError,
    LoopClosedError,
    MailboxFullError,
    MailboxOverrunError,
    NoSuchActorError,
    WrongThreadError,
)
from bandstand.errors.exceptions import ALL_SLOTS
from bandstand.errors.formatting import safe_repr
from bandstand.errors.validation import LONGEST_S, ROUNDING_ERROR, to_ms

try:
    import cython
except ModuleNotFoundError:  # interpreted, where Cython is not installed
    from bandstand.core import _cython as cython  # type: ignore[no-redef]  # one of the two

if TYPE_CHECKING:
    from bandstand.core.delivery import StashCounter
    from bandstand.core.fd_watcher import FdWatcher
    from bandstand.core.loop import Loop
    from bandstand.core.mailbox import ChildGroup, Ring
    from bandstand.core.reporter import LoopReporter
    from bandstand.core.runner import LoopRunner
    from bandstand.core.timer_wheel import Timer

Count: TypeAlias = int
Hook: TypeAlias = Callable[..., Any]
LaneNumber: TypeAlias = int
Nanoseconds: TypeAlias = int
Number: TypeAlias = int
OutcomeNumber: TypeAlias = int

MAX_CLOCK_PACE: Count = 8
SLOW_AFTER: Nanoseconds = 500_000
MAX_INLINE_DEPTH: Count = 16

LAST_USER_TAG = (1 << 32) - 1
MAX_DELAY: float = LONGEST_S
MAX_ROUNDING_ERROR: float = ROUNDING_ERROR

LANES = tuple(Lane)
DATA_LANE = Lane.DATA
ELEMENT = SystemTag.ELEMENT
IO = SystemTag.IO
# System messages without a reserved slot.
SENDABLE_TAGS = (SystemTag.CHILD_RESTART, SystemTag.SHUTDOWN)
OK_VERDICT = Verdict.OK
STOP_VERDICT = Verdict.STOP
FAIL_VERDICT = Verdict.FAIL
ZERO = 0
# For `_apply_verdict`: whether a coroutine returned by a behavior is to be run. One that a coroutine returned is not.
MAY_RUN_COROUTINE = True
IS_FINAL = False


if not cython.compiled:
    from threading import get_ident as PyThread_get_thread_ident

    from bandstand.core.mailbox import pop, push

    # Compiled, these are C code of the .pxd.
    def call_behavior(behavior: Any, ctx: ActorContext, data: object) -> object:
        """Call a behavior."""
        return behavior(ctx, data)

    def tick_in_context(kernel: Kernel, context: Context) -> None:
        """Run a tick inside a context."""
        context.run(kernel.tick)

    def host_call_in_context(kernel: Kernel, context: Context) -> None:
        """Run a call of the host inside a context."""
        context.run(kernel.host_call)


class Kernel:
    """The engine of one loop. Everything belongs on the loop's own thread, unless its docstring says otherwise."""

    __slots__ = (
        "_clock_pace",
        "_clock_read",
        "_inline_since",
        "_is_overfull",
        "_is_time_up",
        "_max_actors_per_tick",
        "_max_msgs_per_actor",
        "_max_tick",
        "_message",
        "_messages",
        "on_actor_start",
        "on_actor_stop",
        "_on_dead_letter",
        "_on_dropped",
        "_on_escalate",
        "_on_mailbox_full",
        "_on_restart",
        "_since_clock_read",
        "_tick_end",
        "_ticks",
        "actors",
        "carrier",
        "coroutines",
        "counters",
        "current",
        "escalations",
        "exit_error",
        "failure",
        "fds",
        "hook_depth",
        "host",
        "inbox",
        "inline_left",
        "inlines_calls",
        "is_awake",
        "is_closed",
        "is_context_foreign",
        "is_down",
        "is_halted",
        "is_host_armed",
        "is_host_calling",
        "is_inline",
        "is_internal_only",
        "is_interrupted",
        "is_polled",
        "is_ticking",
        "links",
        "loop",
        "notify_idle",
        "on_idle",
        "on_tick_end",
        "outer",
        "owner",
        "owner_thread",
        "pick_next",
        "reported",
        "reporter",
        "restarts",
        "run_queue",
        "runner",
        "siblings",
        "timers",
        "until_idle",
        "watched_fds",
        "watches_messages",
        "wraps_every_message",
    )

    def __init__(
        self,
        loop: Loop,
        loop_tag: Count,
        max_actors: Count,
        reserve: Count,
        default_cap: Count,
        max_msgs_per_actor: Count,
        max_actors_per_tick: Count,
        max_tick: Nanoseconds,
        now: Callable[[], int],
        on_idle: Callable[[int], bool] | None,
    ) -> None:
        self.loop = loop
        self.counters = MessageCounters()
        self.actors = Actors(self, loop_tag, max_actors, reserve, default_cap)
        self.run_queue = RunQueue()
        self.timers = Timers(self, now)
        self.inbox = Inbox(self)
        self.links = Links(self)
        self.coroutines = CoroutineRunner(self)
        # The loop sets these three right after it has made its kernel.
        self.fds: FdWatcher = None  # type: ignore[assignment]
        self.reporter: LoopReporter = None  # type: ignore[assignment]
        self.runner: LoopRunner = None  # type: ignore[assignment]

        # The thread that owns the loop.
        self.owner: Number = PyThread_get_thread_ident()
        self.owner_thread = threading.current_thread()
        # From the request to stop on: nothing is sent, spawned or run any more.
        self.is_closed = False
        # Set by a request to stop: no further message is begun.
        self.is_halted = False
        # The running visit must end: something urgent has come from another thread.
        self.is_interrupted = False
        # Every actor has ended: what comes in now can only be a dead letter.
        self.is_down = False
        # Only messages that actors of this loop send in their turns are accepted.
        self.is_internal_only = False
        # What run() must end with: a KeyboardInterrupt or SystemExit, or an error of the runtime.
        self.exit_error: BaseException | None = None
        self.failure: BandstandError | None = None

        # Limits.
        self._max_msgs_per_actor: Count = max_msgs_per_actor
        self._max_actors_per_tick: Count = max_actors_per_tick
        self._max_tick: Nanoseconds = max_tick

        # The actor whose behavior runs, and those in whose turns it runs: it is their child in its init, or called inline.
        self.current: ActorCell | None = None
        self.outer: list[ActorCell] = []
        # The tick: when it must end, whether a clock reading has found that it must, whether timers are left over.
        self._ticks: Count = 0
        self._tick_end: Nanoseconds = 0
        self._is_time_up = False
        self._is_overfull = False
        # When the clock was last read, how many messages were handled since, and after how many it is read again.
        self._clock_read: Nanoseconds = 0
        self._since_clock_read: Count = 0
        self._clock_pace: Count = 1
        # True while a tick runs, or anything else that must not be nested.
        self.is_ticking = False
        # The message being handled, and how many there have been: only while a watchdog runs.
        self.watches_messages = False
        self._message: object = None
        self._messages: Count = 0
        # How many observer hooks are running.
        self.hook_depth: Count = 0
        # For tests: picks which ready actor runs next. None is first come, first served.
        self.pick_next: Callable[[int], int] | None = None
        # How many descriptors are watched: without any, polling is skipped.
        self.watched_fds: Count = 0

        # The host that calls for ticks; None while the loop is not driven.
        self.host: Any = None
        # True while a tick runs or is scheduled, or there is no host to wake: then making an actor ready costs no call.
        self.is_awake = True
        self.is_host_armed = False
        # True from `begin_host_call` to `end_host_call`: then waking the host costs no call either.
        self.is_host_calling = False
        # The kernels that the same event loop drives, this one included. Empty while there is no host.
        self.siblings: list[Kernel] = []
        # True if something waits for the loop to become idle: then every end schedules a tick.
        self.notify_idle = False
        self.until_idle = False
        # True while `poll_once` drives the loop: then time is moved by hand only.
        self.is_polled = False
        # Called after each tick; and when there is nothing to do, with the nanoseconds until the next deadline.
        self.on_tick_end: Callable[[], object] | None = None
        self.on_idle = on_idle
        # Dead letters and drops at the last complete report to the log; -1 if something is still to be reported.
        self.reported: Count = 0
        # Ticks that a task runs while it waits for an answer, and how many are left until the host calls again.
        self.is_inline = False
        self.inline_left: Count = 0
        self._inline_since: Nanoseconds = 0

        # True while what runs has context variables of its own: a coroutine, or a message that carries its sender's.
        self.is_context_foreign = False
        # Packs messages of typed actors together with the context variables they carry; None to carry nothing.
        self.carrier: Any = None
        # Whether the carrier wraps every message, and not only those sent with context variables of their own.
        self.wraps_every_message = False
        # Whether messages between actors may be handled by inline calls.
        self.inlines_calls = False

        self.restarts: Count = 0
        self.escalations: Count = 0
        self.on_actor_start: Hook | None = None
        self.on_actor_stop: Hook | None = None
        self._on_mailbox_full: Hook | None = None
        self._on_dead_letter: Hook | None = None
        self._on_dropped: Hook | None = None
        self._on_restart: Hook | None = None
        self._on_escalate: Hook | None = None

    # -- the owner's thread -----------------------------------------------------------------------------------------

    def claim_thread(self) -> None:
        """Make the calling thread the owner."""
        self.owner = PyThread_get_thread_ident()
        self.owner_thread = threading.current_thread()

    def is_other_thread(self) -> bool:
        """Return True if the calling thread does not own the loop. From any thread."""
        return PyThread_get_thread_ident() != self.owner

    def check_thread(self) -> None:
        """Raise `WrongThreadError` if the calling thread does not own the loop."""
        if PyThread_get_thread_ident() != self.owner:
            raise self._wrong_thread_error()

    def check_open(self) -> None:
        """Raise `WrongThreadError` off the owner's thread, and `LoopClosedError` if the loop was asked to stop."""
        self.check_thread()
        if self.is_closed:
            raise LoopClosedError("the loop is closed: it was asked to stop, or was destroyed")

    def _wrong_thread_error(self) -> WrongThreadError:
        return WrongThreadError(
            f"this call belongs on the loop's own thread {self.owner_thread.name!r}, not on "
            f"{threading.current_thread().name!r}; from other threads only send_async(), request_stop() and the handles "
            f"of typed actors can be used"
        )

    # -- from an id to its actor ------------------------------------------------------------------------------------

    def reach(self, target: object) -> ActorCell | None:
        """Return the living actor that `target` names on this loop, None if a send to it must be refused.

        Raises:
            WrongThreadError: called off the owner's thread.
            InvalidArgumentError: `target` cannot be an id at all.
        """
        if PyThread_get_thread_ident() != self.owner:
            raise self._wrong_thread_error()
        return self.find(target)

    def find(self, target: object) -> ActorCell | None:
        """Do what `reach` does, from any thread."""
        if self.is_closed:
            return None
        if type(target) is ActorId:
            actor = target
            cell = actor.cell
            if cell is None or cell.status >= STOPPING or actor.home is not self:
                return None
            return cell
        if isinstance(target, int):
            return self._find_number(target)
        raise _not_an_id(target)

    def _find_number(self, number: Number) -> ActorCell | None:
        """Find an actor by its bare number, through the table."""
        if not self._is_own_number(number):
            return None
        cell = self.actors.table.find(number)
        if cell is None or cell.status >= STOPPING:
            return None
        return cell

    def _is_own_number(self, number: int) -> bool:
        return 0 < number < 1 << 64 and number >> LOOP_SHIFT == self.actors.table.loop_tag

    def local_id(self, target: object) -> ActorId | None:
        """Return the id that `target` is or names on this loop. An id may be stale; a number may not."""
        if type(target) is ActorId:
            actor = target
            return actor if actor.home is self else None
        if not isinstance(target, int):
            raise _not_an_id(target)
        if not self._is_own_number(target):
            return None
        cell = self.actors.table.find(target)
        return None if cell is None else cell.actor

    def require_id(self, target: object) -> ActorId:
        """Return the id that `target` is or names on this loop; its actor may have exited.

        Raises:
            NoSuchActorError, ActorNotLocalError: there is none.
            WrongThreadError: called off the owner's thread.
        """
        self.check_thread()
        actor = self.local_id(target)
        if actor is None:
            raise self.missing_error(target)
        return actor

    def refused_send_error(self, target: object) -> BandstandError:
        """Count a refused send; return the error that says why `target` cannot be reached."""
        self.counters.refused += 1
        return self.missing_error(target)

    def missing_error(self, target: object) -> BandstandError:
        """Return the error that says why `target` cannot be reached."""
        if self.is_closed:
            return LoopClosedError("the loop is closed: it was asked to stop, or was destroyed")
        if self._is_foreign(target):
            return ActorNotLocalError(
                f"actor {safe_repr(target)} belongs to another loop: an id is valid only on the loop it came from"
            )
        if type(target) is not ActorId and target == 0:
            return NoSuchActorError(
                "there is no actor 0: 0 means no actor, as in the sender of a message without one"
            )
        end = target.describe_end() if type(target) is ActorId else "has ended, or never existed"
        return NoSuchActorError(f"there is no actor {safe_repr(target)}: it {end}")

    def _is_foreign(self, target: object) -> bool:
        """Return True if an id, or a number that could be one, belongs to another loop."""
        if type(target) is ActorId:
            actor = target
            return actor.home is not self
        number = int(target)  # type: ignore[call-overload]  # `find` has made sure that it is an id or an int
        return 0 < number < 1 << 64 and number >> LOOP_SHIFT not in {0, self.actors.table.loop_tag}

    def label(self, cell: ActorCell) -> str:
        """Return how errors and log lines name an actor."""
        return repr(cell.actor) if cell.name is None else f"{cell.actor!r} {cell.name!r}"

    # -- sending ----------------------------------------------------------------------------------------------------

    def send_fast(self, target: object, data: object, tag: object, lane: object, sender: object) -> bool:
        """Enqueue an untagged DATA message if nothing stands in the way; return False if something might.

        It makes the checks of `send` in one function: five calls less are a tenth of a message. What does not pass goes
        through `send`, which raises the error.
        """
        if type(target) is not ActorId or lane is not DATA_LANE or tag is not ZERO:
            return False
        if sender is not ZERO and type(sender) is not ActorId:
            return False
        return self.push_fast(target, data, tag, sender)

    @cython.nonecheck(False)
    def push_fast(self, actor: ActorId, data: object, tag: object, sender: object) -> bool:
        """Do what `send_fast` does for a known actor; the tag may be any object."""
        if self.is_closed or PyThread_get_thread_ident() != self.owner:
            return False
        cell = actor.cell
        if cell is None or cell.status >= STOPPING or actor.home is not self:
            return False
        ring = cell.data
        if ring is None or ring.count + cell.coming_data >= cell.limit:
            return False
        push(ring, data, tag, sender)
        self.counters.accepted += 1
        if not cell.queued:
            self.make_ready(cell)
        return True

    def send(self, target: object, data: object, tag: object, lane: object, sender: object) -> None:
        """Check every argument and enqueue a message. `Loop.send` says what it raises."""
        check_sender(sender)
        cell = self.reach(target)
        number = checked_lane(tag, lane)
        if cell is None:
            raise self.refused_send_error(target)
        if self.enqueue(cell, number, data, tag, sender) != ACCEPTED:
            raise self.full_error(cell, number)

    def try_send(self, target: object, data: object, tag: object, lane: object, sender: object) -> bool:
        """Do what `send` does, but return False if the message is not accepted."""
        check_sender(sender)
        cell = self.reach(target)
        number = checked_lane(tag, lane)
        if cell is None:
            self.counters.refused += 1
            return False
        return self.enqueue(cell, number, data, tag, sender) == ACCEPTED

    def post(
        self, actor: ActorId, lane: LaneNumber, data: object, tag: object, sender: object
    ) -> OutcomeNumber:
        """Enqueue a message to an actor of this loop; the tag may be any object, the sender a delivery callback.

        Returns ACCEPTED, FULL, NO_ACTOR if no actor can take it, or OTHER_THREAD on another thread. It raises nothing, and does
        nothing unless it returns ACCEPTED.
        """
        if PyThread_get_thread_ident() != self.owner:
            return OTHER_THREAD
        cell = actor.cell
        if (
            cell is None
            or cell.status >= STOPPING
            or self.is_closed
            or (self.is_internal_only and self.current is None)
        ):
            return NO_ACTOR
        if not cell.offer(lane, data, tag, sender):
            return FULL
        self.counters.accepted += 1
        if not cell.queued:
            self.make_ready(cell)
        return ACCEPTED

    def send_with_callback(
        self, actor: ActorId, lane: LaneNumber, data: object, tag: object, callback: object
    ) -> None:
        """Enqueue a message to a living actor, with a delivery callback in the sender's place, by its overflow policy.

        Raises:
            MailboxFullError: the policy rejects it.
            NoSuchActorError, LoopClosedError: the actor has exited, is stopping or has closed its mailbox; the loop was stopped.
        """
        cell = self.reach(actor)
        if cell is None:
            raise self.refused_send_error(actor)
        if self.enqueue(cell, lane, data, tag, callback) != ACCEPTED:
            raise self.full_error(cell, lane)

    def enqueue(
        self, cell: ActorCell, lane: LaneNumber, data: object, tag: object, sender: object
    ) -> OutcomeNumber:
        """Enqueue a message to a living actor, by its overflow policy; return ACCEPTED or FULL."""
        if not cell.offer(lane, data, tag, sender):
            return self._apply_overflow(cell, lane, data, tag, sender)
        self.counters.accepted += 1
        if not cell.queued:
            self.make_ready(cell)
        return ACCEPTED

    def send_reserved(self, cell: ActorCell, data: object, tag: SystemTag, sender: object) -> None:
        """Send a system message that has a reserved slot: it cannot be refused."""
        cell.offer_reserved(data, tag, sender)
        self.counters.accepted += 1
        if not cell.queued:
            self.make_ready(cell)

    def send_system(self, target: ActorId | int, data: object, tag: SystemTag) -> bool:
        """Send a system message without a reserved slot.

        Returns:
            False if there was no free slot: then the target has failed with `MailboxOverrunError`.

        Raises:
            InvalidArgumentError: the tag is neither `CHILD_RESTART` nor `SHUTDOWN`. The other system messages have reserved slots.
            NoSuchActorError, ActorNotLocalError, LoopClosedError, WrongThreadError: as for `Loop.send`.
        """
        _check_system_tag(tag)
        cell = self.reach(target)
        if cell is None:
            raise self.refused_send_error(target)
        if cell.offer_system(data, tag, 0):
            self.counters.accepted += 1
            if not cell.queued:
                self.make_ready(cell)
            return True
        self.counters.refused += 1
        if self._on_mailbox_full is not None:
            self.call_hook(self._on_mailbox_full, (cell.actor,))
        # The hook may have ended it.
        if cell.status < STOPPING:
            cause = MailboxOverrunError(
                f"a system message met the mailbox of {self.label(cell)} with all {cell.cap} slots taken; the actor was "
                f"failed. Give it a larger mailbox, or let it handle its messages faster."
            )
            self.actors.end_actor(cell, FAIL_REASON, cause)
        return False

    def notify_channel(self, actor: ActorId) -> None:
        """Tell an actor, if it is alive, that the channel it consumes has an element. The message has a reserved slot."""
        cell = actor.cell
        if cell is not None:
            self.send_reserved(cell, None, ELEMENT, 0)

    def send_io(self, actor: ActorId, event: object, watch: object) -> None:
        """Send an I/O event to the owner of a descriptor, if it is alive, in a reserved slot."""
        cell = actor.cell
        if cell is not None:
            self.send_reserved(cell, event, IO, watch)

    @cython.nonecheck(False)
    def make_ready(self, cell: ActorCell) -> None:
        """Put an actor that is not queued into the run queue, and make sure that a tick comes."""
        cell.queued = True
        self.run_queue.push(cell)
        self.wake_host()

    @cython.nonecheck(False)
    def requeue(self, cell: ActorCell) -> None:
        """Put an actor back into the run queue, and make sure that a tick comes."""
        self.run_queue.push(cell)
        self.wake_host()

    @cython.nonecheck(False)
    def wake_host(self) -> None:
        """Have the host call for a tick, unless one runs or is scheduled."""
        if not self.is_awake:
            self.is_awake = True
            if self.host is not None and not self.is_host_calling:
                self.host.call_soon()

    def check_idle(self) -> None:
        """Something has ended outside a tick: schedule one if something waits for the loop to become idle."""
        if self.notify_idle:
            self.wake_host()

    def _apply_overflow(
        self, cell: ActorCell, lane: LaneNumber, data: object, tag: object, sender: object
    ) -> OutcomeNumber:
        """Apply the overflow policy of an actor whose lane is full."""
        policy = cell.overflow
        if policy is None or cell.closing:
            self.counters.refused += 1
            if self._on_mailbox_full is not None and not cell.closing:
                self.call_hook(self._on_mailbox_full, (cell.actor,))
            return FULL
        ring = cell.lane(lane)
        self.counters.accepted += 1
        self.counters.dropped += 1
        if policy is Overflow.DROP_NEWEST or ring.count == 0:
            # An empty lane is full only while the system holds every slot: there is nothing older to drop.
            dropped = (data, tag, sender)
        else:
            dropped = ring.shift() if policy is Overflow.DROP_OLDEST else ring.pop_newest()
            ring.push(data, tag, sender)
        if isinstance(dropped[2], DeliveryCallback):
            dropped[2].dropped(cell.actor, cell.name)
            dropped = (dropped[0], dropped[1], 0)
        if self._on_dropped is not None:
            self.call_hook(self._on_dropped, (cell.actor, LANES[lane], *dropped))
        return ACCEPTED

    def full_error(self, cell: ActorCell, lane: LaneNumber) -> BandstandError:
        """Return the error for a lane without room."""
        actor = cell.actor
        assert actor is not None
        if cell.closing:
            return NoSuchActorError(
                f"actor {actor!r} {cell.name or '(unnamed)'} is stopping: it handles the messages it has and accepts no more"
            )
        return MailboxFullError.of(
            actor, actor.number, cell.name, LANES[lane].name, cell.depth(lane) + cell.coming(lane), cell.cap
        )

    # -- dead letters and stashed messages --------------------------------------------------------------------------

    def dead_letter(
        self, cell: ActorCell, lane: LaneNumber, data: object, tag: object, sender: object
    ) -> None:
        """Make one accepted message a dead letter, and run its delivery callback."""
        self.counters.dead += 1
        if isinstance(sender, DeliveryCallback):
            sender.lost(cell.actor, cell.name, cell.reason, cell.cause)
            sender = 0
        if self._on_dead_letter is not None:
            self.call_hook(self._on_dead_letter, (cell.actor, LANES[lane], data, tag, sender))

    def discard_messages(self, cell: ActorCell) -> Count:
        """Make every unread message of an actor a dead letter; return how many there were."""
        return 0 if cell.waiting() == 0 else self.discard_lanes(cell, DATA)

    def discard_lanes(self, cell: ActorCell, last: LaneNumber) -> Count:
        """Make the unread messages of the lanes from SYSTEM to `last` dead letters; return how many there were."""
        count = 0
        lane = 0
        counters = self.counters
        while lane <= last:
            if cell.depth(lane) > 0:
                ring = cell.lane(lane)
                count += ring.count
                counters.dead += ring.count
                if lane == SYSTEM:
                    counters.dead_system += ring.count
                if lane != DATA:
                    cell.urgent -= ring.count
                while ring.count > 0:
                    message = ring.shift()
                    if lane == SYSTEM:
                        # The runtime keeps its own objects in the sender's place there.
                        message = (message[0], message[1], 0)
                    elif isinstance(message[2], DeliveryCallback):
                        message[2].lost(cell.actor, cell.name, cell.reason, cell.cause)
                        message = (message[0], message[1], 0)
                    if self._on_dead_letter is not None:
                        self.call_hook(self._on_dead_letter, (cell.actor, LANES[lane], *message))
            lane += 1
        return count

    def discard_all_but_asks(self, cell: ActorCell) -> Count:
        """Make the unread messages of an actor dead letters, except for those that the next incarnation may handle; return how many."""
        before = cell.waiting()
        if before == 0:
            return 0
        asks: list[tuple[LaneNumber, object, object, object]] = []
        lane = CONTROL
        while lane <= DATA:
            ring = cell.ring(lane)
            left = 0 if ring is None else ring.count
            while ring is not None and left > 0:
                left -= 1
                message = ring.shift()
                if isinstance(message[2], DeliveryCallback) and message[2].may_go_to_next():
                    asks.append((lane, message[0], message[1], message[2]))
                    if lane != DATA:
                        cell.urgent -= 1
                else:
                    ring.push(message[0], message[1], message[2])
            lane += 1
        self.discard_lanes(cell, DATA)
        for number, data, tag, sender in reversed(asks):
            cell.put_back(number, data, tag, sender)
        return before - cell.waiting()

    def append_mailbox(self, actor: ActorId, mailbox: ActorCell) -> bool:
        """Put messages that were kept behind those of the next child. Return False if it has ended."""
        cell = actor.cell
        if cell is None:
            return False
        cell.append_messages_of(mailbox)
        if not cell.queued and cell.waiting() > 0:
            self.make_ready(cell)
        return True

    def discard_mailbox(self, mailbox: ActorCell) -> None:
        """Make dead letters of a mailbox that was kept for a next child that will not come."""
        if type(mailbox) is not ActorCell:
            raise InvalidArgumentError(
                f"mailbox is {safe_repr(mailbox)}: pass the one that ChildGroup.keep received"
            )
        self.discard_messages(mailbox)

    def _stash(self, cell: ActorCell, ctx: ActorContext, data: object, stash: StashCounter) -> None:
        """Stash the current message: it is not handled, and its sender still waits."""
        sender = ctx.sender
        ctx.sender = 0
        if cell.stashed is None:
            cell.stashed = []
        cell.stashed.append((ctx.lane_number, data, ctx.tag, sender, stash))
        stash.count += 1
        self.counters.stashed += 1
        self.counters.handled -= 1

    def unstash_cell(self, cell: ActorCell, stash: StashCounter | None) -> Count:
        """Put stashed messages of one stash, or of all, in front of their lanes, in order; return how many."""
        stashed = cell.stashed
        if stashed is None:
            return 0
        left: list[tuple[int, object, object, object, StashCounter]] = []
        count = 0
        for message in reversed(stashed):
            if stash is not None and message[4] is not stash:
                left.append(message)
                continue
            message[4].count -= 1
            cell.put_back(message[0], message[1], message[2], message[3])
            count += 1
        left.reverse()
        cell.stashed = left or None
        self.counters.stashed -= count
        return count

    def unstash(self, actor: ActorId, stash: StashCounter | None) -> Count:
        """Put stashed messages of an actor, if it is alive, back in front of its mailbox; return how many."""
        cell = actor.cell
        count = 0 if cell is None else self.unstash_cell(cell, stash)
        if cell is not None and count > 0 and not cell.queued:
            self.make_ready(cell)
        return count

    # -- hooks ------------------------------------------------------------------------------------------------------

    def set_hooks(
        self,
        on_actor_start: Hook | None,
        on_actor_stop: Hook | None,
        on_mailbox_full: Hook | None,
        on_dead_letter: Hook | None,
        on_dropped: Hook | None,
        on_restart: Hook | None,
        on_escalate: Hook | None,
    ) -> None:
        """Install the observer's hooks. A hook that is None costs one comparison."""
        self.on_actor_start = on_actor_start
        self.on_actor_stop = on_actor_stop
        self._on_mailbox_full = on_mailbox_full
        self._on_dead_letter = on_dead_letter
        self._on_dropped = on_dropped
        self._on_restart = on_restart
        self._on_escalate = on_escalate

    def call_hook(self, hook: Hook, arguments: tuple[object, ...]) -> bool:
        """Call a hook; return True if it did not raise. What it raises is logged."""
        self.hook_depth += 1
        try:
            hook(*arguments)
        except (KeyboardInterrupt, SystemExit) as error:
            self.exit_with(error)
        except BaseException as error:  # noqa: BLE001  # a hook may raise anything
            self.reporter.error(f"the hook {safe_repr(getattr(hook, '__qualname__', hook))} raised", error)
        else:
            return True
        finally:
            self.hook_depth -= 1
        return False

    def report_restart(self, supervisor: ActorId, child: ActorId, attempt: int) -> None:
        """Count that a supervisor has restarted a child, and run the observer's hook."""
        self.restarts += 1
        if self._on_restart is not None:
            self.call_hook(self._on_restart, (supervisor, child, attempt))

    def report_escalation(self, supervisor: ActorId) -> None:
        """Count that a supervisor has given up, and run the observer's hook."""
        self.escalations += 1
        if self._on_escalate is not None:
            self.call_hook(self._on_escalate, (supervisor,))

    # -- stopping the loop ------------------------------------------------------------------------------------------

    def halt(self) -> None:
        """Begin no further message: the current one is the last. Whatever drives the loop ends it. From any thread."""
        self.is_halted = True
        self.is_interrupted = True

    def exit_with(self, error: BaseException) -> None:
        """End the whole loop with a KeyboardInterrupt or SystemExit. The first one counts."""
        if self.exit_error is None:
            self.exit_error = error
        self.is_closed = True
        self.halt()
        # It may have come between two ticks: then only a tick notices it.
        self.wake_host()

    def fail(self, error: BandstandError) -> None:
        """End the whole loop with an error, which run() or the `async with` block raises."""
        if self.failure is None:
            self.failure = error
        self.runner.request_stop()

    def _break(self, error: BaseException) -> None:
        """End the loop because the runtime itself has failed."""
        self._forget_current()
        # By its type: isinstance() asks the exception for its __class__, which may raise.
        if issubclass(type(error), (KeyboardInterrupt, SystemExit)):
            self.exit_with(error)
            return
        self.failure = InternalError(f"the loop cannot go on: a tick raised {safe_repr(error)}")
        self.failure.__cause__ = error
        self.is_closed = True
        if self.host is not None:
            self.host.call_soon()

    def _forget_current(self) -> None:
        """A tick has raised, wherever that was: no behavior runs any more."""
        self.current = None
        self.outer.clear()
        self.coroutines.stepper = None
        self._message = None

    # -- the tick ---------------------------------------------------------------------------------------------------

    def tick(self) -> Count:
        """Run one tick; return how many messages were handled, less those that were stashed after all. Never nested."""
        self._ticks += 1
        timers = self.timers
        start = timers.elapsed()
        before = self.counters.handled
        overfull = False
        if self.inbox.is_armed or not self.inbox.is_empty():
            self.inbox.drain()
        if self.watched_fds > 0:
            self.fds.poll()
        if timers.wheel.soonest * MILLISECOND <= start:
            overfull = timers.fire_due(start, start + self._max_tick)
        if self.run_queue.count > 0:
            self._run_ready(start, overfull)
        return self.counters.handled - before

    @cython.nonecheck(False)
    def _run_ready(self, start: Nanoseconds, overfull: bool) -> None:
        """Visit ready actors, within both budgets and the time."""
        visits = self._max_actors_per_tick
        # If more timers are due than one tick may fire, actors get a share of their own, or they would starve.
        self._tick_end = start + (2 * self._max_tick if overfull else self._max_tick)
        self._is_overfull = overfull
        self._is_time_up = False
        self._clock_read = start
        self._since_clock_read = 0
        queue = self.run_queue
        while visits > 0 and queue.count > 0:
            if self.is_interrupted:
                if self.is_halted:
                    return
                # Something urgent has come from another thread.
                self.inbox.drain()
            visits -= 1
            cell = queue.pop() if self.pick_next is None else queue.pick(self.pick_next(queue.count))
            seen = self._visit(cell)
            self._since_clock_read += seen
            if self._is_time_up:
                return
            if (
                (self._since_clock_read >= self._clock_pace or cell.speed == SLOW)
                and queue.count > 0
                and self._check_clock(cell)
            ):
                return

    def _check_clock(self, cell: ActorCell) -> bool:
        """Read the clock after a message of an actor, and set the pace; return True if the tick's time is up."""
        now = self.timers.elapsed()
        if now - self._clock_read < SLOW_AFTER:
            cell.speed = QUICK
            self._clock_pace = min(2 * self._clock_pace, MAX_CLOCK_PACE)
        else:
            cell.speed = SLOW
            self._clock_pace = 1
        self._clock_read = now
        self._since_clock_read = 0
        self._is_time_up = now >= self._tick_end or (
            not self._is_overfull and now >= self.timers.wheel.soonest * MILLISECOND
        )
        return self._is_time_up

    @cython.nonecheck(False)
    def _visit(self, cell: ActorCell) -> Count:
        """Let one actor handle its messages, until its budget or the tick's time is up, or something urgent comes.

        Returns how many it handled; if the clock was read meanwhile, how many since.
        """
        driver = cell.driver
        if driver is not None:
            # Its coroutine had paused and may go on, even if the actor was killed: its last step is waited for as well.
            self.coroutines.resume(driver)
            return 1
        if cell.status >= STOPPING:
            # It ended while it stood in the queue.
            return 0
        ctx = cell.ctx
        if ctx is None:
            ctx = self.make_context(cell)
        behavior = cell.behavior
        budget = self._max_msgs_per_actor if cell.budget == 0 else cell.budget
        handled = 0
        # How many messages it may have handled when the clock is read again, and had when it was read last.
        limit = min(budget, self._clock_pace - self._since_clock_read if cell.speed == QUICK else 1)
        clock_read = 0
        data: object = None
        self.current = cell
        while True:
            is_clock_due = False
            try:
                while not self.is_interrupted:
                    if handled >= limit:
                        is_clock_due = handled < budget
                        break
                    if cell.urgent == 0:
                        # By far the most common case, so it goes around the mailbox's methods.
                        ring = cell.data
                        if ring is None or ring.count == 0:
                            break
                        ctx.lane_number = DATA
                        data = pop(ring, ctx)
                    else:
                        data = cell.take_urgent(ctx)
                    handled += 1
                    self.counters.handled += 1
                    if cell.overdue is not None:
                        # The free slot belongs to a message that waits for room, before any new one.
                        self.timers.deliver_overdue(cell)
                    if ctx.lane_number == SYSTEM and ctx.tag is IO:
                        data = self._accept_io(cell, ctx, data)
                        if data is None:
                            continue
                    if self.watches_messages:
                        self._message = data
                        self._messages += 1
                    verdict = call_behavior(behavior, ctx, data)
                    if verdict is not None and verdict is not OK_VERDICT:
                        self._apply_verdict(cell, verdict, MAY_RUN_COROUTINE)
                    if ctx.sender is not ZERO and cell.driver is None:
                        # The message was handled to its end: its delivery callback is no longer needed.
                        ctx.sender = 0
                    if cell.status != RUNNING or cell.driver is not None or cell.watch is not None:
                        break
            except (KeyboardInterrupt, SystemExit) as error:
                self.exit_with(error)
            except BaseException as error:  # noqa: BLE001  # a panic is anything a behavior raises
                self.behavior_raised(cell, ctx, data, error)
            # Not inside the try: a clock that raises is no failure of the actor.
            if not is_clock_due or cell.waiting() == 0 or self._check_clock(cell):
                break
            clock_read = handled
            limit = min(budget, handled + self._clock_pace)
        self.current = None
        if self.watches_messages:
            self._message = None
        if cell.driver is None:
            self.settle(cell)
        else:
            cell.message = data
            if cell.status >= STOPPING:
                # It must end, and has suspended.
                cell.driver.cancel()
        return handled - clock_read

    @cython.nonecheck(False)
    def make_context(self, cell: ActorCell) -> ActorContext:
        """Make the context that a behavior is called with; from now on it holds the state."""
        ctx = ActorContext.__new__(ActorContext)
        ctx.self_id = cell.actor  # type: ignore[assignment]  # a living actor has an id
        ctx.loop = self.loop
        ctx.state = cell.state
        if not cython.compiled:
            # Compiled, they begin as None. The actor may end before its first message fills them in.
            ctx.tag = ctx.sender = None
        cell.ctx = ctx
        cell.state = None
        return ctx

    def _accept_io(self, cell: ActorCell, ctx: ActorContext, event: object) -> object:
        """Check an I/O event that was taken from a mailbox; None if its descriptor is no longer watched.

        The descriptor is armed again when the visit ends. That is soon enough: polling happens once a tick.
        """
        watch, ctx.sender = ctx.sender, 0
        event = self.fds.check(watch, event)
        if event is None:
            self.counters.handled -= 1
            self.counters.dropped += 1
            self.counters.dropped_system += 1
        else:
            cell.watch = watch
        return event

    @cython.nonecheck(False)
    def settle(self, cell: ActorCell) -> None:
        """After a behavior has returned: end the actor, queue it again, or leave it idle."""
        if cell.status >= STOPPING:
            self.actors.finish(cell)
            return
        if cell.watch is not None:
            watch, cell.watch = cell.watch, None
            self.fds.rearm(watch)
        if cell.overdue is not None:
            self.timers.deliver_overdue(cell)
        ring = cell.data
        if cell.urgent > 0 or (ring is not None and ring.count > 0):
            self.requeue(cell)
        elif cell.closing and not cell.is_expecting():
            # It was to end once it had handled everything.
            self.actors.end_actor(cell, NORMAL, None)
        else:
            cell.queued = False
            if ring is not None and ring.room > SHRINK_ROOM:
                ring.shrink()

    def behavior_raised(self, cell: ActorCell, ctx: ActorContext, data: object, error: BaseException) -> None:
        """A behavior has raised: it panics, or it stashes its message."""
        # By its type: isinstance() asks the exception for its __class__, which may raise.
        if issubclass(type(error), StashMessage):
            self._stash(cell, ctx, data, error.stash)  # type: ignore[attr-defined]  # it is one
        else:
            if cell.status != INIT:
                # For the crash report.
                cell.failed_message = (ctx.tag, data)
            self.actors.mark_stopping(cell)
            cell.reason = PANIC
            cell.cause = error

    def apply_final_verdict(self, cell: ActorCell, verdict: object) -> None:
        """Apply what a coroutine returned, if it is not OK."""
        self._apply_verdict(cell, verdict, IS_FINAL)

    def _apply_verdict(self, cell: ActorCell, verdict: object, may_run: bool) -> None:
        """Apply what a behavior returned, if it is not OK. An earlier request to end stands."""
        # The two verdicts come first: finding out that something is no coroutine takes as long as a whole message.
        if may_run and verdict is not STOP_VERDICT and verdict is not FAIL_VERDICT and is_coroutine(verdict):
            if cell.status >= STOPPING:
                verdict.close()
                return
            verdict = self.coroutines.start(cell, verdict, cell.context)
            if verdict is None or verdict is OK_VERDICT:
                return
        if cell.status >= STOPPING:
            return
        self.actors.mark_stopping(cell)
        if verdict is STOP_VERDICT:
            cell.reason = NORMAL
        elif verdict is FAIL_VERDICT:
            cell.reason = FAIL_REASON
        else:
            cell.reason = PANIC
            cell.cause = InvalidVerdictError(
                f"the behavior of {self.label(cell)} returned {safe_repr(verdict)}: a behavior returns None, OK, STOP or "
                f"FAIL; to answer, send to ctx.sender"
            )

    # -- being driven by a host -------------------------------------------------------------------------------------

    def host_call(self) -> None:
        """Run a tick. The host calls this; it is compiled because whatever comes from outside pays for it."""
        host = self.host
        if host is None or self.is_ticking:
            return  # a call that was scheduled before the loop left the host
        self.is_awake = True
        self.inline_left = MAX_INLINE_TICKS
        if not self.is_closed:
            self.run_tick(host)
        if self.is_closed:
            self.runner.leave_host(host)

    def begin_host_call(self) -> bool:
        """Announce that `end_host_call` follows in this callback of the event loop. Return False if a tick is scheduled anyway.

        Until then, waking the host schedules nothing: `end_host_call` runs the tick, which saves an iteration of the event loop.
        """
        if self.is_awake:
            return False
        self.is_host_calling = True
        return True

    def end_host_call(self) -> None:
        """Run a tick if the loop was woken since `begin_host_call`."""
        self.is_host_calling = False
        if self.is_awake and self.host is not None:
            self.host.wakeups += 1
            host_call_in_context(self, self.coroutines.home_context)

    def run_tick(self, host: Any) -> None:
        """Run a tick, and arrange for the next one if there is a host. An error of the runtime ends the loop."""
        self.is_ticking = True
        try:
            self.tick()
            if self.on_tick_end is not None:
                self.on_tick_end()
            if (
                self.counters.dead + self.counters.dropped != self.reported
            ):  # nearly every tick has nothing to report
                self.reporter.report_counts()
            if host is not None and not self.is_closed:
                self._sleep_or_continue(host)
        except BaseException as error:  # noqa: BLE001  # whatever it is, the loop cannot go on
            self._break(error)
        finally:
            self.is_ticking = False

    def _sleep_or_continue(self, host: Any) -> None:
        """Ask to be called again at once, or sleep until the next deadline."""
        if self.has_ready():
            host.call_soon()
            return
        coroutines = self.coroutines
        if (
            self.on_idle is not None
            and not self.is_polled
            and coroutines.in_flight == coroutines.paused
            and self.watched_fds == 0
        ):
            wait = self.timers.next_wakeup()
            if wait > 0 and self.on_idle(wait):
                host.call_soon()
                return
        self.is_awake = False
        self.rearm_host()
        if self.until_idle and self.is_idle():
            host.stop()

    def rearm_host(self) -> None:
        """Have the host call at the next deadline of the timer wheel, or not at all if there is none."""
        host = self.host
        if host is None:
            return
        wait = self.timers.next_wakeup()
        if wait >= 0:
            # Whole milliseconds, rounded up: a host that rounds down would wake the loop early, over and over.
            self.is_host_armed = True
            host.arm(self.timers.armed_for, (wait + MILLISECOND - 1) // MILLISECOND / 1000.0)
        elif self.is_host_armed:
            self.is_host_armed = False
            host.disarm()

    def tick_inline(self) -> bool:
        """Run a tick for a task that waits for an answer outside of one; return False if that is not possible now.

        Through the host, an answer costs its waiter a future and two turns of the event loop, several microseconds. Here
        it costs a call. It is bounded, in number and in time, from one call of the host to the next: I/O and other tasks
        must have their turn. Ticks never nest, and this one runs in the context of the loop, not of the caller.
        """
        if (
            not self.coroutines.may_inline
            or self.is_ticking
            or self.current is not None
            or self.hook_depth > 0
            or self.is_closed
        ):
            return False
        if self.inline_left <= 0 or self.run_queue.count == 0:
            return False
        if self.inline_left == MAX_INLINE_TICKS:
            self._inline_since = self.timers.elapsed()
        elif self.timers.elapsed() - self._inline_since >= self._max_tick:
            self.inline_left = 0
            return False
        self.inline_left -= 1
        self.is_ticking = True
        self.is_inline = True
        was_awake, self.is_awake = self.is_awake, True
        try:
            tick_in_context(self, self.coroutines.home_context)
        except BaseException as error:  # noqa: BLE001  # whatever it is, the loop cannot go on
            self._break(error)
        finally:
            self.is_ticking = False
            self.is_inline = False
            if not was_awake:
                # The host takes care of what is left to do or to wait for.
                self.is_awake = False
                self.wake_host()
        return True

    # -- timers, slots and inline calls -----------------------------------------------------------------------------

    def set_budget(self, target: ActorId, budget: Count) -> None:
        """Set how many messages an actor handles a visit; 0 for the loop's default."""
        actor = self.require_id(target)
        cell = actor.cell
        if cell is not None:
            cell.budget = budget

    def call_later(
        self, ms: Count, function: Callable[[], object], on_loop_exit: Callable[[], object] | None = None
    ) -> Callable[[], None]:
        """Call a function in `ms` milliseconds; return what cancels that. What it raises is logged.

        If the loop ends first, `on_loop_exit` is called instead; it must not raise.
        """
        callback = None if on_loop_exit is None else LoopExitCallback(on_loop_exit)
        timers = self.timers
        timer = timers.call_after(ms, function, callback)

        def cancel() -> None:
            timers.cancel_call(timer)

        return cancel

    def start_timer(self, target: ActorId, ms: Count, lane: LaneNumber, data: object, tag: object) -> Timer:
        """Send a message in `ms` milliseconds; the tag may be any object.

        The delay was checked, by `checked_delay` for example. Otherwise it raises what `Loop.send_after` raises.
        """
        cell = self.reach(target)
        if cell is None:
            raise self.missing_error(target)
        return self.timers.start(cell, ms, lane, data, tag, 0)

    def start_timer_at(
        self, target: ActorId, at_ms: Count, lane: LaneNumber, data: object, tag: object
    ) -> Timer:
        """Do what `start_timer` does, `at_ms` milliseconds after the loop was made. Never early."""
        cell = self.reach(target)
        if cell is None:
            raise self.missing_error(target)
        if at_ms >= FAR:
            raise InvalidArgumentError(
                f"a timer is set for {at_ms} ms: a loop can count 139 years, and that is beyond them"
            )
        return self.timers.start_at(cell, at_ms, lane, data, tag, 0)

    def start_system_timer(self, target: ActorId, ms: Count, data: object, tag: SystemTag) -> Timer | None:
        """Send a system message in `ms` milliseconds; None if the actor has exited.

        A timer that meets a full mailbox waits for room. It raises what `send_system` raises.
        """
        _check_system_tag(tag)
        actor = self.require_id(target)
        cell = actor.cell
        if cell is None:
            return None
        return self.timers.start(cell, ms, SYSTEM, data, tag, 0)

    def hold_slot(self, actor: ActorId, lane: LaneNumber) -> None:
        """Count a message that has left an actor's mailbox as if it were still there, until `free_slots`."""
        cell = actor.cell
        if cell is not None:
            cell.add_coming(lane, 1)

    def free_slots(self, actor: ActorId, lane: LaneNumber, count: Count) -> None:
        """Free slots that were held. Messages that wait for room get them; an actor that waited only for this ends."""
        cell = actor.cell
        if cell is None:
            return
        cell.add_coming(lane, -count)
        if cell.overdue is not None:
            self.timers.deliver_overdue(cell)
        if cell.closing and not cell.queued and cell.waiting() == 0 and not cell.is_expecting():
            self.actors.end_actor(cell, NORMAL, None)

    def hold_all_slots(self, actor: ActorId, lane: LaneNumber) -> None:
        """Keep a lane full, whatever leaves it, until `free_all_slots`. From any thread."""
        cell = actor.cell
        if cell is not None:
            cell.add_coming(lane, ALL_SLOTS)

    def free_all_slots(self, actor: ActorId, lane: LaneNumber) -> None:
        """End `hold_all_slots`. Messages that wait for room get it, if there is any."""
        self.free_slots(actor, lane, ALL_SLOTS)

    def has_message_from(self, actor: ActorId, lane: LaneNumber, sender: object) -> bool:
        """Return True if the message with this sender waits in a lane of an actor."""
        cell = actor.cell
        return cell is not None and cell.depth(lane) > 0 and cell.lane(lane).has(sender)

    def move_message(self, actor: ActorId, lane: LaneNumber, sender: object, to: ActorId) -> bool:
        """Move the message with this sender, if it waits, to the front of another actor's mailbox; return True if it did."""
        cell = actor.cell
        other = to.cell
        if cell is None or other is None:
            return False
        message = cell.take_out(lane, sender)
        if message is None:
            return False
        other.put_back(lane, message[0], message[1], message[2])
        if cell.overdue is not None:
            self.timers.deliver_overdue(cell)
        if not other.queued:
            self.make_ready(other)
        return True

    @cython.nonecheck(False)
    def call_inline(
        self, actor: ActorId, lane: LaneNumber, data: object, tag: object, sender: object
    ) -> bool:
        """Handle a message inside the turn of the actor that sends it; return False if that is not possible.

        The module docstring says when it is.
        """
        current = self.current
        cell = actor.cell
        if (
            current is None
            or cell is None
            or self.is_closed
            or actor.home is not self
            or PyThread_get_thread_ident() != self.owner
        ):
            return False
        if (
            cell.queued
            or cell.status != RUNNING
            or cell.limit <= 0
            or cell.overdue is not None
            or cell.is_expecting()
            or len(self.outer) >= MAX_INLINE_DEPTH
        ):
            return False
        ctx = cell.ctx
        if ctx is None:
            ctx = self.make_context(cell)
        behavior = cell.behavior
        ctx.lane_number = lane
        ctx.tag = tag
        ctx.sender = sender
        # It counts as being visited: messages to it wait meanwhile.
        cell.queued = True
        self.counters.accepted += 1
        self.counters.handled += 1
        self.outer.append(current)
        self.current = cell
        before = self._message
        if self.watches_messages:
            self._message = data
            self._messages += 1
        try:
            verdict = behavior(ctx, data)  # type: ignore[misc]  # a living actor has a behavior
            if verdict is not None and verdict is not OK_VERDICT:
                self._apply_verdict(cell, verdict, MAY_RUN_COROUTINE)
            if ctx.sender is not ZERO and cell.driver is None:
                ctx.sender = 0
        except (KeyboardInterrupt, SystemExit) as error:
            self.exit_with(error)
        except BaseException as error:  # noqa: BLE001  # a panic is anything a behavior raises
            self.behavior_raised(cell, ctx, data, error)
        self.outer.pop()
        self.current = current
        self._message = before
        if cell.driver is None:
            self.settle(cell)
        else:
            cell.message = data
            if cell.status >= STOPPING:
                cell.driver.cancel()
        return True

    def lane_if_next_is_same(self, cell: ActorCell, ctx: ActorContext) -> Ring | None:
        """Return the lane of the current message if the next message in it has the very same tag; else None."""
        ring = cell.lane(ctx.lane_number)
        return ring if ring.next_is(ctx.tag) else None

    def take_next(self, cell: ActorCell, ctx: ActorContext, ring: Ring) -> object:
        """Take the next message of the current lane into the current turn; return its data. `ctx.sender` is its sender."""
        data = pop(ring, ctx)
        if ctx.lane_number != DATA:
            cell.urgent -= 1
        self.counters.handled += 1
        if cell.overdue is not None:
            self.timers.deliver_overdue(cell)
        return data

    def take_same(
        self, cell: ActorCell, ctx: ActorContext, items: list[object], most: Count, unlike: type
    ) -> Count:
        """Append the data of the messages right behind the current one to a list, up to `most` items; return how many.

        It takes messages with the same tag, without a sender, and with data of any type but `unlike`.
        """
        if cell.overdue is not None:
            # For each message that leaves, one that waits for room comes in.
            return 0
        taken = cell.lane(ctx.lane_number).take_alike(items, most, ctx.tag, unlike)
        if ctx.lane_number != DATA:
            cell.urgent -= taken
        self.counters.handled += taken
        return taken

    # -- the state of the loop --------------------------------------------------------------------------------------

    def has_ready(self) -> bool:
        """Return True if an actor could run now, or something waits that the last tick had no time for."""
        return (
            self.run_queue.count > 0 or self.timers.wheel.due.first is not None or not self.inbox.is_empty()
        )

    def is_quiet(self) -> bool:
        """Return True if no message waits and no coroutine of an actor is suspended. Timers may be pending."""
        return self.counters.is_settled() and self.coroutines.in_flight == 0 and self.inbox.is_empty()

    def is_idle(self) -> bool:
        """Return True if nothing is ready, no timer is pending, no coroutine suspended and no descriptor watched."""
        return (
            not self.has_ready()
            and self.timers.pending() == 0
            and self.coroutines.in_flight == 0
            and self.watched_fds == 0
        )

    def is_host_closed(self) -> bool:
        """Return True if the event loop was closed under the loop, so that no tick comes any more."""
        return self.host is not None and self.host.loop.is_closed()

    def is_inside(self) -> bool:
        """Return True if the caller is a behavior, a coroutine of one, or a hook."""
        return self.is_ticking or self.hook_depth > 0 or self.current is not None

    def counts(self) -> dict[str, int]:
        """Return the counters, by the names of `Statistics`."""
        counters = self.counters
        timers = self.timers
        return {
            "sent": counters.accepted + counters.refused,
            "handled": counters.handled,
            "refused": counters.refused,
            "dead": counters.dead,
            "dropped": counters.dropped,
            "waiting": counters.waiting(),
            "alive": self.actors.table.alive,
            "spawned": self.actors.spawned,
            "ended_normal": self.actors.ended[NORMAL],
            "ended_fail": self.actors.ended[FAIL_REASON],
            "ended_panic": self.actors.ended[PANIC],
            "ready": self.run_queue.count,
            "in_flight": self.coroutines.in_flight,
            "fds": self.watched_fds,
            "timers_set": timers.started,
            "timers_fired": timers.fired,
            "timers_cancelled": timers.cancelled,
            "timers_released": timers.released,
            "timers_pending": timers.pending(),
            "ticks": self._ticks,
        }

    def counts_threadsafe(self) -> tuple[dict[str, int], bool]:
        """Return the counters, and whether a message is being handled. From any thread, for a loop that is stuck.

        Messages of other threads that no tick has seen count as waiting. If the loop is running, the numbers may not
        fit together.
        """
        counts = self.counts()
        unread = self.inbox.count()
        counts["sent"] += unread
        counts["waiting"] += unread
        actor = self.current_message()[1]
        return counts, actor is not None and actor.is_alive and counts["handled"] > 0

    def rows(self) -> list[tuple[ActorId, str | None, ActorId | None, int, int, ChildGroup | None]]:
        """Return every living actor, the oldest first: id, name, supervisor's id, status, messages waiting, family."""
        rows: list[tuple[ActorId, str | None, ActorId | None, int, int, ChildGroup | None]] = []
        for cell in self.actors.table.living():
            actor = cell.actor
            assert actor is not None
            parent = None if cell.supervisor is None else cell.supervisor.actor
            rows.append((actor, cell.name, parent, cell.status, cell.waiting(), cell.children))
        rows.reverse()
        return rows

    # -- the state of one actor -------------------------------------------------------------------------------------

    def mailbox_status(self, actor: ActorId) -> tuple[Count, Count, Count, Count, Count, bool, object] | None:
        """Return what waits in each lane from SYSTEM to DATA, what is stashed, and the tag it is suspended in.

        None if the actor has exited.
        """
        cell = actor.cell
        if cell is None:
            return None
        ctx = cell.ctx
        is_suspended = cell.driver is not None
        return (
            cell.depth(SYSTEM),
            cell.depth(CONTROL),
            cell.depth(MANAGEMENT),
            cell.depth(DATA),
            0 if cell.stashed is None else len(cell.stashed),
            is_suspended,
            ctx.tag if ctx is not None and is_suspended else None,
        )

    def activity_of(self, actor: ActorId) -> tuple[object, object, bool, object, object] | None:
        """Return behavior and state of an actor, whether it is at a message, and tag and data of that; None if it has exited.

        The data is None while the actor is in the middle of a turn, because the kernel does not keep it.
        """
        cell = actor.cell
        if cell is None:
            return None
        ctx = cell.ctx
        is_busy = cell.status != INIT and (cell.driver is not None or self.actors.is_running(cell))
        state = cell.state if ctx is None else ctx.state
        return (cell.behavior, state, is_busy, None if ctx is None else ctx.tag, cell.message)

    def current_tag(self, actor: ActorId) -> object:
        """Return the tag of the message that an actor is handling; None if it is not its turn, or it is stopping."""
        cell = actor.cell
        if cell is None or cell is not self.current or cell.status >= STOPPING or cell.ctx is None:
            return None
        return cell.ctx.tag

    def tag_of(self, actor: ActorId) -> object:
        """Return the tag of the last message that an actor has begun; 0 if there is none. From any thread."""
        cell = actor.cell
        ctx = None if cell is None else cell.ctx
        return 0 if ctx is None else ctx.tag

    def context_of(self, actor: ActorId) -> Context | None:
        """Return where the context variables of an actor's coroutines start from; None for the loop's own."""
        cell = actor.cell
        return None if cell is None else cell.context

    def state_of(self, actor: ActorId) -> object:
        """Return an actor's state; None if it has exited."""
        cell = actor.cell
        if cell is None:
            return None
        return cell.state if cell.ctx is None else cell.ctx.state

    def current_message(self) -> tuple[Count, ActorId | None, str | None, object]:
        """Return how many messages there have been, and the actor, name and data of the current one. From any thread."""
        cell = self.current
        if cell is None:
            return (self._messages, None, None, None)
        return (self._messages, cell.actor, cell.name, self._message)

    def running_sibling(self) -> Kernel | None:
        """Return the kernel on the same event loop whose actor is in its turn; None if there is none."""
        for kernel in self.siblings:
            if kernel.current is not None:
                return kernel
        return None

    def current_actor(self) -> ActorId | None:
        """Return the actor whose turn it is; None outside of turns."""
        cell = self.current
        return None if cell is None else cell.actor

    def is_current(self, actor: ActorId) -> bool:
        """Return True if the caller is an actor in its turn, or runs in a turn that is nested in it."""
        cell = actor.cell
        return cell is not None and self.actors.is_running(cell)

    def is_actor_idle(self, target: ActorId) -> bool:
        """Return True if no message waits for an actor and it handles none, or it has exited. Timers may be pending."""
        actor = self.require_id(target)
        cell = actor.cell
        return cell is None or (
            cell.waiting() == 0
            and cell.driver is None
            and cell.surplus == 0
            and not cell.is_expecting()
            and not self.actors.is_running(cell)
        )

    def begin_step(self, cell: ActorCell) -> None:
        """A step of the actor's coroutine begins: until it ends, it is this actor's turn."""
        self.current = cell
        if self.watches_messages:
            self._message = cell.message
            self._messages += 1

    def end_step(self) -> None:
        """The step has ended."""
        self.current = None
        if self.watches_messages:
            self._message = None

    # -- descriptors ------------------------------------------------------------------------------------------------

    def begin_fd_watch(self, owner: object) -> ActorId:
        """Count that an actor watches one more descriptor; return its id."""
        cell = self.reach(owner)
        if cell is None:
            raise self.missing_error(owner)
        cell.fds += 1
        self.watched_fds += 1
        assert cell.actor is not None
        return cell.actor

    def end_fd_watch(self, actor: ActorId) -> None:
        """Count that an actor, if it is alive, watches one descriptor less."""
        cell = actor.cell
        if cell is not None:
            cell.fds -= 1
        self.check_idle()


def _not_an_id(target: object) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"{safe_repr(target)} is not an actor id: pass what spawn() returned, or its number"
    )


def _check_system_tag(tag: SystemTag) -> None:
    if tag not in SENDABLE_TAGS:
        raise InvalidArgumentError(
            f"tag is {safe_repr(tag)}: pass SystemTag.CHILD_RESTART or SystemTag.SHUTDOWN"
        )


def checked_lane(tag: object, lane: object) -> LaneNumber:
    """Check a tag and a lane of a user; return the lane's number."""
    if tag is not ZERO and (not isinstance(tag, int) or tag < 0 or tag > LAST_USER_TAG):
        raise InvalidArgumentError(f"tag is {safe_repr(tag)}: pass an int from 0 to 2**32 - 1")
    if lane is DATA_LANE:
        return DATA
    if not isinstance(lane, Lane):
        raise InvalidArgumentError(
            f"lane is {safe_repr(lane)}: pass Lane.CONTROL, Lane.MANAGEMENT or Lane.DATA"
        )
    if lane is Lane.SYSTEM:
        raise InvalidArgumentError("lane is Lane.SYSTEM: only the runtime sends on that lane")
    return lane.value


def check_sender(sender: object) -> None:
    """Check a sender of a user: a delivery callback in its place would be called by mistake."""
    if sender is not ZERO and not isinstance(sender, (ActorId, int)):
        raise InvalidArgumentError(
            f"sender is {safe_repr(sender)}: pass the id of an actor, or an int; 0 for no sender"
        )


def checked_delay(delay: object) -> Count:
    """Check a delay of a user, in seconds; return it in whole milliseconds, rounded up."""
    if type(delay) is float:
        seconds = delay
        if 0.0 <= seconds <= MAX_DELAY:
            return whole_ms(seconds)
    elif type(delay) is int and 0 <= delay <= MAX_DELAY:
        return delay * 1000
    return ceil(to_ms("delay", delay))


def whole_ms(seconds: float) -> Count:
    """Return seconds in whole milliseconds, rounded up. The rounding error of the product does not count: 16.1 s are 16,100 ms."""
    ms = seconds * 1000.0
    nearest = int(ms + 0.5)
    return nearest + 1 if ms - nearest > ms * MAX_ROUNDING_ERROR else nearest
