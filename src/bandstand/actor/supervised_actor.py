"""Typed actors under supervisors: actor classes as `ChildSpec`s, and handles that stay valid over restarts."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast, final, overload

from bandstand.actor.child_queue import ChildQueue, deliver_held, fail_held
from bandstand.actor.cross_thread import CrossThreadCallback
from bandstand.actor.declaration import check_instance, checked_actor_class, checked_actor_loop
from bandstand.actor.dispatch import dispatch_message
from bandstand.actor.enums import HELD, REFUSED, RETRY
from bandstand.actor.handle import attach_handle
from bandstand.actor.system import run_on_start
from bandstand.actor.when_down import PendingMessage, WhenDown
from bandstand.core import ActorId, Behavior
from bandstand.errors import ActorRestartingError, InvalidArgumentError, NoSuchActorError
from bandstand.errors.formatting import safe_repr
from bandstand.errors.validation import Seconds
from bandstand.supervision import (
    Backoff,
    ChildMode,
    ChildSpec,
    Mailbox,
    Overseer,
    Shutdown,
    supervisor_of,
)

if TYPE_CHECKING:
    from bandstand.actor.actor import Actor, BaseActor
    from bandstand.actor.dispatch import Method
    from bandstand.actor.handle import Handle
    from bandstand.actor.interface import Implements
    from bandstand.actor.reply import ReplyCallback
    from bandstand.actor.system import ActorSystem
    from bandstand.core import Context

__all__ = ("ChildInit", "ChildOptions", "ChildRef", "SiblingRef", "child", "sibling", "supervised")

A = TypeVar("A", bound="Actor")
I = TypeVar("I")  # noqa: E741  # I for interface
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
            _check_class(f"child {child!r}: sibling {self.name!r}", spec, self.kind)
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
        return supervised(supervisor, cast("type[Actor]", argument.kind), argument.name)
    return argument


@final
class ChildInit:
    """The init of a supervised child: makes a new object of the class for each incarnation, from the same arguments."""

    __slots__ = ("_arguments", "_name", "_named", "_siblings", "kind")

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

    def of(
        self, kind: Callable[P, Actor] | Callable[P, Implements[Any]], /, *args: P.args, **kwargs: P.kwargs
    ) -> ChildSpec[Any]:
        """Return the spec of a child of this class. Each incarnation is made from these arguments.

        Raises:
            InvalidArgumentError: it is not an actor class, or an option is invalid.
        """
        return self.each_of(kind, *args, **kwargs)

    # Any: these are only some of the arguments, and no type can say which.
    def each_of(
        self, kind: Callable[..., Actor] | Callable[..., Implements[Any]], /, *args: Any, **kwargs: Any
    ) -> ChildSpec[Any]:
        """Return the spec for a dynamic or partition supervisor, whose children add their own arguments after these.

        Type checkers cannot see which arguments are missing; a wrong number raises `StartError` when a child starts.

        Raises:
            InvalidArgumentError: as for `of`.
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
    shutdown: Seconds | Shutdown | None = None,
    significant: bool = False,
    max_restarts: int | None = None,
    period: Seconds | None = None,
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
        "max_restarts": max_restarts,
        "period": period,
    }
    return ChildOptions(name, options)


