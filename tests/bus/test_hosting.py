"""Workers in a node: objects of somebody's own, which answer for themselves, or do not."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from bandstand.bus import Contract, ErrorEvent, Listeners, Message, MessageEvent, Metadata
from bandstand.bus.worker import EventName, Listener, WorkerEvent
from bandstand.errors import BootError
from tests.bus.capabilities import Do, Echo, Echoed, Told, watch
from tests.bus.virtual_node import Stage, Stages, play, staged
from tests.core.support import Boom

pytestmark = [pytest.mark.spec("C13"), pytest.mark.guarantee("G74", "G80")]


class Puppet(Listeners):
    """Keeps what is posted to it; the test says what it says."""

    def __init__(self) -> None:
        self.posted: list[Message] = []
        self.terminated = 0

    def post_message(self, message: Message, /) -> None:
        self.posted.append(message)

    def terminate(self) -> None:
        self.terminated += 1

    def say(self, said: object, causation: str | None = None) -> None:
        self.dispatch_event(MessageEvent(said, causation))

    def reply(self, name: str, text: str = "", type_name: str = "Cast.Echo") -> None:
        data = Echoed(text) if type_name == "Cast.Echo" else None
        self.say(Message(kind="reply", type=type_name, data=data, metadata=Metadata("x", 0, name)))


class Show:
    """A node with one puppet after the other."""

    def __init__(self) -> None:
        self.puppets: list[Puppet] = []
        self.make: Callable[[], Puppet] = Puppet

    def spawn(self) -> Puppet:
        self.puppets.append(self.make())
        return self.puppets[-1]

    @property
    def puppet(self) -> Puppet:
        return self.puppets[-1]

    def stage(self, stages: Stages) -> AbstractAsyncContextManager[Stage]:
        outbound = Told | Do | Echo
        contract = Contract(
            id="Show", description="x", inbound=Echo | Told, outbound=outbound, spawn=self.spawn
        )
        return stages(contract, hush=True)


@pytest.fixture
def show() -> Show:
    return Show()


class TestAnswers:
    async def test_it_answers_whom_it_names_in_whatever_order(self, stages: Stages, show: Show) -> None:
        async with show.stage(stages) as stage:
            asked = [stage.query("Cast.Echo", {"text": str(number)}) for number in range(3)]
            await stage.settle()
            assert [message.data for message in show.puppet.posted] == [Echo("0"), Echo("1"), Echo("2")]
            for name in reversed(asked):
                show.puppet.reply(name, name)
            await stage.settle()
            assert [stage.reply(name)["text"] for name in asked] == asked
            assert [frame.metadata.causation for frame in stage.frames] == asked[::-1]

    async def test_without_a_name_it_means_the_only_one_there_is(self, stages: Stages, show: Show) -> None:
        async with show.stage(stages) as stage:
            asked = stage.query("Cast.Echo")
            await stage.settle()
            show.puppet.say(Message(kind="reply", type="Cast.Echo", data=Echoed("x")))
            await stage.settle()
            stage.reply(asked)

    async def test_a_second_answer_and_one_to_nobody_are_counted(self, stages: Stages, show: Show) -> None:
        async with show.stage(stages) as stage:
            asked = stage.query("Cast.Echo")
            await stage.settle()
            for name in (asked, asked, "nobody"):
                show.puppet.reply(name)
            await stage.settle()
            stage.reply(asked)
            assert (await stage.stats()).late == 2
            assert (await stage.health("Show")).crashes == 0

    async def test_a_repeated_id_has_another_name_for_the_worker(self, stages: Stages, show: Show) -> None:
        async with show.stage(stages) as stage:
            first, second = stage.connect(), stage.connect()
            first.query("Cast.Echo", name="same", timeout=10)
            await stage.wait(20)
            second.query("Cast.Echo", name="same")
            await stage.settle()
            # The second has another name for the worker: so what it still says about the first is not taken for the second's.
            names = [message.metadata.id for message in show.puppet.posted if message.metadata is not None]
            assert names[0] == "same" != names[1]
            show.puppet.reply(names[0], "1")
            await stage.settle()
            assert not second.is_answered("same")
            show.puppet.reply(names[1], "2")
            await stage.settle()
            first.fault("same", "Sys.Timeout")
            assert second.reply("same")["text"] == "2"

    async def test_what_it_asks_for_is_answered_by_a_message(self, stages: Stages, show: Show) -> None:
        async with show.stage(stages) as stage:
            seen = watch(stage)
            asked = stage.query("Cast.Echo", correlation="work")
            await stage.settle()
            show.puppet.say(Do("x"), asked)
            await stage.settle()
            (sent,) = [frame for frame in seen if frame.type == "Cast.Do"]
            assert (sent.metadata.causation, sent.metadata.correlation) == (asked, "work")
            posted = show.puppet.posted[-1]
            assert (posted.kind, posted.type) == ("error", "Sys.RoutingError")
            assert posted.metadata is not None
            assert posted.metadata.causation == sent.metadata.id
            show.puppet.reply(asked)
            await stage.settle()
            stage.reply(asked)


class TestFailures:
    @pytest.mark.parametrize(
        "said",
        [
            Message(kind="reply", type="Cast.Echo", data="wrong"),
            Message(kind="event", type="Cast.Unsaid"),
            Message(kind="reply", type="Cast.Do", data=None),
            5,
        ],
    )
    async def test_an_invalid_message_ends_the_worker(self, stages: Stages, show: Show, said: object) -> None:
        async with show.stage(stages) as stage:
            asked = [stage.query("Cast.Echo") for _ in range(3)]
            await stage.settle()
            first = show.puppet
            first.say(said, asked[0])
            await stage.settle()
            for name in asked:
                stage.fault(name, "Sys.ActorFault")
            assert first.terminated == 1
            await stage.wait(1001)
            assert show.puppet is not first
            # Nobody listens to the old one any more.
            first.reply(asked[0])
            after = stage.query("Cast.Echo")
            await stage.settle()
            show.puppet.reply(after)
            await stage.settle()
            stage.reply(after)

    @pytest.mark.parametrize("part", ["post_message", "terminate", "remove_event_listener", "hear"])
    async def test_whatever_it_raises_costs_nobody_else(self, stages: Stages, show: Show, part: str) -> None:
        class Broken(Puppet):
            def post_message(self, message: Message, /) -> None:
                super().post_message(message)
                if part == ("post_message" if message.kind == "query" else "hear"):
                    raise Boom(part)

            def terminate(self) -> None:
                super().terminate()
                if part == "terminate":
                    raise Boom(part)

            def remove_event_listener(self, type: EventName, callback: Listener, /) -> None:  # noqa: A002  # its name
                if part == "remove_event_listener":
                    raise Boom(part)
                super().remove_event_listener(type, callback)

        show.make = Broken
        async with show.stage(stages) as stage:
            asked = stage.query("Cast.Echo")
            await stage.settle()
            if part == "hear":
                show.puppet.say(Do("x"), asked)
            elif part != "post_message":
                show.puppet.dispatch_event(ErrorEvent(Boom("by wish"), asked))
            await stage.settle()
            stage.fault(asked, "Sys.ActorCrash")
            await stage.reply_to("query", "Syscall.Ping")
            await stage.wait(1001)
            assert (await stage.health("Show")).state == "running"

    async def test_a_stop_of_the_node_terminates_the_worker(self, stages: Stages, show: Show) -> None:
        answers: list[Any] = []

        async with show.stage(stages) as stage:
            client = stage.connect()
            client.query("Cast.Echo", name="owed")
            await stage.settle()
            answers.append(client)
        assert show.puppet.terminated == 1
        answers[0].fault("owed", "Sys.ShuttingDown")


class Alien:
    """Of that shape, and of nobody's family."""

    def __init__(self) -> None:
        self.onmessage: Callable[[MessageEvent], object] | None = None
        self.onerror: Callable[[ErrorEvent], object] | None = None
        self.heard: list[tuple[str, Listener]] = []

    def post_message(self, message: Message, /) -> None:
        assert message.metadata is not None
        answer = Message(
            kind="reply",
            type=message.type,
            data={"text": "alien"},
            metadata=Metadata("", 0, message.metadata.id),
        )
        self.dispatch_event(MessageEvent(answer))

    def terminate(self) -> None:
        pass

    def add_event_listener(self, type: EventName, callback: Listener, /) -> None:  # noqa: A002  # its name
        self.heard.append((type, callback))

    def remove_event_listener(self, type: EventName, callback: Listener, /) -> None:  # noqa: A002  # its name
        self.heard.remove((type, callback))

    def dispatch_event(self, event: WorkerEvent, /) -> bool:
        for name, callback in self.heard:
            if name == event.type:
                callback(event)
        return True


class TestForeign:
    @staged(Contract(id="Show", description="x", inbound=Echo, spawn=Alien))
    async def test_any_object_of_that_shape_will_do(self, stage: Stage) -> None:
        assert (await stage.bus.ask(Echo())).text == "alien"

    def test_half_of_the_shape_will_not(self) -> None:
        class Half:
            def post_message(self, message: Message, /) -> None:
                pass

        async def act(stage: Stage) -> None:
            raise AssertionError(stage)

        with pytest.raises(BootError, match=r"terminate\(\)"):
            play(act, Contract(id="Show", description="x", inbound=Echo, spawn=Half))
