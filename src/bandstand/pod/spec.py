"""Specs: frozen records of the roles and pods of a troupe, validated when they are made.

A `Troupe` class is read into specs; a custom layout is written with them directly. The spec of a process pod is pickled and sent to
its process, so everything in it must be picklable and importable there.
"""

from __future__ import annotations

import re
from collections import ChainMap, Counter
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any

from bandstand.actor.declaration import checked_actor_class, methods_of
from bandstand.actor.reply import UNSET_TIMEOUT
from bandstand.actor.when_down import WhenDown
from bandstand.core import LoopConfig, Overflow
from bandstand.errors import InvalidArgumentError
from bandstand.errors.formatting import safe_repr
from bandstand.errors.validation import Seconds, check_member, to_seconds
from bandstand.pod.enums import ThreadModel
from bandstand.pod.handle_pickling import DeploymentId
from bandstand.pool import ByKey, Routing
from bandstand.supervision import Backoff, Intensity, RestartPolicy

__all__ = (
    "MAILBOX_BYTES",
    "PodSpec",
    "RoleSpec",
    "TroupeSpec",
    "check_attribute_name",
    "checked_restart_limits",
    "spec_for_process",
)

NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
MAX_REPLICAS = 1000
MAX_AHEAD = 1 << 20
DEFAULT_LIMITS = LoopConfig()
MAILBOX_BYTES = 64 << 20
"""The default of `mailbox_bytes`."""


def check_attribute_name(what: str, name: object) -> None:
    """Check that a name can be used as an attribute.

    Raises:
        InvalidArgumentError: it cannot.
    """
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise InvalidArgumentError(
            f"{what}: name is {safe_repr(name)}: pass a name that an attribute can have"
        )


def _check_core(where: str, core: object) -> None:
    if core is not None and (type(core) is not int or core < 0):
        raise InvalidArgumentError(
            f"{where}: core is {safe_repr(core)}: pass the number of a core, from 0, or None"
        )


def checked_restart_limits(where: str, max_restarts: object, period: object) -> float:
    """Check the restart limits of a pod or a nested troupe, and return the period in seconds.

    Raises:
        InvalidArgumentError: a value is invalid.
    """
    if type(max_restarts) is not int or max_restarts < 0:
        raise InvalidArgumentError(
            f"{where}: max_restarts is {safe_repr(max_restarts)}: pass how many restarts are allowed, from 0 on"
        )
    return to_seconds(f"{where}: period", period, is_zero_allowed=False)


