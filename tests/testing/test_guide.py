"""Every code block of docs/guides/testing.md is a file that runs as it is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.once]

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "guides" / "testing.md").read_text("utf-8")
BLOCKS: dict[str, str] = dict(
    re.findall(r'^```python title="(\S+)"\n(.*?)^```$', PAGE, re.MULTILINE | re.DOTALL)
)
TESTS = {name: block for name, block in BLOCKS.items() if name != "conftest.py"}


def run(pytester: pytest.Pytester, files: dict[str, str], *options: str) -> dict[str, int]:
    pytester.makeini(
        "[pytest]\nfilterwarnings = error\naddopts = --import-mode=importlib\n"
        "asyncio_default_fixture_loop_scope = function\n"
    )
    for name, block in files.items():
        (pytester.path / name).write_text(block, "utf-8")
    return pytester.runpytest_subprocess("-p", "no:randomly", "-q", *options, timeout=50).parseoutcomes()


def test_every_block_has_a_unique_file_name() -> None:
    assert PAGE.count("```python") == len(BLOCKS) > 8


def test_every_block_passes(pytester: pytest.Pytester) -> None:
    outcome = run(pytester, TESTS)
    assert set(outcome) == {"passed"}
    assert outcome["passed"] >= PAGE.count("\ndef test_") + PAGE.count("\nasync def test_")


def test_the_page_about_advance_works_with_a_clock_that_never_jumps(pytester: pytest.Pytester) -> None:
    files = {name: BLOCKS[name] for name in ("conftest.py", "test_by_hand.py", "test_greeter.py")}
    assert run(pytester, files) == {"passed": 2}


def test_a_failing_test_prints_what_the_page_says(pytester: pytest.Pytester) -> None:
    broken = {"test_order.py": BLOCKS["test_order.py"].replace("== 45", "== 46")}
    assert run(pytester, broken, "--bandstand-seed=2463534242") == {"failed": 1}
    line = next(line for line in PAGE.splitlines() if line.startswith("to repeat this run"))
    result = pytester.runpytest_subprocess(
        "-p", "no:randomly", "-q", "--bandstand-seed=2463534242", timeout=50
    )
    assert line in result.outlines
