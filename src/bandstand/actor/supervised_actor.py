"""Typed actors under supervisors: actor classes as `ChildSpec`s, and handles that stay valid over restarts."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, final, overload

from bandstand.actor.declaration import check_instance, checked_actor_class, checked_actor_loop
from bandstand.actor.dispatch import dispatch_message
from bandstand.actor.enums import REFUSED
from bandstand.actor.handle import attach_handle
from bandstand.actor.loop import run_on_start
from bandstand.core import ActorId, Behavior
from bandstand.errors import InvalidArgument
from bandstand.supervision import Backoff, ChildMode, ChildSpec, Mailbox, Overseer, Shutdown

if TYPE_CHECKING:
    from bandstand.actor.actor import Actor, BaseActor
    from bandstand.actor.dispatch import Method
    from bandstand.actor.handle import Handle
    from bandstand.actor.interface import Implements
    from bandstand.actor.reply import ReplyCallback
    from bandstand.core import Context

__all__ = ("ChildInit", "ChildOptions", "ChildRef", "child", "supervised")

A = TypeVar("A", bound="Actor")
I = TypeVar("I")  # noqa: E741  # I for interface
P = ParamSpec("P")


@final
class ChildInit:
    """The init of a supervised child: makes a new object of the class for each incarnation, from the same arguments."""

    __slots__ = ("_arguments", "_name", "_named", "kind")

    def __init__(
        self, kind: type[BaseActor], name: str, arguments: tuple[Any, ...], named: dict[str, Any]
    ) -> None:
        self.kind = kind
        self._name = name
        self._arguments = arguments
        self._named = named

    def __call__(self, ctx: Context[Any], *more: Any) -> Any:
        """Make an incarnation; `more` are the arguments of this child alone."""
        loop = checked_actor_loop(ctx.loop)
        instance = self.kind(*self._arguments, *more, **self._named)
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

    def of(
        self, kind: Callable[P, Actor] | Callable[P, Implements[Any]], /, *args: P.args, **kwargs: P.kwargs
    ) -> ChildSpec[Any]:
        """Return the spec of a child of this class. Each incarnation is made from these arguments.

        Raises:
            InvalidArgument: it is not an actor class, or an option is invalid.
        """
        return self.each_of(kind, *args, **kwargs)

    # Any: these are only some of the arguments, and no type can say which.
    def each_of(
        self, kind: Callable[..., Actor] | Callable[..., Implements[Any]], /, *args: Any, **kwargs: Any
    ) -> ChildSpec[Any]:
        """Return the spec for a dynamic or partition supervisor, whose children add their own arguments after these.

        Type checkers cannot see which arguments are missing; a wrong number raises `StartFailed` when a child starts.

        Raises:
            InvalidArgument: as for `of`.
        """
        init = ChildInit(checked_actor_class(kind), self._name, args, kwargs)
        # The kernel's own type for a context is Turn.
        behavior: Behavior[Any] = dispatch_message  # type: ignore[assignment]  # see above
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
    """Describe a supervised child that is a typed actor: `child("counter", backoff=Backoff()).of(Counter, start=10)`.

    The options are those of `ChildSpec`.
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
class ChildRef:
    """A `StableRef` to a child in a tree of supervisors, by the names on the path to it."""

    __slots__ = ("_kind", "_path", "_root")

    def __init__(self, root: Overseer, kind: type[BaseActor], path: tuple[str, ...]) -> None:
        self._root = root
        self._kind = kind
        self._path = path

    def find(self) -> ActorId | None:
        """Return the current incarnation; None while there is none, or if it is of another class."""
        found = self._root.locate(self._path)
        if found is None:
            return None
        actor, spec = found
        return actor if _is_of(spec, self._kind) else None

    def describe(self) -> str:
        """Return why there is no actor."""
        return f"child {'/'.join(self._path)!r} of supervisor {self._root.name!r} is down or being restarted"

    holds_messages = False

    def hold(
        self,
        _handle: Handle,
        _method: Method,
        _data: object,
        _callback: ReplyCallback | None,
        _may_wait: bool,
        /,
    ) -> int:
        """Refuse: messages to a supervised child are not held."""
        return REFUSED

    def reduce(self) -> None:
        """Return None: the tree of supervisors exists only in this process."""

    @property
    def is_gone(self) -> bool:
        """Whether the child has ended and will not be restarted. Loop thread only."""
        return self._root.is_child_gone(self._path)

    def follow(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Call a function on each restart, and when there will be no more. Return a function that unsubscribes it."""
        return self._root.watch_child(self._path, callback).cancel

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ChildRef):
            return NotImplemented
        return self._root is other._root and self._path == other._path

    def __hash__(self) -> int:
        return hash((id(self._root), self._path))


@overload
def supervised(root: Overseer, kind: type[Implements[I]], /, *path: str) -> I: ...
@overload
def supervised(root: Overseer, kind: type[A], /, *path: str) -> A: ...
def supervised(root: Overseer, kind: Any, /, *path: str) -> Any:
    """Return a handle of a supervised child, by its name, or by the names on the path to it through other supervisors.

    The handle stays valid over restarts: a call goes to the current incarnation. While there is none, a call raises
    `NoSuchActor`, and `try_send` returns False. Two handles of the same child are equal.

    Args:
        root: the supervisor.
        kind: the class that the child was declared with.
        path: its name, or several names, from the root down.

    Raises:
        InvalidArgument: it is not an actor class; there is no name; or the child is of another class.
        NoSuchChild: there is no child of that name.
        WrongThread: called off the loop's thread.
    """
    if not path:
        raise InvalidArgument("supervised() needs the name of a child")
    known = checked_actor_class(kind)
    loop = checked_actor_loop(root.loop)
    spec = root.spec_at(path)
    if spec is not None and not _is_of(spec, known):
        declared = _class_of(spec)
        what = "not a typed actor" if declared is None else f"a {declared.__qualname__}"
        raise InvalidArgument(f"child {'/'.join(path)!r} is {what}, not a {known.__qualname__}")
    ref = ChildRef(root, known, path)
    return loop.handle_at(known, ref, name=path[-1], actor=ref.find())


def _class_of(spec: ChildSpec[Any]) -> type[BaseActor] | None:
    return spec.init.kind if isinstance(spec.init, ChildInit) else None


def _is_of(spec: ChildSpec[Any], kind: type[BaseActor]) -> bool:
    declared = _class_of(spec)
    return declared is not None and issubclass(declared, kind)
