"""Events that nothing subscribes to: the node logs and counts them, and the emitter is not affected."""

from __future__ import annotations

import logging

import pytest

from bandstand.bus import Capability, Command, Event
from tests.bus.nearby import nearby
from tests.bus.virtual_node import Stage, play

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


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if "no subscriber" in record.getMessage()]


@pytest.mark.parametrize("is_isolated", [False, True])
def test_the_log_names_the_capability_and_the_type_and_a_similar_type(
    caplog: pytest.LogCaptureFixture, is_isolated: bool
) -> None:
    async def act(stage: Stage) -> None:
        asked = stage.command("Index.Rebuild")
        await stage.wait(100)
        stage.reply(asked)
        assert (await stage.stats()).unheard == 1

    with caplog.at_level(logging.WARNING, "bandstand.bus"):
        play(act, nearby(Indexer) if is_isolated else Indexer, MisspelledListener)
    assert lines(caplog) == [
        "1 events (1 in all) had no subscriber; the latest is Index.Built of Indexer: did you mean Index.Build?"
    ]


def test_a_type_without_a_similar_one_is_mentioned_once(caplog: pytest.LogCaptureFixture) -> None:
    """To publish what nothing needs now is normal, so this is not a warning."""

    async def act(stage: Stage) -> None:
        stage.connect().command("Index.Rebuild", {"count": 3})
        await stage.settle()
        assert (await stage.stats()).unheard == 3

    with caplog.at_level(logging.INFO, "bandstand.bus"):
        play(act, Indexer)
    (record,) = [each for each in caplog.records if "no subscriber" in each.getMessage()]
    assert record.levelno == logging.INFO
    assert record.getMessage() == (
        "Index.Built of Indexer has no subscriber: no capability has a handler for it, and no client subscribes to it"
    )


def test_there_is_one_line_per_second_and_no_event_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    async def act(stage: Stage) -> None:
        stage.command("Index.Rebuild", {"count": 100})
        await stage.settle()
        assert len(lines(caplog)) == 1
        await stage.wait(1000)
        stage.command("Index.Rebuild", {"count": 100})
        await stage.settle()
        assert [line[: line.index(" had")] for line in lines(caplog)] == [
            "1 events (1 in all)",
            "100 events (101 in all)",
        ]

    with caplog.at_level(logging.WARNING, "bandstand.bus"):
        play(act, Indexer, MisspelledListener)
    # The rest is logged when the node stops.
    assert lines(caplog)[2].startswith("99 events (200 in all)")


def test_a_handler_is_a_subscriber(caplog: pytest.LogCaptureFixture) -> None:
    async def act(stage: Stage) -> None:
        stage.connect().command("Index.Rebuild")
        await stage.settle()
        assert (await stage.stats()).unheard == 0

    with caplog.at_level(logging.WARNING, "bandstand.bus"):
        play(act, Indexer, Listener)
    assert lines(caplog) == []


def test_a_client_is_a_subscriber_until_it_unsubscribes(caplog: pytest.LogCaptureFixture) -> None:
    async def act(stage: Stage) -> None:
        client = stage.connect()
        client.command("Syscall.Subscribe", {"types": ["Index.*"]})
        client.command("Index.Rebuild")
        await stage.settle()
        assert len(client.events("Index.Built")) == 1
        assert lines(caplog) == []
        client.close()
        stage.connect().command("Index.Rebuild")
        await stage.settle()
        assert len(lines(caplog)) == 1

    with caplog.at_level(logging.INFO, "bandstand.bus"):
        play(act, Indexer)


def test_the_line_tells_events_of_clients_and_of_the_program_apart(caplog: pytest.LogCaptureFixture) -> None:
    async def act(stage: Stage) -> None:
        stage.connect().event("Index.Lost")
        await stage.wait(1000)
        stage.node.bus.emit(IndexBuild())
        await stage.settle()

    with caplog.at_level(logging.INFO, "bandstand.bus"):
        play(act, Indexer)
    client_line, program_line = lines(caplog)
    assert "Index.Lost of a client" in client_line
    assert "Index.Build of the program" in program_line


def test_events_of_the_node_itself_need_no_subscriber(caplog: pytest.LogCaptureFixture) -> None:
    async def act(stage: Stage) -> None:
        await stage.wait(1000)
        assert (await stage.stats()).unheard == 0

    with caplog.at_level(logging.WARNING, "bandstand.bus"):
        play(act, Indexer, health_period=0.1)
    assert lines(caplog) == []
