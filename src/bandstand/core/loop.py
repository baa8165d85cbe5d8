"""`Loop`: the public face of a single-threaded actor loop.

`Loop` checks arguments and documents what each call guarantees. The work is done by its `kernel` and, for running and
stopping, by its `runner`. It is compiled, so that `loop.send` costs one C call on top of the kernel's work.
"""

# current_context comes from the .pxd when compiled; the checker sees one of two definitions.
# pyright: reportPossiblyUnboundVariable=false

from __future__ import annotations

import warnings
from contextvars import copy_context
from itertools import count
from math import ceil
from types import TracebackType
from typing import TYPE_CHECKING, NoReturn, Self, TypeVar

from bandstand.core.config import LoopConfig, MonotonicClock
from bandstand.core.counters import Statistics
from bandstand.core.enums import MAX_LOOP_TAG, ActorStatus, Lane, Overflow
from bandstand.core.fd_watcher import FdWatcher
from bandstand.core.kernel import Kernel, check_sender, checked_delay, checked_lane
from bandstand.core.links import Monitor
from bandstand.core.reporter import LoopReporter
from bandstand.core.runner import LoopRunner
from bandstand.core.tree import build_tree
from bandstand.errors import (
    InvalidArgumentError,
    InvalidTimerError,
    LoopBusyError,
    LoopClosedError,
    OutOfMemoryError,
)
from bandstand.errors.formatting import safe_repr
from bandstand.errors.validation import Seconds, to_ms, to_seconds

try:
    import cython
except ModuleNotFoundError:  # interpreted, where Cython is not installed
    from bandstand.core import _cython as cython  # type: ignore[no-redef]  # one of the two

if not cython.compiled:
    # Compiled, this is C's own function, declared in the .pxd.
    current_context = copy_context

if TYPE_CHECKING:
    from bandstand.core.config import Clock
    from bandstand.core.context import Behavior
    from bandstand.core.enums import Interest
    from bandstand.core.events import RuntimeEvents
    from bandstand.core.ids import ActorId
    from bandstand.core.timer_wheel import Timer
    from bandstand.core.tree import Tree

__all__ = ("Loop",)

State = TypeVar("State")

STATUSES = tuple(ActorStatus)
REJECT = Overflow.REJECT
DATA_LANE = Lane.DATA
ZERO = 0

_loops = count()


