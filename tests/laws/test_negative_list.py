"""What went wrong in other runtimes, one test each: the failure has a name, and here is what shows that it does not happen.

Where a strong test of it is elsewhere already, it is not copied: the table below says where, and a test sees that it is there.
"""

from __future__ import annotations

import ast
import asyncio
import logging
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from bandstand.actor import Actor, ActorSystem, ask, child, tell
from bandstand.core import ActorStatus, Context, Down, ExitReason, Lane, LoopConfig, Overflow
from bandstand.errors import AskTimeoutError, BandstandError, RestartLimitError, TargetEndedError
from bandstand.supervision import SupervisorSpec, spawn_supervisor
from bandstand.testing import VirtualClock

ROOT = Path(__file__).resolve().parents[2]

# The failure, and the tests that show its absence.
ELSEWHERE = {
    "a throwing constructor leaves a zombie": [
        "tests/actor/test_on_start.py::test_what_a_constructor_raises_comes_out_of_spawn_and_there_is_no_actor",
        "tests/actor/test_on_start.py::test_a_failed_constructor_leaves_no_object_behind",
        "tests/actor/test_supervised.py::test_arguments_that_the_constructor_does_not_take_fail_the_start",
    ],
    "a throwing on_start leaves a zombie": [
        "tests/actor/test_on_start.py::test_a_plain_on_start_that_fails_is_start_failed_with_its_cause",
    ],
    "a look-up by name gives somebody who has ended": [
        "tests/registry/test_ended_actors.py::test_the_name_is_free_in_a_down_message",
        "tests/registry/test_ended_actors.py::test_the_name_is_free_before_dead_letters",
    ],
    "a slow subscriber holds up the others, or loses events in silence": [
        "tests/topic/test_policies.py::test_a_slow_subscriber_by_policy",
        "tests/examples/test_chat.py::test_who_does_not_read_misses_lines_is_told_and_hurts_nobody",
    ],
    "a late reply reaches somebody": [
        "tests/actor/test_deadlines.py::test_a_late_answer_is_dropped_and_counted"
    ],
    "a cancelled timer fires": ["tests/core/test_timers.py::test_a_cancelled_timer_is_never_delivered"],
    "asks leak": [
        "tests/actor/test_ask_memory.py::test_timed_out_asks_leave_nothing",
        "tests/actor/test_ask_memory.py::test_cancelled_asks_leave_nothing",
        "tests/actor/test_ask_memory.py::test_asks_of_actors_that_end_leave_nothing",
    ],
    "a second Ctrl-C hangs": [
        "tests/core/test_signals.py::test_a_second_sigint_interrupts_a_behavior",
        "tests/core/test_signals.py::test_a_second_sigint_does_not_wait_for_coroutines",
        "tests/examples/test_closing_time.py::test_a_second_ctrl_c_waits_for_nobody",
        "tests/shutdown/test_signals.py::test_a_second_ctrl_c_interrupts_a_handler",
    ],
    "a client that is lost holds the drain of a node": [
        "tests/bus/test_overload.py::test_one_that_has_gone_is_not_waited_for",
    ],
    "a process that is killed holds the drain of its troupe": [
        "tests/pod/test_drain_losses.py::test_a_process_that_is_killed_while_its_troupe_drains_holds_nobody",
    ],
    "context leaks from one message to the next": [
        "tests/actor/test_context.py::test_a_plain_handler_sees_the_senders_variables_and_the_next_message_does_not",
        "tests/actor/test_context.py::test_what_a_handler_sets_is_not_seen_by_the_sender_nor_by_the_next_message",
    ],
    "an actor that asks itself hangs": [
        "tests/actor/test_cycles.py::test_an_actor_that_asks_itself_gets_a_cycle_error"
    ],
    "two that ask each other hang": [
        "tests/actor/test_cycles.py::test_two_actors_that_ask_each_other_get_a_cycle_error",
        "tests/actor/test_cycles.py::test_the_error_of_a_longer_cycle_names_all_actors",
    ],
    "messages vanish above a thousand actors": [
        "tests/actor/test_spawn.py::test_a_thousand_actors_lose_nothing"
    ],
    "a crash loop is silent": [
        "tests/actor/test_supervised.py::test_a_crash_loop_is_logged_and_ends_in_gave_up",
        "tests/actor/test_events.py::test_restarts_and_an_escalation_are_published_counted_and_logged",
    ],
    "a shutdown has no deadline": [
        "tests/laws/test_shutdown.py::test_it_is_over_in_time_and_nobody_is_left",
        "tests/shutdown/test_shutdown.py::test_a_hanging_actor_is_killed",
    ],
    "the thread spins while a shutdown waits": [
        "tests/shutdown/test_shutdown.py::test_an_idle_shutdown_does_not_poll"
    ],
    "a tick that floods holds back the exit": [
        "tests/core/test_lanes.py::test_a_flood_of_data_never_holds_control_back"
    ],
}


