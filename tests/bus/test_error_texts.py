"""The error texts that users of the bus see, compared with the files in `tests/bus/texts`.

A change of a text shows up there in review. To write the files anew after a change:

    RENEW_TEXTS=1 python -m pytest tests/bus/test_error_texts.py
"""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from bandstand.bus import (
    Capability,
    Command,
    Contract,
    Event,
    Limits,
    Memory,
    Node,
    NodeConfig,
    Query,
    RestartLimits,
    Retry,
    TcpAdapter,
    Token,
    UnixAdapter,
    provide,
    read_frame,
)
from bandstand.bus.contracts import capability, messages, schema, types
from bandstand.bus.contracts.capability import HandlerIndex, read_capability
from bandstand.bus.contracts.codec import PayloadCodec
from bandstand.bus.contracts.types import declared_messages, message_parts
from bandstand.bus.faults import BOOT_FAILED, FAULTS
from bandstand.errors import BandstandError, BootError, InvalidMessageError, JournalFullError
from bandstand.isolation import isolated
from bandstand.journal.storage import Storage
from tests.bus import declared as d
from tests.bus import envelopes as e
from tests.bus.bank import Account
from tests.bus.capabilities import Player, watch
from tests.bus.kinds import REFUSED, Custom, Point
from tests.bus.models import Item, Ruled
from tests.bus.virtual_node import ScriptedLine, Stage, hushed, play
from tests.error_texts import Shown, TextFiles, missing_raises, provoke

FILES = TextFiles(__file__)


# -- faults ------------------------------------------------------------------------------------------------------------


class Loop(Command[None], type="Loop.Run"):
    """Send a request to the capability that handles this one."""


class Looping(Capability):
    """Sends requests to itself."""

    id = "Loop"
    outbound = Loop

    async def run(self, msg: Loop) -> None:
        await self.bus.ask(msg)


class Brittle(Player):
    """Is out of service after the first failure."""

    restarts = RestartLimits(max_restarts=0)


class Small(Player):
    """Has a small mailbox."""

    mailbox = 8


class Broken(Capability):
    """Does not start."""

    async def on_start(self) -> None:
        raise RuntimeError("no database")

    def get(self, msg: e.Get) -> e.Value:
        raise NotImplementedError


