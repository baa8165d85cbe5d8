"""What plays, and where: frozen data, checked when it is made, before anything starts.

`Troupe` makes these of a class; a layout of one's own is made of them directly. For a process pod they travel to the child,
so what they hold must then be something that can be pickled and imported there.
"""

from __future__ import annotations

import re
from collections import ChainMap, Counter
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from bandstand.actor.declaration import checked_actor_class
from bandstand.actor.reply import UNSET_MS, check_ask_ms
from bandstand.core import LoopConfig, Overflow
from bandstand.errors import InvalidArgument
from bandstand.errors.formatting import safe_repr
from bandstand.errors.validation import check_member, check_ms
from bandstand.pod.passport import TroupeIdentity
from bandstand.pod.vocabulary import RestartPolicy, ThreadModel, WhenDown
from bandstand.supervision import Backoff, Intensity

__all__ = ("MAILBOX_BYTES", "PodSpec", "RoleSpec", "TroupeSpec")

NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
# How often is too often, and the limits of a loop, if nothing is said.
OFTEN = Intensity(3, 5000.0)
USUAL = LoopConfig()
MAILBOX_BYTES = 64 << 20
"""How many bytes may be under way to a lane of a role from another process, if nothing is said."""


def check_name(what: str, name: object) -> None:
    """Refuse a name that could not be an attribute."""
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise InvalidArgument(f"{what}: name is {safe_repr(name)}: pass a name that an attribute could have")


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleSpec:
    """One actor of a troupe: what it is, and how others reach it.

    Raises:
        InvalidArgument: a value has no sense; it is named.
    """

    name: str
    """Unique in the troupe: by this name others find it in their directories."""
    kind: type[Any]
    """The class of the actor."""
    args: tuple[Any, ...] = ()
    """What its constructor is called with, for each incarnation anew. A `directory(...)` among them becomes handles of its peers."""
    kwargs: Mapping[str, Any] = field(default_factory=dict[str, Any])
    is_exposed: bool = False
    """Whether other pods, and the program outside, may have it in their directories."""
    mailbox_cap: int | None = None
    """Slots of its mailbox; None for the default of its pod's loop."""
    mailbox_bytes: int | None = MAILBOX_BYTES
    """How many bytes may be under way to one of its lanes from another process, so that one message more meets a full mailbox;
    None for as many as fit into its slots. Within a process nothing is copied, and nothing counted."""
    overflow: Overflow = Overflow.REJECT
    """What a full lane does with one message more."""
    ask_ms: float | None = UNSET_MS
    """How long asks of it wait, in milliseconds; None for ever. The class's own if nothing is said."""

    def __post_init__(self) -> None:
        check_name("RoleSpec", self.name)
        where = f"role {self.name!r}"
        checked_actor_class(self.kind)
        check_member(f"{where}: overflow", self.overflow, Overflow)
        check_ask_ms(f"{where}: ask_ms", self.ask_ms)
        if self.mailbox_cap is not None and (type(self.mailbox_cap) is not int or self.mailbox_cap < 0):
            raise InvalidArgument(
                f"{where}: mailbox_cap is {safe_repr(self.mailbox_cap)}: pass a number of slots, or None"
            )
        if self.mailbox_bytes is not None and (
            type(self.mailbox_bytes) is not int or self.mailbox_bytes <= 0
        ):
            raise InvalidArgument(
                f"{where}: mailbox_bytes is {safe_repr(self.mailbox_bytes)}: pass a number of bytes, or None"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSpec:
    """A pod: actors that share a thread, and are started again together.

    Raises:
        InvalidArgument: a value, or two values together, have no sense; both are named.
    """

    name: str
    roles: tuple[RoleSpec, ...] = ()
    """Its actors, in the order in which they start."""
    thread: ThreadModel = ThreadModel.DEDICATED
    restart: RestartPolicy = RestartPolicy.NEVER
    intensity: Intensity = OFTEN
    """How many restarts within what time are too many: then the matter goes to the parent, or the troupe ends."""
    backoff: Backoff | None = None
    """How long to wait before a restart after a failure; None for not at all."""
    core: int | None = None
    """The core that its thread, or its process, is pinned to; None for any. Cooperative pods are where the kubelet is."""
    when_down: WhenDown = WhenDown.WAIT
    """What handles of its actors do while it is down, unless they say otherwise."""
    down_ms: float = 5000.0
    """For how long they do."""
    stop_ms: float = 5000.0
    """How long it has to handle what it has when it is stopped."""
    limits: LoopConfig = USUAL
    """The limits of its loop."""

    def __post_init__(self) -> None:
        check_name("PodSpec", self.name)
        where = f"pod {self.name!r}"
        check_member(f"{where}: thread", self.thread, ThreadModel)
        check_member(f"{where}: restart", self.restart, RestartPolicy)
        check_member(f"{where}: when_down", self.when_down, WhenDown)
        check_ms(f"{where}: down_ms", self.down_ms)
        check_ms(f"{where}: stop_ms", self.stop_ms)
        if self.core is not None and (type(self.core) is not int or self.core < 0):
            raise InvalidArgument(
                f"{where}: core is {safe_repr(self.core)}: pass the number of a core, from 0 on, or None"
            )
        if self.core is not None and self.thread is ThreadModel.COOPERATIVE:
            raise InvalidArgument(
                f"{where}: core is {self.core} and thread is COOPERATIVE: it runs on the kubelet's thread; set the troupe's kubelet_core instead"
            )
        if self.thread is ThreadModel.MAIN and self.restart is not RestartPolicy.NEVER:
            raise InvalidArgument(
                f"{where}: thread is MAIN and restart is {self.restart.name}: nobody can start the main thread again; pass "
                f"RestartPolicy.NEVER"
            )
        if taken := [name for name, times in Counter(role.name for role in self.roles).items() if times > 1]:
            raise InvalidArgument(f"{where}: role {taken[0]!r} is there twice")


@dataclass(frozen=True, slots=True, kw_only=True)
class TroupeSpec:
    """A whole troupe: its pods, in the order in which they were declared; they stop the other way round.

    Raises:
        InvalidArgument: two pods, or two roles, have one name; two pods want the main thread; a value has no sense.
    """

    name: str
    pods: tuple[PodSpec, ...] = ()
    carries: tuple[ContextVar[Any], ...] = ()
    """Context variables that travel with messages to other processes. Between threads all of them do."""
    core: int | None = None
    """The core that the kubelet's thread is pinned to; None for any."""
    stop_ms: float = 30_000.0
    """How long the whole troupe has to stop; then what is left is killed."""
    identity: TroupeIdentity = field(default_factory=lambda: TroupeIdentity(""), compare=False, repr=False)
    """Which troupe object it is of; each object has one of its own. What is derived from a spec, for its processes, keeps it."""
    # Each pod looks these up when it starts: none should have to go through all pods for that.
    _by_name: Mapping[str, PodSpec] = field(init=False, repr=False, compare=False)
    _exposed: dict[str, tuple[PodSpec, RoleSpec]] = field(init=False, repr=False, compare=False)
    _rooms: Mapping[str, int] = field(init=False, repr=False, compare=False)
    _byte_bounds: Mapping[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_name("TroupeSpec", self.name)
        where = f"troupe {self.name!r}"
        check_ms(f"{where}: stop_ms", self.stop_ms)
        if self.core is not None and (type(self.core) is not int or self.core < 0):
            raise InvalidArgument(
                f"{where}: core is {safe_repr(self.core)}: pass the number of a core, from 0 on, or None"
            )
        for what, names in (
            ("pod", [pod.name for pod in self.pods]),
            ("role", [role.name for pod in self.pods for role in pod.roles]),
        ):
            if taken := [name for name, times in Counter(names).items() if times > 1]:
                raise InvalidArgument(f"{where}: {what} {taken[0]!r} is there twice")
        if len(main := [pod.name for pod in self.pods if pod.thread is ThreadModel.MAIN]) > 1:
            raise InvalidArgument(
                f"{where}: pods {main[0]!r} and {main[1]!r} both want the main thread: there is one"
            )
        for variable in self.carries:
            if not isinstance(variable, ContextVar):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers without types
                raise InvalidArgument(f"{where}: carries has {safe_repr(variable)}: pass ContextVars")
        # Past the frozen __setattr__: they follow from the fields.
        object.__setattr__(self, "_by_name", {pod.name: pod for pod in self.pods})
        exposed = {role.name: (pod, role) for pod in self.pods for role in pod.roles if role.is_exposed}
        object.__setattr__(self, "_exposed", exposed)
        rooms = {
            role.name: (role.mailbox_cap or pod.limits.default_mailbox_cap) - pod.limits.sys_reserved
            for pod in self.pods
            for role in pod.roles
        }
        object.__setattr__(self, "_rooms", rooms)
        bounds = {name: role.mailbox_bytes for name, (_, role) in exposed.items() if role.mailbox_bytes}
        object.__setattr__(self, "_byte_bounds", bounds)

    @property
    def by_name(self) -> Mapping[str, PodSpec]:
        """The pods by name."""
        return self._by_name

    @property
    def rooms(self) -> Mapping[str, int]:
        """How many messages a lane of a role's mailbox holds, by the name of the role."""
        return self._rooms

    @property
    def byte_bounds(self) -> Mapping[str, int]:
        """How many bytes may be under way from another process to a lane of an exposed role, by the name of the role."""
        return self._byte_bounds

    def pod_of(self, role: str) -> PodSpec:
        """The pod that a role is in.

        Raises:
            InvalidArgument: there is no such role.
        """
        for pod in self.pods:
            if any(each.name == role for each in pod.roles):
                return pod
        known = ", ".join(sorted(each.name for pod in self.pods for each in pod.roles))
        raise InvalidArgument(f"troupe {self.name!r} has no role {role!r}; it has {known or 'none'}")

    def visible_to(self, pod: str | None) -> Mapping[str, tuple[PodSpec, RoleSpec]]:
        """The roles that somebody sees, by name: a pod those of its own and the exposed ones of others; None, the outside, the latter."""
        home = None if pod is None else self._by_name.get(pod)
        if home is None:
            return self._exposed
        return ChainMap({role.name: (home, role) for role in home.roles}, self._exposed)