@pytest.mark.once
@pytest.mark.parametrize("failure", ELSEWHERE)
def test_the_test_elsewhere_is_there(failure: str) -> None:
    for address in ELSEWHERE[failure]:
        path, _, name = address.partition("::")
        tree = ast.parse((ROOT / path).read_text("utf-8"))
        names = {
            node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        }
        assert name in names, f"{failure}: {address} is gone"


@pytest.fixture(autouse=True)
def loud() -> None:
    """Here what is logged matters."""
    logging.getLogger("bandstand.core").disabled = False


@pytest.fixture
def clock(bandstand_clock: VirtualClock) -> VirtualClock:
    return bandstand_clock


def make(clock: VirtualClock, **fields: Any) -> ActorSystem:
    return ActorSystem(LoopConfig(loop_factory=clock.new_event_loop, **fields), clock=clock)


def spin(loop: ActorSystem, rounds: int = 20) -> None:
    for _ in range(rounds):
        loop.poll_once()


# --- overload --------------------------------------------------------------------------------------------------------------


class Slow(Actor):
    @tell
    async def take(self, n: int) -> None:
        await asyncio.sleep(1000)


class Eager(Actor):
    def __init__(self, to: Slow) -> None:
        self.to = to
        self.refused = 0

    @tell
    def flood(self, count: int) -> None:
        for number in range(count):
            if not self.to.take.try_send(number):
                self.refused += 1

    @ask
    def books(self) -> int:
        return self.refused


@pytest.mark.guarantee("G7")
def test_a_full_mailbox_kills_its_sender(clock: VirtualClock) -> None:
    loop = make(clock)

    async def main() -> int:
        async with loop:
            slow = loop.options(mailbox=12).spawn(Slow)
            eager = loop.spawn(Eager, slow)
            eager.flood(100)
            refused = await eager.books()
            assert loop.statistics().ended_panic == 0
            return refused

    assert 100 - 16 <= clock.run(main()) < 100


@pytest.mark.guarantee("G8")
@pytest.mark.parametrize("policy", list(Overflow), ids=lambda policy: policy.name)
@pytest.mark.parametrize("first", ["flood", "death"])
def test_a_flood_evicts_the_notice_of_a_death(clock: VirtualClock, policy: Overflow, first: str) -> None:
    seen: list[object] = []
    with make(clock) as loop:

        def watch(ctx: Context[None], letter: object) -> None:
            seen.append(letter)

        watcher = loop.spawn_raw(watch, mailbox_cap=6, overflow=policy)
        target = loop.spawn_raw(lambda _ctx, _data: None)
        loop.monitor(watcher, target)

        def flood() -> None:
            for lane in (Lane.CONTROL, Lane.MANAGEMENT, Lane.DATA):
                for number in range(100):
                    loop.try_send(watcher, number, lane=lane)

        if first == "flood":
            flood()
        loop.fail_actor(target, "dead")
        if first == "death":
            flood()
        spin(loop)
        assert isinstance(seen[0], Down), "and it comes first"
        assert sum(isinstance(letter, Down) for letter in seen) == 1


