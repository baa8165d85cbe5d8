"""Whether a signal has interrupted what runs here.

Python calls the handler of a signal between any two steps of the main thread's code: in whatever task runs, in the middle of
whatever it does. Nothing says so, but one thing: a handler is given the very frame that it has interrupted, which is the one below
its own. So one can look for a function that was given the frame below it.

A handler that is not written in Python, or has let go of that frame, is not seen.
"""

from __future__ import annotations

import sys
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_VARARGS
from threading import get_ident, main_thread
from types import FrameType
from typing import cast

__all__ = ("is_in_signal_handler",)

# No handler is a coroutine, nor is it called by one: what is below was interrupted, or is none of our business.
COROUTINE = CO_COROUTINE | CO_ASYNC_GENERATOR
# Where asyncio calls a callback: what is below is its own.
BOTTOM = "asyncio.events"
# The number of the signal, and the frame.
HANDED = 2


def is_in_signal_handler() -> bool:
    """Whether the caller was called by a signal handler, and not by the code that it has interrupted."""
    if get_ident() != main_thread().ident:
        return False
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # there is no other way
    while frame is not None and not frame.f_code.co_flags & COROUTINE:
        if frame.f_globals.get("__name__") == BOTTOM:
            return False
        below = frame.f_back
        if below is not None and _was_given(frame, below):
            return True
        frame = below
    return False


def _was_given(frame: FrameType, below: FrameType) -> bool:
    """Whether a function was given a frame, as one of its arguments."""
    code = frame.f_code
    has_more = bool(code.co_flags & CO_VARARGS)
    if code.co_argcount < HANDED and not has_more:
        return False
    values = frame.f_locals
    if any(values.get(name) is below for name in code.co_varnames[: code.co_argcount]):
        return True
    more: object = (
        values.get(code.co_varnames[code.co_argcount + code.co_kwonlyargcount]) if has_more else None
    )
    return isinstance(more, tuple) and any(one is below for one in cast("tuple[object, ...]", more))
