"""The interface of a language model, and a model that follows a script.

A real one is a class with one method. It gets the task, the tools and everything that has happened, sends that to a
language model, and turns the answer into a `Call`, a `Wait` or a `Done`. The script does the same with a few rules.
It makes a typical mistake, and reads the error.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from examples.agents.tools import Tool


@dataclass(frozen=True, slots=True)
class Call:
    """The model wants to call a tool."""

    tool: str
    arguments: dict[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class Wait:
    """The model wants to wait for an event."""


@dataclass(frozen=True, slots=True)
class Done:
    """The model has finished."""

    words: str


@dataclass(frozen=True, slots=True)
class Answered:
    """The result of a call."""

    call: Call
    data: Any


@dataclass(frozen=True, slots=True)
class Failed:
    """A call failed: the text says why, and what to do about it."""

    call: Call
    words: str


@dataclass(frozen=True, slots=True)
class Happened:
    """An event of the bus."""

    event: str
    data: Any


NOTHING = "nothing has happened"
"""The event that the model gets when a wait has timed out."""

Entry = Answered | Failed | Happened


class Model(Protocol):
    """Decides what to do next."""

    async def decide(
        self, task: str, tools: Mapping[str, Tool], story: Sequence[Entry], /
    ) -> Call | Wait | Done:
        """Return the next step."""
        ...


class Scripted:
    """Finds a note about a visitor, and books the first free hour. The first try leaves out a field."""

    async def decide(
        self, task: str, tools: Mapping[str, Tool], story: Sequence[Entry], /
    ) -> Call | Wait | Done:
        visitor = task.rsplit(maxsplit=1)[-1]
        answers = {entry.call.tool: entry.data for entry in story if isinstance(entry, Answered)}
        if "Notes.Search" not in answers:
            return Call("Notes.Search", {"word": visitor})
        day = re.search(r"\d{4}-\d\d-\d\d", " ".join(answers["Notes.Search"]["notes"]))
        if day is None:
            return Done(f"I found no day in the notes about {visitor}")
        if "Diary.Free" not in answers:
            return Call("Diary.Free", {"day": day[0]})
        hours = answers["Diary.Free"]["hours"]
        if not hours:
            return Done(f"there is no hour free on {day[0]}")
        if "Diary.Book" not in answers:
            return Call("Diary.Book", self._booking(tools["Diary.Book"], story, day[0], hours[0], visitor))
        heard = [entry.event for entry in story if isinstance(entry, Happened)]
        changes = heard.count("Diary.Changed")
        words = f"{visitor} has {hours[0]}:00 on {day[0]}; {changes} change of the diary was heard"
        # An event may come after the answer of the call that caused it.
        return Done(words) if heard else Wait()

    def _booking(
        self, tool: Tool, story: Sequence[Entry], day: str, hour: int, visitor: str
    ) -> dict[str, Any]:
        arguments = {"day": day, "hour": hour, "title": f"an hour with {visitor}"}
        failures = [entry.words for entry in story if isinstance(entry, Failed)]
        if not failures:
            del arguments["title"]
        # The second time it sends the missing field, and only fields of the schema.
        return {name: value for name, value in arguments.items() if name in tool.parameters["properties"]}
