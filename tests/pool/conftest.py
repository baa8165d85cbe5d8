"""Loops with typed actors, in virtual time: a pool knows no event loop, so any kind will do."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bandstand.actor import ActorSystem
from bandstand.testing import VirtualClock
from tests.in_loop import bandstand_loop_factory, bandstand_system, pytest_itemcollected
from tests.loops import clock, diary, loops_of

__all__ = ("bandstand_loop_factory", "bandstand_system", "clock", "diary", "loop", "pytest_itemcollected")


@pytest.fixture
def loop(clock: VirtualClock) -> Iterator[ActorSystem]:
    with loops_of(ActorSystem, clock, clock.new_event_loop) as make:
        yield make()
