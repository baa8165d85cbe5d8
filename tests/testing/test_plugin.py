"""The pytest plugin as users see it: loaded by its entry point, in a separate process."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

import pytest

pytestmark = pytest.mark.slow


class Outcome(NamedTuple):
    """The result of an inner pytest run."""

    counts: dict[str, int]
    text: str


Suite = Callable[..., Outcome]


@pytest.fixture
def suite(pytester: pytest.Pytester) -> Suite:
    """Run a test file with options; `ini` and `conftest` are other files of the suite."""

    def run(body: str, *options: str, ini: str = "", conftest: str = "") -> Outcome:
        if "no:asyncio" not in options:
            ini += "asyncio_default_fixture_loop_scope = function\n"
        pytester.makeini(f"[pytest]\nfilterwarnings = error\n{ini}")
        if conftest:
            pytester.makeconftest(conftest)
        pytester.makepyfile(test_it="import asyncio, os, threading\nimport pytest\n" + body)
        result = pytester.runpytest_subprocess("-p", "no:randomly", "-q", *options, timeout=50)
        return Outcome(result.parseoutcomes(), "\n".join(result.outlines))

    return run


# --- fixtures ---------------------------------------------------------------------------------------------------------

ALL_FIXTURES = """
from bandstand.core import Loop, LoopConfig
from bandstand.testing import Probe, VirtualClock

def test_loop(bandstand_loop, bandstand_clock, bandstand_probe):
    assert isinstance(bandstand_clock, VirtualClock)
    probe = bandstand_probe()
    start = bandstand_clock.now_ns()
    bandstand_loop.send_after(probe.spawn(bandstand_loop), 3600, "an hour later")
    bandstand_loop.run(until_idle=True)
    assert probe.data == ["an hour later"]
    assert bandstand_clock.now_ns() - start == 3600 * 10**9

def test_async_behavior(bandstand_loop):
    done = []
    async def slow(ctx, data):
        await asyncio.sleep(3600)
        done.append(data)
    bandstand_loop.send(bandstand_loop.spawn(slow), 1)
    bandstand_loop.run(until_idle=True)
    assert done == [1]

def test_loops(bandstand_loops, bandstand_loop, bandstand_clock, bandstand_probe):
    import uvloop
    one, small, fast = (bandstand_loops(), bandstand_loops(LoopConfig(max_actors=1)),
        bandstand_loops(LoopConfig(loop_factory=uvloop.new_event_loop)))
    assert len({one, small, fast, bandstand_loop}) == 4
    assert small.config.max_actors == 1
    for loop in (one, small, fast):
        probe = bandstand_probe()
        loop.send_after(probe.spawn(loop), 1.0, "later")
        loop.run(until_idle=True)
        assert probe.data == ["later"]

def test_shuffled(bandstand_shuffled, bandstand_loop, bandstand_seed):
    assert bandstand_shuffled is bandstand_loop
    assert isinstance(bandstand_seed, int)

def test_in_another_thread(bandstand_loops, bandstand_probe):
    destroyed, left = bandstand_loops(), bandstand_loops()
    def run():
        for loop in (destroyed, left):
            loop.run(until_idle=True)
        destroyed.destroy()
    thread = threading.Thread(target=run)
    thread.start()
    thread.join(30)
