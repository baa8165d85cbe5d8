"""The time of the tests of parts."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bandstand.testing import VirtualClock


@pytest.fixture
def now(bandstand_clock: VirtualClock) -> Callable[[], float]:
    """Return the virtual seconds since the start of the test."""
    start = bandstand_clock.now_ns()
    return lambda: (bandstand_clock.now_ns() - start) / 1e9
