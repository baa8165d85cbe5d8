"""A supervisor without a parent that gives up ends the loop, which raises the error."""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from bandstand.core import STOP, ActorStatus, Context, Loop, Verdict
from bandstand.errors import ActorFailedError, LoopClosedError, RestartLimitError
from bandstand.supervision import (
    ChildSpec,
    Supervisor,
)
from bandstand.testing import VirtualClock, leaks_of, pending_tasks
from tests.core.support import (
    Boom,
    HostFactory,
    LoopMaker,
    call_in,
    check_statistics,
    guarded,
    idle,
    run_message,
    settle,
)
from tests.supervision.helpers import (
    StubbornCoroutine,
    begin,
    causes_of,
    child,
    crash,
    fail,
    id_of,
    leave,
    order,
    spin,
    supervise,
)

pytestmark = [pytest.mark.spec("J19"), pytest.mark.guarantee("G48")]

Riding = Callable[[Coroutine[Any, Any, Any]], Any]


@pytest.fixture
def riding(loop_factory: HostFactory) -> Riding:
    """Run a coroutine on a foreign event loop, and check that nothing is left on it."""

    def run(main: Coroutine[Any, Any, Any]) -> Any:
        escaped: list[dict[str, Any]] = []

        async def whole() -> Any:
            try:
                return await main
            finally:
                task = asyncio.current_task()
                assert task is not None
                assert task.cancelling() == 0, "the cancellation was taken back"
                await asyncio.sleep(0)
                left = pending_tasks(asyncio.get_running_loop())
                assert left == [f"task {task.get_name()!r} has not ended"]

        with asyncio.Runner(loop_factory=guarded(loop_factory, escaped)) as runner:
            result = runner.run(whole())
        assert escaped == []
        return result

    return run


def doomed(loop: Loop, *, after: int = 0, **fields: Any) -> Supervisor:
    """A root supervisor whose child `a` has as many crashes before it as it takes for it to give up."""
    return supervise(loop, child("a", **fields), child("b"), max_restarts=after)


def is_clean(loop: Loop) -> None:
    check_statistics(loop)
    assert leaks_of(loop) == []


# --- run() --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("until_idle", [False, True])
def test_run_raises_the_story(loop: Loop, until_idle: bool, caplog: pytest.LogCaptureFixture) -> None:
    def init(ctx: Context[Any]) -> None:
        ctx.loop.send(ctx.self_id, crash)

    supervise(loop, child("a", init=init), max_restarts=2, name="top")
    with pytest.raises(RestartLimitError) as caught:
        loop.run(until_idle=until_idle)
    words = str(caught.value)
    for part in ("'top'", "'a'", "restart 3", "5 s", "2 are allowed", "PANIC", "Boom('crash')"):
        assert part in words
    causes = causes_of(caught.value)
    assert [type(cause) for cause in causes] == [Boom] * 3
    assert all(cause.__traceback__ is not None for cause in causes)
    logged = [line for line in caplog.records if line.levelno == logging.ERROR]
    assert [line.getMessage() for line in logged] == [words], "one line, and not a second one for its own end"
    is_clean(loop)
    assert "Boom: crash" in "".join(traceback.format_exception(caught.value))


def test_exits_without_an_exception_are_described(loop: Loop) -> None:
    sup = doomed(loop, after=2)
    order(loop, sup, "a", crash)
    order(loop, sup, "a", fail)
    with pytest.raises(RestartLimitError, match=r"NORMAL") as caught:
        order(loop, sup, "a", leave)
    causes = causes_of(caught.value)
    assert [type(cause) for cause in causes] == [Boom, ActorFailedError, ActorFailedError]
    assert "FAIL" in str(causes[1])
    assert "normally" in str(causes[2])
    assert "'a'" in str(causes[1])


