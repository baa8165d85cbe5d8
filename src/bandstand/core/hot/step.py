"""One step of a coroutine, in a given context.

Compiled, it is three calls of C: enter the context, send None, leave the context. What a coroutine returns comes back as
a value; through Python it would be an exception, raised and caught, which costs more than the whole rest of the step.
"""

# begin_step comes from one of two places, of which the checker sees one.
# pyright: reportPossiblyUnboundVariable=false

from __future__ import annotations

from collections.abc import Coroutine
from contextvars import Context
from typing import Any

try:
    import cython
except ModuleNotFoundError:  # interpreted, where Cython is not installed
    from bandstand.core import interpreted as cython  # type: ignore[no-redef]  # one of the two


class Step:
    """Makes steps. After `begin`, `is_done` says whether the coroutine has ended there."""

    __slots__ = ("is_done",)

    def __init__(self) -> None:
        self.is_done = False

    def begin(self, coroutine: Coroutine[Any, Any, Any], context: Context) -> Any:
        """Step a coroutine: what it returned or, if it is not done, what it waits for.

        What it raises comes out.
        """
        return begin_step(self, coroutine, context)


if not cython.compiled:
    # Compiled, this is C, in the .pxd.
    def begin_step(step: Step, coroutine: Coroutine[Any, Any, Any], context: Context) -> Any:
        """Step a coroutine; `step` gets to know whether it has ended."""
        try:
            value = context.run(coroutine.send, None)
        except StopIteration as stop:
            step.is_done = True
            return stop.value
        step.is_done = False
        return value
