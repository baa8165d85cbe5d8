"""A module is compiled if a `.pxd` lies beside it: the files, the build and what really runs agree on that."""

import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from bandstand import _build_mode
from tests.architecture import package_layout

each_declaration = pytest.mark.parametrize(
    "path",
    sorted(package_layout.PACKAGE.rglob("*.pxd")),
    ids=lambda path: str(path.relative_to(package_layout.PACKAGE)),
)


@each_declaration
def test_each_pxd_lies_beside_its_module(path: Path) -> None:
    assert path.with_suffix(".py").is_file()
    assert path.stem != "__init__", "a package is not compiled"


@each_declaration
def test_a_freelist_is_declared_in_the_source(path: Path) -> None:
    """In a `.pxd` Cython silently ignores it, and allocates every object anew."""
    assert "freelist" not in path.read_text("utf-8")


@pytest.mark.slow
def test_the_build_compiles_the_modules_with_a_pxd_and_nothing_else() -> None:
    script = (
        "import json, setuptools; seen = []\n"
        "setuptools.setup = lambda **options: seen.extend(ext.name for ext in options['ext_modules'])\n"
        "exec(compile(open('setup.py').read(), 'setup.py', 'exec'), {'__file__': 'setup.py', '__name__': 'setup'})\n"
        "print(json.dumps(seen))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=package_layout.ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=50,
    )
    assert json.loads(done.stdout) == package_layout.compiled_modules()


def test_what_runs_is_what_is_declared() -> None:
    declared = set(package_layout.compiled_modules())
    for name in declared:
        import_module(name)
    assert _build_mode.modules_with_pxd() == declared
    assert _build_mode.compiled_modules() in (declared, set())


def test_the_versions_of_the_build_requirements_are_pinned_once() -> None:
    lines = (package_layout.ROOT / "requirements" / "build.txt").read_text("utf-8").splitlines()
    requires = package_layout.config()["build-system"]["requires"]
    assert requires == [line for line in lines if not line.startswith("#")]
