"""Directories: handles by name, frozen, and made by hand as well as by a troupe."""

from __future__ import annotations

import pickle
from typing import Any, ClassVar

import pytest

from bandstand.actor import Loop
from bandstand.errors import BadDeclaration, InvalidArgument
from bandstand.pod.directory import Directory, Wanted, directory, filled, wanted_by
from tests.pod.declaring import Config, EnginePeers, Vsync, loose_directory

pytestmark = pytest.mark.spec("S13")

loose_peers: Any = EnginePeers


class More(EnginePeers):
    other: Vsync
    limit: ClassVar[int] = 5
    plain = 6


@pytest.mark.guarantee("G134")
def test_a_test_makes_one_by_hand() -> None:
    with Loop() as loop:
        vsync, config = loop.spawn(Vsync), loop.spawn(Config)
        peers = EnginePeers(vsync=vsync, config=config)
        assert peers.vsync is vsync
        assert peers.config is config
        assert peers["vsync"] is vsync
        assert [*peers] == ["vsync", "config"]
        assert (len(peers), "vsync" in peers, "other" in peers) == (2, True, False)
        assert repr(peers) == f"EnginePeers(vsync={vsync!r}, config={config!r})"
        assert peers == EnginePeers(config=config, vsync=vsync)
        assert peers != EnginePeers(config=config, vsync=loop.spawn(Vsync))
        assert peers != 5
        assert len({peers, EnginePeers(vsync=vsync, config=config)}) == 1


@pytest.mark.guarantee("G134")
def test_names_too_many_and_too_few() -> None:
    with pytest.raises(InvalidArgument, match=r"^EnginePeers needs 'config': pass a handle of that name$"):
        loose_peers(vsync=1)
    with pytest.raises(InvalidArgument, match=r"^EnginePeers has no 'vsink': it has vsync, config$"):
        loose_peers(vsync=1, config=2, vsink=3)
    with pytest.raises(TypeError):
        loose_peers(1, 2)


@pytest.mark.guarantee("G134")
def test_it_is_frozen() -> None:
    peers = loose_peers(vsync=1, config=2)
    with pytest.raises(AttributeError, match=r"^EnginePeers.vsync cannot be changed: a directory is frozen$"):
        peers.vsync = 5
    with pytest.raises(AttributeError, match=r"^EnginePeers.other cannot be changed"):
        peers.other = 5
    with pytest.raises(AttributeError, match=r"^EnginePeers.vsync cannot be taken out"):
        del peers.vsync
    assert peers.vsync == 1


@pytest.mark.guarantee("G134")
def test_what_is_not_there_says_what_is() -> None:
    peers = loose_peers(vsync=1, config=2)
    with pytest.raises(AttributeError, match=r"^EnginePeers has no 'vsink': it has vsync, config$"):
        _ = peers.vsink
    with pytest.raises(KeyError, match="'vsink' is not in EnginePeers"):
        _ = peers["vsink"]
    with pytest.raises(AttributeError, match=r"^Directory has no 'vsink': it has nobody$"):
        _ = loose_directory(Directory).made_of({}).vsink


class Loud:
    volume: int
    heard: ClassVar[list[str]] = []

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        Loud.heard.append(cls.__name__)


class Mixed(More, Loud): ...


@pytest.mark.guarantee("G134")
def test_names_are_inherited_and_class_variables_are_none() -> None:
    assert Wanted(More).names == ("vsync", "config", "other")
    assert Wanted(Mixed).names == ("vsync", "config", "other")
    assert Loud.heard == ["Mixed"]
    # As it is without the future's annotations.
    hints = {"limit": ClassVar[int], "other": ClassVar, "vsync": Vsync}
    assert Wanted(type("Early", (Directory,), {"__annotations__": hints})).names == ("vsync",)
    assert (More.limit, More.plain) == (5, 6)


@pytest.mark.guarantee("G134")
def test_a_placeholder_becomes_one_of_the_handles_there_are() -> None:
    wanted = loose_directory(EnginePeers)
    assert wanted == Wanted(EnginePeers)
    assert repr(wanted) == "directory(EnginePeers)"
    assert pickle.loads(pickle.dumps(wanted)) == wanted
    handles = {"vsync": 1, "config": 2, "other": 3}
    assert wanted.made_of(handles) == loose_peers(vsync=1, config=2)
    assert [*wanted_by((5, wanted), {"a": 6, "b": wanted})] == [wanted, wanted]
    args, kwargs = filled((5, wanted), {"a": 6, "b": Wanted(Directory)}, handles)
    assert args == (5, loose_peers(vsync=1, config=2))
    assert kwargs == {"a": 6, "b": Directory(**handles)}


@pytest.mark.guarantee("G134")
def test_the_base_itself_has_everybody() -> None:
    everybody: Any = Wanted(Directory).made_of({"vsync": 1, "config": 2})
    assert (everybody.vsync, everybody["config"], [*everybody]) == (1, 2, ["vsync", "config"])
    with pytest.raises(AttributeError, match="frozen"):
        everybody.vsync = 5


@pytest.mark.guarantee("G134")
def test_one_of_plain_values_can_be_pickled() -> None:
    peers = loose_peers(vsync=1, config=2)
    assert pickle.loads(pickle.dumps(peers)) == peers


@pytest.mark.guarantee("G134")
def test_a_class_of_directories_has_annotations_only() -> None:
    with pytest.raises(
        BadDeclaration, match=r"Filled\.vsync has a value: a directory is filled by its troupe"
    ):

        class Filled(Directory):  # pyright: ignore[reportUnusedClass]  # it is never made
            vsync: Any = None

    for name in ("names_", "made"):
        assert Wanted(type("Fine", (Directory,), {"__annotations__": {name: Any}})).names == (name,)
    with pytest.raises(BadDeclaration, match=r"Taken\._wants is a name that every directory has for its own"):
        type("Taken", (Directory,), {"__annotations__": {"_wants": Any}})


@pytest.mark.guarantee("G134")
def test_a_placeholder_of_something_else() -> None:
    wrong: Any
    for wrong in (Vsync, 5, "EnginePeers", loose_peers(vsync=1, config=2)):
        with pytest.raises(
            InvalidArgument, match=r"^directory\(\) of .*: pass a class that derives from Directory$"
        ):
            directory(wrong)
