"""Loads capabilities by name, for nodes that are started from a command line.

    shop                     the module `shop`: its `capabilities`, or all subclasses of `Capability` that it defines
    shop.stock:Stock         a class, a `Contract`, a list of those, or a function that returns them
    examples/shop.py:Stock   the same from a file

Modules are searched as `python -m` does, the current directory first. A file is loaded under a name that no module has, so a file called
`json.py` replaces no module. It can import the modules in its folder, but they do not shadow others.

Every problem is raised as a `ContractError` with one sentence for the user at the terminal.
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

from bandstand.bus.contracts.capability import Capability, Contract, Provision
from bandstand.errors import ContractError
from bandstand.errors.formatting import describe_exception, safe_repr, safe_str

__all__ = ("Loadable", "load_capabilities", "load_file", "loaded_files")

Loadable: TypeAlias = type[Capability] | Provision | Contract
"""A capability, as `Node` accepts it."""

# NAME or NAME.NAME: what can follow the last colon. Anything else is part of a path.
_NAME = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")
# The end of the name of a module that was loaded from a file.
_DIGEST = re.compile(r"_[0-9a-f]{12}$")


def load_capabilities(target: str) -> list[Loadable]:
    """Load the capabilities that a target names.

    Args:
        target: `MODULE`, `MODULE:NAME`, `path/to/file.py` or `path/to/file.py:NAME`. NAME is a subclass of `Capability`, a result of
            `provide(...)`, a `Contract`, a list or tuple of those, or a function without arguments that returns them. Without a
            NAME, the result is the `capabilities` of the module if it has them, or else all subclasses of `Capability` that it
            defines, in their order.

    Raises:
        ContractError: the module does not exist or cannot be imported (`__cause__` is the reason), it does not have the name, or the
            name is not a capability.
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
    if colon and _NAME.fullmatch(name):
        found = place, name
    elif colon and not _is_path(target):
        raise ContractError(
            f"{safe_repr(target)}: {name!r} is not a name: pass MODULE, MODULE:NAME or path/to/file.py:NAME"
        )
    else:
        found = target, ""
    if not found[0]:
        raise ContractError(
            f"{safe_repr(target)} names no module: pass MODULE, MODULE:NAME or path/to/file.py:NAME"
        )
    return found


def _is_path(place: str) -> bool:
    return place.endswith(".py") or os.sep in place


# --- modules ----------------------------------------------------------------------------------------------------------


def _import(place: str) -> ModuleType:
    if not _NAME.fullmatch(place):
        raise ContractError(
            f"{safe_repr(place)} is not the name of a module; for a file, pass its path, which ends in .py"
        )
    here = str(Path.cwd())
    if here not in sys.path and "" not in sys.path:
        sys.path.insert(0, here)
    # Find files that were written since the last import.
    importlib.invalidate_caches()
    try:
        return importlib.import_module(place)
    except ModuleNotFoundError as error:
        # Either the module or its package is missing, or a module that it imports.
        if error.name is not None and f"{place}.".startswith(f"{error.name}."):
            raise ContractError(_not_found(place, error.name)) from error
        raise _broken(place, error) from error
    except (Exception, SystemExit) as error:
        raise _broken(place, error) from error


def _not_found(place: str, missing: str) -> str:
    hint = ""
    path = Path(*place.split(".")).with_suffix(".py")
    if missing != place:
        hint = f" (there is no {missing})"
    elif path.exists():
        hint = f" (but there is a file {path}: pass that)"
    return f"there is no module {place}{hint}; Python searched {Path.cwd()} and its installed packages"


def load_file(place: str) -> ModuleType:
    """Load a file as a module. A file is loaded only once.

    Raises:
        ContractError: the file does not exist or cannot be imported (`__cause__` is the reason).
    """
    path = Path(place).resolve()
    if not path.is_file():
        raise ContractError(
            f"there is no file {place}" + (f" (that is, {path})" if str(path) != place else "")
        )
    name = _name_of(path)
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ContractError(f"{place} is not a Python file: its name must end in .py")
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))
    module = importlib.util.module_from_spec(spec)
    # Annotations are resolved through `sys.modules`, even while the module is loading.
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise _broken(place, error) from error
    return module


def _name_of(path: Path) -> str:
    # A file has the same name in every process, so that objects can be pickled between processes.
    digest = hashlib.sha256(os.fsencode(path)).hexdigest()[:12]
    stem = re.sub(r"\W", "_", path.stem)
    return f"{stem}_{digest}"


def loaded_files() -> tuple[str, ...]:
    """Return the files that this process has loaded, in order. A child process loads the same ones."""
    return tuple(
        file
        for name, file in [(name, getattr(module, "__file__", None)) for name, module in sys.modules.items()]
        if file is not None and _DIGEST.search(name) and name == _name_of(Path(file))
    )


def _broken(place: str, error: BaseException) -> ContractError:
    return ContractError(f"{place} cannot be imported: {describe_exception(error)}")


# --- the capabilities in a module -------------------------------------------------------------------------------------


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
            raise ContractError(f"{walked} has no {step!r}{hint}") from None
        walked = f"{walked}:{step}" if walked == place else f"{walked}.{step}"
    return found


def _unpack(value: object, where: str) -> list[Loadable]:
    """Return the capabilities that a value stands for."""
    if _is_loadable(value):
        return [value]
    if callable(value) and not isinstance(value, type):
        value = _call(value, where)
        where = f"{where}()"
        if _is_loadable(value):
            return [value]
    if not isinstance(value, (list, tuple)):
        raise ContractError(f"{where} is {_describe_invalid(value)}")
    several = cast("list[object] | tuple[object, ...]", value)
    if not several:
        raise ContractError(f"{where} is empty: there is nothing to serve")
    loaded: list[Loadable] = []
    for index, entry in enumerate(several):
        if not _is_loadable(entry):
            raise ContractError(f"{where}[{index}] is {_describe_invalid(entry)}")
        loaded.append(entry)
    return loaded


def _is_loadable(value: object) -> TypeGuard[Loadable]:
    if isinstance(value, type):
        return issubclass(value, Capability) and value is not Capability
    return isinstance(value, (Contract, Provision))


def _describe_invalid(value: object) -> str:
    if value is Capability:
        return "Capability itself: pass a class that derives from it"
    what = f"the class {value.__name__}" if isinstance(value, type) else safe_repr(value)
    return f"{what}: pass a class that derives from Capability, a Contract, or a list of those"


def _call(function: object, where: str) -> object:
    assert callable(function)
    if inspect.iscoroutinefunction(function):
        raise ContractError(f"{where} is an async function: pass a regular function, and await in on_start")
    try:
        inspect.signature(function).bind()
    except TypeError as error:
        raise ContractError(f"{where} cannot be called without arguments: {safe_str(error)}") from None
    except ValueError:
        # Some functions written in C have no signature; the call shows whether they need arguments.
        pass
    try:
        return function()
    except (Exception, SystemExit) as error:
        raise ContractError(f"{where} raised {describe_exception(error)}") from error


def _defined_in(module: ModuleType, place: str) -> list[Loadable]:
    """Return the subclasses of `Capability` that the module itself defines, in order, without abstract ones."""
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
        raise ContractError(
            f"{place} defines no class that derives from Capability, and no list called capabilities{hint}"
        )
    return found
