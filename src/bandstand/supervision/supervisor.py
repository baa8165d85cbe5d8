"""Supervisors, as users see them: their children, and requests to start and stop them.

A dynamic supervisor starts children on request: one per connection, per session, per job. They differ by their arguments, which
the init receives after the context, at every restart too. They do not depend on each other, so each is restarted by itself, and
all stop together.

A partition supervisor runs a fixed number of copies of one child. An actor handles one message at a time; if its work can be
divided by a key (a user, a device, a file), several copies share the load, and the messages of one key still go through one
actor, in order. The partition of a key depends only on the key and the number of partitions, so it is the same in the next run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import copy_context
from hashlib import blake2b
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, TypeVar, cast, final, overload
from zlib import crc32

from bandstand.core import ActorId, ActorStatus, ExitReason
from bandstand.errors import (
    BandstandError,
    ChildStateError,
    InvalidArgumentError,
    MaxChildrenError,
    NoSuchChildError,
)
from bandstand.errors.formatting import safe_repr
from bandstand.supervision.children import ChildInfo, ChildSlot, Phase
from bandstand.supervision.restart import AutoShutdown, ExitAction, Intensity, RestartBudget
from bandstand.supervision.spec import (
    MAX_DEPTH,
    ActorChildSpec,
    AnySupervisorSpec,
    ChildSpec,
    DynamicSpec,
    HandleFactory,
    PartitionSpec,
    Spawnable,
    SupervisorSpec,
    check_child_class,
    check_mailboxes,
    check_own_limit,
    check_siblings,
    class_of_child,
    depth_of,
    is_supervisor_spec,
)
from bandstand.supervision.supervisor_actor import SupervisorActor, SupervisorState

if TYPE_CHECKING:
    from bandstand.core import Loop

__all__ = (
    "BaseSupervisor",
    "ChildWatch",
    "Counts",
    "DynamicSupervisor",
    "PartitionSupervisor",
    "Supervisor",
    "consistent_hash",
    "place_of",
    "spawn_supervisor",
    "supervisor_of",
)

Kind = TypeVar("Kind", bound="BaseSupervisor")
H = TypeVar("H")

WORD = (1 << 64) - 1


class Counts(NamedTuple):
    """How many children a supervisor has, in total and of each kind."""

    specs: int
    active: int
    """Those that are running."""
    supervisors: int
    workers: int


class BaseSupervisor:
    """What all kinds of supervisors have in common.

    Call all methods on the loop's thread. The init of a child, or a hook that runs while the supervisor is busy, cannot start or stop
    children of the same supervisor: such calls raise `ChildStateError`.
    """

    __slots__ = ("__weakref__", "_actor")

    spec_type: ClassVar[type] = object
    """The spec from which `spawn_supervisor` makes a supervisor of this kind; see `KINDS`."""

    def __init__(self, actor: SupervisorActor) -> None:
        self._actor = actor

    # -- questions -------------------------------------------------------------------------------------------------------------

    @property
    def actor(self) -> ActorId:
        """Its id: monitor it to learn of its end."""
        return self._actor.own_id

    @property
    def name(self) -> str:
        """Its name."""
        return self._actor.name

    @property
    def loop(self) -> Loop:
        """The loop it runs on."""
        return self._actor.loop

    @property
    def outcome(self) -> BandstandError | None:
        """Why it has ended, or is stopping, if not normally."""
        return self._actor.outcome

    def __actor_id__(self) -> ActorId:
        """Its id, for functions that accept any kind of actor, such as `Scope.adopt`."""
        return self.actor

    def child(self, name: str) -> ActorId | None:
        """Return the current incarnation of a child; None while there is none.

        Raises:
            NoSuchChildError: there is no child of that name.
        """
        self.loop.kernel.check_thread()
        return self._actor.current(self._slot(name))

    def address(self, name: str) -> ActorId:
        """Return the current incarnation of a child, to send to.

        Raises:
            NoSuchChildError: there is no child of that name.
            ChildStateError: it is not running. `child` returns None then.
        """
        actor = self.child(name)
        if actor is not None:
            return actor
        if self._actor.state is SupervisorState.ENDED:
            raise ChildStateError(f"supervisor {self.name!r} has ended, and child {name!r} with it")
        slot = self._slot(name)
        why = "it has just exited" if slot.phase is Phase.UP else f"it is {slot.phase.value}"
        if slot.given_up is not None:
            why = f"it was given up: {slot.given_up}"
        raise ChildStateError(f"child {name!r} of supervisor {self.name!r} is not running: {why}")

    def handle(self, kind: Callable[..., Spawnable[H]], /, *path: str) -> H:
        """Return a handle of a child that is a typed actor: `root.handle(Counter, "counter")`.

        The handle stays valid over restarts: a call goes to the current incarnation. While the child is being restarted, an ask waits for
        the next incarnation, until its own deadline; a one-way call raises `ActorRestartingError`, and `try_send` returns False; see
        `when_down` for other policies. A child that will not be restarted raises `NoSuchActorError`. Two handles of the same child are
        equal.

        Args:
            kind: the class that the child was declared with, or a base class of it.
            path: the name of the child, or the names on the path to it through other supervisors.

        Raises:
            InvalidArgumentError: it is not an actor class; there is no name; the child is of another class; or the loop has no typed actors.
            NoSuchChildError: there is no child of that name.
            WrongThreadError: called off the loop's thread.
        """
        if not path:
            raise InvalidArgumentError("handle() needs the name of a child")
        spec = self.spec_at(path)
        handle: Any = self._typed_loop().child_handle(self, kind, path)
        if spec is not None:
            actor_class: Any = kind
            check_child_class(
                f"child {'/'.join(path)!r}", spec, getattr(actor_class, "__origin__", actor_class)
            )
        return handle  # type: ignore[no-any-return]  # a handle has the type of its class

    def supervisor(self, name: str, kind: type[Kind]) -> Kind | None:
        """Return the current incarnation of a child that is a supervisor of this kind; None while there is none.

        With the class of its children, `root.supervisor("sessions", DynamicSupervisor[Session])`, type checkers know what its `start_child` returns.

        Raises:
            NoSuchChildError: there is no child of that name, or it is not a supervisor of that kind.
        """
        kind = getattr(kind, "__origin__", kind)
        slot = self._slot(name)
        nested = slot.supervisor
        if nested is not None and slot.handle is None:
            slot.handle = _handle_of(nested)
        handle = slot.handle
        if not isinstance(slot.spec.run, kind.spec_type):
            what = f"; it is a {type(handle).__name__}" if handle is not None else ""
            raise NoSuchChildError(
                f"child {name!r} of supervisor {self.name!r} is not a {kind.__name__}{what}"
            )
        if handle is None or self._actor.current(slot) is None:
            return None
        assert isinstance(handle, kind)
        return handle

    def children(self) -> tuple[ChildInfo, ...]:
        """Return what is known about every child, in order."""
        self.loop.kernel.check_thread()
        actor, now_ms = self._actor, self._actor.now_ms()
        return tuple(slot.info(actor.current(slot), now_ms) for slot in actor.children.slots.values())

    @property
    def intensity(self) -> Intensity:
        """How many restarts it allows at the moment. Children with a backoff change it, if the spec sets no `max_restarts`."""
        limit: Intensity = self._actor.intensity
        return limit

    @property
    def budget(self) -> RestartBudget:
        """How much of its restart limit is used. Restarts of children with their own `max_restarts` count in `ChildInfo.budget` instead."""
        self.loop.kernel.check_thread()
        return self._actor.budget()

    def count_children(self) -> Counts:
        """Return how many children there are."""
        self.loop.kernel.check_thread()
        slots = self._actor.children.slots.values()
        supervisors = sum(slot.is_supervisor for slot in slots)
        active = sum(slot.phase is Phase.UP and self._actor.current(slot) is not None for slot in slots)
        return Counts(len(slots), active, supervisors, len(slots) - supervisors)

    # -- questions by a path through child supervisors -------------------------------------------------------------------------

    def locate(self, path: Sequence[str]) -> tuple[ActorId, ChildSpec[Any]] | None:
        """Return the current incarnation of a child and its spec, by the names on the way down to it.

        None while it does not run, or a supervisor on the way does not. From any thread.
        """
        slots = self._actor.slots_on_path(path)
        if not path or len(slots) < len(path):
            return None
        actor = slots[-1].actor
        return None if actor is None or not actor.is_alive else (actor, slots[-1].spec)

    def spec_at(self, path: Sequence[str]) -> ChildSpec[Any] | None:
        """Return the spec of a child, by the names on the way down to it; None while a supervisor on the way does not run.

        Raises:
            NoSuchChildError: there is no such child, or the path continues below one that is not a supervisor.
            WrongThreadError: called off the loop's thread.
        """
        self.loop.kernel.check_thread()
        supervisor = self._actor
        slot: ChildSlot | None = None
        for name in path:
            if slot is not None:
                if not slot.is_supervisor:
                    raise NoSuchChildError(
                        f"child {slot.name!r} of supervisor {supervisor.name!r} is not a supervisor: it has no child {name!r}"
                    )
                if slot.supervisor is None:
                    return None
                supervisor = slot.supervisor
            slot = _slot_of(supervisor, name)
        return None if slot is None else slot.spec

    def is_child_gone(self, path: Sequence[str]) -> bool:
        """Return whether a child will never run again: it was removed, or this supervisor has ended.

        False while a supervisor on the way is down: it may be restarted, and its children with it.
        """
        return self._actor.is_gone(path)

    def will_start_child(self, path: Sequence[str]) -> bool:
        """Return whether a child that does not run is going to be started by its supervisor, as far as is known now. From any thread.

        False if it is down until a request, or was removed; and if this supervisor is stopping or has ended.
        """
        return self._actor.will_start(path)

    def why_given_up(self, path: Sequence[str]) -> str | None:
        """Return why a child was given up, or the first supervisor on the way to it that was; None if none was. From any thread.

        Of removed children, a dynamic supervisor remembers the last thousand.
        """
        return self._actor.why_given_up(path)

    def watch_child(self, path: Sequence[str], callback: Callable[[], object]) -> ChildWatch:
        """Call a function when a child has a new incarnation, is down or is gone: see `ChildWatch`."""
        return ChildWatch(self._actor, path, callback)

    # -- requests --------------------------------------------------------------------------------------------------------------

    def stop_child(self, name: str) -> bool:
        """Stop a child and keep it down until `restart_child`. A child that is never restarted is removed.

        If its coroutine is in flight, it is cancelled and has the child's shutdown time to end; then it is killed.
        If the child has failed and waits for its next try, the siblings that were going to start with it stay down too.

        Returns:
            Whether it has ended. If not, it is stopping.

        Raises:
            NoSuchChildError: there is no child of that name.
            ChildStateError: called by a child's init or a hook, or the supervisor has ended.
            LoopClosedError, WrongThreadError: as for `Loop.stop_actor`.
        """
        self._actor.check_request("stop a child", even_if_stopping=True)
        return self._actor.request_stop_child(self._slot(name))

    def restart_child(self, name: str) -> ActorId:
        """Start a child that is down: it was stopped or ignored, or has exited and was not restarted.

        Raises:
            NoSuchChildError: there is no child of that name.
            ChildStateError: it is not down; or the supervisor is stopping, or is stopping and starting a group of children.
            StartError: its init failed. It is down as before.
            MaxActorsError, OutOfMemoryError, LoopClosedError, WrongThreadError: as for `start_child`.
        """
        self._actor.check_request("start a child")
        slot = self._slot(name)
        if slot.phase is not Phase.DOWN:
            raise ChildStateError(
                f"child {name!r} of supervisor {self.name!r} is {slot.phase.value}, not down"
            )
        self._actor.check_not_sequencing("start a child")
        return self._actor.request_start(slot)

    def stop(self) -> None:
        """Stop the children, last to first and each in its own time, and then the supervisor.

        It ends when the loop has handled the exits of its children. A second call has no effect. If it is a permanent child of another
        supervisor, that one restarts it.

        Raises:
            ChildStateError: called by a child's init or a hook.
            LoopClosedError, WrongThreadError: as for `Loop.stop_actor`.
        """
        if self._actor.state is not SupervisorState.ENDED:
            self._actor.check_request("stop", even_if_stopping=True)
            self._actor.request_stop()

    def spend_restarts(self) -> None:
        """Count as many restarts as are allowed as made just now: the next failure within the period makes it give up."""
        self._actor.spend_restarts()

    def _slot(self, name: str) -> ChildSlot:
        return _slot_of(self._actor, name)

    def _typed_loop(self) -> HandleFactory:
        loop: object = self.loop
        if not isinstance(loop, HandleFactory):
            raise InvalidArgumentError(
                f"supervisor {self.name!r} runs on a raw loop, which has no typed actors: use bandstand.ActorSystem"
            )
        return loop

    # Any: an id, or a handle of the child's class.
    def _started(self, actor: ActorId, name: str, kind: type[Any] | None) -> Any:
        """Return what `start_child` returns for a child."""
        return actor if kind is None else self._typed_loop().child_handle(self, kind, (name,))


@final
class Supervisor(BaseSupervisor):
    """A running supervisor of children in a fixed order. `spawn_supervisor` makes one from a `SupervisorSpec`."""

    __slots__ = ()

    spec_type = SupervisorSpec

    @overload
    def start_child(self, spec: ActorChildSpec[H]) -> H: ...  # type: ignore[overload-overlap]  # an ActorChildSpec is never seen as a ChildSpec
    @overload
    def start_child(self, spec: ChildSpec[Any]) -> ActorId: ...
    def start_child(self, spec: ChildSpec[Any]) -> Any:
        """Add a child at the end and start it.

        Returns:
            A handle that stays valid over restarts, as `handle` returns it, if the child is a typed actor; otherwise its id.

        If its init is a coroutine function, the child is still starting when this returns. If that init fails, the child is removed
        and the failure is logged. If the init raises `IgnoreChild`, the child is added and stays down, and the returned id
        is that of an actor that has ended; a child that is never restarted is not added then.

        Raises:
            StartError: its init failed. It was not added.
            InvalidArgumentError: a child of that name exists, or the spec contradicts this supervisor's.
            MaxActorsError, OutOfMemoryError: there is no room for it. It was not added.
            ChildStateError: the supervisor is stopping, or is stopping and starting a group of children.
            LoopClosedError, WrongThreadError: as for `Loop.spawn`.
        """
        actor = self._actor
        actor.check_request("start a child")
        if not isinstance(spec, ChildSpec):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers without types
            raise InvalidArgumentError(f"spec is {safe_repr(spec)}: pass a ChildSpec")
        if spec.name in actor.children.slots:
            raise InvalidArgumentError(
                f"supervisor {self.name!r} has a child {spec.name!r} already: names are unique among siblings"
            )
        if spec.significant and actor.auto_shutdown is AutoShutdown.NEVER:
            raise InvalidArgumentError(
                f"child {spec.name!r} has significant True and auto_shutdown of supervisor {self.name!r} is NEVER: it would have "
                f"no effect"
            )
        check_own_limit(f"supervisor {self.name!r}", actor.strategy, spec)
        check_mailboxes(self.loop, spec)
        check_siblings(spec, (slot.spec for slot in actor.children.slots.values()))
        if is_supervisor_spec(spec.run) and actor.depth + depth_of(spec.run) > MAX_DEPTH:
            raise InvalidArgumentError(
                f"child {spec.name!r} would make a tree of supervisors more than {MAX_DEPTH} deep: stopping such a tree would "
                f"exhaust the stack; use fewer levels"
            )
        actor.check_not_sequencing("start a child")
        child = actor.add_child(ChildSlot(spec.name, spec, copy_context()))
        return self._started(child, spec.name, class_of_child(spec))

    def delete_child(self, name: str) -> None:
        """Remove a child that is down.

        Raises:
            NoSuchChildError: there is no child of that name.
            ChildStateError: it is not down; the supervisor is stopping, or has ended; or called by a child's init or a hook.
            LoopClosedError, WrongThreadError: as for `Loop.stop_actor`.
        """
        self._actor.check_request("delete a child")
        slot = self._slot(name)
        if slot.phase is not Phase.DOWN:
            raise ChildStateError(
                f"child {name!r} of supervisor {self.name!r} is {slot.phase.value}: stop it before it is deleted"
            )
        self._actor.remove(slot)


@final
class DynamicSupervisor(BaseSupervisor, Generic[H]):
    """A running supervisor of children made from one spec. `spawn_supervisor` makes one from a `DynamicSpec`.

    A child that is stopped, or exits and is not restarted, is removed.
    """

    __slots__ = ("_kind", "_spec")

    spec_type = DynamicSpec

    def __init__(self, actor: SupervisorActor) -> None:
        super().__init__(actor)
        self._spec = cast("DynamicSpec[ChildSpec[Any]]", actor.spec)
        self._kind = class_of_child(self._spec.child)

    def start_child(self, *arguments: object, name: str | None = None) -> H:
        """Start one more child. Its init receives `arguments` after the context.

        Returns:
            A handle that stays valid over restarts if the child is a typed actor; otherwise its id.

        Its name stays the same through restarts. Without `name` it is the spec's with a number: "session-1", "session-2" and so on.
        If the init raises `IgnoreChild`, no child is added, and the returned id is that of an actor that has ended.

        Raises:
            MaxChildrenError: there are as many children as the spec allows. A child does not count from the moment it has
                exited for good.
            InvalidArgumentError: there are arguments, but the spec has no init to receive them; or the name is not a string, or
                empty, or a child has it.
            StartError: its init failed. It was not added.
            MaxActorsError, OutOfMemoryError: there is no room for it. It was not added.
            ChildStateError: the supervisor is stopping; or called by a child's init or a hook.
            LoopClosedError, WrongThreadError: as for `Loop.spawn`.
        """
        actor, template = self._actor, self._spec.child
        actor.check_request("start a child")
        if arguments and template.init is None:
            raise InvalidArgumentError(
                f"child {template.name!r} of supervisor {self.name!r} has no init, so {safe_repr(arguments[0])} would be lost: "
                f"give its ChildSpec an init of (ctx, ...)"
            )
        limit = self._spec.max_children
        if limit is not None and self._is_full(limit):
            raise MaxChildrenError(
                f"supervisor {self.name!r} has {limit} {'child' if limit == 1 else 'children'}, as many as its max_children "
                f"allows: stop some, or raise DynamicSpec.max_children"
            )
        chosen = self._next_name() if name is None else self._checked_name(name)
        child = actor.add_child(ChildSlot(chosen, template, copy_context(), arguments))
        started: H = self._started(child, chosen, self._kind)
        return started

    def stop_child(self, name: str | ActorId | H) -> bool:
        """Stop a child, given by its name, its handle or its current id, and remove it. See `BaseSupervisor.stop_child`."""
        return super().stop_child(name if isinstance(name, str) else self.name_of(name))

    def name_of(self, child: ActorId | H) -> str:
        """Return the name of a child, given by its handle or its current id. It stays the same through restarts.

        Raises:
            NoSuchChildError: the actor is not a child of this supervisor, or has ended.
        """
        slot = self._actor.children.by_actor.get(_id_of(child))
        if slot is None:
            raise NoSuchChildError(
                f"{safe_repr(child)} is not a child of supervisor {self.name!r}, or has ended"
            )
        return slot.name

    def restart_if_start_fails(self, child: ActorId | H) -> None:
        """Restart a child that was just added even if its asynchronous init fails.

        Without this call the supervisor removes such a child, just as `start_child` adds none if the init fails at once. Call it if
        something depends on the child: a failed init then counts like any other failure.
        """
        slot = self._actor.children.by_actor.get(_id_of(child))
        if slot is not None:
            slot.is_requested = slot.is_added = False

    def _next_name(self) -> str:
        children = self._actor.children
        number = children.next_position + 1
        # A caller may have chosen that name.
        while (name := f"{self._spec.child.name}-{number}") in children.slots:
            number += 1
        return name

    def _checked_name(self, name: str) -> str:
        if type(name) is not str or not name:
            raise InvalidArgumentError(
                f"name is {safe_repr(name)}: pass a string that is not empty, or leave it out"
            )
        slot = self._actor.children.slots.get(name)
        if slot is not None:
            raise InvalidArgumentError(
                f"supervisor {self.name!r} has a child {name!r} already, which is {slot.phase.value}: names are unique among "
                f"siblings; choose another one, or stop that child first"
            )
        return name

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
class PartitionSupervisor(BaseSupervisor, Generic[H]):
    """A running supervisor of the partitions of one child. `spawn_supervisor` makes one from a `PartitionSpec`."""

    __slots__ = ("_kind", "_spec")

    spec_type = PartitionSpec

    def __init__(self, actor: SupervisorActor) -> None:
        super().__init__(actor)
        self._spec = cast("PartitionSpec[ChildSpec[Any]]", actor.spec)
        self._kind = class_of_child(self._spec.child)

    @property
    def partitions(self) -> int:
        """How many partitions there are."""
        return self._spec.partitions

    def route(self, key: str | bytes | int) -> H | None:
        """Return the child responsible for a key.

        Returns:
            A handle that stays valid over restarts if the children are typed actors; otherwise an id, and None while that partition does not run.

        Raises:
            InvalidArgumentError: the key is not a str, bytes or int.
        """
        name = f"{self._spec.child.name}-{place_of(key, self._spec.partitions)}"
        found: Any
        if self._kind is not None:
            found = self._typed_loop().child_handle(self, self._kind, (name,))
        else:
            slot = self._actor.children.slots.get(name)
            found = None if slot is None else self._actor.current(slot)
        return found  # type: ignore[no-any-return]  # see above


KINDS: tuple[type[BaseSupervisor], ...] = (Supervisor, DynamicSupervisor, PartitionSupervisor)


@overload
def spawn_supervisor(
    loop: Loop, spec: SupervisorSpec, *, name: str = ..., parent: ActorId | int | None = ...
) -> Supervisor: ...
@overload
def spawn_supervisor(  # type: ignore[overload-overlap]  # as for `start_child`
    loop: Loop, spec: DynamicSpec[ActorChildSpec[H]], *, name: str = ..., parent: ActorId | int | None = ...
) -> DynamicSupervisor[H]: ...
@overload
def spawn_supervisor(
    loop: Loop, spec: DynamicSpec[ChildSpec[Any]], *, name: str = ..., parent: ActorId | int | None = ...
) -> DynamicSupervisor[ActorId]: ...
@overload
def spawn_supervisor(  # type: ignore[overload-overlap]  # as for `start_child`
    loop: Loop, spec: PartitionSpec[ActorChildSpec[H]], *, name: str = ..., parent: ActorId | int | None = ...
) -> PartitionSupervisor[H]: ...
@overload
def spawn_supervisor(
    loop: Loop, spec: PartitionSpec[ChildSpec[Any]], *, name: str = ..., parent: ActorId | int | None = ...
) -> PartitionSupervisor[ActorId]: ...
def spawn_supervisor(
    loop: Loop, spec: AnySupervisorSpec, *, name: str = "root", parent: ActorId | int | None = None
) -> BaseSupervisor:
    """Start a supervisor and its children, first to last.

    When this returns, every child has started, unless an init is a coroutine function: such children, and those behind them,
    start once the loop runs. (An init may also stop its own actor, or the loop.)

    A supervisor that gives up ends with `RestartLimitError`. If it has a parent, that actor receives a `ChildExit`. If it has none, the
    whole loop ends: `run()` raises the error, and an `async with` block is cancelled and raises it.

    Args:
        loop: the loop to run on.
        spec: what to start.
        name: shown in logs, errors and the tree.
        parent: an actor that receives the supervisor's `ChildExit`. The supervisor outlives it. (To put a supervisor under another
            one, pass a `ChildSpec` whose `run` is a supervisor's spec.)

    Raises:
        StartError: a child did not start. Those that had started were stopped again, last to first.
        InvalidArgumentError: a mailbox cap is not above the loop's reserve. Nothing was started.
        MaxActorsError, OutOfMemoryError: there is no room for the supervisor.
        NoSuchActorError, ActorNotLocalError: the parent does not exist on this loop.
        LoopClosedError, WrongThreadError: as for `Loop.spawn`.
    """
    if not is_supervisor_spec(spec):
        raise InvalidArgumentError(
            f"spec is {safe_repr(spec)}: pass a SupervisorSpec, a DynamicSpec or a PartitionSpec"
        )
    if type(name) is not str or not name:
        raise InvalidArgumentError(f"name is {safe_repr(name)}: pass a string that is not empty")
    if parent is not None and loop.kernel.actors.is_supervisor(parent):
        raise InvalidArgumentError(
            f"parent is {safe_repr(parent)}, which manages its own children: pass it a ChildSpec whose run is this spec, in its "
            f"own spec or to start_child()"
        )
    check_mailboxes(loop, spec)
    actor = SupervisorActor(loop, spec, name, copy_context())
    actor.launch(parent, 1)
    actor.raise_start_error()
    return _handle_of(actor)


def supervisor_of(loop: Loop, actor: ActorId) -> BaseSupervisor | None:
    """Return the supervisor of an actor; None if it has none, or has exited. Loop thread only."""
    group = loop.kernel.actors.group_around(actor)
    return _handle_of(group) if isinstance(group, SupervisorActor) else None


def _handle_of(actor: SupervisorActor) -> BaseSupervisor:
    """Return a new handle for a supervisor's actor, of the kind that belongs to its spec."""
    return next(kind for kind in KINDS if isinstance(actor.spec, kind.spec_type))(actor)


