"""For a conftest: `async def` tests that start their loops and systems themselves run on the event loop of the lane."""

from __future__ import annotations

import inspect
from contextlib import AbstractAsyncContextManager, nullcontext

import pytest

from tests.core.support import HostFactory

__all__ = ("bandstand_loop_factory", "bandstand_system", "pytest_itemcollected")


def pytest_itemcollected(item: pytest.Item) -> None:
    """Have the plugin of bandstand run every async test below this folder."""
    if isinstance(item, pytest.Function) and inspect.iscoroutinefunction(item.obj):
        item.fixturenames += ["bandstand_run", "bandstand_system"]


@pytest.fixture
def bandstand_loop_factory(loop_factory: HostFactory) -> HostFactory:
    return loop_factory


@pytest.fixture
def bandstand_system() -> AbstractAsyncContextManager[object]:
    return nullcontext()