def test_only_the_last_ten_causes_are_reported(loop: Loop) -> None:
    sup = doomed(loop, after=25)

    def numbered(number: int) -> Callable[[Context[Any]], None]:
        def deed(ctx: Context[Any]) -> None:
            raise Boom(number)

        return deed

    for number in range(25):
        order(loop, sup, "a", numbered(number))
    with pytest.raises(RestartLimitError, match=r"restart 26") as caught:
        order(loop, sup, "a", numbered(25))
    assert [cause.args for cause in causes_of(caught.value)] == [(number,) for number in range(16, 26)]


def test_the_loop_is_over(loop: Loop) -> None:
    sup = doomed(loop)
    bystander = loop.spawn(idle)
    loop.send(id_of(sup, "a"), crash)
    with pytest.raises(RestartLimitError):
        loop.run()
    assert loop.status(bystander) is ActorStatus.STOPPED
    assert loop.status(sup.actor) is ActorStatus.FAILED
    assert isinstance(sup.outcome, RestartLimitError)
    for call in (loop.run, loop.poll_once, lambda: loop.spawn(idle)):
        with pytest.raises(LoopClosedError):
            call()
    loop.destroy()
    is_clean(loop)


@pytest.mark.guarantee("G52")
def test_it_waits_for_its_children_in_their_time(make_loop: LoopMaker, clock: VirtualClock) -> None:
    # The loop's own end waits for the deaf one's coroutine as well, in the time of its event loop.
    loop = make_loop(stop_timeout=0.001)
    with StubbornCoroutine() as gate:
        sup = supervise(loop, child("a"), child("deaf", gate, shutdown=1), max_restarts=0)
        deaf = id_of(sup, "deaf")
        loop.send(deaf, "begin")
        spin(loop)
        loop.send(id_of(sup, "a"), crash)
        spin(loop)
        assert loop.status(deaf) is ActorStatus.STOPPING
        clock.advance(0.999)
        spin(loop)
        clock.advance(0.001)
        with pytest.raises(RestartLimitError):
            spin(loop)
        assert loop.status(deaf) is ActorStatus.FAILED


@pytest.mark.guarantee("G52")
def test_no_request_brings_back_a_supervisor_that_gives_up(loop: Loop) -> None:
    with StubbornCoroutine() as gate:
        sup = supervise(loop, child("a"), child("deaf", gate), max_restarts=0)
        begin(loop, sup, "deaf")
        loop.send(id_of(sup, "a"), crash)
        spin(loop)
        sup.stop()
        assert not sup.stop_child("deaf")
        gate.open()
        with pytest.raises(RestartLimitError):
            spin(loop)


# --- before run(), and by hand ------------------------------------------------------------------------------------------


def test_a_child_that_failed_before_run(loop: Loop) -> None:
    sup = doomed(loop)
    loop.fail_actor(id_of(sup, "a"), "too early")
    with pytest.raises(RestartLimitError, match=r"too early"):
        loop.run()
    is_clean(loop)


def test_destroy_instead_of_run_says_nothing(loop: Loop) -> None:
    sup = doomed(loop)
    loop.fail_actor(id_of(sup, "a"))
    loop.destroy()
    is_clean(loop)


# --- async with ---------------------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G28")
def test_async_with_cancels_its_body_and_raises_it(make_loop: LoopMaker, riding: Riding) -> None:
    cancelled: list[bool] = []

    loop = make_loop()

    async def serve() -> None:
        async with loop:
            sup = doomed(loop)
            loop.send(id_of(sup, "a"), crash)
            try:
                await asyncio.Event().wait()
            finally:
                cancelled.append(True)

    async def main() -> None:
        with pytest.raises(RestartLimitError, match=r"'a'") as caught:
            await serve()
        assert isinstance(causes_of(caught.value)[0], Boom)
        assert leaks_of(loop) == []
        await asyncio.sleep(0)

    riding(main())
    assert cancelled == [True]


