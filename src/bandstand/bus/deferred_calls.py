"""Timers and background work of capabilities: the mechanisms of actors, with the lineage of the bus.

A capability starts them with `self.after`, `self.every`, `self.every_after` and `self.background`. The message that it handles at that moment is
the cause of everything that the timer or the work sends, also after that message was answered.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import Context, copy_context
from typing import TYPE_CHECKING, Any, final

from bandstand.actor.actor import OwnedChildren
from bandstand.actor.background import Work, checked_awaitable, start_work, work_name
from bandstand.actor.timers import Alarm, DeferredCall, Ticker, start_alarm
from bandstand.bus.request import DeferredTurn, Delivery
from bandstand.bus.tracing import CURRENT_MESSAGE
from bandstand.core.enums import DATA
from bandstand.errors.validation import Seconds

if TYPE_CHECKING:
    from bandstand.bus.bus_client import Bus
    from bandstand.core import ActorId, Loop, TimerId

__all__ = ("DeferredCalls",)

# The actor of a capability does not use tags.
_NO_TAG = 0


@final
class CapabilityTarget:
    """A capability as the target of deferred calls that have the same cause."""

    __slots__ = ("_cause", "actor", "loop")

    def __init__(self, loop: Loop, actor: ActorId, cause: Delivery | None) -> None:
        self.loop = loop
        self.actor = actor
        self._cause = cause

    def start_timer(self, delay_ms: int, call: DeferredCall, function: Callable[..., Any]) -> TimerId:  # noqa: ARG002  # a capability has no lanes
        """Send a call in `delay_ms` milliseconds."""
        return self.loop.kernel.start_timer(self.actor, delay_ms, DATA, self._turn(call), _NO_TAG)

    def start_timer_at(self, at_ms: int, call: DeferredCall, function: Callable[..., Any]) -> TimerId:  # noqa: ARG002  # a capability has no lanes
        """Send a call `at_ms` milliseconds after the loop was made."""
        return self.loop.kernel.start_timer_at(self.actor, at_ms, DATA, self._turn(call), _NO_TAG)

    async def send_when_room(self, call: DeferredCall) -> None:
        """Send a call as soon as the mailbox has room for it."""
        # A timer that is due waits for room.
        self.loop.kernel.start_timer(self.actor, 0, DATA, self._turn(call), _NO_TAG)

    def context(self) -> Context:
        """Return the context for background work: a copy of the current one, in which the cause is the current message."""
        context = copy_context()
        context.run(CURRENT_MESSAGE.set, self._cause)
        return context

    def _turn(self, call: DeferredCall) -> DeferredTurn:
        cause = self._cause
        if cause is None:
            return DeferredTurn(None, None, call, self.actor)
        return DeferredTurn(cause.frame, cause.route, call, self.actor)


@final
class DeferredCalls:
    """The timers and the background work of one incarnation of a capability."""

    __slots__ = ("_actor", "_bus", "_children", "_loop")

    def __init__(self, loop: Loop, actor: ActorId, bus: Bus) -> None:
        self._loop = loop
        self._actor = actor
        self._bus = bus
        self._children: OwnedChildren | None = None

    def after(self, delay: Seconds, call: DeferredCall) -> Alarm:
        """Make a call once, after `delay` seconds."""
        return start_alarm(self._target(), delay, call)

    def every(self, period: Seconds, call: DeferredCall, *, is_fixed_rate: bool) -> Ticker:
        """Make a call repeatedly."""
        return Ticker(self._target(), period, call, is_fixed_rate=is_fixed_rate)

    def background(
        self,
        work: Awaitable[Any],
        then: Callable[[Any], Any] | None,
        failed: Callable[[Exception], Any] | None,
    ) -> Work:
        """Await something beside the messages."""
        target = self._target()
        piece = Work(target, checked_awaitable(work), then, failed)
        if self._children is None:
            self._children = OwnedChildren()
            self._loop.kernel.actors.set_child_group(self._actor, self._children)
        start_work(piece, target, self._children, work_name(work), target.context())
        return piece

    def note_exit(self, child: ActorId) -> None:
        """Forget background work that has ended."""
        if self._children is not None:
            self._children.remove(child)

    def _target(self) -> CapabilityTarget:
        item = self._bus.current_message
        # Not the item itself, which would keep a request in memory that was answered long ago.
        cause = None if item is None or item.route is None else Delivery(item.frame, item.route, None)
        return CapabilityTarget(self._loop, self._actor, cause)
