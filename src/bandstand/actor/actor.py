"""Actors as classes.

    class Counter(Actor):
        def __init__(self, start: int = 0) -> None:
            self.total = start

        @tell
        def add(self, n: int) -> None:
            self.total += n

        @ask
        def value(self) -> int:
            return self.total

An instance is the state of one actor, and only that actor uses it. `loop.spawn(Counter, 10)` returns a *handle* instead of the
instance: it has the declared methods, which send messages, and the few methods of `Actor` that make sense from outside.

`BaseActor` is everything actors have in common. Derive from `Actor`, which declares messages on the class itself, from
`Implements[...]`, whose messages are declared by an interface, from `MessageActor[...]` or from `Machine`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, ClassVar, ParamSpec, Self, TypeVar, final

from bandstand.actor.background import Work, checked_awaitable, start_work, work_name
from bandstand.actor.bound_methods import End, kill_actor, stop_actor
from bandstand.actor.declaration import (
    RESERVED_PREFIXES,
    TOOLS,
    ActorSchema,
    check_hook,
    checked_actor_class,
    read_class,
)
from bandstand.actor.handle import id_of, stop_local
from bandstand.actor.reply import UNSET_TIMEOUT, checked_ask_ms
from bandstand.actor.system import Spawner, SpawnOptions
from bandstand.actor.timers import ActorTarget, Alarm, DeferredCall, Ticker, start_alarm
from bandstand.core import ChildExit, ChildStart, Down, Exit, ExitReason, IoEvent, Overflow
from bandstand.core.messages import ChildSummary
from bandstand.errors import ChildFailedError, DeclarationError, LoopBusyError
from bandstand.errors.validation import Seconds
from bandstand.supervision import Spawnable

if TYPE_CHECKING:
    from bandstand.core import ActorId

__all__ = (
    "DEFAULT_ASK_TIMEOUT",
    "Actor",
    "BaseActor",
    "OwnedChildren",
    "Signal",
    "has_park_hook",
    "own_handle",
)

H = TypeVar("H")
P = ParamSpec("P")
R = TypeVar("R")

Signal = ChildExit | ChildStart | Down | Exit | IoEvent
"""A message from the system to an actor: see `Actor.on_signal`."""

DEFAULT_ASK_TIMEOUT = 5.0

# The modules of the classes that users derive from. Their own names are not checked.
_OWN_MODULES = frozenset(
    f"bandstand.actor.{module}" for module in ("actor", "interface", "messages", "state_machine")
)
# Hooks, with the number of their arguments besides self.
_HOOK_ARGUMENTS = {"describe_state": 0, "on_start": 0, "on_stop": 2, "on_signal": 1, "on_park": 0}


class BaseActor:
    """What all actor classes have: hooks to override and tools to use. Derive from `Actor` or `Implements`."""

    # Users choose the names in their classes, so all state of ours has special names that start with `__actor_`.
    __slots__ = ("__actor_children__", "__actor_handle__")

    __actor_schema__: ClassVar[ActorSchema]
    """The messages of the class; missing while a generic class leaves them open."""
    __actor_ask_ms__: ClassVar[int] = 5000
    """The deadline of asks through handles of this class; -1 for none."""
    __actor_is_plain__: ClassVar[bool]
    """Whether a spawn has nothing to do but to create the object: there are no hooks and no coroutines."""
    __actor_has_on_stop__: ClassVar[bool] = False
    __actor_after_start__: ClassVar[Callable[[Any], None] | None] = None
    """Called after `on_start`, as part of the start; None if there is nothing to do."""

    __actor_handle__: Any
    """The actor's own handle; missing until the object runs as an actor."""
    __actor_children__: OwnedChildren | None

    def __init_subclass__(cls, *, ask_timeout: Seconds | None = UNSET_TIMEOUT, **options: Any) -> None:
        super().__init_subclass__(**options)
        if cls.__module__ not in _OWN_MODULES:
            _check_reserved_names(cls)
        if ask_timeout != UNSET_TIMEOUT:
            cls.__actor_ask_ms__ = checked_ask_ms(f"class {cls.__qualname__}: ask_timeout", ask_timeout)
        schema = cls.__actor_declare__()
        if schema is None:
            return
        for hook, count in _HOOK_ARGUMENTS.items():
            check_hook(cls, hook, count)
        overridden = {hook for hook in _HOOK_ARGUMENTS if getattr(cls, hook) is not getattr(BaseActor, hook)}
        is_created_plainly = cls.__new__ is object.__new__ and type(cls).__call__ is type.__call__
        handle_methods = (*schema.handle_methods.values(), *schema.messages.values())
        cls.__actor_schema__ = schema
        cls.__actor_has_on_stop__ = "on_stop" in overridden
        cls.__actor_is_plain__ = (
            is_created_plainly
            and not overridden & {"on_start", "on_stop", "on_signal"}
            # A coroutine needs the context variables of the spawn.
            and not any(handle_method.method.awaits for handle_method in handle_methods)
            and cls.__actor_after_start__ is None
        )

    @classmethod
    def __actor_declare__(cls) -> ActorSchema | None:
        """Read the declaration of the class; None if classes derived from it will complete it."""
        return None

    # -- hooks ---------------------------------------------------------------------------------------------------------

    def on_start(self) -> Any:
        """Called once before the first message; may be `async def`. `self.me` exists here, unlike in `__init__`.

        Messages wait until it has returned. If it raises, the actor ends with that error and `on_stop` is not called.
        Under a supervisor, `on_start` and `__init__` may raise `IgnoreChild`: the supervisor continues without this child.
        """

    def on_stop(self, reason: ExitReason, cause: BaseException | None, /) -> Any:
        """Called once when the actor ends for any reason, unless it is killed; may be `async def`.

        The actor accepts no messages any more. An exception raised here is logged and changes nothing.
        """

    def on_park(self) -> None:
        """Called in a pod when its actors have handled all their messages, before the pod waits for more."""

    def on_signal(self, signal: Signal, /) -> Any:
        """Called with messages of the system, before all user messages; may be `async def`.

        A signal is the `ChildExit` of a child this actor has started, the `Down` of an actor it monitors, the `Exit` of an actor it is
        linked to, or an `IoEvent` of a descriptor it watches. The default fails this actor when a child ends abnormally.

        Raises:
            ChildFailedError: a child has ended abnormally.
        """
        if isinstance(signal, ChildExit) and signal.reason is not ExitReason.NORMAL:
            raise ChildFailedError(
                f"child {signal.child!r} of {self.__actor_handle__!r} has ended with reason {signal.reason.name}: override on_signal() "
                f"to handle this, or start the child under a supervisor"
            ) from signal.cause

    def describe_state(self) -> object:
        """Return a short text about the state, for the report of a crash; None for none.

        It is called when the actor has failed and the report is logged. It must be a plain method. The state may be half changed, and what
        this method raises is not propagated: the report says that it failed. The text is cut after 300 characters.
        """
        return None

    # -- identity and end ----------------------------------------------------------------------------------------------

    @property
    def me(self) -> Any:
        """The actor's own handle, to pass to others or to send messages to itself.

        Raises:
            LoopBusyError: the object does not run as an actor, or not yet, as in `__init__`.
        """
        return own_handle(self)

    def __actor_id__(self) -> ActorId:
        """Return the id of the actor, for functions that take any kind of actor, such as `Scope.adopt`."""
        return id_of(own_handle(self))

    def stop(self, *, drain: bool = False) -> None:
        """End the actor with reason `NORMAL`: at once, or inside the actor after its current handler.

        A suspended handler, also the one that calls this, is cancelled at the point where it waits, or at its next await.

        Messages that wait become dead letters, and asks among them get `TargetEndedError`. With `drain` the actor first handles the messages
        that wait, and accepts no new ones from now on, not even from itself; it does not wait for background work. On a handle this
        can be called from any thread. Stopping an actor that has ended does nothing. An actor under a supervisor is restarted if
        its restart policy says so.
        """
        handle = own_handle(self)
        # An actor that stops itself is by far the most common case.
        if drain or not stop_local(handle):
            stop_actor(handle, drain=drain)

    def kill(self) -> None:
        """End the actor at once, with reason `FAIL`: a running coroutine is cancelled, and `on_stop` is not called."""
        kill_actor(own_handle(self))

    @property
    def ended(self) -> End:
        """`await handle.ended()` waits until the actor has ended and returns the reason. Also `blocking` and `future`."""
        raise LoopBusyError(
            "an actor cannot wait for its own end: await ended() on a handle, outside of the actor"
        )

    # -- timers and background work ------------------------------------------------------------------------------------

    def after(self, delay: Seconds, method: Callable[P, Any], /, *args: P.args, **kwargs: P.kwargs) -> Alarm:
        """Call `method(*args)` as a message after `delay` seconds: on the lane of a declared method, else on DATA.

        The call is never early. It is dropped when the actor ends, and `cancel()` cancels it.
        """
        target = ActorTarget(own_handle(self), self.__actor_schema__)
        return start_alarm(target, delay, DeferredCall(method, args, kwargs))

    def every(
        self, period: Seconds, method: Callable[P, Any], /, *args: P.args, **kwargs: P.kwargs
    ) -> Ticker:
        """Call `method(*args)` every `period` seconds at a fixed rate. An actor that lags behind skips the ticks it missed."""
        return _start_ticker(self, period, DeferredCall(method, args, kwargs), is_fixed_rate=True)

    def every_after(
        self, period: Seconds, method: Callable[P, Any], /, *args: P.args, **kwargs: P.kwargs
    ) -> Ticker:
        """Call `method(*args)` repeatedly, each time `period` seconds after the previous call has finished."""
        return _start_ticker(self, period, DeferredCall(method, args, kwargs), is_fixed_rate=False)

    def background(
        self,
        work: Awaitable[R],
        then: Callable[[R], Any] | None = None,
        failed: Callable[[Exception], Any] | None = None,
    ) -> Work:
        """Await something beside the messages: a coroutine, a reply, `asyncio.to_thread(...)`.

        On success, `then(result)` is called as a message of this actor. If the work raises, `failed(error)` is called; without
        `failed`, the actor fails with the error. The work is cancelled when the actor ends. A thread cannot be cancelled, but its
        result is dropped.
        """
        handle = own_handle(self)
        target = ActorTarget(handle, self.__actor_schema__)
        piece = Work(target, checked_awaitable(work), then, failed)
        start_work(piece, target, self.__actor_ensure_children__(), work_name(work), copy_context())
        return piece

    # -- children ------------------------------------------------------------------------------------------------------

    def spawn(self, kind: Callable[P, Spawnable[H]], /, *args: P.args, **kwargs: P.kwargs) -> H:
        """Start a child that ends with this actor: `self.spawn(Worker, 3)`, as `Loop.spawn`. Its exit is a signal."""
        # Not self.options: a user's attribute may have that name.
        return BaseActor.options(self).spawn(kind, *args, **kwargs)

    def options(
        self,
        *,
        name: str | None = None,
        mailbox: int | None = None,
        overflow: Overflow = Overflow.REJECT,
        ask_timeout: Seconds | None = UNSET_TIMEOUT,
    ) -> Spawner:
        """Set options for a child: `self.options(name="w").spawn(Worker, 3)`, as `Loop.options`."""
        loop = own_handle(self).__handle_kernel__.loop
        options = SpawnOptions(
            loop, name=name, mailbox=mailbox, overflow=overflow, ask_timeout=ask_timeout, parent=self
        )
        return Spawner(loop, options)

    def __actor_ensure_children__(self) -> OwnedChildren:
        """Return the children of this actor; the first call registers it as their parent."""
        children = self.__actor_children__
        if children is None:
            children = OwnedChildren()
            # object's own method: the class may define __setattr__, as a frozen dataclass does.
            object.__setattr__(self, "__actor_children__", children)
            handle = self.__actor_handle__
            handle.__handle_kernel__.actors.set_child_group(handle.__handle_actor__, children)
        return children

    # -- dispatch ------------------------------------------------------------------------------------------------------

    def __actor_receive__(self, data: Any, is_signal: bool) -> Any:
        """Handle a message that is not a method call: a signal, or something that was sent without the handle."""
        if not is_signal:
            handle = self.__actor_handle__
            handle.__handle_asks__.unhandled += 1
            handle.__handle_kernel__.loop.report_unhandled(data)
            return None
        if isinstance(data, ChildStart):
            return None
        if isinstance(data, ChildExit):
            children = self.__actor_children__
            if children is not None and not children.remove(data.child):
                return None
        return self.on_signal(data)


