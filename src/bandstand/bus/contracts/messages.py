"""Message classes.

    class Value(msgspec.Struct):
        value: Json

    class Get(Query[Value], type="Memory.Get"):
        '''Read the value of a key.'''

        key: str

A message class is a `msgspec.Struct` with a kind and a type. Its fields are the `data` of the message. The type argument is the type of
the reply, so type checkers know that `await bus.ask(Get(key="a"))` returns a `Value`.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Final, Generic, TypeVar, cast, dataclass_transform

import msgspec
from msgspec import Meta, Struct, StructMeta

from bandstand.bus.faults import ACTOR_CRASH, ACTOR_FAULT, OVERLOADED, UNHEALTHY
from bandstand.bus.frame import Kind, Metadata
from bandstand.errors import ContractError, InvalidArgumentError
from bandstand.errors.formatting import safe_repr
from bandstand.supervision import Backoff

__all__ = (
    "TYPE_NAME",
    "Command",
    "Event",
    "Failure",
    "Message",
    "Query",
    "Retry",
    "TypePattern",
    "TypedMessage",
    "TypedRequest",
)

Reply_co = TypeVar("Reply_co", covariant=True)

TYPE_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]*(\.[A-Za-z][A-Za-z0-9_-]*)+")
"""The form of a message type: words separated by dots, as in `Memory.Set`."""

TypePattern = Annotated[
    str,
    Meta(
        # The lookahead excludes the trailing newline that Python's `$` allows.
        pattern=r"^(\*|[A-Za-z][A-Za-z0-9_.-]{0,150}(\.\*)?)$(?!\n)",
        description="A message type, or the beginning of one, as in Memory.*; * for all types.",
        examples=["Memory.*"],
    ),
]
"""Selects messages by type."""


# -- retries -----------------------------------------------------------------------------------------------------------

RETRIABLE: Final = (ACTOR_CRASH, ACTOR_FAULT, OVERLOADED, UNHEALTHY)
"""The errors that a request can be retried after: another attempt may succeed, and the handler has not refused."""
MAX_ATTEMPTS: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """A retry policy: the node sends a failed request again, with the same id and within the original deadline.

    A handler that has failed may have done part of its work, so declare retries for idempotent requests. If the next attempt would start
    after the deadline, the last error is the answer, without a further delay.

    Raises:
        InvalidArgumentError: a value is wrong; names the field.
    """

    attempts: int = 3
    """The maximum number of attempts, the first one included."""
    backoff: Backoff = field(default_factory=Backoff)
    """The delay before the second attempt, the third, and so on."""
    on: Collection[str] = (OVERLOADED, ACTOR_CRASH)
    """The errors to retry after: some of Sys.ActorCrash, Sys.ActorFault, Sys.Overloaded and Sys.Unhealthy."""

    def __post_init__(self) -> None:
        if type(self.attempts) is not int or not 2 <= self.attempts <= MAX_ATTEMPTS:
            raise InvalidArgumentError(
                f"Retry: attempts is {safe_repr(self.attempts)}: pass an int from 2 to {MAX_ATTEMPTS}; the first attempt counts too"
            )
        if not isinstance(self.backoff, Backoff):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers without types
            raise InvalidArgumentError(f"Retry: backoff is {safe_repr(self.backoff)}: pass a Backoff")
        given: object = self.on
        if isinstance(given, str) or not isinstance(given, Collection) or not given:
            raise InvalidArgumentError(
                f"Retry: on is {safe_repr(given)}: pass a list of error types, as in on=[{OVERLOADED!r}]"
            )
        for name in cast("Collection[object]", given):
            if name not in RETRIABLE:
                raise InvalidArgumentError(
                    f"Retry: on has {safe_repr(name)}: only these errors can be retried: {', '.join(RETRIABLE)}"
                )
        # Normalized, so that equal policies compare equal.
        object.__setattr__(self, "on", tuple(sorted(set(self.on))))

    def delay(self, retries: int, chance: float) -> float:
        """Return the delay before the next attempt, in seconds.

        Args:
            retries: the number of retries so far.
            chance: a random number from 0 to 1, for the jitter.
        """
        delay_ms, stored_ms = self.backoff.after_ms(0.0, chance)
        for _ in range(retries):
            delay_ms, stored_ms = self.backoff.after_ms(stored_ms, chance)
        return delay_ms / 1000


# -- message classes ---------------------------------------------------------------------------------------------------


@dataclass_transform(field_specifiers=(msgspec.field,))
class TypedMessageMeta(StructMeta):
    """Adds the keywords `type`, `retry`, `remember` and `retry_safe` to those of `msgspec.Struct`."""

    # Any: the signature of a metaclass, and the options of msgspec.
    def __new__(
        cls,
        name: str,
        bases: tuple[type, ...],
        namespace: dict[str, Any],
        *,
        type: str = "",  # noqa: A002  # its name on the wire
        retry: Retry | None = None,
        remember: bool | None = None,
        retry_safe: bool | None = None,
        **options: Any,
    ) -> Any:
        """Create the class.

        Raises:
            ContractError: the type is malformed, or `retry`, `remember` or `retry_safe` is wrong.
        """
        if type and not TYPE_NAME.fullmatch(type):
            raise ContractError(
                f"class {name}: type is {safe_repr(type)}: pass words separated by dots, as in 'Memory.Set'"
            )
        made: Any = super().__new__(cls, name, bases, namespace, **options)
        made.message_type = type
        if retry is not None or remember is not None or retry_safe is not None:
            if made.message_kind not in {"command", "query"}:
                raise ContractError(
                    f"class {name}: retry, remember and retry_safe apply to commands and queries only: remove them"
                )
            _check_request_options(name, retry, remember, retry_safe)
        # Without the keyword, the class inherits the setting.
        if retry is not None:
            made.message_retry = retry
        if remember is not None:
            made.is_message_remembered = remember
        if retry_safe is not None:
            made.is_message_retry_safe = retry_safe
        return made


def _check_request_options(name: str, retry: object, remember: object, retry_safe: object) -> None:
    if retry is not None and not isinstance(retry, Retry):
        raise ContractError(f"class {name}: retry is {safe_repr(retry)}: pass a Retry")
    if remember is not None and not isinstance(remember, bool):
        raise ContractError(f"class {name}: remember is {safe_repr(remember)}: pass True or False")
    if retry_safe is not None and not isinstance(retry_safe, bool):
        raise ContractError(f"class {name}: retry_safe is {safe_repr(retry_safe)}: pass True or False")


class TypedMessage(Struct, metaclass=TypedMessageMeta, gc=False):
    """The base of all message classes. Derive from `Command`, `Query`, `Event` or `Failure`.

    The garbage collector does not track messages, because they are trees. Pass `gc=True` for a class whose objects become part of a cycle.
    """

    message_kind: ClassVar[Kind | None] = None
    """The kind on the wire."""
    message_type: ClassVar[str] = ""
    """The type on the wire."""
    message_retry: ClassVar[Retry | None] = None
    """The retry policy, as in `class Place(Command[Order], type="Orders.Place", retry=Retry())`; None for no retries."""
    is_message_remembered: ClassVar[bool] = True
    """Whether a repeated request (same id, same content) gets the first answer. The default is True for commands and False for
    queries; the keyword `remember` overrides it."""
    is_message_retry_safe: ClassVar[bool] = False
    """Whether a command may be handled again if the node has died while it was handled, as in
    `class Put(Command[None], type="Files.Put", retry_safe=True)`. If not, its answer is `Sys.InDoubt`. It matters on a node with a journal."""


# The metaclass is repeated here and below: type checkers then allow derived classes to be frozen.
class TypedRequest(TypedMessage, Generic[Reply_co], metaclass=TypedMessageMeta, forbid_unknown_fields=True):
    """The base of `Command` and `Query`, which are answered.

    Unknown fields are rejected, so that a misspelled optional field is an error. (Events allow unknown fields, so that a sender can
    add fields.) Pass `forbid_unknown_fields=False` to a class to allow them.
    """


class Command(TypedRequest[Reply_co], Generic[Reply_co], metaclass=TypedMessageMeta):
    """A request to do something. Exactly one capability handles it, and answers with a reply or an error."""

    message_kind = "command"


class Query(TypedRequest[Reply_co], Generic[Reply_co], metaclass=TypedMessageMeta):
    """A request for information, without side effects. Exactly one capability answers it.

    A repeated query is handled again: that does no harm, and a remembered answer may be out of date. Pass `remember=True` to a class whose
    answers are expensive.
    """

    message_kind = "query"
    is_message_remembered = False


class Event(TypedMessage, metaclass=TypedMessageMeta):
    """A fact: something has happened. Every subscribed capability and client gets its own copy."""

    message_kind = "event"


class Failure(TypedMessage, metaclass=TypedMessageMeta):
    """An error that a capability returns deliberately: `raise RefusedError(NotFound(...))`."""

    message_kind = "error"


class Message(Struct, kw_only=True):
    """A message with decoded data: what a Worker receives and sends.

    The runtime sets the id, the time, the causation and the correlation of a message that a capability sends.
    """

    kind: Kind
    type: str
    # Any: the type of the data depends on the contract.
    data: Any = msgspec.field(default_factory=dict[str, Any])
    metadata: Metadata | None = None
