"""What the hot modules ask of the name `cython` where Cython is not installed: whether they are compiled, and how a class is to be."""

from collections.abc import Callable
from typing import Final, TypeVar

Kind = TypeVar("Kind", bound=type)
Function = TypeVar("Function")

compiled: Final = False


def cclass(kind: Kind) -> Kind:
    """Compiled, a class of C's."""
    return kind


def trashcan(_is_on: bool) -> Callable[[Kind], Kind]:  # as Cython has it
    """Compiled, a class whose objects may be linked in a long chain, which ends without a recursion as deep."""
    return cclass


def nonecheck(_is_on: bool) -> Callable[[Function], Function]:  # same
    """Compiled, whether a function looks if an object is None before it goes into it. Off where all are known to be there."""
    return same


def boundscheck(_is_on: bool) -> Callable[[Function], Function]:  # same
    """Compiled, whether a function looks if an index is inside of a list. Off where it is known to be."""
    return same


def same(function: Function) -> Function:
    """Interpreted, a function as it is."""
    return function


def freelist(_size: int) -> Callable[[Kind], Kind]:
    """Compiled, a class of which so many objects that are gone are kept for the next."""
    return cclass
