"""A state machine of hypothesis whose rules are coroutines, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from hypothesis.stateful import RuleBasedStateMachine

from bandstand.testing import VirtualClock

M = TypeVar("M", bound="AsyncMachine")
P = ParamSpec("P")
R = TypeVar("R")


class AsyncMachine(RuleBasedStateMachine):
    """Has a clock and an event loop. A subclass overrides `finish`, which runs on the event loop at the end of an example."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = VirtualClock()
        self.runner = asyncio.Runner(loop_factory=self.clock.new_event_loop)

    def do(self, work: Coroutine[Any, Any, R]) -> R:
        return self.runner.run(work)

    async def finish(self) -> None:
        """Check what must hold in the end."""

    def teardown(self) -> None:
        try:
            self.do(self.finish())
        finally:
            self.runner.close()


def on_event_loop(
    step: Callable[Concatenate[M, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[M, P], R]:
    """Make a method that runs a coroutine function on the event loop of the machine."""

    @wraps(step)
    def run(self: M, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.do(step(self, *args, **kwargs))

    return run
