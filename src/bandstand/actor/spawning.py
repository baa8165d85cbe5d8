"""Starting typed actors: from a class and the arguments of its constructor to a handle.

Options have a call of their own, `loop.options(name="a").spawn(Counter, start=10)`, so that they never meet the arguments of
somebody's constructor.
"""

# What an actor keeps for the room under private names, so as not to take a user's, the room may use.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Callable
from contextvars import copy_context
from functools import partial
from inspect import iscoroutine, iscoroutinefunction
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, final, overload

from bandstand.actor.declaration import check_instance, checked_actor_class, checked_actor_loop
from bandstand.actor.faces import checked_ask_ms
from bandstand.actor.hot.handle import Handle, attach
from bandstand.actor.hot.stage import perform
from bandstand.core import ActorId, ActorStatus, ExitReason, Overflow
from bandstand.core.lowlevel import checked_cap, is_supervisor, set_epilogue, spawn_child, take_init_error
from bandstand.errors import InvalidArgument, StartFailed
from bandstand.errors.formatting import safe_repr

if TYPE_CHECKING:
    from bandstand.actor.actor import Actor, BaseActor
    from bandstand.actor.interface import Implements
    from bandstand.actor.loop import Loop
    from bandstand.core import Context

__all__ = (
    "UNSET_MS",
    "ChildInit",
    "Options",
    "Spawner",
    "kind_of",
    "start_in_steps",
)

A = TypeVar("A", bound="Actor")
I = TypeVar("I")  # noqa: E741  # I for interface
P = ParamSpec("P")

# Where None means no deadline at all, this means that nothing was said. Compared by value: a spec may come from another process.
UNSET_MS = float("-inf")


@final
class Options:
    """How an actor is to be spawned, checked."""

    __slots__ = ("ask_ms", "cap", "is_told", "name", "overflow", "parent", "supervisor")

    def __init__(
        self,
        loop: Loop,
        *,
        name: str | None = None,
        mailbox_cap: int | None = None,
        overflow: Overflow = Overflow.REJECT,
        ask_ms: float | None = UNSET_MS,
        supervisor: object = None,
        parent: BaseActor | None = None,
    ) -> None:
        if name is not None and not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers without types
            raise InvalidArgument(f"name is {safe_repr(name)}: pass a string")
        if not isinstance(overflow, Overflow):  # pyright: ignore[reportUnnecessaryIsInstance]  # same
            raise InvalidArgument(f"overflow is {safe_repr(overflow)}: pass a member of Overflow")
        self.name = name
        self.cap = checked_cap(loop, mailbox_cap)
        self.overflow = overflow
        # None is the class's own.
        self.ask_ms = None if ask_ms == UNSET_MS else checked_ask_ms("ask_ms", ask_ms)
        self.supervisor = _supervisor(loop, supervisor)
        # The actor that spawns a child of its own.
        self.parent = parent
        # Whether anybody is: for most actors nobody.
        self.is_told = parent is not None or self.supervisor is not None

    def told(self) -> ActorId | None:
        """Who is told of the end: of a handle, its present incarnation."""
        if self.parent is not None:
            told: ActorId = self.parent.__actor_handle__._bs_actor
            return told
        if isinstance(self.supervisor, Handle):
            self.supervisor._bs_refresh()
            return self.supervisor._bs_actor
        return self.supervisor


