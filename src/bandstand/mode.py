"""Which twin of the hot modules runs: the compiled one or the interpreted one.

A hot module is one plain ``.py`` file with a sibling ``.pxd``. Cython compiles the pair to an extension that lies beside
its source, and Python always prefers the extension, whether it is current or not. Two things follow, and this module
holds both:

* ``BANDSTAND_PURE=1`` in the environment makes the sources win although extensions lie beside them.
* The build leaves a stamp, ``_stamp.json``, with a digest of what each extension was compiled from. An extension whose
  sources have changed since is *stale*: it would quietly run yesterday's code.

There may be several packages of hot modules. One may cimport the declarations of those below it, so an extension is
stale as well when a declaration of a package below has changed.

It sits on the lowest floor and imports nothing of bandstand, because each hot package announces itself here while it is
being imported. What this module reports is therefore about the packages that have been imported.
"""

import os
import sys
from collections.abc import Iterable, Sequence
from importlib import import_module
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from types import ModuleType
from typing import Final, Literal, NamedTuple, TypeAlias

__all__ = (
    "STAMP",
    "Mode",
    "announce",
    "compiled_modules",
    "digest",
    "hot_modules",
    "is_current",
    "is_pure",
    "mode",
    "stale_modules",
)

Mode: TypeAlias = Literal["compiled", "interpreted", "mixed"]

STAMP: Final = "_stamp.json"


class _Package(NamedTuple):
    """What one hot package announced: where it lies, its hot modules, and the folders of the packages below it."""

    folder: str
    names: tuple[str, ...]
    below: tuple[str, ...]


# By the full name of the package.
_packages: dict[str, _Package] = {}


class _SourceFirst:
    """A meta-path finder that loads the announced modules from their ``.py`` whatever lies beside it."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,  # noqa: ARG002 -- the import system's signature
        target: ModuleType | None = None,  # noqa: ARG002 -- likewise
    ) -> ModuleSpec | None:
        parent, _, name = fullname.rpartition(".")
        package = _packages.get(parent)
        if package is None or name not in package.names:
            return None
        source = os.path.join(package.folder, f"{name}.py")
        return spec_from_file_location(fullname, source, loader=SourceFileLoader(fullname, source))


def is_pure() -> bool:
    """Say whether the environment asks for the interpreted twins.

    Raises:
        ValueError: ``BANDSTAND_PURE`` is neither ``1``, ``0`` nor empty.
    """
    value = os.environ.get("BANDSTAND_PURE", "")
    if value not in {"", "0", "1"}:
        raise ValueError(
            f"BANDSTAND_PURE is {value!r}: set it to 1 (interpreted), or to 0 or nothing (compiled)"
        )
    return value == "1"


def announce(package: str, folder: str, names: Iterable[str], below: Iterable[str] = ()) -> None:
    """Make the hot modules of a package known, before any of them is imported.

    Under ``BANDSTAND_PURE=1`` they are loaded from their sources from now on.

    Args:
        package: The full name of the package.
        folder: Where it lies.
        names: Its hot modules.
        below: The folders of the hot packages whose declarations it may cimport, lowest first, as ``setup.py`` lists
            them.
    """
    _packages[package] = _Package(folder, tuple(names), tuple(below))
    if is_pure() and not any(isinstance(finder, _SourceFirst) for finder in sys.meta_path):
        sys.meta_path.insert(0, _SourceFirst())


def hot_modules() -> frozenset[str]:
    """Return the full names of all hot modules, of every package that has been announced."""
    return frozenset(f"{parent}.{name}" for parent, package in _packages.items() for name in package.names)


def compiled_modules() -> frozenset[str]:
    """Return the full names of the hot modules that run compiled.

    It asks the modules themselves (importing them if need be), not the folder: what counts is what runs.
    """
    suffixes = tuple(EXTENSION_SUFFIXES)
    return frozenset(
        name for name in hot_modules() if (import_module(name).__file__ or "").endswith(suffixes)
    )


def mode() -> Mode:
    """Return how the hot modules run. ``mixed`` is a broken installation: some compiled, some not."""
    compiled = compiled_modules()
    if not compiled:
        return "interpreted"
    return "compiled" if compiled == hot_modules() else "mixed"


def stale_modules() -> frozenset[str]:
    """Return the full names of the compiled modules whose sources have changed since they were compiled.

    An extension that no stamp speaks for counts as stale: nobody knows what it was compiled from.
    """
    return frozenset(name for name in compiled_modules() if not is_current(name))


def is_current(fullname: str) -> bool:
    """Say whether the stamp speaks for the extension of a hot module, be it the twin that runs or not."""
    import json

    parent, _, name = fullname.rpartition(".")
    package = _packages[parent]
    try:
        with open(os.path.join(package.folder, STAMP), encoding="utf-8") as file:
            stamp = json.load(file)[EXTENSION_SUFFIXES[0]]
        return bool(stamp["modules"][name] == digest(package.folder, name, stamp["cython"], package.below))
    except (OSError, ValueError, KeyError):
        return False


def digest(folder: str, name: str, cython_version: str, below: Iterable[str] = ()) -> str:
    """Return the digest of all that the extension of one hot module depends on.

    Every ``.pxd`` of the folder counts, not only its own: the layout of a class in one decides the code in the others.
    For the same reason every ``.pxd`` of the folders below counts.
    """
    from hashlib import sha256

    total = sha256(cython_version.encode())
    files = [(f"{name}.py", os.path.join(folder, f"{name}.py"))]
    for depth, place in enumerate((folder, *below)):
        # The depth is part of the name: a declaration that moves from one package to another is a change.
        files += [
            ("../" * depth + entry, os.path.join(place, entry))
            for entry in sorted(os.listdir(place))
            if entry.endswith(".pxd")
        ]
    for entry, path in files:
        with open(path, "rb") as file:
            content = file.read()
        total.update(f"\n{entry} {len(content)}\n".encode())
        total.update(content)
    return total.hexdigest()