@pytest.mark.guarantee("G6", "G7")
@pytest.mark.parametrize("lane", [Lane.CONTROL, Lane.MANAGEMENT, Lane.DATA], ids=lambda lane: lane.name)
def test_priority_makes_a_mailbox_unbounded(clock: VirtualClock, lane: Lane) -> None:
    with make(clock, sys_reserved=4) as loop:
        actor = loop.spawn_raw(lambda _ctx, _data: None, mailbox_cap=10)
        accepted = sum(loop.try_send(actor, number, lane=lane) for number in range(1000))
        assert accepted == 6
        assert loop.statistics().waiting == 6


# --- starts and restarts -------------------------------------------------------------------------------------------------------


class Brittle(Actor):
    """Starts once, and then fails where it is told to."""

    born = 0

    def __init__(self, where: str) -> None:
        self.where = where
        type(self).born += 1
        self._fail("constructor")

    def on_start(self) -> Any:
        self._fail("on_start")
        return self._later() if self.where == "async on_start" else None

    async def _later(self) -> None:
        self._fail("async on_start")

    def on_stop(self, reason: ExitReason, cause: BaseException | None, /) -> None:
        if self.where == "on_stop":
            raise RuntimeError("on_stop")

    @tell
    def fall(self) -> None:
        raise ValueError("fell")

    def _fail(self, where: str) -> None:
        if self.where == where and type(self).born > 1:
            raise RuntimeError(where)


@pytest.mark.guarantee("G47")
@pytest.mark.parametrize("where", ["constructor", "on_start", "async on_start"])
def test_a_failure_in_a_restart_leaves_a_zombie_or_is_silent(
    clock: VirtualClock, caplog: pytest.LogCaptureFixture, where: str
) -> None:
    Brittle.born = 0
    loop = make(clock)
    spec = SupervisorSpec(children=[child("brittle").of(Brittle, where)], max_restarts=3, period=60.0)
    boss = spawn_supervisor(loop, spec, name="boss")

    def push(_ctx: Context[None], _data: object) -> None:
        actor = boss.child("brittle")
        assert actor is not None
        loop.fail_actor(actor, "pushed")

    loop.send(loop.spawn_raw(push), None)
    with (
        caplog.at_level(logging.WARNING, logger="bandstand.supervision"),
        pytest.raises(RestartLimitError) as caught,
    ):
        loop.run()
    assert Brittle.born == 4, "the first, and three attempts to start it again"
    assert loop.statistics().alive == 0
    assert loop.events.counts().escalations == 1
    lines = [entry for entry in caplog.records if "restarts child 'brittle'" in entry.getMessage()]
    assert len(lines) == 3
    told: tuple[BaseException, ...] = getattr(caught.value.__cause__, "exceptions", ())
    assert sum(where in repr(error) for error in told) == 3
    loop.destroy()


