"""What happens between a node and a capability that runs elsewhere, in virtual time: nothing is lost, nothing is said twice."""

# It looks inside: what a node shows is proved elsewhere.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
import inspect
import io
import os
import pickle
import signal
import socket
import sys
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec import Raw

from bandstand.actor import ActorSystem
from bandstand.bus import (
    BufferedWorker,
    Capability,
    Command,
    Contract,
    Frame,
    Message,
    Metadata,
    Node,
    NodeConfig,
    Provision,
    Query,
    RestartLimits,
    load_capabilities,
    provide,
)
from bandstand.bus.capability_slot import CapabilitySlot
from bandstand.bus.contracts.capability import Capability as AnyCapability
from bandstand.bus.syscall import Reset
from bandstand.bus.wire import write_frame
from bandstand.core.asyncio_host import new_event_loop
from bandstand.errors import BootError, InternalError, MailboxFullError, RequestFailedError
from bandstand.isolation import host
from bandstand.isolation.child import (
    CapabilityRole,
    CapabilityRuntime,
    CapabilityStart,
    describe_failure,
    run_capability,
)
from bandstand.isolation.host import NodeRole, connect
from bandstand.pod.link import Link
from bandstand.pod.process import ControlChannel
from bandstand.pod.process.child import exit_without_memory
from bandstand.streams import child_stdout
from bandstand.testing import VirtualClock
from tests.bus.capabilities import Echo, Player, Told, Wait, told
from tests.bus.nearby import Nearby, Quarters, nearby
from tests.bus.virtual_node import AsyncTest, Source, Stage, hushed, play, with_fixtures_of

pytestmark = pytest.mark.spec("C27")

# No waiting, and no end of it.
OFTEN = RestartLimits(max_restarts=1000, backoff=None)


class Mortal(Player):
    """Is started again at once, however often."""

    restarts = OFTEN


class Heard(Query[list[str]], type="Listening.Heard"):
    """What it has heard."""


class Listening(Capability):
    """Listens."""

    restarts = OFTEN

    def __init__(self) -> None:
        self.texts: list[str] = []

    async def told(self, msg: Told) -> None:
        if msg.text == "raise":
            raise ValueError(msg.text)
        await asyncio.sleep(0.05)
        self.texts.append(msg.text)

    def heard(self, msg: Heard) -> list[str]:
        return self.texts


class Starting(Mortal):
    """Takes its time."""

    async def on_start(self) -> None:
        await asyncio.sleep(0.1)


class House:
    """One capability, nearby, with all its incarnations, and a node around it."""

    def __init__(self, source: Source, *others: Source) -> None:
        self.clock = VirtualClock()
        self.source = nearby(source, self.clock)
        self.others = others

    @property
    def opened(self) -> list[Quarters]:
        factory = self.source.host_factory
        assert isinstance(factory, Nearby)
        return factory.opened

    @property
    def last(self) -> Quarters:
        """The present incarnation."""
        return self.opened[-1]

    def play(self, act: Callable[[Stage], Coroutine[Any, Any, None]], **fields: Any) -> None:
        with hushed():
            play(act, self.source, *self.others, clock=self.clock, **fields)
        assert all(quarters.task.done() for quarters in self.opened)


def housed(source: Source, *others: Source, **fields: Any) -> Callable[[AsyncTest], Callable[..., None]]:
    """A test with a house around it: `async def test_it(self, stage: Stage, house: House)`. Its other parameters are fixtures."""

    def run(test: AsyncTest, **fixtures: Any) -> None:
        house = House(source, *others)
        if "house" in inspect.signature(test).parameters:
            fixtures["house"] = house
        house.play(lambda stage: test(stage=stage, **fixtures), **fields)

    return lambda test: with_fixtures_of(test, run, given=("stage", "house"))


