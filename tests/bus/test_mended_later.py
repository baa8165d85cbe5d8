"""More that was wrong once: what a client could do to others."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest

from bandstand.bus import Capability, Contract, Message, Node
from bandstand.bus.contracts import schema as schemas
from bandstand.bus.contracts.capability import read_capability
from bandstand.bus.contracts.schema import example_of, is_hashable
from bandstand.bus.memory import Memory
from bandstand.bus.wire import is_deeper, read_frame
from bandstand.errors import ContractError, InvalidMessageError
from bandstand.testing import VirtualClock, leaks_of
from tests.bus.adapters import request
from tests.bus.cast import Do, Echo, Echoed, Told
from tests.bus.stage import ScriptedAdapter, Stage, play, staged
from tests.bus.test_ndjson import Booth, Play
from tests.bus.test_ndjson import play as line_play

__all__ = ("line_play",)


class Stuck(Capability):
    """Never comes to an end."""

    async def do(self, msg: Do) -> None:
        await asyncio.Event().wait()

    async def echo(self, msg: Echo) -> Echoed:
        await asyncio.Event().wait()
        return Echoed("")


@pytest.mark.spec("C30")
@pytest.mark.guarantee("G81")
class TestCredit:
    @staged(Stuck, max_in_flight=8)
    async def test_when_all_of_it_is_used_up_one_can_still_ask_what_is_the_matter(self, stage: Stage) -> None:
        greedy, operator = stage.connect(), stage.connect()
        for _ in range(20):
            greedy.command("Cast.Do", timeout=86_400_000)
        await stage.settle()
        asked = operator.query("Syscall.Health")
        await stage.settle()
        assert operator.reply(asked)["capabilities"]["Stuck"]["at"] == "Cast.Do"

    @staged(Stuck, max_in_flight=8)
    async def test_what_one_that_is_gone_wanted_to_know_takes_nobodys_credit(self, stage: Stage) -> None:
        greedy, other = stage.connect(), stage.connect()
        for _ in range(8):
            greedy.query("Cast.Echo", timeout=86_400_000)
        await stage.settle()
        greedy.close()
        await stage.settle()
        asked = [other.command("Cast.Do", timeout=10) for _ in range(7)]
        await stage.wait(20)
        for name in asked:
            other.fault(name, "Sys.Timeout")

    @staged(Memory)
    async def test_a_client_that_is_gone_is_forgotten_by_those_who_hand_out_events(
        self, stage: Stage
    ) -> None:
        for _ in range(3):
            client = stage.connect()
            client.command("Syscall.Subscribe", {"types": ["*"]})
            await stage.settle()
            client.close()
        fanout = stage.node._fanout  # pyright: ignore[reportPrivateUsage]  # what is kept is what this is about
        assert fanout._listeners == []  # pyright: ignore[reportPrivateUsage]  # likewise


class TestAnswers:
    @pytest.mark.guarantee("G85")
    def test_large_answers_make_the_window_small(self, line_play: Play) -> None:
        async def body() -> None:
            booth = Booth(window=512)
            booth.desk.is_holding = True
            booth.line.data_received(b"".join(request(n) for n in range(1000)))
            # A client that has taken nothing yet may have so many.
            assert len(booth.said) == 32
            for _ in range(32):
                booth.line.reader.settle(1 << 20)
            booth.line.resume()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            # Four megabytes may be owed, and the last were one each.
            assert len(booth.said) == 32 + 4

        line_play(body)

    def test_small_ones_make_it_large(self, line_play: Play) -> None:
        async def body() -> None:
            booth = Booth(window=64)
            booth.desk.is_holding = True
            booth.line.data_received(b"".join(request(n) for n in range(1000)))
            for _ in range(32):
                booth.line.reader.settle(100)
            booth.line.resume()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert len(booth.said) == 32 + 64

        line_play(body)

    def test_a_word_of_http_after_the_first_message_is_only_a_bad_line(self, line_play: Play) -> None:
        async def body() -> None:
            booth = Booth()
            booth.line.data_received(request(1) + b"GET / HTTP/1.1\r\n" + request(2))
            assert booth.said == ["q1", "q2"]
            assert not booth.wire.is_closed

        line_play(body)


class TestEnds:
    def test_one_that_takes_nothing_is_dropped_before_it_has_all_the_memory(self, line_play: Play) -> None:
        async def body() -> None:
            booth = Booth(write_high=100, write_most=10_000)
            booth.line.data_received(request(1))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert not booth.wire.is_aborted
            booth.wire.waiting = 10_001
            booth.line.data_received(request(2))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert booth.wire.is_aborted

        line_play(body)

    @staged(Stuck, max_in_flight=2)
    async def test_lines_that_are_gone_stand_in_nobodys_way(self, stage: Stage) -> None:
        greedy = stage.connect()
        for _ in range(2):
            greedy.command("Cast.Do", timeout=100)
        waiting = [stage.connect() for _ in range(5)]
        asked = [client.command("Cast.Do", timeout=10) for client in waiting]
        await stage.settle()
        for client in waiting[:4]:
            client.close()
        await stage.wait(500)
        waiting[4].fault(asked[4], "Sys.Timeout")

    def test_one_who_is_cancelled_while_he_waits_for_the_end_leaves_nothing_behind(
        self, bandstand_clock: VirtualClock
    ) -> None:
        adapter = ScriptedAdapter()
        node = Node([Stuck], adapters=[adapter], clock=bandstand_clock)

        async def main() -> None:
            async with asyncio.timeout(1), node:
                adapter.connect().command("Cast.Do")
                await asyncio.sleep(0.01)

        with pytest.raises(TimeoutError):
            bandstand_clock.run(main())
        assert adapter.life == ["start", "stop", "close"]
        assert leaks_of(node.loop) == []


class TestReading:
    @pytest.mark.parametrize(
        ("text", "is_deep"),
        [
            ('{"a":"' + '\\"' + "[" * 200 + '"}', False),
            ('{"a":"\\\\"' + ',"b":' + "[" * 200, True),
            ('"' + "[" * 200 + '"', False),
            ("[" * 129, True),
            ("[" * 128, False),
            ("[]" * 500, False),
        ],
    )
    def test_what_is_inside_of_strings_is_not_deep(self, text: str, is_deep: bool) -> None:
        assert is_deeper(text.encode(), 128) is is_deep

    def test_a_number_with_a_billion_digits_is_not_written_out(self) -> None:
        metadata = '{"id":"a","timestamp":1e999999999,"timeout":1.0}'
        with pytest.raises(InvalidMessageError):
            read_frame(f'{{"kind":"event","type":"A.B","metadata":{metadata}}}'.encode())


class TestForms:
    def test_plain_events_say_of_what_type_they_are(self) -> None:
        got: list[object] = []
        contract = Contract(
            id="Ear",
            description="Hears.",
            inbound=Do,
            subscribes=["Cast.Told", "Cast.Else"],
            spawn=lambda: got.append,
        )

        async def act(stage: Stage) -> None:
            client = stage.connect()
            client.event("Cast.Told", {"text": "x"})
            client.event("Cast.Else", {"n": 1})
            asked = client.command("Cast.Do")
            await stage.settle()
            client.reply(asked)
            heard = [(one.type, one.data) for one in got if isinstance(one, Message)]
            assert heard == [("Cast.Told", {"text": "x"}), ("Cast.Else", {"n": 1})]

        play(act, contract)

    def test_an_empty_reply_need_not_be_said(self) -> None:
        def speak(_do: Do) -> Told:
            return Told("x")

        contract = Contract(id="Mouth", description="Speaks.", inbound=Do, outbound=Told, spawn=lambda: speak)

        async def act(stage: Stage) -> None:
            client = stage.connect()
            asked = client.command("Cast.Do")
            await stage.settle()
            client.reply(asked)

        play(act, contract)

    def test_handlers_that_can_never_work_are_refused(self) -> None:
        class Yields(Capability):
            """Yields."""

            def do(self, msg: Do) -> object:
                yield msg

        class Hides(Capability):
            """Hides its own voice."""

            def bus(self, msg: Do) -> None:  # type: ignore[override]  # wrong on purpose
                pass

        for kind, words in ((Yields, "cannot yield"), (Hides, "another name")):
            with pytest.raises(ContractError, match=words):
                read_capability(kind)


@pytest.mark.slow
def test_what_a_capability_prints_is_not_for_programs(tmp_path: Path) -> None:
    (tmp_path / "loud.py").write_text(
        "from bandstand.bus import Capability, Command\n"
        "print('imported')\n"
        "class Go(Command[None], type='Loud.Go'):\n"
        "    'Go.'\n"
        "class Loud(Capability):\n"
        "    'Prints.'\n"
        "    def go(self, msg: Go) -> None:\n"
        "        print('going')\n"
    )
    line = b'{"kind":"command","type":"Loud.Go","metadata":{"id":"1","timestamp":0}}\n'
    done = subprocess.run(
        [sys.executable, "-m", "bandstand", "serve", "loud", "--batch"],
        cwd=tmp_path,
        input=line,
        capture_output=True,
        timeout=30,
        check=True,
    )
    kinds = [read_frame(each).type for each in done.stdout.splitlines()]
    assert kinds == ["Sys.BootComplete", "Loud.Go"]
    assert b"imported" in done.stderr
    assert b"going" in done.stderr


@dataclass
class Picky:
    """Keep a colour."""

    kind: Literal["command"]
    type: Literal["Picky.Keep"]
    data: dict[str, str]

    def __post_init__(self) -> None:
        self.data["colour"]  # it is asked for, and may not be there


class Painter(Capability):
    """Keeps colours."""

    def keep(self, msg: Picky) -> None:
        pass


class TestContracts:
    @staged(Painter)
    async def test_a_class_that_refuses_what_a_stranger_sends_costs_the_stranger_an_answer(
        self, stage: Stage
    ) -> None:
        client = stage.connect()
        for _ in range(5):
            asked = client.command("Picky.Keep", {"color": "red"})
            await stage.settle()
            client.fault(asked, "Sys.SchemaError")

    @pytest.mark.parametrize("written", ["msgspec.Nope", "1 +", "Do[int, str]", "Nope"])
    def test_annotations_that_mean_nothing_are_named(self, written: str) -> None:
        class Odd(Capability):
            """Odd."""

            def do(self, msg: Do) -> None:
                pass

        Odd.do.__annotations__["msg"] = written
        with pytest.raises(ContractError, match="cannot be resolved"):
            read_capability(Odd)

    def test_a_class_that_holds_itself_may_be_in_a_set(self) -> None:
        assert is_hashable(msgspec.inspect.type_info(Ring))
        assert not is_hashable(msgspec.inspect.type_info(LooseRing))

    def test_an_example_takes_no_more_steps_than_it_has_parts(self, monkeypatch: pytest.MonkeyPatch) -> None:
        made: list[str] = []
        word = schemas.example_string

        def counted(schema: dict[str, Any], name: str) -> str:
            made.append(name)
            return word(schema, name)

        monkeypatch.setattr(schemas, "example_string", counted)
        schema: dict[str, Any] = {"type": "string"}
        for _ in range(5):
            schema = {"type": "array", "items": schema}
        assert example_of(schema) == [[[[["example"]]]]]
        assert len(made) == 1

    def test_an_example_that_would_have_to_be_huge_is_not_made(self) -> None:
        assert len(example_of({"type": "string", "minLength": 10**9})) < 1000


class Ring(msgspec.Struct, frozen=True):
    next: Ring | None = None


class LooseRing(msgspec.Struct, frozen=True):
    next: LooseRing | None = None
    names: list[str] = []
