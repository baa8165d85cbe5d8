"""Fixtures. An `async def` test runs on the event loop of the lane, with the loop of the test attached.

The marker `virtual_time` runs a test on the clock's own event loop, so that the time of asyncio is virtual on every lane; `no_loop`
does the same without an attached loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext

import pytest

from bandstand.core import Loop
from bandstand.testing import VirtualClock
from tests.async_tests import pytest_itemcollected
from tests.core.support import HostFactory
from tests.loops import clock, diary, loop, make_loop
from tests.scope.support import check_nothing_left, iterate

__all__ = ("clock", "diary", "loop", "make_loop", "pytest_itemcollected")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "virtual_time: an async test in virtual time on every lane")
    config.addinivalue_line("markers", "no_loop: an async test in virtual time without an attached loop")


def has_marker(request: pytest.FixtureRequest, *names: str) -> bool:
    return any(request.node.get_closest_marker(name) is not None for name in names)


@pytest.fixture
def bandstand_loop_factory(
    request: pytest.FixtureRequest, clock: VirtualClock, loop_factory: HostFactory
) -> HostFactory:
    is_asyncio = loop_factory is asyncio.new_event_loop
    return (
        clock.new_event_loop if is_asyncio or has_marker(request, "virtual_time", "no_loop") else loop_factory
    )


@pytest.fixture
def bandstand_system(request: pytest.FixtureRequest) -> AbstractAsyncContextManager[object]:
    return nullcontext() if has_marker(request, "no_loop") else attached(request.getfixturevalue("loop"))


@asynccontextmanager
async def attached(loop: Loop) -> AsyncGenerator[Loop]:
    """Attach the loop; at the end, nothing may be left in it."""
    async with loop:
        yield loop
        check_nothing_left(loop)
        # Nothing comes late, either.
        await iterate()
        check_nothing_left(loop)
