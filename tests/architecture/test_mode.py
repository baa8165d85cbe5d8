"""The suite knows which twin it runs, and the environment decides it."""

import json
import os
import shutil
import subprocess
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

from bandstand import mode
from tests.architecture import house


def ask(expression: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", f"import bandstand.actor\nfrom bandstand import mode\nprint({expression})"],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
        timeout=50,
    )
    return done.stdout.strip()


def test_it_runs_as_the_lane_demands() -> None:
    assert mode.mode() == os.environ.get("BANDSTAND_TEST_MODE", mode.mode())
    assert mode.mode() != "mixed"


@pytest.mark.slow
def test_pure_wins_over_extensions_that_lie_beside() -> None:
    assert ask("mode.mode()", BANDSTAND_PURE="1") == "interpreted"


@pytest.mark.slow
def test_without_pure_the_extensions_win_where_they_are() -> None:
    places = [house.SRC.joinpath(*name.split(".")) for name in house.hot_modules()]
    built = [place for place in places if place.with_suffix(EXTENSION_SUFFIXES[0]).exists()]
    expected = "compiled" if built else "interpreted"
    assert ask("mode.mode()", BANDSTAND_PURE="0") == expected


def test_a_misspelt_switch_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BANDSTAND_PURE", "yes")
    with pytest.raises(ValueError, match="BANDSTAND_PURE is 'yes'"):
        mode.is_pure()


class Twins:
    """A pretended hot package of two modules, `one` and `two`, whose extensions may lie or be missing.

    It stands on another one, `lower`, which has declarations but announces no modules.
    """

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder / "pretended"
        self.lower = folder / "lower"
        for place, names in ((self.folder, ("one", "two")), (self.lower, ("three",))):
            place.mkdir()
            for name in names:
                (place / f"{name}.py").write_text(f"# {name}\n")
                (place / f"{name}.pxd").write_text(f"# {name}\n")
        monkeypatch.setattr(mode, "_packages", {})
        mode.announce("pretended", str(self.folder), ("one", "two"), below=[str(self.lower)])
        self.compiled: set[str] = set()
        monkeypatch.setattr(mode, "import_module", self._module)

    def _module(self, name: str) -> object:
        suffix = EXTENSION_SUFFIXES[0] if name in self.compiled else ".py"
        return type("Module", (), {"__file__": f"{name}{suffix}"})

    def stamp(self) -> None:
        below = [str(self.lower)]
        modules = {name: mode.digest(str(self.folder), name, "3", below) for name in ("one", "two")}
        stamp = {EXTENSION_SUFFIXES[0]: {"cython": "3", "modules": modules}}
        (self.folder / mode.STAMP).write_text(json.dumps(stamp))


@pytest.fixture
def twins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Twins:
    return Twins(tmp_path, monkeypatch)


def test_none_all_and_some(twins: Twins) -> None:
    assert mode.mode() == "interpreted"
    twins.compiled = {"pretended.one"}
    assert mode.mode() == "mixed"
    twins.compiled = {"pretended.one", "pretended.two"}
    assert mode.mode() == "compiled"


def test_a_stamp_speaks_for_unchanged_sources_only(twins: Twins) -> None:
    twins.compiled = {"pretended.one", "pretended.two"}
    twins.stamp()
    assert mode.stale_modules() == frozenset()
    (twins.folder / "one.py").write_text("# another one\n")
    assert mode.stale_modules() == {"pretended.one"}


def test_declarations_are_shared_so_a_change_makes_all_stale(twins: Twins) -> None:
    twins.compiled = {"pretended.one", "pretended.two"}
    twins.stamp()
    (twins.folder / "two.pxd").write_text("cdef int x\n")
    assert mode.stale_modules() == {"pretended.one", "pretended.two"}


def test_declarations_of_a_package_below_count_and_its_sources_do_not(twins: Twins) -> None:
    twins.compiled = {"pretended.one", "pretended.two"}
    twins.stamp()
    (twins.lower / "three.py").write_text("# another three\n")
    assert mode.stale_modules() == frozenset()
    (twins.lower / "three.pxd").write_text("cdef int x\n")
    assert mode.stale_modules() == {"pretended.one", "pretended.two"}


def test_a_declaration_that_moves_between_packages_is_a_change(twins: Twins) -> None:
    twins.compiled = {"pretended.one"}
    twins.stamp()
    (twins.lower / "three.pxd").rename(twins.folder / "three.pxd")
    assert mode.stale_modules() == {"pretended.one"}


def test_packages_are_reported_together(twins: Twins) -> None:
    mode.announce("lower", str(twins.lower), ("three",))
    assert mode.hot_modules() == {"lower.three", "pretended.one", "pretended.two"}
    twins.compiled = {"pretended.one", "pretended.two"}
    assert mode.mode() == "mixed"
    twins.compiled |= {"lower.three"}
    assert mode.mode() == "compiled"
    twins.stamp()
    assert mode.stale_modules() == {"lower.three"}


def test_an_extension_without_a_stamp_is_stale(twins: Twins) -> None:
    twins.compiled = {"pretended.one"}
    assert mode.stale_modules() == {"pretended.one"}
    (twins.folder / mode.STAMP).write_text("not json")
    assert mode.stale_modules() == {"pretended.one"}


def test_interpreted_modules_are_never_stale(twins: Twins) -> None:
    assert mode.stale_modules() == frozenset()


def test_pure_loads_the_source_although_an_extension_lies_beside(tmp_path: Path) -> None:
    """A lying extension (not even a library) would fail to load: pure must not so much as look at it."""
    shutil.copy(house.PACKAGE / "mode.py", tmp_path / "mode_copy.py")
    package = tmp_path / "pretended"
    package.mkdir()
    (package / "__init__.py").write_text(
        "from mode_copy import announce\nannounce(__name__, __path__[0], ('one',))\n"
    )
    (package / "one.py").write_text("TWIN = 'source'\n")
    (package / f"one{EXTENSION_SUFFIXES[0]}").write_text("not a library")
    command = [sys.executable, "-c", "import pretended.one; print(pretended.one.TWIN)"]
    outcomes = [
        subprocess.run(
            command,
            cwd=tmp_path,
            env={**os.environ, "BANDSTAND_PURE": pure},
            capture_output=True,
            text=True,
            check=False,
            timeout=50,
        )
        for pure in ("1", "0")
    ]
    assert outcomes[0].stdout == "source\n"
    assert "ImportError" in outcomes[1].stderr
