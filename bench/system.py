"""What a column is: a system under measurement, and the environment its child process needs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, TypeAlias

from bench import clusters, eventstores, otp, threads, web, workflows
from bench.case import Case, Kind, Measure
from bench.stages import thespian, xoscar

Table: TypeAlias = Literal["actors", "channels", "pods", "bus", "journal", "persistence"]
"""Which table a column stands in."""


@dataclass(frozen=True)
class System:
    """One column of a table."""

    name: str
    kind: Kind
    what: str
    mode: str | None = None
    """The mode that bandstand must run in; None where bandstand is not used."""
    loop: str = "asyncio"
    """The event loop of the queues."""
    is_slow: bool = False
    part: int = 1
    """What part of the slow size it is given: one in so many."""
    environment: dict[str, str] = field(default_factory=dict[str, str])
    python: Path | None = None
    """Whose Python runs it, where that is not ours."""
    table: Table = "actors"
    cores: int | None = None
    """On how many cores it may run; None where nobody pins it."""

    def measure(self, case: Case) -> Measure | None:
        return case.measures.get(self.kind)

    def size(self, case: Case, *, is_quick: bool) -> int:
        if is_quick:
            return case.size.quick
        return max((case.size.slow if self.is_slow else case.size.full) // self.part, case.size.least)

    def refusal(self) -> str | None:
        """Say why this process cannot measure the system; None if it can."""
        if self.kind in APART_REFUSALS:
            return APART_REFUSALS[self.kind]()
        if self.loop == "uvloop":
            try:
                import uvloop  # noqa: F401  # pyright: ignore[reportUnusedImport]  # is it there?
            except ImportError:
                return "uvloop is not installed"
        if self.mode is not None:
            return _mode_refusal(self.mode)
        return None

    def prepare(self) -> None:
        """Have everything there that the first reading would otherwise wait for."""
        if self.kind == "erlang":
            otp.prepare()

    def loop_factory(self) -> Callable[[], asyncio.AbstractEventLoop]:
        if self.loop == "uvloop":
            import uvloop

            return uvloop.new_event_loop
        return asyncio.new_event_loop


def _anyio_refusal() -> str | None:
    return "anyio is not installed" if find_spec("anyio") is None else None


APART_REFUSALS: dict[Kind, Callable[[], str | None]] = {
    "erlang": otp.refusal,
    "pykka": threads.refusal,
    "thespian": thespian.refusal,
    "xoscar": xoscar.refusal,
    "web": web.refusal,
    "stream": _anyio_refusal,
    "threads": threads.refusal,
    "ray": clusters.refusal,
    "aggregates": eventstores.refusal,
    "workflows": workflows.refusal,
}
"""Why the peers cannot be measured here, each by itself."""


def _mode_refusal(wanted: str) -> str | None:
    from bandstand import _build_mode

    if (found := _build_mode.mode()) != wanted:
        hint = "; `make ready` compiles them" if wanted == "compiled" else ""
        return f"the compiled modules run {found}, not {wanted}{hint}"
    if stale := _build_mode.stale_modules():
        return f"{len(stale)} extensions are stale; `make ready` compiles them"
    return None


# The peers never touch the kernel; interpreted, it is at least sure to be importable.
APART = {"BANDSTAND_PURE": "1"}

SYSTEMS = (
    System("limit", "limit", "a plain Python loop over a deque", environment=APART),
    System("compiled", "raw", "bandstand, raw loop", mode="compiled", environment={"BANDSTAND_PURE": "0"}),
    System("typed", "typed", "bandstand, typed actors", mode="compiled", environment={"BANDSTAND_PURE": "0"}),
    System(
        "interpreted",
        "raw",
        "the same, interpreted",
        mode="interpreted",
        is_slow=True,
        environment={"BANDSTAND_PURE": "1"},
    ),
    System(
        "asyncio", "queues", "a task with an asyncio.Queue for each actor", is_slow=True, environment=APART
    ),
    System("uvloop", "queues", "the same on uvloop", loop="uvloop", is_slow=True, environment=APART),
    System(
        "pykka",
        "pykka",
        "Pykka, a thread for each actor",
        is_slow=True,
        part=5,
        # In its environment bandstand is not installed.
        environment={**APART, "PYTHONPATH": "src"},
        python=threads.PYTHON,
    ),
    System(
        "pykka-1",
        "pykka",
        "Pykka on one core",
        is_slow=True,
        part=5,
        environment={**APART, "PYTHONPATH": "src"},
        python=threads.PYTHON,
        cores=1,
    ),
    System(
        "thespian",
        "thespian",
        "Thespian, all actors in one thread",
        is_slow=True,
        part=5,
        environment={**APART, "PYTHONPATH": "src"},
        python=threads.PYTHON,
    ),
    System(
        "xoscar",
        "xoscar",
        "xoscar, all actors in one pool, on uvloop",
        loop="uvloop",
        is_slow=True,
        part=5,
        environment={**APART, "PYTHONPATH": "src"},
        python=threads.PYTHON,
    ),
    System("erlang", "erlang", "Erlang/OTP on one scheduler", environment=APART),
    System(
        "erlang-all",
        "erlang",
        "Erlang/OTP, a scheduler for each core",
        environment={**APART, otp.SCHEDULERS: "all"},
    ),
    System(
        "channel",
        "channel",
        "bandstand's channels",
        mode="compiled",
        environment={"BANDSTAND_PURE": "0"},
        table="channels",
    ),
    System("Queue", "queue", "asyncio.Queue", is_slow=True, environment=APART, table="channels"),
    System(
        "anyio", "stream", "anyio's memory object streams", is_slow=True, environment=APART, table="channels"
    ),
    System(
        "pod",
        "pod",
        "bandstand's pods",
        mode="compiled",
        environment={"BANDSTAND_PURE": "0"},
        table="pods",
    ),
    System(
        "queued",
        "queued",
        "the same actors, never called directly",
        mode="compiled",
        environment={"BANDSTAND_PURE": "0"},
        table="pods",
    ),
    System(
        "one",
        "one",
        "the same work on one process pod",
        mode="compiled",
        environment={"BANDSTAND_PURE": "0"},
        table="pods",
    ),
    System(
        "bare",
        "bare",
        "the least there can be: a deque, a queue.SimpleQueue between threads, a pair of sockets",
        environment=APART,
        table="pods",
    ),
    System("mp.Queue", "mp", "multiprocessing.Queue", is_slow=True, environment=APART, table="pods"),
    System(
        "executor",
        "executor",
        "concurrent.futures.ProcessPoolExecutor",
        is_slow=True,
        environment=APART,
        table="pods",
    ),
    System(
        "shared",
        "shared",
        "the same with multiprocessing.shared_memory",
        is_slow=True,
        environment=APART,
        table="pods",
    ),
    System(
        "Pykka",
        "threads",
        "Pykka, a thread for each actor",
        is_slow=True,
        environment={**APART, "PYTHONPATH": "src"},
        python=threads.PYTHON,
        table="pods",
    ),
    System(
        "Ray",
        "ray",
        "Ray, an actor in a worker process",
        is_slow=True,
        part=5,
        environment={**APART, "PYTHONPATH": "src"},
        python=threads.PYTHON,
        table="pods",
    ),
    System(
        "bus",
        "bus",
        "bandstand's bus",
        mode="compiled",
        environment={"BANDSTAND_PURE": "0"},
        table="bus",
    ),
    System(
        "echo",
        "echo",
        "a bare asyncio.Protocol with msgspec on the same event loop",
        environment=APART,
        table="bus",
    ),
    System(
        "uvicorn",
        "web",
        "uvicorn with a Starlette endpoint, JSON over HTTP",
        is_slow=True,
        environment={**APART, "PYTHONPATH": "src"},
        python=threads.PYTHON,
        table="bus",
    ),
    System(
        "journal",
        "journal",
        "bandstand's journal",
        mode="compiled",
        environment={"BANDSTAND_PURE": "0"},
        table="journal",
    ),
    System(
        "memory",
        "memory",
        "the same node without a journal",
        mode="compiled",
        environment={"BANDSTAND_PURE": "0"},
        table="journal",
    ),
    System(
        "SQLite",
        "sqlite",
        "group commit of the same bytes into SQLite, set up as the journal's, on the same event loop",
        environment=APART,
        table="journal",
    ),
    System(
        "file",
        "file",
        "group commit of the same bytes into a file, with fdatasync",
        environment=APART,
        table="journal",
    ),
    System(
        "persistent",
        "persistent",
        "bandstand's persistent actors; for commands, a node with a journal",
        mode="compiled",
        environment={"BANDSTAND_PURE": "0"},
        table="persistence",
    ),
    System(
        "commits",
        "commits",
        "a row and a commit for each event, in a bare SQLite database",
        environment=APART,
        table="persistence",
    ),
    System(
        "eventsourcing",
        "aggregates",
        "eventsourcing, with its SQLite database",
        is_slow=True,
        environment={**APART, "PYTHONPATH": "src"},
        python=threads.PYTHON,
        table="persistence",
    ),
    System(
        "DBOS",
        "workflows",
        "DBOS, with its SQLite database, which syncs several times for each commit",
        is_slow=True,
        part=5,
        environment={**APART, "PYTHONPATH": "src"},
        python=threads.PYTHON,
        table="persistence",
    ),
)


def table_of(case: Case) -> Table:
    """Which table a case stands in: that of the systems that measure it."""
    return next(system.table for system in SYSTEMS if system.measure(case) is not None)


def systems_of(table: Table) -> tuple[System, ...]:
    return tuple(system for system in SYSTEMS if system.table == table)


def by_name(name: str) -> System:
    """Find a system.

    Raises:
        LookupError: there is none of that name.
    """
    for system in SYSTEMS:
        if system.name == name:
            return system
    raise LookupError(f"no system {name!r}; the systems are {', '.join(system.name for system in SYSTEMS)}")
