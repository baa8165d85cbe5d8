"""For those who build runtimes and test kits on the loop: the system's voice, children, and the choice of who runs next.

Supervisors and pods need it; a program that only uses actors does not. It is a door of its own so that nobody speaks for
the system by accident. All of it belongs on the loop's own thread.
"""

# The house's own door: it alone may reach for what the loop does not show.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bandstand.core.asyncio_host import StopSignals
from bandstand.core.asyncio_host import new_event_loop as new_event_loop
from bandstand.core.delivery import LoopExitCallback
from bandstand.core.enums import ExitReason, Lane, Overflow, SystemTag
from bandstand.core.hot.births import NOT_YET
from bandstand.core.mailbox import ChildGroup
from bandstand.core.messages import ChildSummary
from bandstand.errors import InvalidArgument, LoopClosed
from bandstand.errors.formatting import safe_repr

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextvars import Context

    from bandstand.core.ids import ActorId
    from bandstand.core.loop import Loop
    from bandstand.core.mailbox import ActorCell
    from bandstand.core.timer_wheel import Timer
    from bandstand.errors import BandstandError

__all__ = (
    "NOT_YET",
    "ChildGroup",
    "ChildSummary",
    "StopSignals",
    "bury_estate",
    "call_afar",
    "call_after",
    "check_open",
    "check_thread",
    "checked_cap",
    "clock_of",
    "close_mailbox",
    "declare_started",
    "end_actor",
    "fail_loop",
    "halt",
    "is_open",
    "is_supervisor",
    "new_event_loop",
    "restart_teller_of",
    "send_system",
    "send_system_after",
    "send_tagged_after",
    "send_tagged_at",
    "set_epilogue",
    "set_family",
    "set_scheduler",
    "spawn_child",
    "take_init_error",
    "tell_escalation",
)

# Those that anybody here may send; the others come from what they tell of.
FREE_TAGS = (SystemTag.CHILD_RESTART, SystemTag.SHUTDOWN)


def send_system(loop: Loop, target: ActorId | int, data: object, tag: SystemTag) -> bool:
    """Send a message on the SYSTEM lane. It takes any free slot of the target's mailbox, the system's reserve included.

    Only `CHILD_RESTART` and `SHUTDOWN` can be sent so: exits, starts, downs and I/O events come from what they tell of.

    Returns:
        False if there was not one free slot: then the target has failed with `MailboxOverrun`.

    Raises:
        InvalidArgument: the tag is not one of the two.
        NoSuchActor, ActorNotLocal, LoopClosed, WrongThread: as for `Loop.send`.
    """
    _check_tag(tag)
    return loop._post_system(target, data, tag)  # noqa: SLF001


def send_system_after(loop: Loop, target: ActorId, ms: int, data: object, tag: SystemTag) -> Timer | None:
    """The same in `ms` milliseconds, as `Loop.send_after` does; None if the target has ended.

    A timer that meets a mailbox full to the last slot waits for room, and fails nobody.

    Raises:
        InvalidArgument: the tag is not one of the two, or `ms` is beyond what a loop can reckon with.
        NoSuchActor, ActorNotLocal: the target was never an actor of this loop.
        WrongThread: called off the loop's thread.
    """
    _check_tag(tag)
    return loop._post_system_after(target, ms, data, tag)  # noqa: SLF001


def _check_tag(tag: SystemTag) -> None:
    if tag not in FREE_TAGS:
        raise InvalidArgument(f"tag is {safe_repr(tag)}: pass SystemTag.CHILD_RESTART or SystemTag.SHUTDOWN")


def spawn_child(
    loop: Loop,
    behavior: Callable[..., Any],
    init: Callable[[Any], Any] | None,
    *,
    name: str | None,
    cap: int,
    supervisor: ActorId | int | None,
    context: Context,
    keeps: bool = False,
    estate: ActorCell | None = None,
    overflow: Overflow = Overflow.REJECT,
) -> ActorId:
    """Make an actor and run its `init(ctx)`, which gives it its state.

    Read the status to know how it went: RUNNING; INIT, if the init is a coroutine that is in flight now, or has answered
    `NOT_YET`; or an end. The supervisor hears of the end, and of a start that took its time, by a message.

    Args:
        loop: where.
        behavior: what it does.
        init: what gives it its state; None for no state.
        name: for people.
        cap: slots of its mailbox, checked (see `checked_cap`).
        supervisor: who is told.
        context: where the context variables of its coroutines start from.
        keeps: whether what it leaves unread goes to the supervisor's `ChildGroup.keep` instead of the dead letters.
        estate: what an earlier incarnation has left; its messages come first.
        overflow: what a full lane does with one message more.

    Raises:
        MaxActors, NoMemory: there is no room for it.
        NoSuchActor, ActorNotLocal, InvalidArgument: the supervisor is not there, or is no id.
        LoopClosed, WrongThread: as for `Loop.spawn`.
    """
    policy = None if overflow is Overflow.REJECT else overflow
    return loop._spawn_child(behavior, init, name, cap, supervisor, context, keeps, estate, policy)  # noqa: SLF001


def take_init_error(loop: Loop) -> BaseException | None:
    """What the init of the last child that died inside `spawn_child` has raised; None the second time."""
    error, loop._init_error = loop._init_error, None  # noqa: SLF001
    return error


def check_open(loop: Loop) -> None:
    """Refuse a call that makes no sense from another thread, or on a loop that was asked to stop.

    Raises:
        WrongThread, LoopClosed: so it is.
    """
    loop._check_thread()  # noqa: SLF001
    if loop._closed:  # noqa: SLF001
        raise LoopClosed("the loop is closed: it was asked to stop, or was destroyed")


