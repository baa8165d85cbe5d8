"""The seam where a language model goes, and one that follows a script.

A real one is a class with one method: it gets what it was asked to do, the tools and everything that has happened, sends that to whoever
runs the model, and makes a `Call`, a `Wait` or a `Done` of what comes back. The script does the same with a few rules; it makes a mistake that models
make, and reads the error.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from examples.agents.tools import Tool


@dataclass(frozen=True, slots=True)
class Call:
    """It wants a tool called."""

    tool: str
    arguments: dict[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class Wait:
    """It wants to hear of something first."""


@dataclass(frozen=True, slots=True)
class Done:
    """It has nothing more to do."""

    words: str


@dataclass(frozen=True, slots=True)
class Answered:
    """What a call has brought."""

    call: Call
    data: Any


@dataclass(frozen=True, slots=True)
class Failed:
    """Why a call was not done, in words that say what to do about it."""

    call: Call
    words: str


@dataclass(frozen=True, slots=True)
class Happened:
    """Something has happened on the bus meanwhile."""

    event: str
    data: Any


NOTHING = "nothing has happened"
"""The event that is told when one was waited for in vain."""

Entry = Answered | Failed | Happened


class Model(Protocol):
    """Whoever decides what to do next."""

    async def decide(
        self, task: str, tools: Mapping[str, Tool], story: Sequence[Entry], /
    ) -> Call | Wait | Done:
        """The next step, by everything that has happened so far."""
        ...


class Scripted:
    """Finds a note about a visitor, and books the first hour that is free. Its first try at that leaves out a field."""

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
        # Events come by themselves, and perhaps after the answer of the call that they follow from.
        return Done(words) if heard else Wait()

    def _booking(
        self, tool: Tool, story: Sequence[Entry], day: str, hour: int, visitor: str
    ) -> dict[str, Any]:
        arguments = {"day": day, "hour": hour, "title": f"an hour with {visitor}"}
        failures = [entry.words for entry in story if isinstance(entry, Failed)]
        if not failures:
            del arguments["title"]
        # What the error names is what it sends the second time; and nothing that the schema does not know.
        return {name: value for name, value in arguments.items() if name in tool.parameters["properties"]}
