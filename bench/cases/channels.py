"""Elements from one task to another, through a channel: beside asyncio.Queue and anyio's memory object streams.

One task sends so many elements, another receives them; the clock runs until both are done. Every peer is used as its users
write it, with `await` on both sides, on the same event loop: uvloop where it is installed, and asyncio's own in rows of their
own.

What is comparable: with a buffer, all three give way only when it is full or empty, but anyio's streams also give the event
loop a turn for every element, by design. At a rendezvous a send is over when it has been received. asyncio.Queue has no
rendezvous; the nearest is one of size 1, whose put is over one element earlier, so it is asked for less.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from itertools import repeat
from typing import Any

from bandstand.core.asyncio_host import new_event_loop
from bench import stopwatch
from bench.case import Case, Measure, Outcome, Setting, Size
from bench.target import at_rate

BUFFER = 100
HOSTS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "uvloop": new_event_loop,
    "asyncio": asyncio.new_event_loop,
}


async def pass_on(
    send: Callable[[int], Awaitable[object]], receive: Callable[[], Awaitable[int]], size: int
) -> Outcome:
    """Have `size` elements sent by one task and received by another; each must come once, and in order."""
    handled = 0

    async def sender() -> None:
        for element in range(size):
            await send(element)

    async def receiver() -> None:
        nonlocal handled
        for expected in range(size):
            if await receive() == expected:
                handled += 1

    tasks = [asyncio.ensure_future(receiver()), asyncio.ensure_future(sender())]
    start = stopwatch.start()
    await asyncio.gather(*tasks)
    return Outcome(total=stopwatch.since(start), operations=size, sent=size, handled=handled)


async def channel(capacity: int, size: int) -> Outcome:
    from bandstand.scope import Channel

    ours = Channel[int](capacity)
    return await pass_on(ours.send, ours.receive, size)


async def queue(capacity: int, size: int) -> Outcome:
    theirs: asyncio.Queue[int] = asyncio.Queue(max(1, capacity))
    return await pass_on(theirs.put, theirs.get, size)


async def stream(capacity: int, size: int) -> Outcome:
    import anyio

    send, receive = anyio.create_memory_object_stream[int](capacity)
    async with send, receive:
        return await pass_on(send.send, receive.receive, size)


async def consumed(capacity: int, size: int) -> Outcome:
    """The same into a channel actor, which is no task."""
    from bandstand.core import Loop
    from bandstand.scope import Channel, consume

    handled = 0

    def process(element: int) -> None:
        nonlocal handled
        if element == handled:
            handled += 1

    async with Loop():
        ours = Channel[int](capacity)
        actor = consume(ours, process)
        start = stopwatch.start()
        for element in range(size):
            await ours.send(element)
        ours.close()
        await actor.ended()
        elapsed = stopwatch.since(start)
    return Outcome(total=elapsed, operations=size, sent=size, handled=handled)


def tried(send: Callable[[int], object], receive: Callable[[], int | None], size: int) -> Outcome:
    """Both sides in one plain function, without waiting for anything."""
    handled = 0
    start = stopwatch.start()
    for _ in repeat(None, size):
        send(1)
        if receive() == 1:
            handled += 1
    return Outcome(total=stopwatch.since(start), operations=size, sent=size, handled=handled)


async def tried_channel(size: int) -> Outcome:
    from bandstand.scope import UNBOUNDED, Channel

    ours = Channel[int](UNBOUNDED)
    return tried(ours.try_send, ours.try_receive, size)


async def tried_queue(size: int) -> Outcome:
    theirs: asyncio.Queue[int] = asyncio.Queue()
    return tried(theirs.put_nowait, theirs.get_nowait, size)


def on(host: str, body: Callable[[int], Coroutine[Any, Any, Outcome]]) -> Measure:
    """A measure of a coroutine function of the size, on one kind of event loop."""
    return partial(_run, host, body)


def _run(host: str, body: Callable[[int], Coroutine[Any, Any, Outcome]], setting: Setting) -> Outcome:
    with asyncio.Runner(loop_factory=HOSTS[host]) as runner:
        return runner.run(body(setting.size))


def case(name: str, title: str, what: str, capacity: int, host: str) -> Case:
    is_ours = host == "uvloop"
    return Case(
        name=name if is_ours else f"{name}-{host}",
        title=title if is_ours else f"{title}, {host}",
        what=what if is_ours else f"{what}, on {host}'s own event loop",
        size=Size(full=300_000, slow=50_000, quick=300),
        measures={
            "channel": on(host, partial(channel, capacity)),
            "queue": on(host, partial(queue, capacity)),
            "stream": on(host, partial(stream, capacity)),
        },
        target=at_rate(Queue=2.0, anyio=2.0),
    )


BUFFERED = (
    "channel",
    "elements through a buffer of 100",
    "one task sends, another receives, through a buffer of 100",
)
RENDEZVOUS = ("rendezvous", "elements at a rendezvous", "one task sends, another receives, without a buffer")

CASES = (
    case(*BUFFERED, BUFFER, "uvloop"),
    case(*BUFFERED, BUFFER, "asyncio"),
    case(*RENDEZVOUS, 0, "uvloop"),
    case(*RENDEZVOUS, 0, "asyncio"),
    Case(
        name="channel-try",
        title="elements without waiting",
        what="try_send and try_receive in one function",
        size=Size(full=500_000, slow=100_000, quick=300),
        measures={"channel": on("uvloop", tried_channel), "queue": on("uvloop", tried_queue)},
        target=at_rate(Queue=2.0),
    ),
    Case(
        name="channel-actor",
        title="elements into a channel actor",
        what="one task sends, a channel actor consumes, through a buffer of 100",
        size=Size(full=300_000, slow=50_000, quick=300),
        measures={"channel": on("uvloop", partial(consumed, BUFFER))},
    ),
)
