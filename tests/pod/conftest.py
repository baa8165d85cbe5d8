"""No test of pods leaves a thread, a descriptor or a process behind."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from time import monotonic

import pytest

from tests.async_tests import bandstand_loop_factory, bandstand_system, pytest_itemcollected

__all__ = ("bandstand_loop_factory", "bandstand_system", "pytest_itemcollected")

# How long a process that is just ending may take, in seconds.
PATIENCE = 5.0


@pytest.fixture(autouse=True)
def nothing_left(bandstand_leak_check: None) -> Iterator[None]:
    before = children()
    yield
    end = monotonic() + PATIENCE
    while (left := children() - before) and monotonic() < end:
        os.sched_yield()
    if left:
        pytest.fail(f"the test has left processes behind: {sorted(left)}", pytrace=False)


def children() -> set[int]:
    """The processes that this one has started and not reaped, whichever thread did."""
    tasks = Path("/proc/self/task").glob("*/children")
    found: set[int] = set()
    for path in tasks:
        try:
            found.update(map(int, path.read_text().split()))
        except OSError:
            # That thread has just ended.
            continue
    return found
