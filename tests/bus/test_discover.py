"""From types to the finite set of messages that they declare; an open type is refused with the name of the field."""

from __future__ import annotations

from typing import Annotated, Any, Union

import pytest
from typing_extensions import TypeAliasType

from bandstand.bus.contracts.messages import Command, Message, Query
from bandstand.bus.contracts.types import (
    UNDECLARED,
    MessageDeclaration,
    declared_messages,
    is_message_annotation,
    message_parts,
)
from bandstand.bus.frame import Metadata
from bandstand.errors import ContractError, ContractViolationError, InvalidMessageError
from tests.bus import envelopes as e
from tests.bus.models import Item, Order, OrderPlaced, Picky, PlaceOrder

Both = TypeAliasType("Both", e.Set | e.Get)
METADATA = Metadata("id-1", 7, correlation="c")


def pairs(annotation: Any) -> list[tuple[str, str]]:
    return [(message.kind, message.type) for message in declared_messages(annotation, "capability X")]


def only(annotation: Any) -> MessageDeclaration:
    (message,) = declared_messages(annotation, "capability X")
    return message


@pytest.mark.spec("C15")
class TestForms:
    @pytest.mark.parametrize(
        ("annotation", "expected"),
        [
            (e.SetMessage, [("command", "Memory.Set")]),
            (e.SetRecord, [("command", "Memory.SetRecord")]),
            (e.SetDict, [("command", "Memory.SetDict")]),
            (e.Tagged, [("command", "Memory.Tagged")]),
            (OrderPlaced, [("event", "Shop.OrderPlaced")]),
            (e.Set, [("command", "Memory.Set")]),
            (e.Changed, [("event", "Memory.Changed")]),
            (e.NotFound, [("error", "Memory.NotFound")]),
            (e.SetReply, [("reply", "Memory.Set")]),
            (e.WithDefaults, [("command", "Memory.Defaults")]),
        ],
    )
    def test_a_single_pair_of_literals(self, annotation: Any, expected: list[tuple[str, str]]) -> None:
        assert pairs(annotation) == expected

    @pytest.mark.parametrize(
        ("annotation", "expected"),
        [
            (e.ReadMessage, [("query", "Memory.Get"), ("query", "Memory.List")]),
            (e.UnionOfTypes, [("query", "Memory.One"), ("query", "Memory.Two")]),
            (PlaceOrder, [("command", "Shop.Place"), ("command", "Shop.Replace")]),
            (
                e.ByEnum,
                [
                    ("command", "Enum.One"),
                    ("command", "Enum.Two"),
                    ("query", "Enum.One"),
                    ("query", "Enum.Two"),
                ],
            ),
        ],
    )
    def test_one_class_for_several_types(self, annotation: Any, expected: list[tuple[str, str]]) -> None:
        assert pairs(annotation) == expected

    @pytest.mark.parametrize(
        "annotation",
        [
            e.Set | e.Get | e.Changed,
            Union[e.Set, Union[e.Get, e.Changed]],  # noqa: UP007  # as older programs write it
            Annotated[e.Set | e.Get, "x"] | e.Changed,
            e.Alias | e.Changed,
            Both | e.Changed,
            Union[e.SetMessage, e.Get, e.Changed],  # noqa: UP007  # likewise
        ],
    )
    def test_a_union_of_messages(self, annotation: Any) -> None:
        assert pairs(annotation) == [
            ("command", "Memory.Set"),
            ("query", "Memory.Get"),
            ("event", "Memory.Changed"),
        ]

    def test_a_union_of_tagged_structs_has_the_data_of_each(self) -> None:
        first, second = declared_messages(e.Tagged | e.OtherTag, "x")
        assert (first.type, first.payload, second.type, second.payload) == (
            "Memory.Tagged",
            e.Pair,
            "Memory.Other",
            e.Value,
        )

    def test_the_data_is_the_message_class_itself_or_the_field(self) -> None:
        assert only(e.Set).payload is e.Set
        assert only(e.SetMessage).payload is e.Pair
        assert only(e.Undocumented).payload is None
        assert only(e.Envelope[e.Value]).payload is e.Value
        assert only(e.Echo[int]).payload == e.Echo[int]

    def test_the_description_is_the_classs_own_docstring(self) -> None:
        assert only(e.Set).description == "Keep a value."
        assert only(e.SetRecord).description == "Keep a value, as a dataclass."
        assert only(OrderPlaced).description == "An order was placed."
        # Neither inherited nor made up by a decorator.
        assert only(e.NotFound).description == ""
        assert only(e.Undocumented).description == ""


class TestReplies:
    @pytest.mark.parametrize(
        ("annotation", "reply"),
        [
            (e.Get, e.Value),
            (e.Set, None),
            (e.Clear, UNDECLARED),
            (e.Quoted, e.Later),
            (e.QuotedInside, list[e.Later] | None),
            (e.Names, list[str]),
            (e.Echo[int], int),
            (e.Echo, UNDECLARED),
            (e.Changed, UNDECLARED),
            (e.SetMessage, UNDECLARED),
        ],
    )
    def test_what_stands_in_the_brackets_is_the_reply(self, annotation: Any, reply: Any) -> None:
        assert only(annotation).reply == reply