"""


def test_every_fixture_works(suite: Suite) -> None:
    outcome = suite(ALL_FIXTURES)
    assert outcome.counts == {"passed": 5}, outcome.text


@pytest.mark.once
def test_fixtures_are_listed_with_their_docstrings(suite: Suite) -> None:
    listed = re.findall(r"^(bandstand_\w+) -- ", suite("", "--fixtures").text, re.MULTILINE)
    assert sorted(listed) == [
        "bandstand_clock",
        "bandstand_leak_check",
        "bandstand_loop",
        "bandstand_loop_factory",
        "bandstand_loops",
        "bandstand_probe",
        "bandstand_run",
        "bandstand_seed",
        "bandstand_shuffled",
        "bandstand_system",
    ]


@pytest.mark.once
def test_a_suite_that_uses_no_fixture_does_not_load_the_runtime(suite: Suite) -> None:
    body = (
        "import sys\n"
        "def test_it(pytestconfig):\n"
        "    assert pytestconfig.pluginmanager.has_plugin('bandstand')\n"
        "    assert 'bandstand.testing.plugin' in sys.modules\n"
        "    assert not [name for name in sys.modules if name.startswith('bandstand.core')]\n"
        "    assert 'uvloop' not in sys.modules\n"
    )
    outcome = suite(body)
    assert outcome.counts == {"passed": 1}, outcome.text


# --- seeds ------------------------------------------------------------------------------------------------------------

RACE = """
def test_race(bandstand_shuffled):
    order = []
    for name in "abcdefghijklmnop":
        bandstand_shuffled.send(bandstand_shuffled.spawn(lambda ctx, data: order.append(data)), name)
    bandstand_shuffled.poll_once()
    pytest.fail("order: " + "".join(order))

def test_calm(bandstand_seed):
    pass
"""


@pytest.mark.once
@pytest.mark.guarantee("G41")
def test_a_failing_test_prints_its_seed_and_the_seed_reproduces_it(suite: Suite) -> None:
    first = suite(RACE)
    seeds = re.findall(r"pytest '(\S+)' --bandstand-seed=(\d+)", first.text)
    assert first.counts == {"failed": 1, "passed": 1}
    assert len(seeds) == 1, "the failing test's seed, and only that"
    test, seed = seeds[0]
    assert test.endswith("test_it.py::test_race")
    again = suite(RACE, f"--bandstand-seed={seed}")
    order = re.compile(r"order: [a-p]{16}")
    assert order.findall(again.text) == order.findall(first.text)
    assert f"--bandstand-seed={seed}" in again.text
    other = suite(RACE, f"--bandstand-seed={int(seed) + 1}")
    assert order.findall(other.text) != order.findall(first.text)


# --- leaks ------------------------------------------------------------------------------------------------------------

LEAKS = {
    "thread": (
        "    threading.Thread(target=threading.Event().wait, args=(8,), name='grinder', daemon=True).start()\n",
        "thread 'grinder' still runs",
    ),
    "descriptor": ("    os.pipe()\n", r"descriptor \d+ is still open \(pipe:\[\d+\]\)"),
    "exception": (
        (
            "    async def fail(ctx, data):\n"
            "        asyncio.get_running_loop().call_soon(int, 'x')\n"
            "        await asyncio.Event().wait()\n"
            "    bandstand_loop.send(bandstand_loop.spawn(fail), 1)\n"
            "    bandstand_loop.run()\n"
        ),
        "an exception escaped into the event loop: ValueError: invalid literal for int.* base 10: 'x'",
    ),
    "task": (
        (
            "    async def forget(ctx, data):\n"
            "        global kept\n"
            "        kept = asyncio.create_task(asyncio.sleep(8), name='humming')\n"
            "        await asyncio.sleep(0)\n"
            "    bandstand_loop.send(bandstand_loop.spawn(forget), 1)\n"
            "    for _ in range(9):\n"
            "        bandstand_loop.poll_once()\n"
        ),
        "task 'humming' has not ended",
    ),
}


@pytest.mark.once
@pytest.mark.parametrize("kind", LEAKS)
def test_a_leaking_test_fails_and_reports_the_leak(suite: Suite, kind: str) -> None:
    body, words = LEAKS[kind]
    outcome = suite(f"def test_it(bandstand_loop):\n{body}\ndef test_next(bandstand_loop):\n    pass\n")
    assert outcome.counts == {"passed": 2, "errors": 1}, outcome.text
    assert re.search(f"the test left something behind: {words}[;\n]", outcome.text), outcome.text


@pytest.mark.once
def test_the_leak_check_can_be_used_alone_and_switched_off(suite: Suite) -> None:
    alone = "@pytest.mark.usefixtures('bandstand_leak_check')\ndef test_it():\n    os.pipe()\n"
    assert suite(alone).counts == {"passed": 1, "errors": 1}
    off = (
        "@pytest.fixture\ndef bandstand_leak_check():\n    pass\n"
        "def test_it(bandstand_loop):\n    os.pipe()\n"
    )
    outcome = suite(off)
    assert outcome.counts == {"passed": 1}, outcome.text


@pytest.mark.once
def test_what_fixtures_hold_is_not_a_leak_of_the_test(suite: Suite) -> None:
    body = """
