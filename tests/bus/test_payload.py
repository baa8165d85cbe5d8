"""A payload is read and written by its type, and by nothing but its schema anybody can write one that is read."""

from __future__ import annotations

import contextlib
import json
import math
from datetime import datetime, time
from typing import Annotated, Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Meta, Raw, Struct

from bandstand.bus.contracts import schema as schemas
from bandstand.bus.contracts.codec import PayloadCodec
from bandstand.bus.contracts.schema import example_of, is_hashable
from bandstand.errors import ContractError, ContractViolationError, InvalidMessageError
from tests.bus.generating import check, check_schema, payloads_of
from tests.bus.kinds import ALL, REFUSED, Chain, Color, Frozen, Point, Strict, Tree


def of(kind: Any) -> PayloadCodec:
    return PayloadCodec(kind, "command A.B")


def refusal(payload: PayloadCodec, data: bytes) -> InvalidMessageError:
    with pytest.raises(InvalidMessageError) as caught:
        payload.read(data)
    return caught.value


class Maybe(Struct):
    level: float | None = None
    inner: dict[str, Any] | None = None


class Checked(Struct):
    low: int
    high: int

    def __post_init__(self) -> None:
        if self.low > self.high:
            raise ValueError("low is above high")


class Careless(Struct):
    key: str

    def __post_init__(self) -> None:
        raise KeyError(self.key)


class Ring(Struct, frozen=True):
    next: Ring | None = None


class RingWithList(Struct, frozen=True):
    next: RingWithList | None = None
    names: list[str] = []


class Counted(Struct):
    count: int
    ratio: float = 0.0
    names: dict[int, int] = msgspec.field(default_factory=dict[int, int])


class Leaves(Struct):
    text: str
    number: int
    flag: bool
    maybe: int | None
    whatever: Annotated[Any, Meta(description="Anything.")]


class Limited(Struct):
    text: Annotated[str, Meta(max_length=1)]
    number: Annotated[int, Meta(ge=0)]


class Tagged(Struct, tag=True):
    text: str


class Nested(Struct):
    text: str
    point: Tagged | None


class Word(str):
    """A str that is one, and another class."""

    __slots__ = ()


LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.text(max_size=2),
    st.floats(),
    st.sampled_from([Color.RED, Word("w"), "\ud800", b"x", msgspec.UNSET, 1 << 70, [1], Tagged("t")]),
)


@pytest.mark.spec("C22")
class TestSchema:
    @pytest.mark.slow
    @pytest.mark.parametrize("name", ALL)
    def test_values_of_the_schema_are_read_and_written_values_conform(self, name: str) -> None:
        payload = of(ALL[name])

        @settings(max_examples=12)
        @given(payloads_of(payload))
        def holds(value: Any) -> None:
            read = payload.read(json.dumps(value).encode())
            check(payload.schema, msgspec.json.decode(payload.write(read)))

        holds()

    @pytest.mark.parametrize("name", ALL)
    def test_it_is_a_schema_and_stands_by_itself(self, name: str) -> None:
        schema = of(ALL[name]).schema
        check_schema(schema)
        text = json.dumps(schema)
        for reference in {part.partition('"')[0] for part in text.split('"$ref": "')[1:]}:
            assert reference.removeprefix("#/$defs/") in schema["$defs"]

    @pytest.mark.parametrize(("kind", "name"), [(datetime, "date-time"), (time, "time")])
    def test_a_time_without_a_zone_has_a_format_of_its_own(self, kind: Any, name: str) -> None:
        zoned = of(Annotated[kind, Meta(tz=True)]).schema
        local = of(Annotated[kind, Meta(tz=False)]).schema
        # By the rules of JSON Schema `date-time` and `time` have a zone: together with a pattern without one, nothing would be right.
        assert (zoned["format"], local["format"]) == (name, f"{name}-local")
        assert of(kind).schema == {"anyOf": [zoned, local]}
        moment = "12:00:00" if kind is time else "2026-01-31T12:00:00"
        check(local, moment)
        check(zoned, f"{moment}Z")
        assert of(Annotated[kind, Meta(tz=False)]).example == moment

    def test_of_a_record_it_has_names_descriptions_and_defaults(self) -> None:
        assert of(Point).schema == {
            "title": "Point",
            "description": "A place on a sheet.",
            "type": "object",
            "properties": {
                "x": {"type": "integer"},
                "y": {"type": "integer", "minimum": -5, "maximum": 5, "default": 0},
            },
            "required": ["x"],
        }

    def test_what_somebody_added_by_hand_is_in_it(self) -> None:
        kind = Annotated[
            str, Meta(title="T", description="D", examples=["x"], extra_json_schema={"x-unit": "m"})
        ]
        assert of(kind).schema == {
            "type": "string",
            "title": "T",
            "description": "D",
            "examples": ["x"],
            "x-unit": "m",
        }

    def test_two_types_of_one_name_have_two_definitions(self) -> None:
        mine: Any = msgspec.defstruct("Point", [("z", str)], module="elsewhere")
        schema = of(tuple.__class_getitem__((Point, mine, Point))).schema
        assert set(schema["$defs"]) == {"Point", "elsewhere.Point"}
        assert schema["prefixItems"][0] == schema["prefixItems"][2] != schema["prefixItems"][1]


