"""The example that `make tour` shows: two restarts, a supervisor that gives up, and an orderly end."""

from __future__ import annotations

import re

import pytest

from tests.examples.running import output_of

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def output() -> str:
    return output_of("healing.py", "--fast")


def tree(output: str, title: str) -> list[str]:
    """The tree that is printed under a title, without its margin."""
    lines = output.partition(f"tree        {title}\n")[2].splitlines()
    assert lines, f"there is no tree {title!r} in:\n{output}"
    return [line.strip() for line in lines[: next(i for i, line in enumerate(lines) if " s  " in line)]]


def test_children_start_in_order(output: str) -> None:
    assert tree(output, "the database connects, the others wait for their turn") == [
        "shop (init)",
        "├── database (init, starting)",
        "├── cache (down, waiting)",
        "└── workers (down, waiting)",
    ]
    assert (
        output.index("database    connected")
        < output.index("cache       filled")
        < output.index("all children run")
    )
    assert len(tree(output, "all children run")) == 7


def test_a_worker_is_healed_alone_and_its_orders_are_kept(output: str) -> None:
    packed = re.findall(r"worker-(\d) +packs (.+), number (\d)", output)
    assert [(what, number) for _, what, number in packed] == [("a teapot", "1"), ("six cups", "1")]
    place = packed[0][0]
    assert f"supervisor 'workers' restarts child 'worker-{place}': reason PANIC (ValueError(" in output
    shown = tree(output, "the worker was restarted")
    assert [line for line in shown if "restart" in line] == [
        line for line in shown if f"worker-{place} (running, 1 restart)" in line
    ]


def test_the_rest_waits_for_the_backoff_and_comes_back(output: str) -> None:
    assert tree(output, "no child works without the database") == [
        "shop (running)",
        "├── database (down, 1 restart, waiting)",
        "├── cache (down, 1 restart, waiting)",
        "└── workers (down, 1 restart, waiting)",
    ]
    healed = tree(output, "healed")
    assert healed[:4] == [
        "shop (running)",
        "├── database (running, 2 restarts)",
        "├── cache (running, 1 restart)",
        "└── workers (running, 1 restart)",
    ]
    assert len(healed) == 7


def test_it_gives_up_once_and_says_why(output: str) -> None:
    assert output.count("'shop' gave up on child 'database': this would be restart 5 within 60 s") == 1
    story = output.partition("run()       raised RestartLimitError; the last failures")[2]
    assert re.findall(r"^ +(\d)\. (\w+): ", story, re.MULTILINE) == [
        ("1", "ConnectionResetError"),
        ("2", "ConnectionRefusedError"),
        ("3", "ConnectionResetError"),
        ("4", "ConnectionRefusedError"),
        ("5", "ConnectionRefusedError"),
    ]
    assert story.endswith("0 actors and 0 timers are left\n")
