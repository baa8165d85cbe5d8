"""Dead letters: what could not be delivered or answered can be looked at, sent again, and thrown away."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from bandstand.bus import Capability, Frame, Metadata, RestartLimits
from bandstand.bus.dead_letters import DeadLetterStore
from bandstand.bus.syscall import StatsQuery
from bandstand.supervision import Backoff
from tests.bus.capabilities import Player, Told, Wait, told, watch
from tests.bus.virtual_node import Stage, staged

pytestmark = [pytest.mark.spec("C24")]


class Brittle(Player):
    """Is out of service after the first failure."""

    restarts = RestartLimits(max_restarts=0, backoff=Backoff(initial=0.001, maximum=0.001))


class Small(Player):
    """Has little room."""

    mailbox = 8


class Ear(Capability):
    """Listens, and cannot take everything."""

    mailbox = 8
    restarts = RestartLimits(max_restarts=2, backoff=Backoff(initial=0.001, maximum=0.001))
    is_well = False

    def __init__(self) -> None:
        self.heard = 0

    async def told(self, msg: Told) -> None:
        self.heard += 1
        if msg.text == "hold":
            await asyncio.sleep(1)
        if msg.text == "raise" and not Ear.is_well:
            raise ValueError("too loud")


async def listed(stage: Stage, **wanted: Any) -> Any:
    return await stage.reply_to("query", "Dead.List", wanted)


async def replayed(stage: Stage, letter: str) -> Any:
    asked = stage.command("Dead.Replay", {"id": letter})
    await stage.wait(50)
    return stage.reply(asked)


@pytest.mark.guarantee("G180")
class TestWhatIsOne:
    @pytest.mark.parametrize(
        ("reason", "capability", "words"),
        [
            ("unrouted", None, "no capability handles"),
            ("crashed", "Cast", "by wish"),
            ("fault", "Cast", "does not declare"),
            ("timeout", "Cast", "within 10 ms"),
        ],
    )
    @staged(Player)
    async def test_a_request_that_was_not_handled(
        self, stage: Stage, reason: str, capability: str | None, words: str
    ) -> None:
        deeds: dict[str, tuple[str, Any, int | None]] = {
            "unrouted": ("Cast.Dance", {}, None),
            "crashed": ("Cast.Do", {"what": "raise"}, None),
            "fault": ("Cast.Do", {"what": "misname"}, None),
            "timeout": ("Cast.Wait", {"ms": 100}, 10),
        }
        type_name, data, timeout = deeds[reason]
        stage.command(type_name, data, name="x", timeout=timeout, correlation="work")
        await stage.wait(50)
        page = await listed(stage)
        assert (page["held"], page["fallen"]) == (1, 0)
        (letter,) = page["letters"]
        assert (letter["id"], letter["reason"], letter["type"]) == ("x", reason, type_name)
        assert (letter["kind"], letter["attempts"], letter.get("capability")) == (
            "command",
            1,
            capability,
        )
        assert words in letter["said"]
        assert letter["correlation"] == "work"
        assert letter["at"] > 1_700_000_000_000
        assert letter["bytes"] > 0

    @pytest.mark.spec("C20")
    @staged(Brittle)
    async def test_one_for_a_capability_out_of_service(self, stage: Stage) -> None:
        stage.command("Cast.Do", {"what": "raise"}, name="a")
        await stage.wait(10)
        stage.query("Cast.Echo", name="b")
        await stage.settle()
        reasons = [(each["id"], each["reason"]) for each in (await listed(stage))["letters"]]
        assert reasons == [("b", "unhealthy"), ("a", "crashed")]

    @staged(Small, hold_timeout=0)
    async def test_one_for_which_there_is_no_room(self, stage: Stage) -> None:
        stage.command("Cast.Wait", {"ms": 100})
        await stage.settle()
        for number in range(9):
            stage.query("Cast.Echo", name=f"q{number}")
        await stage.settle()
        (letter,) = (await listed(stage))["letters"]
        assert (letter["id"], letter["reason"]) == ("q8", "overloaded")

    @pytest.mark.parametrize("what", ["", "refuse", "miss"])
    @staged(Player)
    async def test_what_a_handler_has_answered_is_none(self, stage: Stage, what: str) -> None:
        stage.command("Cast.Do", {"what": what})
        stage.command("Cast.Do", {"what": 5})
        stage.query("Syscall.Describe", {"type": "Nobody.Knows"})
        await stage.settle()
        assert (await listed(stage))["letters"] == []

    @staged(Player)
    async def test_an_answer_whose_client_has_gone_until_somebody_gets_it(self, stage: Stage) -> None:
        first, second = stage.connect(), stage.connect()
        first.command("Cast.Wait", {"ms": 10}, name="x")
        await stage.settle()
        first.close()
        await stage.wait(20)
        (letter,) = (await listed(stage))["letters"]
        assert (letter["id"], letter["reason"]) == ("x", "abandoned")
        # It comes back by another connection, and asks again.
        second.command("Cast.Wait", {"ms": 10}, name="x")
        await stage.settle()
        assert second.answer("x").kind == "reply"
        assert (await listed(stage))["letters"] == []

    @staged(Ear, Player)
    async def test_events_that_a_subscriber_could_not_take(self, stage: Stage) -> None:
        stage.event("Cast.Told", {"text": "raise"}, name="loud")
        await stage.wait(10)
        stage.event("Cast.Told", {"text": "hold"})
        await stage.settle()
        for number in range(10):
            stage.event("Cast.Told", {"text": str(number)}, name=f"e{number}")
        await stage.settle()
        letters = (await listed(stage))["letters"]
        assert [(each["id"], each["reason"], each["capability"]) for each in letters] == [
            ("e9", "undelivered", "Ear"),
            ("e8", "undelivered", "Ear"),
            ("loud", "crashed", "Ear"),
        ]

    @staged(Player)
    async def test_the_same_message_again_is_one_letter_and_another_by_its_id_is_two(
        self, stage: Stage
    ) -> None:
        for _ in range(2):
            stage.command("Cast.Wait", {"ms": 100}, name="x", timeout=10)
            await stage.wait(300)
        stage.command("Cast.Wait", {"ms": 101}, name="x", timeout=10)
        await stage.wait(300)
        letters = (await listed(stage))["letters"]
        assert [(each["id"], each["attempts"]) for each in letters] == [("x~2", 1), ("x", 2)]


@pytest.mark.guarantee("G181")
class TestLooking:
    @staged(Player)
    async def test_they_can_be_chosen_and_read_page_by_page(self, stage: Stage) -> None:
        client = stage.connect()
        for number in range(5):
            client.command(f"None.N{number}", name=f"n{number}")
        client.command("Cast.Do", {"what": "raise"}, name="c")
        await stage.wait(10)

        async def names(**wanted: Any) -> list[str]:
            return [each["id"] for each in (await listed(stage, **wanted))["letters"]]

        assert await names() == ["c", "n4", "n3", "n2", "n1", "n0"]
        assert await names(type="None.*", limit=2) == ["n4", "n3"]
        assert await names(type="None.*", limit=2, before="n3") == ["n2", "n1"]
        assert await names(reason="crashed") == ["c"]
        assert await names(type="Cast.Do", reason="unrouted") == []
        assert (
            "no dead letter never"
            in (await client.fault_of("Sys.Refused", "query", "Dead.List", {"before": "never"})).message
        )

    @staged(Player)
    async def test_all_that_is_known_of_one(self, stage: Stage) -> None:
        inner = {
            "kind": "command",
            "type": "Cast.Do",
            "data": {"what": "raise"},
            "metadata": {"id": "x", "timestamp": 0},
        }
        stage.command("Timer.Schedule", {"delay": 1, "message": inner}, name="above")
        await stage.wait(20)
        shown = await stage.reply_to("query", "Dead.Show", {"id": "x"})
        assert shown["letter"]["causation"] == "above"
        assert shown["message"]["data"] == {"what": "raise"}
        assert shown["answer"]["type"] == "Sys.ActorCrash"
        assert [each["metadata"]["id"] for each in shown["lineage"]] == ["above"]


@pytest.mark.guarantee("G182")
class TestSendingAgain:
    @staged(Player)
    async def test_the_handler_runs_and_the_letter_is_gone(self, stage: Stage) -> None:
        # It is too slow once: the second time it has all the time of the node's own.
        for name in ("a", "b"):
            stage.command("Cast.Wait", {"ms": 20}, name=name, timeout=30, correlation="work")
        await stage.wait(50)
        stage.fault("b", "Sys.Timeout")
        begun, seen = told(stage), watch(stage, "Cast.Wait")
        done = await replayed(stage, "b")
        assert (done["id"], done["outcome"], done["answer"]["kind"]) == ("b", "replied", "reply")
        assert begun == ["wait "]
        assert seen[0].metadata.id == done["replay"] != "b"
        assert (seen[0].metadata.causation, seen[0].metadata.correlation) == ("b", "work")
        assert (await listed(stage))["held"] == 0

    @staged(Player)
    async def test_one_that_fails_again_stays_and_is_one(self, stage: Stage) -> None:
        stage.command("Cast.Do", {"what": "raise"}, name="x")
        await stage.wait(1100)
        for attempt in (2, 3):
            done = await replayed(stage, "x")
            assert (done["outcome"], done["answer"]["type"]) == ("failed", "Sys.ActorCrash")
            page = await listed(stage)
            assert [(each["id"], each["attempts"]) for each in page["letters"]] == [("x", attempt)]
            await stage.wait(1100)

    @staged(Player, max_inside=1)
    async def test_where_too_much_is_under_way_that_is_said(self, stage: Stage) -> None:
        stage.command("None.One", name="x")
        await stage.settle()
        asking = asyncio.ensure_future(stage.bus.ask(Wait(100)))
        await stage.settle()
        fault = await stage.fault_of("Sys.Overloaded", "command", "Dead.Replay", {"id": "x"})
        assert "dead letter x was not replayed" in fault.message
        await asking
        fault = await stage.fault_of("Sys.Refused", "command", "Dead.Replay", {"id": "y"})
        assert "no dead letter y" in fault.message

    @staged(Ear, Player)
    async def test_an_event_goes_to_the_one_that_has_missed_it(self, stage: Stage) -> None:
        client = stage.connect()
        client.event("Cast.Told", {"text": "raise"}, name="loud")
        await stage.wait(10)
        Ear.is_well = True
        try:
            listener = stage.connect()
            listener.command("Syscall.Subscribe", {"types": ["Cast.*"]})
            await stage.settle()
            done = await replayed(stage, "loud")
        finally:
            Ear.is_well = False
        assert (done["outcome"], done["answer"]) == ("delivered", None)
        assert (await stage.health("Ear")).handled == 2
        assert listener.events() == []
        assert (await listed(stage))["held"] == 0

    @staged(Player)
    async def test_while_it_is_under_way_others_can_look_and_nobody_sends_it_twice(
        self, stage: Stage
    ) -> None:
        stage.command("Cast.Wait", {"ms": 500}, name="x", timeout=100)
        await stage.wait(600)
        begun = told(stage)
        asked = [stage.command("Dead.Replay", {"id": "x"}) for _ in range(2)]
        await stage.settle()
        assert (await listed(stage))["held"] == 1
        assert "in progress" in stage.fault(asked[1], "Sys.Refused").message
        await stage.wait(600)
        assert stage.reply(asked[0])["outcome"] == "replied"
        assert begun == ["wait "]

    @staged(Player)
    async def test_it_has_the_usual_time_though_its_client_had_none_left(self, stage: Stage) -> None:
        stage.command("Cast.Wait", {"ms": 20}, name="hasty", timeout=1)
        await stage.wait(50)
        stage.command("Cast.Wait", {"ms": 100_000}, name="slow", timeout=90_000)
        await stage.wait(110_000)
        seen = watch(stage, "Cast.Wait")
        assert (await replayed(stage, "hasty"))["outcome"] == "replied"
        stage.command("Dead.Replay", {"id": "slow"})
        await stage.settle()
        # More than is usual it keeps.
        assert [each.metadata.timeout for each in seen if each.kind == "command"] == [None, 90_000]
        await stage.wait(110_000)

    @staged(Player)
    async def test_purging(self, stage: Stage) -> None:
        for number in range(3):
            stage.command(f"None.N{number}", name=f"n{number}")
        stage.command("Cast.Do", {"what": "raise"}, name="c")
        await stage.wait(10)
        for wanted, count in (
            ({"id": "n1"}, 1),
            ({"type": "None.*", "reason": "unrouted"}, 2),
            ({}, 1),
            ({}, 0),
        ):
            assert await stage.reply_to("command", "Dead.Purge", wanted) == {"purged": count}
        figures = (await stage.node.bus.ask(StatsQuery())).dead_letters
        assert (figures.made, figures.held, figures.removed, figures.bytes) == (4, 0, 4, 0)


def letter_of(name: str, size: int) -> Frame:
    return Frame(kind="event", type="A.B", data=Raw(b"x" * size), metadata=Metadata(name, 0))


@pytest.mark.guarantee("G183")
class TestBounds:
    @staged(Player, dead_count=3)
    async def test_the_oldest_falls_out_and_is_counted(self, stage: Stage) -> None:
        for number in range(5):
            stage.command("None.One", name=f"n{number}")
        await stage.settle()
        page = await listed(stage)
        assert [each["id"] for each in page["letters"]] == ["n4", "n3", "n2"]
        assert (page["held"], page["fallen"]) == (3, 2)

    @staged(Player, dead_count=0)
    async def test_there_may_be_none(self, stage: Stage) -> None:
        stage.command("None.One")
        await stage.settle()
        page = await listed(stage)
        assert (page["letters"], page["held"], page["fallen"]) == ([], 0, 1)

    @given(
        steps=st.lists(
            st.tuples(
                st.sampled_from("abcd"), st.integers(0, 12), st.sampled_from(["add", "remove", "claim"])
            ),
            max_size=40,
        )
    )
    def test_they_hold_whatever_comes_and_the_books_balance(self, steps: list[tuple[str, int, str]]) -> None:
        letters = DeadLetterStore(3, 20)
        for name, size, way in steps:
            found = letters.find(name)
            if way == "add":
                letters.add(letter_of(name, size), "abandoned" if size % 2 else "crashed", 0, said="x")
            elif way == "claim":
                letters.claim(name)
            elif found is not None:
                assert letters.remove(found)
                assert not letters.remove(found)
            held = list(letters)
            assert len(held) == len(letters) <= 3
            assert sum(letter.size for letter in held) == letters.held_bytes <= 20
            assert letters.made == len(letters) + letters.fallen + letters.removed
            assert len({letter.id for letter in held}) == len(held)
            assert all(letters.find(letter.id) is letter for letter in held)