@pytest.mark.spec("C22")
class TestExamples:
    @pytest.mark.parametrize("name", ALL)
    def test_it_is_readable(self, name: str) -> None:
        kind = ALL[name]
        payload = of(kind)
        payload.read(json.dumps(payload.example).encode())
        check(payload.schema, payload.example)

    @pytest.mark.parametrize(
        ("kind", "example"),
        [
            (Point, {"x": 1}),
            (Annotated[str, Meta(examples=["greeting"])], "greeting"),
            (Annotated[int, Meta(gt=3)], 4),
            (Annotated[int, Meta(lt=-3)], -4),
            (Annotated[int, Meta(ge=8, multiple_of=5)], 10),
            (Annotated[float, Meta(gt=0, lt=1)], 0.5),
            (Annotated[float, Meta(lt=0)], -0.5),
            (Annotated[set[int], Meta(min_length=3)], [1, 2, 3]),
            (Annotated[set[Color], Meta(min_length=2)], ["red", "blue"]),
            (Annotated[dict[str, bool], Meta(min_length=2)], {"key": True, "key2": True}),
            (Annotated[list[int], Meta(max_length=0)], []),
            (Annotated[str, Meta(min_length=5, max_length=5)], "examp"),
            (Tree, {"name": "name"}),
            (Chain, {"next": None}),
            (int | None, 1),
            (None, {}),
        ],
    )
    def test_it_is_plausible(self, kind: Any, example: object) -> None:
        assert of(kind).example == example

    def test_fields_that_have_an_example_are_in_it_though_they_could_be_left_out(self) -> None:
        class Greeting(Struct):
            name: str
            mood: Annotated[str, Meta(examples=["happy"])] = "calm"
            volume: int = 1

        assert of(Greeting).example == {"name": "name", "mood": "happy"}

    def test_a_wrong_one_is_not_given(self) -> None:
        assert of(Annotated[str, Meta(pattern="^xyzzy[0-9]{3}!$")]).example is None
        assert of(Annotated[int, Meta(examples=["no number"])]).example is None
        assert of(Careless).example is None

    def test_a_pattern_of_another_dialect_is_no_hindrance(self) -> None:
        kind = Annotated[str, Meta(extra_json_schema={"pattern": r"\p{L}+"})]
        assert of(kind).example == "example"

    def test_each_part_is_made_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        made: list[str] = []
        example_string = schemas.example_string

        def counted(schema: dict[str, Any], name: str) -> str:
            made.append(name)
            return example_string(schema, name)

        monkeypatch.setattr(schemas, "example_string", counted)
        schema: dict[str, Any] = {"type": "string"}
        for _ in range(5):
            schema = {"type": "array", "items": schema}
        assert example_of(schema) == [[[[["example"]]]]]
        assert len(made) == 1

    def test_a_huge_one_is_not_made(self) -> None:
        assert len(example_of({"type": "string", "minLength": 10**9})) < 1000