@pytest.mark.spec("C15")
class TestRefusals:
    @pytest.mark.parametrize(
        ("annotation", "sentence"),
        [
            (e.PatternType, "PatternType: the field 'type' is .*which allows any value"),
            (e.HalfOpenType, "HalfOpenType: the field 'type' is .*which allows any value"),
            (e.NumberTag, "NumberTag: .*'3'"),
            (e.MoreFieldsRecord, "MoreFieldsRecord: the field 'tenant' is not part of a message"),
            (Command, "class Command has no type"),
            (Message, "Message: the field 'type' is str"),
            (None, "None is not a message class"),
            (e.Set | None, "None is not a message class"),
            ("Set", "Set is not a message class"),
        ],
    )
    def test_open_types_and_other_classes_are_refused_by_name(self, annotation: Any, sentence: str) -> None:
        """The others are in `texts/contract_errors.txt`."""
        with pytest.raises(ContractError, match=f"^capability X: .*{sentence}"):
            declared_messages(annotation, "capability X")


class TestLikeness:
    @pytest.mark.parametrize(
        "annotation",
        [
            e.Set,
            e.Set | None,
            e.SetMessage,
            e.SetDict,
            e.Tagged,
            OrderPlaced,
            e.OpenType,
            e.NoKind,
            Message,
            Query,
            e.Echo[int],
        ],
    )
    def test_a_message_is_known_even_if_it_is_declared_wrongly(self, annotation: Any) -> None:
        assert is_message_annotation(annotation)

    @pytest.mark.parametrize(
        "annotation", [int, None, e.Value, e.Pair, dict[str, int], Item, list[e.Set], e.Plain, "x", Any]
    )
    def test_other_things_are_not(self, annotation: Any) -> None:
        assert not is_message_annotation(annotation)


class TestShapes:
    @pytest.mark.parametrize(
        ("annotation", "data", "expected"),
        [
            (e.SetMessage, e.Pair("a"), e.SetMessage("command", "Memory.Set", e.Pair("a"), METADATA)),
            (e.Tagged, e.Pair("a"), e.Tagged("command", e.Pair("a"))),
            (
                e.SetRecord,
                e.Pair("a"),
                e.SetRecord(
                    "command",
                    "Memory.SetRecord",
                    e.Pair("a"),
                    {"id": "id-1", "timestamp": 7, "correlation": "c"},
                ),
            ),
            (
                e.SetDict,
                e.Pair("a"),
                {"kind": "command", "type": "Memory.SetDict", "data": e.Pair("a"), "metadata": METADATA},
            ),
            (e.Undocumented, None, e.Undocumented("event", "Memory.Undocumented")),
            (
                e.WithOwnMetadata,
                None,
                e.WithOwnMetadata("command", "Memory.OwnMetadata", e.OwnMetadata("id-1", "c")),
            ),
            (e.Envelope[e.Value], e.Value(1), e.Envelope("command", "Memory.Generic", e.Value(1))),
            (e.WithDefaults, 3, e.WithDefaults(data=3)),
            (
                OrderPlaced,
                Order(orderNumber=1, items=[]),
                OrderPlaced(
                    kind="event",
                    type="Shop.OrderPlaced",
                    data=Order(orderNumber=1, items=[]),
                    metadata={"id": "id-1", "timestamp": 7, "correlation": "c"},
                ),
            ),
        ],
    )
    def test_the_envelope_is_made_and_read_back(
        self, annotation: Any, data: object, expected: object
    ) -> None:
        message = only(annotation)
        assert message.envelope is not None
        made = message.envelope.build(message.kind, message.type, data, METADATA)
        assert made == expected
        assert message_parts(made) == (message.kind, message.type, data)

    def test_members_of_an_enum_are_given_as_members(self) -> None:
        message = declared_messages(e.ByEnum, "x")[3]
        assert message.envelope is not None
        made = message.envelope.build("query", "Enum.Two", 3, METADATA)
        assert made == e.ByEnum(e.Kinds.QUERY, e.Types.TWO, 3)
        assert message_parts(made) == ("query", "Enum.Two", 3)

    def test_an_envelope_that_refuses_is_a_bad_message(self) -> None:
        envelope = only(Picky).envelope
        assert envelope is not None
        with pytest.raises(
            InvalidMessageError, match=r"Picky rejects this Shop\.Picky: .*too dear$"
        ) as caught:
            envelope.build("command", "Shop.Picky", Item(name="x", price=50), METADATA)
        assert caught.value.path == "$.data"


class TestSpeaking:
    def test_a_message_class_is_its_own_data(self) -> None:
        said = e.Set("a")
        assert message_parts(said) == ("command", "Memory.Set", said)

    def test_a_whole_message_and_a_dictionary_are_taken_apart(self) -> None:
        assert message_parts(Message(kind="event", type="A.B", data=[1])) == ("event", "A.B", [1])
        assert message_parts({"kind": "reply", "type": "A.B"}) == ("reply", "A.B", None)

    @pytest.mark.spec("C14")
    @pytest.mark.parametrize(
        ("value", "sentence"),
        [
            (3, "3 is not a message: send an instance of a message class"),
            (None, "None is not a message"),
            (e.Value(1), "is not a message"),
            ({"kind": "wish", "type": "A.B"}, "is not a message"),
            ({"kind": "event", "type": 3}, "is not a message"),
            (Message(kind="event", type=""), "is not a message"),
            (e.Untyped("k"), "class Untyped has no type"),
            ("x" * 1000, "in all"),
        ],
    )
    def test_other_values_are_refused(self, value: object, sentence: str) -> None:
        with pytest.raises(ContractViolationError, match=sentence):
            message_parts(value)
