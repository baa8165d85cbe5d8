"""Scopes and plain threads: cancelling a scope from a thread, and waiting for its children."""

# A scope may cancel its own block, so names bound in it may be unbound. The scope awaits the tasks.
# blocks that raise are what this is about
# pyright: reportPossiblyUnboundVariable=false
# mypy: disable-error-code="unused-awaitable, possibly-undefined"

from __future__ import annotations

import asyncio
import threading

import pytest

from bandstand.core import Loop
from bandstand.errors import LoopBusyError, TokenCancelledError
from bandstand.scope.cancel import CancelToken
from bandstand.scope.channel import Channel
from bandstand.scope.consumer import EndedBy
from bandstand.scope.scope import Scope
from tests.scope.support import check_nothing_left, hang, idle, iterate

pytestmark = [
    pytest.mark.spec("K4", "K6"),
    pytest.mark.guarantee("G119"),
    pytest.mark.real_time(reason="threads live in real time"),
]


# Enough for a busy machine.
PATIENCE = 30


async def test_a_thread_cancels_a_scope_and_waits_for_its_children() -> None:
    log: list[str] = []
    watchers: list[asyncio.Task[None]] = []

    async def watch(scope: Scope) -> None:
        assert await asyncio.to_thread(lambda: scope.cancel("by a thread").blocking()) is True
        log.append("joined")

    async with Scope() as scope:
        scope.launch(hang(log))
        consumer = scope.consume(Channel[int](), print)
        actor = scope.spawn(idle)
        await iterate()
        watchers.append(asyncio.create_task(watch(scope)))
        await hang(log, "body")
    assert scope.token.reason == "by a thread"
    assert consumer.outcome is not None
    assert consumer.outcome.ended_by is EndedBy.CANCELLED
    assert not actor.is_alive
    await watchers[0]
    assert sorted(log) == ["body ended", "child ended", "joined"]


async def test_the_event_loops_own_thread_does_not_block() -> None:
    async with Scope() as scope:
        scope.launch(hang())
        with pytest.raises(LoopBusyError):
            scope.wait_all().blocking()
        with pytest.raises(LoopBusyError):
            scope.cancel().blocking()


@pytest.mark.slow
async def test_a_thread_cancels_while_the_block_ends(loop: Loop) -> None:
    """Whenever it comes: the block ends, no child is left, and the cancellation does not reach the code after it."""
    for number in range(200):
        token = CancelToken()
        thread = threading.Thread(target=token.cancel, args=("by a thread",))
        origin = token.number
        try:
            async with Scope(token=token) as scope:
                scope.launch(iterate(3))
                scope.consume(Channel[int](), print).token.cancel()
                thread.start()
                await iterate(number % 8)
        except TokenCancelledError as error:
            origin = error.token
        thread.join(PATIENCE)
        assert origin == token.number
        check_nothing_left(loop)
        await iterate()