class TestReading:
    @pytest.mark.spec("C10")
    @pytest.mark.parametrize(
        ("kind", "data", "path", "problem"),
        [
            (Point, b'{"x": "1"}', "$.data.x", "Expected `int`, got `str`"),
            (Point, b"{}", "$.data", "missing required field `x`"),
            (Point, b"[]", "$.data", "Expected `object`, got `array`"),
            (Point, b'{"x": 1.5}', "$.data.x", "Expected `int`, got `float`"),
            (Point, b'{"x": 1, "y": 9}', "$.data.y", "<= 5"),
            (list[Point], b'[{"x": 1}, {"x": null}]', "$.data[1].x", "got `null`"),
            (dict[int, int], b'{"one": 1}', "$.data", "as the key"),
            (dict[str, dict[int, int]], b'{"a": {"one": 1}}', "$.data[...]", "as the key"),
            (Strict, b'{"firstName": "abc", "other": 1}', "$.data", "unknown field `other`"),
            (str, b'"\xff"', "$.data", "not UTF-8"),
            (Any, b"[" * 100_000, "$.data", "nested too deeply"),
            (int, b"", "$.data", "truncated"),
            (Checked, b'{"low": 2, "high": 1}', "$.data", "low is above high"),
            (Careless, b'{"key": "k"}', "$.data", "its validation raised KeyError: 'k'"),
            (float, b"1e400", "$.data", "out of range"),
        ],
    )
    def test_what_is_wrong_is_said_and_where(self, kind: Any, data: bytes, path: str, problem: str) -> None:
        error = refusal(of(kind), data)
        assert error.path == path
        assert problem in str(error)
        assert "not the data of command A.B" in str(error)

    @pytest.mark.spec("C22")
    @pytest.mark.parametrize(
        ("data", "value"),
        [
            (b'{"count": 1.0}', Counted(1)),
            (b'{"count": 1e3, "ratio": 2}', Counted(1000, 2.0)),
            (b'{"count": -0.0, "ratio": 0.5}', Counted(0, 0.5)),
            (b'{"count": 12345678901234567891.0}', Counted(12345678901234567891)),
            (b'{"count": 7.0, "names": {"3": 4.0}}', Counted(7, 0.0, {3: 4})),
        ],
    )
    def test_a_whole_number_is_an_integer_however_it_is_written(self, data: bytes, value: Counted) -> None:
        assert of(Counted).read(data) == value

    @pytest.mark.parametrize("number", [b"1e999999999", b"1e400", b"1.5", b"1e-999999999"])
    def test_a_number_that_is_not_whole_or_too_large_is_refused_at_no_cost(self, number: bytes) -> None:
        assert refusal(of(Counted), b'{"count": %s}' % number).path == "$.data.count"

    @pytest.mark.parametrize("kind", [Counted, None, dict[int, Color], Any])
    def test_whatever_comes_it_is_read_or_refused(self, kind: Any) -> None:
        payload = of(kind)

        @given(st.binary(max_size=60) | st.from_regex(r'[{}\[\]",:0-9.eE-]*').map(str.encode))
        def holds(data: bytes) -> None:
            with contextlib.suppress(InvalidMessageError):
                payload.read(data)

        holds()


class TestNothing:
    @pytest.mark.parametrize("data", [b"{}", b"null", b"", b" {} ", b'{"unknown": [1, 2]}'])
    def test_no_data_is_read_from_an_empty_object_from_null_and_from_nothing(self, data: bytes) -> None:
        assert of(None).read(data) is None
        assert of(type(None)).read(Raw(data)) is None

    @pytest.mark.parametrize("data", [b"1", b"[]", b'"x"', b"{", b"false"])
    def test_what_is_something_is_refused(self, data: bytes) -> None:
        assert refusal(of(None), data).path == "$.data"

    def test_it_is_written_as_an_empty_object(self) -> None:
        assert of(None).write(None) == Raw(b"{}")
        assert of(None).schema == {"type": "object", "properties": {}}

    def test_something_is_not_written(self) -> None:
        with pytest.raises(
            ContractViolationError, match=r"command A\.B has no data, but was given 3: pass None"
        ):
            of(None).write(3)


