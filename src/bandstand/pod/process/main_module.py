"""The `__main__` module of the program, loaded in a child process.

Pickle refers to what a script declares by its name in `__main__`. The child therefore runs the script as well, under another
module name, and uses the result as its own `__main__`; `multiprocessing` does the same. A script without a guarded main block
would do its work again in every child and start children there. `check_main_guard` detects that and raises.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from importlib.util import find_spec
from io import open_code
from os.path import abspath, isfile
from types import CodeType, ModuleType
from typing import Any

from bandstand.errors import InvalidArgumentError
from bandstand.errors.formatting import safe_repr

__all__ = ("MainModule", "check_main_guard")

# The name that `multiprocessing` uses: scripts may test for it, and unpickling in the parent needs the same one.
MAIN_ALIAS = "__mp_main__"

# The name of the main module that this process is loading, if any.
_loading: list[str] = []


def check_main_guard(what: str) -> None:
    """Raise if this process is a child that is loading the main module of its parent.

    Args:
        what: what the caller wants to start, for the error: "process 'painter'".

    Raises:
        InvalidArgumentError: the main module starts something when it is imported.
    """
    if _loading:
        raise InvalidArgumentError(
            f"{what} cannot be started here: {_loading[-1]} is being imported by a process that it has started itself; "
            f'put what it does below `if __name__ == "__main__":`, and leave only declarations above'
        )


@dataclass(frozen=True, slots=True)
class MainModule:
    """Where the main module of a program comes from: an importable module, or a file.

    It is neither if a child cannot load it: a program from `-c`, standard input or an interactive session, or a `__main__.py`.
    """

    module: str | None = None
    """The module name, for a program started by `python -m`."""
    path: str | None = None
    """The path of the script."""

    @classmethod
    def current(cls) -> MainModule:
        """Describe the main module of this process. From then on, objects declared in it can be unpickled from children."""
        main = sys.modules["__main__"]
        sys.modules.setdefault(MAIN_ALIAS, main)
        spec = getattr(main, "__spec__", None)
        if spec is not None:
            # The __main__.py of a package or a directory usually has no guarded main block.
            is_package_main = spec.name.rpartition(".")[2] == "__main__"
            return cls() if is_package_main else cls(module=spec.name)
        path: str = getattr(main, "__file__", None) or ""
        # Standard input has a file name as well, but not of a file.
        return cls(path=abspath(path)) if isfile(path) else cls()

    @property
    def is_loadable(self) -> bool:
        """Whether a child process can load it."""
        return self.module is not None or self.path is not None

    def load(self) -> None:
        """Run the module under another name, and make it the `__main__` of this process. If it fails, nothing changes.

        Raises:
            InvalidArgumentError: the module starts a child or exits the process when it is imported.
            ImportError, OSError: the module or file does not exist any more.
            Exception: whatever the module raises.
        """
        if not self.is_loadable:
            return
        name = self.module or self.path or ""
        main = ModuleType(MAIN_ALIAS)
        code = self._code(main)
        before = sys.modules.get(MAIN_ALIAS)
        sys.modules[MAIN_ALIAS] = main
        _loading.append(name)
        try:
            _execute(code, main)
        except BaseException:  # including KeyboardInterrupt: do not leave a half-loaded module behind
            del sys.modules[MAIN_ALIAS]
            if before is not None:
                sys.modules[MAIN_ALIAS] = before
            raise
        finally:
            _loading.pop()
        sys.modules["__main__"] = main

    def _code(self, main: ModuleType) -> CodeType:
        if self.module is not None:
            return _code_of_module(self.module, main)
        path = self.path or ""
        main.__file__ = path
        with open_code(path) as file:
            return compile(file.read(), path, "exec")


def _execute(code: CodeType, main: ModuleType) -> None:
    try:
        exec(code, vars(main))  # noqa: S102  # the code of the program itself
    except SystemExit as error:
        raise InvalidArgumentError(
            f"{_loading[-1]} ends the process ({safe_repr(error)}) when it is imported: put what it does below "
            f'`if __name__ == "__main__":`'
        ) from error


def _code_of_module(name: str, main: ModuleType) -> CodeType:
    spec = find_spec(name)
    # The loader protocol does not declare get_code, but the loaders of packages and files have it.
    loader: Any = None if spec is None else spec.loader
    code = None if loader is None else loader.get_code(name)
    if spec is None or code is None:
        raise ImportError(
            f"{name} does not exist or is not a Python module, although `python -m {name}` has started the parent process"
        )
    main.__spec__, main.__loader__ = spec, loader
    main.__package__ = spec.parent
    if spec.origin is not None:
        main.__file__ = spec.origin
    assert isinstance(code, CodeType)
    return code
