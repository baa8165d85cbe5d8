"""The wait graph: which actor waits for which, and ask cycles across several loops.

Each loop keeps the waits between its own actors in its `AskTable`. This module keeps the waits of an actor of one loop for an
actor of another, for the whole process. A waiter first adds its wait and then looks for a cycle, so if two threads close a
cycle at the same moment, at least one of them sees the other.

A wait for an actor of another process is a wait for its proxy, which runs on a loop in this process, so it is kept here too.
Where a chain of waits leaves the process, `bandstand.pod.link.wait_probes` follows it over the link.

Only what an actor awaits itself, in its turn, is attributed to it. A task that an actor creates is not; it has its deadline.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from bandstand.core.asyncio_host import running_loops
from bandstand.errors import AskCycleError
from bandstand.errors.formatting import safe_repr

if TYPE_CHECKING:
    from bandstand.actor.dispatch import Method
    from bandstand.core.ids import ActorId

__all__ = (
    "CROSS_LOOP_WAITS",
    "REMOTE_ARRIVALS",
    "CrossLoopWait",
    "WaitFor",
    "Waits",
    "actor_label",
    "add_cross_loop_wait",
    "add_wait_of",
    "ask_label",
    "cycle_error",
    "paths_to_processes",
    "probe_other_processes",
    "refuse_cross_loop_cycle",
    "wait_step",
)

# With more loops than this on one event loop, finding the one whose actor waits would cost more than the ask itself.
MAX_LOOPS = 64

CROSS_LOOP_WAITS: dict[ActorId, list[Any]] = {}
"""The waits across loops, by the actor that waits. Usually empty: test this before calling `refuse_cross_loop_cycle`.

