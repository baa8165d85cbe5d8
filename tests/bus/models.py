"""pydantic models, as payloads and as whole messages."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Generic, Literal, TypeVar
from uuid import UUID

from msgspec import Struct
from pydantic import (
    UUID4,
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    NaiveDatetime,
    PositiveInt,
    field_validator,
)

T = TypeVar("T")


class Size(Enum):
    SMALL = "s"
    LARGE = "l"


class Item(BaseModel):
    """A thing with a price."""

    name: Annotated[str, Field(min_length=1, max_length=8)]
    price: Annotated[float, Field(gt=0, le=100)] = 1.0
    size: Size = Size.SMALL


class Order(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    number: PositiveInt = Field(alias="orderNumber", examples=[17])
    items: list[Item] = Field(max_length=3)
    note: str | None = None
    by_name: dict[str, Item] = {}


class Stamps(BaseModel):
    moment: datetime
    aware: AwareDatetime
    naive: NaiveDatetime
    day: date
    clock: time
    span: timedelta
    token: UUID
    random: UUID4


class Narrow(BaseModel):
    model_config = ConfigDict(strict=True)

    day: date
    pair: tuple[int, str]
    kind: Literal["a", "b"]


class Node(BaseModel):
    name: str
    children: list[Node] = []


class Amount(BaseModel):
    exact: Decimal
    bounded: Decimal = Field(ge=0, le=1000)
    digits: Decimal = Field(max_digits=4)
    places: Decimal = Field(decimal_places=2)
    money: Decimal = Field(max_digits=6, decimal_places=2)
    share: Decimal = Field(max_digits=2, decimal_places=2)


class Keyed(BaseModel):
    by_int: dict[int, bool]
    by_float: dict[float, bool]
    by_day: dict[date, bool]
    by_size: dict[Size, bool]
    by_any: dict[Any, bool]
    by_word: dict[Annotated[str, Field(max_length=2)], bool]


class Box(BaseModel, Generic[T]):
    content: T


class Even(BaseModel):
    number: int

    @field_validator("number")
    @classmethod
    def is_even(cls, number: int) -> int:
        if number % 2:
            raise ValueError("must be even")
        return number


class Rude(BaseModel):
    number: int

    @field_validator("number")
    @classmethod
    def fail(cls, number: int) -> int:
        raise KeyError(number)


class Cart(Struct):
    """A Struct with models inside."""

    owner: str
    orders: list[Order]
    best: Item | None = None


# Any: annotations are of no type that Python has a name for.
MODELS: Mapping[str, Any] = {
    "model": Item,
    "model with an alias": Order,
    "moments": Stamps,
    "strict model": Narrow,
    "generic model": Box[Item],
    "models in a list": list[Item],
    "optional model": Item | None,
    "models by name": dict[str, Box[int]],
    "struct of models": Cart,
    "recursive model": Node,
    "decimals": Amount,
    "dictionaries": Keyed,
}


class OrderPlaced(BaseModel):
    """An order was placed."""

    kind: Literal["event"]
    type: Literal["Shop.OrderPlaced"]
    data: Order
    metadata: dict[str, Any] | None = None


class PlaceOrder(BaseModel):
    """Place an order."""

    kind: Literal["command"]
    type: Literal["Shop.Place", "Shop.Replace"]
    data: Order


class Ruled(BaseModel):
    kind: Literal["command"]
    type: Literal["Shop.Ruled"]
    data: Annotated[int, Field(gt=3)]


class Picky(BaseModel):
    kind: Literal["command"]
    type: Literal["Shop.Picky"]
    data: Item

    @field_validator("data")
    @classmethod
    def is_cheap(cls, item: Item) -> Item:
        if item.price > 10:
            raise ValueError("too dear")
        return item
