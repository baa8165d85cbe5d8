"""Capabilities: how to declare one, and what the runtime knows of it.

A capability is declared as a class with annotated methods, or as a `Contract`:

    class Greeter(Capability):
        '''Says hello.'''

        outbound = Greeted

        def __init__(self) -> None:
            self.count = 0

        def greet(self, msg: Greet) -> Greeting:
            self.count += 1
            self.bus.emit(Greeted(name=msg.name))
            return Greeting(text=f"hello, {msg.name}")

`read_capability` turns both into a `CapabilitySpec`. It finds every mistake in a declaration before the node starts, and its errors name the
capability, the method and the field. `HandlerIndex` joins the specs of a node: it knows which capability handles which message.
"""

from __future__ import annotations

import difflib
import re
import typing
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from inspect import (
    Parameter,
    cleandoc,
    get_annotations,
    isasyncgenfunction,
    isfunction,
    isgeneratorfunction,
    signature,
)
from types import MappingProxyType
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Final,
    Literal,
    NamedTuple,
    NoReturn,
    ParamSpec,
    TypeAlias,
    TypeVar,
    cast,
    overload,
)
from weakref import WeakKeyDictionary

from bandstand.actor.declaration import close_match
from bandstand.actor.timers import DeferredCall
from bandstand.bus.contracts.codec import PayloadCodec
from bandstand.bus.contracts.messages import TYPE_NAME, Retry
from bandstand.bus.contracts.types import (
    UNDECLARED,
    UNRESOLVED,
    EnvelopeBuilder,
    MessageDeclaration,
    Undeclared,
    declared_messages,
    description_of,
    is_message_annotation,
    is_none,
    members_of,
    name_of,
)
from bandstand.bus.frame import LONGEST_TIMEOUT_MS, Kind
from bandstand.bus.protocols import HostFactory
from bandstand.errors import ContractError, InvalidArgumentError, LoopBusyError
from bandstand.errors.formatting import safe_repr, safe_str
from bandstand.errors.validation import Seconds, to_seconds
from bandstand.supervision import Backoff

if TYPE_CHECKING:
    from bandstand.actor import Alarm, Ticker, Work
    from bandstand.bus.bus_client import Bus
    from bandstand.bus.contracts.entity import EntitySpec
    from bandstand.bus.deferred_calls import DeferredCalls
    from bandstand.bus.steps import Done, StepCalls

__all__ = (
    "BUILTIN_PREFIXES",
    "Capability",
    "CapabilitySpec",
    "Contract",
    "HandlerIndex",
    "HandlerSpec",
    "Provision",
    "RestartLimits",
    "provide",
    "read_capability",
)

P = ParamSpec("P")
R = TypeVar("R")
OnTimeout: TypeAlias = Literal["report", "cancel", "kill"]


