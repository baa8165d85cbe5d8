"""The node of a fuzz run, `python -m tests.fuzz.node_program FOLDER`: a capability with data of every type, and one that fails in every way.

Neither keeps anything, so whatever grows in this process is a leak.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import decimal
import sys
import uuid
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from bandstand.bus import (
    Capability,
    Command,
    Event,
    Limits,
    Query,
    RestartLimits,
    Service,
    TcpAdapter,
    UnixAdapter,
    serve,
)
from bandstand.errors import RefusedError
from bandstand.supervision import Backoff

TOKEN = "0123456789abcdef0123456789abcdef"
LINE_BYTES = 8192


class Leaf(Struct, tag="leaf"):
    value: int


class Branch(Struct, tag="branch"):
    left: Leaf | Branch
    right: Leaf | Branch


class Everything(Query[int], type="Types.Everything"):
    """Take a value of every type."""

    whole: int = 0
    small: Annotated[int, Meta(ge=-5, le=5)] = 0
    real: float = 0.0
    exact: decimal.Decimal = decimal.Decimal(0)
    text: Annotated[str, Meta(max_length=50)] = ""
    name: Annotated[str, Meta(pattern="^[a-z]+$")] = "a"
    choice: Literal["a", "b", 3] = "a"
    flag: bool = False
    blob: bytes = b""
    moment: dt.datetime | None = None
    day: dt.date | None = None
    key: uuid.UUID | None = None
    many: Annotated[list[int], Meta(max_length=20)] = msgspec.field(default_factory=list[int])
    table: dict[str, float] = msgspec.field(default_factory=dict[str, float])
    numbered: dict[int, str] = msgspec.field(default_factory=dict[int, str])
    pair: tuple[int, str] | None = None
    tree: Leaf | Branch | None = None


class Echoed(Struct):
    value: Leaf | Branch | None


class Echo(Query[Echoed], type="Types.Echo"):
    """Return a tree."""

    tree: Leaf | Branch | None = None


class Said(Event, type="Types.Said"):
    """Something was said."""

    text: str = ""


class Do(Command[None], type="Fragile.Do"):
    """Do something, well or not."""

    way: Literal["answer", "raise", "refuse", "lie", "dawdle", "emit"] = "answer"


class Undeclared(Event, type="Fragile.Undeclared"):
    """An event that the capability does not declare."""


class Types(Capability):
    """Takes everything."""

    def everything(self, msg: Everything) -> int:
        return msg.small

    def echo(self, msg: Echo) -> Echoed:
        return Echoed(msg.tree)

    def said(self, msg: Said) -> None:
        pass


class Fragile(Capability):
    """Answers, raises, refuses, breaks its contract or is slow, as it is told."""

    outbound = Said
    restarts = RestartLimits(max_restarts=1_000_000, backoff=Backoff(initial=0.001, maximum=0.001))

    async def do(self, msg: Do) -> None:
        match msg.way:
            case "raise":
                raise RuntimeError("on purpose")
            case "refuse":
                raise RefusedError("on purpose")
            case "lie":
                self.bus.emit(Undeclared())
            case "dawdle":
                await asyncio.sleep(0.003)
            case "emit":
                self.bus.emit(Said("on purpose"))
            case "answer":
                pass


def main() -> int:
    folder = sys.argv[1]
    limits = Limits(line_bytes=LINE_BYTES, connections=200, unauthenticated=50)
    adapters = [UnixAdapter(f"{folder}/bus.sock", limits=limits), TcpAdapter(limits=limits, token=TOKEN)]
    return serve(Service(load=lambda: [Types, Fragile], adapters=adapters), sys.stdout, sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
