"""The journal as clients of a node see it: `Syscall.Recent` behind an offset, and subscriptions that continue from one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from bandstand.bus import Node, NodeConfig
from bandstand.bus.durable.history import JournalHistory
from bandstand.bus.syscall import NodeInternals, Recent
from bandstand.errors import RequestFailedError
from bandstand.journal import Journal, Record
from tests.bus.node_journals import (
    answer,
    checkpoint,
    dead,
    delete_before,
    entity_event,
    event,
    frame,
    request,
    timer,
    write_journal,
)
from tests.bus.virtual_node import ScriptedAdapter, ScriptedLine
from tests.core.support import HostFactory

pytestmark = [
    pytest.mark.guarantee("G509"),
    pytest.mark.real_time(
        reason="the journal is read on a thread, and the node looks again for a slow client"
    ),
]

PAGES = [
    [request(1, frame("place-1"))],
    [event(frame("sold-1", "event", "Shelf.Sold")), answer(1, frame("done-1", "reply", cause="place-1"))],
    checkpoint(request(1, frame("place-1"))),
    [timer("t-1", frame("late")), dead(frame("lost")), entity_event("ada", 1, frame("own", "event"))],
    [event(frame("sold-2", "event", "Shelf.Sold")), event(frame("paid-1", "event", "Orders.Paid"))],
]


def sold(name: str) -> Record:
    return event(frame(name, "event", "Shelf.Sold"))


class Stage:
    """A node with a journal, on an event loop in real time."""

    def __init__(
        self, node: Node, adapter: ScriptedAdapter, history: JournalHistory, directory: Path
    ) -> None:
        self.node = node
        self.adapter = adapter
        self.history = history
        self.directory = directory

    def connect(self) -> ScriptedLine:
        return self.adapter.connect()

    async def recent(self, after: str, **fields: Any) -> Any:
        return await self.node.bus.ask(Recent(after=after, **fields))

    async def write(self, *pages: list[Record]) -> None:
        """Write pages, as the node does."""
        await asyncio.to_thread(write_journal, self.directory, pages)
        self.history.note_page()

    async def until(self, condition: Callable[[], object]) -> None:
        async with asyncio.timeout(30):
            while not condition():  # noqa: ASYNC110  # conditions of all sorts
                await asyncio.sleep(0.001)

    async def subscribe(self, client: ScriptedLine, after: str, *types: str) -> Any:
        asked = client.command("Syscall.Subscribe", {"types": types or ["*"], "after": after})
        await self.until(lambda: client.is_answered(asked))
        return client.answer(asked)


def logged(client: ScriptedLine) -> list[str]:
    """The ids of the events of the journal that a client was given."""
    return [each["message"]["metadata"]["id"] for each in client.events("Sys.Logged")]


@pytest.fixture
def play(
    tmp_path: Path, loop_factory: HostFactory
) -> Callable[[Callable[[Stage], Coroutine[Any, Any, None]]], None]:
    directory = tmp_path / "journal"
    write_journal(directory, PAGES)

    def play(act: Callable[[Stage], Coroutine[Any, Any, None]]) -> None:
        async def main() -> None:
            adapter = ScriptedAdapter()
            async with Node([], adapters=[adapter], config=NodeConfig(health_period=0)) as node:
                internals: NodeInternals = node._internals  # pyright: ignore[reportPrivateUsage]
                internals.history = JournalHistory(directory)
                try:
                    await act(Stage(node, adapter, internals.history, directory))
                finally:
                    await internals.history.close()
                assert internals.history.followers == ()

        with asyncio.Runner(loop_factory=loop_factory) as runner:
            runner.run(main())

    return play


class TestRecent:
    def test_messages_behind_an_offset_are_read_in_parts(self, play: Any) -> None:
        async def act(stage: Stage) -> None:
            seen: list[tuple[str, str]] = []
            after, end = "0-0", False
            while not end:
                found = await stage.recent(after, limit=2)
                seen += zip(found.offsets, [each.metadata.id for each in found.messages], strict=True)
                assert not found.gap
                after, end = found.next, found.end
            assert seen == [
                ("1-1", "place-1"),
                ("2-1", "sold-1"),
                ("2-2", "done-1"),
                ("5-1", "sold-2"),
                ("5-2", "paid-1"),
            ]
            assert after == "6-0"
            await stage.write([sold("sold-3")])
            assert (await stage.recent(after)).offsets == ["6-1"]

        play(act)

    def test_kinds_and_types_select(self, play: Any) -> None:
        async def act(stage: Stage) -> None:
            assert (await stage.recent("0-0", kinds=["event"], types=["Shelf.*"])).offsets == ["2-1", "5-1"]
            assert (await stage.recent("0-0", kinds=["command", "reply"])).offsets == ["1-1", "2-2"]

        play(act)

    def test_deleted_messages_are_a_gap(self, play: Any) -> None:
        async def act(stage: Stage) -> None:
            await asyncio.to_thread(delete_before, stage.directory, 3)
            found = await stage.recent("1-1")
            assert (found.offsets, found.gap, found.end) == (["5-1", "5-2"], True, True)

        play(act)

    def test_an_offset_of_another_journal_is_refused(self, play: Any) -> None:
        async def act(stage: Stage) -> None:
            with pytest.raises(
                RequestFailedError, match=r"the journal cannot be read: .* ends before the offset 99-1"
            ):
                await stage.recent("99-1")
            client = stage.connect()
            for text in ("here", "1-", "1-1\n", "١-١"):
                asked = client.query("Syscall.Recent", {"after": text})
                await stage.until(lambda asked=asked: client.is_answered(asked))  # type: ignore[misc]
                assert client.answer(asked).type == "Sys.SchemaError"

        play(act)

    def test_other_requests_do_not_wait_for_the_disk(self, play: Any) -> None:
        async def act(stage: Stage) -> None:
            client = stage.connect()
            names = [client.query("Syscall.Recent", {"after": "0-0"}) for _ in range(20)]
            names.append(client.query("Syscall.Ping"))
            await stage.until(lambda: all(map(client.is_answered, names)))
            assert all(client.answer(name).kind == "reply" for name in names)

        play(act)

    def test_a_node_without_a_journal_says_so(self, loop_factory: HostFactory) -> None:
        async def main() -> None:
            adapter = ScriptedAdapter()
            async with Node([], adapters=[adapter], config=NodeConfig(health_period=0)) as node:
                with pytest.raises(RequestFailedError, match="this node has no journal: leave out `after`"):
                    await node.bus.ask(Recent(after="0-0"))

        with asyncio.Runner(loop_factory=loop_factory) as runner:
            runner.run(main())


class TestSubscriptions:
    def test_events_come_from_the_journal_and_then_as_they_are_written(self, play: Any) -> None:
        async def act(stage: Stage) -> None:
            client, other = stage.connect(), stage.connect()
            answered = await stage.subscribe(client, "2-1", "Shelf.*")
            assert json.loads(bytes(answered.data))["types"] == ["Shelf.*"]
            await stage.subscribe(other, "0-0")
            await stage.until(lambda: logged(client) == ["sold-2"])
            await stage.until(lambda: logged(other) == ["sold-1", "sold-2", "paid-1"])
            await stage.write(
                [sold("sold-3")], [event(frame("paid-2", "event", "Orders.Paid")), sold("sold-4")]
            )
            await stage.until(lambda: logged(client) == ["sold-2", "sold-3", "sold-4"])
            await stage.until(lambda: logged(other)[3:] == ["sold-3", "paid-2", "sold-4"])
            last = client.events("Sys.Logged")[-1]
            assert (last["offset"], last["gap"], last["message"]["type"]) == ("7-2", False, "Shelf.Sold")
            # The events themselves are not subscribed to.
            assert {each.type for each in client.frames if each.kind == "event"} == {"Sys.Logged"}

        play(act)

    def test_every_event_comes_once_however_often_a_client_resumes(self, play: Any) -> None:
        async def act(stage: Stage) -> None:
            seen: list[str] = []
            after, number = "0-0", 3
            for _ in range(12):
                client = stage.connect()
                await stage.subscribe(client, after, "Shelf.*")
                await stage.write([sold(f"sold-{number}")], [sold(f"sold-{number + 1}")])
                number += 2
                await stage.until(lambda client=client: logged(client))  # type: ignore[misc]
                client.close()
                seen += logged(client)
                after = client.events("Sys.Logged")[-1]["offset"]
            client = stage.connect()
            await stage.subscribe(client, after, "Shelf.*")
            await stage.write([sold("last")])
            await stage.until(lambda: "last" in logged(client))
            assert [*seen, *logged(client)] == [*[f"sold-{n}" for n in range(1, number)], "last"]

        play(act)

    def test_a_client_that_does_not_keep_up_misses_nothing(self, play: Any) -> None:
        async def act(stage: Stage) -> None:
            client = stage.connect()
            client.is_writable = False
            await stage.subscribe(client, "0-0", "Shelf.*")
            await stage.write([sold("sold-3")])
            await asyncio.sleep(0.12)
            assert logged(client) == []
            client.is_writable = True
            await stage.until(lambda: logged(client) == ["sold-1", "sold-2", "sold-3"])

        play(act)

    def test_deleted_events_are_a_gap(self, play: Any) -> None:
        async def act(stage: Stage) -> None:
            await asyncio.to_thread(delete_before, stage.directory, 3)
            client = stage.connect()
            await stage.subscribe(client, "1-1", "Orders.*")
            await stage.until(lambda: logged(client))
            await stage.write([event(frame("paid-2", "event", "Orders.Paid"))])
            await stage.until(lambda: len(logged(client)) == 2)
            assert [each["gap"] for each in client.events("Sys.Logged")] == [True, False]

        play(act)

    def test_a_gap_is_told_with_the_next_event_however_late_that_comes(self, play: Any) -> None:
        async def act(stage: Stage) -> None:
            await asyncio.to_thread(delete_before, stage.directory, 3)
            client = stage.connect()
            await stage.subscribe(client, "1-1", "Tea.*")
            await stage.write([event(frame("tea", "event", "Tea.Brewed"))])
            await stage.until(lambda: logged(client))
            assert [each["gap"] for each in client.events("Sys.Logged")] == [True]

        play(act)

    def test_a_second_subscription_replaces_the_first(self, play: Any) -> None:
        async def act(stage: Stage) -> None:
            client = stage.connect()
            await stage.subscribe(client, "6-0")
            await stage.subscribe(client, "6-0", "Orders.*")
            await stage.write([sold("sold-3"), event(frame("paid-2", "event", "Orders.Paid"))])
            await stage.until(lambda: logged(client))
            await stage.write([event(frame("paid-3", "event", "Orders.Paid"))])
            await stage.until(lambda: "paid-3" in logged(client))
            assert logged(client) == ["paid-2", "paid-3"]
            asked = client.command("Syscall.Unsubscribe")
            await stage.until(lambda: client.is_answered(asked))
            await stage.until(lambda: not stage.history.followers)
            await stage.write([event(frame("paid-4", "event", "Orders.Paid"))])
            assert "paid-4" not in logged(client)

        play(act)

    def test_a_client_that_has_gone_is_forgotten(self, play: Any) -> None:
        async def act(stage: Stage) -> None:
            client = stage.connect()
            await stage.subscribe(client, "6-0")
            client.close()
            await stage.write([sold("sold-3")])
            await stage.until(lambda: not stage.history.followers)
            assert logged(client) == []

        play(act)

    def test_a_journal_that_cannot_be_read_ends_it(self, play: Any) -> None:
        async def act(stage: Stage) -> None:
            client = stage.connect()
            await stage.subscribe(client, "99-1")
            await stage.until(lambda: client.events("Sys.LogEnded"))
            (ended,) = client.events("Sys.LogEnded")
            assert "ends before the offset 99-1" in ended["reason"]
            await stage.until(lambda: not stage.history.followers)

        play(act)

    def test_followers_are_limited(self, play: Any) -> None:
        async def act(stage: Stage) -> None:
            clients = [stage.connect() for _ in range(65)]
            answers = [await stage.subscribe(client, "6-0") for client in clients]
            assert [each.kind for each in answers] == ["reply"] * 64 + ["error"]
            assert b"64 connections follow the journal already" in bytes(answers[-1].data)
            clients[0].close()
            assert (await stage.subscribe(clients[-1], "6-0")).kind == "reply"

        play(act)

    def test_a_journal_that_is_open_for_writing_is_followed(self, play: Any) -> None:
        async def act(stage: Stage) -> None:
            client = stage.connect()
            await stage.subscribe(client, "6-0")
            async with Journal(stage.directory) as journal:
                for number in range(50):
                    await journal.append(sold(f"live-{number}"))
                    stage.history.note_page()
                await stage.until(lambda: len(logged(client)) == 50)
            assert logged(client) == [f"live-{number}" for number in range(50)]

        play(act)
