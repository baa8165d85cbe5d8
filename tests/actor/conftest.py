"""The fixtures of `tests/loops.py`, with loops that have typed actors."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from bandstand.actor import ActorSystem
from bandstand.testing import VirtualClock
from tests.actor.asking import RunSystem, run_in, run_system
from tests.actor.players import Book, ride
from tests.core.support import HostFactory, check_statistics
from tests.loops import clock, diary, loops_of

__all__ = (
    "book",
    "clock",
    "diary",
    "log",
    "loop",
    "make_loop",
    "run_everywhere",
    "run_virtual",
    "system",
    "system_clock",
    "virtual_system",
)

LoopMaker = Callable[..., ActorSystem]


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run an `async def` test inside its `system`, `virtual_system` or `loop`."""
    test = pyfuncitem.obj
    if not inspect.iscoroutinefunction(test):
        return None
    values: dict[str, Any] = pyfuncitem.funcargs
    body = partial(test, **{name: values[name] for name in inspect.signature(test).parameters})
    if "system" in values:
        is_virtual = values["system_clock"] is values["clock"]
        factory = None if is_virtual else values["loop_factory"]
        run_in(values["system"], lambda _: body(), values["system_clock"], factory)
    elif "virtual_system" in values:
        run_in(values["virtual_system"], lambda _: body(), values["clock"])
    else:
        ride(values["loop"], body)
    return True


@pytest.fixture
def make_loop(clock: VirtualClock, loop_factory: HostFactory) -> Iterator[LoopMaker]:
    """Make loops with config fields as keywords, `clock=` for another clock, and `carry_context=`."""

    with loops_of(ActorSystem, clock, loop_factory) as make:

        def make_typed(carry_context: bool = True, **fields: Any) -> ActorSystem:
            return make(options={"carry_context": carry_context}, **fields)

        yield make_typed


@pytest.fixture
def loop(make_loop: LoopMaker) -> Iterator[ActorSystem]:
    """A loop whose counters balance at the end of the test, and again when it is destroyed."""
    loop = make_loop()
    yield loop
    check_statistics(loop)


@pytest.fixture
def book() -> Book:
    """What the actors of a test record."""
    return []


@pytest.fixture
def log() -> list[str]:
    """The same, in words."""
    return []


@pytest.fixture
def run_virtual(clock: VirtualClock) -> RunSystem:
    """`run_system` in virtual time."""
    return partial(run_system, clock=clock)


@pytest.fixture(params=["virtual time", "event loop of the lane"])
def run_everywhere(
    request: pytest.FixtureRequest, run_virtual: RunSystem, loop_factory: HostFactory
) -> RunSystem:
    """`run_system` in virtual time, and on the event loop of the lane."""
    return run_virtual if request.param == "virtual time" else partial(run_system, loop_factory=loop_factory)


@pytest.fixture
def virtual_system(clock: VirtualClock) -> ActorSystem:
    """The system in which an `async def` test runs, in virtual time. Its counters are checked at the end."""
    return ActorSystem(clock=clock)


@pytest.fixture(params=["virtual time", "event loop of the lane"])
def system_clock(request: pytest.FixtureRequest, clock: VirtualClock) -> VirtualClock:
    """The clock of `system`. On the event loop of the lane no time passes for the timers."""
    return clock if request.param == "virtual time" else VirtualClock(autojump=False)


@pytest.fixture
def system(system_clock: VirtualClock, loop_factory: HostFactory) -> ActorSystem:
    """The same in virtual time, and on the event loop of the lane."""
    return ActorSystem(clock=system_clock)
