"""For those who restart or stop something of their own: the arithmetic of restarts, how specs are refused, what becomes of a place.

A door of its own, as `bandstand.core.lowlevel` is: pods, pools and shutdowns need it, a program does not.
"""

from bandstand.core import ActorId, Loop, SystemTag
from bandstand.core.lowlevel import send_system
from bandstand.supervise.checks import check_member, check_ms
from bandstand.supervise.decision import Fate, fate_of
from bandstand.supervise.following import Following, is_gone
from bandstand.supervise.hot.planning import plan_restart
from bandstand.supervise.household import Household
from bandstand.supervise.keys import jump_of
from bandstand.supervise.stage import End

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
)


def is_supervised(family: object) -> bool:
    """Whether a family is that of a supervisor, which starts its children again."""
    return isinstance(family, Household)


def end_supervisor(loop: Loop, actor: ActorId) -> None:
    """Have a supervisor stop its children, the last one first and each in its own time, and then end. Loop thread only."""
    send_system(loop, actor, End(), SystemTag.SHUTDOWN)