class Loop:
    """A single-threaded loop of actors.

    One thread owns it: the one that made it, until it is run, then the one that runs it. Every call except `send_async` and
    `request_stop` belongs on that thread and raises `WrongThreadError` elsewhere.

    Args:
        config: its limits; None for the defaults.
        clock: where its time comes from; None for the machine's monotonic clock.
    """

    kernel: Kernel
    """The engine, for packages that build on the loop. Programs do not need it."""

    def __init__(self, config: LoopConfig | None = None, *, clock: Clock | None = None) -> None:
        if getattr(self, "kernel", None) is not None:
            raise LoopBusyError(
                "the loop was made already: __init__() cannot be called again, make another Loop"
            )
        config = LoopConfig() if config is None else config
        if not isinstance(config, LoopConfig):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers without types
            raise InvalidArgumentError(f"config is {safe_repr(config)}: pass a LoopConfig")
        clock = MonotonicClock() if clock is None else clock
        now = getattr(clock, "now_ns", None)
        reading = now() if callable(now) else None
        if type(reading) is not int or abs(reading) >= 1 << 62:
            raise InvalidArgumentError(
                f"clock is {safe_repr(clock)}: pass an object whose now_ns() returns nanoseconds as a 64-bit int"
            )
        self._config = config
        kernel = Kernel(
            self,
            # Tags are given out in turn. An id knows its loop; only bare numbers could be taken for those of a loop
            # made 65,535 loops later.
            next(_loops) % MAX_LOOP_TAG + 1,
            config.max_actors,
            config.sys_reserved,
            config.default_mailbox_cap,
            config.max_msgs_per_actor,
            config.max_actors_per_tick,
            int(to_ms("max_tick", config.max_tick) * 1_000_000),
            clock.now_ns,
            getattr(clock, "on_idle", None),
        )
        kernel.fds = FdWatcher(kernel, ceil(to_ms("fd_sweep_period", config.fd_sweep_period)))
        stall_timeout = config.stall_timeout
        kernel.reporter = LoopReporter(
            kernel, clock, None if stall_timeout is None else to_seconds("stall_timeout", stall_timeout)
        )
        kernel.runner = LoopRunner(kernel, config)
        self.kernel = kernel

    @property
    def config(self) -> LoopConfig:
        """The limits it was made with."""
        return self._config

    @property
    def runner(self) -> LoopRunner:
        """What connects the kernel to an event loop, for packages that build on the loop. Programs do not need it."""
        runner: LoopRunner = self.kernel.runner
        return runner

    # -- actors -----------------------------------------------------------------------------------------------------

    def spawn(
        self,
        behavior: Behavior[State],
        state: State = None,  # type: ignore[assignment]  # without a state, State is None
        *,
        name: str | None = None,
        mailbox_cap: int | None = None,
        supervisor: ActorId | None = None,
        overflow: Overflow = Overflow.REJECT,
    ) -> ActorId:
        """Start an actor. It runs `behavior(ctx, data)` once for each message, one at a time.

        The behavior is a function or a coroutine function. It returns None or `OK` to go on, `STOP` to end, `FAIL` to
        fail; an exception is a panic. `state` is `ctx.state`. An async behavior runs in a real asyncio task, one message
        at a time, while other actors go on; each message starts from a copy of the context variables at this call.

        Args:
            behavior: what the actor does.
            state: its state.
            name: for logs, errors and the observer. It need not be unique.
            mailbox_cap: slots of its mailbox, the system's reserve included: 6 is room for 2 messages of users, with the default reserve of 4.
                None or 0 for the loop's default. Options of typed actors count the messages of users instead, and are named `mailbox`.
            supervisor: an actor that gets a `ChildExit` when this one ends. The slot for it is reserved now.
                (Supervisors of `bandstand.supervision` start their children themselves.)
            overflow: what a full lane does with one more message.

        Raises:
            InvalidArgumentError: the behavior is not callable, the cap is not above the reserve, or another argument is wrong.
            MaxActorsError: as many actors are alive as the config allows.
            OutOfMemoryError: there is no memory for one more.
            NoSuchActorError, ActorNotLocalError: the supervisor does not exist.
            LoopClosedError: the loop was asked to stop.
            WrongThreadError: called off the loop's thread.
        """
        kernel = self.kernel
        kernel.check_thread()
        if kernel.is_closed:
            raise LoopClosedError(
                "the loop is closed: it was asked to stop, or was destroyed, and spawns no actors any more"
            )
        if isinstance(behavior, type):
            raise InvalidArgumentError(
                f"behavior is {safe_repr(behavior)}: pass a function of (ctx, data); actor classes are spawned by a loop of "
                f"bandstand.actor"
            )
        if not callable(behavior):
            raise InvalidArgumentError(f"behavior is {safe_repr(behavior)}: pass a function of (ctx, data)")
        if supervisor is not None and kernel.actors.is_supervisor(supervisor):
            raise InvalidArgumentError(
                f"supervisor is {safe_repr(supervisor)}, which starts its children itself: give it a ChildSpec, at its start or "
                f"with start_child()"
            )
        cap = kernel.actors.checked_cap(mailbox_cap)
        if overflow is not REJECT and not isinstance(overflow, Overflow):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers without types
            raise InvalidArgumentError(f"overflow is {safe_repr(overflow)}: pass a member of Overflow")
        if name is not None and not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # same
            raise InvalidArgumentError(f"name is {safe_repr(name)}: pass a string")
        policy = None if overflow is REJECT else overflow
        return kernel.actors.spawn(behavior, state, name, cap, policy, supervisor, current_context())

    def status(self, target: ActorId | int) -> ActorStatus:
        """Return an actor's status. An `ActorId` remembers how its actor ended; a bare number does not.

        Raises:
            NoSuchActorError: a number that names no living actor.
            ActorNotLocalError: the id belongs to another loop.
            WrongThreadError: called off the loop's thread.
        """
        actor = self.kernel.require_id(target)
        return STATUSES[actor.status]

    def stop_actor(self, target: ActorId | int) -> None:
        """End an actor with reason `NORMAL`. Nothing is drained: its unread messages become dead letters.

        It ends inside this call; if it is the caller itself, as soon as its behavior has returned.

        Raises:
            NoSuchActorError, ActorNotLocalError: the target has ended already, never existed, or lives on another loop.
            LoopClosedError: the loop was asked to stop.
            WrongThreadError: called off the loop's thread.
        """
        self.kernel.actors.stop_actor(target)

    def fail_actor(self, target: ActorId | int, reason: BaseException | str | None = None) -> None:
        """End an actor with reason `FAIL`, as if its behavior had returned that. `reason` becomes the reported cause.

        Raises what `stop_actor` raises.
        """
        self.kernel.actors.fail_actor(target, reason)

    def kill_actor(self, target: ActorId | int) -> None:
        """End an actor without waiting for anything, with reason `FAIL`.

        `stop_actor` waits until a suspended coroutine has handled its cancellation. `kill_actor` does not: the coroutine
        is cancelled, and whatever it does then, its actor has ended. So it also ends an actor that is stopping already.
        A behavior that is running, such as the caller's own, ends its actor when it returns.

        Raises what `stop_actor` raises, but not for an actor that is stopping.
        """
        self.kernel.actors.kill_actor(target)

    def tree(self) -> Tree:
        """Return a snapshot of every living actor: supervisors with their children, in order, and actors without one.

        Loop thread only. `print(loop.tree())` draws it: the class of typed actors, status, the message an actor is busy with, waiting messages and
        restarts. `print(loop.tree().draw(max_children=None))` does not fold long lists of children.
        """
        self.kernel.check_thread()
        return build_tree(self.kernel.rows(), self.kernel.reporter.describe_activity)

    # -- messages ---------------------------------------------------------------------------------------------------

    def send(
        self,
        target: ActorId | int,
        data: object,
        *,
        tag: int = 0,
        lane: Lane = Lane.DATA,
        sender: ActorId | int = 0,
    ) -> None:
        """Send `data` to an actor.

        Either the message is enqueued, and the behavior then sees it exactly once unless its actor ends first (then it
        is a counted dead letter), or this raises and nothing was enqueued. References are passed, nothing is copied.
        Messages of one lane are seen in the order of these calls.

        Raises:
            MailboxFullError: the target's lane has no room; the error says how many messages wait and how many may.
            NoSuchActorError, ActorNotLocalError: the target has ended, never existed, or lives on another loop.
            InvalidArgumentError: `tag` or `lane` is the system's, `target` is no id, or `sender` is neither an id nor an int.
            LoopClosedError: the loop was asked to stop.
            WrongThreadError: called off the loop's thread; use `send_async` there.
        """
        if not self.kernel.send_fast(target, data, tag, lane, sender):
            self.kernel.send(target, data, tag, lane, sender)

    def try_send(
        self,
        target: ActorId | int,
        data: object,
        *,
        tag: int = 0,
        lane: Lane = Lane.DATA,
        sender: ActorId | int = 0,
    ) -> bool:
        """Send as `send` does, but return False if there is no room, no such actor, or no open loop.

        What can never work still raises: `InvalidArgumentError`, `WrongThreadError`.
        """
        if self.kernel.send_fast(target, data, tag, lane, sender):
            return True
        return self.kernel.try_send(target, data, tag, lane, sender)

    def send_async(
        self,
        target: ActorId | int,
        data: object,
        *,
        tag: int = 0,
        lane: Lane = Lane.DATA,
        sender: ActorId | int = 0,
    ) -> None:
        """Send as `send` does, from any thread.

        An accepted message has its slot: it is delivered, or becomes a dead letter when the target or the loop ends
        first. Messages of one thread are delivered in the order of its calls. A burst wakes the loop once.

        Raises:
            MailboxFullError, NoSuchActorError, ActorNotLocalError, LoopClosedError: at once, in the calling thread.
            InvalidArgumentError: `tag` or `lane` is the system's, `target` is no id, or `sender` is neither an id nor an int.
        """
        inbox = self.kernel.inbox
        if lane is DATA_LANE and tag is ZERO and sender is ZERO and inbox.post_plain(target, data):
            return
        check_sender(sender)
        inbox.post(target, checked_lane(tag, lane), data, tag, sender)

    def send_after(
        self,
        target: ActorId | int,
        delay: Seconds,
        data: object,
        *,
        tag: int = 0,
        lane: Lane = Lane.DATA,
        sender: ActorId | int = 0,
    ) -> Timer:
        """Send `data` to `target` after `delay` seconds, never earlier.

        The message is delivered exactly once, unless the timer is cancelled or the target ends first. Fractions of a
        millisecond round up; 0 means a later tick, never inside this call. Equal deadlines are delivered in the order
        of these calls. A due message that meets a full lane waits until there is room.

        Returns:
            What `cancel_timer` takes.

        Raises:
            NoSuchActorError, ActorNotLocalError: the target has ended, never existed, or lives on another loop.
            InvalidArgumentError: `delay` is negative, not finite or beyond a hundred years; or as for `send`.
            OutOfMemoryError: there is no memory for one more timer.
            LoopClosedError: the loop was asked to stop.
            WrongThreadError: called off the loop's thread.
        """
        kernel = self.kernel
        check_sender(sender)
        number = checked_lane(tag, lane)
        whole = checked_delay(delay)
        cell = kernel.reach(target)
        if cell is None:
            raise kernel.refused_send_error(target)
        try:
            return kernel.timers.start(cell, whole, number, data, tag, sender)
        except MemoryError as error:
            raise OutOfMemoryError("there is no memory for one more timer") from error

    def cancel_timer(self, timer: Timer) -> None:
        """Cancel a timer that is pending: its message is never delivered.

        Raises:
            InvalidTimerError: it has fired, was cancelled, was released with its target, or belongs to another loop.
            WrongThreadError: called off the loop's thread.
        """
        kernel = self.kernel
        kernel.check_thread()
        if not kernel.timers.cancel(timer):
            raise InvalidTimerError(
                "the timer has fired, was cancelled, ended with its actor, or belongs to another loop"
            )
        kernel.check_idle()

    # -- links, monitors and descriptors ----------------------------------------------------------------------------

    def monitor(self, watcher: ActorId | int, target: ActorId | int) -> Monitor:
        """Notify `watcher` of the end of `target`: one `Down` on its SYSTEM lane, however full its mailbox is.

        For a target that has ended already, the `Down` is sent at once. Each call makes a new monitor; pass the one
        that is returned to `demonitor`.

        Raises:
            NoSuchActorError, ActorNotLocalError: the watcher does not exist, or the target was never an actor of this loop.
            LoopClosedError: the loop was asked to stop.
            WrongThreadError: called off the loop's thread.
        """
        kernel = self.kernel
        watching = kernel.reach(watcher)
        if watching is None:
            raise kernel.missing_error(watcher)
        watched = kernel.local_id(target)
        if watched is None:
            raise kernel.missing_error(target)
        return kernel.links.monitor(watching, watched)

    def demonitor(self, monitor: Monitor) -> bool:
        """Remove a monitor. Return False if its `Down` was sent already, or its watcher has ended.

        Raises:
            InvalidArgumentError: it is not a monitor of this loop.
            WrongThreadError: called off the loop's thread.
        """
        kernel = self.kernel
        kernel.check_thread()
        if type(monitor) is not Monitor or not kernel.links.owns(monitor):
            raise InvalidArgumentError(
                f"monitor is {safe_repr(monitor)}: pass what monitor() of this loop returned"
            )
        return kernel.links.demonitor(monitor)

    def link(self, one: ActorId | int, other: ActorId | int) -> None:
        """Link two actors: an abnormal end of one ends the other. Linking them again changes nothing.

        If `other` has ended already, `one` is notified, or ends, as if that had happened just now.

        Raises:
            InvalidArgumentError: both are the same actor.
            NoSuchActorError, ActorNotLocalError: `one` does not exist, or `other` was never an actor of this loop.
            LoopClosedError: the loop was asked to stop.
            WrongThreadError: called off the loop's thread.
        """
        kernel = self.kernel
        cell = kernel.reach(one)
        if cell is None:
            raise kernel.missing_error(one)
        actor = kernel.local_id(other)
        if actor is None:
            raise kernel.missing_error(other)
        if actor.cell is cell:
            raise InvalidArgumentError(f"{one!r} cannot be linked with itself")
        kernel.links.link(cell, actor)

    def unlink(self, one: ActorId | int, other: ActorId | int) -> bool:
        """Remove a link, from either side. Return False if there is none, or one of the two has ended.

        Raises:
            ActorNotLocalError, NoSuchActorError: one of them was never an actor of this loop.
            WrongThreadError: called off the loop's thread.
        """
        kernel = self.kernel
        first = kernel.require_id(one)
        second = kernel.require_id(other)
        return kernel.links.unlink(first.cell, second.cell)

    def trap_exits(self, actor: ActorId | int, is_on: bool = True) -> None:
        """Have an actor receive an `Exit` message when a linked actor ends, instead of ending too.

        Raises:
            NoSuchActorError, ActorNotLocalError: the actor does not exist.
            LoopClosedError: the loop was asked to stop.
            WrongThreadError: called off the loop's thread.
        """
        cell = self.kernel.reach(actor)
        if cell is None:
            raise self.kernel.missing_error(actor)
        cell.traps = bool(is_on)

    def watch_fd(self, fd: int, owner: ActorId | int, interest: Interest) -> None:
        """Notify `owner` when a descriptor is ready, by an `IoEvent` with tag `SystemTag.IO` on its SYSTEM lane.

        One readiness, one event: the descriptor is checked again once the owner has handled the event. The event never
        meets a full mailbox. Pipes, sockets, terminals and eventfds can be watched. The watch ends with its owner; the
        runtime never closes a descriptor. One that is closed while it is watched gives one event with `Readiness.ERROR`.

        Raises:
            InvalidArgumentError: `fd` is not a descriptor's number, or `interest` is empty.
            NoSuchActorError, ActorNotLocalError: the owner does not exist.
            IoRegistrationError: it is watched already, is not open, or is of a kind that cannot be watched.
            LoopClosedError: the loop was asked to stop.
            WrongThreadError: called off the loop's thread.
        """
        self.kernel.fds.watch(fd, owner, interest)

    def unwatch_fd(self, fd: int) -> None:
        """Stop watching a descriptor. An event of it that has not been handled yet is dropped.

        Raises:
            IoNotWatchedError: it is not being watched.
            WrongThreadError: called off the loop's thread.
        """
        self.kernel.fds.unwatch(fd)

    # -- events and statistics --------------------------------------------------------------------------------------

    def set_observer(self, observer: object | None) -> None:
        """Have `observer` called when something happens; None for no observer. See `Observer` for the hooks.

        Raises:
            InvalidArgumentError: it has no hook, or one with an unknown name.
            WrongThreadError: called off the loop's thread.
        """
        self.kernel.check_thread()
        self.kernel.reporter.set_observer(observer)

    @property
    def events(self) -> RuntimeEvents:
        """The runtime's events: `loop.events.listen(function)`, `loop.events.counts()`."""
        events: RuntimeEvents = self.kernel.reporter.events
        return events

    def statistics(self) -> Statistics:
        """Return a frozen snapshot of the counters. Loop thread only."""
        kernel = self.kernel
        kernel.check_thread()
        return Statistics(**kernel.counts(), wakeups=kernel.runner.wakeups())

    # -- running and stopping ---------------------------------------------------------------------------------------

    def run(self, *, until_idle: bool = False, handle_signals: bool = False) -> None:
        """Run actors on this thread until `request_stop()`; then every actor is ended (G26).

        With `until_idle` it returns as soon as nothing is ready, no timer is pending, no async behavior is suspended
        and no descriptor is watched. It leaves the actors alive, and may be called again.

        With `handle_signals`, which needs the main thread, the first SIGINT or SIGTERM asks the loop to stop, and a
        second SIGINT raises KeyboardInterrupt at once, wherever the program is. Otherwise signals are left alone.

        Raises:
            LoopClosedError: the loop was stopped or destroyed.
            LoopBusyError: it is running already, or this thread is running another event loop.
            InvalidArgumentError: signals cannot be handled on this thread.
            InternalError: the runtime itself, or the clock it was given, is broken.
            RestartLimitError, StartError: a supervisor without a supervisor has given up, or did not start.
            KeyboardInterrupt, SystemExit: a behavior raised it, or the user pressed Ctrl-C. The actors were ended.
        """
        self.runner.run(until_idle=until_idle, handle_signals=handle_signals, request_stop=self.request_stop)

    def request_stop(self) -> None:
        """Ask the loop to stop. Safe from any thread and from a behavior; asking again changes nothing.

        From now on running, sending and spawning raise `LoopClosedError`. The current message is finished, no other is begun,
        and whatever drives the loop ends every actor; if nothing does, `destroy()` will.
        """
        self.runner.request_stop()

    def poll_once(self) -> int:
        """Run one tick, without waiting for anything; return how many messages were handled.

        Async behaviors that are suspended are given a chance to go on.

        Raises:
            LoopClosedError: the loop was stopped or destroyed.
            LoopBusyError: called from a behavior or a hook, or while `run()` is running.
            WrongThreadError: called off the loop's thread.
            RestartLimitError, StartError, InternalError, KeyboardInterrupt, SystemExit: as for `run`.
        """
        return self.runner.poll_once()

    async def __aenter__(self) -> Self:
        """Use the event loop that is running until the block ends. Its thread becomes the owner."""
        self.runner.enter()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End every actor, leave the event loop as it was found, and destroy the loop.

        Raises:
            RestartLimitError, StartError, InternalError: what the loop has ended with, in place of the body's cancellation.
        """
        await self.runner.leave()

    def __enter__(self) -> Self:
        """Enter a block at whose end the loop is destroyed; drive it by `run()` or `poll_once()` inside."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Destroy the loop."""
        self.destroy()

    def destroy(self) -> None:
        """End every actor and release what the loop holds. No callback runs after it; a second call changes nothing.

        A loop that has run and is dropped without it causes a ResourceWarning. Its descriptors are closed then, but its
        actors do not end: neither their exit hooks nor any other code of theirs runs.

        Raises:
            LoopBusyError: called from a behavior or a hook, or while `run()` is running.
            WrongThreadError: called off the owner's thread, unless that thread has ended.
        """
        self.runner.destroy()

    def __del__(self) -> None:
        kernel = getattr(self, "kernel", None)
        event_loop = None if kernel is None else kernel.runner.unclosed_event_loop()
        if event_loop is None:
            return
        warnings.warn(
            f"{self!r} was dropped and not destroyed: call destroy(), or use it in a `with` block",
            ResourceWarning,
            source=self,
            stacklevel=2,
        )
        # As asyncio does: its descriptors are closed, and no code of actors runs any more.
        event_loop.close()

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"{self!r} cannot be pickled or copied")

    def __repr__(self) -> str:
        state = "destroyed" if self.runner.is_destroyed else "closed" if self.kernel.is_closed else "open"
        return f"<{type(self).__name__} {state} at {hex(id(self))}>"
