"""What the tests of declarations play with: a studio of actors, and a troupe that hands out what it was asked for."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any, Protocol

from bandstand.actor import Actor, Implements, Interface, ask, data
from bandstand.pod.cast import Cast
from bandstand.pod.declare import pod
from bandstand.pod.directory import Directory, directory
from bandstand.pod.vocabulary import RestartPolicy, ThreadModel

request_id = ContextVar("request_id", default="")

# The same without its types, for what checkers refuse as well.
loose_pod: Any = pod
loose_directory: Any = directory


class Rehearsal(Cast):
    """A troupe that does not play: its handles are the names that were asked for."""

    def _handle(self, name: str) -> Any:
        return f"handle of {name}"

    def _nested(self, name: str) -> Any:
        return f"troupe {name}"


class Vsync(Actor):
    def __init__(self, fps: int = 60) -> None:
        self.fps = fps

    @data
    def tick(self) -> None: ...


class FakeVsync(Vsync):
    """One for tests."""


class Settings(Interface, Protocol):
    @ask
    def find(self, key: str) -> str: ...


class Config(Implements[Settings]):
    def __init__(self, path: str = "") -> None:
        self.path = path

    def find(self, key: str) -> str:
        return key


class OtherConfig(Implements[Settings]):
    def find(self, key: str) -> str:
        return ""


class EnginePeers(Directory):
    vsync: Vsync
    config: Settings


class Engine(Actor):
    def __init__(self, peers: EnginePeers, *, threads: int = 1) -> None:
        self.peers = peers
        self.threads = threads

    @data
    def render(self) -> None: ...


class Display(Actor):
    @data
    def show(self) -> None: ...


class Studio(Rehearsal):
    carries = (request_id,)

    vsync = pod(restart=RestartPolicy.ALWAYS).expose(Vsync, fps=50)
    engine_pod = pod(restart=RestartPolicy.ON_FAILURE, core=1)
    engine = engine_pod.expose(Engine, directory(EnginePeers), threads=2)
    config = engine_pod.role(mailbox_cap=100, ask_ms=500).of(Config, "studio.toml")
    display = pod(thread=ThreadModel.MAIN).of(Display)


def troupe_of(*bases: type, **attributes: Any) -> Any:
    """A class of troupes, made as a `class` statement makes it."""
    return type("Made", bases or (Rehearsal,), attributes)
