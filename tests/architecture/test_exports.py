"""Front doors: what a room exports is what it says, and every public name has one home."""

import ast
import subprocess
import sys
from collections import Counter
from importlib import import_module
from pathlib import Path
from typing import cast

import pytest

from tests.architecture import package_layout

ROOMS = sorted(
    path.stem if path.suffix == ".py" else path.name
    for path in package_layout.PACKAGE.iterdir()
    if (path.suffix == ".py" and path.stem != "__init__") or (path / "__init__.py").exists()
)


def file_of(room: str) -> Path:
    folder = package_layout.PACKAGE / room
    return folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")


def visible(path: Path) -> set[str]:
    """Return the public names a file offers: what it defines, and what a door passes on from inside the package_layout."""
    names = passed_on_to_checkers(path) if path.stem == "__init__" else set[str]()
    for node in ast.parse(path.read_text("utf-8")).body:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
            case ast.Assign(targets=targets):
                names |= {target.id for target in targets if isinstance(target, ast.Name)}
            case ast.AnnAssign(target=ast.Name(id=name)):
                names.add(name)
            case ast.ImportFrom(module=str(module), names=aliases) if path.stem == "__init__":
                names |= {alias.asname or alias.name for alias in aliases if module.startswith("bandstand")}
            case _:
                pass
    return {name for name in names if not name.startswith("_")}


def exports(module: str) -> tuple[str, ...]:
    exported: object = import_module(module).__all__
    assert isinstance(exported, tuple), "not a list: nobody adds to it"
    return tuple(map(str, cast("tuple[object, ...]", exported)))


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_exports_a_tuple_of_exactly_what_is_visible(room: str) -> None:
    exported = exports(f"bandstand.{room}")
    assert set(exported) == visible(file_of(room))
    assert len(set(exported)) == len(exported)


# The one name that two rooms have: the services' loop is the core's, and spawns classes too.
SHARED = {"Loop": ("core", "actor")}


def test_every_public_name_has_exactly_one_home() -> None:
    homes = Counter(name for room in ROOMS for name in exports(f"bandstand.{room}"))
    assert {name: count for name, count in homes.items() if count > 1} == {
        name: len(rooms) for name, rooms in SHARED.items()
    }


def test_a_name_that_two_rooms_have_is_one_thing() -> None:
    for name, rooms in SHARED.items():
        below, *above = (getattr(import_module(f"bandstand.{room}"), name) for room in rooms)
        assert all(issubclass(kind, below) for kind in above)


def test_the_house_itself_only_passes_on_what_a_room_exports() -> None:
    house_door = import_module("bandstand")
    passed_on = set(exports("bandstand")) - {"__version__"}
    homes = {name: room for room in ROOMS for name in exports(f"bandstand.{room}")}
    homes |= {name: rooms[-1] for name, rooms in SHARED.items()}
    for name in passed_on:
        assert getattr(house_door, name) is getattr(import_module(f"bandstand.{homes[name]}"), name)
    assert passed_on == passed_on_to_checkers(package_layout.PACKAGE / "__init__.py")


def lines_for_checkers(path: Path) -> list[ast.ImportFrom]:
    """What a door imports for type checkers alone: it is loaded only when it is asked for."""
    guarded = [
        node
        for node in ast.parse(path.read_text("utf-8")).body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    ]
    return [line for node in guarded for line in node.body if isinstance(line, ast.ImportFrom)]


def passed_on_to_checkers(path: Path) -> set[str]:
    """The names that a door shows to type checkers alone."""
    return {alias.asname or alias.name for line in lines_for_checkers(path) for alias in line.names}


@pytest.mark.parametrize("name", ["bandstand", "bandstand.bus"])
def test_a_door_that_loads_what_is_asked_for_has_what_it_shows(name: str) -> None:
    door = import_module(name)
    assert set(dir(door)) >= set(exports(name))
    for line in lines_for_checkers(Path(str(door.__file__))):
        for alias in line.names:
            # From the very module that the checkers are told of: an instance of another class would be a lie.
            assert getattr(door, alias.name) is getattr(import_module(str(line.module)), alias.name)
    with pytest.raises(AttributeError, match=f"module '{name}' has no attribute 'nothing'"):
        _ = door.nothing


@pytest.mark.once
def test_whoever_speaks_to_a_node_does_not_load_one() -> None:
    script = "import sys, bandstand.cli.target, bandstand.cli.settings; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=50
    )
    assert "bandstand.bus.client.blocking" in done.stdout.split()
    assert not {"bandstand.bus.node", "bandstand.bus.router", "bandstand.actor"} & set(done.stdout.split())


def test_the_map_names_every_room() -> None:
    text = import_module("bandstand").__doc__ or ""
    drawn = {line.split()[0] for line in text.splitlines() if line.startswith("    ") and line.split()}
    assert drawn == set(ROOMS)
