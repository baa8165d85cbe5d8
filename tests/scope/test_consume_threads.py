"""Channel actors and other threads: elements, stops, cancellations and waits from any thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

import pytest

from bandstand.core import Context, Loop, LoopConfig
from bandstand.errors import ChannelClosedError
from bandstand.scope import UNBOUNDED, Channel, ChannelActor, EndedBy, Process, consume
from tests.core.support import settle
from tests.scope.support import OutcomeRecorder, filled_channel, in_thread

T = TypeVar("T")

HostFactory = Callable[[], asyncio.AbstractEventLoop]

SOON = 20  # seconds: a deadline for what takes milliseconds

pytestmark = pytest.mark.real_time(reason="real threads live in real time")


class Stage:
    """A loop that runs on its own thread."""

    def __init__(self, loop_factory: HostFactory) -> None:
        self.loop = Loop(LoopConfig(loop_factory=loop_factory))
        self.thread = threading.Thread(target=self.loop.run, name="stage")

    def call(self, function: Callable[[], Any]) -> Any:
        """Call a function on the loop's thread."""

        done: Future[Any] = Future()

        def work() -> None:
            try:
                done.set_result(function())
            except BaseException as error:  # noqa: BLE001  # raised in the caller
                done.set_exception(error)

        self.loop.kernel.inbox.call_soon(work)
        return done.result(SOON)

    def consume(self, channel: Channel[T], process: Process[T], **options: Any) -> ChannelActor[T]:
        actor: ChannelActor[T] = self.call(lambda: consume(channel, process, loop=self.loop, **options))
        return actor


@contextmanager
def staged(loop_factory: HostFactory) -> Generator[Stage]:
    stage = Stage(loop_factory)
    stage.thread.start()
    try:
        yield stage
    finally:
        stage.loop.request_stop()
        stage.thread.join(SOON)
        assert not stage.thread.is_alive()
        stage.loop.destroy()


@pytest.fixture
def stage(loop_factory: HostFactory) -> Generator[Stage]:
    with staged(loop_factory) as stage:
        yield stage


@pytest.mark.spec("K1")
@pytest.mark.guarantee("G107")
def test_an_actor_is_scheduled_once(stage: Stage) -> None:
    """Elements that come while it looks at the channel cause no second look."""
    channel = Channel[int](UNBOUNDED)
    actor = stage.consume(channel, lambda number: None)
    for number in range(2000):
        channel.send(number).blocking()
    channel.close()
    actor.ended(timeout=SOON).blocking()
    handled = stage.call(lambda: stage.loop.statistics().handled)
    # One look for each element, and one more for each time the channel was empty.
    assert 2000 < handled <= 2 * 2000 + 2


# --- stop, cancel, ended -------------------------------------------------------------------------------------------------


@pytest.mark.spec("K4")
@pytest.mark.guarantee("G111")
@pytest.mark.parametrize("how", ["stop", "cancel"])
def test_a_plain_thread_stops_it_and_waits(how: str, stage: Stage) -> None:
    recorder = OutcomeRecorder()
    actor = stage.consume(Channel[int](), print, on_done=recorder)
    wait = actor.stop() if how == "stop" else actor.cancel("by a thread")
    outcome = wait.blocking()
    assert outcome.ended_by is (EndedBy.STOPPED if how == "stop" else EndedBy.CANCELLED)
    assert actor.done
    assert stage.call(lambda: recorder.outcomes) == [outcome]


@pytest.mark.spec("K4")
@pytest.mark.guarantee("G108", "G111")
@pytest.mark.parametrize("how", ["stop", "cancel"])
def test_a_request_from_a_thread_takes_effect_before_the_loop_processes_it(how: str, loop: Loop) -> None:
    """It could take its next element in this tick, and the request is processed in the next one."""
    channel, got = filled_channel(*range(10)), list[int]()
    actor = consume(channel, got.append, loop=loop)

    def ask_elsewhere(ctx: Context[None], data: object) -> None:
        _ = in_thread(actor.stop if how == "stop" else actor.cancel)
        got.append(-1)

    loop.send(loop.spawn(ask_elsewhere), "go")
    settle(loop)
    assert got == [0, -1]
    assert len(channel) == 9
    assert actor.done


@pytest.mark.spec("K4")
@pytest.mark.guarantee("G111")
def test_cancel_from_a_thread_ends_a_coroutine_in_flight(stage: Stage) -> None:
    entered, cancelled = threading.Event(), threading.Event()

    async def process(number: int) -> None:
        entered.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    actor = stage.consume(filled_channel(1), process)
    assert entered.wait(SOON)
    assert actor.cancel().blocking().ended_by is EndedBy.CANCELLED
    assert cancelled.is_set()


@pytest.mark.spec("K4")
def test_after_the_loop_has_ended_everything_is_answered_at_once(
    loop_factory: HostFactory, caplog: pytest.LogCaptureFixture
) -> None:
    with staged(loop_factory) as stage:
        actor = stage.consume(Channel[int](), print)
        other = stage.consume(Channel[int](), print)
    assert actor.ended().blocking().ended_by is EndedBy.STOPPED
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(lambda: other.cancel("late").blocking()).result(SOON).ended_by is EndedBy.STOPPED
        assert pool.submit(lambda: other.stop().blocking()).result(SOON).ended_by is EndedBy.STOPPED
    assert caplog.records == []


@pytest.mark.spec("K5")
@pytest.mark.guarantee("G110", "G112")
def test_the_loop_ends_while_threads_send_and_wait(loop_factory: HostFactory) -> None:
    """Every accepted element was processed or is in the channel, and no thread waits for ever."""
    for _ in range(5):
        channel, got = Channel[int](UNBOUNDED), list[int]()
        sent: list[int] = []
        with staged(loop_factory) as stage:
            actor = stage.consume(channel, got.append)
            begun = threading.Event()

            def send(
                channel: Channel[int] = channel, begun: threading.Event = begun, sent: list[int] = sent
            ) -> None:
                for number in range(100_000):
                    try:
                        channel.send(number).blocking()
                    except ChannelClosedError:
                        return
                    sent.append(number)
                    begun.set()

            sender = threading.Thread(target=send)
            sender.start()
            assert begun.wait(SOON)
        assert actor.ended().blocking().ended_by is EndedBy.STOPPED
        channel.close()
        sender.join(SOON)
        left = [channel.try_receive() for _ in range(len(channel))]
        assert got + left == sent
