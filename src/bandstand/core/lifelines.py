"""For those who build lifetimes on the loop: which loop rides here, whose turn it is, an actor's end, what was passed on.

A door of its own, like `lowlevel`, and as little for programs that only use actors. All of it belongs on the loop's own thread.
"""

# The house's own door: it alone may reach for what the loop does not show.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from bandstand.core.asyncio_host import TickHooks, running_loops
from bandstand.core.delivery import ExitCallback
from bandstand.errors.loops import ALL_SLOTS

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import Callable, Mapping

    from bandstand.core.enums import ExitReason
    from bandstand.core.ids import ActorId
    from bandstand.core.loop import Loop
    from bandstand.core.mailbox import ChildGroup

__all__ = (
    "answer_for",
    "at_end",
    "books_afar",
    "close_within",
    "current_actor",
    "current_loops",
    "free_all_slots",
    "free_slots",
    "hold_all_slots",
    "hold_slot",
    "is_answered_for",
    "is_at_rest",
    "is_current",
    "is_quiet",
    "mourn",
    "owns",
    "prod",
    "rows",
    "set_budget",
    "set_park",
    "shut",
    "watch_rounds",
)


def current_loops() -> list[Loop]:
    """The loops that ride the event loop that is running on this thread, the last to come last."""
    return cast("list[Loop]", list(running_loops()))


def owns(loop: Loop, host: AbstractEventLoop) -> bool:
    """Whether an event loop is the one that a loop has made for `run()` and `poll_once()`, which is closed when it ends."""
    own = loop._own_host  # noqa: SLF001
    return own is not None and own.loop is host


def mourn(
    loop: Loop, actor: ActorId, told: Callable[[ExitReason, BaseException | None], object]
) -> Callable[[], None]:
    """Have a function called when an actor ends, however it ends, and inside its exit: it must not raise. Now, if it has.

    It is called when sends to the actor are refused already, and before anybody else is told: before the observer, the
    supervisor, monitors and links. What is returned takes it back.
    """
    timer = loop._mourn(actor, ExitCallback(told))  # noqa: SLF001
    return _nothing if timer is None else lambda: loop._stop_mourning(timer)  # noqa: SLF001


def at_end(loop: Loop, told: Callable[[], object]) -> Callable[[], None]:
    """Have a function called once when a loop has ended its actors. What it raises is logged; what is returned takes it back."""
    return loop._at_end(told)  # noqa: SLF001


def _nothing() -> None:
    """What takes back what is over."""


def answer_for(loop: Loop, actor: ActorId) -> None:
    """Say that somebody who is no supervisor hears of an actor's end, and tells of it: the log need not."""
    loop._set_heard(actor)  # noqa: SLF001


def is_answered_for(loop: Loop, actor: ActorId) -> bool:
    """Whether somebody has said so, of an actor that has not ended."""
    return loop._is_heard(actor)  # noqa: SLF001


def prod(loop: Loop, actor: ActorId) -> None:
    """Send an actor an `ELEMENT`, in a slot of its own: the channel it consumes has something. Nothing if it has ended."""
    loop._prod(actor)  # noqa: SLF001


def set_budget(loop: Loop, actor: ActorId, budget: int) -> None:
    """Say how many messages an actor handles before others have their turn; 0 for the loop's own number."""
    loop._set_budget(actor, budget)  # noqa: SLF001


def current_actor(loop: Loop) -> ActorId | None:
    """Whose turn it is; None if it is nobody's, and code that is no actor's runs. Loop thread only."""
    return loop._at_hand()[1]  # noqa: SLF001


def books_afar(loop: Loop) -> tuple[Mapping[str, int], bool]:
    """The books of a loop whose thread is stuck in a handler, and whether that handles a message. From any thread.

    By the names of `Statistics`; what other threads have sent and the loop has not looked at yet waits. Of a loop that goes on
    the numbers may not fit together.
    """
    books = dict(loop._books())  # noqa: SLF001
    unread = loop._unread()  # noqa: SLF001
    books["sent"] += unread
    books["waiting"] += unread
    actor = loop._at_hand()[1]  # noqa: SLF001
    return books, actor is not None and actor.is_alive and books["handled"] > 0


