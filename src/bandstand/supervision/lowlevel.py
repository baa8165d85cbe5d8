"""For those who restart or stop something of their own: the arithmetic of restarts, how specs are refused, what becomes of a place.

A door of its own, as `bandstand.core.lowlevel` is: pods, pools and shutdowns need it, a program does not.
"""

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, cast

from bandstand.core import ActorId, Loop, SystemTag
from bandstand.core.lowlevel import send_system
from bandstand.errors import IgnoreChild, StartFailed
from bandstand.supervision.child_watch import Following, is_gone
from bandstand.supervision.dynamic import restart_if_start_fails
from bandstand.supervision.hot.planning import plan_restart
from bandstand.supervision.household import Household
from bandstand.supervision.keys import jump_of
from bandstand.supervision.restart import Fate, fate_of
from bandstand.supervision.stage import End
from bandstand.supervision.validate import check_member, check_ms

__all__ = (
    "Fate",
    "Following",
    "check_member",
    "check_ms",
    "end_supervisor",
    "fate_of",
    "is_gone",
    "is_supervised",
    "jump_of",
    "plan_restart",
    "required",
    "restart_if_start_fails",
)


def is_supervised(family: object) -> bool:
    """Whether a family is that of a supervisor, which starts its children again."""
    return isinstance(family, Household)


def end_supervisor(loop: Loop, actor: ActorId) -> None:
    """Have a supervisor stop its children, the last one first and each in its own time, and then end. Loop thread only."""
    send_system(loop, actor, End(), SystemTag.SHUTDOWN)


def required(init: Callable[..., object], what: str) -> Callable[..., object]:
    """Return an init for which `IgnoreChild` is a failure: for children that something else waits for.

    Args:
        init: a function or a coroutine function, called with the arguments of an init.
        what: names the child in the error.
    """

    def checked(*args: Any) -> object:
        try:
            state = init(*args)
        except IgnoreChild as error:
            raise _not_ignored(what) from error
        return checked_later(cast("Awaitable[object]", state)) if isinstance(state, Coroutine) else state

    async def checked_later(state: Awaitable[object]) -> object:
        try:
            return await state
        except IgnoreChild as error:
            raise _not_ignored(what) from error

    return checked


def _not_ignored(what: str) -> StartFailed:
    return StartFailed(
        f"{what} raised IgnoreChild, but it cannot be left out: raise another exception if it cannot start"
    )
