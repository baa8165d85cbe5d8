"""What a user of pods may write: both type checkers accept it and infer what is asserted here. Read by checkers, never run."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import replace
from typing import Protocol, assert_type

from bandstand import actor
from bandstand.actor import Actor, Implements, Interface, ask, tell
from bandstand.core import LoopConfig, Overflow
from bandstand.pod import (
    Directory,
    Phases,
    PodEvent,
    PodOptions,
    PodPhase,
    PodSpec,
    RestartPolicy,
    RoleOptions,
    ThreadModel,
    Troupe,
    Undelivered,
    WhenDown,
    directory,
    nested,
    pod,
    when_down,
)
from bandstand.pod.declaration import ExposedRole, HiddenRole, NestedTroupe, Unexposed
from bandstand.pool import ByKey, Routing
from bandstand.supervision import Backoff

request_id = ContextVar("request_id", default="")
depth = ContextVar("depth", default=0)


class Vsync(Actor):
    def __init__(self, fps: int = 60, *, label: str = "") -> None:
        self.fps = fps

    @tell
    def tick(self, at: float) -> None: ...

    @ask
    def rate(self) -> int:
        return self.fps


class FakeVsync(Vsync):
    def __init__(self) -> None:
        super().__init__(1)


class Settings(Interface, Protocol):
    @ask
    def find(self, key: str) -> str: ...


class Config(Implements[Settings]):
    def __init__(self, path: str) -> None:
        self.path = path

    def find(self, key: str) -> str:
        return key


class EnginePeers(Directory):
    vsync: Vsync
    config: Settings


class MorePeers(EnginePeers):
    effects: Effects


class Engine(Actor):
    def __init__(self, peers: EnginePeers, *, threads: int = 1) -> None:
        assert_type(peers.vsync, Vsync)
        peers.vsync.tick(1.0)
        self.peers = peers

    @ask
    async def title(self) -> str:
        return await self.peers.config.find("title")


class Singer(Actor):
    def __init__(self, peers: MorePeers) -> None:
        assert_type(peers.effects.reverb, Vsync)
        peers.effects.reverb.tick(1.0)
        peers.vsync.tick(1.0)


class Everybody(Actor):
    def __init__(self, peers: Directory) -> None:
        peers["vsync"].tick(1.0)
        assert_type(list(peers), list[str])
        assert_type("vsync" in peers, bool)
        assert_type(len(peers), int)


class Effects(Troupe):
    reverb = pod().expose(Vsync, 30)


class Studio(Troupe):
    carries = (request_id, depth)
    kubelet_core = 0
    stop_timeout = 5

    vsync = pod(restart=RestartPolicy.ALWAYS).expose(Vsync, fps=60, label="v")
    engine_pod = pod(thread=ThreadModel.DEDICATED, restart=RestartPolicy.ON_FAILURE, core=1)
    engine = engine_pod.expose(Engine, directory(EnginePeers), threads=2)
    settings = engine_pod.expose(Config, "studio.toml")
    config = engine_pod.role(mailbox=100, ask_timeout=0.5, overflow=Overflow.DROP_NEWEST).of(Config, path="x")
    singer = pod(
        thread=ThreadModel.PROCESS,
        max_restarts=1,
        period=0.01,
        backoff=Backoff(),
        when_down=WhenDown.QUEUE,
        down_timeout=0.005,
        stop_timeout=0.0025,
        limits=LoopConfig(max_actors=5),
    ).of(Singer, directory(MorePeers))
    everybody = (
        pod(thread=ThreadModel.COOPERATIVE).role(ask_timeout=None).of(Everybody, peers=directory(Directory))
    )
    effects = nested(Effects, watched=True, restart=RestartPolicy.ALWAYS, layout=Effects.layout())


class Louder(Studio):
    vsync = pod(thread=ThreadModel.PROCESS).expose(FakeVsync)
    engine_pod = pod()


assert_type(pod(), PodOptions)
assert_type(pod().role(), RoleOptions)
assert_type(Studio.vsync, ExposedRole[Vsync])
assert_type(Studio.settings, ExposedRole[Settings])
assert_type(Studio.config, HiddenRole[Settings])
assert_type(Studio.effects, NestedTroupe[Effects])
assert_type(Studio.layout(), dict[str, PodSpec])
assert_type(Louder.vsync, ExposedRole[FakeVsync])


async def use(studio: Studio, louder: Louder) -> None:
    assert_type(studio.vsync, Vsync)
    assert_type(studio.vsync.tick(1.0), None)
    assert_type(await studio.vsync.rate(), int)
    assert_type(studio.vsync.rate.blocking(), int)
    assert_type(studio.engine, Engine)
    assert_type(await studio.engine.title(), str)
    assert_type(studio.settings, Settings)
    assert_type(await studio.settings.find("key"), str)
    assert_type(studio.config, Unexposed)
    assert_type(studio.effects, Effects)
    assert_type(studio.effects.reverb, Vsync)
    assert_type(louder.vsync, FakeVsync)


def make_by_hand(loop: actor.ActorSystem) -> EnginePeers:
    peers = EnginePeers(vsync=loop.spawn(Vsync), config=loop.spawn(Config, "x"))
    assert_type(peers, EnginePeers)
    loop.spawn(Engine, peers, threads=3)
    return peers


def lay_out() -> dict[str, PodSpec]:
    layout = Studio.layout()
    layout["vsync"] = replace(layout["vsync"], thread=ThreadModel.PROCESS)
    layout["all"] = PodSpec(name="all", roles=tuple(role for each in layout.values() for role in each.roles))
    return layout


async def watch(phases: Phases) -> None:
    async for event in phases:
        assert_type(event, PodEvent)
    assert_type(await phases.until("vsync", PodPhase.RUNNING, number=2, timeout=0.005), PodEvent)
    assert_type(phases.until("vsync").blocking(), PodEvent)
    stream = phases.stream()
    assert_type(await stream.receive(timeout=0.005), PodEvent)
    assert_type([each async for each in stream], list[PodEvent])


async def play(callback: Callable[[PodEvent], object]) -> None:
    Studio().play()
    with Studio(layout=Studio.layout()) as studio:
        assert_type(studio, Studio)
        assert_type(when_down(studio.vsync, WhenDown.FAIL), Vsync)
        assert_type(when_down(studio.settings, WhenDown.QUEUE, timeout=0.2), Settings)
    async with Studio() as again:
        assert_type(again, Studio)
        assert_type(await again.vsync.rate(), int)


def bury(letter: Undelivered) -> None: ...


def page_of(page: str, *_more: object) -> str:
    return page


class Farm(Troupe):
    """Pods with replicas: their handles have the types of those of one pod."""

    workers = pod(thread=ThreadModel.PROCESS, replicas=4)
    worker = workers.role(routing=Routing.ROUND_ROBIN, broadcast=("tick",), ahead=1).expose(Vsync, 50)
    store = pod(thread=ThreadModel.PROCESS, replicas=2).role(routing=ByKey(page_of)).expose(Config, "x")
    single = pod(replicas=None).expose(Vsync)


async def share(farm: Farm) -> None:
    assert_type(farm.worker, Vsync)
    assert_type(await farm.worker.rate(), int)
    farm.worker.tick(5.0)
    assert_type(farm.store, Settings)
    assert_type(await farm.store.find("page"), str)
    layout = Farm.layout()
    layout["workers"] = replace(layout["workers"], replicas=8)
    assert_type(layout["workers"].replicas, int | None)
    assert_type(layout["workers"].roles[0].routing, Routing | ByKey)
