"""Both twins of the hot modules in one process: the one that runs, and the other one, loaded beside it.

The other twin gets modules of its own for the whole of `bandstand.core`, so that each twin's loop is built on its own
kernel. What stands outside the core (the errors, the virtual clock) is shared.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader, ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from types import ModuleType
from typing import Any, final

import pytest

import bandstand
import bandstand.core.lowlevel  # pyright: ignore[reportUnusedImport]  # so that it is in sys.modules
from bandstand import mode
from bandstand.core import hot

PREFIX = "bandstand.core"
FOLDER = os.path.dirname(hot.__file__ or "")


@final
class Twin:
    """One twin: its name, and its modules by their full names."""

    def __init__(self, name: str, modules: dict[str, ModuleType]) -> None:
        self.name = name
        self.modules = modules

    def __getattr__(self, name: str) -> Any:
        """`twin.wheel` is the hot module, `twin.core` the room."""
        if name == "core":
            return self.modules[PREFIX]
        return self.modules[f"{PREFIX}.hot.{name}"]

    @contextmanager
    def entered(self) -> Generator[Twin]:
        """While inside, `import bandstand.core` means this twin: for what is imported late."""
        with _swapped(self.modules):
            yield self


class _Finder:
    """Finds the hot modules in the wanted form, whatever else lies beside them."""

    def __init__(self, compiled: bool) -> None:
        self._compiled = compiled

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        package, _, name = fullname.rpartition(".")
        if package != f"{PREFIX}.hot" or name not in hot.MODULES:
            return None
        if self._compiled:
            place = os.path.join(FOLDER, name + EXTENSION_SUFFIXES[0])
            return spec_from_file_location(fullname, place, loader=ExtensionFileLoader(fullname, place))
        place = os.path.join(FOLDER, f"{name}.py")
        return spec_from_file_location(fullname, place, loader=SourceFileLoader(fullname, place))


def _ours() -> dict[str, ModuleType]:
    return {
        name: module
        for name, module in sys.modules.items()
        if name == PREFIX or name.startswith(PREFIX + ".")
    }


@contextmanager
def _swapped(modules: dict[str, ModuleType]) -> Generator[None]:
    before, attribute = _ours(), bandstand.core
    for name in before:
        del sys.modules[name]
    sys.modules.update(modules)
    if PREFIX in modules:
        bandstand.core = modules[PREFIX]
    try:
        yield
    finally:
        for name in _ours():
            del sys.modules[name]
        sys.modules.update(before)
        bandstand.core = attribute


def _missing() -> str | None:
    """Why there is no compiled twin to compare with, if there is none."""
    absent = [
        name for name in hot.MODULES if not os.path.exists(os.path.join(FOLDER, name + EXTENSION_SUFFIXES[0]))
    ]
    if absent:
        return f"no compiled twin of {', '.join(absent)} lies beside the sources"
    try:
        with open(os.path.join(FOLDER, mode.STAMP), encoding="utf-8") as file:
            stamp = json.load(file)[EXTENSION_SUFFIXES[0]]
    except (OSError, ValueError, KeyError):
        return "nothing says what the compiled twins were compiled from"
    stale = [
        name
        for name in hot.MODULES
        if stamp["modules"].get(name) != mode.digest(FOLDER, name, stamp["cython"])
    ]
    return f"the compiled twin of {', '.join(stale)} is stale: build again" if stale else None


@cache
def _pair() -> tuple[Twin, Twin]:
    running = mode.mode()
    here = Twin(running, _ours())
    finder = _Finder(compiled=running == "interpreted")
    sys.meta_path.insert(0, finder)
    try:
        with _swapped({}):
            importlib.import_module(PREFIX)
            importlib.import_module(f"{PREFIX}.lowlevel")
            for name in hot.MODULES:
                importlib.import_module(f"{PREFIX}.hot.{name}")
            there = Twin("compiled" if running == "interpreted" else "interpreted", _ours())
    finally:
        sys.meta_path.remove(finder)
    return (here, there) if running == "interpreted" else (there, here)


def both() -> tuple[Twin, Twin]:
    """(interpreted, compiled); skips the test where there is no compiled twin of today's sources."""
    if mode.mode() == "interpreted" and (reason := _missing()):
        pytest.skip(reason)
    return _pair()
