"""Who may come in by a token: everybody is a stranger until it has been shown.

A stranger gets nothing: it is no client of the node, which does not even hear of it, and what is kept of it is one short line. It has a few
seconds, less if many others wait, so that those who come and say nothing do not keep out those who do. Whoever has the token is done
in one round trip: of all strangers, the one that has waited longest is the least likely to be one of them.
"""

from __future__ import annotations

import asyncio
import socket
from typing import final

from bandstand.bus.adapters.greeting import LONGEST_GREETING, Authenticate, read_greeting
from bandstand.bus.adapters.limits import Limits
from bandstand.bus.token import Token
from bandstand.bus.wire import write_frame

__all__ = ("Doorman", "Unwelcome")

FIRST = f"the first line of this connection must be the command {Authenticate.message_type} with its token"


class Unwelcome(Exception):  # noqa: N818  # a verdict, not an error of the program
    """A stranger that is not let in. `str` says why."""

    request_id: str | None = None


@final
class Doorman:
    """Listens to strangers, until each has shown the token.

    Args:
        token: which.
        limits: how many strangers there may be, and for how long.
    """

    __slots__ = ("_limits", "_token", "_waiting")

    def __init__(self, token: Token, limits: Limits) -> None:
        self._token = token
        self._limits = limits
        # Those who have not shown it yet, the longest first.
        self._waiting: dict[asyncio.Timeout, None] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    async def meet(self, connection: socket.socket) -> bytes:
        """Wait for the token; what came after it.

        Raises:
            Unwelcome: it is not let in.
            ConnectionError: it has gone, without a word.
            OSError: the connection is broken.
        """
        limits = self._limits
        try:
            async with asyncio.timeout(limits.handshake_ms / 1000) as patience:
                self._make_room()
                self._waiting[patience] = None
                try:
                    return await self._hear(connection)
                finally:
                    self._waiting.pop(patience, None)
        except TimeoutError:
            raise Unwelcome(
                f"no token has come in {limits.handshake_ms} ms, or sooner while {limits.strangers} others are waited for: {FIRST}"
            ) from None

    def _make_room(self) -> None:
        """Lose patience with whoever has waited longest, if there are too many."""
        if len(self._waiting) >= self._limits.strangers:
            longest = next(iter(self._waiting))
            del self._waiting[longest]
            # Its time may be over already, and it not have had its turn since.
            if not longest.expired():
                longest.reschedule(asyncio.get_running_loop().time())

    async def _hear(self, connection: socket.socket) -> bytes:
        running = asyncio.get_running_loop()
        said = bytearray()
        end = -1
        while end < 0:
            chunk = await running.sock_recv(connection, LONGEST_GREETING)
            if not chunk:
                break
            end = chunk.find(b"\n")
            end = end if end < 0 else end + len(said)
            said += chunk
            if end > LONGEST_GREETING or (end < 0 and len(said) > LONGEST_GREETING):
                raise Unwelcome(f"{FIRST}; this one has more than {LONGEST_GREETING} bytes")
        if not said:
            raise ConnectionAbortedError("it has gone without a word")
        line = bytes(said if end < 0 else said[:end])
        greeting = read_greeting(line)
        if greeting is None:
            raise Unwelcome(FIRST)
        if not self._token.is_shown_by(greeting.token):
            refusal = Unwelcome("the token is not the one that this node was given")
            refusal.request_id = greeting.request_id
            raise refusal
        await running.sock_sendall(connection, write_frame(greeting.answer()) + b"\n")
        return b"" if end < 0 else bytes(said[end + 1 :])
