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
    """A copy of what the build needs, with seven small hot modules so that compiling is quick.

    `one` and `two` are the core's. `three` is the service's and knows the layout of a class of `one`. `four` is the bus's and calls
    `three`. `five`, the scope's, `six`, the supervisors', and `seven`, the links', know nobody.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
            shutil.copy(house.ROOT / name, folder / name)
        package = folder / "src" / "bandstand"
        package.mkdir(parents=True)
        for name in ("__init__.py", "mode.py", "py.typed"):
            shutil.copy(house.PACKAGE / name, package / name)
        (package / "__init__.py").write_text('__version__ = "0.1.0"\n')
        self.core = self._package(package, "core", ("one", "two"))
        self.actor = self._package(package, "actor", ("three",))
        self.bus = self._package(package, "bus", ("four",))
        self.scope = self._package(package, "scope", ("five",))
        self.supervision = self._package(package, "supervision", ("six",))
        self.link = self._package(package, "pod/link", ("seven",))
        (package / "pod" / "__init__.py").write_text("import bandstand.pod.link\n")
        for name in ("one", "two"):
            (self.core / f"{name}.py").write_text("def twice(n):\n    return n * 2\n")
            (self.core / f"{name}.pxd").write_text("cpdef long twice(long n)\n")
        with (self.core / "one.py").open("a") as file:
            file.write("\n\nclass Number:\n    def __init__(self, value):\n        self.value = value\n")
        with (self.core / "one.pxd").open("a") as file:
            file.write("\ncdef class Number:\n    cdef public long value\n")
        (self.actor / "three.py").write_text("def thrice(number):\n    return number.value * 3\n")
        (self.actor / "three.pxd").write_text(
            "from bandstand.core.hot.one cimport Number\n\ncpdef long thrice(Number number)\n"
        )
        (self.bus / "four.py").write_text(
            "from bandstand.actor.hot.three import thrice\n\n\ndef six_times(number):\n    return 2 * thrice(number)\n"
        )
        (self.bus / "four.pxd").write_text(
            "from bandstand.core.hot.one cimport Number\nfrom bandstand.actor.hot.three cimport thrice\n\n"
            "cpdef long six_times(Number number)\n"
        )
        for hot, name in ((self.scope, "five"), (self.supervision, "six"), (self.link, "seven")):
            (hot / f"{name}.py").write_text("def fivefold(n):\n    return n * 5\n")
            (hot / f"{name}.pxd").write_text("cpdef long fivefold(long n)\n")

    def _package(self, package: Path, room: str, modules: tuple[str, ...]) -> Path:
        """Make a room with a hot package whose door is the real one, but for the list of modules."""
        hot = package / room / "hot"
        hot.mkdir(parents=True)
        (package / room / "__init__.py").write_text(f"import bandstand.{room.replace('/', '.')}.hot\n")
        door = (house.PACKAGE / room / "hot" / "__init__.py").read_text("utf-8")
        start, end = door.index("MODULES = "), door.index("announce(")
        (hot / "__init__.py").write_text(f"{door[:start]}MODULES = {modules}\n{door[end:]}")
        return hot

    def break_declarations(self, name: str = "two") -> None:
        folder = self.actor if name == "three" else self.core
        with (folder / f"{name}.pxd").open("a") as file:
            file.write("\ncpdef nonsense sense(long n)\n")

    def widen(self) -> None:
        """Change the layout of the class that both packages know."""
        path = self.core / "one.pxd"
        text = path.read_text("utf-8")
        path.write_text(
            text.replace("    cdef public long value", "    cdef long first\n    cdef public long value")
        )

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
            "import bandstand.bus, bandstand.pod, bandstand.scope, bandstand.actor, bandstand.supervision; "
            "from bandstand import mode; "
            "print(json.dumps([mode.mode(), sorted(mode.stale_modules())]))"
        )
        result: list[object] = json.loads(self.ask(script))
        return result

    def ask(self, script: str) -> str:
        preface = "import json, sys; sys.path.insert(0, 'src'); "
        done = self.run("-c", preface + script, BANDSTAND_PURE="0")
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


def contents(tree: Tree) -> set[str]:
    [path] = (tree.folder / "dist").glob("*.whl")
    with zipfile.ZipFile(path) as archive:
        paths = [Path(name) for name in archive.namelist() if "/hot/" in name]
    return {f"{path.parts[1]}/{path.name.partition('.')[0]}{path.suffix}" for path in paths}


MODULES = ("core/one", "core/two", "scope/five", "supervision/six", "actor/three", "bus/four", "pod/seven")
ROOMS = {module.partition("/")[0] for module in MODULES}
SOURCES = {f"{room}/__init__.py" for room in ROOMS} | {
    f"{module}{suffix}" for module in MODULES for suffix in (".py", ".pxd")
}
EXTENSIONS = {f"{room}/_stamp.json" for room in ROOMS} | {f"{module}.so" for module in MODULES}


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


@pytest.mark.parametrize("broken", ["two", "three"])
def test_auto_reports_a_failure_plainly_and_goes_on(tree: Tree, broken: str) -> None:
    tree.break_declarations(broken)
    done = tree.wheel()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "compiling the hot modules failed" in done.stdout + done.stderr
    assert "The interpreted twins will be used" in done.stdout + done.stderr
    assert contents(tree) == SOURCES


ONE, TWO = "bandstand.core.hot.one", "bandstand.core.hot.two"
THREE, FOUR, FIVE = "bandstand.actor.hot.three", "bandstand.bus.hot.four", "bandstand.scope.hot.five"
SIX, SEVEN = "bandstand.supervision.hot.six", "bandstand.pod.link.hot.seven"


@pytest.mark.parametrize(
    ("broken", "stale"), [("two", [THREE, FOUR, ONE, TWO, SEVEN, FIVE, SIX]), ("three", [THREE, FOUR, SEVEN])]
)
def test_a_failed_auto_build_leaves_no_yesterday_behind(tree: Tree, broken: str, stale: list[str]) -> None:
    """Not in the other packages either: one half compiled and the other not would be a mixture."""
    assert tree.in_place(BANDSTAND_BUILD="need").returncode == 0
    assert tree.mode() == ["compiled", []]
    tree.break_declarations(broken)
    assert tree.mode() == ["compiled", stale]
    done = tree.in_place()
    assert done.returncode == 0
    assert "The interpreted twins will be used" in done.stderr
    assert tree.mode() == ["interpreted", []]


def test_a_changed_source_is_compiled_again(tree: Tree) -> None:
    assert tree.in_place(BANDSTAND_BUILD="need").returncode == 0
    with (tree.core / "one.py").open("a") as file:
        file.write("\n\nANOTHER = 1\n")
    assert tree.mode() == ["compiled", [ONE]]
    assert tree.in_place(BANDSTAND_BUILD="need").returncode == 0
    assert tree.mode() == ["compiled", []]


def test_a_changed_declaration_is_compiled_anew_in_the_package_above_too(tree: Tree) -> None:
    script = (
        "from bandstand.core.hot.one import Number; from bandstand.bus.hot.four import six_times; "
        "print(six_times(Number(2)))"
    )
    assert tree.in_place(BANDSTAND_BUILD="need").returncode == 0
    assert tree.ask(script) == "12\n"
    tree.widen()
    assert tree.mode() == ["compiled", [THREE, FOUR, ONE, TWO, SEVEN, FIVE, SIX]]
    assert tree.in_place(BANDSTAND_BUILD="need").returncode == 0
    assert tree.mode() == ["compiled", []]
    assert tree.ask(script) == "12\n"


def test_any_other_value_is_an_error(tree: Tree) -> None:
    done = tree.in_place(BANDSTAND_BUILD="maybe")
    assert done.returncode != 0
    assert "BANDSTAND_BUILD is 'maybe': it must be need, skip or auto" in done.stderr
