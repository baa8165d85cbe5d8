"""Loops with typed actors, in virtual time: a pool knows no event loop, so any kind will do."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bandstand.actor import ActorSystem
from bandstand.testing import VirtualClock
from tests.loops import clock, diary, loops_of

__all__ = ("clock", "diary", "loop")


@pytest.fixture
def loop(clock: VirtualClock) -> Iterator[ActorSystem]:
    with loops_of(ActorSystem, clock, clock.new_event_loop) as make:
        yield make()
