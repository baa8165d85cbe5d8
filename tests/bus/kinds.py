"""Types of every sort that a payload can be of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, IntEnum
from typing import Annotated, Any, Generic, Literal, NamedTuple, NotRequired, TypedDict, TypeVar
from uuid import UUID

import attrs
import msgspec
from msgspec import Meta, Struct

T = TypeVar("T")


class Color(Enum):
    """A colour."""

    RED = "red"
    BLUE = "blue"


class Level(IntEnum):
    LOW = 1
    HIGH = 10


class Point(Struct):
    """A place on a sheet."""

    x: int
    y: Annotated[int, Meta(ge=-5, le=5)] = 0


class Strict(Struct, forbid_unknown_fields=True, rename="camel"):
    first_name: Annotated[str, Meta(min_length=2, max_length=5)]
    last_name: str = "x"


class Cat(Struct, tag="cat"):
    lives: Annotated[int, Meta(gt=0, lt=10)]


class Dog(Struct, tag="dog"):
    tricks: list[str]


class Row(Struct, array_like=True):
    a: int
    b: str
    c: bool = False


class Frozen(Struct, frozen=True):
    key: str
    others: tuple[int, ...] = ()


class Page(Struct, Generic[T]):
    items: list[T]
    next: int | None = None


class Tree(Struct):
    name: str
    children: list[Tree] = msgspec.field(default_factory=list["Tree"])


class Bush(Struct):
    twigs: list[Bush]
    leaves: dict[str, Bush]


class Chain(Struct):
    next: Chain | None


@dataclass
class Address:
    """Where somebody lives."""

    street: str
    number: Annotated[int, Meta(multiple_of=2)] = 2
    tags: list[str] = field(default_factory=list[str])


class Movie(TypedDict):
    title: str
    year: NotRequired[int]


class Pair(NamedTuple):
    left: int
    right: str = "r"


@attrs.define
class Attribute:
    name: str
    weight: float = 1.0


class Everything(Struct):
    moment: datetime
    day: date
    span: timedelta
    amount: Decimal
    token: UUID
    blob: bytes
    color: Color
    pets: list[Cat | Dog]
    where: Address | None
    scores: dict[str, float]
    extra: Any = None


# Any: annotations are of no type that Python has a name for.
SERVED: Mapping[str, Any] = {
    "bool": bool,
    "int": int,
    "int with bounds": Annotated[int, Meta(ge=-3, lt=4)],
    "int in steps": Annotated[int, Meta(multiple_of=7)],
    "float": float,
    "float with bounds": Annotated[float, Meta(gt=0.5, le=2.25)],
    "float in steps": Annotated[float, Meta(multiple_of=0.25)],
    "str": str,
    "str with lengths": Annotated[str, Meta(min_length=1, max_length=3)],
    "str with a pattern": Annotated[str, Meta(pattern="^[a-z]{2}[0-9]+$")],
    "bytes": bytes,
    "bytes with lengths": Annotated[bytes, Meta(min_length=2, max_length=7)],
    "bytes of one length": Annotated[bytes, Meta(min_length=4, max_length=4)],
    "bytearray": bytearray,
    "datetime": datetime,
    "datetime with a zone": Annotated[datetime, Meta(tz=True)],
    "datetime without a zone": Annotated[datetime, Meta(tz=False)],
    "date": date,
    "time": time,
    "time with a zone": Annotated[time, Meta(tz=True)],
    "timedelta": timedelta,
    "uuid": UUID,
    "decimal": Decimal,
    "enum": Color,
    "int enum": Level,
    "literal": Literal["a", 1, None],  # noqa: PYI061  # it is one way to write it
    "any": Any,
    "object": object,
    "raw": msgspec.Raw,
    "optional": int | None,
    "union": int | str | list[bool] | None,
    "list": list[int],
    "list with lengths": Annotated[list[int], Meta(min_length=1, max_length=2)],
    "sequence": Sequence[str],
    "set": set[str],
    "set with lengths": Annotated[set[int], Meta(min_length=2, max_length=4)],
    "frozenset of records": frozenset[Frozen],
    "tuple": tuple[int, str, bool],
    "tuple of many": tuple[float, ...],
    "empty tuple": tuple[()],
    "dict": dict[str, int],
    "mapping": Mapping[str, list[int]],
    "dict by int": dict[int, str],
    "dict by float": dict[float, str],
    "dict by enum": dict[Color, int],
    "dict by int enum": dict[Level, int],
    "dict by literal": dict[Literal["a", "b", 3], int],
    "dict by date": dict[date, int],
    "dict by uuid": dict[UUID, int],
    "dict by short str": dict[Annotated[str, Meta(max_length=2)], int],
    "dict with lengths": Annotated[dict[int, bool], Meta(min_length=2, max_length=3)],
    "struct": Point,
    "strict struct": Strict,
    "tagged struct": Cat,
    "tagged union": Cat | Dog,
    "array-like struct": Row,
    "frozen struct": Frozen,
    "generic struct": Page[int],
    "generic of generics": Page[Page[str]],
    "dataclass": Address,
    "typed dict": Movie,
    "named tuple": Pair,
    "attrs": Attribute,
    "everything": Everything,
}
RECURSIVE: Mapping[str, Any] = {"tree": Tree, "chain": Chain, "bush": Bush, "list of trees": list[Tree]}
ALL: Mapping[str, Any] = {**SERVED, **RECURSIVE}


class Custom:
    """A class of which msgspec knows nothing."""


class Holder(Struct):
    inner: list[dict[str, Custom]]


class Unresolved(Struct):
    missing: Nowhere  # type: ignore[name-defined]  # noqa: F821  # pyright: ignore[reportUndefinedVariable]  # on purpose


REFUSED: Mapping[str, tuple[Any, str]] = {
    "a custom class": (Custom, r"\$\.data: Custom cannot be read from JSON: make it a Struct"),
    "a custom class inside": (Holder, r"\$\.data\.inner\[\.\.\.\]\[\.\.\.\]: Custom cannot"),
    "a function": (lambda: None, "cannot be read from JSON"),
    "a number": (3, "Type '3' is not supported"),
    "complex": (complex, "complex cannot be read"),
    "a name that is nowhere": (Unresolved, "Nowhere"),
    "a set of lists": (set[tuple[list[int]]], r"\$\.data\[\.\.\.\]: a set cannot hold this"),
    "a set of anything": (set[Any], "a set cannot hold this"),
    "a set of structs": (set[Point], "a set cannot hold this"),
    "a set of dataclasses": (set[Address], "a set cannot hold this"),
    "two sorts of strings": (str | date, "more than one str-like type"),
    "two structs without a tag": (Point | Strict, "cannot be read from JSON"),
    "keys that are tuples": (dict[tuple[int, int], int], "JSON keys are strings"),
    "keys that are bools": (dict[bool, int], "JSON keys are strings"),
    "keys with bounds": (dict[Annotated[int, Meta(ge=0)], int], "JSON keys are strings"),
    "tenths": (Annotated[float, Meta(multiple_of=0.1)], "multiples of 0.1 are not exact"),
    "at least two of what has many spellings": (Annotated[set[datetime], Meta(min_length=2)], "min_length=2"),
    "at least two keys with many spellings": (
        Annotated[dict[float, int], Meta(min_length=2)],
        "min_length=2",
    ),
    "an extension": (msgspec.msgpack.Ext, "Ext has no form in JSON"),
}
