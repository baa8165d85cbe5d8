"""The pytest plugin: fixtures for time, loops, probes, seeds and leaks. Loaded by its entry point.

It works beside pytest-asyncio and anyio's plugin: it takes no test over and touches no event loop of theirs. The runtime
is imported when a fixture is used, so a test suite that uses none does not pay for it.

Leaks are looked for when all of a test's fixtures have been torn down: what other plugins and fixtures hold for the
length of a test is given back by then. What a fixture of a wider scope opens is that fixture's, whenever it is set up.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from dataclasses import replace
from random import SystemRandom
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    import asyncio

    from bandstand.actor import Loop
    from bandstand.core import LoopConfig
    from bandstand.testing.clock import VirtualClock
    from bandstand.testing.leaks import Leaks
    from bandstand.testing.probe import Probe

SEED: pytest.StashKey[int] = pytest.StashKey()
BEFORE: pytest.StashKey[Leaks] = pytest.StashKey()
FOUND: pytest.StashKey[list[str]] = pytest.StashKey()


# -- hooks -------------------------------------------------------------------------------------------------------------


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--bandstand-seed`."""
    group = parser.getgroup("bandstand", "bandstand, actors")
    group.addoption(
        "--bandstand-seed",
        type=int,
        default=None,
        help="the seed for bandstand_seed and bandstand_shuffled, as a failing test has printed it",
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Print the seed of a test that failed."""
    report = yield
    if report.failed and SEED in item.stash:
        sentence = f"to see this again: pytest '{item.nodeid}' --bandstand-seed={item.stash[SEED]}"
        report.sections.append(("bandstand", sentence))
    return report


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
) -> Generator[None, object, object]:
    """Hold nothing against a test that a fixture of a wider scope has opened meanwhile."""
    stash = request.config.stash
    if fixturedef.scope == "function" or BEFORE not in stash:
        return (yield)
    from bandstand.testing.leaks import Leaks

    before = Leaks.now()
    try:
        return (yield)
    finally:
        stash[BEFORE] = stash[BEFORE].allowing(before, Leaks.now())


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, None, None]:
    """Fail a test that has left something behind, once everything has been torn down."""
    stash = item.config.stash
    try:
        yield
        found = item.stash.setdefault(FOUND, [])
        if BEFORE in stash:
            found += stash[BEFORE].since()
    finally:
        if BEFORE in stash:
            del stash[BEFORE]
    if found:
        pytest.fail("the test has left something behind: " + "; ".join(found), pytrace=False)


# -- fixtures ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def bandstand_clock() -> VirtualClock:
    """A virtual clock that jumps when its loop is idle, and can be advanced by hand."""
    from bandstand.testing.clock import VirtualClock

    return VirtualClock()


@pytest.fixture
def bandstand_leak_check(request: pytest.FixtureRequest) -> None:
    """Fail the test if threads or descriptors are left of it at its end. Every loop fixture includes it.

    Override it with a fixture that does nothing to switch it off.
    """
    from bandstand.testing.leaks import Leaks

    request.config.stash[BEFORE] = Leaks.now()


@pytest.fixture
def bandstand_loops(
    request: pytest.FixtureRequest,
    bandstand_clock: VirtualClock,
    bandstand_leak_check: None,  # noqa: ARG001  # for its effect
) -> Iterator[Callable[..., Loop]]:
    """Make loops in virtual time: `bandstand_loops()`, `bandstand_loops(LoopConfig(...))`.

    They ride the clock's own event loop unless the config has another `loop_factory`. They are destroyed at the end;
    tasks of theirs that have not ended by then fail the test.
    """
    from bandstand.actor import Loop
    from bandstand.core import LoopConfig
    from bandstand.errors import WrongThread
    from bandstand.testing.leaks import leaks_of, pending_tasks

    loops: list[Loop] = []
    hosts: dict[Loop, asyncio.AbstractEventLoop] = {}

    def make(config: LoopConfig | None = None) -> Loop:
        config = LoopConfig() if config is None else config
        new_host = config.loop_factory or bandstand_clock.new_event_loop

        def remembered() -> asyncio.AbstractEventLoop:
            host = hosts[loop] = new_host()
            return host

        loop = Loop(replace(config, loop_factory=remembered), clock=bandstand_clock)
        loops.append(loop)
        return loop

    yield make
    found = request.node.stash.setdefault(FOUND, [])
    for loop in loops:
        host = hosts.get(loop)
        # A loop that another thread has run is that thread's, until it is destroyed here.
        with suppress(WrongThread):
            if host is not None and loop.statistics().in_flight == 0:
                # Nothing is in flight that they could work for: somebody has started them and forgotten.
                found += pending_tasks(host, drivers=False)
        loop.destroy()
        with suppress(WrongThread):
            found += leaks_of(loop)
        if host is not None:
            found += [task for task in pending_tasks(host) if task not in found]


@pytest.fixture
def bandstand_loop(bandstand_loops: Callable[..., Loop]) -> Loop:
    """A loop in virtual time: `run()` jumps from deadline to deadline, `poll_once()` runs one tick.

    It is destroyed at the end; tasks, threads and descriptors that are left then fail the test.
    """
    return bandstand_loops()


@pytest.fixture
def bandstand_seed(request: pytest.FixtureRequest) -> int:
    """A seed, another one for each test run, printed when the test fails and given back with `--bandstand-seed`."""
    given = request.config.getoption("--bandstand-seed")
    seed = SystemRandom().randrange(1 << 32) if given is None else int(given)
    request.node.stash[SEED] = seed
    return seed


@pytest.fixture
def bandstand_shuffled(bandstand_loop: Loop, bandstand_seed: int) -> Loop:
    """The loop of `bandstand_loop`, running its ready actors in an order that depends on the seed alone."""
    from bandstand.testing.seeded import shuffle

    shuffle(bandstand_loop, bandstand_seed)
    return bandstand_loop


@pytest.fixture
def bandstand_probe() -> Callable[..., Probe]:
    """Make probes: `bandstand_probe(behavior=None)`."""
    from bandstand.testing.probe import Probe

    return Probe
