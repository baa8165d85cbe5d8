"""Where a node listens, in words: `unix:/run/user/1000/bandstand.sock`, `tcp:127.0.0.1:7777`.

Those who call a node and the node itself agree on one address without being told: `$BANDSTAND_BUS` if it is set, else a socket in
the user's own runtime directory, else one in a directory under `/tmp` that nobody but the user may enter. Anybody can make a
directory of that name before we do: so it is used only if it is ours, by whoever listens and by whoever calls.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import final

from bandstand.errors import InvalidArgument
from bandstand.errors.formatting import safe_repr, safe_str

__all__ = ("Address", "default_address", "whole_number")

FORMS = "unix:PATH or tcp:HOST:PORT"


@final
@dataclass(frozen=True, slots=True)
class Address:
    """Where a node listens. Write it as `Address.parse("unix:/run/x.sock")`; `str` gives that back."""

    path: str = ""
    """The path of a Unix socket; empty for TCP."""
    host: str = ""
    port: int = 0

    @classmethod
    def parse(cls, text: str) -> Address:
        """Read an address.

        Raises:
            InvalidArgument: it is none.
        """
        scheme, colon, rest = text.partition(":")
        if scheme == "unix" and rest and "\0" not in rest:
            return cls(path=rest)
        if scheme == "tcp" and colon:
            host, colon, port = rest.rpartition(":")
            if host.startswith("[") and host.endswith("]"):
                # An address that has colons itself, as ::1.
                host = host[1:-1]
            elif ":" in host:
                host = ""
            number = whole_number(port, 1, 65535)
            if host and number is not None:
                return cls(host=host, port=number)
            raise InvalidArgument(
                f"{safe_repr(text)} is no address: after tcp: comes HOST:PORT, with a port from 1 to 65535"
            )
        raise InvalidArgument(f"{safe_repr(text)} is no address: pass {FORMS}")

    def __str__(self) -> str:
        if self.path:
            return f"unix:{self.path}"
        return f"tcp:[{self.host}]:{self.port}" if ":" in self.host else f"tcp:{self.host}:{self.port}"

    @property
    def is_shared(self) -> bool:
        """Whether it lies in the directory of last resort, where others can write as well."""
        return bool(self.path) and Path(self.path).parent == _last_resort()

    def prepare(self) -> None:
        """Make the directory of last resort, if the address lies in it and there is none. Whoever is to listen calls this.

        Raises:
            PermissionError: somebody else has made it, or may enter it.
            OSError: it cannot be made.
        """
        if self.is_shared:
            Path(self.path).parent.mkdir(mode=0o700, exist_ok=True)
            self.check()

    def check(self) -> None:
        """See that the directory of last resort, if the address lies in it, is the user's own. Whoever connects calls this.

        Raises:
            PermissionError: somebody else has made it, or may enter it.
        """
        if not self.is_shared:
            return
        folder = Path(self.path).parent
        try:
            found = folder.lstat()
        except FileNotFoundError:
            return
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
            raise PermissionError(
                f"{folder} is not a directory that only you may enter, so what listens there may be anybody: remove it, or set "
                f"BANDSTAND_BUS to {FORMS}"
            )


def default_address(environment: Mapping[str, str] | None = None) -> Address:
    """Where a node listens if nothing is said, and where it is looked for.

    Args:
        environment: the process's own if None.

    Raises:
        InvalidArgument: `BANDSTAND_BUS` is set, and is no address.
    """
    known = os.environ if environment is None else environment
    if said := known.get("BANDSTAND_BUS"):
        try:
            return Address.parse(said)
        except InvalidArgument as error:
            raise InvalidArgument(f"BANDSTAND_BUS: {safe_str(error)}") from None
    if folder := known.get("XDG_RUNTIME_DIR"):
        return Address(path=str(Path(folder, "bandstand.sock")))
    return Address(path=str(_last_resort() / "bus.sock"))


def _last_resort() -> Path:
    return Path("/tmp", f"bandstand-{os.getuid()}")  # noqa: S108  # the directory is checked to be the user's own


def whole_number(text: str, least: int, most: int) -> int | None:
    """What somebody has typed for a number; None if it is none, or out of its bounds."""
    if not (text.isascii() and text.isdigit()) or len(text.lstrip("0")) > len(str(most)):
        return None
    number = int(text)
    return number if least <= number <= most else None
