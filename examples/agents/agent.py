"""The loop of a model and a bus: decide, call, record the result. The number of steps is limited, and the model gets
every error.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from bandstand.bus import Connection, Gap, Message, Subscription
from bandstand.errors import BandstandError
from examples.agents.model import NOTHING, Answered, Call, Done, Entry, Failed, Happened, Model, Wait
from examples.agents.tools import Tool, call, discover

STEPS = 20
# How long the agent waits for an event, in seconds.
PATIENCE_S = 5.0


class TooLongError(Exception):
    """The model has not finished within the allowed number of steps."""


class Agent:
    """One task for one model on one bus.

    Args:
        bus: where the tools are.
        model: decides what to do.
        events: patterns of the events that the model gets, such as "Diary.*".
        show: is called with a line of text for each step.
    """

    def __init__(self, bus: Connection, model: Model, *events: str, show: Callable[[str], None]) -> None:
        self._bus = bus
        self._model = model
        self._events = events
        self._show = show
        self.story: list[Entry] = []
        self._has_happened = asyncio.Event()

    async def work(self, task: str) -> str:
        """Do a task, and return the final text of the model.

        Raises:
            TooLongError: the task was not done after `STEPS` steps.
        """
        tools = await discover(self._bus)
        for tool in tools.values():
            self._show(f"tool   {tool.name}: {tool.description}")
        async with self._bus.subscribe(*self._events, gaps=True) as heard:
            listening = asyncio.create_task(self._listen(heard), name="what the model hears")
            try:
                return await self._go(task, tools)
            finally:
                listening.cancel()

    async def _go(self, task: str, tools: dict[str, Tool]) -> str:
        for _ in range(STEPS):
            self._has_happened.clear()
            decision = await self._model.decide(task, tools, self.story)
            if isinstance(decision, Done):
                self._show(f"done   {decision.words}")
                return decision.words
            if isinstance(decision, Wait):
                await self._wait()
                continue
            self._show(f"call   {decision.tool} {decision.arguments}")
            outcome = await self._call(decision, tools)
            self.story.append(outcome)
            self._show(
                f"answer {outcome.data}" if isinstance(outcome, Answered) else f"error  {outcome.words}"
            )
        raise TooLongError(f"{task!r} was not done after {STEPS} steps")

    async def _wait(self) -> None:
        """Wait for an event that came after the model began to decide."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                await self._has_happened.wait()
        except TimeoutError:
            self.story.append(Happened(NOTHING, f"in {PATIENCE_S} s"))

    async def _call(self, wanted: Call, tools: dict[str, Tool]) -> Answered | Failed:
        tool = tools.get(wanted.tool)
        if tool is None:
            return Failed(wanted, f"there is no tool {wanted.tool}; there are {', '.join(tools)}")
        try:
            return Answered(wanted, await call(self._bus, tool, wanted.arguments))
        except BandstandError as error:
            return Failed(wanted, str(error))

    async def _listen(self, heard: Subscription[Message | Gap]) -> None:
        async for event in heard:
            if isinstance(event, Gap):
                self.story.append(Happened("something was missed", event.why))
            else:
                self.story.append(Happened(event.type, event.data))
                self._show(f"event  {event.type} {event.data}")
            self._has_happened.set()