@pytest.mark.guarantee("G152")
class TestGiving:
    @housed(Mortal)
    async def test_one_message_at_a_time_is_over_there(self, stage: Stage, house: House) -> None:
        seen = told(stage)
        names = [stage.command("Cast.Wait", {"ms": 100, "what": str(each)}) for each in range(3)]
        await stage.settle()
        assert seen == ["wait 0"]
        house.last.kill()
        await stage.settle()
        # Only the one that it was at; the next incarnation has begun with the next.
        assert "killed by SIGKILL" in stage.fault(names[0], "Sys.ActorCrash").message
        assert seen == ["wait 0", "wait 1"]
        await stage.wait(300)
        assert [stage.reply(name) for name in names[1:]] == [{}, {}]
        assert (await stage.health("Cast")).crashes == 1

    @housed(Listening)
    async def test_an_event_is_at_hand_until_its_handler_has_ended(self, stage: Stage) -> None:
        stage.event("Cast.Told", {"text": "slow"})
        name = stage.query("Listening.Heard")
        await stage.settle()
        assert not stage.is_answered(name)
        await stage.wait(100)
        assert stage.reply(name) == ["slow"]
        # One that dies over an event costs no request.
        stage.event("Cast.Told", {"text": "raise"})
        assert await stage.reply_to("query", "Listening.Heard") == []
        assert (await stage.stats()).sunk == 1


class Relay(Command[str], type="Relaying.Relay"):
    """Ask somebody else."""

    ms: int = 0
    is_sent: bool = False


class Remind(Command[bool], type="Relaying.Remind"):
    """Say something later; and perhaps not."""

    ms: int
    is_command: bool = False
    is_taken_back: bool = False
    dies: bool = False


class Emit(Command[int], type="Relaying.Emit"):
    """Emit as much as there is room for."""


class Relaying(Capability):
    """Asks others."""

    outbound = Wait | Echo | Told
    restarts = OFTEN

    async def relay(self, msg: Relay) -> str:
        if msg.is_sent:
            self.bus.send(Wait(ms=msg.ms, what="raise"))
            self.bus.send(Wait(ms=msg.ms))
            return "sent"
        try:
            async with asyncio.timeout(0.05):
                await self.bus.ask(Wait(ms=msg.ms))
        except TimeoutError:
            return "too late"
        return (await self.bus.ask(Echo("in time"))).text

    def remind(self, msg: Remind) -> bool:
        name = self.bus.send_later(
            Wait(ms=0, what="later") if msg.is_command else Told("later"), msg.ms / 1000
        )
        if msg.dies:
            raise ValueError("before it was sent")
        return msg.is_taken_back and self.bus.take_back(name) and not self.bus.take_back(name)

    def emit(self, msg: Emit) -> int:
        for count in range(1000):
            try:
                self.bus.emit(Told(str(count)))
            except MailboxFullError:
                return count
        return 1000


class Flood(Command[int], type="Relaying.Flood"):
    """Emit one event after the other until there is no room."""


class Flooding(Relaying):
    """Emits in its own time."""

    id = "Relaying"

    async def flood(self, msg: Flood) -> int:
        for count in range(1000):
            try:
                self.bus.emit(Told(str(count)))
            except MailboxFullError:
                return count
            await asyncio.sleep(0.001)
        return 1000


class Leisurely(Relaying):
    """Takes its time to stop."""

    id = "Relaying"

    async def on_stop(self) -> None:
        await asyncio.sleep(1)


@pytest.mark.guarantee("G152", "G153")
class TestAsking:
    @housed(Relaying, Player)
    async def test_what_it_does_not_wait_for_any_more_is_withdrawn(self, stage: Stage) -> None:
        assert await stage.bus.ask(Relay(ms=1000)) == "too late"
        assert (await stage.stats()).withdrawn == 1

    @housed(Relaying, Player)
    async def test_a_death_withdraws_what_was_asked(self, stage: Stage, house: House) -> None:
        name = stage.command("Relaying.Relay", {"ms": 1000})
        await stage.settle()
        house.last.kill()
        await stage.settle()
        stage.fault(name, "Sys.ActorCrash")
        stats = await stage.stats()
        assert (stats.withdrawn, stats.in_flight) == (1, 0)

    @housed(Relaying, Mortal)
    async def test_what_it_sends_without_wanting_to_know_is_counted(self, stage: Stage, house: House) -> None:
        assert await stage.bus.ask(Relay(ms=10, is_sent=True)) == "sent"
        # It is sent, whatever becomes of whoever has sent it.
        house.last.kill()
        await stage.wait(100)
        stats = await stage.stats()
        assert (stats.unclaimed, stats.sunk, stats.abandoned) == (1, 1, 0)

    @housed(Relaying, Player, max_inside=1)
    async def test_where_there_is_no_room_it_is_told_so(self, stage: Stage) -> None:
        # One request of capabilities may be under way, and this one takes it.
        asking = asyncio.ensure_future(stage.bus.ask(Wait(ms=1000)))
        await stage.settle()
        assert (
            "Sys.Overloaded"
            in (await stage.fault_of("Sys.Refused", "command", "Relaying.Relay", {"ms": 10})).message
        )
        await asking


