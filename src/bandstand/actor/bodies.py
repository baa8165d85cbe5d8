"""Whether a method has a body, or only declares itself: `...`, `pass`, a docstring, or `raise NotImplementedError`.

Compared with such functions as this very interpreter has compiled them.
"""

from __future__ import annotations

from collections.abc import Callable
from dis import get_instructions
from typing import Any

__all__ = ("is_empty",)


def _nothing() -> None: ...


def _refusing() -> None:
    raise NotImplementedError


async def _nothing_slowly() -> None: ...


async def _refusing_slowly() -> None:
    raise NotImplementedError


def _steps(function: Callable[..., Any]) -> tuple[tuple[str, object], ...]:
    return tuple((step.opname, step.argval) for step in get_instructions(function))


_EMPTY = tuple(_steps(function) for function in (_nothing, _refusing, _nothing_slowly, _refusing_slowly))


def is_empty(function: Callable[..., Any]) -> bool:
    """Whether a function does nothing, and so says only that there is such a message."""
    return _steps(function) in _EMPTY
