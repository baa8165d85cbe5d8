"""What a user of pods must not write: both type checkers have an error on each marked line, and on no other. Never run."""

from __future__ import annotations

from bandstand.pod import (
    Directory,
    Health,
    Phases,
    PodEvent,
    PodPhase,
    ThreadModel,
    Troupe,
    TroupeStatus,
    WhenDown,
    directory,
    nested,
    pod,
    when_down,
)
from bandstand.actor import Actor
from tests.types.right_pods import Config, EnginePeers, Settings, Vsync


class OtherPeers(Directory):
    vsync: Vsync


class Engine(Actor):
    def __init__(self, peers: EnginePeers) -> None:
        peers.vsync.tick("now")  # E:
        peers.vsync.tock()  # E:
        peers.vsink  # E:
        peers.vsync = peers.vsync  # E:
        peers["vsync"] = peers.vsync  # E:
        self.peers = peers


class Effects(Troupe):
    reverb = pod().expose(Vsync)
    secret = pod().of(Vsync)


class Studio(Troupe):
    vsync = pod().expose(Vsync)
    engine = pod().expose(Engine, directory(EnginePeers))
    settings = pod().expose(Config, "x")
    config = pod().of(Config, "x")
    effects = nested(Effects)


class Other(Studio):
    carries = "request_id"  # E:
    stop_timeout = "5"  # E:


def declare() -> None:
    pod(thread="main")  # E:
    pod(replicas="4")  # E:
    pod(replicas=4.0)  # E:
    pod().role(routing="by key")  # E:
    pod().role(routing=len)  # E:
    pod().role(broadcast="tick")  # E:
    pod().role(broadcast=5)  # E:
    pod().role(ahead=1.5)  # E:
    pod(replicas=4).expose(Vsync, "60")  # E:
    pod().of()  # E:
    pod().of(5)  # E:
    pod().of(int)  # E:
    pod().of(Vsync(5))  # E:
    pod().of(Vsync, "60")  # E:
    pod().of(Vsync, 60, "label")  # E:
    pod().of(Vsync, fsp=60)  # E:
    pod().of(Config)  # E:
    pod().of(Config, 5)  # E:
    pod().expose(Vsync, "60")  # E:
    pod().expose(Vsync, lable="x")  # E:
    pod().expose(Config)  # E:
    pod().expose(Engine)  # E:
    pod().expose(Engine, EnginePeers)  # E:
    pod().expose(Engine, directory(OtherPeers))  # E:
    pod().expose(Engine, directory(Directory))  # E:
    pod().role(ask_timeout=0.005).of(Vsync, "60")  # E:
    pod().role().role()  # E:
    directory(Vsync)  # E:
    directory("EnginePeers")  # E:
    directory(EnginePeers(vsync=5, config=6))  # E:
    nested(Vsync)  # E:
    nested(Effects())  # E:


def make_by_hand(vsync: Vsync, settings: Settings) -> None:
    EnginePeers()  # E:
    EnginePeers(vsync=vsync)  # E:
    EnginePeers(vsync, settings)  # E:
    EnginePeers(vsync=settings, config=settings)  # E:
    EnginePeers(vsync=vsync, config=vsync)  # E:
    EnginePeers(vsync=vsync, config=settings, other=vsync)  # E:
    EnginePeers(vsync=vsync, config=settings).vsync = vsync  # E:


async def use(studio: Studio) -> None:
    studio.vsync.tick("now")  # E:
    studio.vsync.tock()  # E:
    studio.vsync = studio.vsync  # E:
    studio.vsync(5)  # E:
    studio.nobody.tick(1.0)  # E:
    studio.config.find("x")  # E:
    studio.config = 5  # E:
    studio.effects = Effects()  # E:
    studio.effects.reverb.tick()  # E:
    studio.effects.secret.tick(1.0)  # E:
    studio.effects.nobody  # E:
    studio.settings.path  # E:
    Studio.vsync.tick(1.0)  # E:
    text: str = await studio.vsync.rate()  # E:
    number: int = studio.vsync.rate()  # E:
    other: Engine = studio.vsync  # E:
    own: Config = studio.settings  # E:
    layout: dict[str, int] = Studio.layout()  # E:
    print(text, number, other, own, layout)


def play(studio: Studio) -> None:
    Studio(layout={"vsync": Vsync})  # E:
    studio.on_phase(two)  # E:
    studio.on_dead_letter(two)  # E:
    studio.nothing()  # E:
    when_down(studio.vsync, WhenDown.FAIL).tock()  # E:
    with Studio() as other:
        other.vsync.tick("now")  # E:


def lay_out() -> None:
    Studio.layout()["vsync"] = 5  # E:
    Studio.layout()["vsync"].thread = ThreadModel.PROCESS  # E:


def two(one: PodEvent, other: PodEvent) -> None: ...


async def watch(phases: Phases, status: TroupeStatus, health: Health) -> None:
    phases.listen(two)  # E:
    phases.publish("a", PodPhase.RUNNING)  # E:
    async for event in phases:
        event.nothing  # E:
    for _ in phases:  # E:
        pass
    wrong: str = await phases.until("a")  # E:
    status.pod("a").nothing  # E:
    health.problems()  # E:
    print(wrong)
