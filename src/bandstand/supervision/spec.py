"""Specs: what to supervise and how, as frozen data.

A spec is checked when it is made, before anything starts. It can be used more than once: each start makes a new tree with new
state.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Generic,
    Protocol,
    TypeAlias,
    TypeGuard,
    TypeVar,
    cast,
    runtime_checkable,
)

from bandstand.core import Behavior, Context
from bandstand.errors import IgnoreChild, InvalidArgumentError, StartError
from bandstand.errors.formatting import safe_repr, safe_str
from bandstand.errors.validation import Seconds, check_member, to_seconds
from bandstand.supervision.restart import (
    DEFAULT_MAX_RESTARTS,
    DEFAULT_PERIOD,
    AutoShutdown,
    Backoff,
    Intensity,
    RestartPolicy,
    Strategy,
    check_intensity,
)

if TYPE_CHECKING:
    from bandstand.core import Loop
    from bandstand.supervision.supervisor import BaseSupervisor

__all__ = (
    "MAX_DEPTH",
    "ActorChildSpec",
    "AnySupervisorSpec",
    "ChildSpec",
    "DynamicSpec",
    "HandleFactory",
    "Init",
    "PartitionSpec",
    "Shutdown",
    "Spawnable",
    "SupervisorSpec",
    "TypedInit",
    "cap_of",
    "check_child_class",
    "check_mailboxes",
    "check_own_limit",
    "check_siblings",
    "class_of_child",
    "depth_of",
    "is_child_of",
    "is_supervisor_spec",
    "required_init",
)

State = TypeVar("State")
H_co = TypeVar("H_co", covariant=True)
Spec_co = TypeVar("Spec_co", bound="ChildSpec[Any]", covariant=True)

# Two forms, because mypy cannot infer a lambda from the second one alone.
Init: TypeAlias = (
    Callable[[Context[State]], State | Coroutine[Any, Any, State]]
    | Callable[Concatenate[Context[State], ...], State | Coroutine[Any, Any, State]]
)
"""Makes a child's state: a function, or a coroutine function, of the child's own context."""

# How many levels of supervisors a tree may have.
MAX_DEPTH = 50
# The default time for a child's coroutine to end when the child is stopped, as in OTP.
SHUTDOWN_S = 5.0


class Shutdown(Enum):
    """How a child is stopped, if not within a time."""

    KILL = "kill"
    """At once: a coroutine in flight is cancelled and not waited for."""
    INFINITY = "infinity"
    """The supervisor waits without a limit. For child supervisors, whose children have their own times."""


class Spawnable(Protocol[H_co]):
    """What an actor class makes, as type checkers see it: `me` has the type of its handles. Every actor class fits."""

    @property
    def me(self) -> H_co:
        """The actor's own handle."""
        ...

    def __actor_receive__(self, data: Any, is_signal: bool) -> Any:
        """Handle a message that is not a method call."""
        ...


@runtime_checkable
class HandleFactory(Protocol):
    """A loop with typed actors: it makes handles of supervised children."""

    # Any: a handle has the type of its class.
    def child_handle(self, root: BaseSupervisor, kind: Any, path: tuple[str, ...], /) -> Any:
        """Return a handle of a child that stays valid over restarts. The child need not exist."""
        ...


class TypedInit(ABC):
    """The init of a child that is a typed actor. It checks its siblings when a supervisor's spec is made, and before `start_child`."""

    __slots__ = ("kind",)

    kind: type[Any]
    """The class of the actor."""

    @property
    @abstractmethod
    def sibling_names(self) -> Sequence[str]:
        """The names of the siblings it needs."""

    @abstractmethod
    def check_siblings(self, siblings: Mapping[str, ChildSpec[Any]]) -> None:
        """Raise `InvalidArgumentError` if a sibling does not exist, or is of another kind."""


