"""What a node under siege can do: note that it was asked, nap, and live as a hermit; and fail at each.

Nothing here grows: whatever grows in that process, grows in the node.
"""

from __future__ import annotations

import asyncio
import os
from typing import Annotated, Literal

from msgspec import Meta, Struct

from bandstand.bus import Capability, Command, Query, RestartLimits
from bandstand.errors import RefusedError
from bandstand.supervision import Backoff
from tests.soak.alarms import Mishap

MOST = 3_000_000
"""Numbers that can be noted."""

# How often each number was handled. It outlives those who write it; every page of it is there from the beginning.
_times = bytearray(b"\0") * MOST

Way = Literal["answer", "raise", "refuse"]


class Noted(Struct):
    """How often a number was noted."""

    times: int


class Note(Command[Noted], type="Ledger.Note"):
    """Note a number; then answer, fail or refuse."""

    number: Annotated[int, Meta(ge=0, lt=MOST)]
    way: Way = "answer"


class Sums(Struct):
    """What was noted: how many numbers, how many of them more than once, and how often at most."""

    noted: int
    again: int
    most: int


class Sum(Query[Sums], type="Ledger.Sum"):
    """Sum up."""


class Nap(Command[None], type="Sloth.Nap"):
    """Take some milliseconds."""

    ms: Annotated[int, Meta(ge=0, le=100)]


class Live(Command[int], type="Hermit.Live"):
    """Live, or not."""

    way: Literal["answer", "raise", "vanish"] = "answer"


RESTARTS = RestartLimits(max_restarts=1_000_000, backoff=Backoff(initial=0.001, maximum=0.001))


class Ledger(Capability):
    """Notes numbers."""

    restarts = RESTARTS
    # Room for all that besiegers can ask at once: what is refused for want of room is not remembered.
    mailbox = 8192

    def note(self, msg: Note) -> Noted:
        times = _times[msg.number] = min(255, _times[msg.number] + 1)
        if msg.way == "raise":
            raise Mishap("on purpose")
        if msg.way == "refuse":
            raise RefusedError("on purpose")
        return Noted(times)

    def sum(self, _msg: Sum) -> Sums:
        never, once = _times.count(0), _times.count(1)
        return Sums(MOST - never, MOST - never - once, max(_times))


class Sloth(Capability):
    """Takes its time."""

    async def nap(self, msg: Nap) -> None:
        await asyncio.sleep(msg.ms / 1000)


class Hermit(Capability):
    """Lives in a process of its own, and leaves it now and then."""

    restarts = RESTARTS

    def live(self, msg: Live) -> int:
        if msg.way == "raise":
            raise Mishap("on purpose")
        if msg.way == "vanish":
            os._exit(3)
        return os.getpid()
