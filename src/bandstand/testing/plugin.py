"""The pytest plugin: fixtures for virtual time, loops, probes, seeds and leak checks. pytest loads it by its entry point.

It runs an `async def` test that uses `bandstand_system`, and no other test. So it works together with the plugins of pytest-asyncio and
anyio, and does not touch their event loops. It imports the runtime when a fixture is used: a test suite that uses none does not pay for it.

The leak check runs after all fixtures of a test are torn down, so that other plugins and fixtures have closed what they
opened for the test. What a fixture of a wider scope opens does not count as a leak of the test that set it up.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from random import SystemRandom
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    import asyncio

    from bandstand.actor import ActorSystem
    from bandstand.core import LoopConfig
    from bandstand.testing.leaks import Leaks
    from bandstand.testing.probe import Probe
    from bandstand.testing.virtual_time import VirtualClock

SEED: pytest.StashKey[int] = pytest.StashKey()
SNAPSHOT: pytest.StashKey[Leaks] = pytest.StashKey()
LEAKS: pytest.StashKey[list[str]] = pytest.StashKey()


# -- hooks -------------------------------------------------------------------------------------------------------------


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--bandstand-seed`."""
    group = parser.getgroup("bandstand", "bandstand, actors")
    group.addoption(
        "--bandstand-seed",
        type=int,
        default=None,
        help="the seed for bandstand_seed and bandstand_shuffled; a failing test prints its seed",
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Print the seed of a test that failed."""
    report = yield
    if report.failed and SEED in item.stash:
        hint = f"to repeat this run: pytest '{item.nodeid}' --bandstand-seed={item.stash[SEED]}"
        report.sections.append(("bandstand", hint))
    return report


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
) -> Generator[None, object, object]:
    """Do not report what a fixture of a wider scope opens as a leak of the test."""
    stash = request.config.stash
    if fixturedef.scope == "function" or SNAPSHOT not in stash:
        return (yield)
    from bandstand.testing.leaks import Leaks

    before = Leaks.now()
    try:
        return (yield)
    finally:
        stash[SNAPSHOT] = stash[SNAPSHOT].allowing(before, Leaks.now())


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, None, None]:
    """Fail a test that left something behind, after all of its fixtures are torn down."""
    stash = item.config.stash
    try:
        yield
        found = item.stash.setdefault(LEAKS, [])
        if SNAPSHOT in stash:
            found += stash[SNAPSHOT].since()
    finally:
        if SNAPSHOT in stash:
            del stash[SNAPSHOT]
    if found:
        pytest.fail("the test left something behind: " + "; ".join(found), pytrace=False)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run an `async def` test that uses `bandstand_system`, inside that system."""
    if "bandstand_system" not in pyfuncitem.fixturenames:
        return None
    test = pyfuncitem.obj
    if not hasattr(test, "hypothesis"):
        # In its auto mode, pytest-asyncio wraps every async test in a plain function.
        test = getattr(test, "__wrapped__", test)
    if not inspect.iscoroutinefunction(test):
        pytest.fail(
            "bandstand_system is for `async def` tests: use bandstand_loop or bandstand_run", pytrace=False
        )
    values: dict[str, Any] = pyfuncitem.funcargs
    arguments = {name: values[name] for name in inspect.signature(test).parameters}

    async def main(_system: ActorSystem) -> None:
        await test(**arguments)

    values["bandstand_run"](main, values["bandstand_system"])
    return True


# -- fixtures ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def bandstand_clock() -> VirtualClock:
    """A virtual clock that jumps when its loop is idle, and that `advance` moves by hand."""
    from bandstand.testing.virtual_time import VirtualClock

    return VirtualClock()


@pytest.fixture
def bandstand_leak_check(request: pytest.FixtureRequest) -> None:
    """Fail the test if threads or file descriptors remain at its end. Every loop fixture includes it.

    To switch it off, override it with a fixture that does nothing.
    """
    from bandstand.testing.leaks import Leaks

    request.config.stash[SNAPSHOT] = Leaks.now()


@pytest.fixture
def bandstand_loop_factory(bandstand_clock: VirtualClock) -> Callable[[], asyncio.AbstractEventLoop]:
    """The factory of the event loops of a test: the clock's own, in virtual time. Override it for another event loop."""
    return bandstand_clock.new_event_loop


@pytest.fixture
def bandstand_run(
    bandstand_clock: VirtualClock,
    bandstand_loop_factory: Callable[[], asyncio.AbstractEventLoop],
    bandstand_leak_check: None,  # noqa: ARG001  # only its effect is needed
) -> Callable[..., Any]:
    """`run_async` with the clock and the event loop of this test: `bandstand_run(main)`, `bandstand_run(main, system)`."""
    from bandstand.testing.harness import run_async

    return partial(run_async, clock=bandstand_clock, loop_factory=bandstand_loop_factory)


@pytest.fixture
def bandstand_system(
    bandstand_clock: VirtualClock,
    bandstand_run: Callable[..., Any],  # noqa: ARG001  # the test is run by it
) -> ActorSystem:
    """An `ActorSystem` for an `async def` test, which the plugin runs inside `async with`, in virtual time.

    The test fails if it leaves tasks, threads or file descriptors behind, if an exception escapes into the event loop, and
    if it has not ended after a minute of real time.
    """
    from bandstand.actor import ActorSystem

    return ActorSystem(clock=bandstand_clock)


@pytest.fixture
def bandstand_loops(
    request: pytest.FixtureRequest,
    bandstand_clock: VirtualClock,
    bandstand_loop_factory: Callable[[], asyncio.AbstractEventLoop],
    bandstand_leak_check: None,  # noqa: ARG001  # only its effect is needed
) -> Iterator[Callable[..., ActorSystem]]:
    """A factory of loops in virtual time: `bandstand_loops()`, `bandstand_loops(LoopConfig(...))`.

    The loops run on event loops of `bandstand_loop_factory` unless the config has another `loop_factory`. They are destroyed at the
    end of the test, which fails if tasks of theirs have not ended by then, or if an exception escaped into an event loop.
    """
    from bandstand.actor import ActorSystem
    from bandstand.core import LoopConfig
    from bandstand.errors import WrongThreadError
    from bandstand.testing.harness import describe_escape
    from bandstand.testing.leaks import leaks_of, pending_tasks

    loops: list[ActorSystem] = []
    hosts: dict[ActorSystem, asyncio.AbstractEventLoop] = {}
    escaped: list[str] = []

    def stop(host: asyncio.AbstractEventLoop, details: dict[str, Any]) -> None:
        # The event loop would log it and go on, and `run()` might wait for ever.
        escaped.append(describe_escape(details))
        host.stop()

    def make(config: LoopConfig | None = None) -> ActorSystem:
        config = LoopConfig() if config is None else config
        new_host = config.loop_factory or bandstand_loop_factory

        def create_host() -> asyncio.AbstractEventLoop:
            host = hosts[loop] = new_host()
            host.set_exception_handler(stop)
            return host

        loop = ActorSystem(replace(config, loop_factory=create_host), clock=bandstand_clock)
        loops.append(loop)
        return loop

    yield make
    found = request.node.stash.setdefault(LEAKS, [])
    for loop in loops:
        host = hosts.get(loop)
        # A loop that another thread has run belongs to that thread until it is destroyed here.
        with suppress(WrongThreadError):
            if host is not None and loop.statistics().in_flight == 0:
                # No async behavior is running, so the test started these tasks and did not wait for them.
                found += pending_tasks(host, drivers=False)
        loop.destroy()
        with suppress(WrongThreadError):
            found += leaks_of(loop)
        if host is not None:
            found += [task for task in pending_tasks(host) if task not in found]
    found += escaped


@pytest.fixture
def bandstand_loop(bandstand_loops: Callable[..., ActorSystem]) -> ActorSystem:
    """A loop in virtual time: `run()` jumps from deadline to deadline, `poll_once()` runs one tick.

    It is destroyed at the end of the test, which fails if tasks, threads or file descriptors remain.
    """
    return bandstand_loops()


@pytest.fixture
def bandstand_seed(request: pytest.FixtureRequest) -> int:
    """A random seed, printed when the test fails; `--bandstand-seed` sets it to repeat the run."""
    given = request.config.getoption("--bandstand-seed")
    seed = SystemRandom().randrange(1 << 32) if given is None else int(given)
    request.node.stash[SEED] = seed
    return seed


@pytest.fixture
def bandstand_shuffled(bandstand_loop: ActorSystem, bandstand_seed: int) -> ActorSystem:
    """The loop of `bandstand_loop`, which runs its ready actors in an order that depends only on the seed."""
    from bandstand.testing.probe import shuffle

    shuffle(bandstand_loop, bandstand_seed)
    return bandstand_loop


@pytest.fixture
def bandstand_probe() -> Callable[..., Probe]:
    """A factory of probes: `bandstand_probe(behavior=None)`."""
    from bandstand.testing.probe import Probe

    return Probe
