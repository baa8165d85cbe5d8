"""For a conftest: `async def` tests run in the `async with` block of the fixture `loop`, on an event loop of the kind it makes."""

from __future__ import annotations

import pytest

from bandstand.actor import ActorSystem
from tests.async_tests import pytest_itemcollected
from tests.core.support import HostFactory

__all__ = ("bandstand_loop_factory", "bandstand_system", "pytest_itemcollected")


@pytest.fixture
def bandstand_loop_factory(loop: ActorSystem) -> HostFactory:
    assert loop.config.loop_factory is not None
    return loop.config.loop_factory


@pytest.fixture
def bandstand_system(loop: ActorSystem) -> ActorSystem:
    return loop
