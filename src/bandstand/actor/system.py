"""The loop with typed actors: `bandstand.core.Loop`, plus `spawn` for actor classes.

Options have their own call, `loop.options(name="a").spawn(Counter, start=10)`, so that they never clash with the arguments of a
user's constructor.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from inspect import iscoroutine, iscoroutinefunction
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, final

from bandstand import core
from bandstand.actor.child_ref import child_handle
from bandstand.actor.context_vars import ContextCarrier, Envelope, Tracer
from bandstand.actor.declaration import check_instance, check_is_behavior, checked_actor_class
from bandstand.actor.dispatch import Method, dispatch_message
from bandstand.actor.handle import Handle, attach_handle, refresh, with_ref
from bandstand.actor.reentrancy import Reentrancy
from bandstand.actor.reply import UNSET_TIMEOUT, AskTable, checked_ask_ms
from bandstand.actor.timers import DeferredCall
from bandstand.actor.wait_graph import WaitFor, Waits
from bandstand.core import (
    ActorId,
    ActorStatus,
    Behavior,
    Clock,
    ExitReason,
    LoopConfig,
    Overflow,
    Unhandled,
)
from bandstand.core.crash_report import TEXT_LIMIT, describe_data, name_of_behavior
from bandstand.core.reporter import describe_message
from bandstand.errors import InvalidArgumentError, StartError
from bandstand.errors.formatting import safe_repr, shorten, single_line, type_name
from bandstand.errors.validation import Seconds
from bandstand.supervision import Spawnable

if TYPE_CHECKING:
    from bandstand.actor.actor import BaseActor
    from bandstand.actor.child_queue import ChildQueue
    from bandstand.actor.child_ref import ChildRef
    from bandstand.actor.handle import StableRef
    from bandstand.core import Context
    from bandstand.supervision import Overseer

__all__ = ("ActorSystem", "AskStatistics", "SpawnOptions", "Spawner", "run_on_start")

H = TypeVar("H")
P = ParamSpec("P")
State = TypeVar("State")

REJECT = Overflow.REJECT
# The watchdog's limit in a system without a config: far above a pause of the garbage collector, far below the 5 s of an ask.
STALL_TIMEOUT = 1.0


@dataclass(frozen=True, slots=True)
class AskStatistics:
    """A snapshot of the ask counters of a loop.

    `asked == answered + failed + cancelled + expired + pending`.
    """

    asked: int
    """Asks that were accepted."""
    answered: int
    """Asks that were answered."""
    failed: int
    """Asks that ended with an error: one that the handler declares, or the exit of the actor."""
    cancelled: int
    """Asks that were cancelled."""
    expired: int
    """Asks whose deadline has passed."""
    late: int
    """Answers that arrived after that, and were dropped."""
    unhandled: int
    """Messages without a handler: sent without the handle, or not handled in the current state of a machine."""

    @property
    def pending(self) -> int:
        """Asks that have not ended."""
        return self.asked - self.answered - self.failed - self.cancelled - self.expired


class ActorSystem(core.Loop):
    """A single-threaded loop of actors, typed ones and raw ones.

    Args:
        config: its limits; None for the defaults, with a watchdog that reports an actor which blocks the thread for longer than 1 s.
        clock: where its time comes from; None for the machine's monotonic clock.
        carry_context: whether a handler sees the context variables that were set where the message was sent. Only a context that
            differs from the loop's own travels with a message.
    """

    def __init__(
        self, config: LoopConfig | None = None, *, clock: Clock | None = None, carry_context: bool = True
    ) -> None:
        if config is None and clock is None:
            config = LoopConfig(stall_timeout=STALL_TIMEOUT)
        super().__init__(config, clock=clock)
        self.ask_table = AskTable()
        self.ask_table.reentrancy = Reentrancy(self)
        # The messages that wait for supervised children which are being restarted. Entries are removed when these start.
        self.child_queues: dict[ChildRef, ChildQueue] = {}
        self._defaults = SpawnOptions(self)
        self._carries_context = carry_context
        self._set_carrier(None)
        self.kernel.reporter.describe = _describe
        self.kernel.reporter.describe_call = _describe_call
        self.kernel.reporter.describe_class = _describe_class
        self.kernel.reporter.describe_kind = _describe_kind
        self.kernel.reporter.unwrap = _unwrap

    # -- spawning ------------------------------------------------------------------------------------------------------

    # One signature, and not one of a behavior besides: with overloads, mypy cannot say which argument of a constructor is wrong.
    def spawn(self, kind: Callable[P, Spawnable[H]], /, *args: P.args, **kwargs: P.kwargs) -> H:  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]
        """Make an actor of a class, with these arguments for its constructor, and start it. Return its handle.

        Use `options` to give it a name and the like. `spawn_raw` starts a raw behavior. This method starts it too, for code that was written for any
        `bandstand.core.Loop`.

        Raises:
            StartError: its `on_start` has failed, so the actor has ended.
            InvalidArgumentError, MaxActorsError, OutOfMemoryError, LoopClosedError, WrongThreadError: as for a raw actor.
        """
        handle: Any
        if isinstance(kind, type):
            handle = self.start_actor(kind, args, kwargs, self._defaults)
        elif hasattr(kind, "__origin__"):
            # A generic class with its type arguments.
            handle = self.start_actor(checked_actor_class(kind), args, kwargs, self._defaults)
        else:
            spawn_raw: Any = self.spawn_raw
            handle = spawn_raw(kind, *args, **kwargs)
        return handle  # type: ignore[no-any-return]  # a handle has the type of its class

    def spawn_raw(
        self,
        behavior: Behavior[State],
        state: State = None,  # type: ignore[assignment]  # as for `Loop.spawn`
        *,
        name: str | None = None,
        mailbox_cap: int | None = None,
        supervisor: ActorId | None = None,
        overflow: Overflow = Overflow.REJECT,
    ) -> ActorId:
        """Start an actor whose behavior is a function, as `bandstand.core.Loop.spawn` does. Return its id.

        Raises:
            InvalidArgumentError: the behavior is an actor class, or is not a function of (ctx, data).
            MaxActorsError, OutOfMemoryError, NoSuchActorError, LoopClosedError, WrongThreadError: as for `bandstand.core.Loop.spawn`.
        """
        check_is_behavior(behavior)
        return super().spawn(
            behavior,
            state,
            name=name,
            mailbox_cap=mailbox_cap,
            supervisor=supervisor,
            overflow=overflow,
        )

    def options(
        self,
        *,
        name: str | None = None,
        mailbox: int | None = None,
        overflow: Overflow = Overflow.REJECT,
        ask_timeout: Seconds | None = UNSET_TIMEOUT,
        supervisor: object = None,
    ) -> Spawner:
        """Set options for a spawn, apart from the arguments of a constructor: `loop.options(name="a").spawn(Counter, 10)`.

        Args:
            name: for logs, errors and the tree. It need not be unique.
            mailbox: how many messages of users may wait in each lane of its mailbox; None for the loop's default.
            overflow: what to do with a message that meets a full lane.
            ask_timeout: how long asks of it wait; None for no limit. The default is the class's.
            supervisor: a handle or an actor id: the actor that gets a `ChildExit` when this one ends.

        Raises:
            InvalidArgumentError: an option is invalid.
        """
        options = SpawnOptions(
            self,
            name=name,
            mailbox=mailbox,
            overflow=overflow,
            ask_timeout=ask_timeout,
            supervisor=supervisor,
        )
        return Spawner(self, options)

    def start_actor(
        self, kind: Any, arguments: tuple[Any, ...], named: dict[str, Any], options: SpawnOptions
    ) -> Handle:
        """Make an object of a class, and an actor of the object. Return its handle. `spawn` and `Spawner.spawn` call this."""
        kernel = self.kernel
        kernel.check_open()
        is_plain = getattr(kind, "__actor_is_plain__", None)
        if is_plain is None:
            kind = checked_actor_class(kind)
        instance = kind(*arguments, **named)
        if not is_plain or options.parent is not None:
            check_instance(kind, instance)
            return _start_in_steps(self, instance, options)
        # The class has no hooks, so one step is enough.
        policy = None if options.overflow is REJECT else options.overflow
        # In the log and in the tree, an actor without a name has the name of its class.
        name = options.name or kind.__name__
        supervisor = options.exit_target() if options.has_exit_target else None
        actor = kernel.actors.spawn(dispatch_message, instance, name, options.cap, policy, supervisor, None)
        return attach_handle(self, instance, actor, options.name, options.ask_ms)

    # -- what users can look at ----------------------------------------------------------------------------------------

    def ask_statistics(self) -> AskStatistics:
        """Return a frozen snapshot of the ask counters. Loop thread only."""
        self.kernel.check_thread()
        return AskStatistics(**self.ask_table.counts())

    def waits(self) -> Waits:
        """Return which actors wait in their turn at this moment, for which actor, for what, and since when. Loop thread only.

        Asks from outside of all actors, and from background work, are not part of it: they block no actor.
        """
        self.kernel.check_thread()
        now = self.kernel.timers.elapsed_ms()
        names = {row[0]: row[1] for row in self.kernel.rows()}
        found: list[WaitFor] = []
        for asker, asker_name, reply in self.ask_table.edges():
            known: Any = reply
            target, name, what, asked_at = known.wait_info()
            if asker is not None:
                shown = names.get(target) or name
                found.append(
                    WaitFor(asker, asker_name, target, shown, what, max(0.0, now / 1000 - asked_at / 1e9))
                )
        return Waits(tuple(found))

    def set_tracer(self, tracer: Tracer | None) -> None:
        """Call `tracer` where messages of typed actors are sent, and where they are handled. None removes it."""
        self.kernel.check_thread()
        self._set_carrier(tracer)

    # -- for other packages --------------------------------------------------------------------------------------------

    def handle_at(
        self,
        kind: type[Any],
        ref: StableRef | None,
        *,
        name: str | None = None,
        ask_timeout: Seconds | None = UNSET_TIMEOUT,
        actor: ActorId | None = None,
    ) -> Handle:
        """Return a handle of a class.

        Args:
            kind: the actor class.
            ref: where to find the actor when the known one has exited; None for a handle of one actor.
            name: for display.
            ask_timeout: how long asks wait; None for no limit. The default is the class's.
            actor: the actor, which need not be of this class if it forwards the messages; None while there is none.
        """
        known = checked_actor_class(kind)
        kernel: Any = self.kernel if actor is None else actor.home
        loop: ActorSystem = kernel.loop
        ms = (
            known.__actor_ask_ms__
            if ask_timeout == UNSET_TIMEOUT
            else checked_ask_ms("ask_timeout", ask_timeout)
        )
        return known.__actor_schema__.handle(
            loop.kernel,
            ActorId(0, None, loop.kernel) if actor is None else actor,
            name,
            loop.ask_table,
            ms,
            ref,
        )

    def child_handle(self, root: Overseer, kind: Any, path: tuple[str, ...]) -> Handle:
        """Return a handle of a supervised child. Supervisors call this: see `HandleFactory`."""
        return child_handle(self, root, kind, path)

    def instance_of(self, actor: ActorId) -> Any:
        """Return the object of a typed actor; None if it has exited. Loop thread only."""
        return self.kernel.state_of(actor)

    def set_ref(self, actor: ActorId, ref: StableRef) -> None:
        """Give an actor's own handle, `self.me`, a `StableRef`, so that it stays valid over restarts."""
        instance: Any = self.kernel.state_of(actor)
        if instance is not None:
            object.__setattr__(instance, "__actor_handle__", with_ref(instance.__actor_handle__, ref))

    def allow_direct_calls(self) -> None:
        """Allow a message between actors of this loop to be a direct call where this makes no difference but in time."""
        self.kernel.inlines_calls = True

    def set_packing(self, pack: Callable[[Handle, Method, object], object]) -> None:
        """Set a function that makes what is sent from handle, method and arguments, on the sender's thread.

        It replaces the envelopes for context variables. An error it raises comes out of the call, and nothing is sent.
        """
        self._use_carrier(ContextCarrier(self.kernel.coroutines.home_context, False, None, pack))  # noqa: FBT003  # a C constructor

    def report_unhandled(self, data: object) -> None:
        """Report the current message as unhandled: it was sent without the handle."""
        _, actor, name, _ = self.kernel.current_message()
        assert actor is not None
        self.events.tell(Unhandled(actor, name, data, _describe(data, 0)))

    def _set_carrier(self, tracer: Tracer | None) -> None:
        if tracer is None and not self._carries_context:
            self._use_carrier(None)
        else:
            self._use_carrier(
                ContextCarrier(self.kernel.coroutines.home_context, self._carries_context, tracer)
            )

    def _use_carrier(self, carrier: ContextCarrier | None) -> None:
        self.kernel.carrier = carrier
        self.kernel.wraps_every_message = carrier is not None and carrier.wraps_every_message