class Actor(BaseActor):
    """Derive from this class, and declare messages with `@tell` and `@ask`.

    `class Slow(Actor, ask_timeout=30)` sets the deadline of asks, which is 5 s by default; None for no deadline.

    Raises:
        DeclarationError: when a class is created that contradicts itself.
    """

    if TYPE_CHECKING:
        # A handle has the type of its class.
        @property
        def me(self) -> Self:
            """The actor's own handle."""
            ...

    @classmethod
    def __actor_declare__(cls) -> ActorSchema | None:
        return read_class(cls)


@final
class OwnedChildren:
    """The children that an actor has started itself. They end when their parent ends, the last one first."""

    __slots__ = ("_names", "_unreported")

    def __init__(self) -> None:
        self._names: dict[ActorId, str] = {}
        # Children whose exit is not passed to `on_signal`.
        self._unreported: set[ActorId] = set()

    def add(self, child: ActorId, name: str, *, reports_exit: bool = True) -> None:
        """Add a child that was started."""
        self._names[child] = name
        if not reports_exit:
            self._unreported.add(child)

    def ignore_exit(self, child: ActorId) -> None:
        """Do not pass the exit of this child to `on_signal`."""
        self._unreported.add(child)

    def remove(self, child: ActorId) -> bool:
        """Remove a child that has ended; return whether its exit is passed to `on_signal`."""
        self._names.pop(child, None)
        if child not in self._unreported:
            return True
        self._unreported.remove(child)
        return False

    def take_all(self, children: list[ActorId]) -> None:
        """Append all children to a list, to be ended with their parent."""
        children.extend(self._names)
        self._names.clear()

    def kill_cause(self) -> None:
        """Return None: children are stopped, not killed, so that a running coroutine can handle its cancellation."""

    def keep(self, actor: ActorId, mailbox: object) -> None:
        """Do nothing: these children are never restarted, so their mailboxes are not kept."""

    def members(self) -> Sequence[ChildSummary]:
        """Return the children, for the tree."""
        return [ChildSummary(name, child, 0, "") for child, name in self._names.items()]


