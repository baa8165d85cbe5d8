"""The texts that users of pods see, compared with the files in `tests/pod/texts`.

A change of a text shows up there in review. To write the files anew after a change:

    RENEW_TEXTS=1 python -m pytest tests/pod/test_error_texts.py
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import bandstand.pod
from bandstand.actor import Actor
from bandstand.core import Overflow
from bandstand.errors import BandstandError
from bandstand.pod import (
    Directory,
    NestedSpec,
    PodSpec,
    RestartPolicy,
    RoleSpec,
    ThreadModel,
    Troupe,
    TroupeSpec,
    declaration,
    directory,
    nested,
    pod,
    spec,
)
from bandstand.pool import ByKey, Routing
from tests.error_texts import Shown, TextFiles, missing_raises, provoke, texts_in_source
from tests.pod.declaring import (
    Config,
    Display,
    EnginePeers,
    Studio,
    Vsync,
    loose_directory,
    loose_pod,
    troupe_of,
)

pytestmark = pytest.mark.once

FILES = TextFiles(__file__)
SOURCES = Path(bandstand.pod.__file__).parent
# Functions whose arguments become texts that users see: how a pod ended, and what its callers are told.
TEXT_CALLS = (
    "PodEnding",
    "PodFailedError.of",
    "RestartDecision",
    ".lose",
    ".kill",
    ".close",
    "._fail",
    "add_note",
)

ROLE = RoleSpec(name="role", kind=Vsync)
SPEC = TroupeSpec(name="It", pods=(PodSpec(name="one", roles=(ROLE,)),))
PEERS = EnginePeers(vsync=1, config=2)  # type: ignore[arg-type]  # the texts do not depend on what is in it


class MainThread(Troupe):
    display = pod(thread=ThreadModel.MAIN).of(Display)


class Parent(Troupe):
    inner = nested(troupe_of(vsync=pod().of(Vsync)))


class NamedPeers(Directory):
    vsync: Display


class UnknownPeers(Directory):
    vsyn: Vsync


class PodPeers(Directory):
    engine_pod: Vsync


class HiddenPeers(Directory):
    config: object


class Needy(Actor):
    def __init__(self, *peers: object) -> None: ...


def made(**attributes: Any) -> Callable[[], object]:
    """Return a function that declares a troupe."""
    return lambda: troupe_of(**attributes)


def overriding(**attributes: Any) -> Callable[[], object]:
    """Return a function that declares a troupe derived from Studio."""
    return lambda: troupe_of(Studio, **attributes)


def layout(**pods: Any) -> Callable[[], object]:
    """Return a function that makes a Studio with some pods of its layout changed."""
    return lambda: Studio(layout={**Studio.layout(), **pods})


def unhidden(name: str, **changes: Any) -> dict[str, PodSpec]:
    """Return one pod of the layout of Studio with changes in its first role."""
    known = Studio.layout()[name]
    return {name: replace(known, roles=(replace(known.roles[0], **changes), *known.roles[1:]))}


def replicated(role: RoleSpec = ROLE, **changes: Any) -> PodSpec:
    """Return a pod with replicas."""
    options: dict[str, Any] = {"thread": ThreadModel.PROCESS, "replicas": 4, **changes}
    return PodSpec(name="it", roles=(role,), **options)


def one_twice() -> object:
    one = pod().of(Vsync)
    return troupe_of(a=one, b=one)


def unnamed_pod() -> object:
    both = pod()
    return troupe_of(a=both.of(Vsync), b=both.of(Vsync))


def process_of(*arguments: object, kind: Any = Needy, **more: Any) -> Callable[[], object]:
    """Return a troupe with a process pod, which is checked when an object of it is made."""
    made_class: type[Troupe] = troupe_of(
        it=loose_pod(thread=ThreadModel.PROCESS).of(kind, *arguments), **more
    )
    return made_class


def local_class() -> type:
    class Local(Actor): ...

    return Local


class Unpicklable:
    def __reduce__(self) -> str:
        raise TypeError("it belongs to this process")


class Renamed(Actor): ...


Renamed.__qualname__ = Renamed.__name__ = "Missing"

ERRORS: dict[str, Callable[[], object]] = {
    # Declarations.
    "the name of a role is taken by the class": made(layout=pod().of(Vsync)),
    "the name of a role is private": made(_vsync=pod().of(Vsync)),
    "a negative number of restarts": lambda: PodSpec(name="it", max_restarts=-1),
    "a role without a class": made(config=pod().role(ask_timeout=0.005)),
    "the class of a role is not an actor class": made(vsync=loose_pod().of(dict)),
    "a pod without roles": made(engine_pod=pod()),
    "a declaration with two names": one_twice,
    "two roles in a pod without a name": unnamed_pod,
    "an option that contradicts another": made(
        display=pod(thread=ThreadModel.MAIN, restart=RestartPolicy.ALWAYS).of(Display)
    ),
    "a role is overridden by a number": overriding(vsync=5),
    "an exposed role is overridden by a hidden one": overriding(vsync=pod().of(Vsync)),
    "a role is overridden by another class": overriding(vsync=pod().expose(Display)),
    "arguments that the class does not take": made(it=loose_pod().of(Display, 5)),
    "a directory inside a list": made(it=pod().of(Needy, [directory(EnginePeers)])),
    "a directory with a role that does not exist": overriding(it=pod().of(Needy, directory(UnknownPeers))),
    "a directory with the name of a pod": overriding(it=pod().of(Needy, directory(PodPeers))),
    "a directory with a hidden role": overriding(it=pod().of(Needy, directory(HiddenPeers))),
    "a directory with a role of another class": overriding(it=pod().of(Needy, directory(NamedPeers))),
    "a directory with a nested troupe, in a process": made(
        config=nested(
            MainThread,
            layout={"display": replace(MainThread.layout()["display"], thread=ThreadModel.DEDICATED)},
        ),
        it=pod(thread=ThreadModel.PROCESS).of(Needy, directory(HiddenPeers)),
    ),
    "carries is not a tuple": made(carries=[ContextVar("x")], vsync=pod().of(Vsync)),
    "a hidden role is read": lambda: Studio().config,
    "a role is set": lambda: setattr(Studio(), "vsync", 5),
    "a nested troupe is set": lambda: setattr(Parent(), "inner", 5),
    # Nested troupes.
    "a nested troupe that is not a class": lambda: NestedSpec(name="it", troupe=5),  # type: ignore[arg-type]
    "a nested troupe with a main pod": lambda: NestedSpec(name="it", troupe=MainThread),
    "a nested troupe with watched=5": lambda: NestedSpec(name="it", troupe=Parent, is_watched=5),  # type: ignore[arg-type]
    "a nested troupe that is restarted and not watched": lambda: NestedSpec(
        name="it", troupe=Parent, is_watched=False, restart=RestartPolicy.ALWAYS
    ),
    # Layouts.
    "a layout with a number": layout(vsync=5),
    "a layout with another name": lambda: Studio(layout={"other": Studio.layout()["vsync"]}),
    "a layout with a role twice": layout(more=PodSpec(name="more", roles=Studio.layout()["vsync"].roles)),
    "a layout without a role": lambda: Studio(layout={}),
    "a layout with a role that is not declared": layout(more=PodSpec(name="more", roles=(ROLE,))),
    "a layout with another class": layout(**unhidden("vsync", kind=Display, kwargs={})),
    "a layout that hides a role": layout(**unhidden("vsync", is_exposed=False)),
    "a layout with wrong arguments": layout(**unhidden("display", args=(5,))),
    "a troupe without pods": troupe_of(),
    # Process pods.
    "a process pod with a local class": process_of(kind=local_class()),
    "a process pod with a class under another name": process_of(kind=Renamed),
    "a process pod that sees a local class": process_of(other=pod().expose(local_class())),
    "a process pod with an argument that cannot be pickled": process_of(Unpicklable()),
    "a process pod and context variables of a local class": process_of(carries=(ContextVar("x"),)),
    "a process pod that sees a role with a key that cannot be pickled": process_of(
        kind=Vsync,
        other=pod(thread=ThreadModel.PROCESS, replicas=2).role(routing=ByKey(lambda: 1)).expose(Vsync),
    ),
    # Replicas.
    "no replicas": lambda: replicated(replicas=0),
    "replicas on threads": lambda: replicated(thread=ThreadModel.DEDICATED),
    "replicas on one core": lambda: replicated(core=1),
    "replicas of a role that drops messages": lambda: replicated(
        replace(ROLE, overflow=Overflow.DROP_OLDEST)
    ),
    "routing that is a text": lambda: replace(ROLE, routing="by key"),  # type: ignore[arg-type]
    "no messages ahead": lambda: replace(ROLE, ahead=0),
    "broadcast of a text": lambda: replace(ROLE, broadcast="tick"),  # type: ignore[arg-type]
    "broadcast of an unknown method": lambda: replace(ROLE, broadcast=("tock",)),
    "broadcast of an ask": lambda: replace(ROLE, kind=Config, routing=Routing.BROADCAST),
    "a routing without replicas": made(vsync=pod().role(routing=Routing.ROUND_ROBIN).of(Vsync)),
    # Specs.
    "a name with a space": lambda: PodSpec(name="one two"),
    "a core below 0": lambda: PodSpec(name="it", core=-1),
    "mailbox of -1": lambda: replace(ROLE, mailbox=-1),
    "mailbox_bytes of 0": lambda: replace(ROLE, mailbox_bytes=0),
    "a core for a cooperative pod": lambda: PodSpec(name="it", core=1, thread=ThreadModel.COOPERATIVE),
    "a main pod that is restarted": lambda: PodSpec(
        name="it", thread=ThreadModel.MAIN, restart=RestartPolicy.ALWAYS
    ),
    "a pod with a role twice": lambda: PodSpec(name="it", roles=(ROLE, ROLE)),
    "a troupe with a pod twice": lambda: replace(SPEC, pods=SPEC.pods * 2),
    "a troupe with two main pods": lambda: TroupeSpec(
        name="It", pods=tuple(PodSpec(name=name, thread=ThreadModel.MAIN) for name in ("one", "two"))
    ),
    "a troupe that carries a number": lambda: replace(SPEC, carries=(5,)),  # type: ignore[arg-type]
    "the pod of an unknown role": lambda: SPEC.pod_of("other"),
    # Directories.
    "a directory with a value": lambda: type(
        "Peers", (Directory,), {"__annotations__": {"a": Vsync}, "a": 5}
    ),
    "a directory with a reserved name": lambda: type(
        "Peers", (Directory,), {"__annotations__": {"__iter__": Vsync}}
    ),
    "a directory with an unknown handle": lambda: EnginePeers(other=1),  # type: ignore[call-arg]
    "a directory without a handle": lambda: EnginePeers(vsync=1),  # type: ignore[call-arg,arg-type]
    "an unknown item of a directory": lambda: PEERS["other"],
    "an unknown attribute of a directory": lambda: getattr(PEERS, "other"),  # noqa: B009  # type checkers know it is missing
    "an attribute of a directory is set": lambda: setattr(PEERS, "vsync", 5),
    "an attribute of a directory is deleted": lambda: delattr(PEERS, "vsync"),
    "a directory of a number": lambda: loose_directory(5),
}


def shown_error(name: str) -> tuple[Shown, set[tuple[str, int]]]:
    """Return one error, and the modules and lines that its traceback passes."""
    return provoke(name, ERRORS[name], (BandstandError, AttributeError, KeyError))


@pytest.mark.guarantee("G132", "G133", "G134", "G135", "G136")
@pytest.mark.spec("S17", "S19")
def test_declaration_errors() -> None:
    shown = sorted((shown_error(name)[0] for name in ERRORS), key=lambda each: each.type)
    FILES.check(
        "declaration_errors.txt", "What is raised for wrong declarations, layouts and directories.", shown
    )


@pytest.mark.parametrize("module", [declaration, spec, import_module("bandstand.pod.directory")])
def test_every_declaration_error_is_shown(module: ModuleType) -> None:
    passed = set[tuple[str, int]]().union(*(shown_error(name)[1] for name in ERRORS))
    assert missing_raises(module, passed) == []


def test_texts_of_running_pods() -> None:
    """Errors, endings and log lines of all modules, as they are written in the source."""
    shown = [
        Shown(f"{path.relative_to(SOURCES).with_suffix('')}", f"{each.type} in {each.situation}", each.text)
        for path in sorted(SOURCES.rglob("*.py"))
        for each in texts_in_source(path, *TEXT_CALLS)
    ]
    FILES.check(
        "source_texts.txt",
        "What pods raise, log and report as reasons, as it is written in the source.",
        shown,
    )
