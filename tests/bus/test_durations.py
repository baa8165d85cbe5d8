"""Durations are seconds in the Python API, and whole milliseconds in messages."""

from __future__ import annotations

from datetime import timedelta

import pytest

from bandstand.bus.durations import checked_timeout_ms, to_whole_ms
from bandstand.errors import InvalidArgumentError


@pytest.mark.parametrize(
    ("seconds", "ms"),
    [
        (1, 1000),
        (0.25, 250),
        (16.1, 16_100),
        (0.0001, 1),
        (timedelta(minutes=1), 60_000),
        (86_400, 86_400_000),
    ],
)
def test_a_timeout_is_sent_in_whole_milliseconds_rounded_up(seconds: float, ms: int) -> None:
    assert checked_timeout_ms(seconds) == ms


@pytest.mark.parametrize("wrong", [0, -1, True, "1", float("nan"), 86_400.1, timedelta(days=2), timedelta(0)])
def test_what_is_not_a_timeout_is_refused(wrong: object) -> None:
    with pytest.raises(
        InvalidArgumentError, match=r"timeout is .*: pass seconds above 0, up to 86400, or a timedelta"
    ):
        checked_timeout_ms(wrong)


def test_zero_is_allowed_where_it_means_none() -> None:
    assert to_whole_ms("hold_timeout", 0) == 0
