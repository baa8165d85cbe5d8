"""The fixtures of `tests/loops.py`, with loops that have typed actors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from bandstand.actor import ActorSystem
from bandstand.testing import VirtualClock
from tests.core.support import HostFactory
from tests.loops import clock, diary, loops_of

__all__ = ("clock", "diary", "loop", "make_loop")

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
