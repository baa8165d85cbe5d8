"""Message classes: what may be said, as types.

    class Value(msgspec.Struct):
        value: Json

    class Get(Query[Value], type="Memory.Get"):
        '''Read what lies under a key.'''

        key: str

A message class is a `msgspec.Struct` that knows its kind and its type. Its fields are the message's `data`; what is written in the
brackets is the type of the reply, so that `await outlet.ask(Get(key="a"))` is known to be a `Value`.
"""

from __future__ import annotations

import re
from typing import Any, ClassVar, Generic, TypeVar, dataclass_transform

import msgspec
from msgspec import Struct, StructMeta

from bandstand.bus.contracts.retry import Retry
from bandstand.bus.frame import Kind, Metadata
from bandstand.errors import BadContract
from bandstand.errors.formatting import safe_repr

__all__ = ("TYPE_NAME", "Command", "Event", "Failure", "Message", "Query", "Request", "Spoken")

Reply_co = TypeVar("Reply_co", covariant=True)

TYPE_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*(\.[A-Za-z][A-Za-z0-9_-]*)+")
"""What a type is called: words with dots between them, as `Memory.Set`."""


@dataclass_transform(field_specifiers=(msgspec.field,))
class SpokenMeta(StructMeta):
    """Gives a class of messages its `type`, and a request's what it says of repeats and retries; all other keywords are those of `msgspec.Struct`."""

    # Any: this is how a metaclass is called, and the options of a Struct are msgspec's affair.
    def __new__(
        cls,
        name: str,
        bases: tuple[type, ...],
        namespace: dict[str, Any],
        *,
        type: str = "",  # noqa: A002  # its name on the wire
        retry: Retry | None = None,
        remember: bool | None = None,
        **options: Any,
    ) -> Any:
        """Make the class.

        Raises:
            BadContract: the type is no name, or what it says of retries and repeats has no sense.
        """
        if type and not TYPE_NAME.fullmatch(type):
            raise BadContract(
                f"class {name}: type is {safe_repr(type)}: pass words with dots between them, as 'Memory.Set'"
            )
        made: Any = super().__new__(cls, name, bases, namespace, **options)
        made.message_type = type
        if retry is not None or remember is not None:
            if made.message_kind not in {"command", "query"}:
                raise BadContract(
                    f"class {name}: retry and remember are for commands and queries: leave them out"
                )
            _check_repeats(name, retry, remember)
        # What is not said is as in the class that it derives from.
        if retry is not None:
            made.message_retry = retry
        if remember is not None:
            made.is_message_remembered = remember
        return made


def _check_repeats(name: str, retry: object, remember: object) -> None:
    if retry is not None and not isinstance(retry, Retry):
        raise BadContract(f"class {name}: retry is {safe_repr(retry)}: pass a Retry")
    if remember is not None and not isinstance(remember, bool):
        raise BadContract(f"class {name}: remember is {safe_repr(remember)}: pass True or False")


class Spoken(Struct, metaclass=SpokenMeta, gc=False):
    """What every message class is. Derive from `Command`, `Query`, `Event` or `Failure`.

    Messages are trees, so the garbage collector need not look at them: `gc=True` for a class whose objects are made part of a cycle.
    """

    message_kind: ClassVar[Kind | None] = None
    """Its kind on the wire."""
    message_type: ClassVar[str] = ""
    """Its type on the wire."""
    message_retry: ClassVar[Retry | None] = None
    """When it is tried again, as `class Place(Command[Order], type="Orders.Place", retry=Retry())` says; None for never."""
    is_message_remembered: ClassVar[bool] = True
    """Whether a repeat (the same id, the same content) gets the first one's answer: a command's does unless the class says
    `remember=False`, a query's only if it says `remember=True`."""


# The metaclass is said again, here and below, so that type checkers let a class that derives from one of these be frozen.
class Request(Spoken, Generic[Reply_co], metaclass=SpokenMeta, forbid_unknown_fields=True):
    """What is owed an answer: a `Command` or a `Query`.

    A field that it does not have is refused: who misspells an optional one is told, and does not get something else. (Events tolerate
    fields that nobody knows, so that those who say them may come to say more.) `forbid_unknown_fields=False` in a class says otherwise.
    """


class Command(Request[Reply_co], Generic[Reply_co], metaclass=SpokenMeta):
    """A wish: something is to be done. Exactly one capability handles it, and answers with a `Reply` or an error."""

    message_kind = "command"


class Query(Request[Reply_co], Generic[Reply_co], metaclass=SpokenMeta):
    """A question: something is to be told, and nothing to be changed. Exactly one capability answers it.

    A repeat is answered anew: handling it twice does no harm, and an answer from memory may be out of date. `remember=True` in a class says
    otherwise, for a question that is expensive to answer.
    """

    message_kind = "query"
    is_message_remembered = False


class Event(Spoken, metaclass=SpokenMeta):
    """A fact: something has happened. Every capability and client that subscribes to it gets a copy of its own."""

    message_kind = "event"


class Failure(Spoken, metaclass=SpokenMeta):
    """An error that a capability answers with on purpose: `raise Refused(NotFound(...))`."""

    message_kind = "error"


class Message(Struct, kw_only=True):
    """A whole message with its data decoded: what a Worker is given and gives back.

    In a message that a capability gives back, the runtime sets the id, the time, the causation and the correlation.
    """

    kind: Kind
    type: str
    # Any: what the data is depends on the type, which only a contract knows.
    data: Any = msgspec.field(default_factory=dict[str, Any])
    metadata: Metadata | None = None
