"""The registry: from the name of a pod to who is there at present. Every ensemble has one of its own.

Those of one process have a *board* in common, which knows of all pods that run in this process. A registry hears from it of a pod as soon
as one of its handles is for that pod, and never of others: what it costs to start and stop a pod depends on how many use it, not
on how many there are.

A handle never asks while the incarnation it knows is there. It asks when that has ended; so the registry costs nothing but
at restarts, and `lookups` counts what it was asked. The kubelet publishes an incarnation, withdraws it when it has ended, and
retires a pod that will not be back.

What waits. A plain thread may wait here, blocked, for a pod to be back (`connect`): its own time runs out whatever the kubelet
does. A message may wait here, too (`hold`), until the pod is published: then it is delivered, in the order in which it was sent,
before anybody who finds the new incarnation can send to it directly. Whoever comes in between waits for the lock, and is told to
try again. If its mailbox has no room for all of them, the rest stays in line, and whoever comes later goes to the end of it. Messages
that wait too long, or whose pod is retired, are answered with the reason, or counted as dead.

Every method can be called from any thread. What is called from in here (packing, posting, an asker that is told) is called with the
lock held only where order depends on it, and never calls back.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Mapping
from contextlib import nullcontext
from functools import partial
from threading import Condition, RLock
from time import monotonic
from typing import TYPE_CHECKING, final
from weakref import ref

from bandstand.actor.enums import HELD, RETRY
from bandstand.actor.handle import forget_actor
from bandstand.core.logs import SafeLogger
from bandstand.errors import BandstandError, InvalidArgument, PodDown, PodGone, PodTimeout
from bandstand.pod.books import PodBooks
from bandstand.pod.later import here
from bandstand.pod.passport import TroupeIdentity
from bandstand.pod.slot import NO_ROOM_MS, Slot, takes

if TYPE_CHECKING:
    from bandstand.actor.handle import Handle
    from bandstand.core import ActorId
    from bandstand.pod.held import Held
    from bandstand.pod.spec import TroupeSpec

__all__ = ("Board", "PodRegistry", "registry_of")

logger = SafeLogger("bandstand.pod")

Later = Callable[[float, Callable[[], object]], Callable[[], object]]
"""Has a function called in so many milliseconds; what takes that back."""


@final
class Board:
    """Who runs in this process, for the registries of one troupe. From any thread.

    The lock is held while registries are told, so that each hears of everything in the same order. It is taken before that of a
    registry, and never after it.
    """

    __slots__ = ("_gone", "_readers", "_running", "lock")

    def __init__(self) -> None:
        self.lock = RLock()
        self._running: dict[str, Mapping[str, ActorId]] = {}
        self._gone: dict[str, str] = {}
        self._readers: dict[str, list[PodRegistry]] = {}

    def read(self, pod: str, reader: PodRegistry) -> tuple[Mapping[str, ActorId], str | None]:
        """Who plays in a pod, and why it is gone; from now on the registry is told. With the lock held."""
        self._readers.setdefault(pod, []).append(reader)
        running: Mapping[str, ActorId] = {} if reader.owner == pod else self._running.get(pod, {})
        return running, self._gone.get(pod)

    def publish(self, pod: str, addresses: Mapping[str, ActorId]) -> None:
        """A pod runs. Its own registry knows, and more than others do."""
        with self.lock:
            self._running[pod] = addresses
            for reader in self._readers.get(pod, ()):
                if reader.owner != pod:
                    reader.publish(pod, addresses)

    def withdraw(self, pod: str) -> None:
        """Its incarnation has ended; another may come."""
        with self.lock:
            self._running.pop(pod, None)
            for reader in self._readers.get(pod, ()):
                reader.withdraw(pod)

    def retire(self, pod: str, reason: str) -> None:
        """It has ended for good."""
        with self.lock:
            self._gone.setdefault(pod, reason)
            for reader in self._readers.get(pod, ()):
                reader.retire(pod, reason)


class PodRegistry:
    """Who is there, pod by pod, for one holder of handles.

    Args:
        pods: their names.
        later: what ends the waiting of messages; None if none are to wait.
        rooms: how many messages may wait for a role, by its name.
        room: how many for those that are not there.
        realm: the troupe object: roles of one name are the same to different holders if it is.
        board: where to read who runs in this process; None for one that is told directly.
        owner: the pod whose registry it is; None for nobody's.
    """

    def __init__(
        self,
        pods: Collection[str],
        *,
        later: Later | None = None,
        rooms: Mapping[str, int] | None = None,
        room: int = 1020,
        realm: TroupeIdentity | None = None,
        board: Board | None = None,
        owner: str | None = None,
    ) -> None:
        self._pods = pods
        # Of those pods that somebody has asked for.
        self._slots: dict[str, Slot] = {}
        self._board = board
        self.owner = owner
        self._changed = Condition()
        self._later = later
        self._rooms: Mapping[str, int] = rooms or {}
        self._room = room
        self.realm = TroupeIdentity("") if realm is None else realm
        # Those who are to ask anew when all is over.
        self._handles: list[ref[Handle]] = []
        self._prune_at = 64
        # Why nobody comes back behind any handle, when that is so.
        self._closed: str | None = None
        self.lookups = 0
        """How often somebody has looked for an address."""
        self.dead = 0
        """How many messages have waited in vain, and nobody was told."""

    # -- what the kubelet says -------------------------------------------------------------------------------------------------

    def publish(self, pod: str, addresses: Mapping[str, ActorId]) -> None:
        """An incarnation is there: deliver what waits for it, and release everybody who does."""
        slot = self._slot(pod)
        with self._changed:
            if slot.gone is not None:
                return
            slot.addresses = dict(addresses)
        self._flush(slot)

    def withdraw(self, pod: str, addresses: Mapping[str, ActorId] | None = None) -> None:
        """The incarnation has ended; another will come. With `addresses`: only if these are who is there."""
        slot = self._slot(pod)
        with self._changed:
            if addresses is None or slot.addresses == addresses:
                slot.addresses = {}

    def retire(self, pod: str, reason: str) -> None:
        """The pod has ended for good: everybody who waits for it is told why. The first reason counts."""
        slot = self._slot(pod)
        with self._changed:
            if slot.gone is None:
                slot.gone = reason
            slot.addresses = {}
            lines, slot.lines = slot.lines, {}
            self._changed.notify_all()
        for line in lines.values():
            for each in line:
                self._give_up(each, self._goner(pod, slot))

    def revive(self, pod: str) -> None:
        """A pod that was retired may come again after all, because all it is part of is started again."""
        slot = self._slot(pod)
        with self._changed:
            self._closed = None
            slot.gone = None

    def close(self, reason: str) -> None:
        """Retire all of them. Also handles that know somebody who is still there find nobody any more."""
        with self._changed:
            if self._closed is None:
                self._closed = reason
            slots = list(self._slots)
        for pod in slots:
            self.retire(pod, reason)
        with self._changed:
            handles = list(self._handles)
        for known in handles:
            handle = known()
            if handle is not None:
                forget_actor(handle)

    def abandon(self, reason: str) -> None:
        """This process is a fork: nobody of this registry is here. Locks and timers are those of threads that are not here either."""
        self._changed = Condition()
        self._board = None
        self._closed = reason
        for slot in self._slots.values():
            slot.gone = reason
            slot.addresses = {}
            slot.lines = {}
        for known in self._handles:
            handle = known()
            if handle is not None:
                forget_actor(handle)

    def enlist(self, handle: Handle) -> None:
        """Note a handle whose place looks here."""
        with self._changed:
            if len(self._handles) >= self._prune_at:
                self._handles = [known for known in self._handles if known() is not None]
                self._prune_at = max(64, 2 * len(self._handles))
            self._handles.append(ref(handle))

    # -- what handles ask ------------------------------------------------------------------------------------------------------

    def find(self, pod: str, role: str) -> ActorId | None:
        """Who plays a role at present; None while nobody does."""
        self.lookups += 1
        return self._slot(pod).find(role)

    def state(self, pod: str, role: str) -> str:
        """What keeps whoever plays a role from taking a message, for people."""
        return self._slot(pod).state(role)

    def why_gone(self, pod: str) -> str | None:
        """Why a pod will not be back; None if it may be."""
        return self._slot(pod).gone

    def connect(self, pod: str, role: str, timeout_ms: float) -> ActorId:
        """Wait, blocked, until somebody plays a role.

        Raises:
            PodGone: nobody will.
            PodTimeout: nobody did in time.
        """
        slot = self._slot(pod)
        until = monotonic() + timeout_ms / 1000
        with self._changed:
            while True:
                if slot.gone is not None:
                    raise self._goner(pod, slot)
                actor = self.find(pod, role)
                if actor is not None:
                    return actor
                left = until - monotonic()
                if left <= 0 or not self._changed.wait(left):
                    actor = self.find(pod, role)
                    if actor is not None:
                        return actor
                    raise self._too_late(pod, slot, role, timeout_ms)

    def hold(self, pod: str, held: Held, timeout_ms: float) -> int:
        """Keep a message for a pod that is down: HELD, or RETRY if it is back.

        Raises:
            PodGone: it will not be back.
            PodDown: as much waits for that role as may, or nothing can wait here.
        """
        slot = self._slot(pod)
        with self._changed:
            if slot.gone is not None:
                raise self._goner(pod, slot)
            if self.find(pod, held.role) is not None:
                return RETRY
            line = slot.lines.setdefault(held.role, deque())
            room = self._rooms.get(held.role, self._room)
            if self._later is None or len(line) >= room:
                raise PodDown(
                    f"pod {pod!r} is down, and as many messages wait for {held.role!r} as may ({room}): slow down, or try again when "
                    f"it is back"
                )
            line.append(held)
        expire = partial(self._expire, pod, slot, held, timeout_ms)
        held.timers.append(self._later(timeout_ms, expire))
        mine = here()
        if mine is not None:
            # On the clock of whoever waits, too: the other one may be stuck, and this one may end.
            held.timers.append(mine(timeout_ms, expire))
        return HELD

    def books(self) -> PodBooks:
        """What became of the messages that have waited here and were never sent, and of those that wait."""
        waiting, dead = self.waiting, self.dead
        return PodBooks(sent=waiting + dead, dead=dead, waiting=waiting)

    @property
    def waiting(self) -> int:
        """How many messages wait."""
        return sum(len(line) for slot in list(self._slots.values()) for line in list(slot.lines.values()))

    # -- inside ----------------------------------------------------------------------------------------------------------------

    def _slot(self, pod: str) -> Slot:
        slot = self._slots.get(pod)
        return self._new_slot(pod) if slot is None else slot

    def _new_slot(self, pod: str) -> Slot:
        """Begin to follow a pod. Not with the registry's lock held: the board's comes first."""
        if pod not in self._pods:
            known = ", ".join(sorted(self._pods)) or "none"
            raise InvalidArgument(f"there is no pod {pod!r} here; there are {known}")
        with nullcontext() if self._board is None else self._board.lock, self._changed:
            slot = self._slots.get(pod)
            if slot is None:
                slot = Slot()
                gone = None
                if self._board is not None:
                    slot.addresses, gone = self._board.read(pod, self)
                slot.gone = self._closed or gone
                # Only now: whoever finds it finds all that is known.
                self._slots[pod] = slot
        return slot

    def _flush(self, slot: Slot) -> None:
        """Deliver what waits, as far as there is room, and release those who are blocked."""
        failed: list[tuple[Held, BaseException]] = []
        with self._changed:
            if not slot.flush(failed) and not slot.is_retrying and self._later is not None:
                slot.is_retrying = True
                self._later(NO_ROOM_MS, partial(self._flush_again, slot))
            self._changed.notify_all()
        # Outside: whoever is told may do whatever he likes.
        for held, error in failed:
            self._give_up(held, error)

    def _flush_again(self, slot: Slot) -> None:
        slot.is_retrying = False
        self._flush(slot)

    def _expire(self, pod: str, slot: Slot, held: Held, timeout_ms: float) -> None:
        with self._changed:
            line = slot.lines.get(held.role)
            if line is None or held not in line:
                return
            line.remove(held)
        if not held.expire():
            self._give_up(held, self._too_late(pod, slot, held.role, timeout_ms))

    def _give_up(self, held: Held, error: BaseException) -> None:
        held.stop_timers()
        if not held.fail(error):
            with self._changed:
                self.dead += 1
            logger.warning("%s was not delivered: %s", held, error)

    @staticmethod
    def _goner(pod: str, slot: Slot) -> BandstandError:
        return PodGone(f"pod {pod!r} has ended for good: {slot.gone}")

    @staticmethod
    def _too_late(pod: str, slot: Slot, role: str, timeout_ms: float) -> BandstandError:
        actor = slot.addresses.get(role)
        if actor is not None:
            hint = "" if takes(actor) else ". It comes back when its pod is started again"
            return PodTimeout(
                f"role {role!r} of pod {pod!r} took no message within {timeout_ms:g} ms: {slot.state(role)}{hint}"
            )
        return PodTimeout(
            f"role {role!r} took no message: pod {pod!r} was not back within {timeout_ms:g} ms: see troupe.status() for its phase and troupe.health() for its kubelet"
        )


def registry_of(
    spec: TroupeSpec, later: Later, board: Board | None = None, owner: str | None = None
) -> PodRegistry:
    """A registry of the pods of a troupe, in which as much waits for a role as its mailbox takes."""
    return PodRegistry(
        spec.by_name.keys(), later=later, rooms=spec.rooms, realm=spec.identity, board=board, owner=owner
    )
