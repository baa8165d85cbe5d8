"""One list of hot modules: the files, the build and what really runs cannot drift apart."""

import json
import subprocess
import sys

from bandstand import mode
from tests.architecture import house

MODULES = house.assigned(house.HOT / "__init__.py", "MODULES")


def test_the_list_is_sorted_and_names_the_files() -> None:
    assert list(MODULES) == sorted(MODULES)
    assert set(MODULES) == house.hot_files()


def test_each_hot_module_has_its_declarations_and_no_declarations_stand_alone() -> None:
    assert {path.stem for path in house.PACKAGE.rglob("*.pxd")} == set(MODULES)
    assert {path.stem for path in house.HOT.glob("*.pxd")} == set(MODULES)


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
    assert json.loads(done.stdout) == [f"bandstand.core.hot.{name}" for name in MODULES]


def test_what_runs_is_what_is_listed() -> None:
    listed = {f"bandstand.core.hot.{name}" for name in MODULES}
    assert mode.hot_modules() == listed
    assert mode.compiled_modules() in (listed, set())


def test_the_build_is_pinned_once() -> None:
    lines = (house.ROOT / "requirements" / "build.txt").read_text("utf-8").splitlines()
    assert house.config()["build-system"]["requires"] == [line for line in lines if not line.startswith("#")]
