"""For those who restart something of their own: the arithmetic of restarts, pure, how specs are refused, what becomes of a place.

A door of its own, as `bandstand.core.lowlevel` is: pods and pools need it, a program does not.
"""

from bandstand.supervise.checks import check_member, check_ms
from bandstand.supervise.decision import Fate, fate_of, plan_restart
from bandstand.supervise.following import Following, is_gone
from bandstand.supervise.keys import jump_of

__all__ = ("Fate", "Following", "check_member", "check_ms", "fate_of", "is_gone", "jump_of", "plan_restart")
