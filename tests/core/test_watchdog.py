"""The stall watchdog: it reports a behavior that blocks the thread while it blocks."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from time import monotonic
from typing import Any

import pytest

from bandstand.core import ActorId, Context, Loop
from bandstand.core.logs import SafeLogger
from bandstand.core.watchdog import Watchdog
from tests.core.support import PATIENCE, HostFactory, LoopMaker, StallListener, idle, until

STALL_S = 0.02

pytestmark = [
    pytest.mark.guarantee("G39"),
    pytest.mark.real_time(reason="a thread is blocked for real, for a few times 20 ms"),
]


def watchdogs() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if "watchdog" in thread.name]


class Letter:
    """The message that stalls; its type is named."""


def a_function_that_blocks(stalls: StallListener) -> None:
    """Block the thread until the watchdog has said so."""
    assert stalls.heard.acquire(timeout=PATIENCE), "the watchdog said nothing"


# --- a stall is named -----------------------------------------------------------------------------------------------------


def blocks(ctx: Context[StallListener], data: object) -> None:
    a_function_that_blocks(ctx.state)


async def blocks_at_once(ctx: Context[StallListener], data: object) -> None:
    a_function_that_blocks(ctx.state)


async def blocks_later(ctx: Context[StallListener], data: object) -> None:
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    a_function_that_blocks(ctx.state)


async def blocks_in_its_clean_up(ctx: Context[StallListener], data: object) -> None:
    ctx.loop.send(ctx.loop.spawn(lambda ctx, data: ctx.loop.stop_actor(data)), ctx.self_id)
    try:
        await asyncio.Event().wait()
    finally:
        a_function_that_blocks(ctx.state)


async def does_nothing(ctx: Context[Any], data: object) -> None:
    pass


@pytest.fixture(params=["run", "async with"])
def drive(request: pytest.FixtureRequest, loop_factory: HostFactory) -> Callable[[Loop], None]:
    if request.param == "run":
        return lambda loop: loop.run(until_idle=True)

    async def main(loop: Loop) -> None:
        async with loop:
            await until(lambda: not (loop.statistics().ready or loop.statistics().in_flight))

    def guest(loop: Loop) -> None:
        with asyncio.Runner(loop_factory=loop_factory) as runner:
            runner.run(main(loop))

    return guest


@pytest.mark.parametrize("warmed", [False, True], ids=["first message", "later message"])
@pytest.mark.parametrize(
    "behavior",
    [blocks, blocks_at_once, blocks_later, blocks_in_its_clean_up],
    ids=lambda behavior: behavior.__name__,
)
def test_a_stall_is_reported(
    make_loop: LoopMaker, drive: Callable[[Loop], None], stalls: StallListener, behavior: Any, warmed: bool
) -> None:
    loop = make_loop(stall_timeout=STALL_S)
    if warmed:
        for kind in (idle, does_nothing):
            loop.send(loop.spawn(kind), None)
    actor = loop.spawn(behavior, stalls, name="sleepy")
    loop.send(actor, Letter())
    drive(loop)
    assert loop.statistics().ended_panic == 0, "it waited for the report, in vain"
    (report,) = stalls.reports
    for part in (
        repr(actor),
        "sleepy",
        "Letter",
        f"{STALL_S} s",
        behavior.__name__,
        a_function_that_blocks.__name__,
    ):
        assert part in report


def test_each_message_that_stalls_is_reported_once(make_loop: LoopMaker, stalls: StallListener) -> None:
    loop = make_loop(stall_timeout=STALL_S)
    first, second = loop.spawn(blocks, stalls, name="number one"), loop.spawn(blocks, stalls)
    for actor in (first, second, first):
        loop.send(actor, Letter())
    loop.run(until_idle=True)
    assert len(stalls.reports) == 3
    # The second report of one actor is a line without the stack.
    stacks = ["the stack is" in report for report in stalls.reports if "number one" in report]
    assert stacks == [True, False]
    assert sum("number one" in report for report in stalls.reports) == 2
    assert sum("(unnamed)" in report for report in stalls.reports) == 1


def test_a_coroutine_that_waits_blocks_nobody(make_loop: LoopMaker, seen: list[bool]) -> None:
    # Looks inside, at what the watchdog sees: a stall that is not reported proves little.
    loop = make_loop(stall_timeout=60.0)

    def look() -> bool:
        deadline = monotonic() + PATIENCE
        while loop.kernel.current_message()[1] is not None:
            if monotonic() > deadline:
                return False
        return True

    async def waiting(ctx: Context[Any], data: object) -> None:
        for _ in range(3):
            assert loop.kernel.current_message()[1:] == (ctx.self_id, "patient", data)
            seen.append(await asyncio.to_thread(look))

    loop.send(loop.spawn(waiting, name="patient"), Letter())
    loop.run(until_idle=True)
    assert seen == [True] * 3


def test_the_thread_ends_with_the_loop(make_loop: LoopMaker, drive: Callable[[Loop], None]) -> None:
    seen: list[int] = []
    loop = make_loop(stall_timeout=1.0)
    assert watchdogs() == []
    loop.send(loop.spawn(lambda ctx, data: seen.append(len(watchdogs()))), None)
    drive(loop)
    assert seen == [1]
    assert watchdogs() == []


def test_it_is_off_by_default(
    make_loop: LoopMaker, drive: Callable[[Loop], None], stalls: StallListener, seen: list[int]
) -> None:
    before = threading.active_count()
    blocked: list[bool] = []
    loop = make_loop()

    def look(ctx: Context[Any], data: object) -> None:
        seen.append(threading.active_count())
        blocked.append(stalls.heard.acquire(timeout=5 * STALL_S))

    loop.send(loop.spawn(look), None)
    drive(loop)
    assert seen == [before]
    assert blocked == [False]


# --- by itself: what it makes of what it sees -----------------------------------------------------------------------------


class View:
    """What a watchdog sees, look by look; the last one stays."""

    def __init__(self, *looks: tuple[int, ActorId | None, str | None, object]) -> None:
        self._looks = looks
        self.count = 0
        self.is_enough = threading.Event()

    def __call__(self) -> tuple[int, ActorId | None, str | None, object]:
        self.count += 1
        if self.count == 100:
            self.is_enough.set()
        return self._looks[min(self.count, len(self._looks)) - 1]


def watch(view: View) -> None:
    """Have a watchdog look a hundred times."""
    watchdog = Watchdog(
        view, STALL_S / 10, SafeLogger("bandstand.core"), lambda _actor, _name, data: type(data).__name__
    )
    assert view.is_enough.wait(PATIENCE)
    watchdog.stop()
    assert watchdogs() == []


def test_the_watchdog_by_itself(loop: Loop, stalls: StallListener) -> None:
    actor = loop.spawn(idle)
    watch(View((7, None, None, None)))
    assert stalls.reports == [], "an idle loop is no stall"
    watch(View(*((number, actor, "busy", Letter()) for number in range(100)), (100, None, None, None)))
    assert stalls.reports == [], "quick messages are no stall, however many"
    looks: list[tuple[int, ActorId | None, str | None, object]] = []
    for number in range(20):
        looks += [(number, actor, "busy", Letter())] * 2 + [(number, None, None, None)] * 5
    watch(View(*looks))
    assert stalls.reports == [], "a stall after a pause counts from its own beginning"
    watch(View((1, actor, "endless", Letter())))
    assert len(stalls.reports) == 1, "a message that never ends is reported once"
    assert "endless" in stalls.reports[0]
