"""One list of hot modules for each package: the files, the build and what really runs cannot drift apart."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import bandstand.actor  # pyright: ignore[reportUnusedImport]

# Entered for their effect: the hot modules announce themselves to bandstand.mode.
import bandstand.bus.hot  # pyright: ignore[reportUnusedImport]
import bandstand.core  # pyright: ignore[reportUnusedImport]
import bandstand.pod  # pyright: ignore[reportUnusedImport]
import bandstand.scope  # pyright: ignore[reportUnusedImport]
import bandstand.supervision  # noqa: F401  # pyright: ignore[reportUnusedImport]
from bandstand import mode
from tests.architecture import house

each_package = pytest.mark.parametrize("folder", house.HOT.values(), ids=house.HOT)


def test_the_build_knows_every_hot_package_lowest_first() -> None:
    assert set(house.HOT.values()) == set(house.PACKAGE.rglob("hot"))
    floors = house.floors("floors")
    rooms = [folder.relative_to(house.PACKAGE).parts[0] for folder in house.HOT.values()]
    assert len(rooms) == len(set(rooms))
    assert [floors[room] for room in rooms] == sorted(floors[room] for room in rooms)


@each_package
def test_the_list_is_sorted_and_names_the_files(folder: Path) -> None:
    names = house.listed(folder)
    assert list(names) == sorted(names)
    assert {"__init__", *names} == {path.stem for path in folder.glob("*.py")}


@each_package
def test_each_hot_module_has_its_declarations(folder: Path) -> None:
    assert {path.stem for path in folder.glob("*.pxd")} == set(house.listed(folder))


def test_no_declarations_stand_outside_the_hot_packages() -> None:
    assert {path.parent for path in house.PACKAGE.rglob("*.pxd")} == set(house.HOT.values())


def test_no_two_hot_modules_share_a_name() -> None:
    """The doctor names them without their package."""
    names = [name.rpartition(".")[2] for name in house.hot_modules()]
    assert sorted(names) == sorted(set(names))


@pytest.mark.slow
def test_the_build_compiles_that_list_and_nothing_else() -> None:
    script = (
        "import json, setuptools; seen = []\n"
        "setuptools.setup = lambda **options: seen.extend(ext.name for ext in options['ext_modules'])\n"
        "exec(compile(open('setup.py').read(), 'setup.py', 'exec'), {'__file__': 'setup.py', '__name__': 'setup'})\n"
        "print(json.dumps(seen))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=house.ROOT, capture_output=True, text=True, check=True, timeout=50
    )
    assert json.loads(done.stdout) == house.hot_modules()


def test_what_runs_is_what_is_listed() -> None:
    listed = set(house.hot_modules())
    assert mode.hot_modules() == listed
    assert mode.compiled_modules() in (listed, set())


def test_the_build_is_pinned_once() -> None:
    lines = (house.ROOT / "requirements" / "build.txt").read_text("utf-8").splitlines()
    assert house.config()["build-system"]["requires"] == [line for line in lines if not line.startswith("#")]


@pytest.mark.parametrize("path", sorted(house.PACKAGE.rglob("*.pxd")), ids=lambda path: path.stem)
def test_a_freelist_stands_in_the_source(path: Path) -> None:
    """Beside it, in the declarations, Cython passes over it without a word, and every object is made anew."""
    assert "freelist" not in path.read_text("utf-8")
