"""What the cases reckon by themselves: the size of a tree, its sum, percentiles."""

from __future__ import annotations

import pytest

from bench.case import Setting, WrongResultError
from bench.cases import skynet

pytestmark = pytest.mark.once


def test_a_skynet_is_the_biggest_whole_tree_within_the_size() -> None:
    assert [skynet.leaves_of(Setting(size)) for size in (10, 99, 100, 1_000_000)] == [10, 10, 100, 1_000_000]
    assert skynet.actors_of(1_000_000) == 1_111_111
    assert skynet.actors_of(10) == 11


def test_a_skynet_with_another_sum_has_no_figure() -> None:
    assert skynet.checked(1_000_000, 499_999_500_000, 7) == 7
    with pytest.raises(WrongResultError, match="the numbers of 10 leaves come to 45, not to 44"):
        skynet.checked(10, 44, 11)