@pytest.mark.guarantee("G28")
@pytest.mark.parametrize(
    "body", ["catches", "raises its own error", "ends without waiting", "has a timeout around"]
)
def test_whatever_the_body_does_it_raises_the_error(make_loop: LoopMaker, riding: Riding, body: str) -> None:
    steps: list[str] = []

    async def serve() -> None:
        async with make_loop() as loop:
            sup = doomed(loop)
            loop.send(id_of(sup, "a"), crash)
            if body == "ends without waiting":
                for _ in range(5):
                    await asyncio.sleep(0)
                return
            try:
                async with asyncio.timeout(3600):
                    await asyncio.Event().wait()
            except asyncio.CancelledError:
                steps.append("caught")
                if body == "raises its own error":
                    raise ValueError("the body's own") from None
                if body == "has a timeout around":
                    raise
            await asyncio.sleep(0)
            with pytest.raises(LoopClosedError):
                loop.spawn(idle)

    async def main() -> None:
        with pytest.raises(RestartLimitError) as caught:
            await serve()
        if body == "raises its own error":
            assert isinstance(caught.value.__context__, ValueError), "it is not lost"
        await asyncio.sleep(0)
        steps.append("after")

    riding(main())
    assert steps == (["after"] if body == "ends without waiting" else ["caught", "after"])


def test_another_cancellation_at_the_same_time_is_not_swallowed(make_loop: LoopMaker, riding: Riding) -> None:
    outcome: list[str] = []

    async def inner() -> None:
        async with make_loop() as loop:
            sup = doomed(loop)
            loop.send(id_of(sup, "a"), crash)
            await asyncio.Event().wait()

    async def main() -> None:
        task = asyncio.create_task(inner())
        await asyncio.sleep(0)
        task.cancel()
        try:
            await task
        except RestartLimitError:
            outcome.append("gave up")
        except asyncio.CancelledError:
            outcome.append("cancelled")
        assert task.done()

    riding(main())
    assert outcome in (["gave up"], ["cancelled"])


def test_in_a_task_group_it_comes_out_of_the_group(make_loop: LoopMaker, riding: Riding) -> None:
    async def serve() -> None:
        async with make_loop() as loop:
            sup = doomed(loop)
            loop.send(id_of(sup, "a"), crash)
            await asyncio.Event().wait()

    async def grouped() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(serve())
            group.create_task(asyncio.Event().wait())

    async def main() -> None:
        with pytest.raises(BaseExceptionGroup) as caught:
            # In a task of its own: the group of Python 3.11 does not take back its cancellation of the task around it.
            await asyncio.create_task(grouped())
        assert [type(error) for error in caught.value.exceptions] == [RestartLimitError]

    riding(main())


@pytest.mark.guarantee("G28")
@pytest.mark.parametrize("goes_on", ["awaits", "ends"])
def test_a_body_that_polls_by_hand_gets_it_there_and_is_not_cancelled_afterwards(
    make_loop: LoopMaker, riding: Riding, goes_on: str
) -> None:
    async def main() -> None:
        async with make_loop() as loop:
            sup = doomed(loop)
            loop.send(id_of(sup, "a"), crash)
            with pytest.raises(RestartLimitError):
                settle(loop)
            if goes_on == "awaits":
                await asyncio.sleep(0)
        await asyncio.sleep(0)

    riding(main())


# --- with a parent       ------------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G22", "G42")
@pytest.mark.parametrize("how", ["kill", "stop"])
def test_a_root_that_is_ended_on_request_is_no_give_up(loop: Loop, how: str) -> None:
    sup = doomed(loop)
    end = sup.stop if how == "stop" else lambda: loop.kill_actor(sup.actor)
    call_in(loop, loop.spawn(run_message), lambda ctx: end())
    loop.run(until_idle=True)
    assert sup.outcome is None
    assert loop.status(sup.actor) >= ActorStatus.STOPPED
    assert loop.spawn(idle), "the loop continues"


def test_the_error_for_a_permanent_child_that_keeps_exiting_normally_says_what_to_do(loop: Loop) -> None:
    def done(ctx: Context[Any], data: object) -> Verdict:
        return STOP

    tree = supervise(loop, ChildSpec("job", done), max_restarts=0)
    loop.send(tree.address("job"), None)
    with pytest.raises(RestartLimitError, match="make it transient"):
        loop.run(until_idle=True)
