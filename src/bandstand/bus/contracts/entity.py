"""Entities: capabilities of which there is one instance for each key, with a state that survives the process.

    class Account(Entity[Deposited | Withdrawn], key="account"):
        '''The balance of each account.'''

        def __init__(self) -> None:
            self.balance = 0

        def deposit(self, msg: Deposit) -> Decision[Balance]:
            if msg.amount > 10_000:
                raise RefusedError("more than we take at once")
            return self.decide(Balance(self.balance + msg.amount), Deposited(msg.amount))

        def look(self, msg: Look) -> Balance:
            return Balance(self.balance)

        def apply(self, event: Deposited | Withdrawn) -> None: ...

The handler of a command decides: it returns the reply together with events, and changes nothing. `apply` changes the state. Only `apply` is repeated, when an entity is loaded,
so a handler may do what it likes: look at the clock, draw lots, send messages.

`EntitySpec` is what the runtime knows of such a class. `bandstand.bus.entity_host` runs the instances.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from inspect import getattr_static, iscoroutinefunction
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, TypeVar, final, get_args, get_origin

from msgspec import Struct

from bandstand.bus.contracts.capability import Capability
from bandstand.bus.contracts.types import fields_of, name_of, unwrap
from bandstand.errors import ContractError, DeclarationError, InvalidArgumentError
from bandstand.errors.formatting import safe_repr, safe_str
from bandstand.errors.validation import Seconds, check_int, to_seconds
from bandstand.persistence.declaration import event_classes, snapshot_class
from bandstand.persistence.events import EventTypes, Upcaster

if TYPE_CHECKING:
    from bandstand.bus.contracts.capability import CapabilitySpec

__all__ = ("LONGEST_KEY", "Decision", "Entity", "EntitySpec")

E = TypeVar("E", bound=Struct)
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)

LONGEST_KEY: Final = 1024
"""The most characters that a key may have."""

# What only a capability with one instance can have, and what to do instead.
_NOT_FOR_ENTITIES: Final = {
    "on_start": "an entity is loaded when a message for it arrives: set its first state in __init__",
    "on_stop": "an entity leaves memory without notice: its state is in the journal",
}


@final
class Decision(Struct, Generic[R_co], frozen=True):
    """What the handler of a command has decided: see `Entity.decide`."""

    reply: R_co
    events: tuple[Struct, ...] = ()


class Entity(Capability, Generic[E]):
    """The base class of entities. Derive from `Entity[Opened | Deposited]`, and name the field that says which instance a message is for.

        class Account(Entity[Opened | Deposited], key="account"): ...

    Each public method with one parameter annotated with a message class handles that message. Each of these classes has a field with the name `key`, of type `str`.
    The handler of a query returns the reply. That of a command returns `self.decide(reply, *events)`. The reply, the events, and what the handler has sent with `self.bus` are written
    as one page of the journal; only then is any of it sent. Handlers are plain `def`.

    The constructor makes the state before the first event. An instance is loaded when a message for its key arrives, and leaves memory when it is idle. If a handler or `apply` raises,
    the message is answered with `Sys.ActorCrash`, nothing of it takes effect, and the next message finds the entity loaded anew. `raise RefusedError(...)` is an answer.

    `class Account(Entity[...], key="account", entity="account")` sets the name that is written with the events; the default is the name of the capability. It must not
    change while the journal has events.

    It needs a node with a journal.

    Raises:
        DeclarationError: when a class is created whose events are not classes derived from `msgspec.Struct`.
        ContractError: when a class is created whose `key` is not the name of a field.
    """

    snapshot_every: ClassVar[int] = 200
    """A snapshot is taken after this many events, if the class overrides `snapshot`."""
    upcasters: ClassVar[Mapping[str, Upcaster]] = {}
    """Functions that read events of older programs, by the name of the event: see `EventSchemaError`."""
    idle_after: ClassVar[Seconds | None] = 60.0
    """An entity without a message for this time leaves memory, in seconds; None to keep it."""
    max_in_memory: ClassVar[int] = 10_000
    """How many entities are in memory; of more, those that were idle for the longest time leave it."""

    key: str
    """Which entity this is. Not available in `__init__`."""

    __reserved__ = frozenset({"apply", "decide", "restore", "snapshot"})
    __own_options__ = frozenset({"idle_after", "max_in_memory", "snapshot_every", "upcasters"})

    __no_timers__ = "an entity has no timers and no background work, because it leaves memory when it is idle: use self.bus.send_later(...), or send a command to another capability"

    __entity_key__: ClassVar[str] = ""
    __entity_name__: ClassVar[str] = ""
    __entity_events__: ClassVar[tuple[type[Struct], ...]] = ()
    __entity_types__: ClassVar[EventTypes | None] = None

    def __init_subclass__(cls, *, key: str | None = None, entity: str | None = None, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.__entity_types__ = None
        cls.__entity_events__ = event_classes(cls, Entity)
        given: object = key
        if given is not None:
            if not isinstance(given, str) or not given.isidentifier():
                raise ContractError(
                    f"{cls.__qualname__}: key is {safe_repr(given)}: pass the name of the field that has the key of the entity"
                )
            cls.__entity_key__ = given
        if entity is not None:
            cls.__entity_name__ = entity
        if cls.__entity_events__:
            # Finds what is wrong with the classes of the events now.
            EventTypes(_name_of(cls), cls.__entity_events__)

    # -- to override ---------------------------------------------------------------------------------------------------

    def apply(self, event: E) -> None:
        """Change the state: the only place where it changes. Called for each event once it is decided, and again whenever the entity is loaded.

        It must depend on the state and the event alone, and do nothing else: no messages, no time, no chance. If it raises for an event that a handler has just decided, that
        event is not written, and the command fails.
        """
        raise NotImplementedError(
            f"{type(self).__qualname__} has no apply(): write one, which changes the state"
        )

    def snapshot(self) -> Struct | None:
        """Return the state, so that loading need not apply all events; None for no snapshots.

        Annotate it with a class derived from `msgspec.Struct`. A snapshot that does not fit that class any more is ignored. Its failure is logged, and has no other
        effect.
        """
        return None

    def restore(self, state: Any) -> None:
        """Replace the state by what `snapshot` has returned. Later events follow."""
        raise NotImplementedError(
            f"{type(self).__qualname__} has a snapshot() and no restore(): write one, which takes what snapshot() returns"
        )

    # -- to use --------------------------------------------------------------------------------------------------------

    def decide(self, reply: R, *events: E) -> Decision[R]:
        """Return what the handler of a command has decided: its reply, and what has happened. Nothing has happened yet.

            return self.decide(Balance(self.balance + msg.amount), Deposited(msg.amount))

        Args:
            reply: the reply; None if the message class declares none.
            events: the events, in their order. They are written together or not at all. None for a command that changes nothing.
        """
        return Decision(reply, events)

    # -- how the runtime reads the class -------------------------------------------------------------------------------

    @classmethod
    def __declared_reply__(cls, returns: Any, place: str) -> Any:
        if get_origin(returns) is Decision:
            return get_args(returns)[0]
        if returns is Decision:
            raise ContractError(f"{place}: returns a Decision of an unknown reply: write Decision[Balance]")
        return returns

    @classmethod
    def __extended_spec__(cls, spec: CapabilitySpec) -> CapabilitySpec:
        where = f"capability {spec.id}"
        _check_class(cls, spec, where)
        field = cls.__entity_key__
        handlers = dict(spec.handlers)
        for name, handler in handlers.items():
            place = f"{where}: {handler.method}()"
            if handler.kind == "event":
                raise ContractError(
                    f"{place}: an entity handles commands and queries: subscribe to {handler.type} in another capability, and send a command from there"
                )
            if iscoroutinefunction(getattr(cls, str(handler.method))):
                raise ContractError(
                    f"{place}: a handler of an entity decides at once: make it a plain method, and let another capability do what takes its time"
                )
            annotation: Any = handler.codec.annotation
            found: Any = None if handler.envelope is not None else fields_of(annotation).get(field)
            if found is None or unwrap(found) is not str:
                raise ContractError(
                    f"{place}: {name_of(annotation)} has no field {field}: str, which says which {spec.id} the message is for: add it"
                )
            if handler.kind == "command":
                # It has no effect without its answer, so it may be handled again if the node has died meanwhile.
                handlers[name] = replace(handler, is_retry_safe=True)
        return replace(spec, handlers=MappingProxyType(handlers), entity=_entity_spec(cls, where))


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class EntitySpec:
    """What the runtime knows of a class of entities, besides what it knows of each capability."""

    kind: type[Entity[Any]]
    key: str
    """The name of the field with the key."""
    types: EventTypes
    snapshot_every: int
    idle_after: float | None
    """In seconds."""
    max_in_memory: int


def _name_of(cls: type[Entity[Any]]) -> str:
    return cls.__entity_name__ or cls.id or cls.__name__


def _check_class(cls: type[Entity[Any]], spec: CapabilitySpec, where: str) -> None:
    if not cls.__entity_key__:
        raise ContractError(
            f"{where} has no key: name the field that says which entity a message is for, as in class {cls.__name__}(Entity[...], key='account')"
        )
    for name, why in _NOT_FOR_ENTITIES.items():
        if getattr(cls, name) is not getattr(Capability, name):
            raise ContractError(f"{where}: {name}() is not called for entities: {why}")
    if getattr_static(cls, "apply") is getattr_static(Entity, "apply"):
        raise ContractError(f"{where} has no apply(): write one, which changes the state")
    if iscoroutinefunction(cls.apply):
        raise ContractError(f"{where}: apply() is async, but changes only the state: make it a plain method")
    if spec.concurrency != 1 or spec.on_timeout != "report":
        raise ContractError(
            f"{where}: handlers of entities run one at a time and end at once: remove concurrency and on_timeout"
        )


def _entity_spec(cls: type[Entity[Any]], where: str) -> EntitySpec:
    idle_after = cls.idle_after
    try:
        check_int(f"{where}: snapshot_every", cls.snapshot_every, 1, 1 << 40)
        check_int(f"{where}: max_in_memory", cls.max_in_memory, 1, 1 << 40)
        if idle_after is not None:
            idle_after = to_seconds(
                f"{where}: idle_after", idle_after, is_zero_allowed=False, otherwise=", or None to keep it"
            )
        if cls.__entity_types__ is None:
            cls.__entity_types__ = EventTypes(
                _name_of(cls),
                cls.__entity_events__,
                upcasters=cls.upcasters,
                snapshot=snapshot_class(cls, Entity),
            )
    except (DeclarationError, InvalidArgumentError) as error:
        raise ContractError(safe_str(error)) from error
    return EntitySpec(
        kind=cls,
        key=cls.__entity_key__,
        types=cls.__entity_types__,
        snapshot_every=cls.snapshot_every,
        idle_after=idle_after,
        max_in_memory=cls.max_in_memory,
    )
