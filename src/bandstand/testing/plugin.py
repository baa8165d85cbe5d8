"""The pytest plugin: fixtures for time, loops, probes, seeds and leaks. Loaded by its entry point.

It works beside pytest-asyncio and anyio's plugin: it takes no test over and touches no event loop of theirs. Everything
is imported when a fixture is used, so a test suite that uses none pays nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from random import SystemRandom
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from bandstand.core import Loop, LoopConfig
    from bandstand.testing.clock import VirtualClock
    from bandstand.testing.probe import Probe

SEED = pytest.StashKey[int]()


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
        report.sections.append(
            ("bandstand", f"to see this again: pytest --bandstand-seed={item.stash[SEED]}")
        )
    return report


@pytest.fixture
def bandstand_clock() -> VirtualClock:
    """A virtual clock that jumps when its loop is idle, and can be advanced by hand."""
    from bandstand.testing.clock import VirtualClock

    return VirtualClock()


@pytest.fixture
def bandstand_loops(bandstand_clock: VirtualClock) -> Iterator[Callable[..., Loop]]:
    """Make loops, `bandstand_loops(config=None)`, on the virtual clock; they are destroyed and checked for leaks."""
    from bandstand.core import Loop
    from bandstand.testing.leaks import Leaks, leaks_of

    before = Leaks.now()
    made: list[Loop] = []

    def make(config: LoopConfig | None = None) -> Loop:
        loop = Loop(config, clock=bandstand_clock)
        made.append(loop)
        return loop

    yield make
    found: list[str] = []
    for loop in made:
        loop.destroy()
        found += leaks_of(loop)
    found += before.since()
    if found:
        pytest.fail("the test has left something behind: " + "; ".join(found), pytrace=False)


@pytest.fixture
def bandstand_loop(bandstand_loops: Callable[..., Loop], bandstand_clock: VirtualClock) -> Loop:
    """A loop in virtual time: `run()` jumps from deadline to deadline, `poll_once()` runs one tick.

    It is destroyed at the end; actors, timers, descriptors, tasks and threads that are left then fail the test.
    """
    from bandstand.core import LoopConfig

    return bandstand_loops(LoopConfig(loop_factory=bandstand_clock.new_event_loop))


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