@dataclass(frozen=True, slots=True)
class ChildSpec(Generic[State]):
    """One child of a supervisor.

    Raises:
        InvalidArgumentError: a value is out of range, or two values contradict each other; the text names both.
    """

    name: str
    """Its name, unique among its siblings. `Supervisor.child(name)` returns the current incarnation."""
    run: Behavior[State] | AnySupervisorSpec
    """What to run: a behavior, or the spec of a supervisor."""
    init: Init[State] | None = None
    """Makes the state of each incarnation; None for no state. It may set timers and watch file descriptors.

    The next child starts when it has returned. An exception is a failed start. `IgnoreChild` means that the child is not
    needed, and the supervisor continues without it. After the context a dynamic supervisor passes the child's arguments, and a
    partition supervisor the number of the partition.
    """
    restart: RestartPolicy = RestartPolicy.ALWAYS
    """When it is restarted."""
    mailbox: int | None = None
    """How many messages of users may wait in each lane of its mailbox; None for the loop's default."""
    keep_mailbox: bool = False
    """Whether the next incarnation receives its unhandled messages, before anything else, except for the one that was being handled. Otherwise they
    become dead letters when it exits."""
    backoff: Backoff | None = None
    """How long to wait before a restart after an abnormal exit; None for no wait."""
    shutdown: Seconds | Shutdown | None = None
    """How long its coroutine has to end when it is stopped; then it is killed. None means 5 s, or INFINITY for a supervisor."""
    significant: bool = False
    """Whether its exit can stop its supervisor: see `SupervisorSpec.auto_shutdown`."""
    max_restarts: int | None = None
    """How many restarts of this child alone are allowed within its `period`; 0 for none. None counts them against its supervisor's limit.

    A child with its own limit does not use up that of its supervisor. At one restart more, the supervisor gives the child up:
    it logs the cause, the child stays down, or is removed if its supervisor is dynamic, and its siblings continue to run.
    Only under ONE_FOR_ONE, where siblings do not depend on each other.
    """
    period: Seconds | None = None
    """The time in which restarts of this child are counted, if it has its own `max_restarts`; None means 5 s."""
    mailbox_cap: int | None = None
    """For raw loops, instead of `mailbox`: the slots of its mailbox, those reserved for system messages included, as in `bandstand.core.Loop.spawn`.
    None or 0 for the loop's default."""

    @property
    def restarts(self) -> Intensity | None:
        """Its own `max_restarts` and `period` as one value; None if its restarts count against its supervisor's limit."""
        if self.max_restarts is None:
            return None
        return Intensity(self.max_restarts, DEFAULT_PERIOD if self.period is None else self.period)

    @property
    def is_supervisor(self) -> bool:
        """Whether the child is a supervisor."""
        return is_supervisor_spec(self.run)

    @property
    def stop_timeout(self) -> float | None:
        """How many seconds the supervisor waits when it stops the child: 0 for KILL, None for no limit."""
        if self.shutdown is None:
            return None if self.is_supervisor else SHUTDOWN_S
        if isinstance(self.shutdown, Shutdown):
            return 0 if self.shutdown is Shutdown.KILL else None
        return to_seconds("shutdown", self.shutdown)

    def __post_init__(self) -> None:
        if type(self.name) is not str or not self.name:
            raise InvalidArgumentError(
                f"ChildSpec: name is {safe_repr(self.name)}: pass a string that is not empty"
            )
        where = f"child {self.name!r}"
        if not callable(self.run) and not self.is_supervisor:
            raise InvalidArgumentError(
                f"{where}: run is {safe_repr(self.run)}: pass a behavior, a function of (ctx, data), or a supervisor's spec"
            )
        if self.init is not None and not callable(self.init):
            raise InvalidArgumentError(
                f"{where}: init is {safe_repr(self.init)}: pass a function of (ctx), or None"
            )
        check_member(f"{where}: restart", self.restart, RestartPolicy)
        if self.backoff is not None and not isinstance(self.backoff, Backoff):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers without types
            raise InvalidArgumentError(
                f"{where}: backoff is {safe_repr(self.backoff)}: pass a Backoff, or None"
            )
        self._check_mailbox(where)
        if self.shutdown is not None and not isinstance(self.shutdown, Shutdown):
            object.__setattr__(self, "shutdown", to_seconds(f"{where}: shutdown", self.shutdown))
        for field in ("significant", "keep_mailbox"):
            if type(getattr(self, field)) is not bool:
                raise InvalidArgumentError(
                    f"{where}: {field} is {safe_repr(getattr(self, field))}: pass True or False"
                )
        self._check_limit(where)
        self._check_combinations(where)

    def _check_mailbox(self, where: str) -> None:
        room, cap = self.mailbox, self.mailbox_cap
        if room is not None and (type(room) is not int or not 1 <= room <= 1 << 30):
            raise InvalidArgumentError(
                f"{where}: mailbox is {safe_repr(room)}: pass how many messages may wait, from 1 to 2**30, or None"
            )
        if cap is not None and (type(cap) is not int or not 0 <= cap <= 1 << 30):
            raise InvalidArgumentError(
                f"{where}: mailbox_cap is {safe_repr(cap)}: pass an int from 0 to 2**30, or None"
            )
        if room is not None and cap is not None:
            raise InvalidArgumentError(
                f"{where}: mailbox is {room} and mailbox_cap is {cap}: both set the size of the mailbox; leave out mailbox_cap"
            )

    def _check_limit(self, where: str) -> None:
        if self.max_restarts is not None:
            period = DEFAULT_PERIOD if self.period is None else self.period
            object.__setattr__(self, "period", check_intensity(where, self.max_restarts, period))
        elif self.period is not None:
            raise InvalidArgumentError(
                f"{where}: period is {safe_repr(self.period)} and max_restarts is None: a child without its own max_restarts is "
                f"counted in the period of its supervisor; set max_restarts, or leave out period"
            )

    def _check_combinations(self, where: str) -> None:
        if self.significant and self.restart is RestartPolicy.ALWAYS:
            raise InvalidArgumentError(
                f"{where}: significant is True and restart is ALWAYS: the child is always restarted, so its exit "
                f"cannot stop the supervisor; use ON_FAILURE or NEVER"
            )
        if self.restart is RestartPolicy.NEVER and self.backoff is not None:
            raise InvalidArgumentError(
                f"{where}: restart is NEVER and backoff is {safe_repr(self.backoff)}: the child is never restarted, so "
                f"no delay is possible; leave out backoff"
            )
        if self.restart is RestartPolicy.NEVER and self.max_restarts is not None:
            raise InvalidArgumentError(
                f"{where}: restart is NEVER and max_restarts is {self.max_restarts}: the child is never restarted, so "
                f"there is nothing to count; leave out max_restarts"
            )
        if self.restart is RestartPolicy.NEVER and self.keep_mailbox:
            raise InvalidArgumentError(
                f"{where}: restart is NEVER and keep_mailbox is True: no next incarnation can receive its messages; leave out keep_mailbox"
            )
        if self.is_supervisor:
            for field in ("init", "mailbox", "mailbox_cap"):
                if getattr(self, field) is not None:
                    raise InvalidArgumentError(
                        f"{where}: run is a supervisor's spec and {field} is {safe_repr(getattr(self, field))}: a supervisor has no "
                        f"{field}; leave it out"
                    )
            if self.keep_mailbox:
                raise InvalidArgumentError(
                    f"{where}: run is a supervisor's spec and keep_mailbox is True: a supervisor handles no user messages; leave out keep_mailbox"
                )


