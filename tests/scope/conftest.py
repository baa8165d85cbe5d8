"""Fixtures, and a runner for `async def` tests: on the event loop of the lane, with the loop of the test attached.

The marker `virtual_time` runs a test on the clock's own event loop, so that the time of asyncio is virtual on every lane; `no_loop`
does the same without an attached loop. After a test marked `leaves_nothing`, no task and no actor may be left.
"""

from __future__ import annotations

import asyncio
import inspect
from contextlib import nullcontext
from typing import Any

import pytest

from tests.loops import clock, diary, loop, make_loop
from tests.scope.support import check_nothing_left, iterate

__all__ = ("clock", "diary", "loop", "make_loop")


def pytest_configure(config: pytest.Config) -> None:
    for marker in ("virtual_time", "no_loop", "leaves_nothing"):
        config.addinivalue_line("markers", f"{marker}: see tests/scope/conftest.py")


def is_async(item: pytest.Function) -> bool:
    return inspect.iscoroutinefunction(item.obj)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if isinstance(item, pytest.Function) and is_async(item):
            names = item.fixturenames
            names += [name for name in ("clock", "loop", "loop_factory") if name not in names]


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run an `async def` test."""
    if not is_async(pyfuncitem):
        return None
    test: Any = pyfuncitem.obj
    values: dict[str, Any] = dict(pyfuncitem.funcargs)
    arguments = {name: values[name] for name in inspect.signature(test).parameters}
    markers = {mark.name for mark in pyfuncitem.iter_markers()}
    factory = values["loop_factory"]
    if markers & {"no_loop", "virtual_time"} or factory is asyncio.new_event_loop:
        factory = values["clock"].new_event_loop
    unhandled: list[dict[str, Any]] = []

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _host, context: unhandled.append(context))
        async with nullcontext() if "no_loop" in markers else values["loop"]:
            await test(**arguments)
            if "leaves_nothing" in markers:
                check_nothing_left(values["loop"])
                # Nothing comes late, either.
                await iterate()
                check_nothing_left(values["loop"])

    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(main())
    assert unhandled == []
    return True
