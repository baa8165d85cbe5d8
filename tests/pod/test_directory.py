"""Directories: handles by name, frozen, and made by hand as well as by a troupe."""

from __future__ import annotations

import pickle
from typing import Any, ClassVar

import pytest

from bandstand.actor import ActorSystem
from bandstand.errors import InvalidArgumentError
from bandstand.pod.directory import Directory, DirectoryRequest, directory, fill_directories, requests_in
from tests.pod.declaring import Config, EnginePeers, Vsync, loose_directory

pytestmark = [pytest.mark.spec("S13"), pytest.mark.guarantee("G134")]

loose_peers: Any = EnginePeers


class More(EnginePeers):
    other: Vsync
    limit: ClassVar[int] = 5
    plain = 6


def test_a_test_makes_one_by_hand() -> None:
    with ActorSystem() as loop:
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


def test_what_is_no_name_of_it_is_an_error() -> None:
    """The texts are in `test_error_texts`."""
    with pytest.raises(TypeError):
        loose_peers(1, 2)
    with pytest.raises(AttributeError, match=r"^EnginePeers.other cannot be set"):
        loose_peers(vsync=1, config=2).other = 5
    with pytest.raises(AttributeError, match=r"^Directory has no 'vsink': it has no names$"):
        _ = loose_directory(Directory).build({}).vsink


class Loud:
    volume: int
    heard: ClassVar[list[str]] = []

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        Loud.heard.append(cls.__name__)


class Mixed(More, Loud): ...


def test_names_are_inherited_and_class_variables_are_none() -> None:
    assert DirectoryRequest(More).names == ("vsync", "config", "other")
    assert DirectoryRequest(Mixed).names == ("vsync", "config", "other")
    assert Loud.heard == ["Mixed"]
    # As it is without the future's annotations.
    hints = {"limit": ClassVar[int], "other": ClassVar, "vsync": Vsync}
    assert DirectoryRequest(type("Early", (Directory,), {"__annotations__": hints})).names == ("vsync",)
    assert (More.limit, More.plain) == (5, 6)


def test_a_placeholder_becomes_one_of_the_handles_there_are() -> None:
    wanted = loose_directory(EnginePeers)
    assert wanted == DirectoryRequest(EnginePeers)
    assert repr(wanted) == "directory(EnginePeers)"
    assert pickle.loads(pickle.dumps(wanted)) == wanted
    handles = {"vsync": 1, "config": 2, "other": 3}
    assert wanted.build(handles) == loose_peers(vsync=1, config=2)
    assert [*requests_in((5, wanted), {"a": 6, "b": wanted})] == [wanted, wanted]
    args, kwargs = fill_directories((5, wanted), {"a": 6, "b": DirectoryRequest(Directory)}, handles)
    assert args == (5, loose_peers(vsync=1, config=2))
    assert kwargs == {"a": 6, "b": Directory(**handles)}


def test_one_of_plain_values_can_be_pickled() -> None:
    peers = loose_peers(vsync=1, config=2)
    assert pickle.loads(pickle.dumps(peers)) == peers


def test_a_private_name_is_not_reserved() -> None:
    for name in ("names_", "made"):
        assert DirectoryRequest(type("Fine", (Directory,), {"__annotations__": {name: Any}})).names == (name,)


@pytest.mark.parametrize("wrong", [Vsync, "EnginePeers", loose_peers(vsync=1, config=2)])
def test_a_placeholder_of_something_else_is_refused(wrong: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=r"pass a class that derives from Directory$"):
        directory(wrong)