@pytest.mark.guarantee("G152")
class TestEvents:
    @housed(Relaying, Player)
    async def test_a_passage_that_is_full_is_a_mailbox_that_is_full(self, stage: Stage, house: House) -> None:
        house.last.other.is_writable = False
        assert await stage.bus.ask(Emit()) == 0
        house.last.other.is_writable = True
        assert await stage.bus.ask(Emit()) == 1000

    @housed(Relaying, Player, max_inside=2000)
    async def test_what_the_node_has_no_room_for_waits(
        self, stage: Stage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        seen = told(stage)
        router = stage.node._router
        taken = router.event_credit.limit - router.event_credit.used
        # Somebody else has filled it.
        router.event_credit.used += taken
        asking = asyncio.ensure_future(stage.bus.ask(Emit()))
        await stage.wait(10)
        assert not asking.done()
        assert seen == []
        router.event_credit.used -= taken
        await asking
        assert seen == [str(count) for count in range(1000)]

    @housed(Flooding, Player, max_inside=200)
    async def test_events_on_their_way_to_the_node_are_limited(self, stage: Stage) -> None:
        router = stage.node._router
        taken = router.event_credit.limit - router.event_credit.used
        router.event_credit.used += taken
        asking = asyncio.ensure_future(stage.bus.ask(Flood()))
        await stage.wait(900)
        router.event_credit.used -= taken
        assert await asking == 200


@pytest.mark.guarantee("G153")
class TestLater:
    @pytest.mark.parametrize("is_command", [True, False])
    @housed(Relaying, Mortal)
    async def test_it_is_sent_once_in_any_case(self, stage: Stage, house: House, is_command: bool) -> None:
        what = "wait later" if is_command else "later"
        seen = told(stage)
        await stage.bus.ask(Remind(ms=100, is_command=is_command))
        await stage.wait(98)
        assert seen == []
        await stage.wait(4)
        assert seen == [what]
        name = stage.command("Relaying.Remind", {"ms": 100, "is_command": is_command, "dies": True})
        await stage.wait(50)
        stage.fault(name, "Sys.ActorCrash")
        await stage.wait(48)
        assert seen == [what]
        await stage.wait(4)
        assert seen == [what, what]
        await stage.wait(1000)
        assert seen == [what, what]
        assert len(house.opened) == 2

    @housed(Relaying, Player)
    async def test_it_can_be_taken_back(self, stage: Stage, house: House) -> None:
        seen = told(stage)
        assert await stage.bus.ask(Remind(ms=100, is_taken_back=True))
        house.last.kill()
        await stage.wait(1000)
        assert seen == []

    @housed(Relaying, Player, max_timers=1)
    async def test_what_there_is_no_room_for_goes_to_the_error_sink(self, stage: Stage, house: House) -> None:
        await stage.bus.ask(Remind(ms=100))
        # The node has one of its own, and no room for another.
        stage.node.bus.send_later(Wait(ms=1), 1)
        house.last.kill()
        await stage.settle()
        assert (await stage.stats()).sunk == 1

    def test_not_even_while_it_waits_for_it_to_stop(self) -> None:
        house = House(Leisurely, Player)
        seen: list[str] = []

        async def act(stage: Stage) -> None:
            await stage.bus.ask(Remind(ms=10))
            stage.node.tap(lambda frame, _to: seen.append(frame.type))

        house.play(act)
        assert "Cast.Told" not in seen

    def test_nor_if_it_has_to_be_killed(self) -> None:
        house = House(Relaying, Player)
        nodes: list[Any] = []

        async def act(stage: Stage) -> None:
            await stage.bus.ask(Remind(ms=100_000))
            nodes.append(stage.node)
            # It hears nothing any more.
            house.last.is_mute = True

        house.play(act)
        assert house.last.how == "killed by SIGKILL"
        assert len(nodes[0]._scheduler) == 0

    @housed(Relaying, Player)
    async def test_a_node_waits_for_it_to_be_quiet(self, stage: Stage) -> None:
        seen = told(stage)
        stage.adapter.can_produce = False
        await stage.bus.ask(Remind(ms=100))
        await stage.node.wait_quiet()
        assert seen == ["later"]


class Post(Command[str], type="Post.Post"):
    """Answered when it is told to be."""

    what: str = ""


def posted(deaf: bool) -> BufferedWorker:
    def hear(message: Message) -> Any:
        what = message.data.what
        if what == "raise":
            raise ValueError("by wish")
        if deaf and not what:
            return None
        return Message(kind="reply", type="Post.Post", data=what)

    return BufferedWorker(hear)


def worker(*, deaf: bool, cap: int | None = None) -> Contract:
    return Contract(
        id="Post",
        description="Posts.",
        inbound=Post,
        spawn=lambda: posted(deaf),
        restarts=OFTEN,
        mailbox=cap,
        timeout=1,
    )


@pytest.mark.guarantee("G152")
class TestWorkers:
    @pytest.mark.parametrize("cap", [8, 70])
    @pytest.mark.parametrize("is_near", [True, False])
    def test_a_full_worker_is_given_no_more_until_deadlines_pass(self, cap: int, is_near: bool) -> None:
        async def act(stage: Stage) -> None:
            names = [stage.command("Post.Post") for _ in range(cap)]
            await stage.settle()
            more = [stage.command("Post.Post") for _ in range(cap)]
            if is_near:
                # They are not even handed over.
                house.last.is_mute = True
            await stage.settle()
            for each in more:
                stage.fault(each, "Sys.Overloaded")
            if is_near:
                house.last.is_mute = False
            await stage.wait(1010)
            for each in names:
                stage.fault(each, "Sys.Timeout")
            assert await stage.reply_to("command", "Post.Post", {"what": "again"}) == "again"

        house = House(worker(deaf=True, cap=cap))
        if is_near:
            house.play(act, hold_timeout=0)
        else:
            play(act, replace(house.source, host_factory=None), hold_timeout=0)


@pytest.mark.guarantee("G153", "G154")
class TestEnds:
    @housed(Mortal)
    async def test_what_cannot_be_read_ends_it(self, stage: Stage, house: House) -> None:
        name = stage.command("Cast.Wait")
        await stage.settle()
        house.last.other.send(b"\xc1 this is nothing")
        await stage.wait(2000)
        assert "has sent something that cannot be read" in stage.fault(name, "Sys.ActorFault").message
        assert (await stage.bus.ask(Echo("next"))).text == "next"

    @housed(Mortal)
    async def test_one_that_is_silent_and_does_not_go_is_killed(self, stage: Stage, house: House) -> None:
        name = stage.command("Cast.Wait", {"ms": 10_000})
        await stage.settle()
        first = house.last
        first.other.close()
        await stage.wait(900)
        assert not stage.is_answered(name)
        await stage.wait(200)
        assert first.how == "killed by SIGKILL"
        stage.fault(name, "Sys.ActorCrash")

    @housed(Mortal)
    async def test_a_process_that_has_ended_is_over_even_if_its_socket_is_still_open(
        self, stage: Stage, house: House, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        name = stage.command("Cast.Wait", {"ms": 10_000})
        await stage.settle()
        first = house.last
        # A process that it has forked has the socket too.
        monkeypatch.setattr(first.other, "close", lambda: None)
        first.kill()
        await stage.settle()
        assert "killed by SIGKILL" in stage.fault(name, "Sys.ActorCrash").message
        first.near.hang_up()

    def test_one_that_cannot_be_linked_is_killed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        house = House(Mortal)

        def refuse(*_: object) -> Link:
            raise OSError("no descriptor left")

        async def act(stage: Stage) -> None:
            raise AssertionError("it has started")

        monkeypatch.setattr(host, "connect", refuse)
        words = "the link to its process has failed: OSError: no descriptor left"
        with pytest.raises(BootError, match=words):
            house.play(act)
        assert house.last.how == "killed by SIGKILL"
        assert house.last.near.sock.fileno() == -1

    @housed(Starting)
    async def test_a_kill_during_the_start_is_a_restart(self, stage: Stage, house: House) -> None:
        house.last.kill()
        await stage.settle()
        name = stage.connect("c").query("Cast.Echo", {"text": "hello"})
        house.last.kill()
        await stage.wait(1000)
        assert stage.adapter.lines[0].reply(name) == {"text": "hello", "size": 0.0}
        assert len(house.opened) == 3

    def test_one_that_cannot_be_begun_is_a_boot_that_fails(self) -> None:
        class Nowhere(Nearby):
            async def open(self, slot: CapabilitySlot) -> Any:
                raise OSError(f"no room for {slot.id}")

        async def act(stage: Stage) -> None:
            raise AssertionError("it has started")

        source = replace(provide(Player), host_factory=Nowhere(Player))
        with hushed(), pytest.raises(BootError, match="no room for Cast"):
            play(act, source)

    def test_one_that_cannot_be_declared_over_there_says_so(self) -> None:
        house = House(Player)
        factory = house.source.host_factory
        assert isinstance(factory, Nearby)
        factory.source = Provision(AnyCapability, AnyCapability)

        async def act(stage: Stage) -> None:
            raise AssertionError("it has started")

        with pytest.raises(BootError, match="ContractError: capability Capability has no docstring"):
            house.play(act)

    def test_nothing_is_left_when_the_router_itself_fails(self) -> None:
        house = House(Mortal)

        async def main() -> None:
            with pytest.raises(InternalError, match="the router of the node has failed"):
                await fail(Node([house.source], clock=house.clock))
            assert house.last.task.done()

        async def fail(node: Node) -> None:
            async with node:
                # It would not stop by itself.
                house.last.is_mute = True
                node.loop.fail_actor(node._router.actor, "by wish")
                await asyncio.sleep(1)

        with hushed(), asyncio.Runner(loop_factory=house.clock.new_event_loop) as runner:
            runner.run(main())

    def test_a_node_has_not_ended_before_one_that_was_killed_is_gone(self) -> None:
        house = House(Mortal)

        async def main() -> None:
            async with Node([house.source], clock=house.clock) as node:
                first = house.last
                first.lingers_s = 0.5
                hanging = asyncio.ensure_future(node.bus.ask(Wait(ms=10_000), timeout=0.01))
                with pytest.raises(RequestFailedError, match="Timeout"):
                    await hanging
                await node.bus.ask(Reset(capability="Cast"))
                assert not first.task.done()
            assert all(quarters.task.done() for quarters in house.opened)

        with hushed(), asyncio.Runner(loop_factory=house.clock.new_event_loop) as runner:
            runner.run(main())

    @housed(Mortal)
    async def test_whatever_one_says_that_was_given_up_is_not_said(self, stage: Stage, house: House) -> None:
        seen = told(stage)
        line = write_frame(
            Frame(kind="event", type="Cast.Told", data=Raw(b'{"text":"late"}'), metadata=Metadata("1", 0))
        )
        end = house.last.other
        node = end.runtime.node
        assert node is not None
        node.emit(line)
        await stage.settle()
        assert seen == ["late"]
        stage.node._router.slots["Cast"]._release_host()
        end.is_mute = False
        end.send(end.last_sent)
        await stage.settle()
        assert seen == ["late"]


START = CapabilityStart((), b"", NodeConfig(), frozenset())


class NodeEnd:
    """The node's end of a link, without a node."""

    def __init__(self) -> None:
        self.slot = SimpleNamespace(router=None, id="")
        self.is_worker = False
        self.is_ready = asyncio.Event()
        self.up: asyncio.Future[CapabilityRole] = asyncio.get_running_loop().create_future()
        self.over: asyncio.Future[BaseException | None] = asyncio.get_running_loop().create_future()

    def connect(self, sock: socket.socket, loop: ActorSystem) -> Link:
        # Any: it has what is needed of a host.
        me: Any = self
        return connect(
            sock, loop, loop.spawn(NodeRole, me), CapabilityRole, self.up.set_result, self.over.set_result
        )


class TestChild:
    """The other end, alone."""

    def run(self, act: Callable[[socket.socket, socket.socket], Coroutine[Any, Any, None]]) -> None:
        clock = VirtualClock()
        with asyncio.Runner(loop_factory=clock.new_event_loop) as runner:
            runner.run(act(*socket.socketpair()))

    def test_what_there_is_no_memory_for_is_let_go_first(self) -> None:
        def exhaust() -> None:
            kept = bytearray(10)
            raise MemoryError(len(kept))

        with pytest.raises(MemoryError) as caught:
            exhaust()
        assert describe_failure(caught.value)[1] == "MemoryError: 10"
        assert caught.tb.tb_next is not None
        assert caught.tb.tb_next.tb_frame.f_locals == {}

    def test_nobody_is_there(self) -> None:
        async def act(theirs: socket.socket, ours: socket.socket) -> None:
            ours.close()
            await CapabilityRuntime(theirs, Player, START).run()

        self.run(act)

    def test_it_ends_when_the_node_is_gone(self) -> None:
        async def act(theirs: socket.socket, ours: socket.socket) -> None:
            runtime = CapabilityRuntime(theirs, Player, START)
            performing = asyncio.ensure_future(runtime.run())
            async with ActorSystem() as loop:
                node = NodeEnd()
                link = node.connect(ours, loop)
                await node.is_ready.wait()
                assert not node.is_worker
                link.close("it is gone")
                await performing

        self.run(act)

    def test_a_run_that_is_cancelled_ends_with_that_alone(self) -> None:
        async def act(theirs: socket.socket, ours: socket.socket) -> None:
            running = asyncio.ensure_future(CapabilityRuntime(theirs, Player, START).run())
            async with ActorSystem() as loop:
                node = NodeEnd()
                node.connect(ours, loop)
                await node.is_ready.wait()
                assert not node.is_worker
                running.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await running

        self.run(act)


class TestProcess:
    """What the process does, in this one."""

    def test_it_performs_what_is_in_its_luggage(self, tmp_path: Path) -> None:
        file = tmp_path / "declared.py"
        file.write_text('from bandstand.bus import Memory\n\nclass Declared(Memory):\n    "Remembers."\n')
        (declared,) = load_capabilities(str(file))
        start = replace(START, files=(str(file),), source=pickle.dumps(declared))

        async def main() -> None:
            here, there = map(ControlChannel, socket.socketpair(), ("the process", "the node"))
            running = asyncio.get_running_loop()
            performing = asyncio.ensure_future(run_capability(there, start))
            ours, theirs = socket.socketpair()
            with theirs:
                here.send(None, (theirs.fileno(),))
            async with ActorSystem() as loop:
                node = NodeEnd()
                node.connect(ours, loop)
                await node.is_ready.wait()
                assert not node.is_worker
                (await node.up).shut_down()
                assert await node.over is None
                await performing
            here.close()
            there.close()
            running.remove_signal_handler(signal.SIGTERM)
            running.set_exception_handler(None)

        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            runner.run(asyncio.wait_for(main(), 10))

    def test_without_memory_to_say_so_it_ends(self, monkeypatch: pytest.MonkeyPatch) -> None:
        codes: list[int] = []
        monkeypatch.setattr(os, "_exit", codes.append)
        heard: list[object] = []

        class Host:
            def default_exception_handler(self, context: object) -> None:
                heard.append(context)

        # Any: as much of an event loop as is needed.
        running: Any = Host()
        exit_without_memory(running, {"exception": ValueError()})
        exit_without_memory(running, {"exception": MemoryError(), "future": None})
        assert (codes, len(heard)) == ([], 2)
        exit_without_memory(running, {"exception": MemoryError()})
        assert codes == [1]

    def test_what_is_printed_goes_where_it_goes_here(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with socket.socket() as sock, sock.makefile("w") as file:
            monkeypatch.setattr(sys, "stdout", file)
            assert child_stdout() == sock.fileno()
        monkeypatch.setattr(sys, "stdout", io.StringIO())
        assert child_stdout() == 2
        monkeypatch.setattr(sys, "__stdout__", sys.stdout)
        assert child_stdout() is None
