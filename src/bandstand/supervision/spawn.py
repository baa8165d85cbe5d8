"""Starting a supervisor of whatever kind."""

from __future__ import annotations

from contextvars import Context as ContextVars
from contextvars import copy_context
from typing import TYPE_CHECKING, overload

from bandstand.core import ActorId
from bandstand.core.lowlevel import is_supervisor
from bandstand.errors import InvalidArgument
from bandstand.errors.formatting import safe_repr
from bandstand.supervision.caps import check_caps
from bandstand.supervision.dynamic import DynamicSupervisor
from bandstand.supervision.overseer import Overseer
from bandstand.supervision.partition import PartitionSupervisor
from bandstand.supervision.spec import (
    AnySupervisorSpec,
    DynamicSpec,
    PartitionSpec,
    SupervisorSpec,
    is_supervisor_spec,
)
from bandstand.supervision.supervisor import Supervisor

if TYPE_CHECKING:
    from bandstand.core import Loop

__all__ = ("spawn_supervisor",)


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
) -> Overseer:
    """Start a supervisor and its children, from the first to the last.

    When this returns every child has started, unless an init is a coroutine function: such children, and those behind them,
    start once the loop runs. (An init may also end its own actor, or ask the loop to stop; then that is how it is.)

    A supervisor that gives up ends with `GaveUp`. If it has a parent, that actor gets its `ChildExit`; if it has none,
    nobody is left to turn to, and the whole loop ends: `run()` raises the error, an `async with` block is cancelled
    and raises it.

    Args:
        loop: the loop its children live on.
        spec: who, and how.
        name: for people.
        parent: an actor that is told of its end; the supervisor outlives it. (A supervisor under a supervisor is a `ChildSpec` whose `run` is a
            supervisor's spec.)

    Raises:
        StartFailed: a child did not start. What had been started before it was ended again, the last one first.
        InvalidArgument: a mailbox cap is not above the loop's reserve; nothing was started.
        MaxActors, NoMemory: there is no room for the supervisor itself.
        NoSuchActor, ActorNotLocal: the parent is not there.
        LoopClosed, WrongThread: as for `Loop.spawn`.
    """
    if not is_supervisor_spec(spec):
        raise InvalidArgument(
            f"spec is {safe_repr(spec)}: pass a SupervisorSpec, a DynamicSpec or a PartitionSpec"
        )
    if type(name) is not str or not name:
        raise InvalidArgument(f"name is {safe_repr(name)}: pass a string that is not empty")
    if parent is not None and is_supervisor(loop, parent):
        raise InvalidArgument(
            f"parent is {safe_repr(parent)}, which starts its children itself: give it a ChildSpec whose run is this spec, at its start or "
            f"with start_child()"
        )
    check_caps(loop, spec)
    supervisor = make(loop, spec, name, copy_context())
    supervisor.launch(parent)
    supervisor.raise_failed_start()
    return supervisor


def make(loop: Loop, spec: AnySupervisorSpec, name: str, context: ContextVars) -> Overseer:
    """Make the supervisor that a spec asks for; it is to be launched yet."""
    if isinstance(spec, SupervisorSpec):
        return Supervisor(loop, spec, name, context, make)
    if isinstance(spec, DynamicSpec):
        return DynamicSupervisor(loop, spec, name, context, make)
    return PartitionSupervisor(loop, spec, name, context, make)
