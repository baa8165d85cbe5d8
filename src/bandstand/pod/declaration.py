"""Declaring a troupe: `pod(...)`, roles and nested troupes as class attributes, and how the class is read and checked.

    class Studio(Troupe):
        vsync = pod(restart=RestartPolicy.ALWAYS).expose(Vsync, fps=60)
        engine_pod = pod(core=1)
        engine = engine_pod.expose(Engine, directory(EnginePeers))
        config = engine_pod.role(mailbox=100).of(Config)
        effects = nested(Effects)

A pod that is an attribute of the class can have several roles. A pod without an attribute has one role, and its name.

`pod`, `of` and `expose` check nothing: a role gets its name only when the class is made. Then `read_plan` reads the whole class into a
`DeploymentPlan` and reports every contradiction, with the names of class, pod and role. A layout that replaces the declared pods goes
through the same checks.
"""

from __future__ import annotations

import difflib
import pickle
import sys
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, replace
from inspect import ismethod, signature
from pkgutil import resolve_name
from types import MappingProxyType, SimpleNamespace, UnionType
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Generic,
    Never,
    ParamSpec,
    Protocol,
    Self,
    TypeAlias,
    TypeVar,
    final,
    get_origin,
    get_type_hints,
    overload,
)

from bandstand.actor import Implements, Interface
from bandstand.actor.declaration import checked_actor_class, handle_methods_of
from bandstand.actor.introspection import type_argument
from bandstand.actor.reply import UNSET_TIMEOUT
from bandstand.actor.when_down import WhenDown
from bandstand.core import LoopConfig, Overflow
from bandstand.errors import DeclarationError, InvalidArgumentError
from bandstand.errors.formatting import safe_repr, safe_str
from bandstand.errors.validation import Seconds, check_member
from bandstand.pod.directory import Directory, DirectoryRequest, requests_in
from bandstand.pod.enums import ThreadModel
from bandstand.pod.spec import (
    MAILBOX_BYTES,
    PodSpec,
    RoleSpec,
    TroupeSpec,
    check_attribute_name,
    checked_restart_limits,
)
from bandstand.pool import ByKey, Routing
from bandstand.supervision import Backoff, Intensity, RestartPolicy

if TYPE_CHECKING:
    from bandstand.actor import Actor
    from bandstand.pod.deployment import Troupe

__all__ = (
    "DeploymentPlan",
    "ExposedRole",
    "HiddenRole",
    "NestedSpec",
    "NestedTroupe",
    "PodOptions",
    "RoleDeclaration",
    "RoleOptions",
    "Unexposed",
    "check_process_pods",
    "checked_plan",
    "import_path",
    "nested",
    "pod",
    "read_plan",
)

A = TypeVar("A", bound="Actor")
H_co = TypeVar("H_co", covariant=True)
I = TypeVar("I")  # noqa: E741  # I for interface
P = ParamSpec("P")
T = TypeVar("T", bound="Troupe")
T_co = TypeVar("T_co", bound="Troupe", covariant=True)


# --- roles and pods ---------------------------------------------------------------------------------------------------


