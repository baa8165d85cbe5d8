"""Supervisors, as users see them: their children, and requests to start and stop them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import copy_context
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeVar, final, overload

from bandstand.core import ActorId
from bandstand.errors import BandstandError, ChildState, InvalidArgument, NoSuchChild
from bandstand.errors.formatting import safe_repr
from bandstand.supervision.child_watch import ChildWatch
from bandstand.supervision.children import ChildInfo, ChildSlot, Phase
from bandstand.supervision.restart import AutoShutdown
from bandstand.supervision.spec import (
    MAX_DEPTH,
    AnySupervisorSpec,
    ChildSpec,
    DynamicSpec,
    PartitionSpec,
    SupervisorSpec,
    check_mailbox_caps,
    depth_of,
    is_supervisor_spec,
)
from bandstand.supervision.supervisor_actor import SupervisorActor, SupervisorState

if TYPE_CHECKING:
    from bandstand.core import Loop
    from bandstand.supervision.dynamic import DynamicSupervisor, PartitionSupervisor

__all__ = ("BaseSupervisor", "Counts", "Supervisor", "spawn_supervisor")

Kind = TypeVar("Kind", bound="BaseSupervisor")

# The kinds of supervisors. Each has a `spec_type`.
kinds: list[type[BaseSupervisor]] = []


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
    children of the same supervisor: such calls raise `ChildState`.
    """

    __slots__ = ("__weakref__", "_actor")

    spec_type: ClassVar[type] = object
    """The spec from which `spawn_supervisor` makes a supervisor of this kind."""

    def __init_subclass__(cls) -> None:
        """Register a kind of supervisor, which `spawn_supervisor` finds by its `spec_type`."""
        kinds.append(cls)

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
            NoSuchChild: there is no child of that name.
        """
        self.loop.kernel.check_thread()
        return self._actor.current(self._slot(name))

    def address(self, name: str) -> ActorId:
        """Return the current incarnation of a child, to send to.

        Raises:
            NoSuchChild: there is no child of that name.
            ChildState: it is not running. `child` returns None then.
        """
        actor = self.child(name)
        if actor is not None:
            return actor
        if self._actor.state is SupervisorState.ENDED:
            raise ChildState(f"supervisor {self.name!r} has ended, and child {name!r} with it")
        phase = self._slot(name).phase
        why = "it has just exited" if phase is Phase.UP else f"it is {phase.value}"
        raise ChildState(f"child {name!r} of supervisor {self.name!r} is not running: {why}")

    def supervisor(self, name: str, kind: type[Kind]) -> Kind | None:
        """Return the current incarnation of a child that is a supervisor of this kind; None while there is none.

        Raises:
            NoSuchChild: there is no child of that name, or it is not a supervisor of that kind.
        """
        slot = self._slot(name)
        nested = slot.supervisor
        if nested is not None and slot.handle is None:
            slot.handle = _handle_of(nested)
        handle = slot.handle
        if not isinstance(slot.spec.run, kind.spec_type):
            what = f"; it is a {type(handle).__name__}" if handle is not None else ""
            raise NoSuchChild(f"child {name!r} of supervisor {self.name!r} is not a {kind.__name__}{what}")
        if handle is None or self._actor.current(slot) is None:
            return None
        assert isinstance(handle, kind)
        return handle

    def children(self) -> tuple[ChildInfo, ...]:
        """Return what is known about every child, in order."""
        self.loop.kernel.check_thread()
        return tuple(slot.info(self._actor.current(slot)) for slot in self._actor.children.slots.values())

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
            NoSuchChild: there is no such child, or the path continues below one that is not a supervisor.
            WrongThread: called off the loop's thread.
        """
        self.loop.kernel.check_thread()
        supervisor = self._actor
        slot: ChildSlot | None = None
        for name in path:
            if slot is not None:
                if not slot.is_supervisor:
                    raise NoSuchChild(
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

    def watch_child(self, path: Sequence[str], callback: Callable[[], object]) -> ChildWatch:
        """Call a function when a child has a new incarnation, and when it is gone: see `ChildWatch`."""
        return ChildWatch(self._actor, path, callback)

    # -- requests --------------------------------------------------------------------------------------------------------------

    def stop_child(self, name: str) -> bool:
        """Stop a child and keep it down until `restart_child`. A temporary child is removed.

        If its coroutine is in flight, it is cancelled and has the child's shutdown time to end; then it is killed.
        If the child has failed and waits for its next try, the siblings that were going to start with it stay down too.

        Returns:
            Whether it has ended. If not, it is stopping.

        Raises:
            NoSuchChild: there is no child of that name.
            ChildState: called by a child's init or a hook, or the supervisor has ended.
            LoopClosed, WrongThread: as for `Loop.stop_actor`.
        """
        self._actor.check_request("stop a child", even_if_stopping=True)
        return self._actor.request_stop_child(self._slot(name))

    def restart_child(self, name: str) -> ActorId:
        """Start a child that is down: it was stopped or ignored, or has exited and was not restarted.

        Raises:
            NoSuchChild: there is no child of that name.
            ChildState: it is not down; or the supervisor is stopping, or is stopping and starting a group of children.
            StartFailed: its init failed. It is down as before.
            MaxActors, NoMemory, LoopClosed, WrongThread: as for `start_child`.
        """
        self._actor.check_request("start a child")
        slot = self._slot(name)
        if slot.phase is not Phase.DOWN:
            raise ChildState(f"child {name!r} of supervisor {self.name!r} is {slot.phase.value}, not down")
        self._actor.check_not_sequencing("start a child")
        return self._actor.request_start(slot)

    def stop(self) -> None:
        """Stop the children, last to first and each in its own time, and then the supervisor.

        It ends when the loop has handled the exits of its children. A second call has no effect. If it is a permanent child of another
        supervisor, that one restarts it.

        Raises:
            ChildState: called by a child's init or a hook.
            LoopClosed, WrongThread: as for `Loop.stop_actor`.
        """
        if self._actor.state is not SupervisorState.ENDED:
            self._actor.check_request("stop", even_if_stopping=True)
            self._actor.request_stop()

    def spend_restarts(self) -> None:
        """Count as many restarts as are allowed as made just now: the next failure within the period makes it give up."""
        self._actor.spend_restarts()

    def _slot(self, name: str) -> ChildSlot:
        return _slot_of(self._actor, name)


@final
class Supervisor(BaseSupervisor):
    """A running supervisor of children in a fixed order. `spawn_supervisor` makes one from a `SupervisorSpec`."""

    __slots__ = ()

    spec_type = SupervisorSpec

    def start_child(self, spec: ChildSpec[Any]) -> ActorId:
        """Add a child at the end and start it.

        If its init is a coroutine function, the child is still starting when this returns. If that init fails, the child is removed
        and the failure is logged. If the init raises `IgnoreChild`, the child is added and stays down, and the returned id
        is that of an actor that has ended; a temporary child is not added then.

        Raises:
            StartFailed: its init failed. It was not added.
            InvalidArgument: a child of that name exists, or the spec contradicts this supervisor's.
            MaxActors, NoMemory: there is no room for it. It was not added.
            ChildState: the supervisor is stopping, or is stopping and starting a group of children.
            LoopClosed, WrongThread: as for `Loop.spawn`.
        """
        actor = self._actor
        actor.check_request("start a child")
        if not isinstance(spec, ChildSpec):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers without types
            raise InvalidArgument(f"spec is {safe_repr(spec)}: pass a ChildSpec")
        if spec.name in actor.children.slots:
            raise InvalidArgument(
                f"supervisor {self.name!r} has a child {spec.name!r} already: names are unique among siblings"
            )
        if spec.significant and actor.auto_shutdown is AutoShutdown.NEVER:
            raise InvalidArgument(
                f"child {spec.name!r} has significant True and auto_shutdown of supervisor {self.name!r} is NEVER: it would have "
                f"no effect"
            )
        check_mailbox_caps(self.loop, spec)
        if is_supervisor_spec(spec.run) and actor.depth + depth_of(spec.run) > MAX_DEPTH:
            raise InvalidArgument(
                f"child {spec.name!r} would make a tree of supervisors more than {MAX_DEPTH} deep: stopping such a tree would "
                f"exhaust the stack; use fewer levels"
            )
        actor.check_not_sequencing("start a child")
        return actor.add_child(ChildSlot(spec.name, spec, copy_context()))

    def delete_child(self, name: str) -> None:
        """Remove a child that is down.

        Raises:
            NoSuchChild: there is no child of that name.
            ChildState: it is not down; the supervisor is stopping, or has ended; or called by a child's init or a hook.
            LoopClosed, WrongThread: as for `Loop.stop_actor`.
        """
        self._actor.check_request("delete a child")
        slot = self._slot(name)
        if slot.phase is not Phase.DOWN:
            raise ChildState(
                f"child {name!r} of supervisor {self.name!r} is {slot.phase.value}: stop it before it is deleted"
            )
        self._actor.remove(slot)


@overload
def spawn_supervisor(
    loop: Loop, spec: SupervisorSpec, *, name: str = ..., parent: ActorId | int | None = ...
) -> Supervisor: ...
@overload
def spawn_supervisor(
    loop: Loop, spec: DynamicSpec, *, name: str = ..., parent: ActorId | int | None = ...
) -> DynamicSupervisor: ...
@overload
def spawn_supervisor(
    loop: Loop, spec: PartitionSpec, *, name: str = ..., parent: ActorId | int | None = ...
) -> PartitionSupervisor: ...
def spawn_supervisor(
    loop: Loop, spec: AnySupervisorSpec, *, name: str = "root", parent: ActorId | int | None = None
) -> BaseSupervisor:
    """Start a supervisor and its children, first to last.

    When this returns, every child has started, unless an init is a coroutine function: such children, and those behind them,
    start once the loop runs. (An init may also stop its own actor, or the loop.)

    A supervisor that gives up ends with `GaveUp`. If it has a parent, that actor receives a `ChildExit`. If it has none, the
    whole loop ends: `run()` raises the error, and an `async with` block is cancelled and raises it.

    Args:
        loop: the loop to run on.
        spec: what to start.
        name: shown in logs, errors and the tree.
        parent: an actor that receives the supervisor's `ChildExit`. The supervisor outlives it. (To put a supervisor under another
            one, pass a `ChildSpec` whose `run` is a supervisor's spec.)

    Raises:
        StartFailed: a child did not start. Those that had started were stopped again, last to first.
        InvalidArgument: a mailbox cap is not above the loop's reserve. Nothing was started.
        MaxActors, NoMemory: there is no room for the supervisor.
        NoSuchActor, ActorNotLocal: the parent does not exist on this loop.
        LoopClosed, WrongThread: as for `Loop.spawn`.
    """
    if not is_supervisor_spec(spec):
        raise InvalidArgument(
            f"spec is {safe_repr(spec)}: pass a SupervisorSpec, a DynamicSpec or a PartitionSpec"
        )
    if type(name) is not str or not name:
        raise InvalidArgument(f"name is {safe_repr(name)}: pass a string that is not empty")
    if parent is not None and loop.kernel.actors.is_supervisor(parent):
        raise InvalidArgument(
            f"parent is {safe_repr(parent)}, which manages its own children: pass it a ChildSpec whose run is this spec, in its "
            f"own spec or to start_child()"
        )
    check_mailbox_caps(loop, spec)
    actor = SupervisorActor(loop, spec, name, copy_context())
    actor.launch(parent, 1)
    actor.raise_start_error()
    return _handle_of(actor)


def _handle_of(actor: SupervisorActor) -> BaseSupervisor:
    """Return a new handle for a supervisor's actor, of the kind that belongs to its spec."""
    return next(kind for kind in kinds if isinstance(actor.spec, kind.spec_type))(actor)


def _slot_of(supervisor: SupervisorActor, name: str) -> ChildSlot:
    slots = supervisor.children.slots
    slot = slots.get(name)
    if slot is None:
        known = ", ".join(map(repr, islice(slots, 10))) or "none"
        more = " and others" if len(slots) > 10 else ""
        raise NoSuchChild(f"supervisor {supervisor.name!r} has no child {name!r}; it has {known}{more}")
    return slot
