"""The watchdog is on in a system that nobody configures, and off in virtual time."""

from __future__ import annotations

import asyncio
import threading

import pytest

from bandstand.actor import ActorSystem
from bandstand.core import Loop, LoopConfig
from bandstand.testing import VirtualClock

pytestmark = [pytest.mark.guarantee("G39"), pytest.mark.once]


def test_a_system_without_a_config_has_a_watchdog_while_it_runs() -> None:
    before = threading.active_count()

    async def main() -> int:
        async with ActorSystem() as system:
            assert system.config.stall_timeout == 1.0
            return threading.active_count()

    assert asyncio.run(main()) == before + 1
    assert threading.active_count() == before


@pytest.mark.parametrize(
    "make",
    [lambda: ActorSystem(LoopConfig()), lambda: ActorSystem(clock=VirtualClock()), Loop],
    ids=["with a config", "in virtual time", "raw"],
)
def test_other_loops_have_none(make: type[Loop]) -> None:
    with make() as loop:
        assert loop.config.stall_timeout is None
