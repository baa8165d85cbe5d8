"""What the cases reckon by themselves: the size of a tree, its sum, percentiles."""

from __future__ import annotations

import pytest

from bench.case import Setting, WrongResultError
from bench.cases import importing, lanes, skynet

pytestmark = pytest.mark.once


def test_a_skynet_is_the_biggest_whole_tree_within_the_size() -> None:
    assert [skynet.leaves_of(Setting(size)) for size in (10, 99, 100, 1_000_000)] == [10, 10, 100, 1_000_000]
    assert skynet.actors_of(1_000_000) == 1_111_111
    assert skynet.actors_of(10) == 11


def test_a_skynet_with_another_sum_has_no_figure() -> None:
    assert skynet.checked(1_000_000, 499_999_500_000, 7) == 7
    with pytest.raises(WrongResultError, match="the numbers of 10 leaves come to 45, not to 44"):
        skynet.checked(10, 44, 11)


def test_an_urgent_message_goes_out_once_the_last_has_been_handled() -> None:
    flood, sent = lanes.Flood(Setting(2)), list[int]()

    def pour(handled: int) -> tuple[bool, int]:
        sent.clear()
        more = flood.pour(handled, lambda: sent.append(0), sent.append)
        return more, sum(stamp > 0 for stamp in sent)

    assert pour(0) == (True, 1)
    assert pour(0) == (True, 0)
    assert pour(1) == (True, 1)
    assert pour(2) == (False, 0)
    assert (flood.urgent, flood.poured) == (2, lanes.WAITING + 2 * lanes.BURST)


@pytest.mark.parametrize("lost", [0, 1])
def test_a_flood_that_lost_data_has_no_figure(lost: int) -> None:
    flood = lanes.Flood(Setting(1))
    flood.pour(0, lambda: None, flood.drink)
    assert sum(flood.drink(0) for _ in range(flood.poured - lost)) == lanes.WAITING // lanes.BURST - lost
    assert flood.is_on() is bool(lost)
    assert flood.outcome().handled == 1 - lost


@pytest.mark.slow
@pytest.mark.parametrize(
    ("statement", "module", "sentence"),
    [
        ("import nowhere", "nowhere", "'import nowhere' ended with code 1: .*No module named 'nowhere'"),
        ("import sys", "sys", "an interpreter has sys before it is imported"),
    ],
)
def test_an_import_that_fails_or_was_done_before_has_no_figure(
    statement: str, module: str, sentence: str
) -> None:
    with pytest.raises(WrongResultError, match=f"(?s){sentence}"):
        importing.importing(statement, module, Setting(1))
