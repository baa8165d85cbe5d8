"""Capabilities for the tests of a node: they do what the message says, and emit an event when they begin."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from msgspec import Struct

from bandstand.bus import Capability, Command, Event, Failure, Frame, Query
from bandstand.errors import RefusedError
from tests.bus.virtual_node import Stage
from tests.core.support import Boom


class Echoed(Struct):
    text: str
    size: float = 0.0


class Echo(Query[Echoed], type="Cast.Echo"):
    """Say it again."""

    text: str = ""


class Do(Command[None], type="Cast.Do"):
    """Do something, at once."""

    what: str = ""


class Wait(Command[None], type="Cast.Wait"):
    """Take some time over it, and then do something."""

    ms: int = 1000
    what: str = ""


class Told(Event, type="Cast.Told"):
    """Something has begun, or happened."""

    text: str = ""


class Unsaid(Event, type="Cast.Unsaid"):
    """What no contract names."""


class NotFound(Failure, type="Cast.NotFound"):
    """It is not there."""

    key: str


class NotNamed(Failure, type="Cast.NotNamed"):
    """What no contract names."""


class Player(Capability):
    """Does what it is told to."""

    id = "Cast"
    outbound = Told | NotFound

    def echo(self, msg: Echo) -> Echoed:
        return Echoed(msg.text)

    def do(self, msg: Do) -> None:
        self.bus.emit(Told(f"do {msg.what}"))
        self.act(msg.what)

    async def wait(self, msg: Wait) -> None:
        self.bus.emit(Told(f"wait {msg.what}"))
        await asyncio.sleep(msg.ms / 1000)
        self.act(msg.what)

    def act(self, what: str) -> None:
        match what:
            case "raise":
                raise Boom("by wish")
            case "refuse":
                raise RefusedError("not today")
            case "miss":
                raise RefusedError(NotFound("k"))
            case "misname":
                raise RefusedError(NotNamed())
            case "emit":
                self.bus.emit(Told("emitted"))
            case "unsaid":
                self.bus.emit(Unsaid())
            case _:
                pass


def watch(stage: Stage, type_name: str = "") -> list[Frame]:
    """All that passes from now on, or all of one type; it grows."""
    seen: list[Frame] = []

    def see(frame: Frame, _destination: str) -> None:
        if type_name in {"", frame.type}:
            seen.append(frame)

    stage.node.tap(see)
    return seen


def told(stage: Stage) -> list[str]:
    """The texts of all `Cast.Told` from now on; it grows."""
    texts: list[str] = []

    def see(frame: Frame, _destination: str) -> None:
        if frame.type == "Cast.Told":
            texts.append(text_of(frame))

    stage.node.tap(see)
    return texts


def text_of(frame: Frame) -> str:
    # Any: it is whatever was said.
    data: Any = msgspec.json.decode(frame.data)
    return str(data["text"])
