"""Compile the hot modules; everything else about the package is said in pyproject.toml.

The environment variable BANDSTAND_BUILD says how much compiling matters:

    need   a missing Cython, a missing compiler or a failed compile fails the build
    skip   nothing is compiled: a pure wheel
    auto   (or unset) try; if it fails say so, and go on with the interpreted twins: all of them, never a mixture
"""

import ast
import importlib
import importlib.util
import json
import multiprocessing
import os
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Any

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).resolve().parent
# Lowest first, each with those whose declarations it may cimport. Nobody needs to tell Cython where they lie: it looks from
# the root of the package that a source belongs to, which is src. It also keeps track of who cimports whom, across packages
# too, and translates anew what has changed below; then the C file is newer than the extension.
PACKAGES = {
    "bandstand.core.hot": (),
    "bandstand.scope.hot": ("bandstand.core.hot",),
    "bandstand.supervision.hot": ("bandstand.core.hot",),
    "bandstand.actor.hot": ("bandstand.core.hot",),
    "bandstand.bus.hot": ("bandstand.core.hot", "bandstand.actor.hot"),
    "bandstand.pod.link.hot": ("bandstand.core.hot", "bandstand.actor.hot"),
}
GENERATED = Path("build", "cython")
FLAGS = ["-O3", "-g0"]
DIRECTIVES = {
    "language_level": 3,
    "annotation_typing": False,
    # Or every class could be copied, its insides with it, and its generated __setstate__ would crash for a wrong state.
    "auto_pickle": False,
    # A method descriptor checks its self; Cython's own functions do not, and `Loop.send(1, 2, 3)` would crash.
    "binding": False,
    "boundscheck": True,
    "cdivision": True,
    # For inspect.signature, which cannot look into a method descriptor.
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


def source(package: str) -> Path:
    """Where a hot package lies, from the root."""
    return Path("src", *package.split("."))


def below(package: str) -> tuple[Path, ...]:
    """Where the packages lie whose declarations this one rests on, lowest first."""
    return tuple(source(lower) for lower in PACKAGES[package])


def hot_modules(package: str) -> tuple[str, ...]:
    """Read MODULES from a hot package without importing it."""
    door = source(package) / "__init__.py"
    tree = ast.parse((ROOT / door).read_text("utf-8"))
    for node in tree.body:
        if isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == ["MODULES"]:
            return tuple(ast.literal_eval(node.value))
    raise SystemExit(f"{door} assigns no MODULES: nothing says what to compile")


def digest(package: str, name: str, cython_version: str) -> str:
    """Compute the stamp's digest with the function that will check it, loaded apart from the package."""
    spec = importlib.util.spec_from_file_location("_mode", ROOT / "src" / "bandstand" / "mode.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    lower = [str(ROOT / folder) for folder in below(package)]
    return str(module.digest(str(ROOT / source(package)), name, cython_version, lower))


def qualify_defaults() -> None:
    """Have Cython write defaults such as `Lane.DATA` into signatures by their full names.

    For a method descriptor, inspect.signature looks names up among the modules that are loaded and nowhere else.
    """
    transforms: Any = importlib.import_module("Cython.Compiler.AutoDocTransforms")
    plain = transforms.EmbedSignature._fmt_expr  # noqa: SLF001  # there is no other way
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


def translators() -> int:
    """Return how many processes translate; 0 is this one alone.

    A forked one knows what was set here, such as that a warning is an error. One that is spawned would not.
    """
    return os.cpu_count() or 0 if multiprocessing.get_start_method() == "fork" else 0


class BuildHot(build_ext):
    """Translate, compile and stamp the hot modules: all of them, of every package, or none."""

    def run(self) -> None:
        if not self.extensions:
            return
        try:
            self._compile()
        except (Exception, SystemExit) as error:
            # SystemExit too: distutils raises it for a compiler that is not there.
            if switch() == "need":
                raise SystemExit(
                    f"BANDSTAND_BUILD=need, but compiling the hot modules failed: {error}"
                ) from error
            self._withdraw()
            print(
                f"bandstand: compiling the hot modules failed ({type(error).__name__}: {error}). "
                "The interpreted twins will be used: same behaviour, several times slower. "
                "Set BANDSTAND_BUILD=need to make this an error, or skip not to try.",
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
        # Before compiling: a source edited meanwhile must show as stale afterwards.
        digests = {
            package: {name: digest(package, name, cython_version) for name in names}
            for package, names in self._names().items()
        }
        settings = repr((sorted(DIRECTIVES.items()), FLAGS, cython_version))
        note = ROOT / GENERATED / "settings"
        changed = not note.exists() or note.read_text("utf-8") != settings
        # A warning is an error: the last one let through was a negative index that read before the list.
        from Cython.Compiler import Options

        Options.warning_errors = True
        qualify_defaults()
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
        super().run()
        note.parent.mkdir(parents=True, exist_ok=True)
        note.write_text(settings, "utf-8")
        for package, modules in digests.items():
            self._stamp(package, {"cython": cython_version, "modules": modules})

    def _folder(self, package: str) -> Path:
        return ROOT / source(package) if self.inplace else self._built(package)

    def _built(self, package: str) -> Path:
        return Path(self.build_lib, *package.split("."))

    def _names(self) -> dict[str, list[str]]:
        """Return the names of the hot modules by package."""
        names: dict[str, list[str]] = {}
        for ext in self.extensions:
            package, _, name = str(ext.name).rpartition(".")
            names.setdefault(package, []).append(name)
        return names

    def _stamp(self, package: str, stamp: dict[str, Any]) -> None:
        path = self._folder(package) / "_stamp.json"
        stamps: dict[str, Any] = json.loads(path.read_text("utf-8")) if path.exists() else {}
        stamps[EXTENSION_SUFFIXES[0]] = stamp
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(stamps, indent=1) + "\n", "utf-8")

    def _withdraw(self) -> None:
        """Remove what an earlier or a half-finished build left: it would pass for the sources of today."""
        for package, names in self._names().items():
            for folder in {self._folder(package), self._built(package)}:
                for name in names:
                    (folder / f"{name}{EXTENSION_SUFFIXES[0]}").unlink(missing_ok=True)


extensions = [
    Extension(f"{package}.{name}", [str(source(package) / f"{name}.py")], extra_compile_args=FLAGS)
    for package in PACKAGES
    for name in hot_modules(package)
]
setup(ext_modules=[] if switch() == "skip" else extensions, cmdclass={"build_ext": BuildHot})
