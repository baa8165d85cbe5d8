"""What is counted: a case of the benchmark on one kind of system, and how many operations."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module

from bench.case import Case, Kind, Measure

YARDSTICK = "limit"
"""The workload with nothing of bandstand in it: what the others are measured by where no figure is known."""


MARGIN = 0.10
"""By how much a figure may grow where the same Python, compilers and libraries counted before."""


@dataclass(frozen=True)
class Workload:
    """One figure: the instructions of one operation."""

    name: str
    home: str
    """The module of `bench.cases` where the case is. Not all of them are loaded: that takes longer than counting."""
    case: str
    kind: Kind
    size: int
    """How many operations it is watched doing, and then twice as many: a multiple of the case's bursts."""
    what: str
    margin: float = MARGIN

    def measure(self) -> Measure:
        """Find what runs it.

        Raises:
            LookupError: there is no such case any more.
        """
        home = import_module(f"bench.cases.{self.home}")
        cases: tuple[Case, ...] = home.CASES if hasattr(home, "CASES") else (home.CASE,)
        # Cases that are counted and not timed.
        cases += getattr(home, "COUNTED", ())
        for case in cases:
            if case.name == self.case:
                return case.measures[self.kind]
        raise LookupError(f"bench.cases.{self.home} has no case {self.case!r}")


WORKLOADS = (
    Workload(YARDSTICK, "pingpong", "ping-pong", "limit", 1_000, "ping-pong on a plain Python loop"),
    Workload("ping-pong", "pingpong", "ping-pong", "raw", 1_000, "a one-way message, raw"),
    Workload("ping-pong-typed", "pingpong", "ping-pong", "typed", 1_000, "a one-way message, typed"),
    Workload("flood", "bounded", "counting-bounded", "raw", 1_000, "a message of a flood, raw"),
    Workload("batch", "batches", "counting-batch", "typed", 2_000, "a message to one that takes lists"),
    Workload("ask", "ask", "ask", "typed", 500, "an ask beside the loop"),
    Workload("ask-inside", "ask", "ask-inside", "typed", 500, "an ask from an async handler"),
    Workload("async", "coroutines", "async", "raw", 1_000, "a message to an `async def` that never suspends"),
    Workload(
        "async-suspends", "coroutines", "async-suspends", "raw", 500, "a message to one that awaits sleep(0)"
    ),
    Workload("create", "create", "fork-join-create", "raw", 500, "spawn, one message, stop, raw"),
    Workload("create-typed", "create", "fork-join-create", "typed", 500, "spawn, one message, stop, typed"),
    Workload("restart", "restart", "restart", "raw", 100, "a child fails and is started again"),
    Workload("timer-cancelled", "timer_churn", "timers-1e3", "raw", 1_000, "a timer set and cancelled"),
    Workload("timer-fired", "timer_fired", "timers-fired", "raw", 500, "a timer set, due and handled"),
    Workload("channel", "channels", "channel", "channel", 500, "an element through a channel"),
    Workload(
        "link-ask", "pods_process", "link-ask", "pod", 500, "an ask of a process pod, both ends of the link"
    ),
    # Wider: where Python's cache of attributes has two names fall together, a request takes 7 % more, and that depends on where
    # in memory they happen to lie.
    Workload("bus-ask", "bus_ask", "bus-ask", "bus", 200, "a request to the bus from inside", margin=0.20),
    Workload(
        "bus-socket", "bus_requests", "socket-pipelined", "bus", 1024, "a query over the socket, of many"
    ),
    Workload(
        "bus-socket-one", "bus_requests", "socket-one", "bus", 256, "a query over the socket, one at a time"
    ),
    Workload(
        "bus-socket-command",
        "bus_requests",
        "socket-remembered",
        "bus",
        1024,
        "a command over the socket, of many",
    ),
    # Wider: how many commands share a page depends on the disk.
    Workload(
        "durable-command",
        "durable",
        "durable-counted",
        "journal",
        4096,
        "a command to a node with a journal, of 512",
        margin=0.20,
    ),
    Workload("memory-command", "durable", "durable-counted", "memory", 4096, "the same without a journal"),
    Workload(
        "echo-socket",
        "bus_requests",
        "socket-pipelined",
        "echo",
        1024,
        "the same query by a bare echo, of many",
    ),
    Workload("echo-socket-one", "bus_requests", "socket-one", "echo", 256, "the same, one at a time"),
)


def by_name(name: str) -> Workload:
    """Find a workload.

    Raises:
        LookupError: there is none of that name.
    """
    for workload in WORKLOADS:
        if workload.name == name:
            return workload
    names = ", ".join(workload.name for workload in WORKLOADS)
    raise LookupError(f"no workload {name!r}; the workloads are {names}")
