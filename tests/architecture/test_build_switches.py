"""BANDSTAND_BUILD for real: wheels built from a copy of the tree, whole and broken."""

import re
import shutil
import zipfile
from pathlib import Path

import pytest

from tests.architecture.build_tree import Tree

pytestmark = [pytest.mark.slow, pytest.mark.once, pytest.mark.timeout(300)]


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


@pytest.fixture(scope="module")
def built_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a tree that was built in place."""
    tree = Tree(tmp_path_factory.mktemp("built"))
    done = tree.in_place(BANDSTAND_BUILD="need")
    assert done.returncode == 0, done.stderr
    assert tree.mode() == ["compiled", []]
    return tree.folder


@pytest.fixture
def built(built_once: Path, tmp_path: Path) -> Tree:
    """A copy of a tree that was built in place. The file times are the same: a build compiles only what has changed since."""
    shutil.copytree(built_once, tmp_path, dirs_exist_ok=True)
    return Tree(tmp_path)


def contents(tree: Tree) -> set[str]:
    """Return what a wheel contains in the packages, and the stamp."""
    [path] = (tree.folder / "dist").glob("*.whl")
    with zipfile.ZipFile(path) as archive:
        paths = [Path(name) for name in archive.namelist() if name.startswith("bandstand/")]
    names = [path.relative_to("bandstand") for path in paths if len(path.parts) > 2 or path.suffix == ".json"]
    return {str(name.with_name(f"{name.name.partition('.')[0]}{name.suffix}")) for name in names}


MODULES = ("core/one", "core/two", "actor/two", "bus/inner/four")
SOURCES = {f"{package}/__init__.py" for package in ("core", "actor", "bus", "bus/inner")} | {
    "core/plain.py",
    *(f"{module}{suffix}" for module in MODULES for suffix in (".py", ".pxd")),
}
EXTENSIONS = {"_stamp.json"} | {f"{module}.so" for module in MODULES}


def test_need_compiles_and_ships_sources_declarations_extensions_and_stamp(tree: Tree) -> None:
    done = tree.wheel(BANDSTAND_BUILD="need")
    assert done.returncode == 0, done.stdout + done.stderr
    assert contents(tree) == SOURCES | EXTENSIONS
    assert not list(tree.folder.glob("src/**/*.c"))


def test_need_fails_on_a_broken_declaration(tree: Tree) -> None:
    tree.break_declarations()
    done = tree.wheel(BANDSTAND_BUILD="need")
    assert done.returncode != 0
    assert "BANDSTAND_BUILD=need, but compiling the modules with a .pxd failed" in done.stdout + done.stderr
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
    done = tree.in_place(**environment)
    assert done.returncode == 0
    assert tree.mode() == ["compiled", []]
    assert re.search(r"^   translating module 4 of 4, \d+ s$", done.stderr, re.MULTILINE)
    assert re.search(r"^   compiled module 4 of 4, \d+ s$", done.stderr, re.MULTILINE)
    assert "module 2" not in done.stderr
    assert "module" not in tree.in_place(**environment).stderr


@pytest.mark.parametrize("broken", ["core/two", "actor/two"])
def test_auto_reports_a_failure_plainly_and_goes_on(tree: Tree, broken: str) -> None:
    tree.break_declarations(broken)
    done = tree.wheel()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "compiling the modules with a .pxd failed" in done.stdout + done.stderr
    assert "They will run interpreted" in done.stdout + done.stderr
    assert contents(tree) == SOURCES


ALL = sorted(f"bandstand.{module.replace('/', '.')}" for module in MODULES)


@pytest.mark.parametrize("broken", ["core/two", "actor/two"])
def test_a_failed_auto_build_leaves_no_old_extension(built: Tree, broken: str) -> None:
    """Not in other packages either: the modules run all compiled or all interpreted."""
    built.break_declarations(broken)
    assert built.mode() == ["compiled", ALL]
    done = built.in_place()
    assert done.returncode == 0
    assert "They will run interpreted" in done.stderr
    assert built.mode() == ["interpreted", []]


def test_a_changed_source_is_compiled_again(built: Tree) -> None:
    with (built.package / "core" / "one.py").open("a") as file:
        file.write("\n\nANOTHER = 1\n")
    assert built.mode() == ["compiled", ["bandstand.core.one"]]
    assert built.in_place(BANDSTAND_BUILD="need").returncode == 0
    assert built.mode() == ["compiled", []]


def test_a_changed_declaration_recompiles_the_packages_above(built: Tree) -> None:
    script = (
        "from bandstand.core.one import Number; from bandstand.bus.inner.four import six_times; "
        "print(six_times(Number(2)))"
    )
    assert built.ask(script) == "12\n"
    built.widen()
    assert built.mode() == ["compiled", ALL]
    assert built.in_place(BANDSTAND_BUILD="need").returncode == 0
    assert built.mode() == ["compiled", []]
    assert built.ask(script) == "12\n"


def test_a_module_becomes_compiled_by_its_pxd_alone_and_plain_without_it(built: Tree) -> None:
    script = "from bandstand.core import plain; print(plain.__file__.endswith('.py'))"
    assert built.ask(script) == "True\n"
    declarations = built.package / "core" / "plain.pxd"
    declarations.write_text("cpdef long once(long n)\n")
    assert built.in_place(BANDSTAND_BUILD="need").returncode == 0
    assert built.ask(script) == "False\n"
    assert built.mode() == ["compiled", []]
    declarations.unlink()
    assert built.mode() == ["compiled", sorted([*ALL, "bandstand.core.plain"])]
    assert built.in_place(BANDSTAND_BUILD="need").returncode == 0
    assert built.ask(script) == "True\n"
    assert built.mode() == ["compiled", []]


def test_any_other_value_is_an_error(tree: Tree) -> None:
    done = tree.in_place(BANDSTAND_BUILD="maybe")
    assert done.returncode != 0
    assert "BANDSTAND_BUILD is 'maybe': it must be need, skip or auto" in done.stderr
