"""A loop that has failed can be destroyed, and what log handlers raise fails only their actor."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from bandstand.core import Context, Loop
from bandstand.errors import InternalError, LoopBusyError
from tests.core.support import BreakableClock, LoopMaker, collect, idle, panicker, settle

pytestmark = pytest.mark.guarantee("G271")


class Sly(Exception):  # noqa: N818 -- it is
    """An exception that raises when it is asked for its class."""

    @property  # type: ignore[misc]  # it is read-only
    def __class__(self) -> type:  # pyright: ignore[reportIncompatibleVariableOverride, reportIncompatibleMethodOverride]  # on purpose
        raise ValueError("sly")


def raises(ctx: Context[Any], data: object) -> None:
    raise Sly


async def raises_later(ctx: Context[Any], data: object) -> None:
    await asyncio.sleep(0)
    raise Sly


async def raises_in_a_coroutine(ctx: Context[Any], data: object) -> None:
    raise Sly


@pytest.mark.parametrize("behavior", [raises, raises_in_a_coroutine, raises_later])
def test_an_exception_with_a_broken_class(make_loop: LoopMaker, behavior: Callable[..., Any]) -> None:
    loop = make_loop()
    seen: list[object] = []
    loop.send(loop.spawn(behavior), "x")
    loop.run(until_idle=True)
    loop.send(loop.spawn(collect, seen), "others go on")
    loop.run(until_idle=True)
    assert seen == ["others go on"]
    assert loop.statistics().ended_panic == 1
    loop.destroy()


def drive(loop: Loop, way: str) -> None:
    if way == "run":
        loop.run(until_idle=True)
    for _ in range(100):
        loop.poll_once()


@pytest.mark.parametrize("after", range(12))
@pytest.mark.parametrize("way", ["run", "poll_once"])
def test_a_loop_whose_clock_breaks_can_be_destroyed(make_loop: LoopMaker, after: int, way: str) -> None:
    clock = BreakableClock()
    loop = make_loop(clock=clock)

    def work(ctx: Context[Any], data: int) -> None:
        clock.clock.advance(0.001)
        if data:
            ctx.loop.send(ctx.self_id, data - 1)
            ctx.loop.send(other, data - 1)

    actor, other = loop.spawn(work), loop.spawn(idle)
    for _ in range(20):
        loop.send(actor, 3)
    clock.break_with(ValueError("no time"), after=after)
    with pytest.raises(InternalError, match="no time"):
        drive(loop, way)
    # It is no failure of the actor in whose visit the clock was read.
    assert loop.statistics().ended_panic == 0
    loop.destroy()
    assert repr(loop).startswith("<Loop destroyed")


def test_a_loop_whose_scheduler_breaks_can_be_destroyed(make_loop: LoopMaker) -> None:
    def pick(_count: int) -> int:
        raise Sly

    loop = make_loop()
    loop.kernel.pick_next = pick
    loop.send(loop.spawn(idle), "x")
    with pytest.raises(InternalError, match="Sly"):
        loop.run(until_idle=True)
    loop.destroy()


def test_a_loop_that_could_not_be_entered(make_loop: LoopMaker, monkeypatch: pytest.MonkeyPatch) -> None:
    loop = make_loop(stall_timeout=1.0)
    loop.send(loop.spawn(idle), "x")

    def no_thread(_self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", no_thread)
        with pytest.raises(RuntimeError, match="new thread"):
            loop.run(until_idle=True)
    loop.run(until_idle=True)
    assert loop.statistics().handled == 1
    loop.destroy()


class Breaks(logging.Handler):
    """Raises what it was given, for each record."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error

    def emit(self, record: logging.LogRecord) -> None:
        raise self.error


@pytest.fixture
def breaks() -> Iterator[Breaks]:
    handler = Breaks(ValueError("the disk is full"))
    logger = logging.getLogger("bandstand")
    logger.addHandler(handler)
    yield handler
    logger.removeHandler(handler)


class Raising:
    """An observer all of whose hooks raise."""

    def on_actor_start(self, id: object, name: object) -> None:  # noqa: A002 -- the hook's own name
        raise ValueError("hook")

    def on_actor_stop(self, id: object, reason: object) -> None:  # noqa: A002 -- the hook's own name
        raise ValueError("hook")

    def on_dead_letter(self, *letter: object) -> None:
        raise ValueError("hook")


def fill_with_trouble(loop: Loop) -> None:
    """Have everything happen of which a loop writes a line."""

    def listener(_event: object) -> None:
        raise ValueError("listener")

    loop.set_observer(Raising())
    loop.events.listen(listener)
    for behavior in (panicker, raises, raises_later):
        actor = loop.spawn(behavior)
        loop.send(actor, "x")
        loop.send(actor, "a dead letter")


def test_a_log_handler_that_raises_does_not_end_the_loop(make_loop: LoopMaker, breaks: Breaks) -> None:
    loop = make_loop()
    fill_with_trouble(loop)
    loop.run(until_idle=True)
    seen: list[object] = []
    loop.send(loop.spawn(collect, seen), "others go on")
    settle(loop)
    assert seen == ["others go on"]
    loop.destroy()


def run_with_trouble(loop: Loop) -> None:
    fill_with_trouble(loop)
    loop.run(until_idle=True)


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_in_a_log_handler(
    make_loop: LoopMaker, breaks: Breaks, error: type[BaseException]
) -> None:
    loop = make_loop()
    breaks.error = error()
    with pytest.raises(error):
        run_with_trouble(loop)
    breaks.error = ValueError()
    try:
        loop.destroy()
    except LoopBusyError:
        pytest.fail("the loop is busy for ever")
