"""Compile the modules that have a `.pxd` beside them; pyproject.toml describes the rest of the package.

The environment variable BANDSTAND_BUILD decides what happens if compiling fails:

    need   a missing Cython, a missing compiler or a compile error fails the build
    skip   nothing is compiled: a pure wheel
    auto   (or unset) report the failure and leave all modules interpreted, never some of them
"""

import ast
import importlib
import importlib.util
import json
import multiprocessing
import os
import sys
import threading
import time
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Any

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.modified import newer_group

ROOT = Path(__file__).resolve().parent
GENERATED = Path("build", "cython")
STARTED = time.monotonic()
# In a file, the progress is a line for so many modules.
MODULES_PER_LINE = 20
FLAGS = ["-O3", "-g0"]
DIRECTIVES = {
    "language_level": 3,
    "annotation_typing": False,
    # Pickling and copying would expose C attributes, and the generated __setstate__ crashes on a wrong state.
    "auto_pickle": False,
    # A method descriptor checks the type of self. Cython's own functions do not: `Loop.send(1, 2, 3)` would crash.
    "binding": False,
    "boundscheck": True,
    "cdivision": True,
    # inspect.signature cannot look into a method descriptor, and reads the embedded signature.
    "embedsignature": True,
    "embedsignature.format": "clinic",
    "initializedcheck": False,
    "nonecheck": True,
    "wraparound": False,
}


def switch() -> str:
    value = os.environ.get("BANDSTAND_BUILD") or "auto"
    if value not in {"need", "skip", "auto"}:
        raise SystemExit(f"BANDSTAND_BUILD is {value!r}: it must be need, skip or auto (or not set at all)")
    return value