@pytest.mark.spec("C14")
class TestWriting:
    @pytest.mark.parametrize(
        ("kind", "value", "sentence"),
        [
            (Point, Point("1"), r"Expected `int`, got `str`, at \$\.data\.x"),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # on purpose
            (Point, Point(1, 9), r"Expected `int` <= 5, at \$\.data\.y"),
            (Limited, Limited("ab", 1), r"Expected `str` of length <= 1, at \$\.data\.text"),
            (Limited, Limited("a", -1), r"Expected `int` >= 0, at \$\.data\.number"),
            (Point, None, r"Expected `object`, got `null`, at \$\.data"),
            (Point, 3, "Expected `object`, got `int`"),
            (int, object(), "NotImplementedError: neither msgspec nor pydantic can write object"),
            (list[int], [1, "x" * 500], "in all"),
            (Checked, {"low": 2, "high": 1}, "low is above high"),
            (float, math.nan, "Expected `float`, got `null`"),
            (float, math.inf, "Expected `float`, got `null`"),
            (Maybe, Maybe(math.nan), r"not a finite number, at \$\.data\.level"),
            (
                Maybe,
                Maybe(None, {"a": [1, {"b": -math.inf}]}),
                r"not a finite number, at \$\.data\.inner\.a\[1\]\.b",
            ),
            (Any, (1, None, math.nan), r"not a finite number, at \$\.data\[2\]"),
            (Any, {"a": [1 << 70], "b": math.nan}, r"not a finite number, at \$\.data\.b"),
            (str, "\ud800", "UnicodeEncodeError"),
        ],
    )
    def test_what_would_not_be_read_is_not_written(self, kind: Any, value: object, sentence: str) -> None:
        with pytest.raises(ContractViolationError, match=sentence):
            of(kind).write(value)

    @given(st.data())
    @settings(max_examples=500)
    def test_exactly_what_can_be_read_is_written(self, data: st.DataObject) -> None:
        """That the classes of some fields are right is not enough where the type has limits or checks of its own."""
        kind: Any = data.draw(st.sampled_from([Leaves, Limited, Tagged, Checked, Nested]))
        value = kind(*[0] * len(kind.__struct_fields__))
        for name in kind.__struct_fields__:
            setattr(value, name, data.draw(LEAVES, label=name))
        fields = [getattr(value, name) for name in kind.__struct_fields__]
        try:
            line = msgspec.json.encode(value)
            msgspec.json.decode(line, type=kind)
        except Exception:  # noqa: BLE001  # whatever is wrong with it
            line = b""
        if line and all(math.isfinite(each) for each in fields if isinstance(each, float)):
            assert of(kind).write(value) == Raw(line)
        else:
            with pytest.raises(ContractViolationError):
                of(kind).write(value)

    def test_null_where_null_is_meant_is_written(self) -> None:
        assert bytes(of(Maybe).write(Maybe(None, {"a": None}))) == b'{"level":null,"inner":{"a":null}}'

    def test_the_whole_value_is_not_in_the_sentence(self) -> None:
        with pytest.raises(ContractViolationError) as caught:
            of(int).write("x" * 10_000)
        assert len(str(caught.value)) < 500


@pytest.mark.spec("C15")
class TestRefusals:
    @pytest.mark.parametrize("name", REFUSED)
    def test_what_cannot_be_served_is_refused_with_a_sentence(self, name: str) -> None:
        kind, sentence = REFUSED[name]
        with pytest.raises(ContractError, match=sentence) as caught:
            of(kind)
        assert str(caught.value).startswith("command A.B: ")

    def test_hashable_things_can_be_in_a_set(self) -> None:
        assert of(set[Frozen | None]).read(b'[{"key": "a"}, null]') == {Frozen("a"), None}

    def test_a_recursive_frozen_struct_is_hashable(self) -> None:
        assert is_hashable(msgspec.inspect.type_info(Ring))
        assert not is_hashable(msgspec.inspect.type_info(RingWithList))
