"""The node of a node run, `python -m tests.soak.node_program FOLDER`: capabilities that count, are slow, crash or run in a process of their own.

Nothing here grows, so whatever grows in that process grows in the node.
"""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Annotated, Literal

from msgspec import Meta, Struct

from bandstand.bus import Capability, Command, Query, RestartLimits, Service, UnixAdapter, serve
from bandstand.errors import RefusedError
from bandstand.isolation import isolated
from bandstand.supervision import Backoff
from tests.soak.checks import IntentionalError

MOST = 3_000_000
"""How many numbers there are."""

# How often each number was handled. It outlives restarts of the capability, and has its full size from the start.
_times = bytearray(b"\0") * MOST

Way = Literal["answer", "raise", "refuse"]


class Counted(Struct):
    """How often a number was counted."""

    times: int


class Count(Command[Counted], type="Counter.Count"):
    """Count a number; then answer, fail or refuse."""

    number: Annotated[int, Meta(ge=0, lt=MOST)]
    way: Way = "answer"


class Totals(Struct):
    """How many numbers were counted, how many of them more than once, and how often at most."""

    counted: int
    again: int
    most: int


class Total(Query[Totals], type="Counter.Total"):
    """Return the totals."""


class Sleep(Command[None], type="Sleeper.Sleep"):
    """Take some milliseconds."""

    ms: Annotated[int, Meta(ge=0, le=100)]


class Work(Command[int], type="Isolated.Work"):
    """Answer, raise, or end the process."""

    way: Literal["answer", "raise", "vanish"] = "answer"


RESTARTS = RestartLimits(max_restarts=1_000_000, backoff=Backoff(initial=0.001, maximum=0.001))


class Counter(Capability):
    """Counts numbers."""

    restarts = RESTARTS
    # Room for all that the clients can ask at once: a request that is refused by a full mailbox is not remembered.
    mailbox = 8192

    def count(self, msg: Count) -> Counted:
        times = _times[msg.number] = min(255, _times[msg.number] + 1)
        if msg.way == "raise":
            raise IntentionalError
        if msg.way == "refuse":
            raise RefusedError("on purpose")
        return Counted(times)

    def total(self, _msg: Total) -> Totals:
        never, once = _times.count(0), _times.count(1)
        return Totals(MOST - never, MOST - never - once, max(_times))


class Sleeper(Capability):
    """Is slow."""

    async def sleep(self, msg: Sleep) -> None:
        await asyncio.sleep(msg.ms / 1000)


class Isolated(Capability):
    """Runs in a process of its own, and ends it sometimes."""

    restarts = RESTARTS

    def work(self, msg: Work) -> int:
        if msg.way == "raise":
            raise IntentionalError
        if msg.way == "vanish":
            os._exit(3)
        return os.getpid()


def main() -> int:
    adapter = UnixAdapter(f"{sys.argv[1]}/bus.sock")
    service = Service(load=lambda: [Counter, Sleeper, isolated(Isolated)], adapters=[adapter])
    return serve(service, sys.stdout, sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
