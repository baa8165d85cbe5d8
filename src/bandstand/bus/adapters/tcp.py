"""Clients over TCP.

Whoever is let in can do everything that the node can do. So it listens for programs on the same machine only, unless `is_public=True` says that
somebody has thought about it, and then everybody has to show a token first. What is said on the way is not encrypted.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from ipaddress import ip_address
from typing import TYPE_CHECKING, final

from bandstand.bus.adapters.listening import BACKLOG, Listener
from bandstand.bus.token import Token
from bandstand.errors import CannotListen, InvalidArgument
from bandstand.errors.formatting import safe_repr, safe_str

if TYPE_CHECKING:
    from bandstand.bus.adapters.limits import Limits

__all__ = ("TcpAdapter",)


@final
class TcpAdapter(Listener):
    """NDJSON over TCP.

    Args:
        host: the address to listen at, or `localhost`; of a name that has several addresses, the first is taken.
        port: the port; 0 for any that is free, which `name` tells once it has started.
        limits: how much each client may ask.
        is_public: whether programs on other machines may connect; needs a token.
        token: what every client has to show first, in a `Syscall.Authenticate`; None for nothing, on this machine alone.

    Raises:
        InvalidArgument: the address is not of this machine alone, and `is_public` or the token is missing; or an argument can never work.
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
        shown = Token(token) if isinstance(token, str) else token
        if shown is not None and not isinstance(shown, Token):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers without types
            raise InvalidArgument(f"token is a {type(token).__name__}: pass a str, or Token.read(FILE)")
        super().__init__(limits, shown)
        if type(host) is not str or not host or "\0" in host:
            raise InvalidArgument(f"host is {safe_repr(host)}: pass an address or a name, as '127.0.0.1'")
        if type(port) is not int or not 0 <= port <= 65_535:
            raise InvalidArgument(f"port is {safe_repr(port)}: pass an int from 0 to 65535")
        if not is_public and host != "localhost" and not _is_loopback(host):
            raise InvalidArgument(
                f"host is {safe_repr(host)}: others than this machine could connect, and do whatever the node can do. Pass "
                f"'127.0.0.1', or is_public=True and a token if that is what you want."
            )
        if shown is None and host != "localhost" and not _is_loopback(host):
            raise InvalidArgument(
                f"host is {safe_repr(host)}: others than this machine could connect, and a token is what tells who of them may. Pass token=..., of "
                f"16 characters or more, or '127.0.0.1' as the host."
            )
        self._host = host
        self._port = port
        self._is_public = is_public and shown is not None
        self._bound: tuple[str, int] | None = None

    @property
    def name(self) -> str:
        """Where it is, as `tcp:127.0.0.1:7777`."""
        host, port = self._bound or (self._host, self._port)
        return f"tcp:[{host}]:{port}" if ":" in host else f"tcp:{host}:{port}"

    async def _bind(self) -> socket.socket:
        self._bound = None
        try:
            found = await asyncio.get_running_loop().getaddrinfo(
                self._host, self._port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )
        except (OSError, UnicodeError) as error:
            raise CannotListen(
                f"cannot listen at {self.name}: {self._host!r} is no address here: {safe_str(error)}"
            ) from error
        family, kind, protocol, _, address = found[0]
        # What a machine calls localhost is written in a file of its own.
        if not self._is_public and not _is_loopback(str(address[0])):
            raise CannotListen(
                f"cannot listen at {self.name}: here that is {address[0]}, where others than this machine could connect. "
                f"Pass '127.0.0.1', or is_public=True and a token if that is what you want."
            )
        listening = socket.socket(family, kind, protocol)
        try:
            # A port whose last connections are still dying out may be taken again; a port that is listened at may not.
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            # Both pass to the connections: answers leave at once, and a client whose machine has died is noticed some day.
            listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if family == socket.AF_INET6:
                # '::' is what it says, and not 0.0.0.0 as well.
                listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            listening.bind(address)
            listening.listen(BACKLOG)
            listening.settimeout(0)
            host, port = listening.getsockname()[:2]
        except OSError as error:
            listening.close()
            raise CannotListen(f"cannot listen at {self.name}: {_explain(error)}") from error
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
            return "somebody listens there already. Choose another port, or 0 for any that is free."
        case errno.EACCES:
            return "ports below 1024 are for privileged programs. Choose a higher one, or 0 for any that is free."
        case errno.EADDRNOTAVAIL:
            return "this machine does not have that address."
        case _:
            return f"{error.strerror or error}."
