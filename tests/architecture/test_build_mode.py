"""Which modules run compiled, which extensions are stale, and what BANDSTAND_PURE does."""

import json
import os
import shutil
import subprocess
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

from bandstand import _build_mode
from tests.architecture import package_layout

SUFFIX = EXTENSION_SUFFIXES[0]


def ask(expression: str, **environment: str) -> str:
    script = f"import bandstand.actor\nfrom bandstand import _build_mode\nprint({expression})"
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
        timeout=50,
    )
    return done.stdout.strip()


def test_the_mode_is_the_one_that_the_lane_demands() -> None:
    assert _build_mode.mode() == os.environ.get("BANDSTAND_TEST_MODE", _build_mode.mode())
    assert _build_mode.mode() != "mixed"


@pytest.mark.slow
def test_pure_wins_over_extensions() -> None:
    assert ask("_build_mode.mode()", BANDSTAND_PURE="1") == "interpreted"


@pytest.mark.slow
def test_without_pure_the_extensions_win() -> None:
    paths = [Path(_build_mode.path_of(name, SUFFIX)) for name in package_layout.compiled_modules()]
    expected = "compiled" if any(path.exists() for path in paths) else "interpreted"
    assert ask("_build_mode.mode()", BANDSTAND_PURE="0") == expected


def test_an_unknown_value_of_the_switch_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BANDSTAND_PURE", "yes")
    with pytest.raises(ValueError, match="BANDSTAND_PURE is 'yes'"):
        _build_mode.is_pure()


class Package:
    """A package with three modules that have a `.pxd`, two of them with the same name, and one that has none."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        for name in ("core/one", "core/two", "actor/two", "core/plain"):
            path = folder / f"{name}.py"
            path.parent.mkdir(exist_ok=True)
            path.write_text(f"# {name}\n")
            if path.stem != "plain":
                path.with_suffix(".pxd").write_text(f"# {name}\n")
        monkeypatch.setattr(_build_mode, "FOLDER", str(folder))
        monkeypatch.setattr(_build_mode, "PACKAGE", "example")
        monkeypatch.setenv("BANDSTAND_PURE", "0")

    def build(self, *names: str) -> None:
        for name in names:
            (self.folder / f"{name}{SUFFIX}").write_text("not a library")

    def build_all(self) -> None:
        self.build("core/one", "core/two", "actor/two")
        stamp = {SUFFIX: {"cython": "3", "modules": _build_mode.digests("3")}}
        (self.folder / _build_mode.STAMP).write_text(json.dumps(stamp))


ONE, TWO, OTHER_TWO = "example.core.one", "example.core.two", "example.actor.two"


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Package:
    return Package(tmp_path, monkeypatch)


def test_the_mode_with_no_all_and_some_extensions(package: Package) -> None:
    assert _build_mode.mode() == "interpreted"
    package.build("core/two")
    assert _build_mode.compiled_modules() == {TWO}
    assert _build_mode.mode() == "mixed"
    package.build("core/one", "actor/two")
    assert _build_mode.mode() == "compiled"


def test_a_changed_source_makes_its_module_stale(package: Package) -> None:
    package.build_all()
    assert _build_mode.cython_version() == "3"
    assert _build_mode.stale_modules() == frozenset()
    (package.folder / "core" / "plain.py").write_text("# changed\n")
    assert _build_mode.stale_modules() == frozenset()
    (package.folder / "core" / "two.py").write_text("# changed\n")
    assert _build_mode.stale_modules() == {TWO}


def test_a_changed_pxd_makes_all_modules_stale(package: Package) -> None:
    package.build_all()
    (package.folder / "actor" / "two.pxd").write_text("cdef int x\n")
    assert _build_mode.stale_modules() == {ONE, TWO, OTHER_TWO}


def test_a_pxd_that_moves_to_another_package_makes_all_modules_stale(package: Package) -> None:
    package.build_all()
    for suffix in (".py", ".pxd"):
        (package.folder / "core" / f"one{suffix}").rename(package.folder / "actor" / f"one{suffix}")
    assert _build_mode.stale_modules() == {TWO, OTHER_TWO}
    assert _build_mode.outdated_modules() == {"example.actor.one", TWO, OTHER_TWO}


def test_an_extension_of_a_module_that_has_no_pxd_any_more_is_stale(package: Package) -> None:
    package.build_all()
    package.build("core/plain", "core/removed")
    assert _build_mode.stale_modules() == {"example.core.plain"}
    assert sorted(_build_mode.orphaned_extensions()) == [
        str(package.folder / "core" / f"{name}{SUFFIX}") for name in ("plain", "removed")
    ]


def test_an_extension_without_a_stamp_is_stale(package: Package) -> None:
    package.build("core/one")
    assert _build_mode.stale_modules() == {ONE}
    assert _build_mode.cython_version() is None
    (package.folder / _build_mode.STAMP).write_text("not json")
    assert _build_mode.stale_modules() == {ONE}


@pytest.mark.parametrize("declaration", ["one.pxd", "nothing.pxd"])
def test_pure_loads_the_source_although_there_is_an_extension(tmp_path: Path, declaration: str) -> None:
    """The extension is not even a library: loading it would fail. The rule holds without a `.pxd` as well."""
    package = tmp_path / "bandstand"
    (package / "core").mkdir(parents=True)
    for name in ("__init__.py", "_build_mode.py"):
        shutil.copy(package_layout.PACKAGE / name, package / name)
    (package / "core" / "__init__.py").touch()
    (package / "core" / declaration).touch()
    (package / "core" / "one.py").write_text("FILE = 'source'\n")
    (package / "core" / f"one{SUFFIX}").write_text("not a library")
    outcomes = [
        subprocess.run(
            [sys.executable, "-c", "import bandstand.core.one; print(bandstand.core.one.FILE)"],
            cwd=tmp_path,
            env={**os.environ, "BANDSTAND_PURE": pure, "PYTHONPATH": str(tmp_path)},
            capture_output=True,
            text=True,
            check=False,
            timeout=50,
        )
        for pure in ("1", "0", "yes")
    ]
    assert outcomes[0].stdout == "source\n"
    assert "ImportError" in outcomes[1].stderr
    assert "BANDSTAND_PURE is 'yes'" in outcomes[2].stderr
