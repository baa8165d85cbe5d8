"""Supervisors of children that are made from one spec: dynamic and partition supervisors.

A dynamic supervisor starts children on request: one per connection, per session, per job. They differ by their arguments, which
the init receives after the context, at every restart too. They do not depend on each other, so each is restarted by itself, and
all stop together.

A partition supervisor runs a fixed number of copies of one child. An actor handles one message at a time; if its work can be
divided by a key (a user, a device, a file), several copies share the load, and the messages of one key still go through one
actor, in order. The partition of a key depends only on the key and the number of partitions, so it is the same in the next run.
"""

from __future__ import annotations

from contextvars import copy_context
from hashlib import blake2b
from typing import cast, final
from zlib import crc32

from bandstand.core import ActorId, ActorStatus, ExitReason
from bandstand.errors import InvalidArgument, MaxChildren, NoSuchChild
from bandstand.errors.formatting import safe_repr
from bandstand.supervision.children import ChildSlot
from bandstand.supervision.restart import ExitAction
from bandstand.supervision.spec import DynamicSpec, PartitionSpec
from bandstand.supervision.supervisor import BaseSupervisor
from bandstand.supervision.supervisor_actor import SupervisorActor

__all__ = ("DynamicSupervisor", "PartitionSupervisor", "consistent_hash", "place_of")

WORD = (1 << 64) - 1


@final
class DynamicSupervisor(BaseSupervisor):
    """A running supervisor of children made from one spec. `spawn_supervisor` makes one from a `DynamicSpec`.

    A child that is stopped, or exits and is not restarted, is removed.
    """

    __slots__ = ("_spec",)

    spec_type = DynamicSpec

    def __init__(self, actor: SupervisorActor) -> None:
        super().__init__(actor)
        self._spec = cast("DynamicSpec", actor.spec)

    def start_child(self, *arguments: object) -> ActorId:
        """Start one more child. Its init receives `arguments` after the context.

        Its name is the spec's with a number: "session-1", "session-2" and so on. It stays the same through restarts.
        If the init raises `IgnoreChild`, no child is added, and the returned id is that of an actor that has ended.

        Raises:
            MaxChildren: there are as many children as the spec allows. A child does not count from the moment it has
                exited for good.
            InvalidArgument: there are arguments, but the spec has no init to receive them.
            StartFailed: its init failed. It was not added.
            MaxActors, NoMemory: there is no room for it. It was not added.
            ChildState: the supervisor is stopping; or called by a child's init or a hook.
            LoopClosed, WrongThread: as for `Loop.spawn`.
        """
        actor, template = self._actor, self._spec.child
        actor.check_request("start a child")
        if arguments and template.init is None:
            raise InvalidArgument(
                f"child {template.name!r} of supervisor {self.name!r} has no init, so {safe_repr(arguments[0])} would be lost: "
                f"give its ChildSpec an init of (ctx, ...)"
            )
        limit = self._spec.max_children
        if limit is not None and self._is_full(limit):
            raise MaxChildren(
                f"supervisor {self.name!r} has {limit} {'child' if limit == 1 else 'children'}, as many as its max_children "
                f"allows: stop some, or raise DynamicSpec.max_children"
            )
        name = f"{template.name}-{actor.children.next_position + 1}"
        return actor.add_child(ChildSlot(name, template, copy_context(), arguments))

    def stop_child(self, name: str | ActorId) -> bool:
        """Stop a child, given by its name or by its current id, and remove it. See `BaseSupervisor.stop_child`."""
        return super().stop_child(self.name_of(name) if isinstance(name, ActorId) else name)

    def name_of(self, actor: ActorId) -> str:
        """Return the name of a child, which stays the same through restarts.

        Raises:
            NoSuchChild: the actor is not a child of this supervisor, or has ended.
        """
        slot = self._actor.children.by_actor.get(actor)
        if slot is None:
            raise NoSuchChild(f"{safe_repr(actor)} is not a child of supervisor {self.name!r}, or has ended")
        return slot.name

    def restart_if_start_fails(self, actor: ActorId) -> None:
        """Restart a child that was just added even if its asynchronous init fails.

        Without this call the supervisor removes such a child, just as `start_child` adds none if the init fails at once. Call it if
        something depends on the child: a failed init then counts like any other failure.
        """
        slot = self._actor.children.by_actor.get(actor)
        if slot is not None:
            slot.is_requested = slot.is_added = False

    def _is_full(self, limit: int) -> bool:
        slots = self._actor.children.slots
        return len(slots) >= limit and len(slots) - sum(map(self._has_exited, slots.values())) >= limit

    def _has_exited(self, slot: ChildSlot) -> bool:
        """Return whether a child has exited for good, although its `ChildExit` may not have been handled yet."""
        status = ActorStatus.RUNNING if slot.actor is None else self.loop.status(slot.actor)
        if status < ActorStatus.STOPPED:
            return False
        reason = ExitReason.NORMAL if status is ActorStatus.STOPPED else ExitReason.FAIL
        return slot.exit_actions[reason] is not ExitAction.RESTART


@final
class PartitionSupervisor(BaseSupervisor):
    """A running supervisor of the partitions of one child. `spawn_supervisor` makes one from a `PartitionSpec`."""

    __slots__ = ("_spec",)

    spec_type = PartitionSpec

    def __init__(self, actor: SupervisorActor) -> None:
        super().__init__(actor)
        self._spec = cast("PartitionSpec", actor.spec)

    @property
    def partitions(self) -> int:
        """How many partitions there are."""
        return self._spec.partitions

    def route(self, key: str | bytes | int) -> ActorId | None:
        """Return the actor responsible for a key; None while that partition does not run.

        Raises:
            InvalidArgument: the key is not a str, bytes or int.
        """
        name = f"{self._spec.child.name}-{place_of(key, self._spec.partitions)}"
        slot = self._actor.children.slots.get(name)
        return None if slot is None else self._actor.current(slot)


def place_of(key: str | bytes | int, partitions: int) -> int:
    """Return the partition of a key, from 0 on: the same in every run, on every machine and version of Python.

    Raises:
        InvalidArgument: the key is not a str, bytes or int, which are the types with a stable hash; or `partitions` is not
            at least 1.
    """
    if type(partitions) is not int or partitions < 1:
        raise InvalidArgument(f"partitions is {safe_repr(partitions)}: pass how many there are, from 1 on")
    return crc32(_key_bytes(key)) % partitions


def consistent_hash(key: str | bytes | int, buckets: int) -> int:
    """Return the bucket of a key, where the number of buckets may change: from n to n + 1, one key in n + 1 moves, to the new bucket.

    It is the jump consistent hash by Lamping and Veach, and as stable as `place_of`.

    Raises:
        InvalidArgument: the key is not a str, bytes or int.
    """
    state = int.from_bytes(blake2b(_key_bytes(key), digest_size=8).digest(), "big")
    bucket, following = -1, 0
    while following < buckets:
        bucket = following
        state = (state * 2862933555777941757 + 1) & WORD
        following = (bucket + 1) * (1 << 31) // ((state >> 33) + 1)
    return bucket


def _key_bytes(key: object) -> bytes:
    if isinstance(key, str):
        return b"s" + key.encode("utf-8", "surrogatepass")
    if isinstance(key, bytes):
        return b"b" + key
    if type(key) is int:
        return b"i%x" % key
    raise InvalidArgument(f"key is {safe_repr(key)}: pass a str, bytes or an int")
