"""What the hot modules ask of the name `cython` where Cython is not installed: whether they are compiled, and how a class is to be."""

from collections.abc import Callable
from typing import Final, TypeVar

Kind = TypeVar("Kind", bound=type)

compiled: Final = False


def cclass(kind: Kind) -> Kind:
    """Compiled, a class of C's."""
    return kind


def freelist(_size: int) -> Callable[[Kind], Kind]:
    """Compiled, a class of which so many objects that are gone are kept for the next."""
    return cclass