class RoleDeclaration(Generic[H_co]):
    """The declaration of one actor in the class of a troupe; `H_co` is the type of its handles."""

    is_exposed = False

    def __init__(
        self, options: RoleOptions, kind: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> None:
        self.options = options
        self.kind = kind
        self.args = args
        self.kwargs = kwargs
        self.name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        # The first name stays. A second name is an error, which `read_plan` reports.
        self.name = self.name or name

    def __set__(self, instance: object, value: Never) -> Never:
        raise AttributeError(
            f"{type(instance).__qualname__}.{self.name} is a role and cannot be set: pass a layout to use another actor"
        )

    def spec(self) -> RoleSpec:
        """Return the validated spec of the role."""
        return RoleSpec(
            name=self.name,
            kind=self.kind,
            args=self.args,
            kwargs=self.kwargs,
            is_exposed=self.is_exposed,
            **self.options.of_role,
        )

    def __repr__(self) -> str:
        how = "exposed" if self.is_exposed else "hidden"
        return f"<{how} role {self.name!r}: {getattr(self.kind, '__qualname__', self.kind)}>"


@final
class Unexposed:
    """What type checkers see for a role that is not exposed. At run time, access raises AttributeError."""


@final
class ExposedRole(RoleDeclaration[H_co]):
    """A role that other pods and the calling program can use. As an attribute of a troupe object, it is the handle."""

    is_exposed = True

    @overload
    def __get__(self, instance: None, owner: type[Any]) -> Self: ...
    @overload
    def __get__(self, instance: Troupe, owner: type[Any]) -> H_co: ...
    def __get__(self, instance: Troupe | None, owner: type[Any]) -> Any:
        return self if instance is None else instance.__deployment__.handle(self.name)


@final
class HiddenRole(RoleDeclaration[H_co]):
    """A role that only its own pod can use."""

    @overload
    def __get__(self, instance: None, owner: type[Any]) -> Self: ...
    @overload
    def __get__(self, instance: Troupe, owner: type[Any]) -> Unexposed: ...
    def __get__(self, instance: Troupe | None, owner: type[Any]) -> Any:
        if instance is None:
            return self
        raise AttributeError(
            f"{owner.__qualname__}.{self.name} is not exposed: only its own pod can use it; declare it with expose() "
            f"instead of of()",
            name=self.name,
            obj=instance,
        )


class RoleOptions:
    """The options of a role. `of` and `expose` add the actor class."""

    def __init__(self, pod: PodOptions | None, of_role: Mapping[str, Any]) -> None:
        # None in a PodOptions, which is its own pod.
        self._pod = pod
        self.of_role = of_role

    @property
    def pod(self) -> PodOptions:
        """The pod of the role."""
        assert self._pod is not None
        return self._pod

    @overload
    def of(self, kind: Callable[P, Implements[I]], /, *args: P.args, **kwargs: P.kwargs) -> HiddenRole[I]: ...
    @overload
    def of(self, kind: Callable[P, A], /, *args: P.args, **kwargs: P.kwargs) -> HiddenRole[A]: ...
    def of(self, kind: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Declare an actor that only its own pod can use.

        Args:
            kind: the actor class.
            args: passed to the constructor of each incarnation; `directory(...)` is replaced by handles.
            kwargs: the same, by name.
        """
        role: HiddenRole[Any] = HiddenRole(self, kind, args, kwargs)
        return role

    @overload
    def expose(
        self, kind: Callable[P, Implements[I]], /, *args: P.args, **kwargs: P.kwargs
    ) -> ExposedRole[I]: ...
    @overload
    def expose(self, kind: Callable[P, A], /, *args: P.args, **kwargs: P.kwargs) -> ExposedRole[A]: ...
    def expose(self, kind: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Declare an actor that every pod can use, and the calling program as an attribute of the troupe. Arguments as for `of`."""
        role: ExposedRole[Any] = ExposedRole(self, kind, args, kwargs)
        return role

    def __repr__(self) -> str:
        return "pod(...).role(...)"


@final
class PodOptions(RoleOptions):
    """The options of a pod. As an attribute of the class it can have several roles; otherwise it has one."""

    def __init__(self, of_pod: Mapping[str, Any]) -> None:
        super().__init__(None, MappingProxyType({}))
        self.of_pod = of_pod

    @property
    def pod(self) -> PodOptions:
        """The pod itself."""
        return self

    def role(
        self,
        *,
        mailbox: int | None = None,
        mailbox_bytes: int | None = MAILBOX_BYTES,
        overflow: Overflow = Overflow.REJECT,
        ask_timeout: Seconds | None = UNSET_TIMEOUT,
        routing: Routing | ByKey = Routing.LEAST_LOADED,
        broadcast: tuple[str, ...] = (),
        ahead: int = 4,
    ) -> RoleOptions:
        """Set options of a role in this pod: `engine_pod.role(ask_timeout=0.5).of(Config)`.

        Args:
            mailbox: how many messages of users may wait in each lane of its mailbox; None for the default of its pod's loop.
            mailbox_bytes: how many bytes from other processes may be in flight to one of its lanes; None for no limit.
            overflow: what a full lane does with a new message.
            ask_timeout: the timeout of asks, in seconds; None for no timeout. By default, that of the actor class.
            routing: which replica gets a message, if the pod has `replicas`.
            broadcast: the names of one-way methods whose messages go to all replicas.
            ahead: how many messages a replica may have at a time from one sending pod, including the one that it is handling. With 1, no
                message waits behind a slow one while another replica is free; with more, a replica need not wait for the next message.
        """
        return RoleOptions(
            self,
            {
                "mailbox": mailbox,
                "mailbox_bytes": mailbox_bytes,
                "overflow": overflow,
                "ask_timeout": ask_timeout,
                "routing": routing,
                "broadcast": broadcast,
                "ahead": ahead,
            },
        )

    def spec(self, name: str, roles: tuple[RoleSpec, ...]) -> PodSpec:
        """Return the validated spec of the pod."""
        return PodSpec(name=name, roles=roles, **self.of_pod)

    def __repr__(self) -> str:
        return "pod(...)"


def pod(
    *,
    thread: ThreadModel = ThreadModel.DEDICATED,
    restart: RestartPolicy = RestartPolicy.NEVER,
    max_restarts: int = 3,
    period: Seconds = 5.0,
    backoff: Backoff | None = None,
    core: int | None = None,
    when_down: WhenDown = WhenDown.WAIT,
    down_timeout: Seconds = 5.0,
    stop_timeout: Seconds = 5.0,
    limits: LoopConfig = LoopConfig(),  # noqa: B008  # frozen
    replicas: int | None = None,
) -> PodOptions:
    """Declare a pod: actors that share a thread and are restarted together. `PodSpec` has the same options.

    Args:
        thread: where it runs.
        restart: when it is restarted.
        max_restarts: how many restarts are allowed within `period`. One more fails the troupe, or escalates to the parent troupe.
        period: in seconds.
        backoff: the delay before a restart after a failure; None for no delay.
        core: the core that its thread or process is pinned to; None for any.
        when_down: what handles of its actors do while it is down, unless `when_down()` sets something else for a handle.
        down_timeout: the timeout of that, in seconds.
        stop_timeout: how long it may take to handle the messages it has when it is stopped, in seconds.
        limits: the limits of its loop.
        replicas: how many processes run the pod, behind the same handles; None for a pod that is not replicated.
    """
    return PodOptions(
        {
            "thread": thread,
            "restart": restart,
            "max_restarts": max_restarts,
            "period": period,
            "backoff": backoff,
            "core": core,
            "when_down": when_down,
            "down_timeout": down_timeout,
            "stop_timeout": stop_timeout,
            "limits": limits,
            "replicas": replicas,
        }
    )


# --- nested troupes ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class NestedSpec:
    """A troupe nested in another one. It has its own kubelet.

    Raises:
        InvalidArgumentError: a value is invalid, or two values contradict each other. The message names them.
    """

    name: str
    """Directories of the parent's pods refer to it by this name: `peers.effects.reverb`."""
    troupe: type[Troupe]
    """Its class."""
    layout: Mapping[str, PodSpec] | None = None
    """Its layout; None for the declared one."""
    is_watched: bool = True
    """Whether its failure can fail the parent. If not, the failure is logged, and its handles raise `PodGoneError`."""
    restart: RestartPolicy = RestartPolicy.NEVER
    """When the parent restarts it, as a whole."""
    max_restarts: int = 3
    """How many restarts are allowed within `period`. One more fails the parent."""
    period: Seconds = 5.0
    """In seconds."""
    backoff: Backoff | None = None
    """The delay before a restart after a failure; None for no delay."""

    def __post_init__(self) -> None:
        check_attribute_name("NestedSpec", self.name)
        where = f"nested troupe {self.name!r}"
        if not hasattr(self.troupe, "__deployment_plan__") or not hasattr(self.troupe, "__mro__"):
            raise InvalidArgumentError(
                f"{where}: troupe is {self.troupe!r}: pass a class that derives from Troupe"
            )
        check_member(f"{where}: restart", self.restart, RestartPolicy)
        period = checked_restart_limits(where, self.max_restarts, self.period)
        object.__setattr__(self, "period", period)
        if not isinstance(self.is_watched, bool):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers without types
            raise InvalidArgumentError(
                f"{where}: watched is {safe_repr(self.is_watched)}: pass True or False"
            )
        if self.restart is not RestartPolicy.NEVER and not self.is_watched:
            raise InvalidArgumentError(
                f"{where}: watched is False and restart is {self.restart.name}: a troupe must be watched to be restarted"
            )
        for pod in self.plan.spec.pods:
            if pod.thread is ThreadModel.MAIN:
                raise InvalidArgumentError(
                    f"{where}: pod {pod.name!r} uses the main thread, which only the outermost troupe can: pass another layout"
                )

    @property
    def restarts(self) -> Intensity:
        """`max_restarts` and `period` as one value."""
        return Intensity(self.max_restarts, self.period)

    @property
    def plan(self) -> DeploymentPlan:
        """The plan of its class, with its layout."""
        return self.troupe.__deployment_plan__.with_layout(self.layout)


@final
class NestedTroupe(Generic[T_co]):
    """The declaration of a nested troupe. As an attribute of a troupe object, it is the nested troupe object."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._options = options
        self.name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        # The first name stays, as in RoleDeclaration.
        self.name = self.name or name

    @overload
    def __get__(self, instance: None, owner: type[Any]) -> Self: ...
    @overload
    def __get__(self, instance: Troupe, owner: type[Any]) -> T_co: ...
    def __get__(self, instance: Troupe | None, owner: type[Any]) -> Any:
        return self if instance is None else instance.__deployment__.nested[self.name]

    def __set__(self, instance: object, value: Never) -> Never:
        raise AttributeError(
            f"{type(instance).__qualname__}.{self.name} is a nested troupe and cannot be set"
        )

    def spec(self) -> NestedSpec:
        """Return the validated spec of the nested troupe."""
        return NestedSpec(name=self.name, **self._options)

    def __repr__(self) -> str:
        troupe = self._options["troupe"]
        return f"<nested troupe {self.name!r}: {getattr(troupe, '__qualname__', troupe)}>"


def nested(
    troupe: type[T],
    /,
    *,
    watched: bool = True,
    layout: Mapping[str, PodSpec] | None = None,
    restart: RestartPolicy = RestartPolicy.NEVER,
    max_restarts: int = 3,
    period: Seconds = 5.0,
    backoff: Backoff | None = None,
) -> NestedTroupe[T]:
    """Declare a nested troupe. The calling program reaches it as an attribute: `studio.effects.reverb`.

    Args:
        troupe: its class.
        watched: whether its failure can fail the parent.
        layout: its layout; None for the declared one.
        restart: when the parent restarts it, as a whole.
        max_restarts: how many restarts are allowed within `period`. One more fails the parent.
        period: in seconds.
        backoff: the delay before a restart after a failure; None for no delay.
    """
    return NestedTroupe(
        {
            "troupe": troupe,
            "is_watched": watched,
            "layout": layout,
            "restart": restart,
            "max_restarts": max_restarts,
            "period": period,
            "backoff": backoff,
        }
    )


# --- the plan ---------------------------------------------------------------------------------------------------------

# Untyped, for isinstance.
DECLARATION_TYPES: tuple[type[Any], ...] = (PodOptions, RoleDeclaration, NestedTroupe)
Declarations: TypeAlias = "dict[str, PodOptions | RoleDeclaration[Any] | NestedTroupe[Any]]"


class TroupeClass(Protocol):
    """The attributes of a troupe class that are not declarations."""

    carries: ClassVar[tuple[ContextVar[Any], ...]]
    kubelet_core: ClassVar[int | None]
    stop_timeout: ClassVar[Seconds]


@dataclass(frozen=True, slots=True)
class DeploymentPlan:
    """What a troupe runs: its pods and roles, and its nested troupes."""

    spec: TroupeSpec
    nested: tuple[NestedSpec, ...] = ()
    """The nested troupes, in the order of their declaration."""

    def with_layout(self, layout: Mapping[str, PodSpec] | None) -> DeploymentPlan:
        """Return a plan with the same roles in other pods; None for the declared pods.

        Raises:
            InvalidArgumentError: the layout is invalid. The message says where.
        """
        if layout is None:
            return self
        where = f"the layout of troupe {self.spec.name!r}"
        for name, each in layout.items():
            if not isinstance(each, PodSpec):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers without types
                raise InvalidArgumentError(
                    f"{where}: {name!r} is {safe_repr(each)}: pass PodSpecs by their names"
                )
            if each.name != name:
                raise InvalidArgumentError(
                    f"{where}: pod {each.name!r} is there as {name!r}: use its own name"
                )
        try:
            spec = replace(self.spec, pods=tuple(layout.values()))
        except InvalidArgumentError as error:
            raise InvalidArgumentError(f"{where}: {safe_str(error)}") from None
        self._check_roles(where, spec)
        _raise_first_problem(f"{where}: ", InvalidArgumentError, spec, self.nested)
        return DeploymentPlan(spec, self.nested)

    def _check_roles(self, where: str, spec: TroupeSpec) -> None:
        """Check that a layout has exactly the declared roles."""
        declared = {role.name: role for each in self.spec.pods for role in each.roles}
        given = {role.name: role for each in spec.pods for role in each.roles}
        for name in declared:
            if name not in given:
                raise InvalidArgumentError(
                    f"{where}: role {name!r} is in no pod: put every role in exactly one"
                )
        for name, role in given.items():
            known = declared.get(name)
            if known is None:
                raise InvalidArgumentError(
                    f"{where}: role {name!r} is not declared: there is {', '.join(declared)}"
                )
            kind, base = checked_actor_class(role.kind), checked_actor_class(known.kind)
            if not _is_substitute(kind, base):
                raise InvalidArgumentError(
                    f"{where}: role {name!r} is a {kind.__qualname__}, but is declared as a {base.__qualname__}: "
                    f"pass a class that derives from that"
                )
            if known.is_exposed and not role.is_exposed:
                raise InvalidArgumentError(
                    f"{where}: role {name!r} is declared as exposed: leave is_exposed True"
                )


def checked_plan(troupe: type[Troupe], layout: Mapping[str, PodSpec] | None) -> DeploymentPlan:
    """Return the plan of a class with a layout, checked so that it can be started, including nested troupes.

    Raises:
        InvalidArgumentError: there are no pods, the layout is invalid, or a process pod cannot be pickled.
    """
    plan = troupe.__deployment_plan__.with_layout(layout)
    if not plan.spec.pods and not plan.nested:
        raise InvalidArgumentError(
            f"troupe {troupe.__qualname__!r} has no pods: declare one, with pod(...).of(...)"
        )
    check_process_pods(plan.spec, troupe)
    for inner in plan.nested:
        checked_plan(inner.troupe, inner.layout)
    return plan


def read_plan(cls: type[TroupeClass]) -> DeploymentPlan:
    """Read the class of a troupe.

    Raises:
        DeclarationError: the class contradicts itself. The message names class, pod and role.
    """
    found, pod_names = _find_declarations(cls)
    pods = _group_roles(cls, found, pod_names)
    if not isinstance(cls.carries, tuple):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers without types
        raise DeclarationError(
            f"{cls.__qualname__}.carries is {safe_repr(cls.carries)}: pass a tuple of ContextVars"
        )
    try:
        nested = tuple(each.spec() for each in found.values() if isinstance(each, NestedTroupe))
        spec = TroupeSpec(
            name=cls.__name__.lstrip("_"),
            pods=tuple(
                options.spec(name, tuple(role.spec() for role in roles))
                for name, (options, roles) in pods.items()
            ),
            carries=cls.carries,
            core=cls.kubelet_core,
            stop_timeout=cls.stop_timeout,
        )
    except InvalidArgumentError as error:
        raise DeclarationError(f"{cls.__qualname__}: {safe_str(error)}") from None
    _raise_first_problem(f"{cls.__qualname__}: ", DeclarationError, spec, nested)
    _check_routing(cls, spec)
    return DeploymentPlan(spec, nested)


def _check_routing(cls: type, spec: TroupeSpec) -> None:
    """Check that only roles of pods with replicas declare a routing. In a layout it has no effect in other pods."""
    for pod in spec.pods:
        for role in pod.roles:
            if pod.replicas is None and (role.routing is not Routing.LEAST_LOADED or role.broadcast):
                raise DeclarationError(
                    f"{cls.__qualname__}: role {role.name!r} has a routing, but pod {pod.name!r} has no replicas: pass replicas= to the pod, or "
                    f"leave routing and broadcast out"
                )


def _raise_first_problem(
    where: str,
    error: type[DeclarationError | InvalidArgumentError],
    spec: TroupeSpec,
    nested: tuple[NestedSpec, ...],
) -> None:
    for problem in _find_problems(spec, {each.name: each for each in nested}):
        raise error(where + problem)


def _find_declarations(cls: type) -> tuple[Declarations, dict[int, str]]:
    """Return the declarations by name, those of base classes first; and the names of pods, by the id of their options."""
    found: Declarations = {}
    pod_names: dict[int, str] = {}
    names: dict[int, str] = {}
    for owner in reversed(cls.__mro__):
        value: Any
        for name, value in vars(owner).items():
            where = f"{owner.__qualname__}.{name}"
            if name in found:
                _check_override(where, found[name], value)
            if isinstance(value, DECLARATION_TYPES):
                _check_name(cls, where, name)
                _check_actor_class(where, value)
                if names.setdefault(id(value), name) != name:
                    raise DeclarationError(
                        f"{where} is the same declaration as {names[id(value)]!r}: declare each of them"
                    )
                found[name] = value
                if isinstance(value, PodOptions):
                    pod_names[id(value)] = name
            elif isinstance(value, RoleOptions) or value is pod or _is_uncalled_method(value):
                raise DeclarationError(
                    f"{where} is {safe_repr(value)}, which has no actor class: call .of(TheClass) or .expose(TheClass)"
                )
    return found, pod_names


def _is_uncalled_method(value: object) -> bool:
    """Whether it is a bound `of` or `expose` that was not called."""
    return ismethod(value) and isinstance(value.__self__, RoleOptions)


def _check_override(where: str, known: Any, value: Any) -> None:
    """Check that a subclass overrides a declaration with a compatible one, so that code typed with the base class stays correct."""
    kind = next(each for each in DECLARATION_TYPES if isinstance(known, each))
    if not isinstance(value, kind):
        raise DeclarationError(
            f"{where} overrides {safe_repr(known)} with {safe_repr(value)}: override it with a declaration of the same kind"
        )
    if isinstance(value, RoleDeclaration):
        _check_actor_class(where, value)
        if known.is_exposed and not value.is_exposed:
            raise DeclarationError(
                f"{where} overrides {safe_repr(known)} and hides it: declare it with expose()"
            )
        if not _is_substitute(checked_actor_class(value.kind), checked_actor_class(known.kind)):
            raise DeclarationError(
                f"{where} overrides {safe_repr(known)} with a {checked_actor_class(value.kind).__qualname__}: "
                f"declare a class that derives from that"
            )


def _check_actor_class(where: str, value: Any) -> None:
    if isinstance(value, RoleDeclaration):
        try:
            checked_actor_class(value.kind)
        except InvalidArgumentError as error:
            raise DeclarationError(f"{where}: {safe_str(error)}") from None


def _check_name(cls: type, where: str, name: str) -> None:
    if name.startswith("_"):
        raise DeclarationError(
            f"{where} starts with an underscore: other roles refer to it by its name; choose a public one"
        )
    for base in cls.__mro__:
        if base.__module__.startswith("bandstand.pod.") and name in vars(base):
            raise DeclarationError(
                f"{where} is reserved: every troupe has that attribute; choose another name"
            )


def _group_roles(
    cls: type, found: Declarations, pod_names: Mapping[int, str]
) -> dict[str, tuple[PodOptions, list[RoleDeclaration[Any]]]]:
    """Return the pods by name, each with its roles, in the order of their declaration."""
    pods: dict[str, tuple[PodOptions, list[RoleDeclaration[Any]]]] = {}
    single: dict[int, str] = {}
    for name, each in found.items():
        if isinstance(each, PodOptions):
            pods.setdefault(name, (each, []))
        elif isinstance(each, RoleDeclaration):
            options = each.options.pod
            pod_name = pod_names.get(id(options))
            if pod_name is None:
                if single.setdefault(id(options), name) != name:
                    raise DeclarationError(
                        f"{cls.__qualname__}: roles {single[id(options)]!r} and {name!r} share a pod that has no name: make the "
                        f"pod an attribute of the class"
                    )
                pods[name] = (options, [each])
                continue
            # A subclass may have replaced the options of the pod, under the same name.
            current = found[pod_name]
            assert isinstance(current, PodOptions)
            pods.setdefault(pod_name, (current, []))[1].append(each)
    # A pod disappears if a subclass has moved all its roles elsewhere. A pod that this class declares without roles is an error.
    return {name: entry for name, entry in pods.items() if entry[1] or name in vars(cls)}


# --- checks of roles and directories ----------------------------------------------------------------------------------

# Containers in which a directory request would not be found.
CONTAINERS: tuple[type[Any], ...] = (dict, list, tuple, set, frozenset)


def _find_problems(spec: TroupeSpec, nested: Mapping[str, NestedSpec]) -> Iterator[str]:
    """Yield what is wrong with a plan, one sentence each."""
    roles = {each.name: (home, each) for home in spec.pods for each in home.roles}
    for pod in spec.pods:
        if not pod.roles:
            yield f"pod {pod.name!r} has no roles: add one, with {pod.name}.of(...) or {pod.name}.expose(...)"
        for role in pod.roles:
            yield from _argument_problems(role)
            for request in requests_in(role.args, role.kwargs):
                yield from _directory_problems(spec, nested, roles, pod, role, request)


def _argument_problems(role: RoleSpec) -> Iterator[str]:
    where = f"role {role.name!r}"
    kind = checked_actor_class(role.kind)
    parameters = signature(kind)
    try:
        parameters.bind(*role.args, **role.kwargs)
    except TypeError as error:
        yield f"{where}: {kind.__qualname__}{parameters} cannot be called with these arguments: {safe_str(error)}"
    for value in (*role.args, *role.kwargs.values()):
        if isinstance(value, CONTAINERS) and _contains_request(value):
            yield f"{where}: a directory() is inside a {type(value).__name__}: pass it directly as an argument"


def _contains_request(container: Any) -> bool:
    values: Any = container.values() if hasattr(container, "values") else container
    return any(isinstance(each, DirectoryRequest) for each in values)


def _directory_problems(
    spec: TroupeSpec,
    nested: Mapping[str, NestedSpec],
    roles: Mapping[str, tuple[PodSpec, RoleSpec]],
    pod: PodSpec,
    role: RoleSpec,
    request: DirectoryRequest,
) -> Iterator[str]:
    """Yield the names of a directory that cannot be filled."""
    where = f"role {role.name!r}: {request.kind.__qualname__}"
    for name in request.names or ():
        found = roles.get(name)
        if name in nested and pod.thread is ThreadModel.PROCESS:
            yield (
                f"{where} needs {name!r}, a nested troupe, which the process of pod {pod.name!r} cannot reach: put the role into a "
                f"pod with another thread model"
            )
        elif name in nested:
            yield from _type_problems(where, request, name, nested[name].troupe)
        elif found is None:
            yield f"{where} needs {name!r}, but there is no such role{_suggestion(name, roles, nested, spec)}"
        elif not found[1].is_exposed and found[0].name != pod.name:
            yield (
                f"{where} needs {name!r}, which is in pod {found[0].name!r} and not exposed: expose it, or put both in one pod"
            )
        else:
            yield from _type_problems(where, request, name, checked_actor_class(found[1].kind))


def _type_problems(where: str, request: DirectoryRequest, name: str, kind: type[Any]) -> Iterator[str]:
    hint = _annotated_type(request.kind, name)
    if hint is not None and (why := _mismatch(kind, hint)) is not None:
        yield f"{where} needs {name!r} to be a {hint.__qualname__}, but it is a {kind.__qualname__}{why}"


def _suggestion(
    name: str, roles: Mapping[str, object], nested: Mapping[str, object], spec: TroupeSpec
) -> str:
    if any(pod.name == name for pod in spec.pods):
        return f": {name!r} is a pod; use the name of one of its roles"
    known = [*roles, *nested]
    close = difflib.get_close_matches(name, known, n=1)
    return f" (did you mean {close[0]!r}?)" if close else f": there is {', '.join(known)}"


def _annotated_type(kind: type[Directory], name: str) -> Any:
    """Return the annotation of a name in a directory; None if it cannot be evaluated here, or allows anything."""
    owner = kind.__directory_owners__[name]
    module = sys.modules.get(owner.__module__)
    alone = SimpleNamespace(__annotations__={name: kind.__directory_hints__[name]})
    try:
        hint = get_type_hints(alone, vars(module) if module else {}, dict(vars(owner)))[name]
    except Exception:  # noqa: BLE001  # an annotation for type checkers only, or a local name: evaluating it may raise anything
        return None
    return None if hint in {Any, object} else hint


def _is_substitute(kind: type[Any], declared: type[Any]) -> bool:
    """Whether handles of `kind` have the type that handles of `declared` have: its interface if it implements one."""
    return _mismatch(kind, _interface_of(declared) or declared) is None


def _mismatch(kind: type[Any], hint: Any) -> str | None:
    """Return why handles of a class do not match an annotation; None if they do, or if that cannot be decided at run time."""
    expected = get_origin(hint) or hint
    if not isinstance(expected, type) or expected is UnionType:
        # A union or a type variable is left to type checkers.
        return None
    if expected in (*kind.__mro__, *getattr(_interface_of(kind), "__mro__", ())):
        return None
    if not getattr(expected, "_is_protocol", False):
        return ""
    # A class matches a protocol if it has all its methods.
    offered = (
        {*dir(Interface), *handle_methods_of(kind)} if hasattr(kind, "__actor_schema__") else set(dir(kind))
    )
    methods = {
        name
        for base in expected.__mro__
        if getattr(base, "_is_protocol", False)
        for name in vars(base)
        if not name.startswith("_")
    }
    missing = sorted(methods - offered)
    return f", which has no {missing[0]}" if missing else None


def _interface_of(kind: Any) -> Any:
    """Return the interface that a class implements; None if it has none."""
    interface = type_argument(kind, Implements)
    return get_origin(interface) or interface


# --- checks of process pods -------------------------------------------------------------------------------------------


def check_process_pods(spec: TroupeSpec, troupe: type) -> None:
    """Check, before anything starts, that the process pods of a troupe can be sent to a child process.

    Args:
        spec: the spec of the troupe.
        troupe: its class.

    Raises:
        InvalidArgumentError: a class cannot be imported there, or an argument cannot be pickled. The message names role and pod.
    """
    for pod in spec.pods:
        if pod.thread is not ThreadModel.PROCESS:
            continue
        for problem in _process_problems(spec, pod):
            raise InvalidArgumentError(f"troupe {spec.name!r}: {problem}")
        if spec.carries and (why := _why_not_importable(troupe)):
            # A context variable cannot be pickled: the process finds it in the class.
            raise InvalidArgumentError(
                f"troupe {spec.name!r}: it carries context variables to process pod {pod.name!r}: {why}"
            )


def import_path(kind: type) -> str:
    """Return the path by which `pkgutil.resolve_name` finds a class in another process."""
    return f"{kind.__module__}:{kind.__qualname__}"


def _why_not_importable(kind: type) -> str | None:
    """Return why a child process cannot import a class by its name; None if it can."""
    if "<locals>" in kind.__qualname__:
        return f"{kind.__qualname__} is declared inside a function: move it to the top of a module"
    if kind.__module__ == "__main__" and not hasattr(sys.modules["__main__"], "__file__"):
        return f"{kind.__qualname__} is declared in an interactive session: move it to a module"
    try:
        found = resolve_name(import_path(kind))
    except (ImportError, AttributeError):
        found = None
    if found is not kind:
        return f"{kind.__module__}.{kind.__qualname__} cannot be imported by that name: assign the class to its own name in its module"
    return None


def _process_problems(spec: TroupeSpec, pod: PodSpec) -> Iterator[str]:
    for home, role in spec.visible_to(pod.name).values():
        # The process needs the classes of its peers, too, for their handles.
        if why := _why_not_importable(checked_actor_class(role.kind)):
            is_own = home.name == pod.name
            yield f"role {role.name!r} {'of' if is_own else 'is visible to'} process pod {pod.name!r}: {why}"
        if home.name != pod.name and home.replicas is not None and isinstance(role.routing, ByKey):
            try:
                pickle.dumps(role.routing, protocol=5)
            except Exception as error:  # noqa: BLE001  # pickling may raise anything
                yield (
                    f"role {role.name!r} is visible to process pod {pod.name!r}: the key of its routing cannot be pickled ({safe_str(error)}): "
                    f"pass a function that is declared at the top of a module"
                )
    for role in pod.roles:
        yield from _pickle_problems(pod, role)


def _pickle_problems(pod: PodSpec, role: RoleSpec) -> Iterator[str]:
    named = [*((f"argument {at}", value) for at, value in enumerate(role.args, 1)), *role.kwargs.items()]
    for name, value in named:
        where = f"role {role.name!r} of process pod {pod.name!r}: {name}"
        if isinstance(value, DirectoryRequest):
            if why := _why_not_importable(value.kind):
                yield f"{where}: {why}"
            continue
        try:
            pickle.dumps(value, protocol=5)
        except Exception as error:  # noqa: BLE001  # a value's __reduce__ may raise anything
            yield f"{where} is a {type(value).__qualname__}, which cannot be pickled ({safe_str(error)}): pass a picklable value"