class Faults:
    """Collects the faults that one node answers with."""

    def __init__(self) -> None:
        self.shown: list[Shown] = []

    def add(self, situation: str, type_name: str, text: str) -> None:
        self.shown.append(Shown(type_name, situation, text))

    def answer(self, situation: str, client: ScriptedLine, name: str) -> None:
        # A request whose id is used again has two answers.
        (answer,) = [each for each in client.answers(name) if each.kind == "error"]
        self.add(situation, answer.type, json.loads(bytes(answer.data))["message"])

    async def ordinary(self, stage: Stage) -> None:
        client = stage.connect()

        async def ask(situation: str, kind: Any, type_name: str, data: object = None, **more: Any) -> None:
            name = client.say(kind, type_name, data, **more)
            await stage.wait(2000)
            self.answer(situation, client, name)

        await ask("a handler raises", "command", "Cast.Do", {"what": "raise"})
        await ask("a handler refuses", "command", "Cast.Do", {"what": "refuse"})
        await ask("a handler sends an undeclared event", "command", "Cast.Do", {"what": "unsaid"})
        await ask("a handler answers with an undeclared error", "command", "Cast.Do", {"what": "misname"})
        await ask("the type does not exist", "command", "Nothing.Here")
        await ask("the type is misspelled", "query", "Cast.Ecko")
        await ask("a command is sent as a query", "query", "Cast.Do")
        await ask("a field has the wrong type", "query", "Cast.Echo", {"text": 3})
        await ask("a field is unknown", "query", "Cast.Echo", {"txet": "x"})
        await ask("a client sends a reply", "reply", "Cast.Echo")
        await ask("the handler is slow", "command", "Cast.Wait", {"ms": 5000}, timeout=100)
        await stage.wait(5000)
        client.command("Cast.Wait", {"ms": 500})
        await ask("the request waits too long", "query", "Cast.Echo", timeout=100)
        client.command("Cast.Do", {"what": "first"}, name="same")
        await ask(
            "an id is used again with other content", "command", "Cast.Do", {"what": "other"}, name="same"
        )
        for situation, line in (
            ("a line is not JSON", b"hello"),
            ("a message has no metadata", b'{"kind":"query","type":"A.B"}'),
            ("the kind is unknown", b'{"kind":"wish","type":"A.B","metadata":{"id":"x","timestamp":0}}'),
        ):
            with pytest.raises(InvalidMessageError) as caught:
                read_frame(line)
            stage.adapter.ingress.refuse(client, caught.value)
            self.add(situation, client.frames[-1].type, json.loads(bytes(client.frames[-1].data))["message"])
        for situation, type_name, data in (
            ("an unknown dead letter is replayed", "Dead.Replay", {"id": "x"}),
            ("an unknown capability is reset", "Syscall.Reset", {"capability": "Nothing"}),
        ):
            await ask(situation, "command", type_name, data)
        await ask("an unknown type is described", "query", "Syscall.Describe", {"type": "Cast.Ecko"})

    async def cyclic(self, stage: Stage) -> None:
        client, seen = stage.connect(), watch(stage, "Sys.Cycle")
        client.command("Loop.Run")
        await stage.settle()
        self.add("a capability waits for itself", seen[0].type, json.loads(bytes(seen[0].data))["message"])

    async def unhealthy(self, stage: Stage) -> None:
        client = stage.connect()
        client.command("Cast.Do", {"what": "raise"})
        await stage.wait(100)
        name = client.query("Cast.Echo")
        await stage.wait(100)
        self.answer("a capability has failed too often", client, name)

    async def overloaded(self, stage: Stage) -> None:
        client = stage.connect()
        client.command("Cast.Wait", {"ms": 100})
        await stage.settle()
        names = [client.query("Cast.Echo") for _ in range(9)]
        await stage.settle()
        self.answer("the mailbox of a capability is full", client, names[-1])
        await stage.wait(1000)

    async def stopping(self, stage: Stage) -> None:
        stage.command("Cast.Wait", {"ms": 10**6}, name="begun")
        stage.query("Cast.Echo", name="waiting")
        await stage.settle()
        asyncio.get_running_loop().call_later(0.05, lambda: stage.query("Cast.Echo", name="late"))

    async def dying(self, stage: Stage) -> None:
        """The copy of the journal is what a kill would leave."""
        journal = stage.node.journal
        assert journal is not None
        stage.connect().command("Cast.Wait", {"ms": 10**6}, name="begun")
        await stage.settle()
        shutil.copytree(journal, journal.parent / "copy")

    async def in_doubt(self, stage: Stage) -> None:
        client = stage.connect()
        client.command("Cast.Wait", {"ms": 10**6}, name="begun")
        await stage.settle()
        self.answer("the node has died while the command was handled", client, "begun")
        with patch.object(Storage, "commit", side_effect=JournalFullError("the disk is full")):
            name = client.command("Cast.Do", {"what": "x"})
            await stage.wait(100)
            self.answer("the disk of the journal is full", client, name)

    def boot(self, situation: str, *sources: Any) -> None:
        async def main() -> None:
            async with Node(sources):
                raise AssertionError("the node has started")

        with pytest.raises(BootError) as caught:
            asyncio.run(main())
        self.add(situation, BOOT_FAILED, str(caught.value))

    async def connecting(self, folder: Path) -> None:
        path = str(folder / "s")
        unix = UnixAdapter(path, limits=Limits(connections=1))
        tcp = TcpAdapter(token=Token("0123456789abcdef"))
        async with Node([Memory], adapters=[unix, tcp]):
            port = tcp.name.rpartition(":")[2]

            async def ask(situation: str, streams: Any, line: str) -> Any:
                reader, writer = streams
                writer.write(line.encode() + b"\n")
                answer = json.loads(await reader.readline())
                if situation:
                    text = answer["data"]["message"].replace(path, "PATH").replace(port, "PORT")
                    self.add(situation, answer["type"], text)
                return writer

            ping = '{"kind":"query","type":"Syscall.Ping","metadata":{"id":"p","timestamp":0}}'
            shown = ping.replace("query", "command").replace("Ping", "Authenticate")
            shown = shown.replace(',"metadata"', ',"data":{"token":"wrong"},"metadata"')
            writers = [
                await ask("", await asyncio.open_unix_connection(path), ping),
                await ask("the adapter has no room", await asyncio.open_unix_connection(path), ping),
                await ask("a client sends no token", await asyncio.open_connection("127.0.0.1", port), ping),
                await ask(
                    "a client sends a wrong token", await asyncio.open_connection("127.0.0.1", port), shown
                ),
            ]
            for writer in writers:
                writer.close()


