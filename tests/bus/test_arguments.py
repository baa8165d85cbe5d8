"""What is typed after a type: the data that it means, and data as it would be typed."""

from __future__ import annotations

import json
import shlex
from typing import Annotated, Any, Literal

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import Meta

from bandstand.bus.contracts.schema import schema_of
from bandstand.cli.arguments import format_data, parse_data
from bandstand.cli.schema_reader import SchemaReader
from bandstand.errors import InvalidArgumentError, InvalidMessageError

pytestmark = [pytest.mark.spec("C22")]


class Place(msgspec.Struct):
    street: str
    number: int = 0
    inner: Place | None = None


class Form(msgspec.Struct, kw_only=True):
    name: str = ""
    note: str | None = None
    count: int = 0
    ratio: float = 0
    flag: bool = False
    anything: Any = None
    either: int | str = 0
    mood: Literal["good", "bad", 3] = "good"
    words: list[str] = []
    numbers: list[int] | None = None
    pair: tuple[int, str] = (0, "")
    table: dict[str, int] = {}
    place: Place | None = None
    size: Annotated[int, Meta(ge=1, le=5)] = 1


FORM = schema_of(Form, "the form")


def typed(*arguments: str) -> Any:
    return json.loads(parse_data(arguments, FORM))


class TestFields:
    @pytest.mark.parametrize(
        ("argument", "data"),
        [
            ("name=hello", {"name": "hello"}),
            ("name=5", {"name": "5"}),
            ("name=null", {"name": "null"}),
            ("name=", {"name": ""}),
            ("name=a=b", {"name": "a=b"}),
            ("name=two\nlines", {"name": "two\nlines"}),
            ("note=true", {"note": "true"}),
            ("note:=null", {"note": None}),
            ("count=5", {"count": 5}),
            ("ratio=5", {"ratio": 5}),
            ("ratio=0.5", {"ratio": 0.5}),
            ("flag=true", {"flag": True}),
            ("anything=hello", {"anything": "hello"}),
            ("anything=5", {"anything": 5}),
            ('anything="5"', {"anything": "5"}),
            ('anything={"a": [1]}', {"anything": {"a": [1]}}),
            ("anything=NaN", {"anything": "NaN"}),
            ("anything=1e999", {"anything": "1e999"}),
            ("either=5", {"either": 5}),
            ("either=five", {"either": "five"}),
            ("either=[5]", {"either": "[5]"}),
            ("mood=bad", {"mood": "bad"}),
            ("mood=3", {"mood": 3}),
            ("table.a=1", {"table": {"a": 1}}),
            ("place.street=Main", {"place": {"street": "Main"}}),
            ("place.inner.number=3", {"place": {"inner": {"number": 3}}}),
            ("anything.a.b=1", {"anything": {"a": {"b": 1}}}),
            ("words=one", {"words": ["one"]}),
            ('words=["one", "two"]', {"words": ["one", "two"]}),
            ("numbers=5", {"numbers": [5]}),
        ],
    )
    def test_the_schema_says_what_a_text_means(self, argument: str, data: object) -> None:
        assert typed(argument) == data

    def test_no_arguments_are_an_empty_object(self) -> None:
        assert typed() == {}

    def test_fields_of_one_object_come_together(self) -> None:
        assert typed("place.street=Main", "name=x", "place.number=3") == {
            "place": {"street": "Main", "number": 3},
            "name": "x",
        }

    def test_a_list_is_typed_item_by_item(self) -> None:
        assert typed("words=1", "words=two", "pair=1", "pair=2") == {"words": ["1", "two"], "pair": [1, "2"]}

    def test_what_does_not_fit_goes_to_the_node_which_says_why(self) -> None:
        assert typed("count=many", "flag=5") == {"count": "many", "flag": 5}

    def test_a_number_of_any_size_is_kept(self) -> None:
        assert typed("count=123456789012345678901234567890") == {"count": 123456789012345678901234567890}


class TestWhole:
    @pytest.mark.parametrize("text", ['{"name": "a=b"}', "[1, 2]", '"a=b"', "5", "not json", '{"a": 1e999}'])
    def test_one_argument_that_is_no_field_is_taken_as_it_stands(self, text: str) -> None:
        assert parse_data([text], FORM) == text.encode()


