"""Actors and a troupe for the tests of declarations."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any, Protocol

from bandstand.actor import Actor, Implements, Interface, ask, tell
from bandstand.pod.declaration import pod
from bandstand.pod.deployment import Troupe
from bandstand.pod.directory import Directory, directory
from bandstand.pod.enums import ThreadModel
from bandstand.supervision import RestartPolicy

request_id = ContextVar("request_id", default="")

# Untyped, for arguments that type checkers reject.
loose_pod: Any = pod
loose_directory: Any = directory


class Vsync(Actor):
    def __init__(self, fps: int = 60) -> None:
        self.fps = fps

    @tell
    def tick(self) -> None: ...


class FakeVsync(Vsync):
    """A substitute for tests."""


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

    @tell
    def render(self) -> None: ...


class Display(Actor):
    @tell
    def show(self) -> None: ...


class Studio(Troupe):
    carries = (request_id,)

    vsync = pod(restart=RestartPolicy.ALWAYS).expose(Vsync, fps=50)
    engine_pod = pod(restart=RestartPolicy.ON_FAILURE, core=1)
    engine = engine_pod.expose(Engine, directory(EnginePeers), threads=2)
    config = engine_pod.role(mailbox=100, ask_timeout=0.5).of(Config, "studio.toml")
    display = pod(thread=ThreadModel.MAIN).of(Display)


def troupe_of(*bases: type, **attributes: Any) -> Any:
    """Make a troupe class, as a `class` statement does."""
    return type("Made", bases or (Troupe,), attributes)
