"""Events that nothing subscribes to: the node logs and counts them, and the emitter is not affected."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeAlias

import pytest

from bandstand.bus import Capability, Command, Event
from tests.bus.nearby import nearby
from tests.bus.virtual_node import Source, Stage, Stages, staged

pytestmark = pytest.mark.guarantee("G355")


class IndexBuilt(Event, type="Index.Built"):
    """What the searcher emits."""


class IndexBuild(Event, type="Index.Build"):
    """What the listener subscribes to: a typing error."""


class Rebuild(Command[None], type="Index.Rebuild"):
    """Emit events."""

    count: int = 1


class Indexer(Capability):
    """Builds an index."""

    outbound = IndexBuilt

    def rebuild(self, msg: Rebuild) -> None:
        for _ in range(msg.count):
            self.bus.emit(IndexBuilt())


class MisspelledListener(Capability):
    """Subscribes to another type than the one that is emitted."""

    def on_build(self, msg: IndexBuild) -> None:
        pass


class Listener(Capability):
    """Subscribes to the type that is emitted."""

    def on_built(self, msg: IndexBuilt) -> None:
        pass


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Callable[..., list[str]]:
    """What has been logged of events without a subscriber, so far."""
    caplog.set_level(logging.INFO, "bandstand.bus")

    def lines(level: int = logging.INFO) -> list[str]:
        texts = [record.getMessage() for record in caplog.records if record.levelno >= level]
        return [text for text in texts if "no subscriber" in text]

    return lines


Lines: TypeAlias = Callable[..., list[str]]


@pytest.mark.parametrize("source", [Indexer, nearby(Indexer)], ids=["here", "isolated"])
@staged("source", MisspelledListener)
async def test_the_log_names_capability_and_similar_type(stage: Stage, source: Source, lines: Lines) -> None:
    asked = stage.command("Index.Rebuild")
    await stage.wait(100)
    stage.reply(asked)
    assert (await stage.stats()).unheard == 1
    assert lines(logging.WARNING) == [
        "1 events (1 in all) had no subscriber; the latest is Index.Built of Indexer: did you mean Index.Build?"
    ]


@staged(Indexer)
async def test_a_type_without_a_similar_one_is_mentioned_once(stage: Stage, lines: Lines) -> None:
    """To publish what nothing needs now is normal, so this is not a warning."""
    stage.command("Index.Rebuild", {"count": 3})
    await stage.settle()
    assert (await stage.stats()).unheard == 3
    assert lines(logging.WARNING) == []
    assert lines() == [
        "Index.Built of Indexer has no subscriber: no capability has a handler for it, and no client subscribes to it"
    ]


async def test_there_is_one_line_per_second_and_no_event_is_left_out(stages: Stages, lines: Lines) -> None:
    async with stages(Indexer, MisspelledListener) as stage:
        stage.command("Index.Rebuild", {"count": 100})
        await stage.settle()
        assert len(lines(logging.WARNING)) == 1
        await stage.wait(1000)
        stage.command("Index.Rebuild", {"count": 100})
        await stage.settle()
        assert [line[: line.index(" had")] for line in lines(logging.WARNING)] == [
            "1 events (1 in all)",
            "100 events (101 in all)",
        ]
    # The rest is logged when the node stops.
    assert lines(logging.WARNING)[2].startswith("99 events (200 in all)")


@staged(Indexer, Listener, health_period=0.1)
async def test_a_handler_is_a_subscriber_and_events_of_the_node_need_none(stage: Stage, lines: Lines) -> None:
    stage.command("Index.Rebuild")
    await stage.wait(1000)
    assert (await stage.stats()).unheard == 0
    assert lines(logging.WARNING) == []


@staged(Indexer)
async def test_a_client_is_a_subscriber_until_it_unsubscribes(stage: Stage, lines: Lines) -> None:
    client = stage.connect()
    client.command("Syscall.Subscribe", {"types": ["Index.*"]})
    client.command("Index.Rebuild")
    await stage.settle()
    assert len(client.events("Index.Built")) == 1
    assert lines() == []
    client.close()
    stage.command("Index.Rebuild")
    await stage.settle()
    assert len(lines()) == 1


@staged(Indexer)
async def test_the_line_tells_events_of_clients_and_of_the_program_apart(stage: Stage, lines: Lines) -> None:
    stage.event("Index.Lost")
    await stage.wait(1000)
    stage.node.bus.emit(IndexBuild())
    await stage.settle()
    client_line, program_line = lines()
    assert "Index.Lost of a client" in client_line
    assert "Index.Build of the program" in program_line
