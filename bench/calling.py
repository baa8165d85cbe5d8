"""Letting a caller loose on a server: the server in this process, the caller in one of its own, a Unix socket between them."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

from bandstand.core.asyncio_host import new_event_loop
from bench.case import Outcome, WrongResultError

Server: TypeAlias = Callable[[str], AbstractAsyncContextManager[object]]
ROOT = Path(__file__).resolve().parent.parent
PATIENCE = 200


def drive(server: Server, *arguments: object) -> Outcome:
    """Run a server, let a caller loose on it with these arguments, and return what it has found."""

    async def live() -> Outcome:
        with TemporaryDirectory(prefix="bench-") as folder:
            path = str(Path(folder, "bus.sock"))
            async with server(path):
                return await call(path, *arguments)

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(live())


async def call(path: str, way: object, *numbers: object) -> Outcome:
    """Let a caller loose on whoever listens there.

    Raises:
        WrongResultError: it has failed; says how.
    """
    caller = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "bench.caller", str(way), path, *map(str, numbers)),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        said, complaint = await asyncio.wait_for(caller.communicate(), PATIENCE)
    except TimeoutError:
        caller.kill()
        await caller.wait()
        raise WrongResultError(f"the caller has not ended within {PATIENCE} s") from None
    if caller.returncode:
        lines = complaint.decode(errors="replace").strip().splitlines()
        raise WrongResultError(f"the caller has failed: {lines[-1] if lines else caller.returncode}")
    found: dict[str, Any] = json.loads(said)
    return Outcome(
        total=found["total"], operations=found["sent"], sent=found["sent"], handled=found["handled"]
    )
