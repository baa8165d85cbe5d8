"""What is refused before anything is looked up: names that are none, and actors of another class than was meant."""

from __future__ import annotations

from bandstand.errors import InvalidArgument
from bandstand.service.lowlevel import class_of

__all__ = ("check_class", "check_name")


def check_name(what: str, name: object) -> None:
    """Refuse what is no name.

    Raises:
        InvalidArgument: it is no string, or empty.
    """
    if not isinstance(name, str) or not name:
        raise InvalidArgument(f"{what} is {name!r}: pass a string that is not empty")


def check_class(what: str, handle: object, kind: type) -> None:
    """Refuse to see in an actor what it is not.

    Raises:
        InvalidArgument: it is of another class, and both are named.
    """
    known = class_of(handle)
    if not issubclass(known, kind):
        raise InvalidArgument(f"{what} is a {known.__qualname__}, not a {kind.__qualname__}")
