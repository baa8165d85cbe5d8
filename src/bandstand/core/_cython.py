"""Stands in for the `cython` module where Cython is not installed.

The compiled modules ask `cython` whether they are compiled, and use its decorators. Interpreted, the decorators do nothing.
"""

from collections.abc import Callable
from typing import Final, TypeVar

Kind = TypeVar("Kind", bound=type)
Function = TypeVar("Function")

compiled: Final = False


def cclass(kind: Kind) -> Kind:
    """Compiled: make the class an extension type."""
    return kind


def trashcan(_is_on: bool) -> Callable[[Kind], Kind]:  # the signature of Cython
    """Compiled: deallocate long chains of objects without deep recursion."""
    return cclass


def nonecheck(_is_on: bool) -> Callable[[Function], Function]:  # likewise
    """Compiled: check for None before each attribute access. Off where no object can be None."""
    return unchanged


def boundscheck(_is_on: bool) -> Callable[[Function], Function]:  # likewise
    """Compiled: check list indexes. Off where every index is known to be valid."""
    return unchanged


def unchanged(function: Function) -> Function:
    """Return the function: what the directives do when interpreted."""
    return function


def freelist(_size: int) -> Callable[[Kind], Kind]:
    """Compiled: keep up to this many freed objects of the class for reuse."""
    return cclass
