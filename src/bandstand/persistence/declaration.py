"""What a class declares about its events: `class Account(PersistentActor[Opened | Deposited])`, and the annotation of its `snapshot`."""

from __future__ import annotations

import typing
from inspect import getattr_static
from types import UnionType
from typing import TYPE_CHECKING, Union, get_args, get_origin

from bandstand.actor.introspection import has_type_variable, type_argument
from bandstand.errors import DeclarationError
from bandstand.errors.formatting import safe_repr, safe_str
from bandstand.persistence.events import is_struct

if TYPE_CHECKING:
    from msgspec import Struct

__all__ = ("event_classes", "snapshot_class")


def event_classes(cls: type, base: type) -> tuple[type[Struct], ...]:
    """Return the classes of the events that `cls` passes to its generic base; none if a generic class leaves them to derived classes.

    Raises:
        DeclarationError: it passes none.
    """
    argument = type_argument(cls, base)
    if argument is None:
        raise DeclarationError(
            f"{cls.__qualname__} derives from {base.__name__} without its events: write {base.__name__}[Opened | Deposited]"
        )
    if has_type_variable(argument):
        return ()
    return get_args(argument) if get_origin(argument) in {Union, UnionType} else (argument,)


def snapshot_class(kind: type, base: type) -> type[Struct] | None:
    """Return the class that `snapshot` of `kind` is annotated with; None if it is that of the base, which makes no snapshots.

    Raises:
        DeclarationError: it is not annotated with one class derived from `msgspec.Struct`.
    """
    snapshot: object = getattr_static(kind, "snapshot")
    if snapshot is getattr_static(base, "snapshot"):
        return None
    try:
        found = typing.get_type_hints(snapshot).get("return")
    except Exception as error:
        raise DeclarationError(
            f"{kind.__qualname__}.snapshot: its annotation cannot be evaluated: {safe_str(error)}"
        ) from error
    classes: list[object] = [part for part in get_args(found) or (found,) if part is not type(None)]
    if len(classes) != 1 or not is_struct(classes[0]):
        raise DeclarationError(
            f"{kind.__qualname__}.snapshot returns {safe_repr(found)}: annotate it with one class derived from msgspec.Struct"
        )
    return classes[0]
