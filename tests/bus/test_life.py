"""Boot is all or nothing, and stopping answers everybody."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import Any, TypeAlias

import pytest

from bandstand.bus import Capability, Contract, Ingress, Node, NodeConfig, RestartLimits
from bandstand.bus.memory import Changed, Memory
from bandstand.errors import BootError, LoopClosedError
from bandstand.testing import VirtualClock, leaks_of
from tests.bus.capabilities import Echo, Echoed, Player, Told
from tests.bus.virtual_node import ScriptedAdapter, hushed
from tests.core.support import Boom

DIARY: list[str] = []


@pytest.fixture(autouse=True)
def diary() -> list[str]:
    DIARY.clear()
    return DIARY


class Careful(Player):
    """Writes down its life."""

    async def on_start(self) -> None:
        await asyncio.sleep(0.01)
        DIARY.append("start")

    async def on_stop(self) -> None:
        DIARY.append("stop")


class Lingering(Capability):
    """Takes longer to end than anybody waits for it."""

    def told(self, msg: Told) -> None:
        pass

    async def on_stop(self) -> None:
        await asyncio.sleep(1)


class Failing(Capability):
    """Does not start either, and takes its time over it."""

    restarts = RestartLimits(max_restarts=0)

    async def on_start(self) -> None:
        await asyncio.sleep(0.01)
        raise Boom("not today")

    def told(self, msg: Told) -> None:
        pass


class Unmade(Capability):
    """Cannot even be made."""

    def __init__(self) -> None:
        raise Boom("not today")

    def told(self, msg: Told) -> None:
        pass


class Deaf(ScriptedAdapter):
    """Cannot listen."""

    async def start(self, ingress: Ingress) -> None:
        raise OSError("somebody else is there")


def load_badly() -> Iterable[type[Capability]]:
    raise Boom("no such module")


def ready_badly(_node: Node) -> None:
    raise Boom("not ready")


FAILURES: list[tuple[str, str, Callable[[ScriptedAdapter], dict[str, Any]]]] = [
    ("LOAD", "no such module", lambda adapter: {"load": load_badly}),
    (
        "DISCOVER",
        "inbound",
        lambda adapter: {"load": lambda: [Contract(id="X", description="x", inbound=int, spawn=list)]},
    ),
    ("BUILD", "Cast.Echo", lambda adapter: {"load": lambda: [Twin]}),
    ("SPAWN", "not today", lambda adapter: {"load": lambda: [Failing]}),
    ("SPAWN", "not today", lambda adapter: {"load": lambda: [Unmade]}),
    ("ADAPT", "somebody else", lambda adapter: {"adapters": [adapter, Deaf()]}),
    ("READY", "not ready", lambda adapter: {"on_ready": ready_badly, "adapters": [adapter]}),
]


class Twin(Capability):
    """Handles what another handles already."""

    def echo(self, msg: Echo) -> Echoed:
        return Echoed(msg.text)


@pytest.mark.spec("C18")
@pytest.mark.guarantee("G86")
class TestBoot:
    @pytest.mark.parametrize(("phase", "words", "options"), FAILURES)
    def test_a_failure_in_any_phase_leaves_nothing_behind(
        self, phase: str, words: str, options: Callable[[ScriptedAdapter], dict[str, Any]], diary: list[str]
    ) -> None:
        clock, adapter = VirtualClock(), ScriptedAdapter()
        node = Node([Careful], clock=clock, **options(adapter))

        async def main() -> None:
            before = asyncio.all_tasks()
            with pytest.raises(BootError) as caught:
                await node.__aenter__()
            assert caught.value.phase == phase
            assert phase in str(caught.value)
            assert words in str(caught.value)
            await asyncio.sleep(0)
            assert asyncio.all_tasks() == before

        with hushed():
            clock.run(main())
        assert leaks_of(node.loop) == []
        # One that had not finished to start when another failed is told of the end as well.
        assert diary in ([], ["stop"], ["start", "stop"])
        assert adapter.life in ([], ["start", "stop", "close"])
        if phase in {"ADAPT", "READY"}:
            assert (diary, adapter.life) == (["start", "stop"], ["start", "stop", "close"])

    async def test_nobody_is_let_in_before_it_is_ready(self, bandstand_clock: VirtualClock) -> None:
        class Early(ScriptedAdapter):
            async def start(self, ingress: Ingress) -> None:
                await super().start(ingress)
                self.connect().query("Syscall.Ping", name="early")
                await asyncio.sleep(0.1)

        adapter = Early()
        answered: list[bool] = []

        def ready(_node: Node) -> None:
            answered.append(adapter.lines[0].is_answered("early"))

        async with Node(adapters=[adapter], clock=bandstand_clock, on_ready=ready):
            await asyncio.sleep(0.001)
            adapter.lines[0].reply("early")
        assert answered == [False]

    def test_the_bus_of_a_node_that_has_not_started_refuses_to_emit(self) -> None:
        with pytest.raises(LoopClosedError, match="has not started"):
            Node([Memory]).bus.emit(Changed(key="a"))


@pytest.mark.spec("C5", "C4")
@pytest.mark.guarantee("G87")
class TestStopping:
    @pytest.fixture
    def stopped(
        self, bandstand_clock: VirtualClock
    ) -> Callable[..., AbstractAsyncContextManager[StoppedNode]]:
        """Make a node that runs for a moment after the block, and then stops in good order."""

        @asynccontextmanager
        async def make(
            capability: type[Capability] = Careful, *, hush: bool = True, **fields: Any
        ) -> AsyncGenerator[StoppedNode]:
            adapter, config = ScriptedAdapter(), NodeConfig(health_period=0, **fields)
            node = Node([capability], adapters=[adapter], clock=bandstand_clock, config=config)
            with hushed() if hush else nullcontext():
                async with node:
                    yield node, adapter
                    await asyncio.sleep(0.001)
            assert leaks_of(node.loop) == []
            assert adapter.life == ["start", "stop", "close"]
            expected = ["start", "stop"] if capability is Careful else []
            assert expected == DIARY

        return make

    async def test_what_takes_too_long_is_answered(self, stopped: Stopped) -> None:
        async with stopped(drain_timeout=0.2) as (_, adapter):
            line = adapter.connect()
            line.command("Cast.Wait", {"ms": 10**7}, name="at hand")
            line.query("Cast.Echo", name="waiting")
        for name in ("at hand", "waiting"):
            assert line.fault(name, "Sys.ShuttingDown").retryable

    async def test_what_comes_meanwhile_is_turned_away(self, stopped: Stopped) -> None:
        async with stopped() as (_, adapter):
            line = adapter.connect()
            line.command("Cast.Wait", {"ms": 100}, name="q")
            asyncio.get_running_loop().call_later(0.05, lambda: line.query("Syscall.Ping", name="late"))
        line.reply("q")
        line.fault("late", "Sys.ShuttingDown")
        assert sorted(map(str, line.settled)) == ["late", "q"]

    async def test_a_request_that_waited_for_credit_is_turned_away(self, stopped: Stopped) -> None:
        async with stopped(max_in_flight=1) as (_, adapter):
            first, second = adapter.connect(), adapter.connect()
            first.command("Cast.Wait", {"ms": 100}, name="q")
            second.query("Cast.Echo", name="held back")
        first.reply("q")
        second.fault("held back", "Sys.ShuttingDown")

    async def test_an_event_without_credit_does_not_delay_the_stop(self, stopped: Stopped) -> None:
        running = asyncio.get_running_loop()
        async with stopped(max_in_flight=1, drain_timeout=60) as (_, adapter):
            start = running.time()
            line, late = adapter.connect(), adapter.connect()
            line.command("Cast.Wait", {"ms": 100}, name="q")
            running.call_later(0.05, lambda: late.event("Cast.Told", {"text": "late"}))
        line.reply("q")
        assert running.time() - start < 1

    async def test_who_has_not_stopped_in_time_is_named(
        self, stopped: Stopped, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("bandstand.bus.capability_set.STOP_TIMEOUT_S", 0.01)
        async with stopped(Lingering, hush=False):
            pass
        assert "capabilities did not stop in time: Lingering" in caplog.text

    async def test_a_cancelled_drain_still_stops_the_node(self, bandstand_clock: VirtualClock) -> None:
        adapter = ScriptedAdapter()
        node = Node([Player], adapters=[adapter], clock=bandstand_clock)
        with pytest.raises(TimeoutError):  # noqa: PT012  # it is raised where the node stops
            async with asyncio.timeout(1), node:
                adapter.connect().command("Cast.Wait", {"ms": 10**8})
                await asyncio.sleep(0.01)
        assert adapter.life == ["start", "stop", "close"]
        assert leaks_of(node.loop) == []

    async def test_nothing_refers_to_a_node_that_has_ended(self, bandstand_clock: VirtualClock) -> None:
        node = Node([Player], adapters=[adapter := ScriptedAdapter()], clock=bandstand_clock)
        async with node:
            adapter.connect().command("Cast.Do", {"what": "emit"})
            await asyncio.sleep(0.01)
        ended = weakref.ref(node)
        del node, adapter
        gc.collect()
        assert ended() is None

    async def test_wait_quiet_waits_for_all(self, stopped: Stopped, bandstand_clock: VirtualClock) -> None:
        async with stopped() as (node, adapter):
            line = adapter.connect()
            line.command("Cast.Wait", {"ms": 1000}, name="q")
            inner = {"kind": "query", "type": "Cast.Echo", "metadata": {"id": "in", "timestamp": 0}}
            line.command("Timer.Schedule", {"delay": 3000, "message": inner})
            start = bandstand_clock.now_ns()
            quiet = asyncio.ensure_future(node.wait_quiet())
            await asyncio.sleep(10)
            # The adapter could still bring something.
            assert not quiet.done()
            adapter.can_produce = False
            await quiet
            line.reply("q")
            line.reply("in")
            assert 10 <= (bandstand_clock.now_ns() - start) / 1e9 < 10.1


StoppedNode: TypeAlias = tuple[Node, ScriptedAdapter]
Stopped: TypeAlias = Callable[..., AbstractAsyncContextManager[StoppedNode]]
