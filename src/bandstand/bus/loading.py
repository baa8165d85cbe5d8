"""Finding capabilities by name, for whoever starts a node from a command line.

    shop                     the module `shop`: its `capabilities`, or every class of capabilities that it defines
    shop.stock:Stock         one class, or a Contract, or a list of those, or a function that returns them
    examples/shop.py:Stock   the same out of a file

A module is looked for as `python -m` does it, the current directory first. A file is loaded under a name that no module has, so a
file called `json.py` takes nobody's place; what lies beside it can be imported, after all that can be imported anyway.

Whatever goes wrong is told as one sentence about what was asked for: whoever reads it sits at a terminal.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import os
import re
import sys
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType
from typing import TypeAlias, TypeGuard, cast

from bandstand.bus.contracts.capability import Capability, Provision
from bandstand.bus.contracts.contract import Contract
from bandstand.errors import BadContract
from bandstand.errors.formatting import describe_exception, safe_repr, safe_str

__all__ = ("Loadable", "load_capabilities", "load_file", "loaded_files")

Loadable: TypeAlias = type[Capability] | Provision | Contract
"""What a node can be given as a capability."""

# NAME, or NAME.NAME: what may follow the last colon. All else there is part of a path.
NAME = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")
# How the name of a module ends that was loaded by path.
DIGEST = re.compile(r"_[0-9a-f]{12}$")


def load_capabilities(target: str) -> list[Loadable]:
    """Load what a target names: `MODULE`, `MODULE:NAME`, `path/to/file.py` or `path/to/file.py:NAME`.

    Args:
        target: where to look. NAME is a class that derives from `Capability`, a `provide(...)`, a `Contract`, a list or tuple of
            those, or a function without arguments that returns them. Without it, the module's `capabilities` are taken if it
            has them, else every class of capabilities that it defines itself, in that order.

    Raises:
        BadContract: there is no such module, it cannot be imported (`__cause__` is why), it has no such name, or there are no
            capabilities under it.
    """
    place, name = _split(target)
    module = load_file(place) if _is_path(place) else _import(place)
    if name:
        return _unpack(_look_up(module, place, name), target)
    if hasattr(module, "capabilities"):
        return _unpack(module.capabilities, f"{place}:capabilities")
    return _defined_in(module, place)


def _split(target: str) -> tuple[str, str]:
    place, colon, name = target.rpartition(":")
    if colon and NAME.fullmatch(name):
        found = place, name
    elif colon and not _is_path(target):
        raise BadContract(
            f"{safe_repr(target)}: {name!r} is no name: pass MODULE, MODULE:NAME or path/to/file.py:NAME"
        )
    else:
        found = target, ""
    if not found[0]:
        raise BadContract(
            f"{safe_repr(target)} names no module: pass MODULE, MODULE:NAME or path/to/file.py:NAME"
        )
    return found


def _is_path(place: str) -> bool:
    return place.endswith(".py") or os.sep in place


# --- modules ------------------------------------------------------------------------------------------------------------------


def _import(place: str) -> ModuleType:
    if not NAME.fullmatch(place):
        raise BadContract(
            f"{safe_repr(place)} is no name of a module; for a file, pass its path with .py at the end"
        )
    here = str(Path.cwd())
    if here not in sys.path and "" not in sys.path:
        sys.path.insert(0, here)
    # A file that was written since the last import is to be seen.
    importlib.invalidate_caches()
    try:
        return importlib.import_module(place)
    except ModuleNotFoundError as error:
        # The module itself, or a package that it would be in; or something that it wants to import.
        if error.name is not None and f"{place}.".startswith(f"{error.name}."):
            raise BadContract(_not_found(place, error.name)) from error
        raise _broken(place, error) from error
    except (Exception, SystemExit) as error:
        raise _broken(place, error) from error


def _not_found(place: str, missing: str) -> str:
    hint = ""
    path = Path(*place.split(".")).with_suffix(".py")
    if missing != place:
        hint = f" (there is no {missing})"
    elif path.exists():
        hint = f" (but there is a file: pass {path})"
    return f"there is no module {place}{hint}; it was looked for in {Path.cwd()} and where Python has its packages"


def load_file(place: str) -> ModuleType:
    """Load a file, once.

    Raises:
        BadContract: there is no such file, or it cannot be imported (`__cause__` is why).
    """
    path = Path(place).resolve()
    if not path.is_file():
        raise BadContract(
            f"there is no file {place}" + (f", which would be {path}" if str(path) != place else "")
        )
    name = _name_of(path)
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise BadContract(f"{place} is no Python file: its name must end in .py")
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))
    module = importlib.util.module_from_spec(spec)
    # Annotations are resolved by way of this, already while it is being loaded.
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise _broken(place, error) from error
    return module


def _name_of(path: Path) -> str:
    # The same file has the same name in every process, so that what is pickled in one can be read in another.
    digest = hashlib.sha256(os.fsencode(path)).hexdigest()[:12]
    stem = re.sub(r"\W", "_", path.stem)
    return f"{stem}_{digest}"


def loaded_files() -> tuple[str, ...]:
    """The files that were loaded in this process, in their order: one that wants to know what they declare loads them too."""
    return tuple(
        file
        for name, file in [(name, getattr(module, "__file__", None)) for name, module in sys.modules.items()]
        if file is not None and DIGEST.search(name) and name == _name_of(Path(file))
    )


def _broken(place: str, error: BaseException) -> BadContract:
    return BadContract(f"{place} cannot be imported: {describe_exception(error)}")


# --- what is in them ----------------------------------------------------------------------------------------------------------


def _look_up(module: ModuleType, place: str, name: str) -> object:
    found: object = module
    walked = place
    for step in name.split("."):
        try:
            found = getattr(found, step)
        except AttributeError:
            offered = [entry for entry in dir(found) if not entry.startswith("_")]
            near = get_close_matches(step, offered, n=3)
            hint = f": did you mean {' or '.join(near)}?" if near else ""
            raise BadContract(f"{walked} has no {step!r}{hint}") from None
        walked = f"{walked}:{step}" if walked == place else f"{walked}.{step}"
    return found


def _unpack(value: object, where: str) -> list[Loadable]:
    """What lies under a name, as a list."""
    if _is_loadable(value):
        return [value]
    if callable(value) and not isinstance(value, type):
        value = _call(value, where)
        where = f"{where}()"
        if _is_loadable(value):
            return [value]
    if not isinstance(value, (list, tuple)):
        raise BadContract(f"{where} is {_story(value)}")
    several = cast("list[object] | tuple[object, ...]", value)
    if not several:
        raise BadContract(f"{where} is empty: there is nothing to serve")
    loaded: list[Loadable] = []
    for place, entry in enumerate(several):
        if not _is_loadable(entry):
            raise BadContract(f"{where}[{place}] is {_story(entry)}")
        loaded.append(entry)
    return loaded


def _is_loadable(value: object) -> TypeGuard[Loadable]:
    if isinstance(value, type):
        return issubclass(value, Capability) and value is not Capability
    return isinstance(value, (Contract, Provision))


def _story(value: object) -> str:
    if value is Capability:
        return "Capability itself: pass a class that derives from it"
    what = f"the class {value.__name__}" if isinstance(value, type) else safe_repr(value)
    return f"{what}: pass a class that derives from Capability, a Contract, or a list of those"


def _call(function: object, where: str) -> object:
    assert callable(function)
    if inspect.iscoroutinefunction(function):
        raise BadContract(f"{where} is an async function: pass a plain one, or do the waiting in on_start")
    try:
        inspect.signature(function).bind()
    except TypeError as error:
        raise BadContract(f"{where} cannot be called without arguments: {safe_str(error)}") from None
    except ValueError:
        # Some of those written in C do not tell. Then it is to be seen.
        pass
    try:
        return function()
    except (Exception, SystemExit) as error:
        raise BadContract(f"{where} raised {describe_exception(error)}") from error


def _defined_in(module: ModuleType, place: str) -> list[Loadable]:
    """Every class of capabilities that the module itself defines, in order; not those that were made to be derived from."""
    found: list[Loadable] = []
    contracts: list[str] = []
    for name, value in vars(module).items():
        if name.startswith("_"):
            continue
        if isinstance(value, (Contract, Provision)):
            contracts.append(name)
        elif (
            _is_loadable(value)
            and isinstance(value, type)
            and value.__module__ == module.__name__
            and not inspect.isabstract(value)
            and value not in found
        ):
            found.append(value)
    if not found:
        hint = f"; it has {', '.join(contracts)}: pass {place}:{contracts[0]}" if contracts else ""
        raise BadContract(
            f"{place} defines no class that derives from Capability, and has no list called capabilities{hint}"
        )
    return found
