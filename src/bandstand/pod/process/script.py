"""The user's program, made known in a process that was started by it.

What is declared in a script is pickled by its name in `__main__`; so the child runs the script as well, under another name, as
`multiprocessing` does, and has the result for its own `__main__`. A script that does its work at its top level would do it in every
child, and start children of its own: whoever starts something asks here first, and says what is missing.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from importlib.util import find_spec
from io import open_code
from os.path import abspath, isfile
from types import CodeType, ModuleType
from typing import Any

from bandstand.errors import InvalidArgument
from bandstand.errors.formatting import safe_repr

__all__ = ("Script", "check_guarded")

# What `multiprocessing` calls it: scripts may know this name, and so does the parent's unpickling.
ALIAS = "__mp_main__"

# The one that is being run in this process for the sake of what it declares.
_loading: list[str] = []


def check_guarded(what: str) -> None:
    """Refuse to start something while the script of the parent is being run for what it declares.

    Args:
        what: what is started, for the error: "process 'painter'".

    Raises:
        InvalidArgument: so it is.
    """
    if _loading:
        raise InvalidArgument(
            f"{what} cannot be started here: {_loading[-1]} is being imported by a process that it has started itself; "
            f'put what it does below `if __name__ == "__main__":`, and leave only declarations above'
        )


@dataclass(frozen=True, slots=True)
class Script:
    """Where the program is that runs in this process: in a module, or in a file.

    Neither, if it cannot be run for what it declares: it came by `-c`, from standard input or a session, or is a `__main__.py`.
    """

    module: str | None = None
    """Its name, for `python -m`."""
    path: str | None = None
    """The path of its file."""

    @classmethod
    def here(cls) -> Script:
        """That of this process. What a child sends back of it can be unpickled from now on."""
        main = sys.modules["__main__"]
        sys.modules.setdefault(ALIAS, main)
        spec = getattr(main, "__spec__", None)
        if spec is not None:
            # The __main__.py of a package or a folder does its work unguarded, by its nature.
            is_door = spec.name.rpartition(".")[2] == "__main__"
            return cls() if is_door else cls(module=spec.name)
        path: str = getattr(main, "__file__", None) or ""
        # Standard input has a name as well.
        return cls(path=abspath(path)) if isfile(path) else cls()

    @property
    def is_loadable(self) -> bool:
        """Whether what it declares can be known in another process."""
        return self.module is not None or self.path is not None

    def load(self) -> None:
        """Run it for what it declares, and have that for `__main__`.

        Raises:
            InvalidArgument: it is not guarded, and has started or ended something.
            ImportError, OSError: it is not there any more.
            Exception: whatever it raises.
        """
        if not self.is_loadable:
            return
        name = self.module or self.path or ""
        main = ModuleType(ALIAS)
        code = self._code(main)
        before = sys.modules.get(ALIAS)
        sys.modules[ALIAS] = main
        _loading.append(name)
        try:
            _run(code, main)
        except BaseException:  # whatever it was: half of a program is none
            del sys.modules[ALIAS]
            if before is not None:
                sys.modules[ALIAS] = before
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


def _run(code: CodeType, main: ModuleType) -> None:
    try:
        exec(code, vars(main))  # noqa: S102  # it is the program itself
    except SystemExit as error:
        raise InvalidArgument(
            f"{_loading[-1]} ends the process ({safe_repr(error)}) when it is imported: put what it does below "
            f'`if __name__ == "__main__":`'
        ) from error


def _code_of_module(name: str, main: ModuleType) -> CodeType:
    spec = find_spec(name)
    # The protocol of loaders has no word for it, and those of packages and files all have it.
    loader: Any = None if spec is None else spec.loader
    code = None if loader is None else loader.get_code(name)
    if spec is None or code is None:
        raise ImportError(
            f"{name} is not there, or is no Python module: `python -m {name}` has found it in the parent"
        )
    main.__spec__, main.__loader__ = spec, loader
    main.__package__ = spec.parent
    if spec.origin is not None:
        main.__file__ = spec.origin
    assert isinstance(code, CodeType)
    return code
