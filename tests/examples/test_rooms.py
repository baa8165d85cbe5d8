"""The chat rooms as an example: lanes, a slow guest, a bug that costs one restart, and asks through one handle."""

from __future__ import annotations

import re

import pytest

from tests.examples.running import output_of

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def output() -> str:
    return output_of("rooms.py")


@pytest.mark.guarantee("G67")
def test_one_handle_reaches_the_room_before_and_after_its_restart(output: str) -> None:
    before, log, after = output.partition("supervisor 'chat' restarts child 'lobby': reason PANIC")
    assert log
    assert re.findall(r"who is there\? ([^\n;]+)", before) == ["ada, slow", "ada, slow"]
    assert re.findall(r"who is there\? ([^\n;]+)", after) == ["ada, slow"]


def test_a_room_is_restored_and_what_waited_is_heard(output: str) -> None:
    after = output.partition("restarts child 'lobby'")[2]
    assert re.search(r"lobby +is back, with ada, slow", after)
    assert "ada: or can it? c[_]" in after
    # The crash report names it; the guests do not hear it.
    assert not re.search(r"hears .*100%", output)


def test_a_slow_guest_is_nobodys_problem(output: str) -> None:
    counts = re.search(r"ada has heard (\d+) lines, slow (\d+)", output)
    assert counts is not None
    heard, slow = map(int, counts.groups())
    assert heard == 7
    assert slow < heard


def test_it_ends_in_order_and_its_books_balance(output: str) -> None:
    assert re.search(r"lobby +is quiet", output)
    assert re.findall(r"lobby +closes +\((\w+)", output) == ["PANIC", "NORMAL"]
    books = re.search(r"(\d+) asks = (\d+) answered \+ (\d+) failed \+ (\d+) pending", output)
    assert books is not None
    asked, *fates = map(int, books.groups())
    assert asked == sum(fates) > 0
    assert output.endswith("0 actors are left\n")
