"""Async tests run in virtual time, or on the event loop of the lane if they use the fixture `lane_loop`."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from bandstand.testing import VirtualClock
from tests.async_tests import bandstand_system, pytest_itemcollected
from tests.bus.adapters import VenueMaker, venue_of
from tests.core.support import HostFactory

__all__ = ("bandstand_system", "pytest_itemcollected")


@pytest.fixture
def venues(loop_factory: HostFactory, tmp_path: Path) -> VenueMaker:
    """Make venues of a kind, in a directory of their own: `with venues("unix", window=3) as venue`."""
    return partial(venue_of, factory=loop_factory, directory=tmp_path)


@pytest.fixture
def lane_loop() -> None:
    """Have the test run in real time."""


@pytest.fixture
def bandstand_loop_factory(
    request: pytest.FixtureRequest, bandstand_clock: VirtualClock, loop_factory: HostFactory
) -> HostFactory:
    return loop_factory if "lane_loop" in request.fixturenames else bandstand_clock.new_event_loop
