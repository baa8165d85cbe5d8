"""Waits between actors of different loops: finds an ask cycle over several loops of one process when it closes.

Each loop keeps the waits between its own actors (`Asks.waits`). This module keeps the waits from an actor of one loop for an actor of another,
for the whole process. A waiter adds its wait first and looks for a cycle then, so of two threads that close a cycle at the same moment at
least one sees the other.

Only what an actor awaits itself, in its turn, is attributed to it. A task that an actor has made waits for itself, and has its deadline.
"""

# The kernels' insides are the house's own.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any, final

from bandstand.core.lowlevel import call_afar
from bandstand.core.riders import riders
from bandstand.errors import AskCycle
from bandstand.errors.formatting import safe_repr

if TYPE_CHECKING:
    from bandstand.core import ActorId
    from bandstand.service.hot.method import Method

__all__ = ("CROSSINGS", "Crossing", "begin_crossing", "refuse_crossing")

# With more loops than this on one event loop, finding the one whose actor waits would cost more than the ask itself.
MOST_RIDERS = 64

_lock = Lock()
CROSSINGS: dict[ActorId, list[Any]] = {}
"""The waits across loops, by the actor that waits. Most programs have none: test this before a call of `refuse_crossing`."""


@final
class Crossing:
    """A wait of an actor for one of another loop, while it lasts."""

    __slots__ = ("_asked", "_asker")

    def __init__(self, asker: ActorId, asked: Any) -> None:
        self._asker = asker
        self._asked = asked
        with _lock:
            CROSSINGS[asker] = [*CROSSINGS.get(asker, ()), asked]

    def end(self) -> None:
        """It waits no more."""
        with _lock:
            left = [each for each in CROSSINGS.get(self._asker, ()) if each is not self._asked]
            if left:
                CROSSINGS[self._asker] = left
            else:
                CROSSINGS.pop(self._asker, None)


def begin_crossing(asked: Any, method: Method | None) -> Crossing | None:
    """Note that an actor of this thread waits for an answer from another loop. Return None if no actor waits.

    Args:
        asked: what is waited for: has `actor`, `account()`, `done()` and `cancel()`.
        method: what was asked.

    Raises:
        AskCycle: the actor that was asked waits, directly or through others, for the actor that asks.
    """
    found = _asker_here()
    if found is None:
        return None
    crossing = Crossing(found, asked)
    try:
        refuse_crossing(found, asked, method)
    except AskCycle:
        crossing.end()
        raise
    return crossing


def _asker_here() -> ActorId | None:
    """The actor whose turn it is on this thread."""
    loops: list[Any] = riders()
    if len(loops) > MOST_RIDERS:
        return None
    for loop in loops:
        actor: ActorId | None = loop._at_hand()[1]
        if actor is not None:
            return actor
    return None


def refuse_crossing(asker: ActorId, asked: Any, method: Method | None) -> None:
    """Refuse an ask that closes a cycle over several loops. Its asker and target may be on one loop.

    Raises:
        AskCycle: the actor that was asked waits, directly or through others, for the actor that asks.
    """
    links = _path(asked.actor, asker)
    if links is None:
        return
    for each, what in ((asked, method), *((link, getattr(link, "method", None)) for link in links)):
        if what is not None and what.is_reentrant:
            # It is handled out of turn, on its own thread: then there is no cycle any more.
            home = each.actor.home
            call_afar(home, partial(home._asks.serve, each, what))
            return
    steps = [f"{_name_of(asker)} asks {_told(asked)}"]
    for link in links:
        target, what_of = _account(link)
        steps.append(f"which waits for {target} to answer {what_of}")
    asked.cancel()
    raise AskCycle(
        f"{', '.join(steps)}: they would wait for each other until their deadlines. Ask in the background, or send a message and let the "
        f"answer come as one."
    )


def _path(start: ActorId, goal: ActorId) -> list[Any] | None:
    """The asks by which one actor waits for another, in order; None if it does not."""
    if start == goal:
        return []
    paths: list[tuple[ActorId, list[Any]]] = [(start, [])]
    seen = {start}
    while paths:
        actor, path = paths.pop()
        for asked in _waits_of(actor):
            following = asked.actor
            if asked.done() or following is None:
                continue
            if following == goal:
                return [*path, asked]
            if following not in seen:
                seen.add(following)
                paths.append((following, [*path, asked]))
    return None


def _waits_of(actor: ActorId) -> list[Any]:
    found = list(CROSSINGS.get(actor, ()))
    asks: Any = getattr(actor.home, "_asks", None)
    if asks is None:
        return found
    try:
        return found + [asked for asker, _name, asked in asks.edges() if asker == actor]
    except RuntimeError:
        # Its own thread has changed them meanwhile: it goes on, and looks itself when it begins to wait.
        return found


def _account(asked: Any) -> tuple[str, str]:
    """Of whom something was asked, and what, for people."""
    actor, name, what, _at = asked.account()
    return (safe_repr(actor) if name is None else f"{name!r} {safe_repr(actor)}"), what


def _told(asked: Any) -> str:
    target, what = _account(asked)
    return f"{target} for {what}"


def _name_of(actor: ActorId) -> str:
    home: Any = actor.home
    found = home._at_hand()
    return f"{safe_repr(found[2])} {safe_repr(actor)}" if found[1] == actor and found[2] else safe_repr(actor)
