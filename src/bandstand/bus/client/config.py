"""The address and the settings of a client.

An address is `unix:PATH` or `tcp:HOST:PORT`. A node and its clients agree on a default address: `$BANDSTAND_BUS` if it is set, else a socket
in the user's runtime directory, else a socket in a directory below `/tmp` that only the user may enter. Any user can make a directory of
that name first, so the node and the clients use it only if it belongs to the user.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import final

from bandstand.bus.frame import LONGEST_TIMEOUT_MS
from bandstand.errors import InvalidArgumentError
from bandstand.errors.formatting import safe_repr, safe_str
from bandstand.errors.validation import Seconds, to_seconds
from bandstand.supervision import Backoff

__all__ = ("MAX_SOCKET_PATH", "Address", "ClientConfig", "default_address", "parse_int", "resolve_target")

# The maximum bytes of a socket address, without the terminating zero.
MAX_SOCKET_PATH = 107 if sys.platform == "linux" else 103

FORMS = "unix:PATH or tcp:HOST:PORT"


@final
@dataclass(frozen=True, slots=True)
class Address:
    """The address of a node. `Address.parse("unix:/run/x.sock")` makes one; `str` is the inverse."""

    path: str = ""
    """The path of a Unix socket; empty for TCP."""
    host: str = ""
    port: int = 0

    @classmethod
    def parse(cls, text: str) -> Address:
        """Parse `unix:PATH` or `tcp:HOST:PORT`; an IPv6 address is written in brackets.

        Raises:
            InvalidArgumentError: the text is not an address.
        """
        scheme, colon, rest = text.partition(":")
        if scheme == "unix" and rest and "\0" not in rest:
            return cls(path=rest)
        if scheme == "tcp" and colon:
            host, colon, port = rest.rpartition(":")
            if host.startswith("[") and host.endswith("]"):
                host = host[1:-1]
            elif ":" in host:
                host = ""
            number = parse_int(port, 1, 65535)
            if host and number is not None:
                return cls(host=host, port=number)
            raise InvalidArgumentError(
                f"{safe_repr(text)} is not an address: pass tcp:HOST:PORT, with a port from 1 to 65535"
            )
        raise InvalidArgumentError(f"{safe_repr(text)} is not an address: pass {FORMS}")

    def __str__(self) -> str:
        if self.path:
            return f"unix:{self.path}"
        return f"tcp:[{self.host}]:{self.port}" if ":" in self.host else f"tcp:{self.host}:{self.port}"

    @property
    def is_shared(self) -> bool:
        """True if the socket is in the default directory below `/tmp`, where other users can write, too."""
        return bool(self.path) and Path(self.path).parent == _fallback_directory()

    def prepare(self) -> None:
        """Make the default directory below `/tmp` if the address needs it. A node calls this before it listens.

        Raises:
            PermissionError: the directory belongs to another user, or others may enter it.
            OSError: the directory cannot be made.
        """
        if self.is_shared:
            Path(self.path).parent.mkdir(mode=0o700, exist_ok=True)
            self.check()

    def check(self) -> None:
        """Check that the default directory below `/tmp` is private, if the address needs it. A client calls this before it connects.

        Raises:
            PermissionError: the directory belongs to another user, or others may enter it.
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
                f"{folder} is not a directory that only you may enter, so another user's process may listen there: remove it, or set "
                f"BANDSTAND_BUS to {FORMS}"
            )


def default_address(environment: Mapping[str, str] | None = None) -> Address:
    """Return the address where a node listens, and a client connects, if none is given.

    Args:
        environment: the environment variables; those of the process if None.

    Raises:
        InvalidArgumentError: `BANDSTAND_BUS` is set to something that is not an address.
    """
    variables = os.environ if environment is None else environment
    if text := variables.get("BANDSTAND_BUS"):
        try:
            return Address.parse(text)
        except InvalidArgumentError as error:
            raise InvalidArgumentError(f"BANDSTAND_BUS: {safe_str(error)}") from None
    if folder := variables.get("XDG_RUNTIME_DIR"):
        return Address(path=str(Path(folder, "bandstand.sock")))
    return Address(path=str(_fallback_directory() / "bus.sock"))


