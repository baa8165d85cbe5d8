"""Async tests run in virtual time, or on the event loop of the lane if they use the fixture `lane_loop`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from bandstand.testing import VirtualClock
from tests.async_tests import bandstand_system, pytest_itemcollected
from tests.bus.adapters import VenueMaker, venue_of
from tests.bus.socket_clients import Hall, HallMaker
from tests.bus.virtual_node import Stages, staging
from tests.core.support import HostFactory

__all__ = ("bandstand_system", "pytest_itemcollected")


@pytest.fixture
def venues(loop_factory: HostFactory, tmp_path: Path) -> VenueMaker:
    """Make venues of a kind, in a directory of their own: `with venues("unix", window=3) as venue`."""
    return partial(venue_of, factory=loop_factory, directory=tmp_path)


@pytest.fixture
def halls(loop_factory: HostFactory, tmp_path: Path) -> Iterator[HallMaker]:
    """Make halls of a kind: `halls("unix", config=NodeConfig(...))`. At the end nothing may be in flight there."""
    with ExitStack() as stack:

        def make(kind: str, **options: Any) -> Hall:
            hall = Hall(kind, loop_factory, tmp_path, **options)
            stack.callback(hall.end)
            stack.callback(hall.until_quiet)
            stack.callback(hall.wake)
            return hall

        yield make


@pytest.fixture
def stages(bandstand_clock: VirtualClock) -> Stages:
    """Make nodes in virtual time: `async with stages(Player, max_timers=1) as stage`."""
    return partial(staging, bandstand_clock)


@pytest.fixture
def lane_loop() -> None:
    """Have the test run in real time."""


@pytest.fixture
def bandstand_loop_factory(
    request: pytest.FixtureRequest, bandstand_clock: VirtualClock, loop_factory: HostFactory
) -> HostFactory:
    return loop_factory if "lane_loop" in request.fixturenames else bandstand_clock.new_event_loop
