"""The plain Python loop: what appending, popping and calling cost by themselves."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, TypeAlias

from bench import stopwatch

Handler: TypeAlias = Callable[[None, Any], object]
Tasks: TypeAlias = deque[tuple[Handler, Any]]


def drain(tasks: Tasks) -> int:
    """Call every handler with its data until nothing is left; the nanoseconds it took.

    What comes first is there already: as the least there can be, it may.
    """
    start = stopwatch.start()
    popleft = tasks.popleft
    while tasks:
        handler, data = popleft()
        handler(None, data)
    return stopwatch.since(start)