def opened():
    read, write = os.pipe()
    yield read
    os.close(read)
    os.close(write)

of_session, of_module = pytest.fixture(scope="session")(opened), pytest.fixture(scope="module")(opened)
of_test = pytest.fixture(opened)

@pytest.fixture
def works(bandstand_loop):
    release = threading.Event()
    thread = threading.Thread(target=release.wait)
    thread.start()
    yield
    release.set()

def test_before(of_test, bandstand_loop):
    pass

def test_after(bandstand_loop, of_test, works):
    pass

def test_asked_for_inside(bandstand_loop, request):
    request.getfixturevalue("of_session")
    request.getfixturevalue("of_module")
    request.getfixturevalue("of_test")

def test_still_sees_a_leak(bandstand_loop, request):
    os.pipe()
"""
    outcome = suite(body)
    assert outcome.counts == {"passed": 4, "errors": 1}, outcome.text


# --- async tests --------------------------------------------------------------------------------------------------------

ASYNC_TESTS = """
from bandstand import Actor, ask
from bandstand.testing import VirtualEventLoop

class Echo(Actor):
    @ask
    async def echo(self, text):
        await asyncio.sleep(1)
        return text

async def test_virtual(bandstand_system, bandstand_clock):
    start = bandstand_clock.now_ns()
    assert await bandstand_system.spawn(Echo).echo("hello") == "hello"
    assert bandstand_clock.now_ns() - start == 10**9

class TestClass:
    @pytest.mark.parametrize("number", [1, 2])
    async def test_method(self, bandstand_system, number, tmp_path):
        assert await bandstand_system.spawn(Echo).echo(number) == number
        assert tmp_path.exists()

@pytest.mark.usefixtures("bandstand_system")
async def test_not_requested_by_name():
    assert isinstance(asyncio.get_running_loop(), VirtualEventLoop)

@pytest.fixture
def echo(bandstand_system):
    return bandstand_system.spawn(Echo)

async def test_requested_by_a_fixture(echo):
    assert await echo.echo("hello") == "hello"

def test_run(bandstand_run):
    async def main():
        await asyncio.sleep(3600)
        return "done"
    assert bandstand_run(main) == "done"

def test_run_with_a_system(bandstand_run, bandstand_clock):
    from bandstand import ActorSystem
    async def main(system):
        return await system.spawn(Echo).echo("hello")
    assert bandstand_run(main, ActorSystem(clock=bandstand_clock)) == "hello"
"""


@pytest.mark.guarantee("G394")
@pytest.mark.parametrize("mode", ["strict", "auto"])
def test_an_async_test_that_uses_a_system_runs_inside_it(suite: Suite, mode: str) -> None:
    outcome = suite(ASYNC_TESTS, ini=f"asyncio_mode = {mode}\n")
    assert outcome.counts == {"passed": 7}, outcome.text


@pytest.mark.once
def test_an_async_test_runs_on_the_event_loop_of_the_fixture(suite: Suite) -> None:
    conftest = (
        "import pytest, uvloop\n"
        "@pytest.fixture(params=[True, False])\n"
        "def bandstand_loop_factory(request, bandstand_clock):\n"
        "    return uvloop.new_event_loop if request.param else bandstand_clock.new_event_loop\n"
    )
    body = (
        "async def test_it(bandstand_system, request):\n"
        "    is_virtual = hasattr(asyncio.get_running_loop(), 'virtual_time')\n"
        "    assert ('True' in request.node.name) is not is_virtual\n"
    )
    outcome = suite(body, conftest=conftest)
    assert outcome.counts == {"passed": 2}, outcome.text


FAILURES = {
    "failure": ("async def test_it(bandstand_system):\n    assert 1 == 2\n", "assert 1 == 2"),
    "task": (
        "async def test_it(bandstand_system):\n    global kept\n    kept = asyncio.create_task(asyncio.sleep(8), name='humming')\n",
        "the test left something behind: task 'humming' has not ended",
    ),
    "exception": (
        "async def test_it(bandstand_system):\n    asyncio.get_running_loop().call_soon(int, 'x')\n    await asyncio.sleep(8)\n",
        "an exception escaped into the event loop: ValueError",
    ),
    "plain": (
        "def test_it(bandstand_system):\n    pass\n",
        "bandstand_system is for `async def` tests: use bandstand_loop or bandstand_run",
    ),
}


@pytest.mark.once
@pytest.mark.guarantee("G394")
@pytest.mark.parametrize("kind", FAILURES)
def test_a_failing_async_test_fails(suite: Suite, kind: str) -> None:
    body, words = FAILURES[kind]
    outcome = suite(body)
    assert outcome.counts == {"failed": 1}, outcome.text
    assert words in outcome.text


# --- beside others ----------------------------------------------------------------------------------------------------

WITH_ASYNCIO = """
import anyio
from bandstand.core import Loop, LoopConfig

