"""The work of a supervisor grows linearly with the number of its children.

It is measured in executed lines of the supervisor's modules, because time is not reliable.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

import bandstand.supervision
from bandstand.core import Context, Loop
from bandstand.supervision import (
    AnySupervisorSpec,
    ChildSpec,
    DynamicSpec,
    DynamicSupervisor,
    PartitionSpec,
    Strategy,
    SupervisorSpec,
    spawn_supervisor,
    supervisor_actor,
)
from tests.core.support import idle, run_message, settle
from tests.supervision.helpers import crash, supervise

pytestmark = [
    pytest.mark.guarantee("G278"),
    pytest.mark.slow,
    pytest.mark.skipif(
        not str(supervisor_actor.__file__).endswith(".py"), reason="compiled code has no lines to count"
    ),
]

HERE = os.path.dirname(bandstand.supervision.__file__)
FEW, FACTOR = 100, 4
# Four times the children are four times the lines. With a walk over all children for each of them it would be sixteen times.
MOST = 1.25 * FACTOR


def lines_of(act: Callable[[], object]) -> int:
    """How many lines of the supervisor's modules run while something is done."""
    count = 0

    def in_frame(frame: FrameType, event: str, arg: object) -> Any:
        nonlocal count
        if event == "line":
            count += 1
        return in_frame

    def on_call(frame: FrameType, event: str, arg: object) -> Any:
        return in_frame if frame.f_code.co_filename.startswith(HERE) else None

    before = sys.gettrace()
    sys.settrace(on_call)
    try:
        act()
    finally:
        sys.settrace(before)
    return count


async def slow_init(ctx: Context[None]) -> None:
    """Takes a turn of the event loop."""


def many(count: int, **fields: Any) -> list[ChildSpec[Any]]:
    return [ChildSpec(f"child {number}", run_message, **fields) for number in range(count)]


def check_linear(measure: Callable[[int], int]) -> None:
    measure(10)
    few, more = measure(FEW), measure(FACTOR * FEW)
    assert more < MOST * few, f"{few} lines for {FEW} children, {more} for {FACTOR} times as many"


@pytest.mark.parametrize("strategy", list(Strategy))
@pytest.mark.parametrize("is_slow", [False, True])
def test_start_and_stop(strategy: Strategy, is_slow: bool) -> None:
    def measure(count: int) -> int:
        with Loop() as loop:
            spec = SupervisorSpec(
                children=many(count, init=slow_init if is_slow else None), strategy=strategy
            )

            def act() -> None:
                sup = spawn_supervisor(loop, spec)
                loop.run(until_idle=True)
                assert sup.count_children().active == count
                sup.stop()
                loop.run(until_idle=True)
                assert loop.statistics().alive == 0

            return lines_of(act)

    check_linear(measure)


@pytest.mark.parametrize("strategy", list(Strategy))
@pytest.mark.parametrize("is_slow", [False, True])
def test_start_child_and_stop_child(strategy: Strategy, is_slow: bool) -> None:
    def measure(count: int) -> int:
        with Loop() as loop:
            sup = supervise(loop, strategy=strategy)
            specs = many(count, init=slow_init if is_slow else None)

            def act() -> None:
                for spec in specs:
                    sup.start_child(spec)
                    if is_slow:
                        loop.run(until_idle=True)
                for spec in specs:
                    assert sup.stop_child(spec.name)
                settle(loop)

            return lines_of(act)

    check_linear(measure)


@pytest.mark.parametrize("is_slow", [False, True])
def test_a_restart_of_a_group(is_slow: bool) -> None:
    def measure(count: int) -> int:
        with Loop() as loop:
            children = many(count, init=slow_init if is_slow else None)
            sup = supervise(loop, *children, strategy=Strategy.ONE_FOR_ALL)
            loop.run(until_idle=True)
            loop.send(sup.address("child 0"), crash)
            return lines_of(lambda: loop.run(until_idle=True))

    check_linear(measure)


@pytest.mark.parametrize("kind", ["dynamic", "partition"])
@pytest.mark.parametrize("is_slow", [False, True])
def test_children_of_one_shape(kind: str, is_slow: bool) -> None:
    async def slow(ctx: Context[None], *_: object) -> None:
        pass

    shape: ChildSpec[Any] = ChildSpec("child", idle, init=slow if is_slow else None)

    def measure(count: int) -> int:
        with Loop() as loop:
            spec: AnySupervisorSpec = (
                DynamicSpec(child=shape)
                if kind == "dynamic"
                else PartitionSpec(child=shape, partitions=count)
            )

            def act() -> None:
                sup = spawn_supervisor(loop, spec)
                if isinstance(sup, DynamicSupervisor):
                    for _ in range(count):
                        sup.start_child()
                loop.run(until_idle=True)
                sup.stop()
                loop.run(until_idle=True)

            return lines_of(act)

    check_linear(measure)
