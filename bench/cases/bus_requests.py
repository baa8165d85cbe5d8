"""Requests over a Unix socket: `Memory.Get` as a line of JSON, answered with another, by a caller in a process of its own.

*Pipelined* has 256 requests without an answer at any time, *one at a time* has one. Over HTTP there is no pipelining: 32
connections with one request each stand beside the first, one connection beside the second.
"""

from __future__ import annotations

from functools import partial

from bench import calling, web
from bench.case import Case, Outcome, Setting, Size
from bench.target import at_rate

WINDOW = 256
CONNECTIONS = 32


def node(setting: Setting, *, window: int) -> Outcome:
    # Here and below: what needs msgspec is not there in the peers' environment.
    from bench import lines

    return calling.drive(lines.node, "requests", setting.size, window)


def echo(setting: Setting, *, window: int) -> Outcome:
    from bench import lines

    return calling.drive(lines.echo, "requests", setting.size, window)


def http(setting: Setting, *, connections: int) -> Outcome:
    return calling.drive(web.serving, "http", setting.size, connections)


CASES = (
    Case(
        name="bus-pipelined",
        title="requests, pipelined",
        what="a query over the Unix socket, 256 at a time",
        size=Size(full=200_000, slow=20_000, quick=600),
        measures={
            "bus": partial(node, window=WINDOW),
            "echo": partial(echo, window=WINDOW),
            "web": partial(http, connections=CONNECTIONS),
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
            "web": partial(http, connections=1),
        },
    ),
)
