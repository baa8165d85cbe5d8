"""What is to be supervised, and how: frozen data, checked when it is made, before anything starts.

A spec can be made once and used often: every start of it is a new tree with new state.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Concatenate, Generic, TypeAlias, TypeGuard, TypeVar

from bandstand.core import Behavior, Context
from bandstand.errors import InvalidArgument
from bandstand.errors.formatting import safe_repr
from bandstand.supervision.backoff import Backoff
from bandstand.supervision.intensity import Intensity
from bandstand.supervision.validate import check_intensity, check_member, check_ms
from bandstand.supervision.vocabulary import AutoShutdown, ChildMode, Mailbox, Shutdown, Strategy

__all__ = (
    "SUPERVISOR_SPECS",
    "AnySupervisorSpec",
    "ChildSpec",
    "DynamicSpec",
    "Init",
    "PartitionSpec",
    "SupervisorSpec",
    "is_supervisor_spec",
)

State = TypeVar("State")

# Said twice, because mypy cannot infer a lambda from the second form alone.
Init: TypeAlias = (
    Callable[[Context[State]], State | Coroutine[Any, Any, State]]
    | Callable[Concatenate[Context[State], ...], State | Coroutine[Any, Any, State]]
)
"""What gives a child its state: a function, or a coroutine function, of the child's own context."""

# How many supervisors may stand above each other.
DEEPEST = 50
# Milliseconds for a child's coroutine to end when it is stopped: OTP's own default.
SHUTDOWN_MS = 5000


