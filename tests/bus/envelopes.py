"""Messages in every form in which they can be declared."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any, Generic, Literal, NotRequired, TypeAlias, TypedDict, TypeVar

import msgspec
from msgspec import Meta, Struct

from bandstand.bus.contracts.messages import Command, Event, Failure, Query
from bandstand.bus.frame import Metadata

T = TypeVar("T")
U = TypeVar("U")


class Value(Struct):
    value: int | None


class Pair(Struct):
    key: str
    value: int = 0


class Set(Command[None], type="Memory.Set"):
    """Keep a value."""

    key: str
    value: int = 0


class Get(Query[Value], type="Memory.Get"):
    """Read a value."""

    key: str


class Clear(Command, type="Memory.Clear"):  # type: ignore[type-arg]  # pyright: ignore[reportMissingTypeArgument]  # it does not say
    pass


class Quoted(Query["Later"], type="Memory.Quoted"):
    pass


class QuotedInside(Query["list[Later] | None"], type="Memory.QuotedInside"):
    pass


class Later(Struct):
    text: str


class Paged(Query[list[T]], Generic[T, U]):
    """A class between a message and its kind."""

    filter: U | None = None


class Names(Paged[str, int], type="Memory.Names"):
    pass


class Echo(Query[T], Generic[T], type="Memory.Echo"):
    what: T


class Changed(Event, type="Memory.Changed"):
    """A value has changed."""

    key: str


class NotFound(Failure, type="Memory.NotFound"):
    key: str


class Untyped(Command[None]):
    key: str


# --- whole messages ---------------------------------------------------------------------------------------------------


class SetMessage(Struct):
    """Keep a value, as a whole message."""

    kind: Literal["command"]
    type: Literal["Memory.Set"]
    data: Pair
    metadata: Metadata


class ReadMessage(Struct):
    kind: Literal["query"]
    type: Literal["Memory.Get", "Memory.List"]
    data: dict[str, str]


class UnionOfTypes(Struct):
    kind: Literal["query"]
    type: Literal["Memory.One"] | Literal["Memory.Two"]  # noqa: PYI030  # as the specification has it


class Tagged(Struct, tag="Memory.Tagged", tag_field="type"):
    kind: Literal["command"]
    data: Pair


class OtherTag(Struct, tag="Memory.Other", tag_field="type"):
    kind: Literal["command"]
    data: Value


class NumberTag(Struct, tag=3, tag_field="type"):
    kind: Literal["command"]


@dataclass
class SetRecord:
    """Keep a value, as a dataclass."""

    kind: Literal["command"]
    type: Literal["Memory.SetRecord"]
    data: Pair
    metadata: dict[str, Any]


@dataclass
class Undocumented:
    kind: Literal["event"]
    type: Literal["Memory.Undocumented"]


class SetDict(TypedDict):
    kind: Literal["command"]
    type: Literal["Memory.SetDict"]
    data: Pair
    metadata: NotRequired[Metadata]


class Kinds(Enum):
    COMMAND = "command"
    QUERY = "query"


class Types(Enum):
    ONE = "Enum.One"
    TWO = "Enum.Two"


class ByEnum(Struct):
    kind: Kinds
    type: Types
    data: int


class Envelope(Struct, Generic[T]):
    kind: Literal["command"]
    type: Literal["Memory.Generic"]
    data: T


class OwnMetadata(Struct):
    id: str
    correlation: str | None = None


class WithOwnMetadata(Struct):
    kind: Literal["command"]
    type: Literal["Memory.OwnMetadata"]
    metadata: OwnMetadata


class WithDefaults(Struct):
    kind: Literal["command"] = "command"
    type: Literal["Memory.Defaults"] = "Memory.Defaults"
    data: Any = None
    seen: bool = False


class SetReply(Struct):
    kind: Literal["reply"]
    type: Literal["Memory.Set"]
    data: Value


Alias: TypeAlias = Annotated[Set | Get, "both"]

# --- what is refused --------------------------------------------------------------------------------------------------


class OpenType(Struct):
    kind: Literal["command"]
    type: str
    data: Pair


class PatternType(Struct):
    kind: Literal["command"]
    type: Annotated[str, Meta(pattern="^Memory\\.")]
    data: Pair


class HalfOpenType(Struct):
    kind: Literal["command"]
    type: Literal["Memory.Set"] | str  # noqa: PYI051  # on purpose
    data: Pair


class NoKind(Struct):
    type: Literal["Memory.Set"]
    data: Pair


class NoType(Struct):
    kind: Literal["command"]
    data: Pair


class OpenKind(Struct):
    kind: str
    type: Literal["Memory.Set"]
    data: Pair


class WrongKind(Struct):
    kind: Literal["request"]
    type: Literal["Memory.Set"]
    data: Pair


class WrongType(Struct):
    kind: Literal["command"]
    type: Literal["set"]
    data: Pair


class NumberType(Struct):
    kind: Literal["command"]
    type: Literal[1]
    data: Pair


class MoreFields(Struct):
    kind: Literal["command"]
    type: Literal["Memory.Set"]
    data: Pair
    tenant: str


@dataclass
class MoreFieldsRecord:
    kind: Literal["command"]
    type: Literal["Memory.Set"]
    tenant: str


class Dangling(Struct):
    kind: Literal["command"]
    type: Literal["Memory.Set"]
    data: Nowhere  # type: ignore[name-defined]  # noqa: F821  # pyright: ignore[reportUndefinedVariable]  # on purpose


class DanglingReply(Query["Nowhere"], type="Memory.DanglingReply"):  # type: ignore[name-defined]  # pyright: ignore[reportUndefinedVariable]  # on purpose
    pass


Plain = msgspec.defstruct("Plain", [("a", int)])
