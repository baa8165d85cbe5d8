"""Typed actors under supervisors: classes as `ChildSpec`s, and handles that stay good over restarts."""

# What an actor keeps for the room under private names, so as not to take a user's, the room may use.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, final, overload

from bandstand.actor.declaration import checked_actor_class, checked_actor_loop
from bandstand.actor.enums import REFUSED
from bandstand.actor.hot.stage import perform
from bandstand.actor.spawning import ChildInit, kind_of
from bandstand.core import ActorId, Behavior
from bandstand.errors import InvalidArgument
from bandstand.supervision import Backoff, ChildMode, ChildSpec, Mailbox, Overseer, Shutdown
from bandstand.supervision.lowlevel import Following, is_gone

if TYPE_CHECKING:
    from bandstand.actor.actor import Actor, BaseActor
    from bandstand.actor.hot.asks import Asked
    from bandstand.actor.hot.handle import Handle
    from bandstand.actor.hot.method import Method
    from bandstand.actor.interface import Implements

__all__ = ("ChildOptions", "Seat", "child", "supervised")

A = TypeVar("A", bound="Actor")
I = TypeVar("I")  # noqa: E741  # I for interface
P = ParamSpec("P")


@final
class ChildOptions:
    """How a child is supervised; `of` says what it is."""

    __slots__ = ("_name", "_options")

    def __init__(self, name: str, options: dict[str, Any]) -> None:
        self._name = name
        self._options = options

    def of(
        self, kind: Callable[P, Actor] | Callable[P, Implements[Any]], /, *args: P.args, **kwargs: P.kwargs
    ) -> ChildSpec[Any]:
        """The spec of a child that is an actor of this class: each incarnation is made anew from these arguments.

        Raises:
            InvalidArgument: it is no class of actors, or the options have no sense.
        """
        return self.each_of(kind, *args, **kwargs)

    # Any: they are a part of the arguments, and no type says which part.
    def each_of(
        self, kind: Callable[..., Actor] | Callable[..., Implements[Any]], /, *args: Any, **kwargs: Any
    ) -> ChildSpec[Any]:
        """The same for a dynamic or a partition supervisor, whose children have arguments of their own, after these.

        Type checkers cannot see what is missing here: it shows as a `StartFailed` when a child is started.

        Raises:
            InvalidArgument: as for `of`.
        """
        init = ChildInit(checked_actor_class(kind), self._name, args, kwargs)
        # The stage is a behavior; the kernel's own name for a context is Turn.
        behavior: Behavior[Any] = perform  # type: ignore[assignment]  # see above
        return ChildSpec(self._name, behavior, init=init, **self._options)


def child(
    name: str,
    *,
    mode: ChildMode = ChildMode.PERMANENT,
    mailbox_cap: int | None = None,
    mailbox: Mailbox = Mailbox.FRESH,
    backoff: Backoff | None = None,
    shutdown: float | Shutdown | None = None,
    significant: bool = False,
) -> ChildOptions:
    """A supervisor's child that is a typed actor: `child("counter", backoff=Backoff()).of(Counter, start=10)`.

    The options are those of `ChildSpec`, and mean the same.
    """
    options = {
        "mode": mode,
        "mailbox_cap": mailbox_cap,
        "mailbox": mailbox,
        "backoff": backoff,
        "shutdown": shutdown,
        "significant": significant,
    }
    return ChildOptions(name, options)


@final
class Seat:
    """The place of a child in a tree of supervisors."""

    __slots__ = ("_kind", "_path", "_root")

    def __init__(self, root: Overseer, kind: type[BaseActor], path: tuple[str, ...]) -> None:
        self._root = root
        self._kind = kind
        self._path = path

    def find(self) -> ActorId | None:
        """The present incarnation; None while there is none, or it is of another class than was meant."""
        found = self._root.locate(self._path)
        if found is None:
            return None
        actor, spec = found
        return actor if _is_of(spec, self._kind) else None

    def describe(self) -> str:
        """Why there is none."""
        return f"child {'/'.join(self._path)!r} of supervisor {self._root.name!r} is down, or just being started again"

    is_patient = False

    def hold(
        self, _handle: Handle, _method: Method, _data: object, _asked: Asked | None, _may_wait: bool, /
    ) -> int:
        """A supervisor's child is not waited for."""
        return REFUSED

    def passport(self) -> None:
        """It is a place in this process alone."""

    @property
    def is_gone(self) -> bool:
        """Whether nobody will be there any more: see `bandstand.supervision.lowlevel.is_gone`. Loop thread only."""
        return is_gone(self._root, self._path)

    def follow(self, told: Callable[[], object]) -> Callable[[], None]:
        """Have a function called when somebody is there anew, or nobody will be any more; what takes that back."""
        return Following(self._root, self._path, told).cancel

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Seat):
            return NotImplemented
        return self._root is other._root and self._path == other._path

    def __hash__(self) -> int:
        return hash((id(self._root), self._path))


@overload
def supervised(root: Overseer, kind: type[Implements[I]], /, *path: str) -> I: ...
@overload
def supervised(root: Overseer, kind: type[A], /, *path: str) -> A: ...
def supervised(root: Overseer, kind: Any, /, *path: str) -> Any:
    """A handle of a supervisor's child, found by its name, or by the names on the way to it through other supervisors.

    It stays good over restarts: a call goes to the present incarnation. While there is none, a call raises `NoSuchActor`, and
    `try_send` answers False. Two handles of one place are equal.

    Args:
        root: the supervisor.
        kind: the class that the child was declared with.
        path: its name, or several names, from the root down.

    Raises:
        InvalidArgument: it is no class of actors; there is no name; or the child is of another class.
        NoSuchChild: there is no child of that name.
        WrongThread: called off the loop's thread.
    """
    if not path:
        raise InvalidArgument("supervised() needs the name of a child")
    known = checked_actor_class(kind)
    loop = checked_actor_loop(root.loop)
    spec = root.spec_at(path)
    if spec is not None:
        _refuse_kind(spec, known, path)
    place = Seat(root, known, path)
    actor = place.find()
    if actor is None:
        actor = ActorId(0, None, loop)
    return known.__actor_schema__.handle(loop, actor, path[-1], loop._asks, known.__actor_ask_ms__, place)


def _is_of(spec: ChildSpec[Any], kind: type[BaseActor]) -> bool:
    declared = kind_of(spec.init)
    return declared is not None and issubclass(declared, kind)


def _refuse_kind(spec: ChildSpec[Any], kind: type[BaseActor], path: tuple[str, ...]) -> None:
    """Refuse to see in a child what it is not."""
    if not _is_of(spec, kind):
        declared = kind_of(spec.init)
        what = "no typed actor" if declared is None else f"a {declared.__qualname__}"
        raise InvalidArgument(f"child {'/'.join(path)!r} is {what}, not a {kind.__qualname__}")
