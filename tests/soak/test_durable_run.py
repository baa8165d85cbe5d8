"""A short run of a node with a journal, and the growth that a long one must find. `make soak` sends a million commands, or as many as `COMMANDS` says."""

from __future__ import annotations

import pytest

from tests.soak.durable_run import JUDGED_FROM, Report, compare_memory, play
from tests.soak.memory import MEBIBYTE


@pytest.mark.slow
@pytest.mark.once
@pytest.mark.guarantee("G479")
@pytest.mark.real_time(reason="it needs a process")
def test_every_command_is_answered_once_and_the_counters_balance() -> None:
    report = play(1, 10_000, 1, lambda _report: None)
    assert report.failures == []
    assert report.answers == {"Counter.Count": 9898, "Sys.Refused": 100, "Sys.ActorCrash": 2}


def test_it_finds_memory_that_grows() -> None:
    report = Report(1, commands=JUDGED_FROM)
    compare_memory(report, [40 * MEBIBYTE, 41 * MEBIBYTE], [60 * MEBIBYTE, 50 * MEBIBYTE])
    assert report.failures == ["9.0 MiB more are resident than after the warm-up; 8 would pass"]
