"""The office as an example: a model that knows nothing but an address finds out what there is, and what it did wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from bandstand.bus import (
    Capability,
    Command,
    Node,
    UnixAdapter,
    connect,
)
from examples.agents.agent import Agent
from examples.agents.model import (
    Answered,
    Call,
    Done,
    Entry,
    Failed,
    Happened,
    Model,
    Scripted,
)
from examples.agents.office import capabilities
from examples.agents.tools import Tool
from tests.examples.running import output_of

pytestmark = pytest.mark.real_time(reason="a real client on a real socket")


def quiet(_line: str) -> None:
    pass


def work(folder: Path, model: Model, task: str, *more: type[Capability]) -> tuple[str, list[Entry]]:
    async def main() -> tuple[str, list[Entry]]:
        path = folder / "office.sock"
        async with (
            Node([*capabilities, *more], adapters=[UnixAdapter(path)]),
            connect(f"unix:{path}") as bus,
        ):
            worker = Agent(bus, model, "Diary.*", show=quiet)
            return await worker.work(task), worker.story

    return asyncio.run(main())


class Steps:
    """A model that does one thing after the other."""

    def __init__(self, *calls: Call) -> None:
        self._calls = calls
        self.tools: Mapping[str, Tool] = {}

    async def decide(self, _task: str, tools: Mapping[str, Tool], story: Sequence[Entry], /) -> Call | Done:
        self.tools = tools
        done = len([entry for entry in story if not isinstance(entry, Happened)])
        return self._calls[done] if done < len(self._calls) else Done("that was all")


def test_it_books_an_hour_mends_its_mistake_and_hears_of_it(tmp_path: Path) -> None:
    words, story = work(tmp_path, Scripted(), "find an hour for Grace")
    assert words == "Grace has 11:00 on 2030-01-31; 1 change of the diary was heard"
    failures = [entry.words for entry in story if isinstance(entry, Failed)]
    assert len(failures) == 1
    assert "missing required field `title`" in failures[0]
    assert (
        Happened("Diary.Changed", {"day": "2030-01-31", "hour": 11, "title": "an hour with Grace"}) in story
    )


class Brew(Command[str], type="Kitchen.Brew"):
    """Make a pot of something."""

    what: str


class Kitchen(Capability):
    """Makes tea."""

    def brew(self, msg: Brew) -> str:
        return f"a pot of {msg.what}"


def test_what_is_added_to_the_node_is_a_tool(tmp_path: Path) -> None:
    model = Steps(Call("Kitchen.Brew", {"what": "tea"}))
    _, story = work(tmp_path, model, "tea, please", Kitchen)
    assert story == [Answered(Call("Kitchen.Brew", {"what": "tea"}), "a pot of tea")]
    assert set(model.tools) == {"Diary.Free", "Diary.Book", "Notes.Search", "Notes.Write", "Kitchen.Brew"}
    assert model.tools["Diary.Free"].is_read_only
    assert not model.tools["Diary.Book"].is_read_only
    assert model.tools["Diary.Book"].parameters["required"] == ["day", "hour", "title"]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (Call("Diary.Burn"), "there is no tool Diary.Burn; there are Diary.Free"),
        (Call("Diary.Book", {"day": "tomorrow", "hour": 11, "title": "x"}), "day"),
        (Call("Diary.Book", {"day": "2030-01-31", "hour": 99, "title": "x"}), "hour"),
        (
            Call("Diary.Book", {"day": "2030-01-31", "hour": 9, "title": "x"}),
            "is taken, by 'the daily meeting'",
        ),
        (Call("Diary.Book", {"day": "2030-01-31", "hour": 11, "title": "x", "mood": 1}), "mood"),
    ],
)
def test_whatever_a_model_does_wrong_it_is_told_in_words(tmp_path: Path, call: Call, words: str) -> None:
    _, story = work(tmp_path, Steps(call), "do something")
    [outcome] = story
    assert isinstance(outcome, Failed)
    assert words in outcome.words


@pytest.mark.slow
@pytest.mark.once
def test_it_runs_as_it_says() -> None:
    shown = output_of("agents")
    assert shown.startswith("tool   Diary.Free: Which hours of a day are free.\n")
    assert shown.splitlines()[-1].startswith("done   Grace has 11:00 on 2030-01-31")