@final
class ChildRef:
    """A `StableRef` to a child in a tree of supervisors, by the names on the path to it.

    Args:
        root: the supervisor at the top of the path.
        kind: the class of the child.
        path: its name, or the names on the path to it.
        policy: what to do with a message while the child is being restarted.
        timeout_ms: how long a message may wait; None for no limit but the deadline of an ask.
    """

    __slots__ = ("_kind", "_path", "_policy", "_root", "_timeout_ms")

    holds_messages = False

    def __init__(
        self,
        root: Overseer,
        kind: type[BaseActor],
        path: tuple[str, ...],
        policy: WhenDown = WhenDown.WAIT,
        timeout_ms: float | None = None,
    ) -> None:
        self._root = root
        self._kind = kind
        self._path = path
        self._policy = policy
        self._timeout_ms = timeout_ms

    def find(self) -> ActorId | None:
        """Return the current incarnation; None while there is none, or if it is of another class."""
        found = self._root.locate(self._path)
        if found is None:
            return None
        actor, spec = found
        return actor if _is_of(spec, self._kind) else None

    def hold(
        self,
        handle: Handle,
        method: Method,
        data: object,
        callback: ReplyCallback | None,
        _may_wait: bool,
        /,
    ) -> int:
        """Queue a message while the child is being restarted, if the policy allows it.

        With QUEUE every message may wait, with WAIT only asks. From another thread the message is queued on the loop's thread: if the
        queue is full there, an ask fails, and a one-way message becomes a dead letter.

        Returns:
            HELD, REFUSED, or RETRY if there is an actor now.
        """
        system = self._system
        waits = self._policy is WhenDown.QUEUE or (self._policy is WhenDown.WAIT and callback is not None)
        if not waits or system.kernel.is_closed:
            return REFUSED
        if self.find() is not None:
            return RETRY
        if not self.will_start:
            return REFUSED
        message = PendingMessage(self._path[-1], handle, method, data, callback, None)
        if system.kernel.is_other_thread():
            system.kernel.inbox.call_soon(partial(self._hold_from_thread, message))
            return HELD
        return HELD if self._enqueue(message) else REFUSED

    def refusal(self) -> NoSuchActorError:
        """Return the error for a message that is refused: what the child is waiting for, or that it will not be restarted."""
        if not self.will_start:
            given_up = self._root.why_given_up(self._path)
            why = "" if given_up is None else f": its supervisor has given it up, {given_up}"
            return NoSuchActorError(
                f"there is no actor to take the message: {self} is down and will not be restarted{why}"
            )
        waiting = len(self._system.child_queues.get(self, ()))
        what = "1 message waits" if waiting == 1 else f"{waiting} messages wait"
        why = f", and {what} for it" if waiting else ""
        return ActorRestartingError(
            f"there is no actor to take the message: {self} is down and will be restarted{why}"
        )

    def with_policy(self, policy: WhenDown, timeout_ms: float | None) -> ChildRef:
        """Return an equal reference with another policy; None keeps the timeout."""
        ms = self._timeout_ms if timeout_ms is None else timeout_ms
        return ChildRef(self._root, self._kind, self._path, policy, ms)

    def track(self, _handle: Handle, /) -> None:
        """Do nothing: a supervisor need not know the handles of its children."""

    def reduce(self) -> None:
        """Return None: the tree of supervisors exists only in this process."""

    @property
    def will_start(self) -> bool:
        """Whether a supervisor is going to start the child, which is not running. Thread-safe."""
        # A child that runs, and is not found, is of another class.
        return self._root.locate(self._path) is None and self._root.will_start_child(self._path)

    @property
    def is_gone(self) -> bool:
        """Whether the child has ended and will not be restarted. Loop thread only."""
        return self._root.is_child_gone(self._path)

    def follow(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Call a function on each restart, and when there will be no more. Return a function that unsubscribes it."""
        return self._root.watch_child(self._path, callback).cancel

    @property
    def _system(self) -> ActorSystem:
        return cast("ActorSystem", self._root.loop)

    def _enqueue(self, message: PendingMessage) -> bool:
        """Queue a message. Return False if the queue is full. Loop thread only."""
        system = self._system
        queue = system.child_queues.get(self)
        if queue is None:
            queue = ChildQueue(system, self)
        if not queue.has_room(self._capacity()):
            return False
        queue.add(message, self._timeout_ms)
        return True

    def _hold_from_thread(self, message: PendingMessage) -> None:
        """Queue a message of another thread, or deliver it if the child has started meanwhile."""
        if message.is_done:
            return
        actor = self.find()
        if actor is not None:
            deliver_held(self._system, message, actor)
        elif not self.will_start or not self._enqueue(message):
            fail_held(self._system, message, self.refusal())
        elif isinstance(message.callback, CrossThreadCallback):
            message.callback.set_deadline()

    def _capacity(self) -> int:
        """Return how many messages may wait: as many as one lane of the child's mailbox holds."""
        system = self._system
        spec = self._root.spec_at(self._path)
        cap = system.kernel.actors.checked_cap(None if spec is None else spec.mailbox_cap)
        return cap - system.config.sys_reserved

    def __str__(self) -> str:
        return f"child {'/'.join(self._path)!r} of supervisor {self._root.name!r}"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ChildRef):
            return NotImplemented
        return self._root.actor is other._root.actor and self._path == other._path

    def __hash__(self) -> int:
        return hash((self._root.actor, self._path))


@overload
def supervised(root: Overseer, kind: type[Implements[I]], /, *path: str) -> I: ...
@overload
def supervised(root: Overseer, kind: type[A], /, *path: str) -> A: ...
def supervised(root: Overseer, kind: Any, /, *path: str) -> Any:
    """Return a handle of a supervised child, by its name, or by the names on the path to it through other supervisors.

    The handle stays valid over restarts: a call goes to the current incarnation. While the child is being restarted, an ask waits for
    the next incarnation, until its own deadline; a one-way call raises `ActorRestartingError`, and `try_send` returns False; see
    `when_down` for other policies. A child that will not be restarted raises `NoSuchActorError`. Two handles of the same child are
    equal.

    Args:
        root: the supervisor.
        kind: the class that the child was declared with.
        path: its name, or several names, from the root down.

    Raises:
        InvalidArgumentError: it is not an actor class; there is no name; or the child is of another class.
        NoSuchChildError: there is no child of that name.
        WrongThreadError: called off the loop's thread.
    """
    if not path:
        raise InvalidArgumentError("supervised() needs the name of a child")
    known = checked_actor_class(kind)
    loop = checked_actor_loop(root.loop)
    spec = root.spec_at(path)
    if spec is not None:
        _check_class(f"child {'/'.join(path)!r}", spec, known)
    ref = ChildRef(root, known, path)
    return loop.handle_at(known, ref, name=path[-1], actor=ref.find())


def _check_class(what: str, spec: ChildSpec[Any], kind: type[BaseActor]) -> None:
    if not _is_of(spec, kind):
        declared = _class_of(spec)
        known = "not a typed actor" if declared is None else f"a {declared.__qualname__}"
        raise InvalidArgumentError(f"{what} is {known}, not a {kind.__qualname__}")


def _class_of(spec: ChildSpec[Any]) -> type[BaseActor] | None:
    return spec.init.kind if isinstance(spec.init, ChildInit) else None


def _is_of(spec: ChildSpec[Any], kind: type[BaseActor]) -> bool:
    declared = _class_of(spec)
    return declared is not None and issubclass(declared, kind)
