"""A small tree of compiled modules with the real build."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

from tests.architecture import package_layout


class Tree:
    """A copy of what the build needs, with a few small compiled modules so that compiling is quick.

    `core.one` and `core.two` are in the lowest layer. `actor.two` knows the layout of a class of `core.one`, and
    `bus.inner.four` calls it. `plain` is not compiled.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.package = folder / "src" / "bandstand"
        if self.package.exists():
            return
        self.package.mkdir(parents=True)
        for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
            shutil.copy(package_layout.ROOT / name, folder / name)
        # What the compiler makes of the code is not the subject, and it takes most of the time.
        setup = (folder / "setup.py").read_text("utf-8")
        assert '"-O3"' in setup
        (folder / "setup.py").write_text(setup.replace('"-O3"', '"-O0"'), "utf-8")
        for name in ("__init__.py", "_build_mode.py", "py.typed"):
            shutil.copy(package_layout.PACKAGE / name, self.package / name)
        for name in ("core", "actor", "bus", "bus/inner"):
            (self.package / name).mkdir()
            (self.package / name / "__init__.py").touch()
        self.write(
            "core/one",
            """
            def twice(n):
                return n * 2


            class Number:
                def __init__(self, value):
                    self.value = value
            """,
            """
            cpdef long twice(long n)

            cdef class Number:
                cdef public long value
            """,
        )
        self.write("core/two", "def twice(n):\n    return n * 2\n", "cpdef long twice(long n)\n")
        self.write("core/plain", "def once(n):\n    return n\n")
        self.write(
            "actor/two",
            "def thrice(number):\n    return number.value * 3\n",
            "from bandstand.core.one cimport Number\n\ncpdef long thrice(Number number)\n",
        )
        self.write(
            "bus/inner/four",
            """
            from bandstand.actor.two import thrice


            def six_times(number):
                return 2 * thrice(number)
            """,
            """
            from bandstand.core.one cimport Number
            from bandstand.actor.two cimport thrice

            cpdef long six_times(Number number)
            """,
        )

    def write(self, module: str, source: str, declarations: str | None = None) -> None:
        """Write a module; with declarations it is a compiled one."""
        path = self.package / f"{module}.py"
        path.write_text(dedent(source))
        if declarations is not None:
            path.with_suffix(".pxd").write_text(dedent(declarations))

    def break_declarations(self, name: str = "core/two") -> None:
        with (self.package / f"{name}.pxd").open("a") as file:
            file.write("\ncpdef nonsense sense(long n)\n")

    def widen(self) -> None:
        """Change the layout of the class that several packages know."""
        path = self.package / "core" / "one.pxd"
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
            "from bandstand import _build_mode; "
            "print(json.dumps([_build_mode.mode(), sorted(_build_mode.stale_modules())]))"
        )
        result: list[object] = json.loads(self.ask(script))
        return result

    def ask(self, script: str) -> str:
        preface = "import json, sys; sys.path.insert(0, 'src'); "
        done = self.run("-c", preface + script, BANDSTAND_PURE="0")
        assert done.returncode == 0, done.stderr
        return done.stdout