def _fallback_directory() -> Path:
    return Path("/tmp", f"bandstand-{os.getuid()}")  # noqa: S108  # `check` makes sure that it is the user's own


def parse_int(text: str, least: int, most: int) -> int | None:
    """Parse decimal digits; return None if the text is anything else, or the number is out of bounds."""
    if not (text.isascii() and text.isdigit()) or len(text.lstrip("0")) > len(str(most)):
        return None
    number = int(text)
    return number if least <= number <= most else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConfig:
    """The settings of a client. Durations are kept in seconds, as floats.

    Raises:
        InvalidArgumentError: a value is out of range; the message names the field.
    """

    timeout: Seconds = 30.0
    """The default timeout of a call, in seconds. The node knows it, too."""
    window: int = 256
    """The maximum number of requests without a reply; further ones wait in the client."""
    buffer: int = 1024
    """The maximum number of unread events of a subscription; further ones are dropped, and a `Gap` takes their place."""
    wait: Seconds = 0.0
    """How many seconds to wait, when connecting, for a node that is not running yet; 0 for a single attempt."""
    connect_timeout: Seconds = 5.0
    """The timeout of one connection attempt, including the handshake, in seconds."""
    give_up_after: Seconds = 60.0
    """How many seconds to try to reconnect before all calls fail; 0 to not reconnect."""
    backoff: Backoff = field(default_factory=lambda: Backoff(initial=0.05, maximum=2.0, jitter=0.025))
    """The delays between connection attempts."""
    retry_overloaded: bool = True
    """Whether to resend a call that gets `Sys.Overloaded` or `Sys.Unavailable`, first after 10 ms and then at growing intervals, until it gets another
    reply or times out. This is safe: such a request was not handled."""
    token: str | None = field(default=None, repr=False)
    """The token for a node at a TCP port that requires one; `$BANDSTAND_TOKEN` if None."""

    def __post_init__(self) -> None:
        self._keep_seconds("timeout", is_zero_allowed=False)
        self._check("window", 1, 1 << 20)
        self._check("buffer", 1, 1 << 24)
        self._keep_seconds("wait")
        self._keep_seconds("connect_timeout", is_zero_allowed=False)
        self._keep_seconds("give_up_after")
        if not isinstance(self.backoff, Backoff):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers without types
            raise InvalidArgumentError(f"ClientConfig: backoff is {safe_repr(self.backoff)}: pass a Backoff")
        if type(self.retry_overloaded) is not bool:
            raise InvalidArgumentError(
                f"ClientConfig: retry_overloaded is {safe_repr(self.retry_overloaded)}: pass True or False"
            )
        if self.token is not None and (type(self.token) is not str or not self.token):
            # The message does not show the value: it is a secret.
            raise InvalidArgumentError(
                "ClientConfig: token is empty or not a string: pass the token of the node"
            )

    def _keep_seconds(self, name: str, *, is_zero_allowed: bool = True) -> None:
        value: object = getattr(self, name)
        seconds = to_seconds(
            f"ClientConfig: {name}", value, is_zero_allowed=is_zero_allowed, most=LONGEST_TIMEOUT_MS
        )
        object.__setattr__(self, name, seconds)

    def _check(self, name: str, least: int, most: int) -> None:
        value: object = getattr(self, name)
        if type(value) is not int or not least <= value <= most:
            raise InvalidArgumentError(
                f"ClientConfig: {name} is {safe_repr(value)}: pass an int from {least} to {most}"
            )


def resolve_target(url: str | Address | None, config: ClientConfig | None) -> tuple[Address, ClientConfig]:
    """Fill in the defaults: the default address, the default settings, and the token of `$BANDSTAND_TOKEN`.

    Raises:
        InvalidArgumentError: `url` is not an address, or `config` not a configuration.
    """
    address = Address.parse(url) if isinstance(url, str) else url or default_address()
    config = ClientConfig() if config is None else config
    if not isinstance(config, ClientConfig):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers without types
        raise InvalidArgumentError(f"config is {safe_repr(config)}: pass a ClientConfig")
    if config.token is None and (token := os.environ.get("BANDSTAND_TOKEN")):
        config = replace(config, token=token)
    return address, config
