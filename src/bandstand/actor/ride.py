"""A machine on its course: what happens at a transition, and to each message that comes."""

# An actor keeps what the room needs under private names, to leave users theirs.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, final

from bandstand.actor.actor import Performer
from bandstand.actor.course import Course, Verdict
from bandstand.actor.stash import Stash
from bandstand.core.events import Unhandled
from bandstand.errors import BadTransition, NotInThisState

if TYPE_CHECKING:
    from bandstand.actor.decorators import Mark
    from bandstand.actor.plan import Plan
    from bandstand.actor.timers import Alarm

__all__ = ("Ride",)


@final
class Ride:
    """Where one machine stands, and what it has to do there."""

    __slots__ = ("_alarm", "_has_begun", "_is_moving", "_machine", "_plan", "_visit", "course", "stash")

    def __init__(self, machine: Performer, plan: Plan, postpone_limit: int) -> None:
        self._machine = machine
        self._plan = plan
        self.course = Course(plan.table.initial)
        self.stash = Stash(machine, postpone_limit)
        self._has_begun = False
        self._is_moving = False
        self._alarm: Alarm | None = None
        # The how-manieth visit to a state this is: a timeout of an earlier one is late, and does nothing.
        self._visit = 0

    def begin(self) -> None:
        """The machine has started: it enters its first state."""
        self._has_begun = True
        self._enter()

    def move(self, course: Course) -> None:
        """Go where a course leads."""
        if self._is_moving:
            raise BadTransition(
                f"{self._machine._bs_handle()!r} is in the middle of a transition, in a hook of {self.course.state!r}: where it goes "
                f"next, a message or a timeout decides"
            )
        if not self._has_begun:
            self.course = course
            return
        self._machine._bs_handle()._bs_loop._check_thread()
        self._is_moving = True
        try:
            self._call("leave")
        finally:
            self._is_moving = False
        self._visit += 1
        alarm, self._alarm = self._alarm, None
        if alarm is not None:
            alarm.cancel()
        self.course = course
        self._enter()
        self.stash.release()

    def _enter(self) -> None:
        after_ms = self._plan.table.after_ms.get(self.course.state)
        if after_ms is not None:
            # Not machine.after: a field of the user's may have that name.
            self._alarm = Performer.after(self._machine, after_ms, self._expire, self._visit)
        self._is_moving = True
        try:
            self._call("enter")
        finally:
            self._is_moving = False

    def _call(self, role: str) -> None:
        hook = self._plan.hooks.get((self.course.state, role))
        if hook is None:
            return
        try:
            hook(self._machine)
        except Exception as error:
            # Half a transition is no answer, and nothing to go on from: whatever the handler makes of it, the machine has failed.
            me = self._machine._bs_handle()
            me._bs_loop._fail_like(me._bs_actor, error)
            raise

    def _expire(self, visit: int) -> Any:
        """A timeout has come; it may have waited in the mailbox while the machine went on."""
        if visit != self._visit:
            return None
        self._alarm = None
        return self._plan.hooks[self.course.state, "timeout"](self._machine)

    def route(
        self, name: str, mark: Mark, arguments: tuple[Any, ...], named: dict[str, Any]
    ) -> Callable[..., Any] | None:
        """Who handles a message here; None for nobody, and then all that is to be done is done."""
        state = self.course.state
        verdict = self._plan.table.verdict(state, name)
        if verdict is Verdict.HANDLE:
            return self._plan.handlers[state, name]
        if verdict is Verdict.DEFAULT:
            return mark.function
        if verdict is Verdict.IGNORE:
            return None
        me = self._machine._bs_handle()
        if verdict is Verdict.POSTPONE and me._bs_loop._tag_at_hand(me._bs_actor) is not None:
            self.stash.keep()
        # Nobody said what to do; or it is handled out of turn, and cannot wait.
        what = f"{type(self._machine).__qualname__}.{name}() in state {state}"
        me._bs_asks.unhandled += 1
        data = arguments[0] if len(arguments) == 1 and not named else (arguments or None)
        me._bs_loop.events.tell(Unhandled(me._bs_actor, me._bs_name, data, what))
        if mark.is_ask:
            raise NotInThisState(f"{me!r} does not answer {what}: ask again when it is in another state")
        return None
