"""Who is at the other end of a Unix socket: the operating system knows, and says so where it can.

Linux has `SO_PEERCRED`. Elsewhere Python has no way to ask that is the same everywhere: there the mode of the socket's file decides alone.
"""

from __future__ import annotations

import socket
import struct
import sys

__all__ = ("CAN_TELL", "uid_of")

CAN_TELL = sys.platform == "linux"
"""Whether the platform says who has connected."""

# pid, uid and gid.
CREDENTIALS = struct.Struct("iII")


def uid_of(connection: socket.socket) -> int | None:
    """The user whose process has connected, as it was when it did; None where the platform does not say.

    Raises:
        OSError: it cannot be asked: the connection is gone.
    """
    if sys.platform != "linux":
        return None
    found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
    uid: int = CREDENTIALS.unpack(found)[1]
    return uid
