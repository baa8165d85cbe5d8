"""Message classes: their kind, their type, and data that is nothing but their fields."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from bandstand.bus.contracts.messages import (
    TYPE_NAME,
    Command,
    Event,
    Failure,
    Message,
    Query,
    TypedMessage,
    TypedRequest,
)
from bandstand.errors import ContractError

pytestmark = [pytest.mark.spec("C1", "C12")]


class Value(msgspec.Struct):
    value: int


class Get(Query[Value], type="Shelf.Get"):
    """Read what lies there."""

    key: str


class Put(Command[None], type="Shelf.Put"):
    key: str
    value: int = 0


class Changed(Event, type="Shelf.Changed", frozen=True):
    key: str


class NotThere(Failure, type="Shelf.NotThere", rename="camel"):
    wanted_key: str


class TestAClass:
    @pytest.mark.parametrize(
        ("kind", "expected"),
        [
            (Get, ("query", "Shelf.Get")),
            (Put, ("command", "Shelf.Put")),
            (Changed, ("event", "Shelf.Changed")),
            (NotThere, ("error", "Shelf.NotThere")),
        ],
    )
    def test_knows_its_kind_and_its_type(self, kind: type[TypedMessage], expected: tuple[str, str]) -> None:
        assert (kind.message_kind, kind.message_type) == expected

    def test_has_data_of_its_fields_alone(self) -> None:
        assert msgspec.json.encode(Get(key="a")) == b'{"key":"a"}'
        assert msgspec.json.decode(b'{"key":"a"}', type=Put) == Put(key="a", value=0)

    def test_takes_the_options_of_a_struct(self) -> None:
        assert msgspec.json.encode(NotThere(wanted_key="a")) == b'{"wantedKey":"a"}'
        changed: Any = Changed(key="a")
        with pytest.raises(AttributeError):
            changed.key = "b"

    def test_is_a_request_if_it_is_owed_an_answer(self) -> None:
        assert [issubclass(kind, TypedRequest) for kind in (Get, Put, Changed, NotThere)] == [
            True,
            True,
            False,
            False,
        ]

    def test_does_not_hand_down_its_type(self) -> None:
        """Two classes with one type would be one too many: whoever derives says its own."""

        class GetMore(Get, type="Shelf.GetMore"):
            more: int = 0

        class Nameless(Get):
            pass

        assert GetMore.message_type == "Shelf.GetMore"
        assert GetMore.message_kind == "query"
        assert Nameless.message_type == ""
        assert Get.message_type == "Shelf.Get"


class TestAType:
    @pytest.mark.parametrize("name", ["Memory.Set", "a.b", "Shop.Stock.Low", "A1.B-2", "My_Shop.X"])
    def test_is_words_with_dots_between_them(self, name: str) -> None:
        assert TYPE_NAME.fullmatch(name)

        class Said(Event, type=name):
            pass

        assert Said.message_type == name

    @pytest.mark.parametrize(
        "name",
        [
            *("Memory", "Memory.", ".Set", "Memory..Set", "Memory Set.x", "1.Set", "Memory.*"),
            *("Mémoire.Lire", "a.b\n"),
        ],
    )
    def test_that_is_none_is_refused_with_the_class_named(self, name: str) -> None:
        with pytest.raises(ContractError) as caught:

            class Said(Event, type=name):  # pyright: ignore[reportUnusedClass]  # it is never made
                pass

        assert "class Said" in str(caught.value)
        assert repr(name) in str(caught.value)
        assert "Memory.Set" in str(caught.value), "and an example of a right one"


class TestAWholeMessage:
    def test_has_empty_data_of_its_own(self) -> None:
        one, other = Message(kind="event", type="A.B"), Message(kind="event", type="A.B")
        one.data["key"] = 1
        assert other.data == {}

    def test_is_written_by_name(self) -> None:
        wrong: Any = Message
        with pytest.raises(TypeError):
            wrong("event", "A.B")
