"""Events: one is said, and 1, 10 or 100 hear it; capabilities in the same program, or clients over the Unix socket.

An operation is one event at one of those who hear it. 200 are said at a time, by a capability that is told to; then it is waited until
all have been heard. A capability has each event decoded for itself; the bare protocol encodes an event once and writes the same
bytes to everybody, all 200 at once.
"""

from __future__ import annotations

import asyncio
from functools import partial

from bandstand.core.asyncio_host import new_event_loop
from bench import calling, stopwatch
from bench.caller import BURST
from bench.case import Case, Outcome, Setting, Size


def inside(setting: Setting, *, hearers: int) -> Outcome:
    bursts = max(1, setting.size // (hearers * BURST))
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(_inside(bursts, hearers))


async def _inside(bursts: int, hearers: int) -> Outcome:
    from bench import lines

    ledgers = [lines.Ledger() for _ in range(hearers)]
    async with lines.node(None, [lines.Speaker, *map(lines.hearer, ledgers)]) as node:
        start = stopwatch.start()
        for turn in range(bursts):
            await node.bus.ask(lines.Say(first=turn * BURST, count=BURST))
            wanted = (turn + 1) * BURST
            while any(ledger.heard < wanted for ledger in reversed(ledgers)):  # noqa: ASYNC110  # turns, not time
                await asyncio.sleep(0)
        elapsed = stopwatch.since(start)
    n = bursts * BURST
    handled = sum(ledger.heard for ledger in ledgers if ledger.total == n * (n - 1) // 2)
    return Outcome(total=elapsed, operations=n * hearers, sent=n * hearers, handled=handled)


def node(setting: Setting, *, listeners: int) -> Outcome:
    from bench import lines

    return calling.drive(lines.node, "listen", setting.size, listeners)


def echo(setting: Setting, *, listeners: int) -> Outcome:
    from bench import lines

    return calling.drive(lines.echo, "listen", setting.size, listeners)


CASES = (
    *(
        Case(
            name=f"bus-fanout-{hearers}",
            title=f"an event to {hearers} inside",
            what=f"an event to {hearers} capabilities that subscribe",
            size=Size(full=100_000 if hearers == 1 else 200_000, slow=40_000, quick=hearers * BURST),
            measures={"bus": partial(inside, hearers=hearers)},
        )
        for hearers in (1, 10, 100)
    ),
    *(
        Case(
            name=f"bus-listeners-{listeners}",
            title=f"an event to {listeners} outside",
            what=f"an event to {listeners} clients over the Unix socket that subscribe",
            size=Size(full=100_000 if listeners == 1 else 400_000, slow=40_000, quick=listeners * BURST),
            measures={"bus": partial(node, listeners=listeners), "echo": partial(echo, listeners=listeners)},
        )
        for listeners in (1, 10, 100)
    ),
)
