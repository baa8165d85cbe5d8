"""What a class says for the parameter of a generic base, through however many generic classes in between."""

from __future__ import annotations

from typing import Any, TypeVar, get_args, get_origin

__all__ = ("argument_of", "is_open")


def argument_of(cls: type, root: type) -> Any:
    """What `cls` gives for the one parameter of `root`: a type, or a type variable where it leaves that open.

    None if no class on the way says anything at all.
    """
    written = vars(cls).get("__orig_bases__", cls.__bases__)
    origins: list[tuple[Any, Any]] = [(get_origin(base) or base, base) for base in written]
    # What the class says itself comes before what its bases have said.
    for origin, base in sorted(origins, key=lambda pair: pair[0] is not root):
        if not isinstance(origin, type) or not issubclass(origin, root):
            continue
        given = get_args(base)
        if origin is root:
            return given[0] if given else None
        inner = argument_of(origin, root)
        return _filled(inner, dict(zip(getattr(origin, "__parameters__", ()), given, strict=False)))
    return None


def is_open(argument: Any) -> bool:
    """Whether an argument still has a type variable in it."""
    return isinstance(argument, TypeVar) or bool(getattr(argument, "__parameters__", ()))


def _filled(argument: Any, given: dict[Any, Any]) -> Any:
    if isinstance(argument, TypeVar):
        return given.get(argument, argument)
    parameters = getattr(argument, "__parameters__", ())
    if not parameters or isinstance(argument, type):
        return argument
    return argument[tuple(given.get(parameter, parameter) for parameter in parameters)]
