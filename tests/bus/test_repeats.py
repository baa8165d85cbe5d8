"""The same id again: the same request is handled once, and everybody who sends it gets its answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from bandstand.bus import Contract, Frame, Message, Metadata, Query
from bandstand.bus.contracts.capability import read_capability
from bandstand.bus.request_table import has_same_content
from bandstand.bus.syscall import StatsQuery
from bandstand.errors import ContractError
from tests.bus.capabilities import Echo, Echoed, Player, told, watch
from tests.bus.virtual_node import ScriptedLine, Stage, Stages, staged

pytestmark = [pytest.mark.spec("C23")]


class Twice(Query[Echoed], type="Cast.Twice"):
    """Look at it anew, each time."""

    text: str = ""


class Kept(Query[Echoed], type="Cast.Kept", remember=True):
    """Look at it once."""

    text: str = ""


class Anew(Player):
    """Does what it is told to, and counts."""

    def __init__(self) -> None:
        self.count = 0

    def twice(self, msg: Twice) -> Echoed:
        self.count += 1
        return Echoed(str(self.count))

    def kept(self, msg: Kept) -> Echoed:
        self.count += 1
        return Echoed(str(self.count))


def scheduled(type_name: str, **data: object) -> dict[str, Any]:
    """A command for `Timer.Schedule`, with the id `x`."""
    return {"kind": "command", "type": type_name, "data": data, "metadata": {"id": "x", "timestamp": 0}}


class RawMessage(msgspec.Struct):
    kind: Literal["query", "command"]
    type: Literal["Raw.Count", "Raw.Look"]


def raw_contract(handler: Callable[[Any], object], **options: Any) -> Contract:
    return Contract(id="Raw", description="x", inbound=RawMessage, spawn=lambda: handler, **options)


def ask(client: ScriptedLine | Stage, what: str, ms: int = 0, **more: Any) -> None:
    """Have something done, by the id `x`."""
    client.command(
        "Cast.Wait" if ms else "Cast.Do", {"what": what} | ({"ms": ms} if ms else {}), name="x", **more
    )


@pytest.mark.guarantee("G173")
class TestTheSameAgain:
    @staged(Player)
    async def test_what_was_answered_is_answered_again_and_handled_once(self, stage: Stage) -> None:
        begun = told(stage)
        first, second = stage.connect(), stage.connect()
        for client in (first, second, first):
            ask(client, "emit", correlation=client.name)
            await stage.settle()
        assert begun.count("do emit") == 1
        again = [*first.answers("x"), *second.answers("x")]
        assert [(each.kind, bytes(each.data)) for each in again] == [("reply", b"{}")] * 3
        # Each in an envelope of its own, and with the correlation of who has asked.
        assert len({each.metadata.id for each in again}) == 3
        assert [each.metadata.correlation for each in again] == [first.name, first.name, second.name]
        assert (first.settled, second.settled) == (["x", "x"], ["x"])
        stats = await stage.stats()
        assert (stats.repeated, stats.joined, stats.admitted, stats.answered) == (2, 0, 3, 3)

    @staged(Player)
    async def test_one_that_comes_while_it_is_under_way_joins_it(self, stage: Stage) -> None:
        begun = told(stage)
        first, second = stage.connect(), stage.connect()
        ask(first, "", 100)
        await stage.wait(50)
        ask(second, "", 100)
        # In the same moment as well.
        ask(second, "", 100)
        await stage.wait(49)
        assert not first.is_answered("x")
        assert (await stage.stats()).in_flight == 3
        await stage.wait(2)
        assert [len(client.answers("x")) for client in (first, second)] == [1, 2]
        assert begun.count("wait ") == 1
        stats = await stage.stats()
        assert (stats.joined, stats.repeated, stats.in_flight) == (2, 0, 0)

    @pytest.mark.parametrize("what", ["raise", "refuse", "miss", "misname"])
    @staged(Player)
    async def test_an_error_that_somebody_has_given_is_given_again(self, stage: Stage, what: str) -> None:
        begun = told(stage)
        for _ in range(3):
            ask(stage, what)
            await stage.wait(2000)
        first, *others = [(each.kind, each.type, bytes(each.data)) for each in stage.answers("x")]
        assert first[0] == "error"
        assert others == [first] * 2
        assert begun.count(f"do {what}") == 1
        assert (await stage.stats()).failed == {first[1]: 3}

    @staged(Player)
    async def test_those_who_have_joined_one_whose_client_leaves_get_their_answer(self, stage: Stage) -> None:
        first, second = stage.connect(), stage.connect()
        ask(first, "", 100)
        await stage.settle()
        ask(second, "", 100)
        await stage.settle()
        first.close()
        await stage.wait(200)
        assert second.answer("x").kind == "reply"
        stats = await stage.stats()
        assert (stats.abandoned, stats.answered) == (1, 1)

    @staged(Player, max_in_flight=4)
    async def test_a_query_that_others_joined_outlives_its_client(self, stage: Stage) -> None:
        first, second, third = stage.connect(), stage.connect(), stage.connect()
        third.command("Cast.Wait", {"ms": 100})
        await stage.settle()
        for client in (first, second):
            client.query("Cast.Echo", {"text": "?"}, name="q")
        await stage.settle()
        # Credit is short, and what clients that are gone wanted to know is given up.
        first.close()
        await stage.wait(200)
        assert second.reply("q")["text"] == "?"

    @pytest.mark.guarantee("G309")
    @staged(Player)
    async def test_a_scheduled_message_is_sent_as_often_as_it_was_scheduled(self, stage: Stage) -> None:
        begun = told(stage)
        inner = scheduled("Cast.Do", what="emit")
        schedules = [
            stage.command("Timer.Schedule", {"delay": delay, "message": inner}) for delay in (10, 10, 20)
        ]
        sent = watch(stage, "Cast.Do")
        await stage.wait(50)
        assert len(stage.answers("x")) == begun.count("do emit") == 3
        assert [each.metadata.causation for each in sent if each.kind == "command"] == schedules
        # A schedule that is repeated is made once, as every command is.
        for _ in range(2):
            stage.command("Timer.Schedule", {"delay": 10, "message": inner}, name="s")
        await stage.wait(50)
        assert begun.count("do emit") == 4
        stats = await stage.stats()
        assert (stats.repeated + stats.joined, stats.conflicting, stats.is_balanced) == (1, 0, True)

    @pytest.mark.guarantee("G309")
    @staged(Player)
    async def test_a_scheduled_message_takes_its_id_from_nobody(self, stage: Stage) -> None:
        begun = told(stage)
        inner = scheduled("Cast.Wait", what="later", ms=10)
        stage.command("Timer.Schedule", {"delay": 10, "message": inner})
        await stage.wait(15)
        # It is at hand, and neither joined nor disturbed by a request of that id; nor is that request by the next one.
        ask(stage, "emit")
        stage.command("Timer.Schedule", {"delay": 20, "message": inner})
        await stage.wait(100)
        ask(stage, "emit")
        await stage.settle()
        assert (begun.count("wait later"), begun.count("do emit")) == (2, 1)
        assert [each.kind for each in stage.answers("x")] == ["reply"] * 4
        stats = await stage.stats()
        assert (stats.repeated, stats.conflicting, stats.is_balanced) == (1, 0, True)

    @staged(Player, max_in_flight=2)
    async def test_one_that_has_joined_gives_its_credit_back(self, stage: Stage) -> None:
        first, second, third, fourth = (stage.connect() for _ in range(4))
        for client in (first, second):
            ask(client, "", 100)
        third.command("Cast.Wait", {"ms": 10_000})
        fourth.command("Cast.Do")
        await stage.wait(50)
        assert (len(third.backlog), len(fourth.backlog)) == (1, 1)
        await stage.wait(60)
        assert (len(third.backlog), len(fourth.backlog)) == (0, 0)
        await stage.wait(10_000)

    async def test_both_are_answered_when_the_node_stops(self, stages: Stages) -> None:
        async with stages(Player, drain_timeout=0) as stage:
            client = stage.connect()
            for _ in range(2):
                ask(client, "", 1000)
            await stage.settle()
        assert [each.type for each in client.answers("x")] == ["Sys.ShuttingDown"] * 2


@pytest.mark.guarantee("G174")
class TestOtherContent:
    @pytest.mark.parametrize("ms", [0, 100])
    @staged(Player)
    async def test_is_a_conflict_and_the_first_is_not_disturbed(self, stage: Stage, ms: int) -> None:
        first, second = stage.connect(), stage.connect()
        ask(first, "", ms)
        await stage.settle()
        second.command("Cast.Wait", {"what": "refuse"}, name="x")
        second.command("Cast.Do", {"what": "refuse"}, name="x")
        await stage.settle()
        faults = second.answers("x")
        assert [each.type for each in faults] == ["Sys.Conflict"] * 2
        assert b"was used for another request (command Cast." in bytes(faults[0].data)
        await stage.wait(200)
        assert first.answer("x").kind == "reply"
        stats = await stage.stats()
        assert (stats.conflicting, stats.failed) == (2, {"Sys.Conflict": 2})

    @staged(Player)
    async def test_a_conflict_is_no_dead_letter_and_is_not_remembered(self, stage: Stage) -> None:
        ask(stage, "")
        stage.command("Cast.Do", {"what": "emit"}, name="x")
        await stage.settle()
        ask(stage, "")
        await stage.settle()
        assert sorted(each.type for each in stage.answers("x")) == ["Cast.Do", "Cast.Do", "Sys.Conflict"]
        assert (await stage.node.bus.ask(StatsQuery())).dead_letters.made == 0

    @staged(Player)
    async def test_time_correlation_and_spelling_are_no_content(self, stage: Stage) -> None:
        stage.command("Cast.Wait", Raw(b'{"ms":1,"what":"a"}'), name="x", timeout=500)
        stage.command(
            "Cast.Wait", Raw(b'{"what": "\\u0061", "ms": 1}'), name="x", timeout=900, correlation="c"
        )
        await stage.wait(10)
        assert [each.kind for each in stage.answers("x")] == ["reply", "reply"]

    @given(one=st.binary(max_size=8), two=st.binary(max_size=8))
    def test_whatever_it_is_it_can_be_compared(self, one: bytes, two: bytes) -> None:
        frames = [
            Frame(kind="command", type="A.B", data=Raw(each), metadata=Metadata("x", 0))
            for each in (one, two)
        ]
        assert has_same_content(frames[0], frames[0])
        assert has_same_content(*frames) == has_same_content(*frames[::-1])

    @pytest.mark.parametrize(
        ("one", "two", "same"),
        [
            (b'{"a":1,"b":2}', b'{"b":2,"a":1}', True),
            (b"[1, 2]", b"[1,2]", True),
            (b"true", b"1", False),
            (b"1.0", b"1", False),
            (b"[1,2]", b"[2,1]", False),
            (b"1e999", b"1e999", True),
            (b"1e999", b"2e999", False),
        ],
    )
    def test_what_is_the_same(self, one: bytes, two: bytes, same: bool) -> None:  # a case
        frames = [
            Frame(kind="command", type="A.B", data=Raw(each), metadata=Metadata("x", 0))
            for each in (one, two)
        ]
        assert has_same_content(*frames) is same


@pytest.mark.guarantee("G175")
class TestNotRemembered:
    @staged(Player)
    async def test_a_deadline_that_has_passed(self, stage: Stage) -> None:
        begun = told(stage)
        ask(stage, "", 100, timeout=10)
        await stage.wait(20)
        # The first one's handler is still at it: this is another attempt, and its own answer.
        ask(stage, "", 100)
        await stage.wait(300)
        assert [each.type for each in stage.answers("x")] == ["Sys.Timeout", "Cast.Wait"]
        assert begun.count("wait ") == 2
        assert (await stage.stats()).late == 1

    @staged(Player)
    async def test_what_nobody_handles_and_what_is_wrong(self, stage: Stage) -> None:
        stage.command("Cast.Dance", name="x")
        await stage.settle()
        stage.command("Cast.Do", {"what": 5}, name="x")
        await stage.settle()
        ask(stage, "")
        await stage.settle()
        assert [each.type for each in stage.answers("x")] == [
            "Sys.RoutingError",
            "Sys.SchemaError",
            "Cast.Do",
        ]

    async def test_an_overload(self, stages: Stages) -> None:
        class Small(Player):
            mailbox = 8

        async with stages(Small, hold_timeout=0) as stage:
            stage.command("Cast.Wait", {"ms": 100})
            await stage.settle()
            for _ in range(8):
                stage.query("Cast.Echo")
            ask(stage, "")
            await stage.wait(200)
            ask(stage, "")
            await stage.settle()
            assert [each.type for each in stage.answers("x")] == ["Sys.Overloaded", "Cast.Do"]

    @staged(Anew)
    async def test_a_query_unless_its_class_says_so(self, stage: Stage) -> None:
        for text in ("a", "a", "b"):
            stage.query("Cast.Twice", {"text": text}, name="x")
        stage.query("Cast.Kept", {"text": "c"}, name="x")
        await stage.settle()
        replies = [each.type for each in stage.answers("x")]
        assert replies == ["Cast.Twice"] * 3 + ["Cast.Kept"]
        stage.query("Cast.Twice", name="x")
        stage.query("Cast.Kept", {"text": "other"}, name="x")
        await stage.settle()
        assert sorted(each.type for each in stage.answers("x")[4:]) == ["Cast.Twice", "Sys.Conflict"]
        assert (await stage.stats()).in_flight == 0

    @pytest.mark.guarantee("G309")
    @pytest.mark.parametrize(
        ("options", "again"),
        [
            ({}, ["query Raw.Count", "query Raw.Look"]),
            (
                {"remember": {"Raw.Look": True, "Raw.Count": False}},
                ["query Raw.Count", "command Raw.Count"],
            ),
        ],
    )
    async def test_a_contract_says_so_for_types_without_a_class_of_their_own(
        self, stages: Stages, options: dict[str, Any], again: list[str]
    ) -> None:
        all_four = ["query Raw.Count", "query Raw.Look", "command Raw.Count", "command Raw.Look"]
        seen: list[str] = []

        def counter(message: Any) -> Message:
            seen.append(f"{message.kind} {message.type}")
            return Message(kind="reply", type=message.type, data=None)

        async with stages(raw_contract(counter, **options)) as stage:
            for _ in range(2):
                for each in all_four:
                    kind, _, name = each.partition(" ")
                    stage.say(kind, name, name=each)
                await stage.settle()
        assert seen == all_four + again

    def test_what_a_contract_says_of_it_must_make_sense(self) -> None:
        for wrong in ({"Raw.Other": True}, {"Raw.Look": 1}, ["Raw.Look"]):
            with pytest.raises(ContractError, match="remember"):
                read_capability(raw_contract(print, remember=wrong))

    @staged(Player)
    async def test_what_is_about_the_connection_or_about_now(self, stage: Stage) -> None:
        first, second = stage.connect(), stage.connect()
        for client in (first, second):
            client.command("Syscall.Subscribe", {"types": ["Cast.*"]}, name="s")
            client.query("Syscall.Ping", name="p")
            await stage.wait(5)
        first.event("Cast.Told", {"text": "x"})
        await stage.settle()
        assert [client.events() for client in (first, second)] == [[{"text": "x"}]] * 2
        assert first.reply("p")["uptimeMs"] < second.reply("p")["uptimeMs"]

    @staged(Player, remember_count=0)
    async def test_anything_if_memory_is_switched_off(self, stage: Stage) -> None:
        begun = told(stage)
        for _ in range(2):
            ask(stage, "emit")
        stage.query("Cast.Echo", name="x")
        await stage.settle()
        assert [each.type for each in stage.answers("x")] == ["Cast.Do", "Cast.Do", "Cast.Echo"]
        assert begun.count("do emit") == 2
        stats = await stage.node.bus.ask(StatsQuery())
        assert stats.remembered.count == 0
        assert stats.requests.joined == stats.requests.repeated == stats.requests.conflicting == 0


@pytest.mark.guarantee("G176")
class TestBounds:
    @staged(Player, remember_for=1)
    async def test_an_answer_is_remembered_for_its_time_and_no_longer(self, stage: Stage) -> None:
        begun = told(stage)
        ask(stage, "emit")
        await stage.wait(999)
        ask(stage, "emit")
        await stage.settle()
        assert begun.count("do emit") == 1
        await stage.wait(2)
        ask(stage, "emit")
        await stage.settle()
        assert begun.count("do emit") == 2
        # A repeat does not make it younger.
        assert (await stage.stats()).repeated == 1

    @staged(Player, remember_count=3)
    async def test_only_so_many_are_and_the_oldest_is_forgotten_first(self, stage: Stage) -> None:
        begun = told(stage)
        for name in "abcdbcda":
            stage.command("Cast.Do", {"what": name}, name=name)
            await stage.settle()
        assert [text for text in begun if text != "emitted"] == [f"do {name}" for name in "abcda"]
        stats = await stage.node.bus.ask(StatsQuery())
        assert stats.remembered.count == 3

    @staged(Anew, remember_bytes=1000)
    async def test_only_so_many_bytes_are(self, stage: Stage) -> None:
        for number in range(10):
            stage.query("Cast.Kept", {"text": "x" * 100}, name=f"q{number}")
            await stage.settle()
            assert (await stage.node.bus.ask(StatsQuery())).remembered.bytes <= 1000
        stage.query("Cast.Kept", {"text": "x" * 1000}, name="large")
        await stage.settle()
        remembered = (await stage.node.bus.ask(StatsQuery())).remembered
        assert 0 < remembered.bytes <= 1000
        stage.query("Cast.Kept", {"text": "y"}, name="large")
        await stage.settle()
        assert [each.kind for each in stage.answers("large")] == ["reply", "reply"]

    @staged(Player)
    async def test_what_capabilities_ask_is_not_remembered(self, stage: Stage) -> None:
        await stage.bus.ask(Echo("x"))
        assert (await stage.node.bus.ask(StatsQuery())).remembered.count == 0