@dataclass(frozen=True, slots=True)
class ActorChildSpec(ChildSpec[Any], Generic[H_co]):
    """A child that is a typed actor, made by `child(...).of(...)`. `start_child` returns its handle."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SupervisorSpec:
    """A supervisor and its children. They start in this order and stop in reverse order.

    The defaults allow 3 restarts in 5 s, for all children together. At the fourth within five seconds the supervisor gives up: it
    stops its children, ends, and escalates to its own supervisor.

    Raises:
        InvalidArgumentError: a value is out of range, or two values contradict each other; the text names both.
    """

    children: Sequence[ChildSpec[Any]] = ()
    strategy: Strategy = Strategy.ONE_FOR_ONE
    """Which children are restarted together with one that is."""
    max_restarts: int | None = None
    """How many restarts are allowed within `period`, for all children together; 0 for none.

    None means 3; if children have a `Backoff`, as many restarts as it takes each of them to wait its longest delay once.

    The restarts of a child with its own `max_restarts` do not count. If such a child is given up, that counts as one restart; with
    None it does not count.
    """
    period: Seconds = DEFAULT_PERIOD
    """The time in which restarts are counted. A child that runs this long starts its backoff again."""
    auto_shutdown: AutoShutdown = AutoShutdown.NEVER
    """Whether the supervisor stops when significant children have exited."""

    @property
    def restarts(self) -> Intensity:
        """`max_restarts` and `period` as one value; without what backoffs add."""
        return Intensity(
            DEFAULT_MAX_RESTARTS if self.max_restarts is None else self.max_restarts, self.period
        )

    def __post_init__(self) -> None:
        if not isinstance(self.children, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers without types
            raise InvalidArgumentError(
                f"SupervisorSpec: children is {safe_repr(self.children)}: pass a sequence of ChildSpecs"
            )
        object.__setattr__(self, "children", tuple(self.children))
        for child in self.children:
            if not isinstance(child, ChildSpec):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers without types
                raise InvalidArgumentError(
                    f"SupervisorSpec: children has {safe_repr(child)}: pass ChildSpecs"
                )
        names = Counter(child.name for child in self.children)
        if twice := [name for name, count in names.items() if count > 1]:
            raise InvalidArgumentError(
                f"SupervisorSpec: children has {', '.join(map(repr, twice))} more than once: names are unique among siblings"
            )
        for child in self.children:
            check_siblings(child, self.children)
        check_member("SupervisorSpec: strategy", self.strategy, Strategy)
        check_member("SupervisorSpec: auto_shutdown", self.auto_shutdown, AutoShutdown)
        for child in self.children:
            check_own_limit("SupervisorSpec", self.strategy, child)
        _check_limit("SupervisorSpec", self)
        check_depth("SupervisorSpec", self)
        if self.auto_shutdown is AutoShutdown.NEVER:
            for child in self.children:
                if child.significant:
                    raise InvalidArgumentError(
                        f"SupervisorSpec: auto_shutdown is NEVER and child {child.name!r} has significant True, which would have no effect: "
                        f"choose ANY_SIGNIFICANT or ALL_SIGNIFICANT"
                    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DynamicSpec(Generic[Spec_co]):
    """A supervisor of many children made from one spec, started and stopped while it runs. It starts with none.

    Raises:
        InvalidArgumentError: a value is out of range, or two values contradict each other.
    """

    child: Spec_co
    """The spec of every child. A child's name is this name with a number, unless `start_child` gives it another one; its init receives the
    child's arguments after the context."""
    max_children: int | None = None
    """How many children may exist at one time; None for as many as the loop has room for."""
    max_restarts: int | None = None
    """How many restarts are allowed within `period`, for all children together. None is as in `SupervisorSpec`.

    For many children that fail independently of each other, give the child its own `max_restarts`: then this one says how many
    children may be given up within `period`, and None sets no limit.
    """
    period: Seconds = DEFAULT_PERIOD
    """The time in which restarts are counted."""

    @property
    def restarts(self) -> Intensity:
        """`max_restarts` and `period` as one value; without what backoffs add."""
        return Intensity(
            DEFAULT_MAX_RESTARTS if self.max_restarts is None else self.max_restarts, self.period
        )

    def __post_init__(self) -> None:
        check_template("DynamicSpec", self.child)
        _check_limit("DynamicSpec", self)
        check_depth("DynamicSpec", self)
        most = self.max_children
        if most is not None and (type(most) is not int or most < 1):
            raise InvalidArgumentError(
                f"DynamicSpec: max_children is {safe_repr(most)}: pass an int from 1 on, or None"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionSpec(Generic[Spec_co]):
    """A supervisor of several copies of one child, each responsible for a part of the keys.

    Raises:
        InvalidArgumentError: a value is out of range, or two values contradict each other.
    """

    child: Spec_co
    """The spec of every partition. Its name is this name with a number; its init receives that number after the context."""
    partitions: int
    """How many partitions there are."""
    max_restarts: int | None = None
    """How many restarts are allowed within `period`, for all partitions together. None is as in `SupervisorSpec`."""
    period: Seconds = DEFAULT_PERIOD
    """The time in which restarts are counted."""

    @property
    def restarts(self) -> Intensity:
        """`max_restarts` and `period` as one value; without what backoffs add."""
        return Intensity(
            DEFAULT_MAX_RESTARTS if self.max_restarts is None else self.max_restarts, self.period
        )

    def __post_init__(self) -> None:
        check_template("PartitionSpec", self.child)
        _check_limit("PartitionSpec", self)
        check_depth("PartitionSpec", self)
        if type(self.partitions) is not int or self.partitions < 1:
            raise InvalidArgumentError(
                f"PartitionSpec: partitions is {safe_repr(self.partitions)}: pass how many there are, from 1 on"
            )


def _check_limit(where: str, spec: AnySupervisorSpec) -> None:
    most = DEFAULT_MAX_RESTARTS if spec.max_restarts is None else spec.max_restarts
    object.__setattr__(spec, "period", check_intensity(where, most, spec.period))


def check_own_limit(where: str, strategy: Strategy, child: ChildSpec[Any]) -> None:
    """Raise `InvalidArgumentError` for a child that has its own restart limit but is restarted together with siblings."""
    if child.max_restarts is not None and strategy is not Strategy.ONE_FOR_ONE:
        raise InvalidArgumentError(
            f"{where}: strategy is {strategy.name} and child {child.name!r} has max_restarts {child.max_restarts}: siblings that are restarted "
            f"together depend on each other, so none can be given up alone; set max_restarts of the supervisor, or use ONE_FOR_ONE"
        )


AnySupervisorSpec: TypeAlias = SupervisorSpec | DynamicSpec[ChildSpec[Any]] | PartitionSpec[ChildSpec[Any]]
"""What `spawn_supervisor` can start, and what a child may run instead of a behavior."""


def is_supervisor_spec(value: object) -> TypeGuard[AnySupervisorSpec]:
    """Return whether a value is the spec of a supervisor of any kind."""
    return isinstance(value, (SupervisorSpec, DynamicSpec, PartitionSpec))


def depth_of(spec: AnySupervisorSpec) -> int:
    """Return how many levels of supervisors a tree has, this one included."""
    children = spec.children if isinstance(spec, SupervisorSpec) else (spec.child,)
    return 1 + max((depth_of(child.run) for child in children if is_supervisor_spec(child.run)), default=0)


def check_depth(where: str, spec: AnySupervisorSpec) -> None:
    """Raise `InvalidArgumentError` for a tree of so many levels that stopping it could exhaust the stack."""
    if depth_of(spec) > MAX_DEPTH:
        raise InvalidArgumentError(
            f"{where}: children are supervisors of supervisors, more than {MAX_DEPTH} deep: stopping such a tree would "
            f"exhaust the stack; use fewer levels"
        )


def check_template(where: str, child: ChildSpec[Any]) -> None:
    """Raise `InvalidArgumentError` for a spec from which a dynamic or partition supervisor cannot make its children."""
    if not isinstance(child, ChildSpec):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers without types
        raise InvalidArgumentError(f"{where}: child is {safe_repr(child)}: pass a ChildSpec")
    if child.significant:
        raise InvalidArgumentError(
            f"{where}: child {child.name!r} has significant True, which would have no effect: only a SupervisorSpec has an "
            f"auto_shutdown"
        )
    init: object = child.init
    if isinstance(init, TypedInit) and init.sibling_names:
        name = init.sibling_names[0]
        raise InvalidArgumentError(
            f"{where}: child {child.name!r} refers to sibling {name!r}: only the children of a SupervisorSpec "
            f"have siblings with names; pass a handle to each child instead"
        )


def class_of_child(spec: ChildSpec[Any]) -> type[Any] | None:
    """Return the class of a child that is a typed actor; None for other children."""
    init: object = spec.init
    return init.kind if isinstance(init, TypedInit) else None


def is_child_of(spec: ChildSpec[Any], kind: type[Any]) -> bool:
    """Return whether a child is declared as a typed actor of this class, or of one derived from it."""
    declared = class_of_child(spec)
    return declared is not None and issubclass(declared, kind)


def check_child_class(what: str, spec: ChildSpec[Any], kind: type[Any]) -> None:
    """Raise `InvalidArgumentError` if a child is not declared as a typed actor of this class."""
    if not is_child_of(spec, kind):
        declared = class_of_child(spec)
        known = "not a typed actor" if declared is None else f"a {declared.__qualname__}"
        raise InvalidArgumentError(f"{what} is {known}, not a {kind.__qualname__}")


def check_siblings(child: ChildSpec[Any], siblings: Iterable[ChildSpec[Any]]) -> None:
    """Raise `InvalidArgumentError` if a child refers to a sibling that does not exist, or is of another kind."""
    init: object = child.init
    if isinstance(init, TypedInit):
        init.check_siblings({sibling.name: sibling for sibling in siblings if sibling is not child})


def cap_of(loop: Loop, spec: ChildSpec[Any]) -> int:
    """Return the mailbox cap of a child on a loop.

    Raises:
        InvalidArgumentError: its `mailbox_cap` is not above the loop's reserve.
    """
    if spec.mailbox is not None:
        return loop.kernel.actors.cap_for(spec.mailbox)
    return loop.kernel.actors.checked_cap(spec.mailbox_cap)


def check_mailboxes(loop: Loop, spec: AnySupervisorSpec | ChildSpec[Any]) -> None:
    """Check the mailboxes of a child, or of a whole tree, against the limits of a loop.

    It is the one thing about a spec that cannot be checked without the loop.

    Raises:
        InvalidArgumentError: a cap is not above the loop's reserve.
    """
    if isinstance(spec, SupervisorSpec):
        for child in spec.children:
            check_mailboxes(loop, child)
    elif isinstance(spec, (DynamicSpec, PartitionSpec)):
        check_mailboxes(loop, spec.child)
    elif is_supervisor_spec(spec.run):
        check_mailboxes(loop, spec.run)
    else:
        try:
            cap_of(loop, spec)
        except InvalidArgumentError as error:
            raise InvalidArgumentError(f"child {spec.name!r}: {safe_str(error)}") from None


def required_init(init: Callable[..., object], name: str) -> Callable[..., object]:
    """Return an init for which `IgnoreChild` is a failed start: for children that something else waits for.

    Args:
        init: a function or a coroutine function, called with the arguments of an init.
        name: names the child in the error.
    """

    def checked(*args: Any) -> object:
        try:
            state = init(*args)
        except IgnoreChild as error:
            raise _must_start(name) from error
        return checked_later(cast("Awaitable[object]", state)) if isinstance(state, Coroutine) else state

    async def checked_later(state: Awaitable[object]) -> object:
        try:
            return await state
        except IgnoreChild as error:
            raise _must_start(name) from error

    return checked


def _must_start(name: str) -> StartError:
    return StartError(
        f"{name} raised IgnoreChild, but it is required: raise another exception if it cannot start"
    )
