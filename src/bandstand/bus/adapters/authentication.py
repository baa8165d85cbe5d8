"""Authentication: who may use a node.

There are two checks, and each happens before the node learns of a connection:

- *Peer credentials*, for Unix sockets: the operating system tells which user has connected (`peer_uid`).
- *A token*, for TCP: the first line of a connection is the command `Syscall.Authenticate` with the token of the node. The adapter
  answers it, so that a token never passes the router and never reaches a log.

An adapter that needs no token accepts the command all the same: a client does not have to know which of its nodes need one.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import sys
from typing import Annotated, final

import msgspec
from msgspec import Meta, Raw, Struct

from bandstand.bus.adapters.limits import Limits
from bandstand.bus.auth import Token
from bandstand.bus.contracts.messages import Command
from bandstand.bus.frame import Frame, IdGenerator, Metadata
from bandstand.bus.wire import DECODE_ERRORS, read_frame, write_frame
from bandstand.errors import InvalidMessageError
from bandstand.errors.validation import to_seconds

__all__ = (
    "HAS_PEER_CREDENTIALS",
    "MAX_AUTH_LINE",
    "AuthRequest",
    "Authenticate",
    "Authenticated",
    "AuthenticationFailed",
    "TokenAuth",
    "peer_uid",
    "read_auth_request",
)

# --- peer credentials -------------------------------------------------------------------------------------------------

HAS_PEER_CREDENTIALS = sys.platform == "linux"
"""True if the platform tells who has connected to a Unix socket."""

# pid, uid and gid.
CREDENTIALS = struct.Struct("iII")


def peer_uid(connection: socket.socket) -> int | None:
    """Return the user id of the process at the other end, as of when it connected.

    Linux has `SO_PEERCRED`. Python has no portable way to ask other systems; there the mode of the socket's file decides alone.

    Returns:
        None if the platform does not tell.

    Raises:
        OSError: the connection is gone.
    """
    if sys.platform != "linux":
        return None
    found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
    uid: int = CREDENTIALS.unpack(found)[1]
    return uid


# --- the token command ------------------------------------------------------------------------------------------------


class Authenticated(Struct):
    """The reply to `Authenticate`: the connection may be used."""

    ok: bool


class Authenticate(Command[Authenticated], type="Syscall.Authenticate"):
    """Authenticate a connection: the first line where a token is required. Anything else there gets `Sys.Unauthorized`, and the connection is closed."""

    token: Annotated[str, Meta(min_length=1, max_length=1024, examples=["6f1e0c5b9a7d4e23"])]


MAX_AUTH_LINE = 16 * 1024
"""The maximum bytes of an authentication line: the longest token with every character escaped, and its envelope."""

FIRST_LINE = (
    f"the first line of this connection must be the command {Authenticate.message_type} with the token"
)

_ids = IdGenerator()


@final
class AuthRequest:
    """An `Authenticate` command as it was received.

    Attributes:
        token: the token that the client sent.
    """

    __slots__ = ("_frame", "token")

    def __init__(self, frame: Frame, token: str) -> None:
        self._frame = frame
        self.token = token

    @property
    def request_id(self) -> str:
        """The id of the command."""
        return self._frame.metadata.id

    def reply(self) -> Frame:
        """Make the reply that accepts the token."""
        request = self._frame.metadata
        return Frame(
            kind="reply",
            type=Authenticate.message_type,
            data=Raw(msgspec.json.encode(Authenticated(ok=True))),
            metadata=Metadata(_ids(), _ids.last_ms, request.id, request.correlation),
        )


def read_auth_request(line: bytes) -> AuthRequest | None:
    """Decode a line; return None if it is not an `Authenticate` command."""
    try:
        frame = read_frame(line)
        if frame.kind != "command" or frame.type != Authenticate.message_type:
            return None
        return AuthRequest(frame, msgspec.json.decode(frame.data, type=Authenticate).token)
    except (InvalidMessageError, *DECODE_ERRORS):
        return None


# --- token authentication ---------------------------------------------------------------------------------------------


class AuthenticationFailed(Exception):  # noqa: N818  # an outcome, not an error of the program
    """A connection is not let in; `str` says why.

    Attributes:
        request_id: the id of the command that was refused, if there was one.
    """

    def __init__(self, reason: str, request_id: str | None = None) -> None:
        super().__init__(reason)
        self.request_id = request_id


@final
class TokenAuth:
    """Waits for the token on new connections.

    An unauthenticated connection costs one short line of memory, for `Limits.handshake_timeout` at most. Over the limit of
    `Limits.unauthenticated`, the oldest one is dropped: a client that has the token needs one round trip, so the oldest is the least
    likely to send it.

    Args:
        token: the token of the node.
        limits: the number of unauthenticated connections, and the time each has.
    """

    __slots__ = ("_limits", "_token", "_waiting")

    def __init__(self, token: Token, limits: Limits) -> None:
        self._token = token
        self._limits = limits
        # The timeouts of the unauthenticated connections, the oldest first.
        self._waiting: dict[asyncio.Timeout, None] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    async def authenticate(self, connection: socket.socket) -> bytes:
        """Wait for the token and accept it.

        Returns:
            The bytes that were received after the first line.

        Raises:
            AuthenticationFailed: the token is missing, wrong or late.
            ConnectionError: the client has closed the connection without sending anything.
            OSError: the connection is broken.
        """
        limits = self._limits
        seconds = to_seconds("handshake_timeout", limits.handshake_timeout)
        try:
            async with asyncio.timeout(seconds) as timeout:
                self._make_room()
                self._waiting[timeout] = None
                try:
                    return await self._handshake(connection)
                finally:
                    self._waiting.pop(timeout, None)
        except TimeoutError:
            raise AuthenticationFailed(
                f"no token was received within {seconds:g} s, or less while {limits.unauthenticated} other "
                f"connections are unauthenticated: {FIRST_LINE}"
            ) from None

    def _make_room(self) -> None:
        """Over the limit, end the oldest wait."""
        if len(self._waiting) >= self._limits.unauthenticated:
            oldest = next(iter(self._waiting))
            del self._waiting[oldest]
            # It may have expired already, and its task not have run since.
            if not oldest.expired():
                oldest.reschedule(asyncio.get_running_loop().time())

    async def _handshake(self, connection: socket.socket) -> bytes:
        event_loop = asyncio.get_running_loop()
        received = bytearray()
        end = -1
        while end < 0:
            chunk = await event_loop.sock_recv(connection, MAX_AUTH_LINE)
            if not chunk:
                break
            end = chunk.find(b"\n")
            end = end if end < 0 else end + len(received)
            received += chunk
            if end > MAX_AUTH_LINE or (end < 0 and len(received) > MAX_AUTH_LINE):
                raise AuthenticationFailed(f"{FIRST_LINE}; this one has more than {MAX_AUTH_LINE} bytes")
        if not received:
            raise ConnectionAbortedError("the client closed the connection without sending anything")
        request = read_auth_request(bytes(received if end < 0 else received[:end]))
        if request is None:
            raise AuthenticationFailed(FIRST_LINE)
        if not self._token.is_shown_by(request.token):
            raise AuthenticationFailed("the token is not the token of this node", request.request_id)
        await event_loop.sock_sendall(connection, write_frame(request.reply()) + b"\n")
        return b"" if end < 0 else bytes(received[end + 1 :])
