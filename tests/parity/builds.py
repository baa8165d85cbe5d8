"""The compiled and the interpreted build of bandstand in one process: the one that runs, and the other beside it.

The other build gets its own modules for all packages that contain compiled code, so that each loop is built on its own
kernel. What lies outside of these packages (the errors, the virtual clock) is shared.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader, ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any, final

import pytest

import bandstand
from bandstand import _build_mode

# The packages that are loaded twice; each is an attribute of a build.
PACKAGES = ("core", "scope", "supervision", "actor", "journal", "bus", "pod")
# The full names of the compiled modules.
MODULES = sorted(_build_mode.modules_with_pxd())


@final
class Build:
    """One build: its name, and its modules by their full names."""

    def __init__(self, name: str, modules: dict[str, ModuleType]) -> None:
        self.name = name
        self.modules = modules

    def __getattr__(self, name: str) -> Any:
        """Return a package: `build.core` is `bandstand.core`."""
        return self.modules[f"bandstand.{name}"]

    def __getitem__(self, path: str) -> Any:
        """Return a module, or a name of one: `build["bandstand.core.kernel.Kernel"]`."""
        if path in self.modules:
            return self.modules[path]
        module, _, name = path.rpartition(".")
        return getattr(self.modules[module], name)

    @contextmanager
    def entered(self) -> Generator[Build]:
        """While inside, `import bandstand.core` gives this build: for late imports."""
        with _swapped(self.modules):
            yield self


class _Finder:
    """Finds the compiled modules in the wanted form, whatever else lies beside them."""

    def __init__(self, compiled: bool) -> None:
        self._compiled = compiled

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in MODULES:
            return None
        if self._compiled:
            place = _build_mode.path_of(fullname, EXTENSION_SUFFIXES[0])
            return spec_from_file_location(fullname, place, loader=ExtensionFileLoader(fullname, place))
        place = _build_mode.path_of(fullname, ".py")
        return spec_from_file_location(fullname, place, loader=SourceFileLoader(fullname, place))


def _loaded() -> dict[str, ModuleType]:
    return {
        name: module
        for name, module in sys.modules.items()
        if name.startswith("bandstand.") and name.split(".")[1] in PACKAGES
    }


@contextmanager
def _swapped(modules: dict[str, ModuleType]) -> Generator[None]:
    before = _loaded()
    attributes = {package: getattr(bandstand, package) for package in PACKAGES}
    for name in before:
        del sys.modules[name]
    sys.modules.update(modules)
    for package in PACKAGES:
        if f"bandstand.{package}" in modules:
            setattr(bandstand, package, modules[f"bandstand.{package}"])
    try:
        yield
    finally:
        for name in _loaded():
            del sys.modules[name]
        sys.modules.update(before)
        for package, module in attributes.items():
            setattr(bandstand, package, module)


@cache
def _missing() -> str | None:
    """Return why there is no compiled build to compare with. Cached: it reads the sources of all compiled modules."""
    suffix = EXTENSION_SUFFIXES[0]
    absent = [name for name in MODULES if not Path(_build_mode.path_of(name, suffix)).exists()]
    if absent:
        return f"not compiled: {', '.join(absent)}"
    outdated = sorted(_build_mode.outdated_modules())
    return f"stale extensions: {', '.join(outdated)}; build again" if outdated else None


def _load() -> dict[str, ModuleType]:
    """Load the packages with everything they export and all compiled modules: a later import may get the other build."""
    for package in PACKAGES:
        module = importlib.import_module(f"bandstand.{package}")
        for name in module.__all__:
            getattr(module, name)
    for name in MODULES:
        importlib.import_module(name)
    return _loaded()


@cache
def _pair() -> tuple[Build, Build]:
    running = _build_mode.mode()
    here = Build(running, _load())
    finder = _Finder(compiled=running == "interpreted")
    sys.meta_path.insert(0, finder)
    try:
        with _swapped({}):
            there = Build("compiled" if running == "interpreted" else "interpreted", _load())
    finally:
        sys.meta_path.remove(finder)
    return (here, there) if running == "interpreted" else (there, here)


def both_builds() -> tuple[Build, Build]:
    """Return (interpreted, compiled); skip the test if there is no compiled build of the current sources."""
    if _build_mode.mode() == "interpreted" and (reason := _missing()):
        pytest.skip(reason)
    return _pair()
