"""A hook that raises an exception which cannot be shown has failed, and keeps nobody from anything."""

from __future__ import annotations

import asyncio

import pytest

from bandstand.shutdown import GracefulShutdown, ShutdownPhase
from tests.hostile import HOW, hostile
from tests.shutdown.conftest import Drive, LoopMaker


@pytest.mark.guarantee("G282")
@pytest.mark.parametrize("how", HOW)
def test_the_shutdown_goes_on(make_loop: LoopMaker, drive: Drive, how: str) -> None:
    loop = make_loop()
    shutdown = GracefulShutdown(loop)
    called: list[str] = []

    @shutdown.on(ShutdownPhase.INTAKE)
    def raises() -> None:
        raise hostile(how)

    @shutdown.on(ShutdownPhase.INTAKE)
    async def raises_later() -> None:
        await asyncio.sleep(0)
        raise hostile(how)

    @shutdown.on(ShutdownPhase.KILL)
    def last() -> None:
        called.append("last")

    shutdown.begin("enough")
    report = drive(loop, shutdown)
    assert len(report.of(ShutdownPhase.INTAKE).failed_hooks) == 2
    assert called == ["last"]
