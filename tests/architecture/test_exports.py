"""Exports: `__all__` of a package is exactly what it defines and re-exports, and every public name belongs to one package."""

import ast
import subprocess
import sys
from collections import Counter
from importlib import import_module
from pathlib import Path
from typing import cast

import pytest

from tests.architecture import package_layout

PACKAGES = sorted(
    path.stem if path.suffix == ".py" else path.name
    for path in package_layout.PACKAGE.iterdir()
    if (path.suffix == ".py" and path.stem != "__init__") or (path / "__init__.py").exists()
)

# Names of `bandstand.actor` that another package exports too, because its users need them with every handle.
# In a second package for convenience, with the one that owns them.
SHARED = (
    ("pod", "WhenDown", "actor"),
    ("pod", "when_down", "actor"),
    ("pod", "RestartPolicy", "supervision"),
)


def file_of(package: str) -> Path:
    folder = package_layout.PACKAGE / package
    return folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")


def visible(path: Path) -> set[str]:
    """Return the public names of a file: what it defines and, for an `__init__.py`, what it re-exports."""
    names = type_checking_names(path) if path.stem == "__init__" else set[str]()
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
    assert isinstance(exported, tuple), "must be immutable"
    return tuple(map(str, cast("tuple[object, ...]", exported)))


@pytest.mark.parametrize("package", PACKAGES)
def test_all_is_a_tuple_of_exactly_the_public_names(package: str) -> None:
    exported = exports(f"bandstand.{package}")
    assert set(exported) == visible(file_of(package))
    assert len(set(exported)) == len(exported)


def test_every_public_name_belongs_to_one_package() -> None:
    counts = Counter(name for package in PACKAGES for name in exports(f"bandstand.{package}"))
    assert {name for name, count in counts.items() if count > 1} == {name for _, name, _ in SHARED}
    for package, name, owner in SHARED:
        assert getattr(import_module(f"bandstand.{owner}"), name) is getattr(
            import_module(f"bandstand.{package}"), name
        )


def test_bandstand_itself_only_re_exports_names_of_its_packages() -> None:
    root = import_module("bandstand")
    re_exported = set(exports("bandstand")) - {"__version__"}
    owners = {name: package for package in PACKAGES for name in exports(f"bandstand.{package}")}
    for name in re_exported:
        assert getattr(root, name) is getattr(import_module(f"bandstand.{owners[name]}"), name)
    assert re_exported == type_checking_names(package_layout.PACKAGE / "__init__.py")


def type_checking_imports(path: Path) -> list[ast.ImportFrom]:
    """Return the imports under `if TYPE_CHECKING`: at run time these names are loaded lazily."""
    guarded = [
        node
        for node in ast.parse(path.read_text("utf-8")).body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    ]
    return [line for node in guarded for line in node.body if isinstance(line, ast.ImportFrom)]


def type_checking_names(path: Path) -> set[str]:
    """Return the names that a file imports for type checkers only."""
    return {alias.asname or alias.name for line in type_checking_imports(path) for alias in line.names}


@pytest.mark.parametrize("name", ["bandstand", "bandstand.bus"])
def test_a_package_that_loads_lazily_has_the_names_that_type_checkers_see(name: str) -> None:
    package = import_module(name)
    assert set(dir(package)) >= set(exports(name))
    for line in type_checking_imports(Path(str(package.__file__))):
        for alias in line.names:
            # The same object that the type checkers see.
            assert getattr(package, alias.name) is getattr(import_module(str(line.module)), alias.name)
    with pytest.raises(AttributeError, match=f"module '{name}' has no attribute 'nothing'"):
        _ = package.nothing


@pytest.mark.once
def test_a_client_does_not_load_the_node() -> None:
    script = "import sys, bandstand.cli.settings; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=50
    )
    assert "bandstand.bus.client.blocking" in done.stdout.split()
    assert not {"bandstand.bus.node", "bandstand.bus.router", "bandstand.actor"} & set(done.stdout.split())


def test_the_docstring_of_bandstand_lists_every_package() -> None:
    text = import_module("bandstand").__doc__ or ""
    listed = {line.split()[0] for line in text.splitlines() if line.startswith("    ") and line.split()}
    assert listed == set(PACKAGES)
