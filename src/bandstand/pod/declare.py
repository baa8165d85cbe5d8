"""What a troupe's class is written with: `pod(...)`, its roles, and what becomes of them as attributes.

    class Studio(Troupe):
        vsync = pod(restart=RestartPolicy.ALWAYS).expose(Vsync, fps=60)
        engine_pod = pod(core=1)
        engine = engine_pod.expose(Engine, directory(EnginePeers))
        config = engine_pod.role(mailbox_cap=100).of(Config)

A pod that has a name of its own in the class has that name; one that has not is of one role, and is called like it. Nothing is
checked here: the whole class is, when it is made, because only then everybody has a name.
"""

# A troupe keeps what the room needs under private names, to leave users theirs.
# pyright: reportPrivateUsage=false
# ruff: noqa: SLF001  # likewise

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, Never, ParamSpec, Self, TypeVar, final, overload

from bandstand.actor.reply import UNSET_MS
from bandstand.core import LoopConfig, Overflow
from bandstand.pod.spec import MAILBOX_BYTES, PodSpec, RoleSpec
from bandstand.pod.vocabulary import RestartPolicy, ThreadModel, WhenDown
from bandstand.supervision import Backoff, Intensity

if TYPE_CHECKING:
    from bandstand.actor import Actor, Implements
    from bandstand.pod.cast import Cast

__all__ = ("ExposedRole", "HiddenRole", "PodOptions", "RoleDeclaration", "RoleOptions", "Unexposed", "pod")

A = TypeVar("A", bound="Actor")
H_co = TypeVar("H_co", covariant=True)
I = TypeVar("I")  # noqa: E741  # I for interface
P = ParamSpec("P")


class RoleDeclaration(Generic[H_co]):
    """One actor of a troupe, as its class declares it; `H_co` is what its handles are typed as."""

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
        # The first name stays: that somebody has given it a second one is found out when the class is read.
        self.name = self.name or name

    def __set__(self, instance: object, value: Never) -> Never:
        raise AttributeError(
            f"{type(instance).__qualname__}.{self.name} is a role: to put another actor there, pass a layout"
        )

    def spec(self) -> RoleSpec:
        """The same as data, checked."""
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
    """What checkers see of a role that is not exposed: nothing. Really it is an AttributeError."""


@final
class ExposedRole(RoleDeclaration[H_co]):
    """A role that other pods, and the program outside, can have. On a troupe, its handle."""

    is_exposed = True

    @overload
    def __get__(self, instance: None, owner: type[Any]) -> Self: ...
    @overload
    def __get__(self, instance: Cast, owner: type[Any]) -> H_co: ...
    def __get__(self, instance: Cast | None, owner: type[Any]) -> Any:
        return self if instance is None else instance._handle(self.name)


@final
class HiddenRole(RoleDeclaration[H_co]):
    """A role that only its own pod can have."""

    @overload
    def __get__(self, instance: None, owner: type[Any]) -> Self: ...
    @overload
    def __get__(self, instance: Cast, owner: type[Any]) -> Unexposed: ...
    def __get__(self, instance: Cast | None, owner: type[Any]) -> Any:
        if instance is None:
            return self
        raise AttributeError(
            f"{owner.__qualname__}.{self.name} is not exposed: only its own pod has it; declare it with expose() "
            f"instead of of()",
            name=self.name,
            obj=instance,
        )


class RoleOptions:
    """How a role is reached; `of` and `expose` say what it is."""

    def __init__(self, pod: PodOptions | None, of_role: Mapping[str, Any]) -> None:
        # None for a pod that speaks for itself: see `pod`.
        self._pod = pod
        self.of_role = of_role

    @property
    def pod(self) -> PodOptions:
        """The pod that the role is in."""
        assert self._pod is not None
        return self._pod

    @overload
    def of(self, kind: Callable[P, Implements[I]], /, *args: P.args, **kwargs: P.kwargs) -> HiddenRole[I]: ...
    @overload
    def of(self, kind: Callable[P, A], /, *args: P.args, **kwargs: P.kwargs) -> HiddenRole[A]: ...
    def of(self, kind: Any, /, *args: Any, **kwargs: Any) -> Any:
        """An actor of this class, which only its own pod can have in its directories.

        Args:
            kind: the class.
            args: what its constructor is called with, for each incarnation anew; `directory(...)` among them becomes handles.
            kwargs: likewise.
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
        """The same, for an actor that every pod can have, and the program outside: as an attribute of the troupe."""
        role: ExposedRole[Any] = ExposedRole(self, kind, args, kwargs)
        return role

    def __repr__(self) -> str:
        return "pod(...).role(...)"


@final
class PodOptions(RoleOptions):
    """How a pod runs. As an attribute of the class it can have several roles; `of` and `expose` on the spot make one of one."""

    def __init__(self, of_pod: Mapping[str, Any]) -> None:
        super().__init__(None, MappingProxyType({}))
        self.of_pod = of_pod

    @property
    def pod(self) -> PodOptions:
        """Itself."""
        return self

    def role(
        self,
        *,
        mailbox_cap: int | None = None,
        mailbox_bytes: int | None = MAILBOX_BYTES,
        overflow: Overflow = Overflow.REJECT,
        ask_ms: float | None = UNSET_MS,
    ) -> RoleOptions:
        """Options for a role of it, apart from the arguments of a constructor: `engine_pod.role(ask_ms=500).of(Config)`.

        Args:
            mailbox_cap: slots of its mailbox; None for the default of its pod's loop.
            mailbox_bytes: how many bytes may be under way to one of its lanes from another process; None for no bound.
            overflow: what a full lane does with one message more.
            ask_ms: how long asks of it wait, in milliseconds; None for ever. The class's own if nothing is said.
        """
        return RoleOptions(
            self,
            {
                "mailbox_cap": mailbox_cap,
                "mailbox_bytes": mailbox_bytes,
                "overflow": overflow,
                "ask_ms": ask_ms,
            },
        )

    def spec(self, name: str, roles: tuple[RoleSpec, ...]) -> PodSpec:
        """The same as data, checked."""
        return PodSpec(name=name, roles=roles, **self.of_pod)

    def __repr__(self) -> str:
        return "pod(...)"


def pod(
    *,
    thread: ThreadModel = ThreadModel.DEDICATED,
    restart: RestartPolicy = RestartPolicy.NEVER,
    intensity: Intensity = Intensity(3, 5000.0),  # noqa: B008  # frozen
    backoff: Backoff | None = None,
    core: int | None = None,
    when_down: WhenDown = WhenDown.WAIT,
    down_ms: float = 5000.0,
    stop_ms: float = 5000.0,
    limits: LoopConfig = LoopConfig(),  # noqa: B008  # frozen
) -> PodOptions:
    """A pod: actors that share a thread, and are started again together. The options are those of `PodSpec`.

    Args:
        thread: where it runs.
        restart: when it is started again.
        intensity: how many restarts within what time are too many: then the matter goes to the parent, or the troupe ends.
        backoff: how long to wait before a restart after a failure; None for not at all.
        core: the core that its thread, or its process, is pinned to; None for any.
        when_down: what handles of its actors do while it is down, unless they say otherwise.
        down_ms: for how long they do, in milliseconds.
        stop_ms: how long it has to handle what it has when it is stopped.
        limits: the limits of its loop.
    """
    return PodOptions(
        {
            "thread": thread,
            "restart": restart,
            "intensity": intensity,
            "backoff": backoff,
            "core": core,
            "when_down": when_down,
            "down_ms": down_ms,
            "stop_ms": stop_ms,
            "limits": limits,
        }
    )
