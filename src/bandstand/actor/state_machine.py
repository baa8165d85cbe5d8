"""State machines: actors whose handlers depend on their state.

    class Door(Machine):
        @tell
        def push(self) -> None: ...

        closed = State()
        opened = State(timeout=5)

        @closed.on(push)
        def open(self) -> None:
            self.become(Door.opened)

        @opened.timeout
        def close(self) -> None:
            self.become(Door.closed)

A handler that is decorated with `closed.on(push)` must have the signature of `push`: type checkers verify this, and so does the
class when it is created.

The declaration of a class is read when the class is created, into a `StateTable`: for each state and message there is a handler, or
the message is postponed or ignored. Each message of the class becomes one function that looks up the table and calls the handler.
So a machine is an ordinary actor, and message delivery knows nothing of states.

A state's decorators record what they see in the body of the class under construction, not on the state. So a class derived from
`Door` can add handlers for `Door.closed` without changing `Door`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from inspect import iscoroutine, iscoroutinefunction, isfunction, signature, unwrap
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Concatenate,
    Generic,
    Literal,
    NamedTuple,
    ParamSpec,
    TypeVar,
    final,
    overload,
)

from bandstand.actor.actor import Actor, BaseActor, own_handle
from bandstand.actor.declaration import ActorSchema, declared_methods, read_class
from bandstand.actor.decorators import DeclaredAsk, DeclaredMethod, DeclaredTell
from bandstand.actor.introspection import check_same_signature, is_empty, parameters_of
from bandstand.actor.stash import Stash
from bandstand.core.events import Unhandled
from bandstand.errors import (
    ActorFailedError,
    DeclarationError,
    InvalidArgumentError,
    InvalidTransitionError,
    NotInThisStateError,
)
from bandstand.errors.formatting import safe_repr, safe_str
from bandstand.errors.validation import Seconds, to_seconds

if TYPE_CHECKING:
    from bandstand.actor.timers import Alarm

__all__ = (
    "MAX_PUSHED",
    "Machine",
    "MachineDefinition",
    "MachineRuntime",
    "State",
    "StateAction",
    "StateHandlerDecorator",
    "StateStack",
    "StateTable",
)

F = TypeVar("F", bound=Callable[..., Any])
P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")

MAX_PUSHED = 32
"""The maximum number of states a machine remembers to return to."""
MACHINE_NAMES = frozenset({"become", "state", "unbecome"})
STATE_METHODS = "__bandstand_states__"
"""The name in a class body under which the decorators of states record their methods."""


# -- declaring states --------------------------------------------------------------------------------------------------


@final
class State:
    """One state of a `Machine`. Machines start in the first state of their class, unless another one is `initial`.

    Args:
        initial: whether machines start here.
        timeout: how long a machine may stay here before the method decorated with `@state.timeout` is called; None for no limit.
        postpones: messages that are kept while a machine is in this state, and handled after the next transition.
        ignores: one-way messages that are dropped in this state.

    Raises:
        DeclarationError: an argument is invalid.
    """

    __slots__ = ("ignores", "initial", "max_stay", "name", "postpones")

    def __init__(
        self,
        *,
        initial: bool = False,
        timeout: Seconds | None = None,
        postpones: Iterable[DeclaredMethod] = (),
        ignores: Iterable[DeclaredMethod] = (),
    ) -> None:
        self.name = ""
        """Its name in the class."""
        self.initial = initial
        # In seconds. `timeout` is the decorator.
        self.max_stay = (
            None
            if timeout is None
            else to_seconds("State: timeout", timeout, otherwise=", or None for no limit")
        )
        self.postpones = tuple(postpones)
        self.ignores = tuple(ignores)
        for option, messages in (("postpones", self.postpones), ("ignores", self.ignores)):
            for message in messages:
                if not isinstance(message, DeclaredMethod):  # pyright: ignore[reportUnnecessaryIsInstance]  # untyped callers
                    raise DeclarationError(
                        f"State: {option} contains {safe_repr(message)}, which is not a message: pass declared methods, (push,)"
                    )

    def __set_name__(self, owner: type, name: str) -> None:
        if self.name and self.name != name:
            raise DeclarationError(
                f"{owner.__qualname__}.{name} is {self!r} under another name: a state has one name"
            )
        self.name = name

    @overload
    def on(self, message: DeclaredTell[P], /) -> StateHandlerDecorator[P, None]: ...
    @overload
    def on(self, message: DeclaredAsk[P, R], /) -> StateHandlerDecorator[P, R]: ...
    def on(self, message: Any, /) -> StateHandlerDecorator[..., Any]:
        """Decorate the method that handles a message in this state: `@closed.on(push)`.

        Raises:
            DeclarationError: the argument is not a message, or is a batch method.
        """
        if not isinstance(message, DeclaredMethod):
            raise DeclarationError(
                f"{self!r}.on: {safe_repr(message)} is not a message: pass a declared method"
            )
        if message.batch_limit:
            raise DeclarationError(
                f"{self!r}.on: {safe_repr(message)} handles batches, and does so in all states: use self.state in that method instead"
            )
        return StateHandlerDecorator(self, message)

    def timeout(self, function: F, /) -> F:
        """Decorate the method, `def` or `async def`, that is called when a machine has been in this state for its `timeout`."""
        _record(2, self, "timeout", None, function)
        return function

    def enter(self, function: F, /) -> F:
        """Decorate the method that is called when a machine enters this state: a plain `def`, part of the transition."""
        _record(2, self, "enter", None, function)
        return function

    def leave(self, function: F, /) -> F:
        """Decorate the method that is called when a machine leaves this state: a plain `def`, part of the transition."""
        _record(2, self, "leave", None, function)
        return function

    def __repr__(self) -> str:
        return f"<state {self.name or '(not named yet)'}>"


@final
class StateHandlerDecorator(Generic[P, R]):
    """The decorator that `state.on(message)` returns."""

    __slots__ = ("_message", "_state")

    def __init__(self, state: State, message: DeclaredMethod) -> None:
        self._state = state
        self._message = message

    @overload
    def __call__(
        self, function: Callable[Concatenate[S, P], Coroutine[Any, Any, R]], /
    ) -> Callable[Concatenate[S, P], Coroutine[Any, Any, R]]: ...
    @overload
    def __call__(self, function: Callable[Concatenate[S, P], R], /) -> Callable[Concatenate[S, P], R]: ...
    def __call__(self, function: Callable[..., Any], /) -> Callable[..., Any]:
        """Declare a handler; it remains a plain method."""
        _record(2, self._state, "on", self._message, function)
        return function


Role = Literal["enter", "leave", "on", "timeout"]


class StateMethod(NamedTuple):
    """A method that was decorated for a state."""

    state: State
    role: Role
    message: DeclaredMethod | None
    function: Callable[..., Any]


def _record(
    depth: int, state: State, role: Role, message: DeclaredMethod | None, function: Callable[..., Any]
) -> None:
    """Record a method in the body of the class under construction, whose frame is `depth` calls up."""
    body = sys._getframe(depth).f_locals  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # the class body
    if "__qualname__" not in body or "__module__" not in body:
        raise DeclarationError(
            f"{safe_repr(state)}: @{role} is used outside of a class: use it in the body of a Machine class"
        )
    if not isfunction(function):
        raise DeclarationError(
            f"{safe_repr(state)}: @{role} is on {safe_repr(function)}, which is not a plain method"
        )
    body.setdefault(STATE_METHODS, []).append(StateMethod(state, role, message, function))


# -- decisions ---------------------------------------------------------------------------------------------------------
# These are pure values: the machine asks them what to do, and acts.


class StateAction(Enum):
    """What to do with a message in a state."""

    HANDLE = 1
    """Call the handler of the state."""
    DEFAULT = 2
    """Call the declared method itself: the state has no handler, but the method has a body."""
    POSTPONE = 3
    """Keep the message until the state changes."""
    IGNORE = 4
    """Drop the message silently."""
    UNHANDLED = 5
    """Report the message as unhandled: the class does not say what to do."""


@dataclass(frozen=True, slots=True)
class StateStack:
    """The state of a machine, and the states it can return to."""

    state: str
    pushed: tuple[str, ...] = ()
    """The states to return to; the most recent one is last."""

    def become(self, state: str, *, push: bool) -> StateStack:
        """Return the stack after a transition; with `push`, the current state is remembered.

        Raises:
            InvalidTransitionError: too many states are remembered.
        """
        if not push:
            return StateStack(state, self.pushed)
        if len(self.pushed) >= MAX_PUSHED:
            raise InvalidTransitionError(
                f"{len(self.pushed)} states are pushed, the maximum: call unbecome() first, or become() without push"
            )
        return StateStack(state, (*self.pushed, self.state))

    def unbecome(self) -> StateStack:
        """Return the stack after a return to the most recently pushed state.

        Raises:
            InvalidTransitionError: no state is pushed.
        """
        if not self.pushed:
            raise InvalidTransitionError(
                f"there is no state to return to from {self.state!r}: it was not entered with push=True"
            )
        return StateStack(self.pushed[-1], self.pushed[:-1])


@dataclass(frozen=True, slots=True)
class StateTable:
    """What a machine class declares, by the names of its states and messages."""

    initial: str
    states: frozenset[str]
    handled: frozenset[tuple[str, str]]
    """Pairs of state and message for which the state has a handler."""
    postponed: frozenset[tuple[str, str]] = frozenset()
    ignored: frozenset[tuple[str, str]] = frozenset()
    defaults: frozenset[str] = frozenset()
    """Messages whose declared method has a body."""
    max_stays: Mapping[str, float] = field(default_factory=dict[str, float])
    """The timeouts of the states that have one."""

    def action(self, state: str, message: str) -> StateAction:
        """Return what to do with a message in a state."""
        if (state, message) in self.handled:
            return StateAction.HANDLE
        if (state, message) in self.postponed:
            return StateAction.POSTPONE
        if (state, message) in self.ignored:
            return StateAction.IGNORE
        return StateAction.DEFAULT if message in self.defaults else StateAction.UNHANDLED


# -- reading a class ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MachineDefinition:
    """The states, handlers and hooks of a machine class."""

    states: Mapping[str, State]
    table: StateTable
    handlers: Mapping[tuple[str, str], Callable[..., Any]]
    """By state and message."""
    hooks: Mapping[tuple[str, str], Callable[..., Any]]
    """By state and role: `enter`, `leave`, `timeout`."""
    async_messages: frozenset[str]
    """Messages with at least one handler that is a coroutine function."""


def _read_definition(cls: type, messages: Mapping[str, DeclaredMethod]) -> MachineDefinition:
    """Read the states of a class.

    Raises:
        DeclarationError: the class contradicts itself.
    """
    states = _read_states(cls)
    handlers: dict[tuple[str, str], Callable[..., Any]] = {}
    hooks: dict[tuple[str, str], Callable[..., Any]] = {}
    for base in reversed(cls.__mro__):
        taken: dict[tuple[str, str], str] = {}
        methods: list[StateMethod] = vars(base).get(STATE_METHODS, [])
        for method in methods:
            if states.get(method.state.name) is not method.state:
                if base is cls:
                    raise DeclarationError(
                        f"{cls.__qualname__}.{method.function.__name__} is for {method.state!r}, which is not a state of that class: it "
                        f"has {', '.join(states)}"
                    )
                # This class has replaced the state of its base.
                continue
            name = _handled_message(cls, method) if method.role == "on" else method.role
            key = (method.state.name, name)
            if key in taken:
                raise DeclarationError(
                    f"{cls.__qualname__} has two methods for {name} in state {key[0]}: {taken[key]} and {method.function.__name__}"
                )
            taken[key] = method.function.__name__
            if method.role == "on":
                _check_handler(cls, method, name, messages[name])
                handlers[key] = method.function
            else:
                _check_state_hook(cls, method)
                hooks[key] = method.function
    table = _make_table(cls, states, messages, handlers)
    for name, state in states.items():
        has_method = (name, "timeout") in hooks
        if state.max_stay is not None and not has_method:
            raise DeclarationError(
                f"{cls.__qualname__}.{name} has a timeout but no timeout method: decorate one with @{name}.timeout"
            )
        if state.max_stay is None and has_method:
            raise DeclarationError(
                f"{cls.__qualname__}.{name} has a timeout method but no timeout: declare State(timeout=...)"
            )
    functions: list[tuple[str, Callable[..., Any]]]
    functions = [(name, message.function) for name, message in messages.items()]
    functions += [(name, function) for (_, name), function in handlers.items()]
    async_messages = frozenset(name for name, function in functions if iscoroutinefunction(unwrap(function)))
    return MachineDefinition(states, table, handlers, hooks, async_messages)


def _read_states(cls: type) -> dict[str, State]:
    states: dict[str, State] = {}
    for base in reversed(cls.__mro__):
        for name, value in vars(base).items():
            if isinstance(value, State):
                states[name] = value
            elif name in states:
                raise DeclarationError(
                    f"{cls.__qualname__}.{name} is {safe_repr(value)}, but a state in its base class: override a state with a state"
                )
    if not states:
        raise DeclarationError(
            f"{cls.__qualname__} is a machine without states: declare one, closed = State(), or derive from Actor"
        )
    if len(initial := [name for name, state in states.items() if state.initial]) > 1:
        raise DeclarationError(f"{cls.__qualname__} has two initial states: {initial[0]} and {initial[1]}")
    return states


def _make_table(
    cls: type,
    states: Mapping[str, State],
    messages: Mapping[str, DeclaredMethod],
    handlers: Mapping[tuple[str, str], Callable[..., Any]],
) -> StateTable:
    sets: dict[str, set[tuple[str, str]]] = {"postpones": set(), "ignores": set()}
    for name, state in states.items():
        for option, listed in (("postpones", state.postpones), ("ignores", state.ignores)):
            for declared in listed:
                message = _message_name(cls, f"{cls.__qualname__}.{name} {option}", declared)
                key = (name, message)
                if option == "ignores" and declared.is_ask:
                    raise DeclarationError(
                        f"{cls.__qualname__}.{name} ignores {message}, which is an ask: its caller would wait forever"
                    )
                if option == "postpones" and declared.batch_limit:
                    raise DeclarationError(
                        f"{cls.__qualname__}.{name} postpones {message}, which handles batches: a batch cannot be kept, handle it in "
                        f"that state, or declare the message without batches"
                    )
                if key in sets["postpones"] or (key in handlers and name in vars(cls)):
                    raise DeclarationError(
                        f"{cls.__qualname__}.{name} {option} {message}, but also postpones or handles it: choose one"
                    )
                sets[option].add(key)
    initial = next((name for name, state in states.items() if state.initial), next(iter(states)))
    return StateTable(
        initial,
        frozenset(states),
        frozenset(handlers),
        frozenset(sets["postpones"]),
        frozenset(sets["ignores"]),
        frozenset(name for name, message in messages.items() if not is_empty(message.function)),
        {name: state.max_stay for name, state in states.items() if state.max_stay is not None},
    )


def _handled_message(cls: type, method: StateMethod) -> str:
    assert method.message is not None
    where = f"{cls.__qualname__}.{method.function.__name__}, in state {method.state.name}, handles"
    return _message_name(cls, where, method.message)


def _message_name(cls: type, where: str, message: DeclaredMethod) -> str:
    """Return the name of a message of a class, which may be an inherited one that the class overrides."""
    name = message.function.__name__
    if not any(vars(base).get(name) is message for base in cls.__mro__):
        raise DeclarationError(f"{where} {safe_repr(message)}, which is not a message of {cls.__qualname__}")
    return name


def _check_handler(cls: type, method: StateMethod, name: str, message: DeclaredMethod) -> None:
    target = f"{cls.__qualname__}.{name}"
    try:
        check_same_signature(target, target, message.function, method.function)
    except DeclarationError as error:
        raise DeclarationError(
            f"{cls.__qualname__}.{method.function.__name__} handles {name} in state {method.state.name}, but has a different signature: "
            f"{safe_str(error)}"
        ) from None


def _check_state_hook(cls: type, method: StateMethod) -> None:
    where = f"{cls.__qualname__}.{method.function.__name__}, @{method.state.name}.{method.role},"
    if parameters_of(method.function):
        raise DeclarationError(f"{where} has parameters: it is called with self only")
    if method.role != "timeout" and iscoroutinefunction(unwrap(method.function)):
        raise DeclarationError(
            f"{where} is async, but a transition cannot wait: send a message, or use background()"
        )


# -- running a machine -------------------------------------------------------------------------------------------------


@final
class MachineRuntime:
    """The state of one machine at run time: its transitions, its timeout and its postponed messages."""

    __slots__ = (
        "_alarm",
        "_definition",
        "_has_started",
        "_is_moving",
        "_machine",
        "_stash",
        "_visit",
        "stack",
    )

    def __init__(self, machine: BaseActor, definition: MachineDefinition, postpone_limit: int) -> None:
        self._machine = machine
        self._definition = definition
        self._stash = Stash(machine, postpone_limit)
        self._has_started = False
        self._is_moving = False
        self._alarm: Alarm | None = None
        # The number of transitions so far. A timeout of an earlier visit to a state is late and does nothing.
        self._visit = 0
        self.stack = StateStack(definition.table.initial)

    def start(self) -> None:
        """Enter the initial state."""
        self._has_started = True
        self._enter()

    def move(self, stack: StateStack) -> None:
        """Make a transition.

        Raises:
            InvalidTransitionError: another transition is in progress.
            WrongThreadError: called from another thread than the loop's.
        """
        if self._is_moving:
            raise InvalidTransitionError(
                f"{own_handle(self._machine)!r} is in the middle of a transition, in a hook of {self.stack.state!r}: change the state "
                f"in a handler or in a timeout"
            )
        if not self._has_started:
            self.stack = stack
            return
        own_handle(self._machine).__handle_kernel__.check_thread()
        self._call_hook("leave")
        self._visit += 1
        alarm, self._alarm = self._alarm, None
        if alarm is not None:
            alarm.cancel()
        self.stack = stack
        self._enter()
        self._stash.release()

    def _enter(self) -> None:
        timeout = self._definition.table.max_stays.get(self.stack.state)
        if timeout is not None:
            # Not machine.after: a user's attribute may have that name.
            self._alarm = BaseActor.after(self._machine, timeout, self._expire, self._visit)
        self._call_hook("enter")

    def _call_hook(self, role: Literal["enter", "leave"]) -> None:
        hook = self._definition.hooks.get((self.stack.state, role))
        if hook is None:
            return
        self._is_moving = True
        try:
            hook(self._machine)
        except Exception as error:
            # An incomplete transition leaves no state to continue from: the machine fails, even if the handler catches this.
            handle = own_handle(self._machine)
            handle.__handle_kernel__.actors.panic(handle.__handle_actor__, error)
            raise
        finally:
            self._is_moving = False

    def _expire(self, visit: int) -> Any:
        """Call the timeout method, unless the machine left the state while the timeout waited in the mailbox."""
        if visit != self._visit:
            return None
        self._alarm = None
        return self._definition.hooks[self.stack.state, "timeout"](self._machine)

    def handler_for(
        self, name: str, message: DeclaredMethod, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Callable[..., Any] | None:
        """Return the function that handles a message in the current state; None if nothing is left to do.

        Raises:
            NotInThisStateError: the message is an ask, and nothing handles it in this state.
        """
        state = self.stack.state
        action = self._definition.table.action(state, name)
        if action is StateAction.HANDLE:
            return self._definition.handlers[state, name]
        if action is StateAction.DEFAULT:
            return message.function
        if action is StateAction.IGNORE:
            return None
        handle = own_handle(self._machine)
        if (
            action is StateAction.POSTPONE
            and handle.__handle_kernel__.current_tag(handle.__handle_actor__) is not None
        ):
            self._stash.keep()
        # The class does not say what to do; or the message is handled out of turn, and cannot be postponed.
        what = f"{type(self._machine).__qualname__}.{name}() in state {state}"
        handle.__handle_asks__.unhandled += 1
        data = args[0] if len(args) == 1 and not kwargs else (args or None)
        handle.__handle_kernel__.reporter.events.tell(
            Unhandled(handle.__handle_actor__, handle.__handle_name__, data, what)
        )
        if message.is_ask:
            raise NotInThisStateError(
                f"{handle!r} does not answer {what}: ask again when it is in another state"
            )
        return None


def _enter_initial_state(machine: Machine) -> None:
    _runtime(machine).start()


class Machine(Actor):
    """An actor with states. Declare states in the class, decorate their handlers, and change the state with `become`.

    A message is handled by the handler of the current state, else by the body of the declared method. If that body is empty (`...`,
    or `raise NotImplementedError`), the message is *unhandled*: it is counted and reported as an `Unhandled` event, an ask gets
    `NotInThisStateError`, and the machine continues.

    `class Door(Machine, postpone_limit=1_000)` sets the maximum number of postponed messages, which is 100 by default. One more fails
    the machine with `StashFullError`.

    Raises:
        DeclarationError: when a class is created that contradicts itself: a handler for an unknown state, two handlers for one message in
            one state, a handler with another signature than its message, a timeout without a handler, and the like.
    """

    __slots__ = ("__actor_machine__",)

    __actor_definition__: ClassVar[MachineDefinition]
    __actor_postpone_limit__: ClassVar[int] = 100
    __actor_after_start__: ClassVar[Callable[[Any], None] | None] = _enter_initial_state
    __actor_machine__: MachineRuntime
    """Missing until it is first used, which may be in `__init__`."""

    def __init_subclass__(cls, *, postpone_limit: int | None = None, **options: Any) -> None:
        if taken := sorted(MACHINE_NAMES & vars(cls).keys()):
            raise DeclarationError(
                f"{cls.__qualname__}.{taken[0]} is a name that every machine has for its own use: choose another name"
            )
        super().__init_subclass__(**options)
        if postpone_limit is not None:
            if type(postpone_limit) is not int or not 1 <= postpone_limit <= 1_000_000:
                raise DeclarationError(
                    f"class {cls.__qualname__}: postpone_limit is {safe_repr(postpone_limit)}: pass a number from 1 to 1,000,000"
                )
            cls.__actor_postpone_limit__ = postpone_limit

    @classmethod
    def __actor_declare__(cls) -> ActorSchema | None:
        if cls.__module__ == __name__:
            # Machine itself has no states.
            return None
        messages = declared_methods(cls)
        definition = cls.__actor_definition__ = _read_definition(cls, messages)
        handlers = {
            name: _make_dispatcher(name, message, is_async=name in definition.async_messages)
            for name, message in messages.items()
        }
        return read_class(cls, reserved=MACHINE_NAMES, handlers=handlers, raises=(NotInThisStateError,))

    @property
    def state(self) -> State:
        """The current state."""
        return self.__actor_definition__.states[_runtime(self).stack.state]

    def become(self, state: State, *, push: bool = False) -> None:
        """Change to a state, which may be the current one. The next message is handled there.

        This calls the `leave` hook of the old state, cancels its timeout, sets the new state, starts its timeout, calls its `enter`
        hook, and returns postponed messages to the front of the mailbox. With `push` the old state is remembered for `unbecome`, up to
        32 states deep. In `__init__` and `on_start` this sets the initial state instead.

        Raises:
            InvalidArgumentError: it is not a state of this class.
            InvalidTransitionError: called in a hook, while a transition is in progress; or too many states are remembered.
            WrongThreadError: called from another thread than the loop's.
        """
        # Looked up by name: untyped callers may pass anything.
        known = self.__actor_definition__.states.get(getattr(state, "name", ""))
        if known is None or known is not state:
            raise InvalidArgumentError(
                f"{safe_repr(state)} is not a state of {type(self).__qualname__}: it has {', '.join(self.__actor_definition__.states)}"
            )
        runtime = _runtime(self)
        runtime.move(runtime.stack.become(state.name, push=push))

    def unbecome(self) -> None:
        """Return to the state that the last `become(..., push=True)` has left, with the same steps as `become`.

        Raises:
            InvalidTransitionError: no state is remembered; or a transition is in progress.
        """
        runtime = _runtime(self)
        runtime.move(runtime.stack.unbecome())


def _runtime(machine: Machine) -> MachineRuntime:
    try:
        return machine.__actor_machine__
    except AttributeError:
        runtime = MachineRuntime(machine, machine.__actor_definition__, machine.__actor_postpone_limit__)
        # object's own method: the class may define __setattr__, as a frozen dataclass does.
        object.__setattr__(machine, "__actor_machine__", runtime)
        return runtime


def _make_dispatcher(name: str, message: DeclaredMethod, *, is_async: bool) -> Callable[..., Any]:
    """Make the function that is called for one message, and calls the handler of the current state."""

    def dispatch(machine: Machine, *args: Any, **kwargs: Any) -> Any:
        handler = machine.__actor_machine__.handler_for(name, message, args, kwargs)
        if handler is None:
            return None
        try:
            return handler(machine, *args, **kwargs)
        except NotInThisStateError as error:
            raise _foreign_refusal(message, error) from error

    async def dispatch_async(machine: Machine, *args: Any, **kwargs: Any) -> Any:
        handler = machine.__actor_machine__.handler_for(name, message, args, kwargs)
        if handler is None:
            return None
        try:
            result = handler(machine, *args, **kwargs)
            return await result if iscoroutine(result) else result
        except NotInThisStateError as error:
            raise _foreign_refusal(message, error) from error

    # functools.wraps would also copy __wrapped__, by which a dispatcher would count as async or not like the declared method.
    dispatcher: Any = dispatch_async if is_async else dispatch
    dispatcher.__name__ = name
    dispatcher.__qualname__ = message.function.__qualname__
    dispatcher.__doc__ = message.function.__doc__
    dispatcher.__signature__ = signature(message.function)
    handler: Callable[..., Any] = dispatcher
    return handler


def _foreign_refusal(message: DeclaredMethod, error: NotInThisStateError) -> BaseException:
    """Return what to raise for a `NotInThisStateError` that a handler got from another machine.

    It is an answer of this machine only if the message declares it, as for any exception; else it fails this machine.
    """
    if isinstance(error, message.raises):
        return error
    return ActorFailedError(
        f"{message.function.__qualname__}() got an unexpected NotInThisStateError from another machine: {safe_str(error)}"
    )
