"""Schemas: a class reads what an older one has written, or the difference is named."""

from __future__ import annotations

import datetime as dt
import decimal
import enum
import uuid
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta, Struct, defstruct

from bandstand.persistence.narrowing import narrowing
from bandstand.persistence.schema import hash_of, schema_of


def event(**fields: Any) -> type[Struct]:
    """Return a class of events; a field is a type, or a type and a default."""
    members: list[Any] = [
        (name, *kind) if isinstance(kind, tuple) else (name, kind) for name, kind in fields.items()
    ]
    return defstruct("Event", members)


def reason(old: type[Struct], new: type[Struct]) -> str | None:
    return narrowing(schema_of(old), schema_of(new))


class Line(Struct):
    product: str
    count: int


class NewLine(Struct):
    product: str
    count: str


class Tree(Struct):
    value: int
    left: Tree | None = None
    right: Tree | None = None


class WideTree(Struct):
    value: float
    left: WideTree | None = None
    right: WideTree | None = None


class NarrowTree(Struct):
    value: float
    left: NarrowTree | None = None
    right: NarrowTree = msgspec.field(default_factory=lambda: NarrowTree(0))


class Red(enum.Enum):
    red = "red"
    blue = "blue"


class Circle(Struct, tag=True):
    radius: int


class Square(Struct, tag=True):
    side: int


class Untagged(Struct):
    radius: int


class Strict(Struct, forbid_unknown_fields=True):
    a: int


class Row(Struct, array_like=True):
    a: int
    b: int


class OtherRow(Struct, array_like=True):
    a: int
    b: str


class LongRow(NamedTuple):
    a: int
    b: int
    c: int = 5


Aware = Annotated[dt.datetime, Meta(tz=True)]
Positive = Annotated[int, Meta(ge=1)]
Short = Annotated[str, Meta(max_length=3)]


