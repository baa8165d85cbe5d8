"""A test that really sleeps fails, even if it swallows the exception."""

from pathlib import Path

import pytest

pytestmark = pytest.mark.once

CONFTEST = (Path(__file__).parents[1] / "conftest.py").read_text("utf-8")


@pytest.fixture
def suite(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makeconftest(CONFTEST)
    pytester.makeini(
        "[pytest]\nasyncio_default_fixture_loop_scope = function\nmarkers =\n    real_time(reason): x\n"
    )
    return pytester


def outcomes(suite: pytest.Pytester, body: str) -> dict[str, int]:
    suite.makepyfile("import asyncio, subprocess, sys, time, pytest\n" + body)
    result = suite.runpytest_subprocess("-p", "no:randomly", "-q", timeout=50)
    return result.parseoutcomes()


@pytest.mark.parametrize("statement", ["time.sleep(0.01)", "asyncio.run(nap())"])
def test_sleeping_fails(suite: pytest.Pytester, statement: str) -> None:
    body = f"async def nap():\n    await asyncio.sleep(0.01)\ndef test_it():\n    {statement}\n"
    assert outcomes(suite, body) == {"failed": 1, "errors": 1}


def test_a_swallowed_sleep_still_fails(suite: pytest.Pytester) -> None:
    body = "def test_it():\n    try:\n        time.sleep(0.01)\n    except Exception:\n        pass\n"
    assert outcomes(suite, body) == {"passed": 1, "errors": 1}


def test_yielding_is_not_sleeping(suite: pytest.Pytester) -> None:
    body = "async def turn():\n    await asyncio.sleep(0)\ndef test_it():\n    asyncio.run(turn())\n"
    assert outcomes(suite, body) == {"passed": 1}


def test_virtual_time_is_not_sleeping(suite: pytest.Pytester) -> None:
    body = (
        "class Virtual(asyncio.SelectorEventLoop):\n    virtual_time = True\n"
        "async def nap():\n    await asyncio.sleep(0.001)\n"
        "def test_it():\n    with asyncio.Runner(loop_factory=Virtual) as runner:\n        runner.run(nap())\n"
    )
    assert outcomes(suite, body) == {"passed": 1}


def test_waiting_for_a_process_is_allowed(suite: pytest.Pytester) -> None:
    body = (
        "def test_it():\n"
        "    with subprocess.Popen([sys.executable, '-c', 'input()'], stdin=subprocess.PIPE) as child:\n"
        "        child.stdin.write(b'x\\n')\n        child.stdin.flush()\n"
        "        assert child.wait(timeout=30) == 0\n"
    )
    assert outcomes(suite, body) == {"passed": 1}


def test_a_marked_test_may_sleep_if_it_says_why(suite: pytest.Pytester) -> None:
    body = "@pytest.mark.real_time(reason='shows the clock')\ndef test_it():\n    time.sleep(0.001)\n"
    assert outcomes(suite, body) == {"passed": 1}
    body = "@pytest.mark.real_time\ndef test_it():\n    time.sleep(0.001)\n"
    assert outcomes(suite, body) == {"errors": 1}