def _unwrap(data: object) -> object:
    """Return the data of a message as it was sent, without its envelope."""
    return data.data if isinstance(data, Envelope) else data


def _describe(data: object, tag: object) -> str:
    """Describe a message to a typed actor for people: by its method."""
    data = _unwrap(data)
    if isinstance(data, DeferredCall):
        return data.description
    return f"{tag.owner}.{tag.name}()" if isinstance(tag, Method) else describe_message(data, tag)


def _describe_call(data: object, tag: object) -> str:
    """Describe a message to a typed actor with its arguments, in one line."""
    data = _unwrap(data)
    if isinstance(data, DeferredCall) or not isinstance(tag, Method):
        return _describe(data, tag) if isinstance(data, DeferredCall) else describe_data(data, tag)
    if tag.limit:
        # It takes a list, and this is the first item.
        return f"{tag.owner}.{tag.name}([{describe_data(data, tag)}, ...])"
    positional, named = tag.arguments(data)
    shown = [safe_repr(each, TEXT_LIMIT) for each in positional]
    shown += [f"{name}={safe_repr(each, TEXT_LIMIT)}" for name, each in named.items()]
    return f"{tag.owner}.{tag.name}({single_line(shorten(', '.join(shown), TEXT_LIMIT))})"


def _describe_class(behavior: object, state: object) -> str:
    """Return the class of a typed actor; empty for a raw one, and for one that has not started."""
    return "" if behavior is not dispatch_message or state is None else type_name(state, qualified=True)