def load_build_mode() -> Any:
    """Load `bandstand._build_mode` from its file: importing the package would load the extensions."""
    path = ROOT / "src" / "bandstand" / "_build_mode.py"
    spec = importlib.util.spec_from_file_location("_build_mode", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


BUILD_MODE = load_build_mode()


def qualify_defaults() -> None:
    """Make Cython write defaults such as `Lane.DATA` into signatures by their full names.

    For a method descriptor, inspect.signature resolves names only in the modules that are loaded.
    """
    transforms: Any = importlib.import_module("Cython.Compiler.AutoDocTransforms")
    plain = transforms.EmbedSignature._fmt_expr  # noqa: SLF001  # Cython has no public hook
    homes: dict[str, dict[str, str]] = {}

    def format_expression(self: Any, node: Any) -> str:
        text = str(plain(self, node))
        first, dot, rest = text.partition(".")
        path = str(node.pos[0].file_path)
        if path not in homes:
            homes[path] = {
                entry.asname or entry.name: f"{part.module}.{entry.name}"
                for part in ast.walk(ast.parse(Path(path).read_text("utf-8")))
                if isinstance(part, ast.ImportFrom)
                for entry in part.names
            }
        return f"{homes[path].get(first, first)}{dot}{rest}"

    transforms.EmbedSignature._fmt_expr = format_expression  # noqa: SLF001  # same


def show_progress(step: str, number: int, total: int) -> None:
    """Show how far the build is: in a terminal as one line that is overwritten, in a file as a few lines."""
    text = f"   {step} module {number} of {total}, {time.monotonic() - STARTED:.0f} s"
    if sys.stderr.isatty():
        # One write, because several processes show their progress. The line is cleared before other output.
        sys.stderr.write(f"\r\x1b[K{text}\r" if number < total else f"\r\x1b[K{text}\n")
    elif number % MODULES_PER_LINE == 0 or number == total:
        sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def show_translations() -> None:
    """Make Cython show each module that it begins to translate."""
    dependencies: Any = importlib.import_module("Cython.Build.Dependencies")
    translate = dependencies.cythonize_one

    def translate_and_show(*arguments: Any, **options: Any) -> Any:
        # Such as "[ 7/80] ". The forked processes that translate inherit this function.
        position = next((text for text in arguments if isinstance(text, str) and text.startswith("[")), "")
        if position:
            number, _, total = position.strip("[] ").partition("/")
            show_progress("translating", int(number), int(total))
        return translate(*arguments, **options)

    dependencies.cythonize_one = translate_and_show


def translators() -> int:
    """Return how many processes translate; 0 means only this one.

    A forked process inherits the options set here, such as "warnings are errors". A spawned one would not.
    """
    return os.cpu_count() or 0 if multiprocessing.get_start_method() == "fork" else 0


class BuildCompiledModules(build_ext):
    """Translate, compile and stamp the modules that have a `.pxd`: all of them or none."""

    def run(self) -> None:
        if not self.extensions:
            return
        try:
            self._compile()
        except (Exception, SystemExit) as error:
            # SystemExit too: distutils raises it for a missing compiler.
            if switch() == "need":
                raise SystemExit(
                    f"BANDSTAND_BUILD=need, but compiling the modules with a .pxd failed: {error}"
                ) from error
            self._remove_extensions()
            print(
                f"bandstand: compiling the modules with a .pxd failed ({type(error).__name__}: {error}). "
                "They will run interpreted: same behaviour, several times slower. "
                "Set BANDSTAND_BUILD=need to make this an error, or skip to build without compiling.",
                file=sys.stderr,
            )

    def get_outputs(self) -> list[str]:
        return [path for path in super().get_outputs() if Path(path).exists()]

    def _compile(self) -> None:
        try:
            cython: Any = importlib.import_module("Cython")
            cython_build: Any = importlib.import_module("Cython.Build")
        except ImportError as error:
            raise RuntimeError("Cython is not installed") from error
        cython_version = str(cython.__version__)
        # Before compiling: a source that is edited during the build must show as stale afterwards.
        stamp = {"cython": cython_version, "modules": BUILD_MODE.digests(cython_version)}
        settings = repr((sorted(DIRECTIVES.items()), FLAGS, cython_version))
        note = ROOT / GENERATED / "settings"
        changed = not note.exists() or note.read_text("utf-8") != settings
        # Warnings are errors: one of them was about a negative index that read before the start of a list.
        from Cython.Compiler import Options

        Options.warning_errors = True
        qualify_defaults()
        show_translations()
        translated = cython_build.cythonize(
            [Extension(ext.name, list(ext.sources)) for ext in self.extensions],
            build_dir=str(GENERATED),
            compiler_directives=DIRECTIVES,
            force=changed or bool(self.force),
            nthreads=translators(),
            quiet=True,
        )
        generated: dict[str, list[str]] = {ext.name: ext.sources for ext in translated}
        for ext in self.extensions:
            ext.sources = generated[ext.name]
        self.force = bool(self.force) or changed
        self.parallel = self.parallel or os.cpu_count()
        self._lock = threading.Lock()
        self._compiled = 0
        super().run()
        note.parent.mkdir(parents=True, exist_ok=True)
        note.write_text(settings, "utf-8")
        if self.inplace:
            for path in BUILD_MODE.orphaned_extensions():
                Path(path).unlink()
        self._write_stamp(stamp)

    def build_extensions(self) -> None:
        self._due = sum(1 for extension in self.extensions if self._is_due(extension))
        super().build_extensions()

    def build_extension(self, ext: Any) -> None:
        # Called by several threads.
        is_due = self._is_due(ext)
        super().build_extension(ext)  # pyright: ignore[reportUnknownMemberType]
        if is_due:
            with self._lock:
                self._compiled += 1
                show_progress("compiled", self._compiled, self._due)

    def _is_due(self, ext: Any) -> bool:
        return bool(
            self.force or newer_group([*ext.sources, *ext.depends], self.get_ext_fullpath(ext.name), "newer")
        )

    def _folder(self) -> Path:
        """Return the folder that the extensions go to, without the path of their packages."""
        return ROOT / "src" if self.inplace else Path(self.build_lib)

    def _write_stamp(self, stamp: dict[str, Any]) -> None:
        path = self._folder() / "bandstand" / BUILD_MODE.STAMP
        stamps: dict[str, Any] = json.loads(path.read_text("utf-8")) if path.exists() else {}
        stamps[EXTENSION_SUFFIXES[0]] = stamp
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(stamps, indent=1) + "\n", "utf-8")

    def _remove_extensions(self) -> None:
        """Remove what an earlier or an unfinished build left: Python would import it instead of the current sources."""
        for ext in self.extensions:
            for folder in {self._folder(), Path(self.build_lib)}:
                path = folder.joinpath(*str(ext.name).split("."))
                path.with_name(path.name + EXTENSION_SUFFIXES[0]).unlink(missing_ok=True)


extensions = [
    Extension(name, [str(Path("src", *name.split("."))) + ".py"], extra_compile_args=FLAGS)
    for name in sorted(BUILD_MODE.modules_with_pxd())
]
setup(ext_modules=[] if switch() == "skip" else extensions, cmdclass={"build_ext": BuildCompiledModules})
