"""Both twins of the hot modules in one process: the one that runs, and the other one, loaded beside it.

The other twin gets modules of its own for the whole of `bandstand.core` and of the rooms built on it, so that each twin's
loop is built on its own kernel. What stands outside of them (the errors, the virtual clock) is shared.
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
import bandstand.actor  # pyright: ignore[reportUnusedImport]

# So that they are in sys.modules.
import bandstand.bus.hot  # pyright: ignore[reportUnusedImport]
import bandstand.core.lowlevel  # pyright: ignore[reportUnusedImport]
import bandstand.pod.link  # pyright: ignore[reportUnusedImport]
import bandstand.scope  # pyright: ignore[reportUnusedImport]
import bandstand.supervision  # pyright: ignore[reportUnusedImport]
from bandstand import mode

# By their short names, as attributes of the house.
ROOMS = ("core", "scope", "supervision", "actor", "bus", "pod")
# The full names of the hot modules by their short ones.
HOT = {name.rpartition(".")[2]: name for name in sorted(mode.hot_modules())}
# Where each lies, but for the suffix.
PLACES = {
    name: Path(importlib.import_module(name.rpartition(".")[0]).__path__[0], short)
    for short, name in HOT.items()
}


@final
class Twin:
    """One twin: its name, and its modules by their full names."""

    def __init__(self, name: str, modules: dict[str, ModuleType]) -> None:
        self.name = name
        self.modules = modules

    def __getattr__(self, name: str) -> Any:
        """`twin.wheel` is the hot module, `twin.core` the room."""
        return self.modules[f"bandstand.{name}" if name in ROOMS else HOT[name]]

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
        if fullname not in PLACES:
            return None
        if self._compiled:
            place = str(PLACES[fullname].with_suffix(EXTENSION_SUFFIXES[0]))
            return spec_from_file_location(fullname, place, loader=ExtensionFileLoader(fullname, place))
        place = str(PLACES[fullname].with_suffix(".py"))
        return spec_from_file_location(fullname, place, loader=SourceFileLoader(fullname, place))


def _ours() -> dict[str, ModuleType]:
    return {
        name: module
        for name, module in sys.modules.items()
        if name.startswith("bandstand.") and name.split(".")[1] in ROOMS
    }


@contextmanager
def _swapped(modules: dict[str, ModuleType]) -> Generator[None]:
    before = _ours()
    attributes = {room: getattr(bandstand, room) for room in ROOMS}
    for name in before:
        del sys.modules[name]
    sys.modules.update(modules)
    for room in ROOMS:
        if f"bandstand.{room}" in modules:
            setattr(bandstand, room, modules[f"bandstand.{room}"])
    try:
        yield
    finally:
        for name in _ours():
            del sys.modules[name]
        sys.modules.update(before)
        for room, module in attributes.items():
            setattr(bandstand, room, module)


@cache
def _missing() -> str | None:
    """Why there is no compiled twin to compare with, if there is none. Looked up once: it reads every source of every hot module."""
    suffix = EXTENSION_SUFFIXES[0]
    absent = [name for name, place in PLACES.items() if not place.with_suffix(suffix).exists()]
    if absent:
        return f"no compiled twin of {', '.join(absent)} lies beside the sources"
    stale = [name for name in PLACES if not mode.is_current(name)]
    return f"the compiled twin of {', '.join(stale)} is stale: build again" if stale else None


def _enter(room: str) -> None:
    """Load a room with all that is behind its door: what it would load later would be the other twin's."""
    door = importlib.import_module(f"bandstand.{room}")
    for name in door.__all__:
        getattr(door, name)


@cache
def _pair() -> tuple[Twin, Twin]:
    running = mode.mode()
    for room in ROOMS:
        _enter(room)
    here = Twin(running, _ours())
    finder = _Finder(compiled=running == "interpreted")
    sys.meta_path.insert(0, finder)
    try:
        with _swapped({}):
            for room in ROOMS:
                _enter(room)
            importlib.import_module("bandstand.core.lowlevel")
            for name in PLACES:
                importlib.import_module(name)
            there = Twin("compiled" if running == "interpreted" else "interpreted", _ours())
    finally:
        sys.meta_path.remove(finder)
    return (here, there) if running == "interpreted" else (there, here)


def both() -> tuple[Twin, Twin]:
    """(interpreted, compiled); skips the test where there is no compiled twin of today's sources."""
    if mode.mode() == "interpreted" and (reason := _missing()):
        pytest.skip(reason)
    return _pair()