def _describe_kind(behavior: object, state: object) -> str:
    """Return the class of a typed actor, or the behavior of a raw one; empty for a typed actor that has not started."""
    return _describe_class(behavior, state) if behavior is dispatch_message else name_of_behavior(behavior)


# -- options -----------------------------------------------------------------------------------------------------------


@final
class SpawnOptions:
    """Checked options of a spawn."""

    __slots__ = ("ask_ms", "cap", "has_exit_target", "name", "overflow", "parent", "supervisor")

    def __init__(
        self,
        loop: ActorSystem,
        *,
        name: str | None = None,
        mailbox: int | None = None,
        overflow: Overflow = Overflow.REJECT,
        ask_timeout: Seconds | None = UNSET_TIMEOUT,
        supervisor: object = None,
        parent: BaseActor | None = None,
    ) -> None:
        if name is not None and not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers without types
            raise InvalidArgumentError(f"name is {safe_repr(name)}: pass a string")
        if not isinstance(overflow, Overflow):  # pyright: ignore[reportUnnecessaryIsInstance]  # same
            raise InvalidArgumentError(f"overflow is {safe_repr(overflow)}: pass a member of Overflow")
        self.name = name
        self.cap = loop.kernel.actors.cap_for(mailbox)
        self.overflow = overflow
        # None is the class's default.
        self.ask_ms = None if ask_timeout == UNSET_TIMEOUT else checked_ask_ms("ask_timeout", ask_timeout)
        self.supervisor = _checked_supervisor(loop, supervisor)
        # The actor that spawns a child.
        self.parent = parent
        # False for most actors.
        self.has_exit_target = parent is not None or self.supervisor is not None

    def exit_target(self) -> ActorId | None:
        """Return the actor that gets the `ChildExit`; for a handle, its current incarnation."""
        if self.parent is not None:
            target: ActorId = self.parent.__actor_handle__.__handle_actor__
            return target
        if isinstance(self.supervisor, Handle):
            refresh(self.supervisor)
            return self.supervisor.__handle_actor__
        return self.supervisor