@pytest.fixture
def anyio_backend():
    return "asyncio"

async def run_story(loop, clock, probe):
    done = asyncio.Event()
    async def last(ctx, data):
        await asyncio.sleep(0)
        done.set()
    start = clock.now_ns()
    async with loop:
        actor = probe.spawn(loop)
        loop.send_after(actor, 60, "timer")
        loop.send_after(loop.spawn(last), 60.001, None)
        await done.wait()
        await asyncio.to_thread(lambda: None)
        await anyio.to_thread.run_sync(lambda: None)
    assert probe.data == ["timer"]
    assert clock.now_ns() - start == 60_001 * 10**6

MARK
async def test_pytest_asyncio(bandstand_loop, bandstand_clock, bandstand_probe):
    await run_story(bandstand_loop, bandstand_clock, bandstand_probe())

MARK
async def test_pytest_asyncio_again(bandstand_shuffled, bandstand_clock, bandstand_probe):
    await run_story(bandstand_shuffled, bandstand_clock, bandstand_probe())

def test_plain(bandstand_loop, bandstand_clock, bandstand_probe):
    probe = bandstand_probe()
    bandstand_loop.send_after(probe.spawn(bandstand_loop), 1.0, "timer")
    bandstand_loop.run(until_idle=True)
    assert probe.data == ["timer"]

def test_run(bandstand_clock, bandstand_probe):
    bandstand_clock.run(run_story(Loop(clock=bandstand_clock), bandstand_clock, bandstand_probe()))
"""

ANYIO = """
@pytest.mark.anyio
async def test_anyio(bandstand_loop, bandstand_clock, bandstand_probe):
    await run_story(bandstand_loop, bandstand_clock, bandstand_probe())

@pytest.mark.anyio
async def test_anyio_again(bandstand_loops, bandstand_clock, bandstand_probe):
    await run_story(bandstand_loops(), bandstand_clock, bandstand_probe())
"""


@pytest.mark.once
@pytest.mark.parametrize("scope", ["function", "module", "session"])
def test_with_pytest_asyncio_and_anyio_in_one_file(suite: Suite, scope: str) -> None:
    body = WITH_ASYNCIO.replace("MARK", "@pytest.mark.asyncio") + ANYIO
    outcome = suite(body, ini=f"asyncio_mode = strict\nasyncio_default_test_loop_scope = {scope}\n")
    assert outcome.counts == {"passed": 6}, outcome.text


@pytest.mark.once
@pytest.mark.parametrize("scope", ["function", "session"])
def test_with_pytest_asyncio_in_auto_mode(suite: Suite, scope: str) -> None:
    # In auto mode pytest-asyncio takes every coroutine, also those marked for anyio.
    body = WITH_ASYNCIO.replace("MARK", "") + ANYIO
    outcome = suite(body, ini=f"asyncio_mode = auto\nasyncio_default_test_loop_scope = {scope}\n")
    assert outcome.counts == {"passed": 6}, outcome.text