def test_faults(tmp_path: Path) -> None:
    faults = Faults()
    lines: list[ScriptedLine] = []

    async def stopping(stage: Stage) -> None:
        await faults.stopping(stage)
        lines.extend(stage.adapter.lines)

    with hushed():
        play(faults.ordinary, Player)
        play(faults.cyclic, Looping)
        play(faults.unhealthy, Brittle)
        play(faults.overloaded, Small, hold_timeout=0)
        play(stopping, Player, drain_timeout=0.2)
        play(faults.dying, Player, journal=tmp_path / "journal", drain_timeout=0.2)
        play(faults.in_doubt, Player, journal=tmp_path / "copy")
        faults.answer("the node stops while the request is handled", lines[0], "begun")
        faults.answer("the node stops while the request waits", lines[0], "waiting")
        faults.answer("the node is stopping", lines[0], "late")
        faults.boot("a contract is wrong", d.Open)
        faults.boot("a capability does not start", Broken)
        asyncio.run(faults.connecting(tmp_path))
    assert {each.type for each in faults.shown} == {*FAULTS, BOOT_FAILED}
    meanings = [Shown(name, "meaning", text) for name, text in FAULTS.items()]
    shown = sorted((*meanings, *faults.shown), key=lambda each: each.type)
    FILES.check("faults.txt", "The meaning of each fault, and what a node answers.", shown)


# -- contracts and messages --------------------------------------------------------------------------------------------


def contract(**fields: Any) -> Contract:
    given: dict[str, Any] = {"id": "Memory", "description": "x", "inbound": e.Set, "spawn": lambda: None}
    return Contract(**(given | fields))


def define(base: Any, **keywords: Any) -> Any:
    return type(base)("Odd", (base,), {}, **keywords)


class Yielding(Capability):
    """Yields its reply."""

    def get(self, msg: e.Get) -> Any:
        yield 1


class HandlesBus(Capability):
    """Has a handler of a reserved name."""

    def bus(self, msg: e.Get) -> e.Value:  # type: ignore[override]  # pyright: ignore[reportIncompatibleVariableOverride]  # on purpose
        raise NotImplementedError


def refuses(*kinds: Any) -> type:
    return type("Refusing", (d.Memory,), {"refuses": kinds})


CODEC = PayloadCodec(e.Pair, "command Memory.Set")
NUMBER = PayloadCodec(float | None, "command Memory.Set")

