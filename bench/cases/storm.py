"""A storm of restarts: a thousand children of one supervisor all fail in one tick, and all are started again.

Each child gets fresh state from its init; when the last of the thousand is back, all of them get the message at which they raise.
After three storms the supervisor is stopped and another takes its place, which is not in the figure: OTP's supervisor keeps a list of its
restarts of the last second and walks it at every restart, as bandstand's need not. An operation is one restart; logging is
off in all systems.

What is comparable: both supervisors are those for children of one shape, which is what a thousand of them are: bandstand's of a
`DynamicSpec`, OTP's own `supervisor` with `simple_one_for_one` and `proc_lib` children. OTP finds those by their pids; of static children it
would search the list at every end. `limit` makes a state, calls a
handler and catches what it raises. The asyncio peer is a callback at the end of each task that makes the next.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from time import perf_counter_ns
from typing import Any

from bandstand.core import ActorId, Context, Loop
from bandstand.supervision import ChildSpec, DynamicSpec, DynamicSupervisor, spawn_supervisor
from bench import limit, otp, queues, raw, stopwatch
from bench.case import Case, Outcome, Setting, Size, WrongResultError
from bench.cases.restart import FailedError, quiet
from bench.target import ahead_of

CHILDREN = 1_000
STORMS = 3


def restarts_of(setting: Setting) -> int:
    """How many restarts whole supervisors make within the size; those of one at least."""
    whole = STORMS * children_of(setting)
    return max(1, setting.size // whole) * whole


def children_of(setting: Setting) -> int:
    """How many children a supervisor has; a tenth under --quick."""
    return CHILDREN // 10 if setting.is_quick else CHILDREN


def plain(setting: Setting) -> Outcome:
    n, restarts = restarts_of(setting), 0
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
            if restarts <= n - size:
                append((visit, 0))

    size = children_of(setting)
    tasks.extend([(visit, 0)] * size)
    elapsed = limit.drain(tasks)
    return Outcome(total=elapsed, operations=n, sent=n, handled=restarts)


def crowd(loop: Loop, spec: DynamicSpec[ChildSpec[Any]], size: int) -> DynamicSupervisor[ActorId]:
    """A supervisor that has so many children."""
    supervisor = spawn_supervisor(loop, spec)
    for _ in range(size):
        supervisor.start_child()
    return supervisor


def bandstand(setting: Setting) -> Outcome:
    n, size, failed, begun, elapsed = restarts_of(setting), children_of(setting), 0, 0, 0
    left, storms = n // size, 0
    stop: Callable[[], object] = list
    living: list[ActorId] = []
    loop = raw.make()
    send = loop.send

    def init(ctx: Context[list[int]]) -> list[int]:
        living.append(ctx.self_id)
        if len(living) == size:
            send(maker, None)
        return [failed]

    def child(ctx: Context[list[int]], _data: object) -> None:
        nonlocal failed
        failed += 1
        raise FailedError(ctx.state)

    spec = DynamicSpec(child=ChildSpec("child", child, init=init), max_restarts=10**9)

    def make(_ctx: Context[None], _data: object) -> None:
        nonlocal begun, elapsed, left, storms, living, stop
        if begun:
            elapsed += stopwatch.since(begun)
            begun = 0
        present, living = living, []
        if storms:
            storms -= 1
            left -= 1
            begun = perf_counter_ns()
            for who in present:
                send(who, None)
            return
        stop()
        if left:
            storms = STORMS
            stop = crowd(loop, spec, size).stop

    maker = loop.spawn(make)
    send(maker, None)
    with quiet():
        raw.drain(loop)
    ended = loop.statistics().ended_panic
    loop.destroy()
    if ended != n:
        raise WrongResultError(f"{n} incarnations were to fail, {ended} did")
    return Outcome(total=elapsed, operations=n, sent=n, handled=failed)


async def tasks(setting: Setting) -> Outcome:
    n, size, failed = restarts_of(setting), children_of(setting), 0
    mailboxes: list[asyncio.Queue[int]] = []
    living: set[asyncio.Task[None]] = set()
    complete = asyncio.Event()

    async def child(mailbox: asyncio.Queue[int]) -> None:
        nonlocal failed
        await mailbox.get()
        failed += 1
        raise FailedError

    def start_child() -> None:
        mailbox = asyncio.Queue[int]()
        mailboxes.append(mailbox)
        task = asyncio.ensure_future(child(mailbox))
        living.add(task)
        task.add_done_callback(restart)
        if len(mailboxes) == size:
            complete.set()

    def restart(task: asyncio.Task[None]) -> None:
        living.discard(task)
        if not task.cancelled() and isinstance(task.exception(), FailedError):
            start_child()

    for _ in range(size):
        start_child()
    await asyncio.sleep(0)
    start = stopwatch.start()
    for _ in range(n // size):
        present = mailboxes.copy()
        mailboxes.clear()
        complete.clear()
        for mailbox in present:
            mailbox.put_nowait(0)
        await complete.wait()
    elapsed = stopwatch.since(start)
    for task in list(living):
        task.cancel()
    await asyncio.gather(*living, return_exceptions=True)
    return Outcome(total=elapsed, operations=n, sent=n, handled=failed)


CASE = Case(
    name="storm",
    title="restart storm, 1,000 children",
    what="a thousand children of one supervisor fail in one tick and are started again",
    size=Size(full=30_000, slow=15_000, quick=300),
    measures={
        "limit": plain,
        "raw": bandstand,
        "queues": lambda setting: queues.run(setting, tasks(setting)),
        "erlang": lambda setting: otp.run("storm", restarts_of(setting), children_of(setting), STORMS),
    },
    target=ahead_of("erlang"),
)
