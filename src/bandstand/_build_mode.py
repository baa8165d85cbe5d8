"""Which modules are compiled, and whether the compiled or the interpreted version runs.

A module is compiled exactly if a ``.pxd`` file with its name lies beside its ``.py``. There is no list of these modules:
the build, the tests and `bandstand doctor` all scan the package folder. Cython translates the pair into an extension
beside the source, and Python always prefers the extension, current or not. This module handles the two consequences:

* ``BANDSTAND_PURE=1`` makes the sources win over the extensions.
* The build writes ``_stamp.json`` with a digest of everything each extension was compiled from. An extension whose
  digest no longer matches is *stale*: it would silently run old code.

It imports nothing from bandstand: `bandstand/__init__.py` loads it before any compiled module, and `setup.py` loads
it from its file.
"""

import os
import sys
from collections.abc import Iterator, Sequence
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from types import ModuleType
from typing import Any, Final, Literal, TypeAlias

__all__ = (
    "FOLDER",
    "PACKAGE",
    "STAMP",
    "Mode",
    "compiled_modules",
    "cython_version",
    "digests",
    "install_source_finder",
    "is_pure",
    "mode",
    "modules_with_pxd",
    "orphaned_extensions",
    "outdated_modules",
    "path_of",
    "stale_modules",
)

Mode: TypeAlias = Literal["compiled", "interpreted", "mixed"]

PACKAGE: Final = "bandstand"
FOLDER: Final = os.path.dirname(os.path.abspath(__file__))
STAMP: Final = "_stamp.json"
"""The name of the stamp file, which lies in the package folder."""