Only the thread of an actor writes its entry; other threads only read it. So no lock is needed."""
REMOTE_ARRIVALS: list[int] = [0]
"""How many asks and probes have arrived over links from other processes: one item, which only grows."""


# -- what users see ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class WaitFor:
    """One actor waits, in its turn, for another."""

    asker: ActorId
    asker_name: str | None
    target: ActorId
    """The actor it waits for; for a reentrant ask, the child actor that handles it."""
    target_name: str | None
    what: str
    """The method that was asked, or `its end`. For display."""
    since: float
    """How long ago it was asked, in seconds."""

    def __str__(self) -> str:
        return (
            f"{_display_name(self.asker, self.asker_name)} waits for {_display_name(self.target, self.target_name)}: "
            f"{self.what}, {self.since * 1000:.0f} ms"
        )


@dataclass(frozen=True, slots=True)
class Waits:
    """A snapshot of all actors of a loop that wait in their turn. `str(waits)` draws the chains; iterate to get each wait."""

    waits: tuple[WaitFor, ...]

    def __iter__(self) -> Iterator[WaitFor]:
        return iter(self.waits)

    def __len__(self) -> int:
        return len(self.waits)

    def of(self, actor: ActorId) -> tuple[WaitFor, ...]:
        """Return the waits of one actor."""
        return tuple(wait for wait in self.waits if wait.asker == actor)

    def __str__(self) -> str:
        return "\n".join(_draw(self.waits)) if self.waits else "(no actor waits)"


def _display_name(actor: ActorId, name: str | None) -> str:
    return repr(actor) if name is None else name


def _draw(waits: Sequence[WaitFor]) -> Iterator[str]:
    by_asker: dict[ActorId, list[WaitFor]] = {}
    for wait in waits:
        by_asker.setdefault(wait.asker, []).append(wait)
    targets = {wait.target for wait in waits}
    # There are no cycles, so every chain starts with an actor that no other waits for.
    heads = [wait for asker, mine in by_asker.items() if asker not in targets for wait in mine]
    pending = [(wait, "", "") for wait in reversed(heads)]
    while pending:
        wait, first, rest = pending.pop()
        yield f"{first}{wait}"
        following = by_asker.get(wait.target, [])
        last = len(following) - 1
        for index in range(last, -1, -1):
            bend, stem = ("└── ", "    ") if index == last else ("├── ", "│   ")
            pending.append((following[index], rest + bend, rest + stem))


# -- waits across loops ------------------------------------------------------------------------------------------------


class CrossLoopWait:
    """A wait of an actor for an actor of another loop, from construction until `end()`."""

    __slots__ = ("_asker", "_callback")

    def __init__(self, asker: ActorId, callback: Any) -> None:
        self._asker = asker
        self._callback = callback
        waits = CROSS_LOOP_WAITS.get(asker)
        # A new list: another thread may be reading the old one.
        CROSS_LOOP_WAITS[asker] = [callback] if waits is None else [*waits, callback]

    def end(self) -> None:
        """Remove the wait."""
        waits = CROSS_LOOP_WAITS.get(self._asker)
        if waits is None:
            return
        if len(waits) > 1 or waits[0] is not self._callback:
            CROSS_LOOP_WAITS[self._asker] = [each for each in waits if each is not self._callback]
        else:
            del CROSS_LOOP_WAITS[self._asker]


def add_cross_loop_wait(callback: Any, method: Method | None) -> CrossLoopWait | None:
    """Note that an actor of this thread waits for an answer from another loop. Return None if no actor waits.

    Args:
        callback: what the actor waits for: has `actor`, `relay`, `wait_info()`, `done()` and `cancel()`.
        method: the method that was asked.

    Raises:
        AskCycleError: the actor that was asked waits, directly or through others, for the actor that asks.
    """
    asker = _running_actor()
    return None if asker is None else add_wait_of(asker, callback, method, True)  # noqa: FBT003  # a C function has no keywords


def add_wait_of(asker: ActorId, callback: Any, method: Method | None, may_wait: bool) -> CrossLoopWait:
    """Note that an actor waits for an answer from another loop. Like `add_cross_loop_wait`, if the caller knows the actor.

    `may_wait` is whether the actor that was asked may itself wait for another one. Otherwise there is no cycle to look for.
    """
    wait = CrossLoopWait(asker, callback)
    if may_wait:
        try:
            refuse_cross_loop_cycle(asker, callback, method)
        except AskCycleError:
            wait.end()
            raise
    relay: Any = callback.relay
    if relay is None:
        if may_wait:
            probe_other_processes(callback.actor)
    elif getattr(relay, "arrivals", REMOTE_ARRIVALS[0]) != REMOTE_ARRIVALS[0]:
        # The ask went to another process some time ago. What has arrived from there since did not see this wait.
        relay.start_probe()
    return wait


def probe_other_processes(target: ActorId) -> None:
    """Send a probe over each link that `target` waits on: an actor has begun to wait for it, and may close a cycle there."""
    for _asker, _path, relay in paths_to_processes(target):
        relay.start_probe()


def _running_actor() -> ActorId | None:
    """Return the actor that is running on this thread; None if no actor is."""
    loops: list[Any] = running_loops()
    if len(loops) > MAX_LOOPS:
        return None
    for loop in loops:
        actor: ActorId | None = loop.kernel.current_actor()
        if actor is not None:
            return actor
    return None


def refuse_cross_loop_cycle(asker: ActorId, callback: Any, method: Method | None) -> None:
    """Raise if an ask closes a cycle over several loops. Its asker and target may be on one loop.

    If one of the asks in the cycle is reentrant, it is handled now instead, and there is no cycle.

    Raises:
        AskCycleError: the actor that was asked waits, directly or through others, for the actor that asks.
    """
    chain = _path(callback.actor, asker)
    if chain is None:
        return
    asks = [(callback, method)] + [(link, getattr(link, "method", None)) for link in chain]
    for each, what in asks:
        if what is not None and what.is_reentrant:
            # Its own thread handles it out of turn, which breaks the cycle.
            home = each.actor.home
            home.inbox.call_soon(partial(home.loop.ask_table.reentrancy.handle_now, each, what))
            return
    steps = [f"{actor_label(asker)} asks {ask_label(callback)}"]
    steps += [wait_step(link) for link in chain]
    callback.cancel()
    raise cycle_error(steps)


def _path(start: ActorId, goal: ActorId) -> list[Any] | None:
    """Return the chain of asks by which `start` waits for `goal`, in order; None if it does not."""
    if start == goal:
        return []
    paths: list[tuple[ActorId, list[Any]]] = [(start, [])]
    seen = {start}
    while paths:
        actor, path = paths.pop()
        for callback in _waits_of(actor):
            following = callback.actor
            if callback.done() or following is None:
                continue
            if following == goal:
                return [*path, callback]
            if following not in seen:
                seen.add(following)
                paths.append((following, [*path, callback]))
    return None


def paths_to_processes(start: ActorId) -> list[tuple[ActorId, list[Any], Any]]:
    """Return the chains of asks by which an actor waits for other processes.

    Each item is the actor that made the last ask, the asks of this process in order, and the relay that forwarded the last
    one over a link. The relay has a `start_probe()`.
    """
    found: list[tuple[ActorId, list[Any], Any]] = []
    paths: list[tuple[ActorId, list[Any]]] = [(start, [])]
    seen = {start}
    while paths:
        actor, path = paths.pop()
        for callback in _waits_of(actor):
            following = callback.actor
            if callback.done() or following is None:
                continue
            # Read once: its own thread may remove the relay at any time.
            relay = callback.relay
            if hasattr(relay, "start_probe"):
                found.append((actor, [*path, callback], relay))
            elif following not in seen:
                seen.add(following)
                paths.append((following, [*path, callback]))
    return found


def _waits_of(actor: ActorId) -> list[Any]:
    found: list[Any] = CROSS_LOOP_WAITS.get(actor, [])
    kernel = actor.home
    table: Any = None if kernel is None else getattr(kernel.loop, "ask_table", None)
    return found if table is None else found + table.waits_of(actor)


# -- text --------------------------------------------------------------------------------------------------------------


def cycle_error(steps: list[str]) -> AskCycleError:
    """Return the error for a cycle."""
    return AskCycleError(
        f"{', '.join(steps)}: they would wait for each other until their deadlines. Ask in the background, or send a one-way "
        f"message and let the answer come back as another."
    )


def wait_step(callback: Any) -> str:
    """Describe one wait of a cycle."""
    target, what = _parts(callback)
    return f"which waits for {target} to answer {what}"


def ask_label(callback: Any) -> str:
    """Describe an ask: its target and what was asked."""
    target, what = _parts(callback)
    return f"{target} for {what}"


def _parts(callback: Any) -> tuple[str, str]:
    actor, name, what, _asked_at = callback.wait_info()
    return (safe_repr(actor) if name is None else f"{name!r} {safe_repr(actor)}"), what


def actor_label(actor: ActorId) -> str:
    """Describe an actor that waits: its name, if it has one, and its id."""
    cell = actor.cell
    name = None if cell is None else cell.name
    return f"{safe_repr(name)} {safe_repr(actor)}" if name else safe_repr(actor)
