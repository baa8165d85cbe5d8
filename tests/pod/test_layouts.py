"""Another layout than the declared one: the same roles in other pods. And what can be in another process at all."""

from __future__ import annotations

import pickle
import pkgutil
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from threading import Lock
from types import ModuleType
from typing import Any

import pytest

from bandstand.actor import Actor
from bandstand.errors import InvalidArgumentError
from bandstand.pod.declaration import check_process_pods, checked_plan, import_path, nested, pod
from bandstand.pod.deployment import Troupe
from bandstand.pod.directory import Directory, directory
from bandstand.pod.enums import ThreadModel
from bandstand.pod.spec import PodSpec, RoleSpec, spec_for_process
from tests.pod.declaring import Display, Engine, FakeVsync, OtherConfig, Studio, Vsync, request_id, troupe_of

pytestmark = pytest.mark.spec("S13", "S19")

Layout = dict[str, PodSpec]


def roles_of(layout: Layout) -> tuple[RoleSpec, ...]:
    return tuple(role for each in layout.values() for role in each.roles)


def with_role(layout: Layout, *, name: str, **fields: Any) -> Layout:
    """The layout with one role altered."""
    return {
        key: replace(
            each, roles=tuple(replace(role, **fields) if role.name == name else role for role in each.roles)
        )
        for key, each in layout.items()
    }


# --- layouts ----------------------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G135")
def test_the_declared_layout_is_one() -> None:
    assert Studio.__deployment_plan__.with_layout(Studio.layout()) == Studio.__deployment_plan__
    assert Studio.__deployment_plan__.with_layout(None) is Studio.__deployment_plan__
    assert checked_plan(Studio, Studio.layout()) == Studio.__deployment_plan__


def test_what_is_altered_is_not_the_class_s_own() -> None:
    layout = Studio.layout()
    layout.clear()
    assert [*Studio.layout()] == ["vsync", "engine_pod", "display"]


@pytest.mark.guarantee("G135")
def test_a_role_can_be_played_by_another_of_its_kind() -> None:
    layout = with_role(Studio.layout(), name="vsync", kind=FakeVsync)
    layout = with_role(layout, name="config", kind=OtherConfig, args=())
    assert [role.kind for role in roles_of(layout)] == [FakeVsync, Engine, OtherConfig, Display]
    assert Studio.__deployment_plan__.with_layout(layout).spec.pods == tuple(layout.values())


def apart(layout: Layout) -> Layout:
    engine, config = layout["engine_pod"].roles
    pods = (replace(layout["engine_pod"], roles=(engine,)), PodSpec(name="config", roles=(config,)))
    return {**layout, **{each.name: each for each in pods}}


def with_an_empty_pod(layout: Layout) -> Layout:
    return {**layout, "empty": PodSpec(name="empty")}


def two_mains(layout: Layout) -> Layout:
    return {**layout, "vsync": PodSpec(name="vsync", roles=layout["vsync"].roles, thread=ThreadModel.MAIN)}


@pytest.mark.guarantee("G135")
@pytest.mark.parametrize(
    ("alter", "why"),
    [
        (apart, "role 'engine': EnginePeers needs 'config', which is in pod 'config' and not exposed"),
        (partial(with_role, name="config", kind=Display, args=()), "is declared as a Config"),
        (partial(with_role, name="vsync", kwargs={"fsp": 5}), "got an unexpected keyword argument 'fsp'"),
        (with_an_empty_pod, "pod 'empty' has no roles"),
        (two_mains, "pods 'vsync' and 'display' both use the main thread"),
    ],
)
def test_a_wrong_layout_is_refused(alter: Callable[[Layout], Any], why: str) -> None:
    """The others are in `test_error_texts`."""
    with pytest.raises(InvalidArgumentError, match=why):
        Studio.__deployment_plan__.with_layout(alter(Studio.layout()))


# --- what can be in another process -----------------------------------------------------------------------------------


class Keeper(Actor):
    def __init__(self, *things: object, **more: object) -> None: ...


