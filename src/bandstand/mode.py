"""Which twin of the hot modules runs: the compiled one or the interpreted one.

A hot module is one plain ``.py`` file with a sibling ``.pxd``. Cython compiles the pair to an extension that lies beside
its source, and Python always prefers the extension, whether it is current or not. Two things follow, and this module
holds both:

* ``BANDSTAND_PURE=1`` in the environment makes the sources win although extensions lie beside them.
* The build leaves a stamp, ``_stamp.json``, with a digest of what each extension was compiled from. An extension whose
  sources have changed since is *stale*: it would quietly run yesterday's code.

It sits on the lowest floor and imports nothing of bandstand, because the hot package announces itself here while it is
being imported.
"""

import os
import sys
from collections.abc import Iterable, Sequence
from importlib import import_module
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from types import ModuleType
from typing import Final, Literal, TypeAlias

__all__ = (
    "STAMP",
    "Mode",
    "announce",
    "compiled_modules",
    "digest",
    "hot_modules",
    "is_pure",
    "mode",
    "stale_modules",
)

Mode: TypeAlias = Literal["compiled", "interpreted", "mixed"]

STAMP: Final = "_stamp.json"

# Package name -> (its folder, the names of its hot modules), as announced.
_packages: dict[str, tuple[str, tuple[str, ...]]] = {}


class _SourceFirst:
    """A meta-path finder that loads the announced modules from their ``.py`` whatever lies beside it."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,  # noqa: ARG002 -- the import system's signature
        target: ModuleType | None = None,  # noqa: ARG002 -- likewise
    ) -> ModuleSpec | None:
        package, _, name = fullname.rpartition(".")
        folder, names = _packages.get(package, ("", ()))
        if name not in names:
            return None
        source = os.path.join(folder, f"{name}.py")
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


def announce(package: str, folder: str, names: Iterable[str]) -> None:
    """Make the hot modules of a package known, before any of them is imported.

    Under ``BANDSTAND_PURE=1`` they are loaded from their sources from now on.
    """
    _packages[package] = (folder, tuple(names))
    if is_pure() and not any(isinstance(finder, _SourceFirst) for finder in sys.meta_path):
        sys.meta_path.insert(0, _SourceFirst())


def hot_modules() -> frozenset[str]:
    """Return the full names of all hot modules."""
    return frozenset(f"{package}.{name}" for package, (_, names) in _packages.items() for name in names)


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
    compiled = compiled_modules()
    return frozenset(
        f"{package}.{name}"
        for package, (folder, names) in _packages.items()
        for name in sorted(names)
        if f"{package}.{name}" in compiled and not _is_current(folder, name)
    )


def digest(folder: str, name: str, cython_version: str) -> str:
    """Return the digest of all that the extension of one hot module depends on.

    Every ``.pxd`` of the folder counts, not only its own: the layout of a class in one decides the code in the others.
    """
    from hashlib import sha256

    total = sha256(cython_version.encode())
    declarations = sorted(entry for entry in os.listdir(folder) if entry.endswith(".pxd"))
    for entry in (f"{name}.py", *declarations):
        with open(os.path.join(folder, entry), "rb") as file:
            content = file.read()
        total.update(f"\n{entry} {len(content)}\n".encode())
        total.update(content)
    return total.hexdigest()


def _is_current(folder: str, name: str) -> bool:
    import json

    try:
        with open(os.path.join(folder, STAMP), encoding="utf-8") as file:
            stamp = json.load(file)[EXTENSION_SUFFIXES[0]]
        return bool(stamp["modules"][name] == digest(folder, name, stamp["cython"]))
    except (OSError, ValueError, KeyError):
        return False
