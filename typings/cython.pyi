"""What type checkers know of `cython`: the checked source is the interpreted one."""

from collections.abc import Callable
from typing import Literal, TypeVar

_Kind = TypeVar("_Kind", bound=type)

compiled: Literal[False]

def cclass(kind: _Kind) -> _Kind: ...
def freelist(size: int) -> Callable[[_Kind], _Kind]: ...

_Function = TypeVar("_Function")

def boundscheck(is_on: bool, /) -> Callable[[_Function], _Function]: ...
def nonecheck(is_on: bool, /) -> Callable[[_Function], _Function]: ...
def trashcan(is_on: bool, /) -> Callable[[_Function], _Function]: ...