def _checked_supervisor(loop: ActorSystem, supervisor: object) -> ActorId | Handle | None:
    if supervisor is None:
        return None
    if isinstance(supervisor, Handle):
        return supervisor
    actor = supervisor
    if not isinstance(actor, ActorId):
        raise InvalidArgumentError(f"supervisor is {safe_repr(supervisor)}: pass a handle or an actor's id")
    if loop.kernel.actors.is_supervisor(actor):
        raise InvalidArgumentError(
            f"supervisor is {safe_repr(supervisor)}, which starts its children itself: give it a ChildSpec, with child(...).of(...)"
        )
    return actor


@final
class Spawner:
    """Spawns with options. `ActorSystem.options` and `Actor.options` return it; it can be used several times."""

    __slots__ = ("_loop", "_options")

    def __init__(self, loop: ActorSystem, options: SpawnOptions) -> None:
        self._loop = loop
        self._options = options

    def spawn(self, kind: Callable[P, Spawnable[H]], /, *args: P.args, **kwargs: P.kwargs) -> H:
        """Make an actor of a class, with these arguments for its constructor, and start it. Return its handle.

        The constructor runs inside this call; if it raises, there is no actor. `on_start` is the actor's first turn, and also
        runs inside this call if it is a plain function.

        Raises:
            StartError: `on_start` has failed; its error is the cause. An async one that fails later ends the actor.
            InvalidArgumentError: it is not an actor class.
            MaxActorsError, OutOfMemoryError, LoopClosedError, WrongThreadError: as for `ActorSystem.spawn`.
        """
        handle: Any = self._loop.start_actor(checked_actor_class(kind), args, kwargs, self._options)
        return handle  # type: ignore[no-any-return]  # a handle has the type of its class