ERRORS: dict[str, Callable[[], object]] = {
    # Capabilities as classes.
    **{
        f"class {source.__name__}": lambda source=source: read_capability(source)  # type: ignore[misc]
        for source in (
            *(d.Undocumented, d.Twice, d.WrongReply, d.AnsweringEvent, d.MessageReply, d.TwoParameters),
            *(d.ByKeyword, d.Unresolved, d.Open, d.BadPayload, d.ReplyOutbound, d.Empty, d.Saying, d.Clock),
            *(d.Kernel, d.Answering, d.BadId, d.BadCap, d.BadTimeout, d.BadPolicy, d.NeedsArguments),
            *(Yielding, HandlesBus, int),
        )
    },
    "refuses is not a tuple": lambda: read_capability(type("Refusing", (d.Memory,), {"refuses": ValueError})),
    "refuses has a number": lambda: read_capability(refuses(3)),
    "on_timeout is stop": lambda: read_capability(type("Stopping", (d.Memory,), {"on_timeout": "stop"})),
    "concurrency is zero": lambda: read_capability(type("Zero", (d.Memory,), {"concurrency": 0})),
    "a misspelt option": lambda: read_capability(type("Misspelt", (d.Memory,), {"mailbx": 3})),
    "a handler with the name of a tool": lambda: read_capability(
        type("Taking", (d.Memory,), {"background": print})
    ),
    "a timer outside of a node": lambda: d.Memory().after(1, print),
    "a step outside of a node": lambda: asyncio.run(d.Memory().step("charge", d.Memory)),
    "provide(int, 3)": lambda: provide(int, 3),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]
    "two capabilities with one id": lambda: HandlerIndex.build([read_capability(d.Memory)] * 2),
    "two handlers of one message": lambda: HandlerIndex.build(
        [read_capability(contract(id=name)) for name in ("First", "Second")]
    ),
    # Contracts.
    **{
        f"Contract({name}={value!r})": lambda name=name, value=value: read_capability(
            contract(**{name: value})
        )  # type: ignore[misc]
        for name, value in (
            *(("id", ""), ("description", " "), ("inbound", 3), ("inbound", None), ("outbound", 3)),
            *(("spawn", None), ("restarts", None), ("mailbox", True), ("timeout", 0)),
            *(("subscribes", "Memory.Changed"), ("subscribes", ["Memory"])),
            *(("retry", 3), ("retry", {"Memory.Get": 3}), ("retry", {"Memory.Set": 3})),
            *(("remember", 3), ("remember", {"Memory.Get": True}), ("remember", {"Memory.Set": 3})),
            ("retry_safe", {"Memory.Set": 3}),
        )
    },
    "a reply in inbound": lambda: read_capability(contract(inbound=e.SetReply)),
    "a reply to another message": lambda: read_capability(contract(inbound=e.Get, outbound=e.SetReply)),
    "another reply than the message class": lambda: read_capability(contract(outbound=e.SetReply)),
    "entities in a process of their own": lambda: read_capability(isolated(Account)),
    # Options.
    "RestartLimits(max_restarts=-1)": lambda: RestartLimits(max_restarts=-1),
    "RestartLimits(period=0)": lambda: RestartLimits(period=0),
    "RestartLimits(backoff=5)": lambda: RestartLimits(backoff=5),  # type: ignore[arg-type]
    "Retry(attempts=1)": lambda: Retry(attempts=1),
    "Retry(backoff=3)": lambda: Retry(backoff=3),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    "Retry(on='Sys.Overloaded')": lambda: Retry(on="Sys.Overloaded"),
    "Retry(on=['Sys.Timeout'])": lambda: Retry(on=["Sys.Timeout"]),
    "NodeConfig(timeout=0)": lambda: NodeConfig(timeout=0),
    "NodeConfig(max_tick=0)": lambda: NodeConfig(max_tick=0),
    "Token('short')": lambda: Token("short"),
    "Token(3)": lambda: Token(3),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    "a token with spaces": lambda: Token("0123 4567 89ab cdef"),
    # Message classes.
    "type='set'": lambda: define(Command, type="set"),
    "retry of an event": lambda: define(Event, type="A.B", retry=Retry()),
    "retry=3": lambda: define(Query, type="A.B", retry=3),
    "remember=3": lambda: define(Query, type="A.B", remember=3),
    "retry_safe=3": lambda: define(Command, type="A.B", retry_safe=3),
    **{
        f"envelope {kind.__name__}": lambda kind=kind: declared_messages(kind, "capability X")  # type: ignore[misc]
        for kind in (
            *(e.OpenType, e.OpenKind, e.NoKind, e.NoType, e.WrongKind, e.WrongType, e.NumberType),
            *(e.MoreFields, e.Dangling, e.DanglingReply, e.Untyped, Ruled, Item, int),
        )
    },
    "one message declared twice": lambda: declared_messages(e.Set | e.SetMessage, "capability X"),
    # Payload types.
    **{
        name: lambda kind=REFUSED[name][0]: PayloadCodec(kind, "command Memory.Set")  # type: ignore[misc]
        for name in (
            *(
                "a custom class",
                "a custom class inside",
                "a number",
                "a set of lists",
                "keys that are tuples",
            ),
            *("tenths", "at least two of what has many spellings", "an extension"),
        )
    },
    # Payloads.
    "data that is not JSON": lambda: CODEC.read(b"x"),
    "data with a missing field": lambda: CODEC.read(b"{}"),
    "data of the wrong type": lambda: CODEC.read(b'{"key": 3}'),
    "data with a fraction": lambda: CODEC.read(b'{"key": "k", "value": 1.5}'),
    "an object of another class": lambda: CODEC.write(Point(1, 2)),
    "an object that JSON cannot represent": lambda: CODEC.write(Custom()),
    "NaN": lambda: NUMBER.write(float("nan")),
    "data for a message without data": lambda: PayloadCodec(None, "command Memory.Clear").write(3),
    "a number is sent": lambda: message_parts(3),
    "a message class without a type is sent": lambda: message_parts(e.Untyped("k")),
}


def shown_error(name: str) -> tuple[Shown, set[tuple[str, int]]]:
    """Return one error, and the modules and lines that its traceback passes."""
    return provoke(name, ERRORS[name], BandstandError)


def test_contract_errors() -> None:
    shown = sorted((shown_error(name)[0] for name in ERRORS), key=lambda each: each.type)
    FILES.check("contract_errors.txt", "What is raised for wrong contracts, options and payloads.", shown)


@pytest.mark.parametrize("module", [capability, messages, schema, types])
def test_every_contract_error_is_shown(module: Any) -> None:
    """Every `raise` of these modules is in the file, except those for a model that rejects its values."""
    passed = set[tuple[str, int]]().union(*(shown_error(name)[1] for name in ERRORS))
    assert missing_raises(module, passed, "rejects this") == []