class _SourceFinder:
    """A meta-path finder that loads the package's modules from their ``.py``, even if an extension lies beside it."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,  # noqa: ARG002 -- the import system's signature
    ) -> ModuleSpec | None:
        parent, _, name = fullname.rpartition(".")
        if parent.partition(".")[0] != PACKAGE:
            return None
        for folder in path or ():
            source = os.path.join(folder, f"{name}.py")
            if os.path.isfile(source):
                return spec_from_file_location(fullname, source, loader=SourceFileLoader(fullname, source))
        return None


def is_pure() -> bool:
    """Return whether the environment asks for the interpreted version.

    Raises:
        ValueError: ``BANDSTAND_PURE`` is neither ``1``, ``0`` nor empty.
    """
    value = os.environ.get("BANDSTAND_PURE", "")
    if value not in {"", "0", "1"}:
        raise ValueError(
            f"BANDSTAND_PURE is {value!r}: set it to 1 (interpreted), or to 0 or nothing (compiled)"
        )
    return value == "1"


def install_source_finder() -> None:
    """Under ``BANDSTAND_PURE=1``, load all modules imported from now on from their sources.

    Raises:
        ValueError: ``BANDSTAND_PURE`` is neither ``1``, ``0`` nor empty.
    """
    if is_pure() and not any(isinstance(finder, _SourceFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _SourceFinder())


def modules_with_pxd() -> frozenset[str]:
    """Return the full names of the modules that are compiled where there is a compiler: those with a ``.pxd``."""
    return frozenset(_module_of(path) for path in _files(".pxd"))


def compiled_modules() -> frozenset[str]:
    """Return the full names of the modules with a ``.pxd`` that run compiled.

    A module that has been imported says itself which file it was loaded from. For any other, this looks up which
    file an import would choose.
    """
    return frozenset(name for name in modules_with_pxd() if _runs_compiled(name))


def mode() -> Mode:
    """Return how the modules with a ``.pxd`` run. ``mixed`` is a broken installation: some compiled, some not."""
    compiled = compiled_modules()
    if not compiled:
        return "interpreted"
    return "compiled" if compiled == modules_with_pxd() else "mixed"


def stale_modules() -> frozenset[str]:
    """Return the full names of the modules that run compiled, but not from the sources that lie here.

    This includes extensions that no stamp covers, and extensions of modules that no longer have a ``.pxd``.
    """
    orphans = {_module_of(path) for path in orphaned_extensions() if os.path.isfile(f"{_stem(path)}.py")}
    return frozenset(name for name in outdated_modules() | orphans if _runs_compiled(name))


def outdated_modules() -> frozenset[str]:
    """Return the full names of the modules with a ``.pxd`` whose extension, if any, the stamp does not cover."""
    stamp = _read_stamp()
    current = digests(str(stamp.get("cython")))
    stamped = stamp.get("modules", {})
    return frozenset(name for name, digest in current.items() if stamped.get(name) != digest)


def orphaned_extensions() -> list[str]:
    """Return the paths of the extensions whose module has no ``.pxd`` any more; Python would still import them."""
    return [
        path
        for suffix in (".so", ".pyd")
        for path in _files(suffix)
        if not os.path.isfile(f"{_stem(path)}.pxd")
    ]


def cython_version() -> str | None:
    """Return the version of Cython that compiled the extensions for this interpreter, or None without a stamp."""
    version: str | None = _read_stamp().get("cython")
    return version


def digests(cython_version: str) -> dict[str, str]:
    """Return, for every module with a ``.pxd``, the digest of all that its extension depends on.

    That is the version of Cython, the module's source, and every ``.pxd`` of the whole package: the layout of a class
    in one decides the code of the others. Cython tracks dependencies exactly, and recompiles only what it must.
    """
    from hashlib import sha256

    shared = sha256(cython_version.encode())
    declarations = sorted(_files(".pxd"))
    for path in declarations:
        _update(shared, path)
    found: dict[str, str] = {}
    for path in declarations:
        total = shared.copy()
        _update(total, path_of(_module_of(path), ".py"))
        found[_module_of(path)] = total.hexdigest()
    return found


def path_of(fullname: str, suffix: str) -> str:
    """Return the path that a file of a module has: its ``.py``, its ``.pxd`` or its extension."""
    return os.path.join(FOLDER, *fullname.split(".")[1:]) + suffix


def _update(total: Any, path: str) -> None:
    """Add one file to a digest: its place in the package, its length and its content."""
    content = b""
    if os.path.isfile(path):
        with open(path, "rb") as file:
            content = file.read()
    place = os.path.relpath(path, FOLDER).replace(os.sep, "/")
    total.update(f"\n{place} {len(content)}\n".encode())
    total.update(content)


def _read_stamp() -> dict[str, Any]:
    """Return the stamp of the extensions for this interpreter; empty if there is none."""
    import json

    try:
        with open(os.path.join(FOLDER, STAMP), encoding="utf-8") as file:
            stamp: dict[str, Any] = json.load(file)[EXTENSION_SUFFIXES[0]]
    except (OSError, ValueError, KeyError):
        return {}
    return stamp


def _runs_compiled(fullname: str) -> bool:
    suffixes = tuple(EXTENSION_SUFFIXES)
    module = sys.modules.get(fullname)
    if module is not None:
        return str(module.__file__).endswith(suffixes)
    return not is_pure() and any(os.path.isfile(path_of(fullname, suffix)) for suffix in suffixes)


def _files(suffix: str) -> Iterator[str]:
    """Yield the paths of all files of the package that end in a suffix."""
    for folder, folders, names in os.walk(FOLDER):
        folders[:] = [name for name in folders if name != "__pycache__"]
        for name in names:
            if name.endswith(suffix):
                yield os.path.join(folder, name)


def _stem(path: str) -> str:
    """Return a path without the suffixes of its file name: ``x/ids.cpython-311-x86_64-linux-gnu.so`` is ``x/ids``."""
    folder, name = os.path.split(path)
    return os.path.join(folder, name.partition(".")[0])


def _module_of(path: str) -> str:
    return ".".join([PACKAGE, *os.path.relpath(_stem(path), FOLDER).split(os.sep)])