def is_current(loop: Loop, actor: ActorId) -> bool:
    """Whether the caller is the actor itself, in its turn. Loop thread only."""
    return loop._is_current(actor)  # noqa: SLF001


def hold_slot(loop: Loop, actor: ActorId, lane: int) -> None:
    """Count a message that an actor has passed on as if it were still in its mailbox, until `free_slots`.

    So whoever sends to it meets a full lane when that many are under way. Nothing if it has ended.
    """
    loop._hold_slot(actor, lane)  # noqa: SLF001


def hold_all_slots(loop: Loop, actor: ActorId, lane: int) -> None:
    """Let a lane of an actor be full, whatever leaves it, until `free_all_slots`. From any thread. Nothing if it has ended."""
    # To free a negative number is to hold: nobody who waits for room finds any, so nothing else happens.
    loop._free_slots(actor, lane, -ALL_SLOTS)  # noqa: SLF001


def free_all_slots(loop: Loop, actor: ActorId, lane: int) -> None:
    """Take that back. Those who wait for room get it, if there is any."""
    loop._free_slots(actor, lane, ALL_SLOTS)  # noqa: SLF001


def free_slots(loop: Loop, actor: ActorId, lane: int, count: int) -> None:
    """Count so many of those no more. Those who wait for room get it; an actor that only waited for this to end, ends."""
    loop._free_slots(actor, lane, count)  # noqa: SLF001


def shut(loop: Loop) -> None:
    """Have the actors of a loop take nothing from outside any more: only what they send each other in their turns, and what they have."""
    loop._shut = True  # noqa: SLF001


def is_quiet(loop: Loop) -> bool:
    """Whether nothing waits in any mailbox and no coroutine of an actor is in flight. Timers may be pending."""
    return loop._is_quiet()  # noqa: SLF001


def set_park(loop: Loop, park: Callable[[], object] | None) -> None:
    """Have a function called after each round that the host gives the loop; None for nothing. What it raises ends the loop."""
    before = loop._on_park  # noqa: SLF001
    if isinstance(before, TickHooks):
        before.before = park
    else:
        loop._on_park = park  # noqa: SLF001


def watch_rounds(loop: Loop, function: Callable[[], object]) -> Callable[[], None]:
    """Have a function called after each round of the loop, and a round whenever something has ended; what takes that back.

    So whoever waits for the loop to be quiet need not look now and then. It comes after what `set_park` has set; what it raises
    ends the loop. Several may watch, and stop in any order.
    """
    rounds = (
        loop._on_park if isinstance(loop._on_park, TickHooks) else TickHooks(loop._on_park, loop._looking)
    )
    watch = rounds.add(function)
    loop._on_park = rounds  # noqa: SLF001
    loop._looking = True  # noqa: SLF001

    def take_back() -> None:
        rounds.remove(watch)
        if not rounds and loop._on_park is rounds:  # noqa: SLF001
            loop._on_park = rounds.before  # noqa: SLF001
            loop._looking = rounds.was_looking  # noqa: SLF001

    return take_back


def is_at_rest(loop: Loop, actor: ActorId) -> bool:
    """Whether nothing waits for an actor and it is at nothing. One that has ended is at rest. Timers may be pending."""
    return loop._is_at_rest(actor)  # noqa: SLF001


def rows(loop: Loop) -> list[tuple[ActorId, str | None, ActorId | None, int, int, ChildGroup | None]]:
    """Every living actor, the oldest first: id, name, supervisor's id, status, messages waiting, family."""
    return loop._rows()  # noqa: SLF001


def close_within(loop: Loop, ms: float) -> None:
    """Ask a loop to stop, and have it wait that long at most, instead of `stop_timeout_ms`, for what is cancelled then."""
    host = loop._host  # noqa: SLF001
    if host is not None:
        loop._stop_by = host.loop.time() + ms / 1000  # noqa: SLF001
    loop.request_stop()