class TestRefusals:
    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            (["name=a", "name=b"], "name is given twice"),
            (["name=a", "oops"], "'oops' is not a field: pass NAME=TEXT"),
            (["{}", "name=a"], "'{}' is not a field"),
            (["place={}", "place=1"], "place is given twice"),
            (["anything=1", "anything.b=2"], "anything.b is given, but a field that contains it"),
            (["words:=null", "words=a", "words:=1"], "words is given twice"),
            (["words:=5", "words=a"], "words is given twice"),
            (["name:=oops"], "name:=oops is not valid JSON: .*; for a string, pass name=oops"),
            (["count:=NaN"], "NaN is not JSON"),
            (["anything:=" + "[" * 100_000], "nested too deeply|not valid JSON"),
            (["name=\udcff"], "not UTF-8"),
            (["\udcff"], "not UTF-8"),
        ],
    )
    def test_contradictions_are_told(self, arguments: list[str], words: str) -> None:
        with pytest.raises(InvalidArgumentError, match=words):
            parse_data(arguments, FORM)

    def test_a_misspelt_field_is_told_with_the_right_one(self) -> None:
        with pytest.raises(
            InvalidMessageError, match=r"there is no field nmae; did you mean name\?"
        ) as caught:
            typed("nmae=x")
        assert caught.value.path == "$.data.nmae"
        with pytest.raises(InvalidMessageError, match=r"no field place.steet; did you mean street\?"):
            typed("place.steet=x")
        with pytest.raises(InvalidMessageError, match=r"the fields are name, note, "):
            typed("zzz=x")

    def test_a_message_without_fields_says_so(self) -> None:
        class Nothing(msgspec.Struct):
            pass

        with pytest.raises(InvalidMessageError, match="there is no field x; the type has no fields"):
            parse_data(["x=1"], schema_of(Nothing, "nothing"))


class TestTyping:
    @pytest.mark.parametrize(
        ("data", "words"),
        [
            ({"name": "hello", "count": 5}, "name=hello count=5"),
            ({"name": "two words"}, "'name=two words'"),
            ({"anything": "5"}, """'anything="5"'"""),
            ({"note": None}, "note:=null"),
            ({"words": ["a", "b"]}, "words=a words=b"),
            ({"words": []}, "'words=[]'"),
            ({"place": {"street": "Main"}}, """'place={"street": "Main"}'"""),
            ({"odd name": 1}, """'{"odd name": 1}'"""),
            ([1], "'[1]'"),
            (["é"], """'["é"]'"""),
        ],
    )
    def test_the_simplest_form_that_means_it_is_chosen(self, data: object, words: str) -> None:
        assert format_data(data, FORM) == words

    JSON = st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
        max_leaves=6,
    )

    @pytest.mark.slow
    @given(st.dictionaries(st.sampled_from([*Form.__struct_fields__, "a b", "x.y"]), JSON, max_size=4))
    @example({"words": ["[1]"]})
    @example({"name": "-"})
    def test_what_is_typed_means_what_was_to_be_typed(self, data: dict[str, Any]) -> None:
        for schema in (FORM, {}, {"type": "object", "additionalProperties": {"type": "string"}}):
            assert json.loads(parse_data(shlex.split(format_data(data, schema)), schema)) == data


class TestReading:
    @pytest.mark.parametrize(
        ("kind", "phrase"),
        [
            (str, "string"),
            (Annotated[str, Meta(min_length=1, max_length=9)], "string, 1 to 9 characters"),
            (Annotated[str, Meta(min_length=2)], "string, at least 2 characters"),
            (Annotated[str, Meta(max_length=2, min_length=2)], "string, 2 characters"),
            (Annotated[str, Meta(pattern="^a+$")], "string, matching ^a+$"),
            (Annotated[int, Meta(ge=1, lt=5)], "integer from 1 below 5"),
            (Annotated[float, Meta(gt=0, multiple_of=0.5)], "number above 0 in steps of 0.5"),
            (int | float, "number"),
            (int | None, "integer or null"),
            (bytes, "base64"),
            (Literal["a", "b", 3], "3 or a or b"),
            (list[int], "list of integer"),
            (Annotated[list[str], Meta(min_length=1)], "list of string, at least 1 item"),
            (dict[str, bool], "object of boolean"),
            (Any, "any JSON"),
            (Place, "Place"),
        ],
    )
    def test_a_type_in_words(self, kind: Any, phrase: str) -> None:
        schema = schema_of(kind, "it")
        assert SchemaReader(schema).phrase(schema) == phrase

    def test_references_that_lead_in_circles_come_to_an_end(self) -> None:
        schema = {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}
        assert SchemaReader(schema).phrase(schema) == "any JSON"
        knot = {"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}]}}}
        assert SchemaReader(knot).phrase(knot) == "any JSON"
