"""What follows from what: causation and correlation, set by the runtime and by nobody else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from bandstand.bus import BufferedWorker, Capability, Command, Contract, Frame, Message, provide
from tests.bus.capabilities import Do, Echo, Player, Told, watch
from tests.bus.virtual_node import Stage, Stages, play, staged

pytestmark = [pytest.mark.spec("C11"), pytest.mark.guarantee("G76")]


class Go(Command[None], type="Lead.Go"):
    way: str


class Leader(Capability):
    """Has others do things, in every way there is."""

    outbound = Told | Do | Echo

    def __init__(self) -> None:
        self._tasks: list[asyncio.Task[None]] = []

    async def go(self, msg: Go) -> None:
        match msg.way:
            case "emit":
                self.bus.emit(Told("x"))
            case "send":
                self.bus.send(Do())
            case "ask":
                await self.bus.ask(Echo())
            case "emit after await":
                await asyncio.sleep(0.01)
                self.bus.emit(Told("x"))
            case "emit after ask":
                await self.bus.ask(Echo())
                self.bus.emit(Told("x"))
            case "task":
                self._tasks.append(asyncio.get_running_loop().create_task(self.later()))
            case "gather":
                await asyncio.gather(self.later(), self.later())
            case _:
                raise AssertionError(msg.way)

    async def later(self) -> None:
        await asyncio.sleep(0.05)
        self.bus.emit(Told("x"))


class Plain(Capability):
    """The same, in a plain handler."""

    outbound = Told | Do

    def __init__(self) -> None:
        self._tasks: list[asyncio.Task[None]] = []

    def go(self, msg: Go) -> None:
        match msg.way:
            case "emit":
                self.bus.emit(Told("x"))
            case "send":
                self.bus.send(Do())
            case _:
                self._tasks.append(asyncio.get_running_loop().create_task(self.later()))

    async def later(self) -> None:
        await asyncio.sleep(0.05)
        self.bus.emit(Told("x"))


def follow(message: Go) -> list[object]:
    return [Told("x"), Do(), Message(kind="reply", type="Lead.Go", data=None)]


async def generated(message: Message) -> AsyncIterator[object]:
    yield Told("before")
    yield Message(kind="reply", type="Lead.Go", data=None)
    await asyncio.sleep(0.01)
    yield Told("after")


FUNCTION = Contract(id="Lead", description="Leads.", inbound=Go, outbound=Told | Do, spawn=lambda: follow)
WORKER = Contract(
    id="Lead", description="Leads.", inbound=Go, outbound=Told | Do, spawn=lambda: BufferedWorker(generated)
)


def consequences(seen: list[Frame]) -> list[Frame]:
    return [
        frame
        for frame in seen
        if frame.type in {"Cast.Told", "Cast.Do", "Cast.Echo"} and frame.kind != "reply"
    ]


class TestConsequences:
    @pytest.mark.parametrize(
        "way", ["emit", "send", "ask", "emit after await", "emit after ask", "task", "gather"]
    )
    def test_a_coroutine_says_what_follows_from_its_message(self, way: str) -> None:
        self.check(way, provide(Leader))

    @pytest.mark.parametrize("way", ["emit", "send"])
    def test_a_plain_handler_does(self, way: str) -> None:
        self.check(way, provide(Plain))

    @staged(Plain)
    async def test_what_a_plain_handler_leaves_to_a_task_follows_from_nothing(self, stage: Stage) -> None:
        seen = watch(stage, "Cast.Told")
        stage.command("Lead.Go", {"way": "task"}, correlation="work")
        await stage.wait(100)
        (told,) = seen
        assert (told.metadata.causation, told.metadata.correlation) == (None, None)

    @pytest.mark.parametrize("contract", [FUNCTION, WORKER])
    def test_a_function_and_a_worker_do(self, contract: Contract) -> None:
        self.check("whatever", contract)

    def check(self, way: str, leader: object) -> None:
        async def act(stage: Stage) -> None:
            seen = watch(stage)
            asked = stage.command("Lead.Go", {"way": way}, correlation="work")
            # Another one in the meantime changes nothing.
            stage.query("Cast.Echo", correlation="other")
            await stage.wait(100)
            stage.reply(asked)
            found = [frame for frame in consequences(seen) if frame.metadata.correlation != "other"]
            followed = [frame for frame in found if frame.metadata.causation == asked]
            assert followed
            assert all(frame.metadata.correlation == "work" for frame in found)

        play(act, Player, leader)  # type: ignore[arg-type]  # either will do  # pyright: ignore[reportArgumentType]

    @staged(Player, Leader)
    async def test_it_goes_on_from_one_to_the_next(self, stage: Stage) -> None:
        seen = watch(stage)
        asked = stage.command("Lead.Go", {"way": "send"}, correlation="work")
        await stage.settle()
        (sent,) = [frame for frame in seen if frame.type == "Cast.Do" and frame.kind == "command"]
        (event,) = [frame for frame in seen if frame.type == "Cast.Told"]
        (reply,) = [frame for frame in seen if frame.type == "Cast.Do" and frame.kind == "reply"]
        assert sent.metadata.causation == asked
        assert event.metadata.causation == reply.metadata.causation == sent.metadata.id
        assert {frame.metadata.correlation for frame in (sent, event, reply)} == {"work"}

    @staged(Player)
    async def test_a_program_around_the_node_begins_something_new(self, stage: Stage) -> None:
        seen = watch(stage)
        await stage.bus.ask(Echo())
        assert (seen[0].metadata.causation, seen[0].metadata.correlation) == (None, None)
        assert seen[1].metadata.causation == seen[0].metadata.id

    @staged(Player)
    async def test_ids_are_new_and_in_order(self, stage: Stage) -> None:
        seen = watch(stage)
        for _ in range(100):
            await stage.bus.ask(Do())
        made = [frame.metadata.id for frame in seen]
        assert len(set(made)) == len(made) == 300
        said = [frame.metadata.id for frame in seen if frame.kind == "command"]
        assert said == sorted(said)


class Chain(Capability):
    """Says something over an event."""

    outbound = Do

    def told(self, msg: Told) -> None:
        self.bus.send(Do())


def sending(_message: Told) -> object:
    return Do()


def answered(message: Message) -> object:
    # The reply to what it has sent is posted to it as well.
    return Do() if message.kind == "event" else None


CHAIN = Contract(id="Chain", description="x", inbound=Told, outbound=Do, spawn=lambda: sending)
POSTED = Contract(
    id="Chain", description="x", inbound=Told, outbound=Do, spawn=lambda: BufferedWorker(answered)
)


class TestEvents:
    @pytest.mark.parametrize("chain", [Chain, CHAIN, POSTED], ids=["class", "function", "worker"])
    async def test_an_event_is_a_cause_too(self, stages: Stages, chain: type[Capability] | Contract) -> None:
        class Quiet(Capability):
            """Does it without a word."""

            def do(self, msg: Do) -> None:
                pass

        async with stages(Quiet, chain) as stage:
            seen = watch(stage)
            said = stage.event("Cast.Told", {"text": "x"}, correlation="work")
            await stage.wait(1)
            sent = next(frame for frame in seen if frame.kind == "command")
            assert (sent.metadata.causation, sent.metadata.correlation) == (said, "work")


class Asking(Capability):
    """Tells what it knows of the message at hand."""

    outbound = Told

    async def go(self, msg: Go) -> None:
        before = self.bus.message
        await asyncio.sleep(0.01)
        assert before is not None
        assert self.bus.message == before
        self.bus.emit(Told(f"{before.id} {before.correlation}"))


@staged(Asking)
async def test_a_handler_can_see_what_is_at_hand(stage: Stage) -> None:
    stage.command("Syscall.Subscribe", {"types": ["*"]})
    asked = stage.command("Lead.Go", {"way": ""}, correlation="work")
    await stage.wait(50)
    assert stage.events("Cast.Told") == [{"text": f"{asked} work"}]
    assert stage.node.bus.message is None
