"""Requests over a Unix socket: `Memory.Get` as a line of JSON, answered with another, by a caller in a process of its own.

*Pipelined* has 256 requests without an answer at any time, *one at a time* has one. The bus and the bare protocol have one connection for it. Over HTTP the same
256 go over 32 connections that are kept, eight pipelined on each, which is where uvicorn is quickest; one at a time has one connection there too.
So what is compared is a protocol of lines on one connection with what HTTP makes of the same request and answer, head and all: uvicorn and Starlette do
that in Python, and the bus need not. How uvicorn is set up, `web` says.

*Beside one that never reads*: a client asks one thing at a time, while another sends a million requests and takes no answer. The
figure is what 99 of 100 of the first one's requests take at most, and the cell fails if the node needs memory for the other.
"""

from __future__ import annotations

import resource
from dataclasses import replace
from functools import partial

from bench import calling, web
from bench.case import Case, Outcome, Setting, Size, WrongResultError
from bench.target import at_rate

WINDOW = 256
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