# -- declaring a capability --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartLimits:
    """How often a failing capability is restarted before it is taken out of service.

    A capability that is out of service is started again after `period`. If it fails within `period` after that, it stays
    out of service for another `period`.

    Raises:
        InvalidArgumentError: a value is out of range.
    """

    max_restarts: int = 3
    """The number of restarts allowed within `period`; one more makes the capability unhealthy."""
    period: Seconds = 60.0
    """The period in which restarts are counted, in seconds."""
    backoff: Backoff | None = field(default_factory=lambda: Backoff(initial=1, maximum=1))
    """The delays before restarts; None for none. By default a second before each."""

    def __post_init__(self) -> None:
        if type(self.max_restarts) is not int or not 0 <= self.max_restarts <= 1_000_000:
            raise InvalidArgumentError(
                f"RestartLimits: max_restarts is {safe_repr(self.max_restarts)}: pass an int from 0 to 1000000"
            )
        period = to_seconds(
            "RestartLimits: period", self.period, is_zero_allowed=False, most=LONGEST_TIMEOUT_MS
        )
        object.__setattr__(self, "period", period)
        if self.backoff is not None and not isinstance(self.backoff, Backoff):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers without types
            raise InvalidArgumentError(
                f"RestartLimits: backoff is {safe_repr(self.backoff)}: pass a Backoff, or None"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Contract:
    """A capability declared as data. The fields are validated when the node starts; errors name the wrong field."""

    id: str
    """Its name: `Memory`."""
    description: str
    """One sentence about its purpose, for people and language models."""
    # Any: a type, a union of types or an annotated type; Python has no common type for these.
    inbound: Any
    """The messages it handles: message classes, or classes with `kind`, `type` and `data`, or a union of them."""
    outbound: Any = None
    """The messages it may send, in the same form: replies, events, errors, and requests to others. None for empty replies only."""
    subscribes: Sequence[str] = ()
    """Types of events it receives in addition to those in `inbound`, with their data as plain values."""
    # Any: see `Worker` and `Handler`.
    spawn: Callable[[], Any]
    """Creates the implementation, once for each start: an object with the methods of `Worker`, or a function that takes one message
    and returns the messages to send."""
    restarts: RestartLimits = field(default_factory=RestartLimits)
    """How often it is restarted."""
    refuses: tuple[type[Exception], ...] = ()
    """Exceptions that count as refusals: the request is answered with `Sys.Refused`, and the capability is not restarted."""
    retry: Mapping[str, Retry] = field(default_factory=dict[str, Retry])
    """Retry policies by message type. They override those of the message classes."""
    remember: Mapping[str, bool] = field(default_factory=dict[str, bool])
    """By message type: whether a repeated request gets the first answer. Overrides the message classes."""
    retry_safe: Mapping[str, bool] = field(default_factory=dict[str, bool])
    """By message type: whether a command may be handled again if the node has died meanwhile. Overrides the message classes."""
    mailbox: int | None = None
    """How many messages may wait for it; None for the node's default."""
    timeout: Seconds | None = None
    """The deadline in seconds of requests that have no timeout of their own; None for the node's default."""
    concurrency: int = 1
    """How many messages it handles at a time, if the function is `async def`: see `Capability.concurrency`."""
    on_timeout: OnTimeout = "report"
    """What happens to the handler of a request that has timed out: see `Capability.on_timeout`."""
    host_factory: HostFactory | None = None
    """Creates its hosts outside the process of the node: see `bandstand.isolation`. None to run on the node."""


class Capability:
    """The base class of capabilities. Each start makes a new instance, which handles one message at a time, or up to `concurrency`.

    Each public method with one parameter annotated with a message class handles that message; its return annotation is the reply.

    If a handler raises, its request is answered with `Sys.ActorCrash` and the capability is restarted; waiting messages are
    handled by the next instance. `raise RefusedError(...)` is an answer and causes no restart, and neither do exceptions in `refuses`.
    """

    id: ClassVar[str] = ""
    """Its name on the bus; the name of the class if empty."""
    # Any: a type, or a union of types.
    outbound: ClassVar[Any] = None
    """The messages it may send besides its replies, as a union: events, failures, and requests to others."""
    restarts: ClassVar[RestartLimits] = RestartLimits()
    """How often it is restarted."""
    refuses: ClassVar[tuple[type[Exception], ...]] = ()
    """Exceptions that count as refusals: the request is answered with `Sys.Refused`, and the capability is not restarted."""
    mailbox: ClassVar[int | None] = None
    """How many messages may wait for it; None for the node's default."""
    timeout: ClassVar[Seconds | None] = None
    """The deadline in seconds of requests that have no timeout of their own; None for the node's default."""
    concurrency: ClassVar[int] = 1
    """How many `async def` handlers run at a time. They start in the order of their messages, and end in any order; `def` handlers
    still run one at a time. If one fails, all that run are cancelled, and their requests are answered with `Sys.ActorCrash`."""
    on_timeout: ClassVar[OnTimeout] = "report"
    """What happens to the handler of a request that has timed out. The request is answered with `Sys.Timeout` in each case.

    `report`: nothing; the handler runs on, and its answer is discarded. `cancel`: an `async def` handler is cancelled, also if the
    requester is cancelled, or is a client that disconnects. `kill`: the instance is killed and restarted, as after a failure; in a process of its own, the
    process is killed.
    """

    bus: Bus
    """Sends messages: `self.bus.emit(...)`, `self.bus.send(...)`, `await self.bus.ask(...)`. Not available in `__init__`."""

    # What a base class with an interface of its own declares: methods that are no handlers, and further options. See `Entity`.
    __reserved__: ClassVar[frozenset[str]] = frozenset()
    __own_options__: ClassVar[frozenset[str]] = frozenset()
    __no_timers__: ClassVar[str] = "it has timers and background work from on_start() on"

    def on_start(self) -> Awaitable[None] | None:
        """Run before the first message is handled. May be `async def`."""

    def on_stop(self) -> Awaitable[None] | None:
        """Run when the instance ends, for whatever reason, unless it is killed. May be `async def`."""

    # -- how the runtime reads the class -------------------------------------------------------------------------------

    @classmethod
    def __declared_reply__(cls, returns: Any, place: str) -> Any:
        """Return the type of the reply that the return annotation of a handler declares."""
        return returns

    @classmethod
    def __extended_spec__(cls, spec: CapabilitySpec) -> CapabilitySpec:
        """Return the spec with what a base class with an interface of its own adds.

        Raises:
            ContractError: the class does not fit that interface.
        """
        return spec

    # -- timers and background work ------------------------------------------------------------------------------------

    __deferred_calls__: DeferredCalls

    def after(self, delay: Seconds, method: Callable[P, Any], /, *args: P.args, **kwargs: P.kwargs) -> Alarm:
        """Call `method(*args)` in `delay` seconds, in turn with the messages; it may be `async def`.

        The call is never early. It is dropped when the instance ends, and `cancel()` cancels it. What it sends is caused by the
        message that is being handled now. If it raises, the capability fails, as if a handler of an event had raised.
        """
        return _deferred_calls(self).after(delay, DeferredCall(method, args, kwargs))

    def every(
        self, period: Seconds, method: Callable[P, Any], /, *args: P.args, **kwargs: P.kwargs
    ) -> Ticker:
        """Call `method(*args)` every `period` seconds at a fixed rate. A capability that lags behind skips the ticks it missed."""
        return _deferred_calls(self).every(period, DeferredCall(method, args, kwargs), is_fixed_rate=True)

    def every_after(
        self, period: Seconds, method: Callable[P, Any], /, *args: P.args, **kwargs: P.kwargs
    ) -> Ticker:
        """Call `method(*args)` repeatedly, each time `period` seconds after the previous call has finished."""
        return _deferred_calls(self).every(period, DeferredCall(method, args, kwargs), is_fixed_rate=False)

    def background(
        self,
        work: Awaitable[R],
        then: Callable[[R], Any] | None = None,
        failed: Callable[[Exception], Any] | None = None,
    ) -> Work:
        """Await something beside the messages: a coroutine, `self.bus.ask(...)`, `asyncio.to_thread(...)`.

        On success, `then(result)` is called in turn with the messages. If the work raises, `failed(error)` is called; without `failed`,
        the capability fails with the error. The work is cancelled when the instance ends. What it sends is caused by the message
        that is being handled now, also after that message was answered.
        """
        return _deferred_calls(self).background(work, then, failed)

    # -- steps ---------------------------------------------------------------------------------------------------------

    __steps__: StepCalls

    @overload
    async def step(
        self,
        name: str,
        function: Callable[[], Awaitable[R]],
        /,
        *,
        returns: type[R] | Undeclared | None = UNDECLARED,
        key: str | None = None,
        retry_safe: bool = False,
        check: Callable[[], Awaitable[Done[R] | None]] | Callable[[], Done[R] | None] | None = None,
    ) -> R: ...

    @overload
    async def step(
        self,
        name: str,
        function: Callable[[], R],
        /,
        *,
        returns: type[R] | Undeclared | None = UNDECLARED,
        key: str | None = None,
        retry_safe: bool = False,
        check: Callable[[], Awaitable[Done[R] | None]] | Callable[[], Done[R] | None] | None = None,
    ) -> R: ...

    async def step(
        self,
        name: str,
        function: Callable[[], Any],
        /,
        *,
        returns: Any = UNDECLARED,
        key: str | None = None,
        retry_safe: bool = False,
        check: Callable[[], Any] | None = None,
    ) -> Any:
        """Call a function once for a command, also if the node dies and the command is carried out again, and return its result.

            receipt = await self.step("charge", lambda: charge(msg.card, msg.cents), returns=Receipt)

        The journal of the node has a claim before the function is called, and the result before this returns. After that the step returns the recorded
        result. If the function raises, the step was not carried out, and may be tried again; except after a cancellation, a timeout or a
        broken connection, when its outcome is unknown.

        Only in the handler of a command that is declared `retry_safe`, on a node with a journal. Steps may run side by side.

        Args:
            name: the name of the step, another one for each step of the command. It must not change while commands are open.
            function: what to do: a function without arguments, `async def` or not.
            returns: the type of its result. Not needed if the function has a return annotation; a lambda has none.
            key: what the step belongs to instead of the command: commands with the same key share its result, for `NodeConfig.step_keep_for` at least.
            retry_safe: whether the function may be called again if its outcome is unknown.
            check: finds out what has become of a step whose outcome is unknown: it returns `Done(result)`, or None if it was not carried out.

        Raises:
            StepUnknownError: its outcome is unknown. The command is answered with `Sys.InDoubt`, unless the handler catches it.
            StepResultError: the result cannot be written, or the recorded one cannot be read.
            RefusedError: the command has been answered meanwhile: its deadline has passed.
            InvalidArgumentError, ContractError, LoopBusyError, JournalClosedError: there can be no such step here. Nothing was called.
            Exception: whatever the function raises.
        """
        try:
            steps = self.__steps__
        except AttributeError:
            raise LoopBusyError(
                f"this {type(self).__qualname__} does not run as a capability: steps are for the handlers of its commands"
            ) from None
        return await steps.call(name, function, returns, key, check, is_retry_safe=retry_safe)


def _deferred_calls(capability: Capability) -> DeferredCalls:
    try:
        return capability.__deferred_calls__
    except AttributeError:
        raise LoopBusyError(
            f"this {type(capability).__qualname__} does not run as a capability: {capability.__no_timers__}"
        ) from None


@dataclass(frozen=True, slots=True)
class Provision:
    """A capability class and how to create an instance."""

    kind: type[Capability]
    make: Callable[[], Capability]
    host_factory: HostFactory | None = None
    """Creates its hosts outside the process of the node: see `bandstand.isolation`. None to run on the node."""


def provide(kind: Callable[P, Capability], /, *args: P.args, **kwargs: P.kwargs) -> Provision:
    """Return a capability whose constructor takes arguments: `Node([provide(Greeter, greeting="hello")])`.

    Raises:
        ContractError: `kind` is not a subclass of `Capability`.
    """
    if not (isinstance(kind, type) and issubclass(kind, Capability)):
        raise ContractError(f"{safe_repr(kind)} is not a class derived from Capability")  # pyright: ignore[reportUnknownArgumentType]  # any object
    return Provision(kind, partial(kind, *args, **kwargs))


# -- what the runtime knows of a capability ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class HandlerSpec:
    """One kind and type of message that a capability handles."""

    kind: Kind
    type: str
    codec: PayloadCodec
    """Decodes its data."""
    envelope: EnvelopeBuilder | None = None
    """Builds the handler's argument from the data; None if the argument is the data itself."""
    description: str = ""
    """What it does, for people and language models."""
    method: str | None = None
    """The method that handles it; None if one function handles all messages."""
    reply_codec: PayloadCodec | None = None
    """Encodes the reply; None for an event."""
    retry: Retry | None = None
    """The retry policy; None for no retries."""
    is_remembered: bool = True
    """Whether a repeated request gets the first answer."""
    is_retry_safe: bool = False
    """Whether it may be handled again if the node has died meanwhile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CapabilitySpec:
    """What a capability handles and sends, and how to create it. Independent of the form in which it was declared."""

    id: str
    description: str
    handlers: Mapping[tuple[Kind, str], HandlerSpec]
    """The messages it handles, by kind and type."""
    outbound: Mapping[tuple[Kind, str], PayloadCodec]
    """The messages it may send, by kind and type; a reply has the type of its request."""
    subscribes: tuple[str, ...]
    """The types of events it receives."""
    # Any: an object of the capability's class, or the result of a contract's `spawn`.
    make: Callable[[], Any]
    """Creates the implementation, once for each start."""
    is_class: bool
    """Whether `make` returns an object whose methods handle the messages."""
    restarts: RestartLimits
    mailbox: int | None
    timeout: float | None
    """The deadline of requests that have none of their own, in seconds."""
    concurrency: int = 1
    """How many coroutines of its handlers run at a time."""
    on_timeout: OnTimeout = "report"
    """What happens to the handler of a request that has timed out."""
    host_factory: HostFactory | None = None
    """Creates its hosts outside the process of the node; None to run on the node."""
    refuses: tuple[type[Exception], ...] = ()
    """Exceptions of its handlers that count as refusals."""
    entity: EntitySpec | None = None
    """What is known of its entities; None if it has one instance, and not one for each key."""

    @property
    def handles(self) -> tuple[str, ...]:
        """The commands and queries it handles, as `command:Memory.Set`."""
        return tuple(f"{kind}:{type_name}" for kind, type_name in self.handlers if kind != "event")


@dataclass(frozen=True, slots=True)
class HandlerIndex:
    """Which capability handles which message: built once when the node starts, and immutable.

    The destination of a message depends on its kind and type only. A command or query has one handler; an event has any number
    of subscribers.
    """

    handlers: Mapping[tuple[Kind, str], tuple[str, HandlerSpec]]
    """The id of the capability and its handler, for each command and query."""
    subscriptions: Mapping[str, tuple[tuple[str, HandlerSpec], ...]]
    """The same for each type of event, in the order of the capabilities."""

    @classmethod
    def build(cls, specs: Iterable[CapabilitySpec]) -> HandlerIndex:
        """Build the index.

        Raises:
            ContractError: two capabilities have the same id, or handle the same message; names both.
        """
        handlers: dict[tuple[Kind, str], tuple[str, HandlerSpec]] = {}
        subscriptions: dict[str, list[tuple[str, HandlerSpec]]] = {}
        seen: dict[str, CapabilitySpec] = {}
        for spec in specs:
            other = seen.get(spec.id)
            if other is not None:
                raise ContractError(
                    f"two capabilities have the id {spec.id!r} ({other.description!r} and {spec.description!r}): "
                    f"give one of them another id"
                )
            seen[spec.id] = spec
            for key, handler in spec.handlers.items():
                if handler.kind == "event":
                    subscriptions.setdefault(handler.type, []).append((spec.id, handler))
                    continue
                first, _ = handlers.setdefault(key, (spec.id, handler))
                if first != spec.id:
                    raise ContractError(
                        f"{first} and {spec.id} both handle {handler.kind} {handler.type}: leave exactly one handler"
                    )
        return cls(
            MappingProxyType(handlers),
            MappingProxyType({name: tuple(found) for name, found in subscriptions.items()}),
        )

    def nearest(self, kind: Kind, type: str) -> tuple[str, ...]:  # noqa: A002  # its name on the wire
        """Return up to three similar requests, as `query:Memory.Get`, the best match first."""
        other: Kind = "query" if kind == "command" else "command"
        found = [f"{other}:{type}"] if (other, type) in self.handlers else []
        names = {f"{each}:{name}": name for each, name in self.handlers}
        close = difflib.get_close_matches(f"{kind}:{type}", names, n=MAX_SUGGESTIONS, cutoff=0.7)
        folded = [handle for handle, name in names.items() if name.casefold() == type.casefold()]
        return tuple(dict.fromkeys([*found, *folded, *close]))[:MAX_SUGGESTIONS]

    def nearest_events(self, type: str) -> tuple[str, ...]:  # noqa: A002  # its name on the wire
        """Return up to three similar types of events that capabilities subscribe to, the best match first."""
        return tuple(
            difflib.get_close_matches(type, sorted(self.subscriptions), n=MAX_SUGGESTIONS, cutoff=0.7)
        )

    def similar(self, type: str, sent: Iterable[str] = ()) -> tuple[str, ...]:  # noqa: A002  # its name on the wire
        """Return up to three similar types, out of those that capabilities handle, subscribe to, or send (`sent`)."""
        known = {name for _, name in self.handlers} | set(self.subscriptions) | set(sent)
        return tuple(difflib.get_close_matches(type, sorted(known), n=MAX_SUGGESTIONS))


MAX_SUGGESTIONS: Final = 3


# -- from a declaration to a spec --------------------------------------------------------------------------------------

_Handlers: TypeAlias = dict[tuple[Kind, str], HandlerSpec]
_Codecs: TypeAlias = dict[tuple[Kind, str], PayloadCodec]
_Declarations: TypeAlias = dict[tuple[Kind, str], MessageDeclaration]


class _ClassSpec(NamedTuple):
    """What the types of a class declare, without its options. It never changes, so nodes share it."""

    description: str
    handlers: _Handlers
    codecs: _Codecs


# Reading types takes nearly all of a node's boot time, and the result is the same each time. A program that starts many nodes,
# such as a test suite, reads each class once. Built-in capabilities may use reserved names, so they have a cache of their own.
_Cache: TypeAlias = WeakKeyDictionary[type[Capability], _ClassSpec]
_cache: tuple[_Cache, _Cache] = (WeakKeyDictionary(), WeakKeyDictionary())


def read_capability(source: type | Contract | Provision, *, is_builtin: bool = False) -> CapabilitySpec:
    """Read the declaration of a capability.

    Args:
        source: a class derived from `Capability`, `provide(...)` of one, or a `Contract`.
        is_builtin: whether it belongs to the runtime. Only then may it handle `Syscall.`, `Timer.`, `Reminder.`, `Dead.` and `Step.`, and send `Sys.`.

    Raises:
        ContractError: the declaration is wrong; says what and where.
    """
    if isinstance(source, Contract):
        return _read_contract(source, is_builtin=is_builtin)
    if isinstance(source, Provision):
        spec = _read_class(source.kind, source.make, is_builtin=is_builtin)
        if source.host_factory is None:
            return spec
        if spec.entity is not None:
            raise ContractError(
                f"capability {spec.id} has entities, which run in the process of their node: remove isolated()"
            )
        return replace(spec, host_factory=source.host_factory)
    # Callers without type checking may pass anything.
    given: object = source
    if isinstance(given, type) and issubclass(given, Capability):
        _check_constructor(given)
        return _read_class(given, given, is_builtin=is_builtin)
    raise ContractError(
        f"{safe_repr(source)} is not a capability: pass a class derived from Capability, or a Contract"
    )


def _read_contract(contract: Contract, *, is_builtin: bool) -> CapabilitySpec:
    where = f"capability {contract.id}"
    _check_contract(contract, where)
    declared, codecs = _read_outbound(contract.outbound, where, is_builtin=is_builtin)
    handlers: _Handlers = {}
    inbound = () if contract.inbound is None else declared_messages(contract.inbound, f"{where}: inbound")
    for message in inbound:
        _check_inbound(message, where, is_builtin=is_builtin)
        reply_codec: PayloadCodec | None = None
        if message.kind != "event":
            given = declared.pop(("reply", message.type), None)
            if given is not None and message.reply is not UNDECLARED and given.payload != message.reply:
                raise ContractError(
                    f"{where}: outbound declares another reply to {message.type} than its message class: remove one of them"
                )
            reply = (
                given.payload if given is not None else None if message.reply is UNDECLARED else message.reply
            )
            reply_codec = codecs["reply", message.type] = PayloadCodec(reply, f"the reply to {message.type}")
        handlers[message.kind, message.type] = _handler(message, reply_codec)
    _override(handlers, contract, where)
    for kind, type_name in declared:
        if kind == "reply":
            raise ContractError(f"{where}: outbound has a reply to {type_name}, which inbound does not have")
    for type_name in _check_subscribes(contract.subscribes, where):
        codec = PayloadCodec(Any, f"event {type_name}")
        handlers.setdefault(("event", type_name), HandlerSpec(kind="event", type=type_name, codec=codec))
    return _spec(contract, contract.id, contract.description, handlers, codecs, contract.spawn)


def _override(handlers: _Handlers, contract: Contract, where: str) -> None:
    """Replace what the message classes declare about retries and repeats by what the contract declares."""
    retry_safe = _check_flags("retry_safe", contract.retry_safe, handlers, where)
    retried = _check_retry(contract.retry, handlers, where)
    remembered = _check_flags("remember", contract.remember, handlers, where)
    for key, handler in handlers.items():
        if handler.kind == "event":
            continue
        if handler.type in retried:
            handlers[key] = replace(handlers[key], retry=contract.retry[handler.type])
        if handler.type in remembered:
            handlers[key] = replace(handlers[key], is_remembered=contract.remember[handler.type])
        if handler.type in retry_safe:
            handlers[key] = replace(handlers[key], is_retry_safe=contract.retry_safe[handler.type])


def _read_class(kind: type[Capability], make: Callable[[], Any], *, is_builtin: bool) -> CapabilitySpec:
    name = kind.id or kind.__name__
    where = f"capability {name}"
    _check_options(where, name, kind.restarts, kind.mailbox, kind.timeout, kind.refuses, kind.concurrency)
    _check_on_timeout(where, kind.on_timeout)
    _check_misspelt(where, kind)
    cache = _cache[is_builtin]
    found = cache.get(kind)
    if found is None:
        found = cache[kind] = _read_types(kind, where, is_builtin=is_builtin)
    return kind.__extended_spec__(_spec(kind, name, found.description, found.handlers, found.codecs, make))


def _read_types(kind: type[Capability], where: str, *, is_builtin: bool) -> _ClassSpec:
    declared, codecs = _read_outbound(kind.outbound, where, is_builtin=is_builtin)
    for each, type_name in declared:
        if each == "reply":
            raise ContractError(
                f"{where}: outbound has a reply to {type_name}: declare the reply with the return annotation of its handler"
            )
    handlers: _Handlers = {}
    for handler in _handler_methods(kind, where):
        message = handler.message
        _check_inbound(message, f"{where}: {handler.name}()", is_builtin=is_builtin)
        other = handlers.get((message.kind, message.type))
        if other is not None:
            raise ContractError(
                f"{where}: {other.method}() and {handler.name}() both handle {message.kind} {message.type}: leave exactly one handler"
            )
        reply_codec: PayloadCodec | None = None
        if message.kind != "event":
            reply_codec = PayloadCodec(handler.reply, f"the reply to {message.type}")
            codecs["reply", message.type] = reply_codec
        handlers[message.kind, message.type] = _handler(
            message, reply_codec, handler.name, handler.description
        )
    return _ClassSpec(_purpose(kind, where), handlers, codecs)


def _spec(
    options: type[Capability] | Contract,
    name: str,
    description: str,
    handlers: _Handlers,
    codecs: _Codecs,
    make: Callable[[], Any],
) -> CapabilitySpec:
    if not handlers and not codecs:
        raise ContractError(
            f"capability {name} handles nothing and sends nothing: annotate the parameters of its handlers with message classes"
        )
    return CapabilitySpec(
        id=name,
        description=description,
        handlers=MappingProxyType(handlers),
        outbound=MappingProxyType(codecs),
        subscribes=tuple(type_name for kind, type_name in handlers if kind == "event"),
        make=make,
        is_class=not isinstance(options, Contract),
        restarts=options.restarts,
        refuses=options.refuses,
        mailbox=options.mailbox,
        timeout=None if options.timeout is None else to_seconds("timeout", options.timeout),
        concurrency=options.concurrency,
        on_timeout=options.on_timeout,
        host_factory=options.host_factory if isinstance(options, Contract) else None,
    )


def _handler(
    message: MessageDeclaration,
    reply_codec: PayloadCodec | None,
    method: str | None = None,
    description: str = "",
) -> HandlerSpec:
    return HandlerSpec(
        kind=message.kind,
        type=message.type,
        codec=PayloadCodec(message.payload, f"{message.kind} {message.type}"),
        envelope=message.envelope,
        description=message.description or description,
        method=method,
        reply_codec=reply_codec,
        retry=message.retry,
        is_remembered=message.is_remembered,
        is_retry_safe=message.is_retry_safe,
    )


# Any, here and below: an annotation may be any object.
def _read_outbound(annotation: Any, where: str, *, is_builtin: bool) -> tuple[_Declarations, _Codecs]:
    found = () if annotation is None else declared_messages(annotation, f"{where}: outbound")
    declared: _Declarations = {}
    codecs: _Codecs = {}
    for message in found:
        _check_outbound(message, where, is_builtin=is_builtin)
        declared[message.kind, message.type] = message
        codecs[message.kind, message.type] = PayloadCodec(message.payload, f"{message.kind} {message.type}")
    return declared, codecs


def _purpose(kind: type[Capability], where: str) -> str:
    """Return the first paragraph of the docstring of a class, or of one of its bases."""
    for each in kind.__mro__[: kind.__mro__.index(Capability)]:
        text = cleandoc(vars(each).get("__doc__") or "")
        if text:
            return " ".join(text.partition("\n\n")[0].split())
    raise ContractError(
        f"{where} has no docstring: describe its purpose in one sentence, for people and language models"
    )


def _check_constructor(kind: type[Capability]) -> None:
    try:
        signature(kind).bind()
    except TypeError as error:
        raise ContractError(
            f"capability {kind.__name__}: its constructor takes arguments ({safe_str(error)}): pass provide({kind.__name__}, ...)"
        ) from error


# -- the handlers of a class -------------------------------------------------------------------------------------------

# What every capability has, besides the hooks, which a class may define.
_TOOLS: Final = frozenset({"after", "background", "every", "every_after", "step"})
_POSITIONAL: Final = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
_VARIADIC: Final = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)


@dataclass(frozen=True, slots=True)
class _HandlerMethod:
    """A method that handles one kind and type of message."""

    name: str
    message: MessageDeclaration
    reply: Any
    """The type of its reply."""
    description: str


def _handler_methods(kind: type[Capability], where: str) -> Iterator[_HandlerMethod]:
    """Find the handlers of a class: public methods with one parameter that is annotated with messages.

    Yields:
        The handlers in the order in which they were first defined.

    Raises:
        ContractError: a method contradicts itself or its message; names it.
    """
    for name in dict.fromkeys(name for base in reversed(kind.__mro__) for name in vars(base)):
        function = getattr(kind, name, None)
        if name in _TOOLS and function is not getattr(Capability, name):
            raise ContractError(
                f"{where}: {name}() is a method that every capability has for its own use: choose another name"
            )
        if name.startswith("_") or hasattr(Capability, name) or name in kind.__reserved__:
            continue
        if not isfunction(function):
            continue
        place = f"{where}: {name}()"
        hints = _hints(function, place)
        parameter = _message_parameter(function, hints, place)
        messages = declared_messages(hints[parameter], place) if parameter else ()
        if messages and (isgeneratorfunction(function) or isasyncgenfunction(function)):
            raise ContractError(f"{place}: a handler returns its reply: it cannot yield")
        if messages and name == "bus":
            raise ContractError(
                f"{place}: self.bus is the interface for sending messages: give the handler another name"
            )
        for message in messages:
            returns = kind.__declared_reply__(hints.get("return", UNDECLARED), place)
            reply = _reply_type(message, returns, place, is_sole=len(messages) == 1)
            yield _HandlerMethod(name, message, reply, description_of(function))


def _hints(function: Any, place: str) -> dict[str, Any]:
    try:
        return typing.get_type_hints(function, include_extras=True)
    except UNRESOLVED as error:
        if len(signature(function).parameters) != 2:
            # It takes more or less than one message, so it is not a handler.
            return {}
        raise ContractError(
            f"{place}: an annotation cannot be resolved: {safe_str(error)}. Import the name at run time, not under TYPE_CHECKING; or "
            f"start the method's name with _ if it is not a handler"
        ) from error


def _message_parameter(function: Any, hints: dict[str, Any], place: str) -> str:
    """Return the name of the parameter that takes the message; empty if there is none."""
    rest = list(signature(function).parameters.values())[1:]
    if not rest or not is_message_annotation(hints.get(rest[0].name)):
        return ""
    first, *others = rest
    needed = [each.name for each in others if each.default is Parameter.empty and each.kind not in _VARIADIC]
    if needed or first.kind not in _POSITIONAL:
        raise ContractError(
            f"{place}: a handler takes one message, by position, and nothing else: remove {', '.join(needed) or 'the *'}, or "
            f"start the method's name with _ if it is not a handler"
        )
    return first.name


def _reply_type(message: MessageDeclaration, returns: Any, place: str, *, is_sole: bool) -> Any:
    """Return the type of the reply, from the message class and the return annotation; the two must agree."""
    if message.kind == "event":
        if returns is not UNDECLARED and returns is not NoReturn and not is_none(returns):
            raise ContractError(
                f"{place}: returns {name_of(returns)}, but event {message.type} has no reply: write -> None"
            )
        return None
    if returns is not UNDECLARED and is_message_annotation(returns):
        raise ContractError(
            f"{place}: returns the message {name_of(returns)}: return the data of the reply, the runtime builds the message"
        )
    declared = message.reply
    if returns is UNDECLARED or returns is NoReturn:
        return None if declared is UNDECLARED else declared
    if declared is UNDECLARED:
        return returns
    if returns is not Any and not _is_compatible(declared, returns, is_sole=is_sole):
        raise ContractError(
            f"{place}: returns {name_of(returns)}, but {name_of(message.payload)} declares the reply {name_of(declared)}: "
            f"write -> {name_of(declared)}, or change the message class"
        )
    return declared


def _is_compatible(declared: Any, returns: Any, *, is_sole: bool) -> bool:
    allowed, returned = members_of(declared), members_of(returns)
    if all(_is_subtype(each, allowed) for each in returned):
        return True
    # A handler of several messages returns the union of their replies.
    return not is_sole and all(each in returned for each in allowed)


def _is_subtype(returned: Any, allowed: tuple[Any, ...]) -> bool:
    if Any in allowed or returned in allowed:
        return True
    return isinstance(returned, type) and any(
        isinstance(each, type) and issubclass(returned, each) for each in allowed
    )


# -- validation --------------------------------------------------------------------------------------------------------

_ID: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]*(\.[A-Za-z][A-Za-z0-9_-]*)*")
_LARGEST_MAILBOX: Final = 1_000_000_000
_MAX_CONCURRENCY: Final = 100_000

SYSTEM_PREFIX: Final = "Sys."
"""The prefix of the runtime's errors and events."""
BUILTIN_PREFIXES: Final = ("Syscall.", "Timer.", "Reminder.", "Dead.", "Step.")
"""The prefixes of the messages of built-in capabilities."""


def _reserved() -> str:
    prefixes = ", ".join((SYSTEM_PREFIX, *BUILTIN_PREFIXES))
    return f"types that begin with {prefixes} are reserved for the runtime; choose another first word"


# How similar to the name of an option a class attribute may be: `mailbx` is misspelt, `max_timeout` is not.
_MISSPELT: Final = 0.85


# Any, here and below: these functions check whether the values have the right type.
def _check_options(
    where: str, name: Any, restarts: Any, mailbox: Any, timeout: Any, refuses: Any, concurrency: Any
) -> None:
    if not isinstance(name, str) or not _ID.fullmatch(name):
        raise ContractError(
            f"{where}: id is {safe_repr(name)}: use letters, digits and dashes, starting with a letter, as in 'Memory'"
        )
    if not isinstance(restarts, RestartLimits):
        raise ContractError(f"{where}: restarts is {safe_repr(restarts)}: pass a RestartLimits")
    if mailbox is not None and (type(mailbox) is not int or not 1 <= mailbox <= _LARGEST_MAILBOX):
        raise ContractError(
            f"{where}: mailbox is {safe_repr(mailbox)}: pass an int from 1 to {_LARGEST_MAILBOX}, or None for the node's default"
        )
    if timeout is not None:
        try:
            to_seconds(
                f"{where}: timeout",
                timeout,
                is_zero_allowed=False,
                most=LONGEST_TIMEOUT_MS,
                otherwise=", or None for the node's default",
            )
        except InvalidArgumentError as error:
            raise ContractError(safe_str(error)) from None
    if type(concurrency) is not int or not 1 <= concurrency <= _MAX_CONCURRENCY:
        raise ContractError(
            f"{where}: concurrency is {safe_repr(concurrency)}: pass an int from 1 to {_MAX_CONCURRENCY}"
        )
    if not isinstance(refuses, tuple):
        raise ContractError(
            f"{where}: refuses is {safe_repr(refuses)}: pass a tuple of exception classes, as in (ValueError,)"
        )
    for each in cast("tuple[object, ...]", refuses):
        shown = safe_repr(each)
        if not (isinstance(each, type) and issubclass(each, Exception)):
            raise ContractError(
                f"{where}: refuses has {shown}: pass classes derived from Exception, such as ValueError"
            )


def _check_on_timeout(where: str, on_timeout: Any) -> None:
    if not isinstance(on_timeout, str) or on_timeout not in typing.get_args(OnTimeout):
        raise ContractError(
            f"{where}: on_timeout is {safe_repr(on_timeout)}: pass 'report', 'cancel' or 'kill'"
        )


def _check_misspelt(where: str, kind: type[Capability]) -> None:
    """Reject a class attribute that looks like a misspelt option: without this check, it would have no effect."""
    options = kind.__own_options__ | (Capability.__annotations__.keys() & vars(Capability).keys())
    for each in kind.__mro__[: kind.__mro__.index(Capability)]:
        for name, value in vars(each).items():
            is_own = name.startswith("_") or name in get_annotations(each)
            # Functions, properties and the like.
            is_method = callable(value) or hasattr(value, "__get__")
            if name in options or is_own or is_method:
                continue
            if hint := close_match(name, options, _MISSPELT):
                raise ContractError(
                    f"{where}: {name} is not an option{hint}; if it is an attribute of your own, annotate it: {name}: {type(value).__name__} = ..."
                )


def _check_contract(contract: Contract, where: str) -> None:
    _check_options(
        where,
        contract.id,
        contract.restarts,
        contract.mailbox,
        contract.timeout,
        contract.refuses,
        contract.concurrency,
    )
    _check_on_timeout(where, contract.on_timeout)
    description: object = contract.description
    if not isinstance(description, str) or not description.strip():
        raise ContractError(
            f"{where}: description is {safe_repr(description)}: describe its purpose in one sentence"
        )
    if not callable(contract.spawn):
        raise ContractError(
            f"{where}: spawn is {safe_repr(contract.spawn)}: pass a function without arguments that creates the worker"
        )


def _check_inbound(message: MessageDeclaration, where: str, *, is_builtin: bool) -> None:
    """Refuse to handle answers, and requests that are reserved for the runtime. Any event may be subscribed to."""
    if message.kind == "event":
        return
    if message.kind not in {"command", "query"}:
        raise ContractError(
            f"{where}: {message.kind} {message.type} cannot be handled: answers go to the sender of the request; handle commands, "
            f"queries and events"
        )
    if message.type.startswith(SYSTEM_PREFIX) or (
        message.type.startswith(BUILTIN_PREFIXES) and not is_builtin
    ):
        raise ContractError(f"{where}: {message.type} cannot be handled: {_reserved()}")


def _check_outbound(message: MessageDeclaration, where: str, *, is_builtin: bool) -> None:
    """Refuse to send messages that are reserved for the runtime. Requests to built-in capabilities are allowed."""
    is_request = message.kind in {"command", "query"}
    is_reserved = message.type.startswith(SYSTEM_PREFIX) or (
        message.type.startswith(BUILTIN_PREFIXES) and not is_request
    )
    if is_reserved and not is_builtin:
        raise ContractError(f"{where}: outbound has {message.kind} {message.type}: {_reserved()}")


def _check_retry(retry: Any, handled: Collection[tuple[str, str]], where: str) -> tuple[str, ...]:
    """Return the types that `Contract.retry` names."""
    if not isinstance(retry, Mapping):
        raise ContractError(
            f"{where}: retry is {safe_repr(retry)}: pass a dict, as in {{'Memory.Set': Retry()}}"
        )
    for name, value in cast("Mapping[object, object]", retry).items():
        if ("command", name) not in handled and ("query", name) not in handled:
            raise ContractError(
                f"{where}: retry has {safe_repr(name)}, which is not a command or query of its inbound"
            )
        if not isinstance(value, Retry):
            raise ContractError(f"{where}: retry has {safe_repr(value)} for {name}: pass a Retry")
    return tuple(cast("Mapping[str, Retry]", retry))


def _check_flags(
    option: str, flags: Any, handled: Collection[tuple[str, str]], where: str
) -> tuple[str, ...]:
    """Return the types that `Contract.remember` or `Contract.retry_safe` names."""
    if not isinstance(flags, Mapping):
        raise ContractError(
            f"{where}: {option} is {safe_repr(flags)}: pass a dict, as in {{'Memory.Get': True}}"
        )
    for name, value in cast("Mapping[object, object]", flags).items():
        if ("command", name) not in handled and ("query", name) not in handled:
            raise ContractError(
                f"{where}: {option} has {safe_repr(name)}, which is not a command or query of its inbound"
            )
        if not isinstance(value, bool):
            raise ContractError(f"{where}: {option} has {safe_repr(value)} for {name}: pass True or False")
    return tuple(cast("Mapping[str, bool]", flags))


def _check_subscribes(types: Any, where: str) -> tuple[str, ...]:
    """Return the types in `Contract.subscribes`, each once."""
    if isinstance(types, str) or not isinstance(types, Sequence):
        raise ContractError(
            f"{where}: subscribes is {safe_repr(types)}: pass a list of types, as in ['Memory.Changed']"
        )
    for name in cast("Sequence[object]", types):
        if not isinstance(name, str) or not TYPE_NAME.fullmatch(name):
            raise ContractError(
                f"{where}: subscribes has {safe_repr(name)}: pass words separated by dots, as in 'Memory.Changed'"
            )
    return tuple(dict.fromkeys(cast("Sequence[str]", types)))
