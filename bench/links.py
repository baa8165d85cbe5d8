"""Both ends of a link to a process on one event loop of this process, so that the instructions of all that an ask takes can be counted.

Each end has a loop for its actors and one for its proxies, as in a pod. What is missing is what no count shows: the change from one process to
the other.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass

from bandstand.actor import ActorSystem
from bandstand.core import ActorId, Overflow
from bandstand.pod.link import Link
from bench import pods, stopwatch
from bench.case import Outcome, Setting


@dataclass(frozen=True)
class Role:
    """What a link must know of an adder."""

    kind: type[pods.Adder] = pods.Adder
    mailbox: int | None = None
    overflow: Overflow = Overflow.REJECT


def ask(setting: Setting) -> Outcome:
    """Let an actor ask an adder at the other end, one at a time."""
    with asyncio.Runner(loop_factory=setting.loop_factory) as runner:
        return runner.run(_ask(setting.size))


async def _ask(count: int) -> Outcome:
    up: asyncio.Future[Mapping[str, ActorId]] = asyncio.get_running_loop().create_future()
    ours, theirs = socket.socketpair()
    async with AsyncExitStack() as stack:
        near, near_proxies, far, far_proxies = [
            await stack.enter_async_context(ActorSystem()) for _ in range(4)
        ]
        adder = far.spawn(pods.Adder)
        ends = [
            Link(
                theirs,
                far_proxies,
                here="far",
                there="near",
                theirs={},
                find={"adder": adder}.get,  # type: ignore[arg-type]  # a handle, as its users see it
                carries=(),
                on_up=lambda _proxies: None,
                on_down=lambda _reason: None,
                on_dead=lambda _message: None,
            ),
            Link(
                ours,
                near_proxies,
                here="near",
                there="far",
                theirs={"adder": Role()},
                find=lambda _role: None,
                carries=(),
                on_up=up.set_result,
                on_down=lambda _reason: None,
                on_dead=lambda _message: None,
            ),
        ]
        proxy: pods.Adder = near_proxies.handle_at(pods.Adder, None, actor=(await up)["adder"])  # type: ignore[assignment]  # same
        sender = near.spawn(pods.Sender, pods.Peers(adder=proxy))
        start = stopwatch.start()
        _times, right = await sender.questions.within(pods.PATIENCE_MS / 1000)(count)
        elapsed = stopwatch.since(start)
        for end in ends:
            end.close("done")
        # The descriptors are closed in the next turn.
        await asyncio.sleep(0)
    return Outcome(total=elapsed, operations=count, sent=count, handled=right)
