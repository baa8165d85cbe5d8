"""What a node says about itself, as people see it."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
import pytest
from msgspec import Meta

from bandstand.bus import Capability, Command, Contract, Event, Failure, Query, Retry
from bandstand.bus.contracts.capability import read_capability
from bandstand.bus.contracts.describe import Description, describe
from bandstand.cli.commands.describe import show_all, show_type

pytestmark = [pytest.mark.spec("C22")]

LONG = "A description that is so long that it would not fit on one line with the name of its field beside it, and so."


class Part(msgspec.Struct):
    """A part of something."""

    name: Annotated[str, Meta(description="What it is called.")]
    parts: list[Part] = []


class Build(Command[Part], type="Yard.Build"):
    """Build something.

    This is a second paragraph, for those who want to know more.
    """

    parts: list[Part]
    where: Annotated[str, Meta(description=LONG, examples=["the yard"])]
    count: Annotated[int, Meta(ge=1)] = 1
    note: str | None = None
    mood: Literal["calm", "wild"] = "calm"


class Weigh(Query[list[float]], type="Yard.Weigh"):
    """Weigh it."""


class Built(Event, type="Yard.Built"):
    """It was built."""


class Rained(Event, type="Sky.Rained"):
    """It has rained."""

    litres: float


class Broken(Failure, type="Yard.Broken"):
    """It is broken."""

    why: str


class Yard(Capability):
    """Builds things."""

    outbound = Built | Broken

    def build(self, msg: Build) -> Part: ...  # type: ignore[empty-body]  # never called

    def weigh(self, msg: Weigh) -> list[float]: ...  # type: ignore[empty-body]  # never called

    def rained(self, msg: Rained) -> None: ...


class Ask(Query[Any], type="Any.Ask"):
    """Ask."""

    how: dict[str, int] = msgspec.field(default_factory=dict[str, int])
    why: Any = None


class Bare(msgspec.Struct):
    """Says numbers, one after the other."""

    kind: Literal["command"]
    type: Literal["Bare.Sum"]
    data: list[int]


bare = Contract(
    id="Bare", description="Takes a list.", inbound=Bare | Ask, subscribes=["Yard.Built"], spawn=object
)


def described(name: str | None = None) -> Description:
    return describe([read_capability(Yard), read_capability(bare)], type=name)


def shown(name: str) -> list[str]:
    return show_type(described(name), name, "bandstand call").splitlines()


def test_everything_has_a_line() -> None:
    assert show_all(described()).splitlines() == [
        "Yard: Builds things.",
        "  command  Yard.Build   Build something.",
        "  query    Yard.Weigh   Weigh it.",
        "  event    Yard.Built   It was built.",
        "  error    Yard.Broken  It is broken.",
        "  receives Sky.Rained",
        "",
        "Bare: Takes a list.",
        "  command  Bare.Sum     Says numbers, one after the other.",
        "  query    Any.Ask      Ask.",
        "  receives Yard.Built",
    ]


def test_a_node_without_capabilities_shows_nothing() -> None:
    assert show_all(describe([])) == ""


def test_fields_are_shown_with_what_they_hold() -> None:
    lines = shown("Yard.Build")
    data = lines[lines.index("data") : lines.index("reply") - 1]
    assert data[1:] == [
        "  parts  list of Part",
        "    name   string                  What it is called.",
        "    parts  list of Part, optional",
        "  where  string",
        f"         {LONG}",
        "  count  integer from 1, default 1",
        "  note   string, optional",
        "  mood   calm or wild, default calm",
    ]


def test_a_line_to_try_is_the_last() -> None:
    assert shown("Yard.Build")[-2:] == [
        "try",
        """  bandstand call Yard.Build 'parts={"name": "name"}' 'where=the yard'""",
    ]
    assert shown("Yard.Weigh")[-1] == "  bandstand call Yard.Weigh"
    assert shown("Bare.Sum")[-1].startswith("  bandstand call Bare.Sum '[")


@pytest.mark.parametrize(
    ("name", "section", "words"),
    [
        ("Yard.Weigh", "data", "none"),
        ("Yard.Weigh", "reply", "list of number"),
        ("Bare.Sum", "data", "list of integer"),
        ("Bare.Sum", "reply", "no data"),
        ("Yard.Built", "data", "none"),
        ("Sky.Rained", "data", "litres  number"),
    ],
)
def test_what_has_no_fields_is_said_in_words(name: str, section: str, words: str) -> None:
    lines = shown(name)
    assert lines[lines.index(section) + 1] == f"  {words}"


def test_an_event_says_who_says_it_and_who_hears_it() -> None:
    lines = shown("Yard.Built")
    assert (lines[0], lines[-1]) == ("event Yard.Built, emitted by Yard", "  Bare")
    assert shown("Sky.Rained")[0] == "event Sky.Rained, subscribed to by Yard"
    assert shown("Yard.Broken")[0] == "error Yard.Broken, emitted by Yard"


def test_what_is_left_out_may_be_anything() -> None:
    lines = shown("Any.Ask")
    assert lines[lines.index("data") + 1 : lines.index("data") + 3] == [
        "  how  object of integer, optional",
        "  why  any JSON, optional",
    ]
    assert lines[lines.index("reply") + 1] == "  any JSON"


def test_it_is_said_when_the_node_tries_again_by_itself() -> None:
    again = replace(bare, retry={"Bare.Sum": Retry(attempts=4, on=("Sys.Overloaded",))})
    lines = show_type(describe([read_capability(again)]), "Bare.Sum", "bandstand call").splitlines()
    assert lines[lines.index("retry") + 1].startswith("  up to 4 attempts, after Sys.Overloaded; ")
    assert "retry" not in shown("Bare.Sum")


class Circle(msgspec.Struct, tag="circle"):
    """A circle."""

    radius: float


class Square(msgspec.Struct, tag="square"):
    """A square."""

    side: float
    at: tuple[int, int] = (0, 0)


class Pair(NamedTuple):
    """Two of them."""

    first: int
    second: str = ""


class Draw(Query[Circle | Square], type="Shop.Draw"):
    """Draw something."""

    shape: Circle | Square
    row: tuple[int, str, bool]
    inner: tuple[int | str, tuple[float, ...]]
    pair: Pair
    mixed: list[int | str]
    either: list[int] | str
    none: tuple[()]
    by: dict[str, int | str]
    both: tuple[Circle, Square] | None = None


class Show(Query[list[Circle]], type="Shop.Show"):
    """Show all circles."""


shop = Contract(id="Shop", description="Draws.", inbound=Draw | Show, spawn=object)


def test_tuples_and_unions_are_shown_as_they_are() -> None:
    lines = show_type(describe([read_capability(shop)]), "Shop.Draw", "bandstand call").splitlines()
    shapes = [
        "    Circle:",
        "      type    circle",
        "      radius  number",
        "    Square:",
        "      type  square",
        "      side  number",
        "      at    [integer, integer], default [0, 0]",
    ]
    assert lines[lines.index("data") + 1 : lines.index("reply") - 1] == [
        "  shape   Circle or Square",
        *shapes,
        "  row     [integer, string, boolean]",
        "  inner   [integer or string, list of number]",
        "  pair    [integer, string?]                   Two of them.",
        "  mixed   list of (integer or string)",
        "  either  list of integer or string",
        "  none    []",
        "  by      object of (integer or string)",
        "  both    [Circle, Square], optional",
        *shapes,
    ]
    assert lines[lines.index("reply") + 1 : lines.index("try") - 1] == ["  Circle or Square", *shapes]


def test_what_a_list_holds_is_shown() -> None:
    lines = show_type(describe([read_capability(shop)]), "Shop.Show", "bandstand call").splitlines()
    assert lines[lines.index("reply") + 1 : lines.index("try") - 1] == [
        "  list of Circle",
        "    type    circle",
        "    radius  number",
    ]


def test_exceptions_that_are_refusals_are_shown() -> None:
    known = replace(shop, refuses=(KeyError, ValueError))
    lines = show_type(describe([read_capability(known)]), "Shop.Show", "bandstand call").splitlines()
    assert lines[lines.index("refusals") + 1] == "  Sys.Refused, if the handler raises KeyError or ValueError"
