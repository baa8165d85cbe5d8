"""Durations are passed in seconds or as a timedelta, and counted in milliseconds inside."""

from __future__ import annotations

from datetime import timedelta

import pytest

from bandstand.errors import InvalidArgumentError
from bandstand.errors.validation import LONGEST_MS, to_ms


@pytest.mark.parametrize(
    ("value", "ms"),
    [
        (0, 0),
        (1, 1000),
        (0.25, 250),
        (0.000_5, 0.5),
        (timedelta(0), 0),
        (timedelta(seconds=2), 2000),
        (timedelta(microseconds=250), 0.25),
        (timedelta(days=36_600), LONGEST_MS),
        (LONGEST_MS // 1000, LONGEST_MS),
    ],
)
def test_seconds_and_timedeltas_become_milliseconds(value: object, ms: float) -> None:
    assert to_ms("timeout", value) == pytest.approx(ms, abs=1e-9)


@pytest.mark.parametrize(
    "value",
    [
        -1,
        -0.001,
        float("nan"),
        float("inf"),
        True,
        "5",
        None,
        timedelta(seconds=-1),
        LONGEST_MS,
        10**400,
        1e300,
    ],
)
def test_what_is_no_duration_is_refused(value: object) -> None:
    with pytest.raises(InvalidArgumentError, match=r"timeout is .*: pass seconds from 0 to a hundred years"):
        to_ms("timeout", value)


@pytest.mark.parametrize("value", [0, 0.0, timedelta(0)])
def test_zero_is_refused_where_it_means_nothing(value: object) -> None:
    with pytest.raises(InvalidArgumentError, match="pass seconds above 0, up to 60, or a timedelta, or None"):
        to_ms("period", value, is_zero_allowed=False, most=60_000, otherwise=", or None")
    assert to_ms("period", 60, is_zero_allowed=False, most=60_000) == 60_000