@pytest.mark.guarantee("G65")
def test_a_failure_in_on_stop_keeps_an_actor_from_its_restart(
    clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    Brittle.born = 0
    with make(clock) as loop:
        spec = SupervisorSpec(children=[child("brittle").of(Brittle, "on_stop")])
        boss = spawn_supervisor(loop, spec, name="boss")
        first = boss.child("brittle")
        assert first is not None
        loop.fail_actor(first, "pushed")
        spin(loop)
        second = boss.child("brittle")
        assert second is not None
        assert second != first
        assert loop.events.counts().restarts == 1
        assert "RuntimeError: on_stop" in caplog.text


# --- ends ----------------------------------------------------------------------------------------------------------------------


class Server(Actor, ask_timeout=None):
    @ask
    async def serve(self, n: int) -> int:
        await asyncio.sleep(1000)
        return n


@pytest.mark.guarantee("G62")
@pytest.mark.parametrize("way", ["stop", "kill", "request_stop", "leave the block"])
def test_an_ask_that_is_in_flight_at_a_stop_never_ends(clock: VirtualClock, way: str) -> None:
    loop = make(clock)

    async def asked(server: Server, n: int) -> object:
        try:
            return await server.serve(n)
        except TargetEndedError as error:
            return type(error)

    async def main() -> list[object]:
        async with loop:
            server = loop.spawn(Server)
            asks = [asyncio.create_task(asked(server, number)) for number in range(5)]
            await asyncio.sleep(0.1)
            if way == "stop":
                server.stop()
            elif way == "kill":
                server.kill()
            elif way == "request_stop":
                loop.request_stop()
            if way != "leave the block":
                return [await each for each in asks]
        return [await each for each in asks]

    assert clock.run(main()) == [TargetEndedError] * 5
    assert clock.now_ns() < 1_234_567_890_123 + 10**9 * 900, "long before its time"
    assert loop.ask_statistics().pending == 0


class Bitter(Actor):
    """Raises when it is cancelled."""

    def __init__(self, begun: list[str]) -> None:
        self.begun = begun
        begun.append("born")

    @tell
    async def wait(self) -> None:
        try:
            await asyncio.sleep(1000)
        except asyncio.CancelledError:
            self.begun.append("bitter")
            raise ValueError("bitter") from None


@pytest.mark.guarantee("G52")
def test_an_exception_during_a_cancellation_makes_a_restart_of_a_stop(
    clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    loop = make(clock)
    begun: list[str] = []

    async def main() -> None:
        async with loop:
            boss = spawn_supervisor(
                loop, SupervisorSpec(children=[child("bitter").of(Bitter, begun)]), name="boss"
            )
            handle = boss.handle(Bitter, "bitter")
            handle.wait()
            await asyncio.sleep(0.1)
            boss.stop_child("bitter")
            await asyncio.sleep(0.1)
            assert boss.child("bitter") is None
            boss.stop()
            await asyncio.sleep(0.1)
            assert loop.status(boss.actor) is ActorStatus.STOPPED

    clock.run(main())
    assert begun == ["born", "bitter"]
    assert loop.events.counts().restarts == 0
    assert "bitter" in caplog.text, "and it is not silent"


class Clinging(Actor):
    @tell
    async def wait(self) -> None:
        for _ in range(3):
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(100)


@pytest.mark.guarantee("G52")
def test_the_thread_spins_while_a_supervisor_waits_for_a_child(clock: VirtualClock) -> None:
    loop = make(clock)
    spec = SupervisorSpec(children=[child("clinging", shutdown=60.0).of(Clinging)])
    boss = spawn_supervisor(loop, spec, name="boss")

    async def main() -> tuple[int, int]:
        async with loop:
            boss.handle(Clinging, "clinging").wait()
            await asyncio.sleep(1)
            before = loop.statistics()
            boss.stop()
            await asyncio.sleep(59)
            assert loop.status(boss.actor) is ActorStatus.RUNNING, "it waits"
            after = loop.statistics()
            await asyncio.sleep(2)
            assert loop.status(boss.actor) is ActorStatus.STOPPED
            return after.ticks - before.ticks, after.wakeups - before.wakeups

    ticks, wakeups = clock.run(main())
    assert ticks <= 12, "a minute of waiting"
    assert wakeups <= 12


@pytest.mark.guarantee("G61")
def test_an_ask_without_an_answer_waits_for_ever(clock: VirtualClock) -> None:
    loop = make(clock)

    async def main() -> None:
        async with loop:
            with pytest.raises(AskTimeoutError) as caught:
                await loop.options(ask_timeout=0.25).spawn(Waiting).never()
            assert isinstance(caught.value, BandstandError)

    clock.run(main())


class Waiting(Actor):
    @ask
    async def never(self) -> int:
        await asyncio.Event().wait()
        return 1