def own_handle(actor: BaseActor) -> Any:
    """Return the handle of an actor, given its instance.

    Raises:
        LoopBusyError: the object does not run as an actor, or not yet.
    """
    try:
        return actor.__actor_handle__
    except AttributeError:
        raise LoopBusyError(
            f"this {type(actor).__qualname__} does not run as an actor: it has a handle from on_start() on"
        ) from None


def _check_reserved_names(cls: type[BaseActor]) -> None:
    names = set(vars(cls))
    if isinstance(vars(cls).get("__actor_schema__"), ActorSchema):
        # The class was read before and is created once more, as `@dataclass(slots=True)` does: these names are ours.
        names -= {name for name in names if name.startswith("__actor_")}
    taken = sorted(
        name
        for name in names
        if name in TOOLS or (name.startswith(RESERVED_PREFIXES) and name != "__actor_id__")
    )
    if taken:
        raise DeclarationError(
            f"{cls.__qualname__}.{taken[0]} is a name that every actor has for its own use: choose another name"
        )


def _start_ticker(actor: BaseActor, period: Seconds, call: DeferredCall, *, is_fixed_rate: bool) -> Ticker:
    target = ActorTarget(own_handle(actor), actor.__actor_schema__)
    return Ticker(target, period, call, is_fixed_rate=is_fixed_rate)


def has_park_hook(kind: type[Any]) -> bool:
    """Return whether actors of a class override `Actor.on_park`."""
    return checked_actor_class(kind).on_park is not BaseActor.on_park
