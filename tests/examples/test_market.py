"""The market as an example: who misses what is each one's own choice, and the books say so."""

from __future__ import annotations

import re

import pytest

from tests.examples.running import output_of

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def output() -> str:
    return output_of("market.py")


@pytest.mark.guarantee("G204", "G211")
def test_the_archive_crashes_and_loses_one(output: str) -> None:
    assert "archive  has 119 of 120: 1 was lost when it crashed, 0 missed" in output


@pytest.mark.guarantee("G209")
def test_the_board_shows_the_latest(output: str) -> None:
    assert "board    shows ACME 139, EMCA 239, MECA 339; " in output


@pytest.mark.guarantee("G209", "G210")
def test_the_auditor_is_cut_off_and_told(output: str) -> None:
    assert re.search(r"auditor +was cut off: True, and has missed 20$", output, re.MULTILINE)
    assert "auditor: 20 missed when it was cut off, active: False" in output
    assert output.endswith("has heard of lag: True\n")


@pytest.mark.guarantee("G210", "G211")
def test_the_books_balance_and_what_was_told_is_what_was_missed(output: str) -> None:
    assert len(re.findall(r"120 published = .*: True", output)) == 3
    told = re.findall(r"analyst +has missed \d+ more, (\d+) in all", output)
    booked = re.search(r"analyst: 120 published = \d+ handled \+ (\d+) missed", output)
    assert booked is not None
    assert told[-1] == booked[1]


@pytest.mark.guarantee("G206")
def test_the_traders_are_told_as_a_group(output: str) -> None:
    assert len(re.findall(r"hears that the market opens", output)) == 3
    assert len(re.findall(r"hears that the market closes", output)) == 2
