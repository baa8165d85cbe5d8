"""What is served to the fuzzer: a capability whose data has every kind of type, and one that fails in every way. Neither keeps anything: what
grows in this process grows by mistake.

    python -m tests.fuzz.specimen FOLDER
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


class Everything(Query[int], type="Specimen.Everything"):
    """Take one of everything."""

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


class Echo(Query[Echoed], type="Specimen.Echo"):
    """Say a tree back."""

    tree: Leaf | Branch | None = None


class Said(Event, type="Specimen.Said"):
    """Something was said."""

    text: str = ""


class Do(Command[None], type="Clown.Do"):
    """Do something, well or not."""

    way: Literal["answer", "raise", "refuse", "lie", "dawdle", "emit"] = "answer"


class Secret(Event, type="Clown.Secret"):
    """What it may not say."""


class Specimen(Capability):
    """Takes everything."""

    def everything(self, msg: Everything) -> int:
        return msg.small

    def echo(self, msg: Echo) -> Echoed:
        return Echoed(msg.tree)

    def said(self, msg: Said) -> None:
        pass


class Clown(Capability):
    """Stumbles."""

    outbound = Said
    restarts = RestartLimits(max_restarts=1_000_000, backoff=Backoff(initial=0.001, maximum=0.001))

    async def do(self, msg: Do) -> None:
        match msg.way:
            case "raise":
                raise RuntimeError("on purpose")
            case "refuse":
                raise RefusedError("on purpose")
            case "lie":
                self.bus.emit(Secret())
            case "dawdle":
                await asyncio.sleep(0.003)
            case "emit":
                self.bus.emit(Said("from the clown"))
            case "answer":
                pass


def main() -> int:
    folder = sys.argv[1]
    limits = Limits(line_bytes=LINE_BYTES, connections=200, unauthenticated=50)
    adapters = [UnixAdapter(f"{folder}/bus.sock", limits=limits), TcpAdapter(limits=limits, token=TOKEN)]
    return serve(Service(load=lambda: [Specimen, Clown], adapters=adapters), sys.stdout, sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
