"""A node with a journal that is killed with SIGKILL, again and again: every command has one fate, and nothing that was acknowledged is lost.

`make soak` kills it a thousand times.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from bandstand.bus.durable.records import ANSWER, KIND_NAMES
from tests.bus.durable_chaos import KINDS, STEPS, Chaos, Plan, draw_plans
from tests.bus.durable_node import Moment, Step

pytestmark = [
    pytest.mark.slow,
    pytest.mark.real_time(reason="it needs processes that are killed"),
]


@pytest.mark.guarantee("G476", "G477", "G478", "G479")
def test_every_command_has_one_fate_over_kills(
    tmp_path: Path, loop_factory: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    plans = draw_plans(Random(1), len(KINDS) + 3)
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        report = runner.run(Chaos(tmp_path, 1, plans).play())
    assert report.failures == []
    assert report.kills.total() >= len(plans)
    assert report.requests > 0
    assert report.answers["reply"] > 0


@pytest.mark.once
@pytest.mark.guarantee("G476", "G478")
@pytest.mark.parametrize("step", STEPS)
def test_an_answer_is_given_once_wherever_its_page_ends(tmp_path: Path, step: Step) -> None:
    plans: list[Plan] = [Moment(ANSWER, 3, step), Moment(ANSWER, 1, step)]
    report = asyncio.run(Chaos(tmp_path, 2, plans).play())
    assert report.failures == []
    assert report.kills == {"answer": 2}


def test_the_plan_kills_at_every_kind_of_record() -> None:
    plans = draw_plans(Random(3), 16)
    assert {KIND_NAMES[plan.kind] for plan in plans if isinstance(plan, Moment)} == {
        KIND_NAMES[kind] for kind in KINDS
    }