@final
class Spawner:
    """Spawns with options. `Loop.options` and `Actor.options` make it; it can be used again and again."""

    __slots__ = ("_loop", "_options")

    def __init__(self, loop: Loop, options: Options) -> None:
        self._loop = loop
        self._options = options

    @overload
    def spawn(self, kind: Callable[P, Implements[I]], /, *args: P.args, **kwargs: P.kwargs) -> I: ...
    @overload
    def spawn(self, kind: Callable[P, A], /, *args: P.args, **kwargs: P.kwargs) -> A: ...
    def spawn(self, kind: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Make an actor of a class, with these arguments for its constructor, and start it; its handle.

        The constructor runs here, and what it raises comes out here: then there is no actor. `on_start` runs as the actor's
        first turn, inside this call if it is a plain function.

        Raises:
            StartFailed: `on_start` has failed; its error is the cause. An async one that fails later ends the actor.
            InvalidArgument: it is no class of actors.
            MaxActors, NoMemory, LoopClosed, WrongThread: as for a spawn of the loop's own.
        """
        return self._loop._start(checked_actor_class(kind), args, kwargs, self._options)


def start_in_steps(loop: Loop, instance: BaseActor, options: Options) -> Handle:
    """Make an actor of an object that has an `on_start`, an `on_stop`, or anything else that takes its time."""
    kind = type(instance)
    parent = options.parent
    handles: list[Handle] = []

    def init(ctx: Context[Any]) -> Any:
        handles.append(attach(loop, instance, ctx.self_id, options.name, options.ask_ms))
        return start(loop, instance)

    actor = spawn_child(
        loop,
        perform,
        init,
        # In the log and in the tree, whoever has no name goes by the name of the class.
        name=options.name or kind.__name__,
        cap=options.cap,
        supervisor=options.told(),
        context=copy_context(),
        overflow=options.overflow,
    )
    if loop.status(actor) >= ActorStatus.STOPPED:
        error = take_init_error(loop)
        if error is not None:
            if parent is not None:
                # It is told here, and not once more by a signal.
                parent.__actor_ensure_children__().ignore_exit(actor)
            what = f"{kind.__qualname__} {options.name or '(unnamed)'}"
            raise StartFailed.of(what, options.name or kind.__qualname__, error, "its on_start() raised ")
    elif parent is not None:
        parent.__actor_ensure_children__().add(actor, options.name or kind.__name__)
    if not handles:
        # An observer has ended it before its first turn.
        handles.append(attach(loop, instance, actor, options.name, options.ask_ms))
    return handles[0]


def start(loop: Loop, instance: BaseActor) -> Any:
    """Call an actor's `on_start`: what its state is, or a coroutine that gives it."""
    if iscoroutinefunction(instance.on_start):
        # Called when it begins: one that never does must not leave a coroutine that nobody awaits.
        return _start_slowly(loop, instance, None)
    result = instance.on_start()
    if result is None:
        return _started(loop, instance)
    if not hasattr(result, "__await__"):
        raise InvalidArgument(
            f"{type(instance).__qualname__}.on_start() returned {safe_repr(result)}: it returns nothing"
        )
    return _start_slowly(loop, instance, result)


async def _start_slowly(loop: Loop, instance: BaseActor, result: Any) -> BaseActor:
    await (instance.on_start() if result is None else result)
    return _started(loop, instance)


def _started(loop: Loop, instance: BaseActor) -> BaseActor:
    after_start = type(instance).__actor_after_start__
    if after_start is not None:
        after_start(instance)
    if type(instance).__actor_has_on_stop__:
        set_epilogue(loop, instance.__actor_handle__._bs_actor, partial(_farewell, instance))
    return instance


def _farewell(instance: BaseActor, reason: ExitReason, cause: BaseException | None) -> Any:
    result = instance.on_stop(reason, cause)
    return result if result is None or iscoroutine(result) else _wait_for(result)


async def _wait_for(result: Any) -> None:
    await result


@final
class ChildInit:
    """The init of a supervisor's child: every incarnation is a new object of the same arguments."""

    __slots__ = ("_arguments", "_name", "_named", "kind")

    def __init__(
        self, kind: type[BaseActor], name: str, arguments: tuple[Any, ...], named: dict[str, Any]
    ) -> None:
        self.kind = kind
        self._name = name
        self._arguments = arguments
        self._named = named

    def __call__(self, ctx: Context[Any], *more: Any) -> Any:
        """Make one; `more` are the arguments of this child alone."""
        loop = checked_actor_loop(ctx.loop)
        instance = self.kind(*self._arguments, *more, **self._named)
        check_instance(self.kind, instance)
        attach(loop, instance, ctx.self_id, self._name, None)
        return start(loop, instance)


def kind_of(init: object) -> type[BaseActor] | None:
    """The class of a supervisor's child, by its init; None if it is no typed actor."""
    return init.kind if isinstance(init, ChildInit) else None


def _supervisor(loop: Loop, supervisor: object) -> ActorId | Handle | None:
    if supervisor is None:
        return None
    if isinstance(supervisor, Handle):
        return supervisor
    actor = supervisor
    if not isinstance(actor, ActorId):
        raise InvalidArgument(f"supervisor is {safe_repr(supervisor)}: pass a handle or an actor's id")
    if is_supervisor(loop, actor):
        raise InvalidArgument(
            f"supervisor is {safe_repr(supervisor)}, which starts its children itself: give it a ChildSpec, with child(...).of(...)"
        )
    return actor
