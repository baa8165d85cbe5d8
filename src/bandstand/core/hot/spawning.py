"""Spawning with all its checks: the way from a function to an actor.

Compiled, because programs make actors by the hundred thousand, one for each request or connection or node of a tree; written
out in Python the checks alone cost more than the actor. What they say to whoever passed something wrong is as long as it needs to be.
"""

# current_context comes from one of two places, of which the checker sees one.
# pyright: reportPossiblyUnboundVariable=false

from __future__ import annotations

from collections.abc import Callable
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from bandstand.core.enums import Overflow
from bandstand.core.hot.desk import Desk
from bandstand.errors import InvalidArgument, LoopClosed, NoMemory
from bandstand.errors.formatting import safe_repr

try:
    import cython
except ModuleNotFoundError:  # interpreted, where Cython is not installed
    from bandstand.core import _cython as cython  # type: ignore[no-redef]  # one of the two

if not cython.compiled:
    # Compiled, this is C's own function, declared in the .pxd.
    current_context = copy_context

if TYPE_CHECKING:
    from contextvars import Context

    from bandstand.core.context import Behavior
    from bandstand.core.ids import ActorId

Count: TypeAlias = int

State = TypeVar("State")

REJECT = Overflow.REJECT
LARGEST_CAP = 1 << 30


class Spawning(Desk):
    """The kernel, for those who make actors. `Loop` is what to use."""

    __slots__ = ("_default_cap",)

    # What a mailbox has whose cap nobody says; the loop above sets it.
    _default_cap: Count

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
        """Make an actor. It runs `behavior(ctx, data)` once for each message, one at a time.

        The behavior is a function or a coroutine function. It returns None or `OK` to go on, `STOP` to end, `FAIL` to
        fail; an exception is a panic. `state` is `ctx.state`. An async one runs in a real asyncio task, one message at
        a time, while other actors go on; each message starts from a copy of the context variables at this call.

        Args:
            behavior: what the actor does.
            state: what it remembers.
            name: for people: logs, errors, the observer. Need not be unique.
            mailbox_cap: slots of its mailbox, the system's reserve included; None or 0 for the loop's default.
            supervisor: an actor that gets a `ChildExit` when it ends. Reserves the slot for that now. (Those of
                `bandstand.supervision` start their children themselves.)
            overflow: what a full lane does with one message more.

        Raises:
            InvalidArgument: the behavior cannot be called, the cap is not above the reserve, or an argument has no sense.
            MaxActors: as many live as the config allows.
            NoMemory: there is no memory for one more.
            NoSuchActor, ActorNotLocal: the supervisor is not there.
            LoopClosed: the loop was asked to stop.
            WrongThread: called off the loop's thread.
        """
        self._check_thread()
        if self._closed:
            raise LoopClosed(
                "the loop is closed: it was asked to stop, or was destroyed, and spawns nothing any more"
            )
        if isinstance(behavior, type):
            raise InvalidArgument(
                f"behavior is {safe_repr(behavior)}: pass a function of (ctx, data); a class of actors is spawned by a loop of "
                f"bandstand.actor"
            )
        if not callable(behavior):
            raise InvalidArgument(f"behavior is {safe_repr(behavior)}: pass a function of (ctx, data)")
        if supervisor is not None and self._has_family(supervisor):
            raise InvalidArgument(
                f"supervisor is {safe_repr(supervisor)}, which starts its children itself: give it a ChildSpec, at its start or with "
                f"start_child()"
            )
        cap = self._cap(mailbox_cap)
        if overflow is not REJECT and not isinstance(overflow, Overflow):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers without types
            raise InvalidArgument(f"overflow is {safe_repr(overflow)}: pass a member of Overflow")
        if name is not None and not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # same
            raise InvalidArgument(f"name is {safe_repr(name)}: pass a string")
        policy = None if overflow is REJECT else overflow
        return self._make(behavior, state, name, cap, policy, supervisor, current_context())

    def _cap(self, mailbox_cap: int | None) -> Count:
        """Check a mailbox cap against the loop's limits; the loop's own for None or 0."""
        if mailbox_cap is None or mailbox_cap == 0:
            return self._default_cap
        if type(mailbox_cap) is not int or mailbox_cap > LARGEST_CAP:
            raise InvalidArgument(
                f"mailbox_cap is {safe_repr(mailbox_cap)}: pass an int, or None for the default"
            )
        # One that is far below 0 would not fit into C's numbers.
        cap = max(0, mailbox_cap)
        if cap <= self._reserve:
            raise InvalidArgument(
                f"mailbox_cap is {mailbox_cap} and sys_reserved is {self._reserve}: the cap must be above the "
                f"reserve, or no user message ever fits"
            )
        return cap

    def _make(
        self,
        behavior: Callable[..., Any],
        state: object,
        name: str | None,
        cap: Count,
        overflow: Overflow | None,
        supervisor: ActorId | int | None,
        context: Context | None,
    ) -> ActorId:
        """Make an actor of checked arguments, which starts at once."""
        try:
            actor = self._create(behavior, state, name, cap, overflow, supervisor, context)
        except MemoryError as error:
            raise NoMemory("there is no memory for one more actor") from error
        if actor is None:
            raise self._no_seat()
        return actor
