"""The TCP adapter.

A client can do everything that the node can do. So the adapter listens on loopback addresses only, unless `is_public=True` says
otherwise; then every client must send a token first. The connection is not encrypted.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from ipaddress import ip_address
from typing import TYPE_CHECKING, final

from bandstand.bus.adapters.listener import BACKLOG, Listener
from bandstand.bus.auth import Token
from bandstand.errors import InvalidArgumentError, ListenError
from bandstand.errors.formatting import safe_repr, safe_str

if TYPE_CHECKING:
    from bandstand.bus.adapters.limits import Limits

__all__ = ("TcpAdapter",)


@final
class TcpAdapter(Listener):
    """NDJSON over TCP.

    Args:
        host: the address to listen at, or `localhost`; of a name with several addresses, the first is used.
        port: the port; 0 for any free one, which `name` shows once the adapter has started.
        limits: the limits of each client; the defaults if None.
        is_public: allow clients on other machines; requires a token.
        token: the token that every client must send first, in a `Syscall.Authenticate`; None for no token, on loopback addresses only.

    Raises:
        InvalidArgumentError: the address is not a loopback address, and `is_public` or the token is missing; or an argument is invalid.
    """

    def __init__(
        self,
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        limits: Limits | None = None,
        is_public: bool = False,
        token: Token | str | None = None,
    ) -> None:
        checked = Token(token) if isinstance(token, str) else token
        if checked is not None and not isinstance(checked, Token):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers without types
            raise InvalidArgumentError(f"token is a {type(token).__name__}: pass a str, or Token.read(FILE)")
        super().__init__(
            TcpEndpoint(host, port, is_public=is_public, has_token=checked is not None), limits, checked
        )


@final
class TcpEndpoint:
    """A TCP port to listen on. See `TcpAdapter` for the arguments."""

    def __init__(self, host: str, port: int, *, is_public: bool, has_token: bool) -> None:
        if type(host) is not str or not host or "\0" in host:
            raise InvalidArgumentError(
                f"host is {safe_repr(host)}: pass an address or a name, as '127.0.0.1'"
            )
        if type(port) is not int or not 0 <= port <= 65_535:
            raise InvalidArgumentError(f"port is {safe_repr(port)}: pass an int from 0 to 65535")
        is_local = host == "localhost" or _is_loopback(host)
        if not is_public and not is_local:
            raise InvalidArgumentError(
                f"host is {safe_repr(host)}: other machines could connect, and do whatever the node can do. Pass '127.0.0.1', or "
                f"is_public=True and a token if that is what you want."
            )
        if not has_token and not is_local:
            raise InvalidArgumentError(
                f"host is {safe_repr(host)}: other machines could connect, so a token is required. Pass token=..., of 16 characters "
                f"or more, or '127.0.0.1' as the host."
            )
        self._host = host
        self._port = port
        self._is_public = is_public and has_token
        self._bound: tuple[str, int] | None = None

    @property
    def name(self) -> str:
        """The address, such as `tcp:127.0.0.1:7777`."""
        host, port = self._bound or (self._host, self._port)
        return f"tcp:[{host}]:{port}" if ":" in host else f"tcp:{host}:{port}"

    def check_peer(self, connection: socket.socket) -> str:  # noqa: ARG002  # TCP does not tell
        """Return an empty string: TCP does not tell who connects."""
        return ""

    def release(self) -> None:
        """Do nothing: the socket is all there is."""

    async def bind(self) -> socket.socket:
        """Resolve the host and listen.

        Raises:
            ListenError: says why.
        """
        self._bound = None
        try:
            found = await asyncio.get_running_loop().getaddrinfo(
                self._host, self._port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )
        except (OSError, UnicodeError) as error:
            raise ListenError(
                f"cannot listen at {self.name}: {self._host!r} cannot be resolved: {safe_str(error)}"
            ) from error
        family, kind, protocol, _, address = found[0]
        # A machine's hosts file may map localhost to any address.
        if not self._is_public and not _is_loopback(str(address[0])):
            raise ListenError(
                f"cannot listen at {self.name}: it resolves to {address[0]}, where other machines could connect. Pass '127.0.0.1', or "
                f"is_public=True and a token if that is what you want."
            )
        listening = socket.socket(family, kind, protocol)
        try:
            # Reuse a port with old connections in TIME_WAIT; a port that another process listens on stays taken.
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            # Accepted connections inherit both: replies are sent at once, and a client whose machine has died is detected.
            listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if family == socket.AF_INET6:
                # '::' must not include 0.0.0.0.
                listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            listening.bind(address)
            listening.listen(BACKLOG)
            listening.settimeout(0)
            host, port = listening.getsockname()[:2]
        except OSError as error:
            listening.close()
            raise ListenError(f"cannot listen at {self.name}: {_explain(error)}") from error
        self._bound = (str(host), int(port))
        return listening


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _explain(error: OSError) -> str:
    match error.errno:
        case errno.EADDRINUSE:
            return "another process listens there already. Pass another port, or 0 for any free one."
        case errno.EACCES:
            return "ports below 1024 are for privileged programs. Pass a higher one, or 0 for any free one."
        case errno.EADDRNOTAVAIL:
            return "this machine does not have that address."
        case _:
            return f"{error.strerror or error}."
