"""Typed actors under supervisors: actor classes as `ChildSpec`s, and handles that stay valid over restarts."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast, final, overload

from bandstand.actor.declaration import check_instance, checked_actor_class, checked_actor_loop
from bandstand.actor.dispatch import dispatch_message
from bandstand.actor.handle import attach_handle
from bandstand.actor.system import run_on_start
from bandstand.core import Behavior
from bandstand.errors import InvalidArgumentError
from bandstand.errors.formatting import safe_repr
from bandstand.errors.validation import Seconds
from bandstand.supervision import (
    ActorChildSpec,
    Backoff,
    ChildSpec,
    Overseer,
    RestartPolicy,
    Shutdown,
    Spawnable,
    supervisor_of,
)
from bandstand.supervision.spec import TypedInit, check_child_class

if TYPE_CHECKING:
    from bandstand.actor.actor import Actor, BaseActor
    from bandstand.actor.interface import Implements
    from bandstand.core import Context

__all__ = ("ChildInit", "ChildOptions", "SiblingRef", "child", "sibling")

A = TypeVar("A", bound="Actor")
I = TypeVar("I")  # noqa: E741  # I for interface
H = TypeVar("H")
P = ParamSpec("P")


@final
class SiblingRef:
    """Stands in a spec for the handle of a sibling, which is made when the child is started: see `sibling`."""

    __slots__ = ("kind", "name")

    def __init__(self, kind: type[BaseActor], name: str) -> None:
        self.kind = kind
        self.name = name

    def check(self, child: str, siblings: Mapping[str, ChildSpec[Any]]) -> None:
        """Check that the sibling exists.

        Raises:
            InvalidArgumentError: there is no sibling of that name, or it is of another class.
        """
        spec = siblings.get(self.name)
        if spec is not None:
            check_child_class(f"child {child!r}: sibling {self.name!r}", spec, self.kind)
            return
        if self.name == child:
            raise InvalidArgumentError(
                f"child {child!r}: sibling {self.name!r} is the child itself: use self.me"
            )
        close = difflib.get_close_matches(self.name, siblings)
        known = ", ".join(map(repr, siblings)) or "none"
        hint = f": did you mean {close[0]!r}?" if close else f"; there is {known}"
        raise InvalidArgumentError(f"child {child!r}: there is no sibling {self.name!r}{hint}")

    def __repr__(self) -> str:
        return f"sibling({self.kind.__qualname__}, {self.name!r})"


@overload
def sibling(kind: type[Implements[I]], name: str, /) -> I: ...
@overload
def sibling(kind: type[A], name: str, /) -> A: ...
def sibling(kind: Any, name: str, /) -> Any:
    """Refer to a sibling in the arguments of a child.

        children=[child("store").of(Store), child("clerk").of(Clerk, sibling(Store, "store"))]

    Each incarnation of the child gets the sibling's handle, which stays valid over restarts. So a branch of a tree is wired again when
    its supervisor is restarted. The order of siblings does not matter: a handle may be of a child that starts later. Only an
    argument itself can be a reference, not something inside a list or a dict.

    The name and the class are checked when the spec of the supervisor is made, and by `start_child`.

    Args:
        kind: the class that the sibling was declared with.
        name: its name.

    Raises:
        InvalidArgumentError: it is not an actor class, or the name is not a string, or empty.
    """
    if type(name) is not str or not name:
        raise InvalidArgumentError(f"sibling: name is {safe_repr(name)}: pass a string that is not empty")
    return SiblingRef(checked_actor_class(kind), name)


def _resolved(argument: object, supervisor: Overseer) -> object:
    if isinstance(argument, SiblingRef):
        return supervisor.handle(cast("type[Actor]", argument.kind), argument.name)
    return argument


@final
class ChildInit(TypedInit):
    """The init of a supervised child: makes a new object of the class for each incarnation, from the same arguments."""

    __slots__ = ("_arguments", "_name", "_named", "_siblings")

    def __init__(
        self, kind: type[BaseActor], name: str, arguments: tuple[Any, ...], named: dict[str, Any]
    ) -> None:
        self.kind = kind
        self._name = name
        self._arguments = arguments
        self._named = named
        self._siblings = [
            argument for argument in (*arguments, *named.values()) if isinstance(argument, SiblingRef)
        ]

    @property
    def sibling_names(self) -> list[str]:
        """The names of the siblings among its arguments."""
        return [reference.name for reference in self._siblings]

    def check_siblings(self, siblings: Mapping[str, ChildSpec[Any]]) -> None:
        """Raise `InvalidArgumentError` if a sibling among its arguments does not exist, or is of another class."""
        for reference in self._siblings:
            reference.check(self._name, siblings)

    def __call__(self, ctx: Context[Any], *more: Any) -> Any:
        """Make an incarnation; `more` are the arguments of this child alone."""
        loop = checked_actor_loop(ctx.loop)
        arguments, named = self._arguments, self._named
        if self._siblings:
            supervisor = supervisor_of(loop, ctx.self_id)
            assert supervisor is not None, "a child is started by its supervisor"
            arguments = tuple(_resolved(argument, supervisor) for argument in arguments)
            named = {name: _resolved(argument, supervisor) for name, argument in named.items()}
        instance = self.kind(*arguments, *more, **named)
        check_instance(self.kind, instance)
        attach_handle(loop, instance, ctx.self_id, self._name, None)
        return run_on_start(loop, instance)


@final
class ChildOptions:
    """The supervision options of a child; `of` adds its class."""

    __slots__ = ("_name", "_options")

    def __init__(self, name: str, options: dict[str, Any]) -> None:
        self._name = name
        self._options = options

    def of(self, kind: Callable[P, Spawnable[H]], /, *args: P.args, **kwargs: P.kwargs) -> ActorChildSpec[H]:
        """Return the spec of a child of this class. Each incarnation is made from these arguments.

        Raises:
            InvalidArgumentError: it is not an actor class, or an option is invalid.
        """
        return self.each_of(kind, *args, **kwargs)

    # Any: these are only some of the arguments, and no type can say which.
    def each_of(self, kind: Callable[..., Spawnable[H]], /, *args: Any, **kwargs: Any) -> ActorChildSpec[H]:
        """Return the spec for a dynamic or partition supervisor, whose children add their own arguments after these.

        Type checkers cannot see which arguments are missing; a wrong number raises `StartError` when a child starts.

        Raises:
            InvalidArgumentError: as for `of`.
        """
        init = ChildInit(checked_actor_class(kind), self._name, args, kwargs)
        # The kernel's own type for a context is Turn.
        behavior: Behavior[Any] = dispatch_message  # type: ignore[assignment]  # see above
        return ActorChildSpec(self._name, behavior, init=init, **self._options)


def child(
    name: str,
    *,
    restart: RestartPolicy = RestartPolicy.ALWAYS,
    mailbox: int | None = None,
    keep_mailbox: bool = False,
    backoff: Backoff | None = None,
    shutdown: Seconds | Shutdown | None = None,
    significant: bool = False,
    max_restarts: int | None = None,
    period: Seconds | None = None,
) -> ChildOptions:
    """Describe a supervised child that is a typed actor: `child("counter", backoff=Backoff()).of(Counter, start=10)`.

    The options are those of `ChildSpec`.
    """
    options = {
        "restart": restart,
        "mailbox": mailbox,
        "keep_mailbox": keep_mailbox,
        "backoff": backoff,
        "shutdown": shutdown,
        "significant": significant,
        "max_restarts": max_restarts,
        "period": period,
    }
    return ChildOptions(name, options)