# Any: a handle has the type of its class.
def _id_of(child: Any) -> ActorId:
    """Return the id of a child, which is given by its handle or its id."""
    find = getattr(child, "__actor_id__", None)
    actor: ActorId = child if find is None else find()
    return actor


def _slot_of(supervisor: SupervisorActor, name: str) -> ChildSlot:
    slots = supervisor.children.slots
    slot = slots.get(name)
    if slot is None:
        known = ", ".join(map(repr, islice(slots, 10))) or "none"
        more = " and others" if len(slots) > 10 else ""
        why = supervisor.given_up.get(name)
        if why is not None:
            raise NoSuchChildError(f"supervisor {supervisor.name!r} has given up child {name!r}: {why}")
        raise NoSuchChildError(f"supervisor {supervisor.name!r} has no child {name!r}; it has {known}{more}")
    return slot


@final
class ChildWatch:
    """Calls a function when a child has a new incarnation, when it is not restarted, and when it will never run again. Loop thread only.

    The function must not raise. It may also be called without a change: check the child.

    A child is named by a path down from a supervisor. A supervisor on that path may be restarted, and then it has new slots under
    the same names. So a watch registers with every slot on the path that exists, and when one of them changes, it walks the path
    again. There is no polling, and a child without watches pays one comparison with None per start.
    """

    __slots__ = ("_callback", "_path", "_root", "_slots")

    def __init__(self, root: SupervisorActor, path: Sequence[str], callback: Callable[[], object]) -> None:
        self._root = root
        self._path = path
        self._callback = callback
        self._slots: list[ChildSlot] = []
        self._attach()

    def changed(self) -> None:
        """Walk the path again and call the function. Slots call this."""
        self.cancel()
        self._attach()
        self._callback()

    def cancel(self) -> None:
        """Stop watching."""
        for slot in self._slots:
            if slot.watchers is not None:
                slot.watchers.pop(self, None)
        self._slots.clear()

    def _attach(self) -> None:
        self._slots = self._root.slots_on_path(self._path)
        for slot in self._slots:
            if slot.watchers is None:
                slot.watchers = {}
            slot.watchers[self] = None


def place_of(key: str | bytes | int, partitions: int) -> int:
    """Return the partition of a key, from 0 on: the same in every run, on every machine and version of Python.

    Raises:
        InvalidArgumentError: the key is not a str, bytes or int, which are the types with a stable hash; or `partitions` is not
            at least 1.
    """
    if type(partitions) is not int or partitions < 1:
        raise InvalidArgumentError(
            f"partitions is {safe_repr(partitions)}: pass how many there are, from 1 on"
        )
    return crc32(_key_bytes(key)) % partitions


def consistent_hash(key: str | bytes | int, buckets: int) -> int:
    """Return the bucket of a key, where the number of buckets may change: from n to n + 1, one key in n + 1 moves, to the new bucket.

    It is the jump consistent hash by Lamping and Veach, and as stable as `place_of`.

    Raises:
        InvalidArgumentError: the key is not a str, bytes or int.
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
    raise InvalidArgumentError(f"key is {safe_repr(key)}: pass a str, bytes or an int")
