"""For all tests: check the mode that the lane demands, choose the event loop, and forbid real sleeping.

A lane sets BANDSTAND_TEST_MODE (compiled or interpreted) and BANDSTAND_TEST_LOOP (uvloop or asyncio). The run refuses to start in another mode, or if an extension is stale.
"""

from __future__ import annotations

import asyncio
import gc
import inspect
import os
import signal
import sys
import time
from collections.abc import Callable, Coroutine, Generator, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from bandstand import _build_mode

pytest_plugins = ("pytester",)

# No deadline for single examples: it would only measure how busy the machine is. A failure prints how to repeat it.
settings.register_profile(
    "suite", deadline=None, print_blob=True, max_examples=50, suppress_health_check=[HealthCheck.too_slow]
)
# For all lanes except the first: see tools/lanes.py.
settings.register_profile("brief", settings.get_profile("suite"), max_examples=12)
settings.register_profile("thorough", settings.get_profile("suite"), max_examples=1000)
settings.load_profile(os.environ.get("BANDSTAND_TEST_PROFILE", "suite"))


# --- the lane ---------------------------------------------------------------------------------------------------------


def pytest_configure(config: pytest.Config) -> None:
    # A shell without job control ignores SIGINT in background jobs, and every child process inherits that.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    demanded = os.environ.get("BANDSTAND_TEST_MODE")
    if demanded not in {None, "compiled", "interpreted"}:
        raise pytest.UsageError(f"BANDSTAND_TEST_MODE is {demanded!r}: it must be compiled or interpreted")
    if loop_name() not in {"uvloop", "asyncio"}:
        raise pytest.UsageError(f"BANDSTAND_TEST_LOOP is {loop_name()!r}: it must be uvloop or asyncio")
    if demanded and demanded != _build_mode.mode():
        raise pytest.UsageError(
            f"this lane demands {demanded} modules, but they run {_build_mode.mode()} "
            f"(compiled: {', '.join(sorted(_build_mode.compiled_modules())) or 'none'})"
        )
    if stale := _build_mode.stale_modules():
        raise pytest.UsageError(
            f"stale extensions, compiled from other sources: {', '.join(sorted(stale))}; build again"
        )


def pytest_collection_finish() -> None:
    freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, Any, Any]:
    result = yield
    if nextitem is None or nextitem.path != item.path:
        freeze()
    return result


def freeze() -> None:
    """Freeze the objects that live until the end, such as tests and their reports: garbage collections then skip them.

    Hundreds of tests collect garbage to check that something is freed, some of them for every hypothesis example. At the end of each
    file, what its tests and fixtures made is gone, and what is left are a few more objects of pytest and of modules.
    """
    gc.collect()
    gc.freeze()


def pytest_report_header() -> str:
    return f"bandstand: {len(_build_mode.modules_with_pxd())} modules with a .pxd, {_build_mode.mode()}; {loop_name()} event loop"


def loop_name() -> str:
    return os.environ.get("BANDSTAND_TEST_LOOP", "asyncio")


@pytest.fixture(scope="session")
def loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    """The factory of this lane's event loop, for `asyncio.Runner(loop_factory=...)` and the like."""
    if loop_name() == "uvloop":
        import uvloop

        return uvloop.new_event_loop
    return asyncio.new_event_loop


# --- no real sleeping -------------------------------------------------------------------------------------------------


class RealSleepError(AssertionError):
    """A test slept for real."""


@pytest.fixture(autouse=True)
def no_real_sleep(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Fail a test that calls `time.sleep`, or `asyncio.sleep` on an event loop in real time.

    A test may wait for a real file descriptor, thread or process with a deadline, so calls from the standard library are
    allowed (`Popen.wait` sleeps). The call raises, and the test fails even if the exception is caught: supervisors catch
    exceptions.
    """
    marker = request.node.get_closest_marker("real_time")
    if marker is not None:
        if not marker.kwargs.get("reason"):
            pytest.fail('real_time needs a reason: @pytest.mark.real_time(reason="...")', pytrace=False)
        yield
        return
    sleep, asyncio_sleep = time.sleep, asyncio.sleep
    caught: list[str] = []

    def refuse(what: str) -> None:
        text = (
            f"{what} really sleeps: use virtual time, wait for the event itself, or mark the test real_time"
        )
        caught.append(text)
        raise RealSleepError(text)

    def guarded(seconds: float) -> None:
        if not _called_by_standard_library():
            refuse(f"time.sleep({seconds!r})")
        sleep(seconds)

    def guarded_asyncio(delay: float, result: Any = None) -> Coroutine[Any, Any, Any]:
        if delay > 0 and not _called_by_standard_library():
            running = asyncio.get_running_loop()
            if not getattr(running, "virtual_time", False):
                refuse(f"asyncio.sleep({delay!r})")
        return asyncio_sleep(delay, result)

    monkeypatch.setattr(time, "sleep", guarded)
    monkeypatch.setattr(asyncio, "sleep", guarded_asyncio)
    monkeypatch.setattr(asyncio.tasks, "sleep", guarded_asyncio)
    yield
    if caught:
        pytest.fail(caught[0], pytrace=False)


def _called_by_standard_library() -> bool:
    frame = inspect.currentframe()
    for _ in range(2):
        frame = frame.f_back if frame else None
    name = str(frame.f_globals.get("__name__", "")) if frame else ""
    return name.partition(".")[0] in sys.stdlib_module_names