class Wide(Directory):
    keeper: Keeper


@pytest.mark.guarantee("G136")
def test_what_can_be_found_and_pickled_can_travel() -> None:
    class Far(Troupe):
        keeper = pod(thread=ThreadModel.PROCESS).expose(Keeper, 5, b"x", directory(Wide), name={"a": [1.5]})

    assert checked_plan(Far, None) is Far.__deployment_plan__


def test_what_a_process_need_not_find_may_be_anything() -> None:
    class Local(Actor): ...

    class LocalPeers(Directory): ...

    process, lock = pod(thread=ThreadModel.PROCESS), Lock()
    for made in (
        troupe_of(it=process.of(Keeper), unseen=pod().of(Local)),
        troupe_of(it=pod().expose(Local)),
        troupe_of(it=pod().of(Keeper, lock)),
    ):
        assert checked_plan(made, None) is made.__deployment_plan__
    twin = type("Vsync", (Actor,), {"__module__": Vsync.__module__})
    for declaration, why in (
        (process.of(Keeper, directory(LocalPeers)), "argument 1: .*LocalPeers is declared inside a function"),
        (process.of(twin), "Vsync cannot be imported by that name"),
        (process.of(Keeper, 1, lock), "argument 2 is a lock, which cannot be pickled"),
        (process.of(Keeper, hook=lambda: 5), "hook is a function, which cannot be pickled"),
    ):
        with pytest.raises(InvalidArgumentError, match=why):
            checked_plan(troupe_of(it=declaration), None)


def test_a_class_that_was_typed_in_cannot(monkeypatch: pytest.MonkeyPatch) -> None:
    typed = ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", typed)
    made = type("Typed", (Actor,), {"__module__": "__main__"})
    typed.Typed = made  # type: ignore[attr-defined]  # so that it is found
    troupe = troupe_of(it=pod(thread=ThreadModel.PROCESS).of(made))
    with pytest.raises(
        InvalidArgumentError, match="Typed is declared in an interactive session: move it to a module"
    ):
        checked_plan(troupe, None)
    found = troupe_of(it=pod(thread=ThreadModel.PROCESS).of(Keeper))
    assert checked_plan(found, None) is found.__deployment_plan__
    typed.__file__ = "script.py"
    assert checked_plan(troupe, None) is troupe.__deployment_plan__


def test_a_layout_is_asked_the_same() -> None:
    made = troupe_of(it=pod().of(Keeper, Lock()))
    layout = made.layout()
    layout["it"] = replace(layout["it"], thread=ThreadModel.PROCESS)
    with pytest.raises(InvalidArgumentError, match="argument 1 is a lock"):
        checked_plan(made, layout)
    outer = troupe_of(inner=nested(made, layout=layout))
    with pytest.raises(InvalidArgumentError, match="argument 1 is a lock"):
        checked_plan(outer, None)


def test_context_variables_are_found_by_the_class() -> None:
    assert pkgutil.resolve_name(import_path(Studio)) is Studio
    check_process_pods(Studio.__deployment_plan__.spec, Studio)


@pytest.mark.guarantee("G136")
def test_luggage_is_what_one_process_needs_and_can_be_pickled() -> None:
    lock = Lock()

    class Far(Troupe):
        carries = (request_id,)
        it = pod(thread=ThreadModel.PROCESS).expose(Keeper, 5, directory(Wide), more=6)
        keeper = pod().expose(Keeper, lock, lock=lock)
        unseen = pod().of(Keeper, lock)

    packed = spec_for_process(Far.__deployment_plan__.spec, "it")
    assert packed.carries == ()
    assert packed.pods[0] == Far.layout()["it"]
    assert [(role.name, role.kind, role.args, role.kwargs) for role in packed.pods[1].roles] == [
        ("keeper", Keeper, (), {})
    ]
    assert packed.pods[2].roles == ()
    assert pickle.loads(pickle.dumps(packed)) == packed
