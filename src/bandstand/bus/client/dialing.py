"""Connecting with a node, and a sentence for whatever is in the way."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn

from bandstand.errors import NodeGone
from bandstand.errors.formatting import safe_str

if TYPE_CHECKING:
    from bandstand.bus.client.address import Address
    from bandstand.bus.client.line import ClientLine

__all__ = ("dial",)

# What fits into the address of a socket, without the zero at its end.
LONGEST_PATH = 107 if sys.platform == "linux" else 103


async def dial(address: Address, make: Callable[[], ClientLine], within_ms: int) -> ClientLine:
    """Connect once.

    Raises:
        NodeGone: nobody listens there, or not in time; says what to do. Its cause is what the system said.
        PermissionError: the node is somebody else's.
    """
    # What others may have put there is not connected to.
    address.check()
    try:
        async with asyncio.timeout(within_ms / 1000):
            return await _reach(address, make)
    except (OSError, UnicodeError) as error:
        _explain(address, error, within_ms)


async def _reach(address: Address, make: Callable[[], ClientLine]) -> ClientLine:
    event_loop = asyncio.get_running_loop()
    if address.path:
        if len(os.fsencode(address.path)) > LONGEST_PATH:
            # Not every event loop says so: some look for as much of it as fits.
            raise OSError(f"the path is too long: the address of a socket holds {LONGEST_PATH} bytes")
        _, line = await event_loop.create_unix_connection(make, address.path)
        return line
    transport, line = await event_loop.create_connection(make, address.host, address.port)
    # A machine that is gone without a word would else be waited for as long as nothing is said to it.
    connection: socket.socket = transport.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    return line


def _explain(address: Address, error: Exception, within_ms: int) -> NoReturn:
    if isinstance(error, (FileNotFoundError, ConnectionRefusedError)):
        raise NodeGone(
            f"nobody listens at {address}: start a node with `bandstand serve`, or say with --to or BANDSTAND_BUS where one is"
        ) from error
    if isinstance(error, TimeoutError):
        raise NodeGone(f"no connection to {address} in {within_ms} ms") from error
    if isinstance(error, PermissionError):
        raise PermissionError(f"you may not connect to {address}: it is somebody else's node") from error
    if isinstance(error, UnicodeError):
        raise NodeGone(f"cannot connect to {address}: {address.host!r} is no name of a host") from error
    raise NodeGone(f"cannot connect to {address}: {safe_str(error)}") from error
