"""A link to a real process: it is written to, killed, and the stats say what that left in doubt."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from bandstand.errors import NoSuchActorError, TargetEndedError
from tests.pod.linkchild import Clerk, open_descriptors
from tests.pod.linking import End, Role, make_end

pytestmark = [
    pytest.mark.spec("S19"),
    pytest.mark.real_time(reason="a real process is started, and killed"),
    pytest.mark.slow,
]

ROOT = Path(__file__).parents[2]
PATIENCE = 40.0


@asynccontextmanager
async def process() -> AsyncGenerator[tuple[End, subprocess.Popen[bytes], int, asyncio.Event]]:
    """A clerk in a process of its own; the near end, the process, where its diary can be read, and what is set at the end."""
    ours, theirs = socket.socketpair()
    diary, pen = os.pipe()
    child = subprocess.Popen(  # noqa: ASYNC220  # it starts at once, and is ours
        [sys.executable, "-m", "tests.pod.linkchild", str(theirs.fileno()), str(pen)],
        pass_fds=(theirs.fileno(), pen),
        cwd=ROOT,
    )
    theirs.close()
    os.close(pen)
    down = asyncio.Event()
    try:
        async with make_end() as near:

            def told(reason: str) -> None:
                near.downs.append(reason)
                down.set()

            near.open(ours, "near", "far", {"clerk": Role(Clerk)}, on_down=told)
            await asyncio.wait_for(near.up, PATIENCE)
            yield near, child, diary, down
    finally:
        child.kill()
        child.wait(PATIENCE)
        os.close(diary)


async def wait(awaitable: Any) -> Any:
    return await asyncio.wait_for(awaitable, PATIENCE)


@pytest.mark.guarantee("G144")
@pytest.mark.parametrize("how", ["kill", "exit"])
async def test_what_a_killed_process_has_not_acknowledged_is_in_doubt(how: str) -> None:
    async with process() as (near, child, diary, down):
        clerk = await near.handle("clerk", Clerk)
        await wait(clerk.process())
        for number in range(300):
            clerk.trace(number)
        pending = clerk.never() if how == "kill" else None
        flooding = asyncio.create_task(keep_flooding(clerk))
        # In the middle of it.
        for _ in range(20):
            await asyncio.sleep(0)
        if how == "kill":
            os.kill(child.pid, signal.SIGKILL)
        else:
            # In one turn, so the lane above comes first.
            pending = clerk.never()
            clerk.die()
        await wait(down.wait())
        with pytest.raises(TargetEndedError) as caught:
            await wait(pending)
        assert "unreachable" in str(caught.value.__cause__)
        await wait(flooding)
        assert child.wait(PATIENCE) == (-signal.SIGKILL if how == "kill" else 3)
        stats = near.link.stats()
        assert stats.sent == stats.handled + stats.dead + stats.in_doubt
        assert stats.dead + stats.in_doubt == len(near.dead)
        # The diary says what was handled: not less than was acknowledged, not more than that and the doubtful ones.
        handled = len(os.read(diary, 1 << 16))
        traced = stats.handled - 1
        assert traced <= handled <= traced + stats.in_doubt
        assert stats.in_doubt > 0
        with pytest.raises(NoSuchActorError):
            clerk.trace(0)


@pytest.mark.guarantee("G422")
async def test_large_buffers_leave_no_descriptor_after_cancellations_and_a_kill() -> None:
    async with process() as (near, child, _diary, down):
        clerk = await near.handle("clerk", Clerk)
        large = bytes(20_000_000)
        assert await wait(clerk.size_of(large)) == len(large)
        ours, theirs = open_descriptors(), await wait(clerk.descriptors())
        for give_up in (True, False, True):
            # Of each kind: what cannot change, and what is copied in the call.
            asks = [clerk.size_of(large), clerk.size_of(memoryview(bytearray(large)))]
            await asyncio.sleep(0)
            for reply in asks:
                if give_up:
                    reply.cancel()
                else:
                    assert await wait(reply) == len(large)
        assert await wait(clerk.size_of(b"")) == 0
        assert (open_descriptors(), await wait(clerk.descriptors())) == (ours, theirs)
        cut = [clerk.size_of(large), clerk.size_of(bytearray(large))]
        await asyncio.sleep(0)
        os.kill(child.pid, signal.SIGKILL)
        await wait(down.wait())
        for reply in cut:
            with pytest.raises(TargetEndedError):
                await wait(reply)
        # The socket is closed in the next turn.
        await asyncio.sleep(0)
        assert open_descriptors() == ours - 1


async def keep_flooding(clerk: Any) -> None:
    try:
        for _ in range(300):
            await clerk.trace.when_room(0)
            await asyncio.sleep(0)
    except (NoSuchActorError, TargetEndedError):
        return