@pytest.mark.guarantee("G493")
class TestNarrowing:
    @pytest.mark.parametrize(
        ("old", "new"),
        [
            (event(a=int), event(a=int)),
            (event(a=int), event(a=float)),
            (event(a=int), event(a=Any)),
            (event(a=int), event(a=int | str)),
            (event(a=int | None), event(a=int | str | None)),
            (event(a=int), event(a=int, b=(int, 5))),
            (event(a=int), event(a=(int, 5))),
            (event(a=int, b=int), event(a=int)),
            (event(a=Positive), event(a=int)),
            (event(a=Short), event(a=Annotated[str, Meta(max_length=4)])),
            (event(a=Literal["x"]), event(a=Literal["x", "y"])),
            (event(a=Literal["x"]), event(a=str)),
            (event(a=Literal[1]), event(a=float)),
            (event(a=Red), event(a=str)),
            (event(a=list[Line]), event(a=list[Line] | None)),
            (event(a=tuple[int, int]), event(a=list[int])),
            (event(a=tuple[int, int]), event(a=tuple[float, int])),
            (event(a=dict[str, int]), event(a=dict[str, float])),
            (event(a=Line), event(a=dict[str, Any])),
            (event(a=uuid.UUID), event(a=str)),
            (event(a=Circle), event(a=Circle | Square)),
            (event(a=Circle | Square), event(a=Square | Circle)),
            (event(a=Untagged), event(a=Circle | None)),
            (Tree, WideTree),
            (event(a=Row), event(a=LongRow)),
            (event(a=Aware), event(a=dt.datetime)),
            (event(a=frozenset[int]), event(a=tuple[int, ...])),
            (event(title=int, description=str), event(title=int, description=str)),
        ],
    )
    def test_what_reads_everything_is_no_narrowing(self, old: type[Struct], new: type[Struct]) -> None:
        assert reason(old, new) is None

    @pytest.mark.parametrize(
        ("old", "new", "text"),
        [
            (event(a=int), event(a=str), "field 'a' was integer, and is string"),
            (event(a=float), event(a=int), "field 'a' was number, and is integer"),
            (event(a=int | None), event(a=int), "field 'a' was null, and is integer"),
            (event(a=int), event(a=str | None), "field 'a' was integer, and is string or null"),
            (event(a=int), event(a=int, b=int), "field 'b' is new, and has no default"),
            (event(a=(int, 5)), event(a=int), "field 'a' had a default, and has none"),
            (event(a=Any), event(a=int), "field 'a' allowed any value, and is integer"),
            (event(a=int), event(a=Positive), "field 'a' has the limit minimum 1"),
            (event(a=str), event(a=Short), "field 'a' has the limit maxLength 3"),
            (event(a=str), event(a=uuid.UUID), "field 'a' has the format 'uuid'"),
            (event(a=str), event(a=decimal.Decimal), "field 'a' has the format 'decimal'"),
            (event(a=dt.date), event(a=dt.datetime), "field 'a' has the format 'date-time'"),
            (event(a=str), event(a=bytes), "field 'a' has the contentEncoding 'base64'"),
            (event(a=Literal["x", "y"]), event(a=Literal["x"]), "field 'a' does not allow 'y' any more"),
            (event(a=str), event(a=Literal["x"]), "field 'a' was string, and is one of 'x'"),
            (event(a=Literal["long"]), event(a=Short), "field 'a' was one of 'long', and is string"),
            (event(a=Literal["x", 1]), event(a=str), "field 'a' was one of 1, 'x', and is string"),
            (event(a=list[Line]), event(a=list[NewLine]), "field 'a[].count' was integer, and is string"),
            (event(a=Line), event(a=NewLine | None), "field 'a.count' was integer, and is string"),
            (event(a=dict[str, int]), event(a=dict[str, str]), "field 'a.*' was integer, and is string"),
            (event(a=dict[str, int]), event(a=Line), "field 'a' was a dict, and is an object with fields"),
            (event(a=Line), event(a=dict[str, int]), "field 'a.product' was string, and is integer"),
            (event(a=tuple[int, int]), event(a=tuple[int, str]), "field 'a[1]' was integer, and is string"),
            (event(a=Row), event(a=OtherRow), "field 'a[1]' was integer, and is string"),
            (event(a=LongRow), event(a=Row), "field 'a' was a tuple of 3, and is a tuple of 2"),
            (
                event(a=dict[str, int]),
                event(a=dict[int, int]),
                "field 'a' has the propertyNames {'type': 'integer'}",
            ),
            (event(a=dt.datetime), event(a=Aware), "field 'a' has the timezone True"),
            (event(a=list[int]), event(a=tuple[int, int]), "field 'a' was array, and is a tuple of 2"),
            (
                event(a=tuple[int]),
                event(a=tuple[int, int]),
                "field 'a' was a tuple of 1, and is a tuple of 2",
            ),
            (event(a=Circle | Square), event(a=Circle), "field 'a.type' does not allow 'Square' any more"),
            (event(a=Untagged), event(a=Circle | Square), "field 'a' was object, and is Circle or Square"),
            (WideTree, Tree, "field 'value' was number, and is integer"),
            (
                event(a=int, b=int),
                Strict,
                "field 'b' does not exist any more, and unknown fields are forbidden",
            ),
        ],
    )
    def test_a_narrowing_names_the_field(self, old: type[Struct], new: type[Struct], text: str) -> None:
        assert reason(old, new) == text

    def test_a_field_inside_a_class_that_contains_itself_is_found(self) -> None:
        assert reason(WideTree, NarrowTree) == "field 'right' was null, and is object"


# -- the law: what is no narrowing can be read --------------------------------------------------------------------------


simple: st.SearchStrategy[Any] = st.sampled_from(
    [
        int,
        str,
        float,
        bool,
        None,
        Positive,
        Short,
        Literal["x", "yyyy"],
        Literal[0, 3],
        uuid.UUID,
        Line,
        NewLine,
        Any,
    ]
)