@dataclass(frozen=True, slots=True)
class ChildSpec(Generic[State]):
    """One child of a supervisor.

    Raises:
        InvalidArgument: a value, or two values together, have no sense; both are named.
    """

    name: str
    """Its name, unique among its siblings: `Supervisor.child(name)` finds the present incarnation."""
    run: Behavior[State] | AnySupervisorSpec
    """What to run: a behavior, or the spec of a supervisor."""
    init: Init[State] | None = None
    """What gives each incarnation its own, fresh state; None for no state. It may set timers and watch descriptors.

    The supervisor waits with the next child until it has ended. One that raises is a failed start; one that raises
    `IgnoreChild` says that the child is not needed, and the supervisor goes on without it. Under a dynamic supervisor it gets the child's arguments after the context, under a partition supervisor the number of its partition.
    """
    mode: ChildMode = ChildMode.PERMANENT
    """When it is started again."""
    mailbox_cap: int | None = None
    """Slots of its mailbox; None or 0 for the loop's default."""
    mailbox: Mailbox = Mailbox.FRESH
    """What becomes of messages it has not handled when it ends and is started again."""
    backoff: Backoff | None = None
    """How long to wait before it is started again after an abnormal exit; None for not at all."""
    shutdown: float | Shutdown | None = None
    """Milliseconds its coroutine has to end when it is stopped, before it is killed. None is 5000, for a supervisor INFINITY."""
    significant: bool = False
    """Whether its end can end its supervisor: see `SupervisorSpec.auto_shutdown`."""

    @property
    def is_supervisor(self) -> bool:
        """Whether it is a supervisor itself."""
        return is_supervisor_spec(self.run)

    @property
    def patience_ms(self) -> float | None:
        """How long it is waited for when it is stopped: 0 for KILL, None for ever."""
        if self.shutdown is None:
            return None if self.is_supervisor else SHUTDOWN_MS
        if isinstance(self.shutdown, Shutdown):
            return 0 if self.shutdown is Shutdown.KILL else None
        return self.shutdown

    def __post_init__(self) -> None:
        if type(self.name) is not str or not self.name:
            raise InvalidArgument(
                f"ChildSpec: name is {safe_repr(self.name)}: pass a string that is not empty"
            )
        where = f"child {self.name!r}"
        if not callable(self.run) and not self.is_supervisor:
            raise InvalidArgument(
                f"{where}: run is {safe_repr(self.run)}: pass a behavior, a function of (ctx, data), or a supervisor's spec"
            )
        if self.init is not None and not callable(self.init):
            raise InvalidArgument(
                f"{where}: init is {safe_repr(self.init)}: pass a function of (ctx), or None"
            )
        check_member(where, "mode", self.mode, ChildMode)
        check_member(where, "mailbox", self.mailbox, Mailbox)
        if self.backoff is not None and not isinstance(self.backoff, Backoff):  # pyright: ignore[reportUnnecessaryIsInstance]  # same
            raise InvalidArgument(f"{where}: backoff is {safe_repr(self.backoff)}: pass a Backoff, or None")
        cap = self.mailbox_cap
        if cap is not None and (type(cap) is not int or not 0 <= cap <= 1 << 30):
            raise InvalidArgument(
                f"{where}: mailbox_cap is {safe_repr(cap)}: pass an int from 0 to 2**30, or None"
            )
        if self.shutdown is not None and not isinstance(self.shutdown, Shutdown):
            check_ms(where, "shutdown", self.shutdown, is_zero_allowed=True)
        if type(self.significant) is not bool:
            raise InvalidArgument(
                f"{where}: significant is {safe_repr(self.significant)}: pass True or False"
            )
        self._check_combinations(where)

    def _check_combinations(self, where: str) -> None:
        if self.significant and self.mode is ChildMode.PERMANENT:
            raise InvalidArgument(
                f"{where}: significant is True and mode is PERMANENT: a permanent child is always started again, so its end "
                f"can mean nothing; make it TRANSIENT or TEMPORARY"
            )
        if self.mode is ChildMode.TEMPORARY and self.backoff is not None:
            raise InvalidArgument(
                f"{where}: mode is TEMPORARY and backoff is {safe_repr(self.backoff)}: a temporary child is never started again, so "
                f"there is nothing to wait for"
            )
        if self.mode is ChildMode.TEMPORARY and self.mailbox is Mailbox.KEPT:
            raise InvalidArgument(
                f"{where}: mode is TEMPORARY and mailbox is KEPT: a temporary child is never started again, so there is "
                f"nobody to keep its messages for"
            )
        if self.is_supervisor:
            for field in ("init", "mailbox_cap"):
                if getattr(self, field) is not None:
                    raise InvalidArgument(
                        f"{where}: run is a supervisor's spec and {field} is {safe_repr(getattr(self, field))}: a supervisor has no "
                        f"{field} of its own"
                    )
            if self.mailbox is Mailbox.KEPT:
                raise InvalidArgument(
                    f"{where}: run is a supervisor's spec and mailbox is KEPT: a supervisor handles no messages of users"
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class SupervisorSpec:
    """A supervisor and its children, in their order: they start from the first to the last, and stop the other way round.

    The defaults allow 3 restarts in 5 s, all children together; the fourth within five seconds makes the supervisor give
    up, end its children and itself, and leave the matter to whoever supervises it.

    Raises:
        InvalidArgument: a value, or two values together, have no sense; both are named.
    """

    children: Sequence[ChildSpec[Any]] = ()
    strategy: Strategy = Strategy.ONE_FOR_ONE
    """Who is started again together with a child that is."""
    intensity: int = 3
    """How many restarts are allowed within `period_ms`; 0 for none at all."""
    period_ms: float = 5000
    """The time in which restarts are counted; also how long a child must live for its backoff to begin anew."""
    auto_shutdown: AutoShutdown = AutoShutdown.NEVER
    """Whether it ends by itself when significant children have."""

    @property
    def restarts(self) -> Intensity:
        """How often is too often."""
        return Intensity(self.intensity, self.period_ms)

    def __post_init__(self) -> None:
        if not isinstance(self.children, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers without types
            raise InvalidArgument(
                f"SupervisorSpec: children is {safe_repr(self.children)}: pass a sequence of ChildSpecs"
            )
        object.__setattr__(self, "children", tuple(self.children))
        for child in self.children:
            if not isinstance(child, ChildSpec):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers without types
                raise InvalidArgument(f"SupervisorSpec: children has {safe_repr(child)}: pass ChildSpecs")
        names = Counter(child.name for child in self.children)
        if twice := [name for name, count in names.items() if count > 1]:
            raise InvalidArgument(
                f"SupervisorSpec: children has {', '.join(map(repr, twice))} more than once: names are unique among siblings"
            )
        check_member("SupervisorSpec", "strategy", self.strategy, Strategy)
        check_member("SupervisorSpec", "auto_shutdown", self.auto_shutdown, AutoShutdown)
        check_intensity("SupervisorSpec", self.intensity, self.period_ms)
        check_depth("SupervisorSpec", self)
        if self.auto_shutdown is AutoShutdown.NEVER:
            for child in self.children:
                if child.significant:
                    raise InvalidArgument(
                        f"SupervisorSpec: auto_shutdown is NEVER and child {child.name!r} has significant True: nobody would take notice; "
                        f"choose ANY_SIGNIFICANT or ALL_SIGNIFICANT"
                    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DynamicSpec:
    """A supervisor of many children of one shape, started and stopped while it runs. It begins with none.

    Raises:
        InvalidArgument: a value, or two values together, have no sense.
    """

    child: ChildSpec[Any]
    """What they are made from. Their names are its name with a number; its init gets their arguments after the context."""
    max_children: int | None = None
    """How many there may be at one time; None for as many as the loop has room for."""
    intensity: int = 3
    """How many restarts, of all children together, are allowed within `period_ms`."""
    period_ms: float = 5000
    """The time in which restarts are counted."""

    @property
    def restarts(self) -> Intensity:
        """How often is too often."""
        return Intensity(self.intensity, self.period_ms)

    def __post_init__(self) -> None:
        check_template("DynamicSpec", self.child)
        check_intensity("DynamicSpec", self.intensity, self.period_ms)
        check_depth("DynamicSpec", self)
        most = self.max_children
        if most is not None and (type(most) is not int or most < 1):
            raise InvalidArgument(
                f"DynamicSpec: max_children is {safe_repr(most)}: pass an int from 1 on, or None"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionSpec:
    """A supervisor of several copies of one child, each for a part of the keys.

    Raises:
        InvalidArgument: a value, or two values together, have no sense.
    """

    child: ChildSpec[Any]
    """What they are made from. Their names are its name with a number; its init gets that number after the context."""
    partitions: int
    """How many there are."""
    intensity: int = 3
    """How many restarts, of all partitions together, are allowed within `period_ms`."""
    period_ms: float = 5000
    """The time in which restarts are counted."""

    @property
    def restarts(self) -> Intensity:
        """How often is too often."""
        return Intensity(self.intensity, self.period_ms)

    def __post_init__(self) -> None:
        check_template("PartitionSpec", self.child)
        check_intensity("PartitionSpec", self.intensity, self.period_ms)
        check_depth("PartitionSpec", self)
        if type(self.partitions) is not int or self.partitions < 1:
            raise InvalidArgument(
                f"PartitionSpec: partitions is {safe_repr(self.partitions)}: pass how many there are, from 1 on"
            )


AnySupervisorSpec: TypeAlias = SupervisorSpec | DynamicSpec | PartitionSpec
"""What `spawn_supervisor` can start, and what a child may be instead of a behavior."""


# The same, for isinstance.
SUPERVISOR_SPECS = (SupervisorSpec, DynamicSpec, PartitionSpec)


def is_supervisor_spec(what: object) -> TypeGuard[AnySupervisorSpec]:
    """Whether something is the spec of a supervisor, of whatever kind."""
    return isinstance(what, SUPERVISOR_SPECS)


def depth_of(spec: AnySupervisorSpec) -> int:
    """How many supervisors stand above each other in a tree, this one included."""
    children = spec.children if isinstance(spec, SupervisorSpec) else (spec.child,)
    return 1 + max((depth_of(child.run) for child in children if is_supervisor_spec(child.run)), default=0)


def check_depth(where: str, spec: AnySupervisorSpec) -> None:
    """Refuse a tree of supervisors that is so deep that its end would exhaust the stack."""
    if depth_of(spec) > DEEPEST:
        raise InvalidArgument(
            f"{where}: children are supervisors of supervisors, more than {DEEPEST} deep: no tree needs that, and its end "
            f"would exhaust the stack"
        )


def check_template(where: str, child: ChildSpec[Any]) -> None:
    """Refuse what many children of one shape cannot be made from."""
    if not isinstance(child, ChildSpec):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers without types
        raise InvalidArgument(f"{where}: child is {safe_repr(child)}: pass a ChildSpec")
    if child.significant:
        raise InvalidArgument(
            f"{where}: child {child.name!r} has significant True: only a SupervisorSpec has an auto_shutdown that takes "
            f"notice"
        )