def is_open(loop: Loop) -> bool:
    """Whether the loop was not asked to stop."""
    return not loop._closed  # noqa: SLF001


def is_supervisor(loop: Loop, target: ActorId | int) -> bool:
    """Whether an actor has a family."""
    return loop._has_family(target)  # noqa: SLF001


def check_thread(loop: Loop) -> None:
    """Refuse a call from another thread than the loop's own.

    Raises:
        WrongThread: so it is.
    """
    loop._check_thread()  # noqa: SLF001


def declare_started(loop: Loop, actor: ActorId) -> None:
    """Say that an actor whose init has answered `NOT_YET` has started: its supervisor gets its `ChildStart`."""
    loop._declare_born(actor, None)  # noqa: SLF001


def set_family(loop: Loop, actor: ActorId, family: ChildGroup) -> None:
    """Make an actor a supervisor: `family` is asked about its children, and which of them end with the actor."""
    loop._set_family(actor, family)  # noqa: SLF001


def set_epilogue(
    loop: Loop, actor: ActorId, epilogue: Callable[[ExitReason, BaseException | None], object]
) -> None:
    """Give an actor something to do when it ends, as its last turn; not if it is killed.

    `epilogue(reason, cause)` may return a coroutine: then the actor is STOPPING until that has ended. What it raises is
    logged, and the actor ends as it was going to.
    """
    loop._set_epilogue(actor, epilogue)  # noqa: SLF001


def close_mailbox(loop: Loop, actor: ActorId) -> None:
    """Have an actor accept nothing any more from users, handle what it has, and then end with reason `NORMAL`.

    Raises:
        NoSuchActor, ActorNotLocal, LoopClosed, WrongThread: as for `Loop.stop_actor`.
    """
    loop._close_mailbox(actor)  # noqa: SLF001


def call_afar(loop: Loop, function: Callable[[], object]) -> None:
    """Have a function called on the loop's own thread, before the next message; from that thread itself, at the next tick. From any thread.

    What it raises is logged. If the loop has ended, it is called here and now: what it looks at has ended too.
    """
    loop._call_afar(function)  # noqa: SLF001


def halt(loop: Loop) -> None:
    """Have a loop begin no further message: the one at hand is its last. Whoever drives the loop ends it. From any thread."""
    loop._halt()  # noqa: SLF001


def send_tagged_after(loop: Loop, target: ActorId, ms: float, lane: Lane, data: object, tag: object) -> Timer:
    """Send a message in `ms` milliseconds, as `Loop.send_after` does, with whatever object for a tag.

    Raises what `Loop.send_after` raises.
    """
    return loop._post_later(target, ms, lane.value, data, tag)  # noqa: SLF001


def send_tagged_at(loop: Loop, target: ActorId, at_ms: int, lane: Lane, data: object, tag: object) -> Timer:
    """The same at a moment: so many milliseconds after the loop was made, by `clock_of`. Never early."""
    return loop._post_at(target, at_ms, lane.value, data, tag)  # noqa: SLF001


def call_after(
    loop: Loop, ms: int, function: Callable[[], object], heir: Callable[[], object] | None = None
) -> Callable[[], None]:
    """Have a function called in `ms` milliseconds, by the wheel; what takes that back. What it raises is logged.

    If the loop ends before, `heir` is called instead; it must not raise.
    """
    timer = loop._call_after(ms, function, None if heir is None else LoopExitCallback(heir))  # noqa: SLF001
    return lambda: loop._cancel_call(timer)  # noqa: SLF001


def end_actor(loop: Loop, actor: ActorId, cause: BaseException | None = None) -> None:
    """Stop an actor, or kill it if there is a cause. Nothing happens if it has ended."""
    loop._kill_quietly(actor, cause)  # noqa: SLF001


def bury_estate(loop: Loop, estate: ActorCell) -> None:
    """What was kept for a next incarnation becomes dead letters: there will be none."""
    loop._bury_estate(estate)  # noqa: SLF001


def checked_cap(loop: Loop, mailbox_cap: int | None) -> int:
    """A mailbox cap, or the loop's own for None or 0.

    Raises:
        InvalidArgument: it is not above the loop's reserve.
    """
    return loop._cap(mailbox_cap)  # noqa: SLF001


def clock_of(loop: Loop) -> Callable[[], float]:
    """What tells the milliseconds since the loop was made, on its own clock."""
    return loop._now_ms  # noqa: SLF001


def fail_loop(loop: Loop, error: BandstandError) -> None:
    """End the whole loop: `error` comes out of `run()`, or out of the `async with` block, whose body is cancelled."""
    loop._fail(error)  # noqa: SLF001


def restart_teller_of(loop: Loop) -> Callable[[ActorId, ActorId, int], None]:
    """What tells the observer that a supervisor has started a child again, and which attempt that was."""
    return loop._tell_restart  # noqa: SLF001


def tell_escalation(loop: Loop, supervisor: ActorId) -> None:
    """Tell the observer that a supervisor has given up."""
    loop._tell_escalation(supervisor)  # noqa: SLF001


def set_scheduler(loop: Loop, pick: Callable[[int], int] | None) -> None:
    """Choose which of the ready actors runs next: `pick(n)` answers 0 to n - 1, in the order they became ready.

    None is the loop's own rule, first come, first served. For tests that look for what depends on the order of actors;
    promises of order inside one actor hold under every choice.
    """
    loop._shuffle = pick  # noqa: SLF001
