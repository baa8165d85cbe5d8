"""Supervised restart: a child that fails as soon as it is asked to, and is started again by its supervisor.

Each incarnation gets fresh state from its init and one message, at which it raises. After a hundred restarts the last
one reports, the supervisor is stopped, and another takes its place; that is part of the figure. (OTP's supervisor keeps a
list of its restarts of the last second and walks it at every restart: under thousands of them it would be measured for that.)
Logging is off in all systems.

What is comparable: Erlang's is OTP's own `supervisor` with a `proc_lib` child. `limit` is what must happen in any Python: make
a state, call a handler, catch what it raises, in a plain loop. The asyncio peer is the usual loop around a task, which has
neither a limit nor siblings to think of.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Generator
from contextlib import contextmanager, suppress

from bandstand.core import Context
from bandstand.supervision import ChildSpec, Supervisor, SupervisorSpec, spawn_supervisor
from bench import limit, otp, queues, raw, stopwatch
from bench.case import Case, Outcome, Setting, Size, WrongResultError
from bench.target import at_most

BATCH = 100


@contextmanager
def quiet() -> Generator[None]:
    """Have nobody listen to what supervisors say."""
    logger = logging.getLogger("bandstand.supervision")
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before


class FailedError(Exception):
    """What the child raises."""


def plain(setting: Setting) -> Outcome:
    n, restarts = setting.size // BATCH * BATCH, 0
    tasks: limit.Tasks = deque()
    append = tasks.append

    def child(state: list[int]) -> None:
        raise FailedError(state)

    def visit(_ctx: None, _data: int) -> None:
        nonlocal restarts
        state = [restarts]
        try:
            child(state)
        except FailedError:
            restarts += 1
            if restarts < n:
                append((visit, 0))

    append((visit, 0))
    elapsed = limit.drain(tasks)
    return Outcome(total=elapsed, operations=n, sent=n, handled=restarts)


def bandstand(setting: Setting) -> Outcome:
    batches, restarts, failed = setting.size // BATCH, -1, 0
    n = batches * BATCH
    supervisor: Supervisor | None = None
    loop = raw.make()
    send = loop.send

    def init(ctx: Context[list[int]]) -> list[int]:
        nonlocal restarts
        restarts += 1
        send(ctx.self_id, restarts == BATCH)
        return [restarts]

    def child(ctx: Context[list[int]], is_last: object) -> None:
        nonlocal failed
        if not is_last:
            failed += 1
            raise FailedError(ctx.state)
        send(maker, None)

    spec = SupervisorSpec(children=[ChildSpec("child", child, init=init)], max_restarts=10**9)

    def make(_ctx: Context[None], _data: object) -> None:
        nonlocal batches, restarts, supervisor
        if supervisor is not None:
            supervisor.stop()
            supervisor = None
        if batches:
            batches -= 1
            restarts = -1
            supervisor = spawn_supervisor(loop, spec)

    maker = loop.spawn(make)
    with quiet():
        elapsed = raw.drain(loop, lambda: send(maker, None))
    ended = loop.statistics().ended_panic
    loop.destroy()
    if ended != n:
        raise WrongResultError(f"{n} incarnations were to fail, {ended} did")
    return Outcome(total=elapsed, operations=n, sent=n, handled=failed)


async def tasks(size: int) -> Outcome:
    n, failed = size // BATCH * BATCH, 0

    async def child(mailbox: asyncio.Queue[int]) -> None:
        nonlocal failed
        await mailbox.get()
        failed += 1
        raise FailedError

    start = stopwatch.start()
    for _ in range(n):
        mailbox = asyncio.Queue[int]()
        mailbox.put_nowait(0)
        with suppress(FailedError):
            await asyncio.ensure_future(child(mailbox))
    elapsed = stopwatch.since(start)
    return Outcome(total=elapsed, operations=n, sent=n, handled=failed)


CASE = Case(
    name="restart",
    title="supervised restart",
    what="a child fails and is started again, with fresh state, by its supervisor",
    size=Size(full=50_000, slow=20_000, quick=300),
    measures={
        "limit": plain,
        "raw": bandstand,
        "queues": lambda setting: queues.run(setting, tasks(setting.size)),
        "erlang": lambda setting: otp.run("restart", setting.size // BATCH * BATCH, BATCH),
    },
    target=at_most(5000, "ns"),
    repeats=5,
)
