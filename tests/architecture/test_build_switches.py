"""BANDSTAND_BUILD for real: wheels built from a copy of the tree, whole and broken."""

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.architecture import house

pytestmark = [pytest.mark.slow, pytest.mark.once, pytest.mark.timeout(300)]


class Tree:
    """A copy of what the build needs, with two small hot modules so that compiling is quick."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
            shutil.copy(house.ROOT / name, folder / name)
        package = folder / "src" / "bandstand"
        self.hot = package / "core" / "hot"
        self.hot.mkdir(parents=True)
        for name in ("__init__.py", "mode.py", "py.typed"):
            shutil.copy(house.PACKAGE / name, package / name)
        (package / "__init__.py").write_text('__version__ = "0.1.0"\n')
        (package / "core" / "__init__.py").write_text("import bandstand.core.hot\n")
        door = (house.HOT / "__init__.py").read_text("utf-8")
        start, end = door.index("MODULES = "), door.index("announce(__name__")
        (self.hot / "__init__.py").write_text(door[:start] + 'MODULES = ("one", "two")\n' + door[end:])
        for name in ("one", "two"):
            (self.hot / f"{name}.py").write_text("def twice(n):\n    return n * 2\n")
            (self.hot / f"{name}.pxd").write_text("cpdef long twice(long n)\n")

    def break_declarations(self) -> None:
        (self.hot / "two.pxd").write_text("cpdef nonsense twice(long n)\n")

    def run(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=self.folder,
            env={**os.environ, "BANDSTAND_BUILD": "", **environment},
            capture_output=True,
            text=True,
            check=False,
            timeout=240,
        )

    def wheel(self, **environment: str) -> subprocess.CompletedProcess[str]:
        wheel = ("-m", "pip", "wheel", "-v", "--no-deps", "--no-build-isolation", "-w", "dist", ".")
        return self.run(*wheel, **environment)

    def in_place(self, **environment: str) -> subprocess.CompletedProcess[str]:
        return self.run("setup.py", "--quiet", "build_ext", "--inplace", **environment)

    def mode(self) -> list[object]:
        script = (
            "import json, sys; sys.path.insert(0, 'src'); import bandstand.core; from bandstand import mode; "
            "print(json.dumps([mode.mode(), sorted(mode.stale_modules())]))"
        )
        done = self.run("-c", script, BANDSTAND_PURE="0")
        assert done.returncode == 0, done.stderr
        result: list[object] = json.loads(done.stdout)
        return result


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


def contents(tree: Tree) -> set[str]:
    [path] = (tree.folder / "dist").glob("*.whl")
    with zipfile.ZipFile(path) as archive:
        return {
            Path(name).name.partition(".")[0] + Path(name).suffix
            for name in archive.namelist()
            if "/hot/" in name
        }


SOURCES = {"__init__.py", "one.py", "one.pxd", "two.py", "two.pxd"}
EXTENSIONS = {"one.so", "two.so", "_stamp.json"}


def test_need_compiles_and_ships_sources_declarations_extensions_and_stamp(tree: Tree) -> None:
    done = tree.wheel(BANDSTAND_BUILD="need")
    assert done.returncode == 0, done.stdout + done.stderr
    assert contents(tree) == SOURCES | EXTENSIONS
    assert not list(tree.folder.glob("src/**/*.c"))


def test_need_fails_on_a_broken_declaration(tree: Tree) -> None:
    tree.break_declarations()
    done = tree.wheel(BANDSTAND_BUILD="need")
    assert done.returncode != 0
    assert "BANDSTAND_BUILD=need, but compiling the hot modules failed" in done.stdout + done.stderr
    assert not list(tree.folder.glob("dist/*.whl"))


def test_need_fails_without_a_compiler(tree: Tree) -> None:
    done = tree.in_place(BANDSTAND_BUILD="need", CC="/nonexistent/cc")
    assert done.returncode != 0
    assert "BANDSTAND_BUILD=need" in done.stderr


def test_need_fails_without_cython(tree: Tree) -> None:
    (tree.folder / "Cython.py").write_text("raise ImportError('pretended')\n")
    done = tree.in_place(BANDSTAND_BUILD="need", PYTHONPATH=str(tree.folder))
    assert done.returncode != 0
    assert "Cython is not installed" in done.stderr


def test_skip_makes_a_pure_wheel(tree: Tree) -> None:
    tree.break_declarations()
    done = tree.wheel(BANDSTAND_BUILD="skip")
    assert done.returncode == 0, done.stdout + done.stderr
    assert contents(tree) == SOURCES
    assert [path.name for path in (tree.folder / "dist").iterdir()] == ["bandstand-0.1.0-py3-none-any.whl"]


@pytest.mark.parametrize("environment", [{}, {"BANDSTAND_BUILD": "auto"}], ids=["unset", "auto"])
def test_auto_compiles_where_it_can(tree: Tree, environment: dict[str, str]) -> None:
    assert tree.in_place(**environment).returncode == 0
    assert tree.mode() == ["compiled", []]


def test_auto_reports_a_failure_plainly_and_goes_on(tree: Tree) -> None:
    tree.break_declarations()
    done = tree.wheel()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "compiling the hot modules failed" in done.stdout + done.stderr
    assert "The interpreted twins will be used" in done.stdout + done.stderr
    assert contents(tree) == SOURCES


def test_a_failed_auto_build_leaves_no_yesterday_behind(tree: Tree) -> None:
    assert tree.in_place(BANDSTAND_BUILD="need").returncode == 0
    assert tree.mode() == ["compiled", []]
    tree.break_declarations()
    assert tree.mode() == ["compiled", ["bandstand.core.hot.one", "bandstand.core.hot.two"]]
    done = tree.in_place()
    assert done.returncode == 0
    assert "The interpreted twins will be used" in done.stderr
    assert tree.mode() == ["interpreted", []]


def test_a_changed_source_is_compiled_again(tree: Tree) -> None:
    assert tree.in_place(BANDSTAND_BUILD="need").returncode == 0
    (tree.hot / "one.py").write_text("def twice(n):\n    return n + n\n")
    assert tree.mode() == ["compiled", ["bandstand.core.hot.one"]]
    assert tree.in_place(BANDSTAND_BUILD="need").returncode == 0
    assert tree.mode() == ["compiled", []]


def test_any_other_value_is_an_error(tree: Tree) -> None:
    done = tree.in_place(BANDSTAND_BUILD="maybe")
    assert done.returncode != 0
    assert "BANDSTAND_BUILD is 'maybe': it must be need, skip or auto" in done.stderr