# -- starting ----------------------------------------------------------------------------------------------------------


def _start_in_steps(loop: ActorSystem, instance: BaseActor, options: SpawnOptions) -> Handle:
    """Make an actor of an object whose class has hooks or async methods."""
    kind = type(instance)
    parent = options.parent
    handles: list[Handle] = []

    def init(ctx: Context[Any]) -> Any:
        handles.append(attach_handle(loop, instance, ctx.self_id, options.name, options.ask_ms))
        return run_on_start(loop, instance)

    actor = loop.kernel.actors.spawn_child(
        dispatch_message,
        init,
        name=options.name or kind.__name__,
        cap=options.cap,
        supervisor=options.exit_target(),
        context=copy_context(),
        overflow=options.overflow,
    )
    if loop.status(actor) >= ActorStatus.STOPPED:
        error = loop.kernel.actors.take_init_error()
        if error is not None:
            if parent is not None:
                # The parent gets the StartError, and no ChildExit.
                parent.__actor_ensure_children__().ignore_exit(actor)
            what = f"{kind.__qualname__} {options.name or '(unnamed)'}"
            raise StartError.of(what, options.name or kind.__qualname__, error, "its on_start() raised ")
    elif parent is not None:
        parent.__actor_ensure_children__().add(actor, options.name or kind.__name__)
    if not handles:
        # An observer has stopped it before its first turn.
        handles.append(attach_handle(loop, instance, actor, options.name, options.ask_ms))
    return handles[0]


def run_on_start(loop: ActorSystem, instance: BaseActor) -> Any:
    """Call an actor's `on_start`. Return the actor's object, which is its state, or a coroutine that returns it."""
    if iscoroutinefunction(instance.on_start):
        # Called inside the coroutine, so that none is left unawaited if that never starts.
        return _await_on_start(loop, instance, None)
    result = instance.on_start()
    if result is None:
        return _started(loop, instance)
    if not hasattr(result, "__await__"):
        raise InvalidArgumentError(
            f"{type(instance).__qualname__}.on_start() returned {safe_repr(result)}: it must return nothing"
        )
    return _await_on_start(loop, instance, result)


async def _await_on_start(loop: ActorSystem, instance: BaseActor, result: Any) -> BaseActor:
    await (instance.on_start() if result is None else result)
    return _started(loop, instance)


def _started(loop: ActorSystem, instance: BaseActor) -> BaseActor:
    after_start = type(instance).__actor_after_start__
    if after_start is not None:
        after_start(instance)
    if type(instance).__actor_has_on_stop__:
        loop.kernel.actors.set_exit_hook(
            instance.__actor_handle__.__handle_actor__, partial(_run_on_stop, instance)
        )
    return instance


def _run_on_stop(instance: BaseActor, reason: ExitReason, cause: BaseException | None) -> Any:
    result = instance.on_stop(reason, cause)
    return result if result is None or iscoroutine(result) else _await(result)


async def _await(result: Any) -> None:
    await result