def _duplicate(names: list[str]) -> str | None:
    return next((name for name, times in Counter(names).items() if times > 1), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleSpec:
    """One actor of a troupe: its class, its arguments, and how others reach it.

    Raises:
        InvalidArgumentError: a value is invalid. The message names it.
    """

    name: str
    """Unique in the troupe. Directories refer to the role by this name."""
    kind: type[Any]
    """The class of the actor."""
    args: tuple[Any, ...] = ()
    """Passed to the constructor of each incarnation. A `directory(...)` is replaced by handles of the role's peers."""
    kwargs: Mapping[str, Any] = field(default_factory=dict[str, Any])
    is_exposed: bool = False
    """Whether other pods and the calling program can have a handle of it."""
    mailbox: int | None = None
    """How many messages of users may wait in each lane of its mailbox; None for the default of its pod's loop."""
    mailbox_bytes: int | None = MAILBOX_BYTES
    """How many bytes from other processes may be in flight to one of its lanes. At the limit, the mailbox counts as full. None for no
    limit but the slots. Messages within a process are not copied and do not count."""
    overflow: Overflow = Overflow.REJECT
    """What a full lane does with a new message."""
    ask_timeout: Seconds | None = UNSET_TIMEOUT
    """The timeout of asks, in seconds; None for no timeout. By default, that of the actor class."""
    routing: Routing | ByKey = Routing.LEAST_LOADED
    """Which replica gets a message. This and the next two have no effect in a pod without replicas."""
    broadcast: tuple[str, ...] = ()
    """The one-way methods whose messages go to all replicas, whatever the routing of the others is."""
    ahead: int = 4
    """How many messages of one sending pod a replica may have at a time, including the one that it is handling."""

    def is_broadcast(self, method: str) -> bool:
        """Return whether messages of a method go to all replicas."""
        return self.routing is Routing.BROADCAST or method in self.broadcast

    def __post_init__(self) -> None:
        check_attribute_name("RoleSpec", self.name)
        where = f"role {self.name!r}"
        checked_actor_class(self.kind)
        check_member(f"{where}: overflow", self.overflow, Overflow)
        if self.ask_timeout is not None and self.ask_timeout != UNSET_TIMEOUT:
            seconds = to_seconds(
                f"{where}: ask_timeout", self.ask_timeout, otherwise=", or None for no deadline"
            )
            object.__setattr__(self, "ask_timeout", seconds)
        if self.mailbox is not None and (type(self.mailbox) is not int or self.mailbox < 1):
            raise InvalidArgumentError(
                f"{where}: mailbox is {safe_repr(self.mailbox)}: pass how many messages may wait, from 1 on, or None"
            )
        if self.mailbox_bytes is not None and (
            type(self.mailbox_bytes) is not int or self.mailbox_bytes <= 0
        ):
            raise InvalidArgumentError(
                f"{where}: mailbox_bytes is {safe_repr(self.mailbox_bytes)}: pass a number of bytes, or None"
            )
        self._check_routing(where)

    def _check_routing(self, where: str) -> None:
        if not isinstance(self.routing, Routing | ByKey):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers without types
            raise InvalidArgumentError(
                f"{where}: routing is {safe_repr(self.routing)}: pass a member of Routing, or ByKey(function)"
            )
        if type(self.ahead) is not int or not 1 <= self.ahead <= MAX_AHEAD:
            raise InvalidArgumentError(
                f"{where}: ahead is {safe_repr(self.ahead)}: pass an int from 1 to {MAX_AHEAD}"
            )
        if not isinstance(self.broadcast, tuple):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers without types
            raise InvalidArgumentError(
                f"{where}: broadcast is {safe_repr(self.broadcast)}: pass a tuple of the names of one-way methods"
            )
        methods = {method.name: method for method in methods_of(checked_actor_class(self.kind))}
        for name in methods if self.routing is Routing.BROADCAST else self.broadcast:
            method = methods.get(name)
            if method is None:
                raise InvalidArgumentError(
                    f"{where}: broadcast has {safe_repr(name)}, which is no method of {self.kind.__qualname__}: pass one of "
                    f"{', '.join(sorted(methods)) or 'none'}"
                )
            if method.is_ask:
                raise InvalidArgumentError(
                    f"{where}: {method.owner}.{method.name}() is an ask, which cannot be broadcast, because each replica would answer: make "
                    f"it one-way, or choose another routing"
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSpec:
    """A pod: actors that share a thread and are restarted together.

    Raises:
        InvalidArgumentError: a value is invalid, or two values contradict each other. The message names them.
    """

    name: str
    roles: tuple[RoleSpec, ...] = ()
    """Its actors, in the order in which they start."""
    thread: ThreadModel = ThreadModel.DEDICATED
    restart: RestartPolicy = RestartPolicy.NEVER
    max_restarts: int = 3
    """How many restarts are allowed within `period`. One more fails the troupe; a nested troupe escalates to its parent."""
    period: Seconds = 5.0
    """In seconds."""
    backoff: Backoff | None = None
    """The delay before a restart after a failure; None for no delay."""
    core: int | None = None
    """The core that its thread or process is pinned to; None for any. Cooperative pods run on the kubelet's core."""
    when_down: WhenDown = WhenDown.WAIT
    """What handles of its actors do while it is down, unless `when_down()` sets something else for a handle."""
    down_timeout: Seconds = 5.0
    """The timeout of `when_down`, in seconds."""
    stop_timeout: Seconds = 5.0
    """How long it may take to handle the messages it has when it is stopped, in seconds."""
    limits: LoopConfig = DEFAULT_LIMITS
    """The limits of its loop."""
    replicas: int | None = None
    """How many processes run the pod, behind the same handles; None for a pod that is not replicated. A replica is restarted by
    itself, and `max_restarts` counts for each."""
    replica_of: str | None = None
    """For one of the pods that `TroupeSpec.members` makes of a replicated pod: the name of that pod. Leave it out."""

    def __post_init__(self) -> None:
        check_attribute_name(
            "PodSpec", self.name if self.replica_of is None else self.name.rpartition("-")[0]
        )
        where = f"pod {self.name!r}"
        check_member(f"{where}: thread", self.thread, ThreadModel)
        check_member(f"{where}: restart", self.restart, RestartPolicy)
        check_member(f"{where}: when_down", self.when_down, WhenDown)
        period = checked_restart_limits(where, self.max_restarts, self.period)
        object.__setattr__(self, "period", period)
        object.__setattr__(self, "down_timeout", to_seconds(f"{where}: down_timeout", self.down_timeout))
        object.__setattr__(self, "stop_timeout", to_seconds(f"{where}: stop_timeout", self.stop_timeout))
        _check_core(where, self.core)
        if self.core is not None and self.thread is ThreadModel.COOPERATIVE:
            raise InvalidArgumentError(
                f"{where}: core is {self.core} and thread is COOPERATIVE: it runs on the kubelet's thread; set the troupe's kubelet_core instead"
            )
        if self.thread is ThreadModel.MAIN and self.restart is not RestartPolicy.NEVER:
            raise InvalidArgumentError(
                f"{where}: thread is MAIN and restart is {self.restart.name}: the main thread cannot be restarted; pass "
                f"RestartPolicy.NEVER"
            )
        if (taken := _duplicate([role.name for role in self.roles])) is not None:
            raise InvalidArgumentError(f"{where}: role {taken!r} is there twice")
        if self.replicas is not None:
            self._check_replicas(where)

    def _check_replicas(self, where: str) -> None:
        count = self.replicas
        if type(count) is not int or not 1 <= count <= MAX_REPLICAS:
            raise InvalidArgumentError(
                f"{where}: replicas is {safe_repr(count)}: pass an int from 1 to {MAX_REPLICAS}, or None for a pod that is not replicated"
            )
        if self.thread is not ThreadModel.PROCESS:
            raise InvalidArgumentError(
                f"{where}: replicas is {count} and thread is {self.thread.name}: only processes are replicated; pass "
                f"ThreadModel.PROCESS, or use a pool of actors inside the pod (bandstand.pool)"
            )
        if self.core is not None:
            raise InvalidArgumentError(
                f"{where}: core is {self.core} and replicas is {count}: all of them would be pinned to that core; leave core out"
            )
        for role in self.roles:
            if role.overflow is not Overflow.REJECT:
                raise InvalidArgumentError(
                    f"{where}: role {role.name!r} has overflow {role.overflow.name}, and the pod has replicas: messages wait for a replica "
                    f"outside of its mailbox; pass Overflow.REJECT"
                )

    @property
    def members(self) -> tuple[PodSpec, ...]:
        """The pods that run: one for each replica, or the pod itself."""
        if self.replicas is None:
            return (self,)
        return tuple(
            replace(self, name=f"{self.name}-{number}", replicas=None, replica_of=self.name)
            for number in range(self.replicas)
        )

    @property
    def restarts(self) -> Intensity:
        """`max_restarts` and `period` as one value."""
        return Intensity(self.max_restarts, self.period)


@dataclass(frozen=True, slots=True, kw_only=True)
class TroupeSpec:
    """A whole troupe: its pods, in the order of their declaration. They stop in reverse order.

    Raises:
        InvalidArgumentError: two pods or two roles have the same name, two pods use the main thread, or a value is invalid.
    """

    name: str
    pods: tuple[PodSpec, ...] = ()
    carries: tuple[ContextVar[Any], ...] = ()
    """Context variables that messages to other processes carry. Messages between threads carry all context variables."""
    core: int | None = None
    """The core that the kubelet's thread is pinned to; None for any."""
    stop_timeout: Seconds = 30.0
    """How long the whole troupe may take to stop, in seconds. Then the rest is killed."""
    identity: DeploymentId = field(default_factory=lambda: DeploymentId(""), compare=False, repr=False)
    """Which troupe object the spec belongs to. Specs derived from this one, for its processes, keep it."""
    # Each pod looks these up when it starts. Computing them once keeps a start independent of the number of pods.
    _members: tuple[PodSpec, ...] = field(init=False, repr=False, compare=False)
    _by_name: Mapping[str, PodSpec] = field(init=False, repr=False, compare=False)
    _exposed: dict[str, tuple[PodSpec, RoleSpec]] = field(init=False, repr=False, compare=False)
    _lane_capacities: Mapping[str, int] = field(init=False, repr=False, compare=False)
    _byte_limits: Mapping[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_attribute_name("TroupeSpec", self.name)
        where = f"troupe {self.name!r}"
        object.__setattr__(self, "stop_timeout", to_seconds(f"{where}: stop_timeout", self.stop_timeout))
        _check_core(where, self.core)
        for what, names in (
            ("pod", [pod.name for pod in self.pods]),
            ("role", [role.name for pod in self.pods for role in pod.roles]),
        ):
            if (taken := _duplicate(names)) is not None:
                raise InvalidArgumentError(f"{where}: {what} {taken!r} is there twice")
        if len(main := [pod.name for pod in self.pods if pod.thread is ThreadModel.MAIN]) > 1:
            raise InvalidArgumentError(
                f"{where}: pods {main[0]!r} and {main[1]!r} both use the main thread: only one pod can"
            )
        for variable in self.carries:
            if not isinstance(variable, ContextVar):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers without types
                raise InvalidArgumentError(f"{where}: carries has {safe_repr(variable)}: pass ContextVars")
        # The class is frozen; these follow from its fields.
        members = tuple(member for pod in self.pods for member in pod.members)
        object.__setattr__(self, "_members", members)
        object.__setattr__(self, "_by_name", {pod.name: pod for pod in (*self.pods, *members)})
        exposed = {role.name: (pod, role) for pod in self.pods for role in pod.roles if role.is_exposed}
        object.__setattr__(self, "_exposed", exposed)
        capacities = {
            role.name: role.mailbox or pod.limits.default_mailbox_cap - pod.limits.sys_reserved
            for pod in self.pods
            for role in pod.roles
        }
        object.__setattr__(self, "_lane_capacities", capacities)
        limits = {name: role.mailbox_bytes for name, (_, role) in exposed.items() if role.mailbox_bytes}
        object.__setattr__(self, "_byte_limits", limits)

    @property
    def members(self) -> tuple[PodSpec, ...]:
        """The pods that run. In place of a replicated pod there are its replicas: `workers-0`, `workers-1` and so on."""
        return self._members

    @property
    def by_name(self) -> Mapping[str, PodSpec]:
        """The pods by name, those that were declared and those that run."""
        return self._by_name

    @property
    def lane_capacities(self) -> Mapping[str, int]:
        """How many messages one lane of a role's mailbox holds, by role name."""
        return self._lane_capacities

    @property
    def byte_limits(self) -> Mapping[str, int]:
        """How many bytes from other processes may be in flight to one lane of an exposed role, by role name."""
        return self._byte_limits

    def pod_of(self, role: str) -> PodSpec:
        """Return the pod of a role.

        Raises:
            InvalidArgumentError: there is no such role.
        """
        for pod in self.pods:
            if any(each.name == role for each in pod.roles):
                return pod
        known = ", ".join(sorted(each.name for pod in self.pods for each in pod.roles))
        raise InvalidArgumentError(f"troupe {self.name!r} has no role {role!r}; it has {known or 'none'}")

    def visible_to(self, pod: str | None) -> Mapping[str, tuple[PodSpec, RoleSpec]]:
        """Return the roles that a pod can have handles of, by name: its own and the exposed ones.

        None stands for the calling program, which sees the exposed roles. For a replica, the roles of its pod are its own.
        """
        home = None if pod is None else self._by_name.get(pod)
        if home is None:
            return self._exposed
        return ChainMap({role.name: (home, role) for role in home.roles}, self._exposed)


def spec_for_process(spec: TroupeSpec, pod: str) -> TroupeSpec:
    """Return the part of a troupe's spec that the process of one pod needs.

    Other pods keep their exposed roles, without arguments. The roles of the pod itself, and of pods without replicas, have no routing:
    its key may not be picklable, and nothing there uses it. `carries` is empty, because a context variable cannot be pickled: the
    process finds it through the import path of the troupe class.
    """
    member = spec.by_name[pod]
    own = member.replica_of or member.name
    return replace(
        spec,
        carries=(),
        pods=tuple(
            replace(
                each,
                roles=tuple(
                    _role_for_process(each, role, is_own=each.name == own)
                    for role in each.roles
                    if role.is_exposed or each.name == own
                ),
            )
            for each in spec.pods
        ),
    )


def _role_for_process(pod: PodSpec, role: RoleSpec, *, is_own: bool) -> RoleSpec:
    if not is_own:
        role = replace(role, args=(), kwargs={})
    return (
        replace(role, routing=Routing.LEAST_LOADED, broadcast=()) if is_own or pod.replicas is None else role
    )