def larger(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Return types that are made of others."""
    containers: tuple[Any, Any, Any] = (list, dict, tuple)
    lists, dicts, tuples = containers
    return st.one_of(
        inner.map(lists.__class_getitem__),
        inner.map(lambda kind: dicts[str, kind]),
        st.tuples(inner, inner).map(tuples.__class_getitem__),
        inner.map(lambda kind: kind if kind in {None, Any} else kind | None),
    )


kinds = st.recursive(simple, larger, max_leaves=3)
fields = st.dictionaries(st.sampled_from(["a", "b", "c"]), st.tuples(kinds, st.booleans()), max_size=3)


def declared(members: dict[str, tuple[Any, bool]]) -> type[Struct]:
    """Return a class; fields with a default come last, because Python wants it so."""
    required = {name: kind for name, (kind, has_default) in members.items() if not has_default}
    optional = {name: (kind, None) for name, (kind, has_default) in members.items() if has_default}
    return event(**required, **optional)


def values(kind: Any) -> st.SearchStrategy[Any]:
    """Return the values of a type that msgspec writes and that fit it."""
    if kind is Any:
        return st.sampled_from([1, "text", None, [1.5]])
    if kind is Positive:
        return st.integers(1, 1 << 40)
    if kind is Short:
        return st.text(st.characters(codec="utf-8"), max_size=3)
    if kind is Line:
        return st.builds(Line, st.just("tea"), st.integers(0, 9))
    if kind is NewLine:
        return st.builds(NewLine, st.just("tea"), st.just("nine"))
    if kind is float:
        return st.floats(allow_nan=False, allow_infinity=False)
    if kind is int:
        return st.integers(-(1 << 40), 1 << 40)
    if kind is str:
        return st.text(st.characters(codec="utf-8"), max_size=5)
    if (arguments := getattr(kind, "__args__", None)) and kind.__class__.__name__ == "GenericAlias":
        if kind.__origin__ is list:
            return st.lists(values(arguments[0]), max_size=2)
        if kind.__origin__ is dict:
            return st.dictionaries(st.sampled_from(["k", "l"]), values(arguments[1]), max_size=2)
        return st.tuples(*map(values, arguments))
    if arguments and kind.__class__.__name__ in {"UnionType", "_UnionGenericAlias"}:
        return st.one_of(*map(values, arguments))
    return st.from_type(kind) if kind is not None else st.none()


@pytest.mark.slow
@pytest.mark.guarantee("G493")
@given(old=fields, new=fields, data=st.data())
def test_a_class_that_is_no_narrowing_reads_every_old_value(
    old: dict[str, tuple[Any, bool]], new: dict[str, tuple[Any, bool]], data: st.DataObject
) -> None:
    # Half of the fields stay as they are, so that many pairs are no narrowing.
    new = {
        name: old[name] if name in old and data.draw(st.booleans()) else kind for name, kind in new.items()
    }
    was, present = declared(old), declared(new)
    if narrowing(schema_of(was), schema_of(present)) is None:
        instance = was(**{name: data.draw(values(kind)) for name, (kind, _) in old.items()})
        msgspec.json.decode(msgspec.json.encode(instance), type=present)


@pytest.mark.guarantee("G493")
class TestHash:
    def test_it_depends_on_the_schema_alone(self) -> None:
        class Event(Struct):
            """With a docstring."""

            a: Annotated[int, Meta(description="the first")] = 5

        assert hash_of(schema_of(Event)) == hash_of(schema_of(event(a=(int, 7))))
        assert hash_of(schema_of(Event)) != hash_of(schema_of(event(a=(str, ""))))

    def test_it_is_the_same_in_every_process(self) -> None:
        """It is written to journals: if this changes, every program records its schemas once more."""
        assert hash_of(schema_of(event(a=int, b=(str, "")))) == "aca068db434f4709"
