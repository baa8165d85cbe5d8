"""Reading annotations: what is left of one without its wrappings, the members of a union, the values of a literal."""

from __future__ import annotations

import dataclasses
import inspect
import types
import typing
from collections.abc import Mapping
from enum import Enum
from typing import Any, cast

from msgspec import Struct, structs

from bandstand.bus.contracts.foreign import is_model
from bandstand.errors.formatting import safe_repr

__all__ = (
    "UNRESOLVED",
    "arguments_of",
    "bare",
    "description_of",
    "fields_of",
    "filled",
    "is_nothing",
    "is_record",
    "literals_of",
    "members_of",
    "name_of",
    "required_of",
    "shown",
)

LONGEST_SHOWN = 200
UNRESOLVED = (NameError, AttributeError, TypeError, SyntaxError)
"""What reading an annotation raises that is a string and names nothing, or is no expression."""


# Any, here and below: an annotation may be a class, a union, an alias: Python has no type for those.
def bare(annotation: Any) -> Any:
    """An annotation without `Annotated`, `Required` and the like around it, and an alias as what it stands for."""
    while True:
        origin = typing.get_origin(annotation)
        if origin in {typing.Annotated, typing.Required, typing.NotRequired, typing.Final}:
            annotation = typing.get_args(annotation)[0]
        elif type(annotation).__name__ == "TypeAliasType":
            # By name: the one of a newer Python, and the one of typing_extensions, are two classes.
            annotation = annotation.__value__
        else:
            return annotation


def members_of(annotation: Any) -> tuple[Any, ...]:
    """The members of a union, and of the unions in it, each once; of anything else, the one that it is."""
    inner = bare(annotation)
    if inner is types.NoneType:
        return (None,)
    if typing.get_origin(inner) not in {typing.Union, types.UnionType}:
        return (inner,)
    found = (member for each in typing.get_args(inner) for member in members_of(each))
    return tuple(dict.fromkeys(found))


def literals_of(annotation: Any) -> tuple[Any, ...] | None:
    """All the values that an annotation allows, if they are literals or members of an Enum; None if it is open."""
    found: list[Any] = []
    for member in members_of(annotation):
        if typing.get_origin(member) is typing.Literal:
            found += typing.get_args(member)
        elif isinstance(member, type) and issubclass(member, Enum):
            found += member
        else:
            return None
    return tuple(found)


def fields_of(kind: Any) -> Mapping[str, Any]:
    """The annotations of a class's fields by name; nothing if it is no class that declares fields.

    Raises:
        UNRESOLVED: an annotation names what cannot be found, or is none.
    """
    origin = typing.get_origin(kind) or kind
    if not is_record(origin):
        return {}
    given = arguments_of(kind)
    hints = typing.get_type_hints(origin, include_extras=True)
    return {
        name: filled(hint, given)
        for name, hint in hints.items()
        if typing.ClassVar not in {hint, typing.get_origin(hint)} and not name.startswith("_")
    }


def is_record(kind: Any) -> bool:
    """Whether something is a class that declares fields: a Struct, a dataclass, a TypedDict or a pydantic model."""
    if not isinstance(kind, type):
        return False
    made = cast("type[object]", kind)
    return (
        issubclass(made, Struct)
        or dataclasses.is_dataclass(made)
        or typing.is_typeddict(made)
        or is_model(made)
    )


def required_of(kind: Any) -> frozenset[str]:
    """The names of the fields that have no default."""
    origin = typing.get_origin(kind) or kind
    if issubclass(origin, Struct):
        return frozenset(each.name for each in structs.fields(origin) if each.required)
    if dataclasses.is_dataclass(origin):
        return frozenset(
            each.name
            for each in dataclasses.fields(origin)
            if each.init and each.default is each.default_factory is dataclasses.MISSING
        )
    if typing.is_typeddict(origin):
        hints = fields_of(origin)
        # The class's own list misses those marks that were written as strings.
        return frozenset(
            name
            for name in origin.__required_keys__
            if typing.get_origin(hints[name]) is not typing.NotRequired
        )
    return frozenset(name for name, each in origin.model_fields.items() if each.is_required())


def filled(annotation: Any, given: Mapping[Any, Any]) -> Any:
    """An annotation with type variables replaced by what was given for them."""
    if isinstance(annotation, typing.TypeVar):
        return given.get(annotation, annotation)
    if not given or isinstance(annotation, type):
        return cast("Any", annotation)
    variables: tuple[Any, ...] = getattr(annotation, "__parameters__", ())
    return annotation[tuple(given.get(each, each) for each in variables)] if variables else annotation


def arguments_of(kind: Any) -> Mapping[Any, Any]:
    """What a generic class was given in its brackets, by its type variables."""
    origin = typing.get_origin(kind)
    return dict(zip(getattr(origin, "__parameters__", ()), typing.get_args(kind), strict=False))


def is_nothing(annotation: Any) -> bool:
    """Whether an annotation is None."""
    return annotation is None or annotation is types.NoneType


def name_of(annotation: Any) -> str:
    """An annotation as a reader knows it."""
    return annotation.__name__ if isinstance(annotation, type) else str(annotation).removeprefix("typing.")


def description_of(thing: Any) -> str:
    """The docstring of a class or function that is its own, neither inherited nor made up by a decorator."""
    text = vars(thing).get("__doc__") if isinstance(thing, type) else getattr(thing, "__doc__", None)
    if not isinstance(text, str) or (
        dataclasses.is_dataclass(thing) and text.startswith(f"{name_of(thing)}(")
    ):
        return ""
    return inspect.cleandoc(text)


def shown(value: object) -> str:
    """A value for the sentence of an error: not all of it, if it is long."""
    return safe_repr(value, LONGEST_SHOWN)
