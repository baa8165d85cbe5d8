"""What type checkers know of `cython`: the checked source is the interpreted one."""

from collections.abc import Callable
from typing import Literal, TypeVar

_Kind = TypeVar("_Kind", bound=type)

compiled: Literal[False]

def cclass(kind: _Kind) -> _Kind: ...
def freelist(size: int) -> Callable[[_Kind], _Kind]: ...
