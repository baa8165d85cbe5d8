"""How a channel actor ends: what ends it, what is left in the channel, and that callbacks run exactly once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest

from bandstand.core import Context, ExitReason, Loop, Verdict
from bandstand.errors import (
    ActorFailedError,
    ActorKilledError,
    ChannelTimeoutError,
    InvalidVerdictError,
    LoopBusyError,
)
from bandstand.scope import UNBOUNDED, Channel, ChannelActor, EndedBy, Outcome, consume
from bandstand.scope.event import EventWait
from bandstand.testing import VirtualClock
from tests.core.support import Boom, LoopMaker, settle
from tests.scope.support import OutcomeRecorder, SlowFunction, advance, filled_channel, wait_until

NORMAL, FAIL, PANIC = ExitReason


# --- every way to end, and exactly one outcome ---------------------------------------------------------------------------


class Play:
    """One actor, to be ended in different ways."""

    def __init__(self, loop: Loop) -> None:
        self.loop = loop
        self.channel = Channel[Any](UNBOUNDED)
        self.recorder = OutcomeRecorder()
        self.late: list[Outcome] = []
        self.actor: ChannelActor[Any] = consume(self.channel, self.process, loop=loop, on_done=self.recorder)
        self.actor.on_done(self.late.append)

    def process(self, item: Callable[[], Any]) -> Any:
        return item()

    def give(self, item: Callable[[], Any]) -> None:
        """Call something inside its function."""
        self.channel.try_send(item)


def boom() -> None:
    raise Boom("in the function")


async def verdict_of(verdict: Any) -> Any:
    await asyncio.sleep(0)
    if isinstance(verdict, BaseException):
        raise verdict
    return verdict


Way = tuple[Callable[[Play], object], EndedBy, ExitReason, type[BaseException] | None]

WAYS: dict[str, Way] = {
    "close": (lambda play: play.channel.close(), EndedBy.CLOSED, NORMAL, None),
    "stop": (lambda play: play.actor.stop(), EndedBy.STOPPED, NORMAL, None),
    "cancel": (lambda play: play.actor.cancel("enough"), EndedBy.CANCELLED, NORMAL, None),
    "its token": (lambda play: play.actor.token.cancel(), EndedBy.CANCELLED, NORMAL, None),
    "STOP": (lambda play: play.give(lambda: Verdict.STOP), EndedBy.RETURNED, NORMAL, None),
    "FAIL": (lambda play: play.give(lambda: Verdict.FAIL), EndedBy.FAILED, FAIL, None),
    "an exception": (lambda play: play.give(boom), EndedBy.FAILED, PANIC, Boom),
    "no verdict": (lambda play: play.give(lambda: "done"), EndedBy.FAILED, PANIC, InvalidVerdictError),
    "async STOP": (lambda play: play.give(lambda: verdict_of(Verdict.STOP)), EndedBy.RETURNED, NORMAL, None),
    "async FAIL": (lambda play: play.give(lambda: verdict_of(Verdict.FAIL)), EndedBy.FAILED, FAIL, None),
    "async exception": (lambda play: play.give(lambda: verdict_of(Boom())), EndedBy.FAILED, PANIC, Boom),
    "async no verdict": (
        lambda play: play.give(lambda: verdict_of((1, 2))),
        EndedBy.FAILED,
        PANIC,
        InvalidVerdictError,
    ),
    "stop_actor": (lambda play: play.loop.stop_actor(play.actor.id), EndedBy.STOPPED, NORMAL, None),
    "fail_actor": (
        lambda play: play.loop.fail_actor(play.actor.id, "bad"),
        EndedBy.FAILED,
        FAIL,
        ActorFailedError,
    ),
    "kill_actor": (lambda play: play.loop.kill_actor(play.actor.id), EndedBy.KILLED, FAIL, ActorKilledError),
    "request_stop": (lambda play: play.loop.request_stop(), EndedBy.STOPPED, NORMAL, None),
}


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "bandstand.core")


@pytest.mark.spec("K5", "K7")
@pytest.mark.guarantee("G109", "G110")
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS.keys())
@pytest.mark.parametrize("has_started", [True, False], ids=["idle", "before its first turn"])
def test_every_end_has_one_outcome_and_calls_every_callback_once(
    way: Way, has_started: bool, make_loop: LoopMaker
) -> None:
    deed, ended_by, reason, cause = way
    loop = make_loop()
    play = Play(loop)
    if has_started:
        loop.run(until_idle=True)
    deed(play)
    if not loop.kernel.is_closed:
        loop.run(until_idle=True)
    loop.destroy()
    assert not (has_started and loop.statistics().dead)
    assert play.recorder.ended_by is ended_by
    assert play.actor.outcome == play.recorder.outcomes[0]
    assert play.late == play.recorder.outcomes
    outcome = play.recorder.outcomes[0]
    assert outcome.reason is reason
    assert (None if outcome.cause is None else type(outcome.cause)) is cause
    assert play.actor.done
    late: list[Outcome] = []
    play.actor.on_done(late.append)
    assert late == play.recorder.outcomes
    assert play.channel.statistics().receivers == 0


@pytest.mark.guarantee("G110")
async def test_the_loop_asked_to_stop_in_the_tick_in_which_it_ended(loop: Loop) -> None:
    """The outcome was posted, and the loop does not tick any more to deliver it."""
    slow, recorder = SlowFunction[int](), OutcomeRecorder()
    consume(filled_channel(1), slow)
    await wait_until(lambda: slow.begun == [1])
    actor = consume(filled_channel(Verdict.STOP), lambda verdict: verdict, on_done=recorder)
    loop.send(loop.spawn(lambda ctx, data: loop.request_stop()), "go")
    assert (await actor.ended(timeout=1.0)).ended_by is EndedBy.RETURNED
    assert len(recorder.outcomes) == 1


@pytest.mark.spec("K5")
@pytest.mark.guarantee("G110")
def test_what_on_done_raises_is_logged_and_all_others_are_called(
    loop: Loop, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR, "bandstand.scope")
    channel, recorder = Channel[int](), OutcomeRecorder()

    def bad(outcome: Outcome) -> None:
        raise Boom("in on_done")

    actor = consume(channel, print, loop=loop, on_done=bad)
    actor.on_done(recorder)
    channel.close()
    settle(loop)
    assert recorder.ended_by is EndedBy.CLOSED
    assert [record.name for record in caplog.records] == ["bandstand.scope"]
    actor.on_done(bad)
    assert len(caplog.records) == 2


# --- stop ----------------------------------------------------------------------------------------------------------------


@pytest.mark.spec("K4")
@pytest.mark.guarantee("G108")
async def test_stop_finishes_the_element_in_flight_and_takes_no_other(
    clock: VirtualClock, loop: Loop
) -> None:
    slow = SlowFunction[int]()
    channel = filled_channel(1, 2, 3)
    actor = consume(channel, slow)
    await wait_until(lambda: slow.begun == [1])
    wait = actor.stop()
    await advance(loop, clock, 50)
    assert not actor.done
    slow.gate.set()
    assert await wait == Outcome(NORMAL, None, EndedBy.STOPPED)
    assert (slow.ended, slow.cancelled, len(channel)) == ([1], [], 2)
    assert not actor.token.cancelled


@pytest.mark.spec("K4")
@pytest.mark.guarantee("G108")
def test_no_element_is_taken_after_stop_has_returned(loop: Loop) -> None:
    """Not even in the same tick, in which it was ready to run."""
    channel, got = filled_channel(*range(10)), list[int]()
    actor = consume(channel, got.append, loop=loop)
    loop.spawn(lambda ctx, data: None)

    def stop_it(ctx: Context[None], data: object) -> None:
        _ = actor.stop()
        got.append(-1)

    loop.send(loop.spawn(stop_it), "go")
    settle(loop)
    assert got == [0, -1]
    assert len(channel) == 9
    assert actor.done


async def waited(wait: EventWait[Outcome]) -> Outcome:
    return await wait


@pytest.mark.spec("K4")
async def test_a_wait_for_the_end_can_time_out_and_the_request_stands(
    clock: VirtualClock, loop: Loop
) -> None:
    slow = SlowFunction[int]()
    actor = consume(filled_channel(1), slow)
    await wait_until(lambda: slow.begun == [1])
    waits = [
        asyncio.create_task(waited(wait)) for wait in (actor.stop(timeout=0.01), actor.ended(timeout=0.01))
    ]
    await asyncio.sleep(0)
    await advance(loop, clock, 20)
    for wait in waits:
        with pytest.raises(ChannelTimeoutError, match="the end of ChannelActor"):
            await wait
    slow.gate.set()
    assert (await actor.ended()).ended_by is EndedBy.STOPPED


# --- cancel --------------------------------------------------------------------------------------------------------------


# --- from inside ---------------------------------------------------------------------------------------------------------


REQUESTS: dict[str, tuple[Callable[[ChannelActor[int]], Any], EndedBy]] = {
    "stop": (lambda actor: actor.stop(), EndedBy.STOPPED),
    "cancel": (lambda actor: actor.cancel("from inside"), EndedBy.CANCELLED),
}


@pytest.mark.spec("K4")
@pytest.mark.guarantee("G111")
@pytest.mark.parametrize("request_of", REQUESTS.values(), ids=REQUESTS.keys())
@pytest.mark.parametrize("is_run", [True, False], ids=["run", "poll_once"])
def test_from_its_own_def_it_requests_and_returns(request_of: Any, is_run: bool, loop: Loop) -> None:
    ask, ended_by = request_of
    channel, seen = filled_channel(1, 2), list[Any]()

    def process(number: int) -> None:
        # This would wait for its own end for ever.
        seen.append(ask(actor).blocking())
        seen.append(actor.done)

    actor = consume(channel, process, loop=loop)
    if is_run:
        loop.run(until_idle=True)
    else:
        settle(loop)
    assert seen == [Outcome(NORMAL, None, EndedBy.NOT_YET), False]
    assert actor.outcome == Outcome(NORMAL, None, ended_by)
    assert len(channel) == 1
    assert loop.statistics().handled == 1


@pytest.mark.spec("K4")
@pytest.mark.guarantee("G111")
async def test_from_its_own_async_function_cancel_requests_and_the_next_await_is_cancelled() -> None:
    seen: list[Any] = []

    async def process(number: int) -> None:
        await asyncio.sleep(0)
        seen.append((await actor.cancel()).ended_by)
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    actor = consume(filled_channel(1, 2), process)
    assert (await actor.ended()).ended_by is EndedBy.CANCELLED
    assert seen == [EndedBy.NOT_YET, "cancelled"]


def test_blocking_on_the_thread_of_its_own_loop_is_refused(loop: Loop) -> None:
    """The loop could not run meanwhile."""
    actor = consume(filled_channel(1), print, loop=loop)
    with pytest.raises(LoopBusyError, match="could not run meanwhile"):
        actor.ended().blocking()
