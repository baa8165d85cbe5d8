"""Waits between actors of different loops: finds an ask cycle over several loops of one process when it closes.

Each loop keeps the waits between its own actors (`Asks.waits`). This module keeps the waits from an actor of one loop for an actor of another,
for the whole process. A waiter adds its wait first and looks for a cycle then, so of two threads that close a cycle at the same moment at
least one sees the other.

A wait for an actor of another process is a wait for its stand-in, on a loop of its own, and so it is kept here too. Where a way of waits leads
out of the process, it is followed over the link (`bandstand.pod.link.probes`).

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
    from bandstand.actor.hot.method import Method
    from bandstand.core import ActorId

__all__ = (
    "ARRIVALS",
    "CROSSINGS",
    "Crossing",
    "account_of",
    "begin_crossing",
    "chase_afar",
    "cycle_of",
    "name_of",
    "paths_afar",
    "refuse_crossing",
    "step_of",
    "told_of",
)

# With more loops than this on one event loop, finding the one whose actor waits would cost more than the ask itself.
MOST_RIDERS = 64

_lock = Lock()
# What those that wait are called, as far as they have names.
_names: dict[ActorId, str] = {}
CROSSINGS: dict[ActorId, list[Any]] = {}
"""The waits across loops, by the actor that waits. Most programs have none: test this before a call of `refuse_crossing`."""
ARRIVALS: list[int] = [0]
"""How many asks and probes have come over links to other processes: one entry, only ever raised."""


@final
class Crossing:
    """A wait of an actor for one of another loop, while it lasts."""

    __slots__ = ("_asked", "_asker")

    def __init__(self, asker: ActorId, asked: Any, name: str | None = None) -> None:
        self._asker = asker
        self._asked = asked
        with _lock:
            if name:
                _names[asker] = name
            CROSSINGS[asker] = [*CROSSINGS.get(asker, ()), asked]

    def end(self) -> None:
        """It waits no more."""
        with _lock:
            left = [each for each in CROSSINGS.get(self._asker, ()) if each is not self._asked]
            if left:
                CROSSINGS[self._asker] = left
            else:
                CROSSINGS.pop(self._asker, None)
                _names.pop(self._asker, None)


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
    asker, name = found
    crossing = Crossing(asker, asked, name)
    try:
        refuse_crossing(asker, asked, method)
    except AskCycle:
        crossing.end()
        raise
    relay: Any = asked.relay
    if relay is None:
        chase_afar(asked.actor)
    elif getattr(relay, "arrivals", ARRIVALS[0]) != ARRIVALS[0]:
        # It went to another process some time ago. What came from there since has not seen that this actor waits.
        relay.chase()
    return crossing


def chase_afar(asked: ActorId) -> None:
    """An actor has begun to wait for another one of this process. If that one waits for another process, the cycle may close there."""
    for _asker, _path, relay in paths_afar(asked):
        relay.chase()


def _asker_here() -> tuple[ActorId, str | None] | None:
    """The actor whose turn it is on this thread, and its name."""
    loops: list[Any] = riders()
    if len(loops) > MOST_RIDERS:
        return None
    for loop in loops:
        found = loop._at_hand()
        if found[1] is not None:
            return found[1], found[2]
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
    steps = [f"{name_of(asker)} asks {told_of(asked)}"]
    steps += [step_of(link) for link in links]
    asked.cancel()
    raise cycle_of(steps)


def cycle_of(steps: list[str]) -> AskCycle:
    """The error for a cycle."""
    return AskCycle(
        f"{', '.join(steps)}: they would wait for each other until their deadlines. Ask in the background, or send a message and let the "
        f"answer come as one."
    )


def step_of(asked: Any) -> str:
    """One step of a cycle: what somebody waits for."""
    target, what = account_of(asked)
    return f"which waits for {target} to answer {what}"


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


def paths_afar(start: ActorId) -> list[tuple[ActorId, list[Any], Any]]:
    """The ways by which an actor waits for other processes.

    Each is the asks of this process, in order, of which the last went over a link; before them the actor that waits for that one, after
    them its relay, which has a `chase()`.
    """
    found: list[tuple[ActorId, list[Any], Any]] = []
    paths: list[tuple[ActorId, list[Any]]] = [(start, [])]
    seen = {start}
    while paths:
        actor, path = paths.pop()
        for asked in _waits_of(actor):
            following = asked.actor
            if asked.done() or following is None:
                continue
            # Its own thread may take the relay away at any time.
            relay = asked.relay
            if hasattr(relay, "chase"):
                found.append((actor, [*path, asked], relay))
            elif following not in seen:
                seen.add(following)
                paths.append((following, [*path, asked]))
    return found


def _waits_of(actor: ActorId) -> list[Any]:
    found = list(CROSSINGS.get(actor, ()))
    asks: Any = getattr(actor.home, "_asks", None)
    return found if asks is None else found + asks.waits_of(actor)


def account_of(asked: Any) -> tuple[str, str]:
    """Of whom something was asked, and what, for people."""
    actor, name, what, _at = asked.account()
    return (safe_repr(actor) if name is None else f"{name!r} {safe_repr(actor)}"), what


def told_of(asked: Any) -> str:
    """The same as one piece of a sentence."""
    target, what = account_of(asked)
    return f"{target} for {what}"


def name_of(actor: ActorId) -> str:
    """An actor that waits, for people."""
    home: Any = actor.home
    found = home._at_hand()
    name = found[2] if found[1] == actor else _names.get(actor)
    return f"{safe_repr(name)} {safe_repr(actor)}" if name else safe_repr(actor)
