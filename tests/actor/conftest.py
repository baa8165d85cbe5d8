"""The fixtures of `tests/loops.py`, with loops that have typed actors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from bandstand.actor import ActorSystem
from bandstand.testing import VirtualClock
from tests.actor.asking import RunSystem, run_system
from tests.core.support import HostFactory
from tests.loops import clock, diary, loops_of

__all__ = ("clock", "diary", "loop", "make_loop", "run_everywhere", "run_virtual")

LoopMaker = Callable[..., ActorSystem]


@pytest.fixture
def make_loop(clock: VirtualClock, loop_factory: HostFactory) -> Iterator[LoopMaker]:
    """Make loops with config fields as keywords, `clock=` for another clock, and `carry_context=`."""

    with loops_of(ActorSystem, clock, loop_factory) as make:

        def make_typed(carry_context: bool = True, **fields: Any) -> ActorSystem:
            return make(options={"carry_context": carry_context}, **fields)

        yield make_typed


@pytest.fixture
def loop(make_loop: LoopMaker) -> ActorSystem:
    return make_loop()


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
