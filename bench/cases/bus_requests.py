"""Requests over a Unix socket: `Memory.Get` as a line of JSON, answered with another, by a caller in a process of its own.

*Pipelined* has 256 requests without an answer at any time, *one at a time* has one. The bus and the bare protocol have one connection for it. Over HTTP the same
256 go over 32 connections that are kept, eight pipelined on each, which is where uvicorn is quickest; one at a time has one connection there too.
So what is compared is a protocol of lines on one connection with what HTTP makes of the same request and answer, head and all: uvicorn and Starlette do
that in Python, and the bus need not. How uvicorn is set up, `web` says.

*Beside one that never reads*: a client asks one thing at a time, while another sends a million requests and takes no answer. The
figure is what 99 of 100 of the first one's requests take at most, and the cell fails if the node needs memory for the other.

`COUNTED` is for `bench.instructions` only: the client is in the same process, on the same event loop, so that every run does the same. It sends
64 requests, and the next 64 when these are answered; what it does itself is a few instructions a request.
"""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

from bandstand.core.asyncio_host import new_event_loop
from bench import calling, stopwatch, web
from bench.caller import MOMENT, request
from bench.case import Case, Outcome, Setting, Size, WrongResultError
from bench.target import at_rate

WINDOW = 256
CHUNK = 64
"""How many requests a counted client sends at once: as many as a connection splits at a time."""
MOST_COUNTED = 1 << 15
NS_PER_MS = 1_000_000
FLOOD = 1_000_000
MOST_GROWN = 50 * 1024
"""KiB that a flood may cost."""


def node(setting: Setting, *, window: int) -> Outcome:
    # Here and below: what needs msgspec is not there in the peers' environment.
    from bench import lines

    return calling.drive(lines.node, "requests", setting.size, window)


def echo(setting: Setting, *, window: int) -> Outcome:
    from bench import lines

    return calling.drive(lines.echo, "requests", setting.size, window)


def http(setting: Setting, *, window: int) -> Outcome:
    outcome = calling.drive(web.serving, "http", setting.size, window)
    return replace(outcome, details={"msgspec": float(web.has_msgspec())})


def flooded(setting: Setting) -> Outcome:
    from bench import lines

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    outcome = calling.drive(lines.node, "beside", setting.size, FLOOD // 100 if setting.is_quick else FLOOD)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    if grown > MOST_GROWN:
        raise WrongResultError(f"the node has grown by {grown} KiB for a client that does not read")
    return replace(outcome, total=outcome.total / NS_PER_MS, details={"grown_kib": grown})


CASES = (
    Case(
        name="bus-pipelined",
        title="requests, pipelined",
        what="a query over the Unix socket, 256 at a time",
        size=Size(full=200_000, slow=20_000, quick=600),
        measures={
            "bus": partial(node, window=WINDOW),
            "echo": partial(echo, window=WINDOW),
            "web": partial(http, window=WINDOW),
        },
        target=at_rate(echo=0.4, uvicorn=10),
    ),
    Case(
        name="bus-one",
        title="requests, one at a time",
        what="a query over the Unix socket, the next when it is answered",
        size=Size(full=20_000, slow=5_000, quick=100),
        measures={
            "bus": partial(node, window=1),
            "echo": partial(echo, window=1),
            "web": partial(http, window=1),
        },
    ),
    Case(
        name="bus-flooded",
        title="p99 beside one that never reads",
        what="99 of 100 queries, one at a time, while another client sends a million and reads nothing",
        size=Size(full=5_000, slow=1_000, quick=200),
        measures={"bus": flooded},
        unit="ms",
    ),
)


# --- counted ----------------------------------------------------------------------------------------------------------


class Client(asyncio.Protocol):
    """Sends one request, then chunks of them, each when what was sent before is answered.

    All replies have the length of the first: it counts bytes, which costs next to nothing.
    """

    def __init__(self, first: bytes, chunks: list[bytes], chunk: int) -> None:
        self._first = first
        self._chunks = iter(chunks)
        self._chunk = chunk
        self._missing = 0
        self.length = 0
        self.received = 0
        self.done = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Any: uvloop's transports do not derive from asyncio.Transport.
        self._transport = cast("Any", transport)
        self._transport.write(self._first)

    def data_received(self, data: bytes) -> None:
        if not self.length:
            self.length = len(data)
        else:
            self.received += len(data)
            self._missing -= len(data)
        if self._missing <= 0:
            chunk = next(self._chunks, None)
            if chunk is None:
                self.done.set_result(None)
            else:
                self._missing = self._chunk * self.length
                self._transport.write(chunk)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.done.done():
            self.done.set_exception(exc or ConnectionError("the server has ended the connection"))


@cache
def chunks_of(make: Callable[[int], bytes], chunk: int) -> list[bytes]:
    """Make all requests once: a run that is counted takes its part of them."""
    return [b"".join(map(make, range(at, at + chunk))) for at in range(0, MOST_COUNTED, chunk)]


def counted(setting: Setting, *, server: str, make: Callable[[int], bytes], chunk: int) -> Outcome:
    from bench import lines

    async def live() -> Outcome:
        serve: Callable[[str], AbstractAsyncContextManager[object]] = getattr(lines, server)
        chunks = chunks_of(make, chunk)[: setting.size // chunk]
        with TemporaryDirectory(prefix="bench-") as folder:
            path = str(Path(folder, "bus.sock"))
            async with serve(path):
                start = stopwatch.start()
                transport, client = await asyncio.get_running_loop().create_unix_connection(
                    partial(Client, make(MOST_COUNTED), chunks, chunk), path
                )
                await client.done
                elapsed = stopwatch.since(start)
                transport.close()
        handled, rest = divmod(client.received, client.length)
        if rest:
            raise WrongResultError("the replies do not have the same length")
        return Outcome(total=elapsed, operations=setting.size, sent=setting.size, handled=handled)

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(live())


def addition(number: int) -> bytes:
    """A command: its answer is remembered."""
    return (
        b'{"kind":"command","type":"Adder.Add","data":{"number":%d},"metadata":{"id":"%026d","timestamp":%d}}\n'
        % (number, number, MOMENT)
    )


COUNTED = (
    Case(
        name="socket-pipelined",
        title="a query, pipelined",
        what="a query over the Unix socket, 64 at a time",
        size=Size(full=1024, slow=1024, quick=128),
        measures={
            "bus": partial(counted, server="node", make=request, chunk=CHUNK),
            "echo": partial(counted, server="echo", make=request, chunk=CHUNK),
        },
    ),
    Case(
        name="socket-one",
        title="a query, one at a time",
        what="a query over the Unix socket, the next when it is answered",
        size=Size(full=256, slow=256, quick=64),
        measures={
            "bus": partial(counted, server="node", make=request, chunk=1),
            "echo": partial(counted, server="echo", make=request, chunk=1),
        },
    ),
    Case(
        name="socket-remembered",
        title="a command, pipelined",
        what="a command over the Unix socket, 64 at a time; its answer is remembered",
        size=Size(full=1024, slow=1024, quick=128),
        measures={"bus": partial(counted, server="remembering_node", make=addition, chunk=CHUNK)},
    ),
)
