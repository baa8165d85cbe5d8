"""How a client shows its token: its first line is the command `Syscall.Authenticate`, which is answered here and goes no further.

It is answered by the adapter, so that a token neither passes the router nor gets into a log. Where none is asked for, one that is shown is
welcome all the same: a client need not know which of its nodes want one.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta, Raw, Struct

from bandstand.bus.contracts.messages import Command
from bandstand.bus.frame import Frame, Metadata
from bandstand.bus.hot.idmaker import IdMaker
from bandstand.bus.wire import DECODE_ERRORS, read_frame
from bandstand.errors import BadMessage

__all__ = ("LONGEST_GREETING", "Authenticate", "Authenticated", "Greeting", "read_greeting")


class Authenticated(Struct):
    """The connection may be used."""

    ok: bool


class Authenticate(Command[Authenticated], type="Syscall.Authenticate"):
    """Show a token: the first line of a connection that asks for one. Anything else there is `Sys.Unauthorized`, and the connection is closed."""

    token: Annotated[str, Meta(min_length=1, max_length=1024, examples=["6f1e0c5b9a7d4e23"])]


LONGEST_GREETING = 16 * 1024
"""Bytes of a line that shows a token: the longest token, each character of it written as an escape, and its envelope."""

_ids = IdMaker()


class Greeting:
    """A token that was shown, in a request that wants an answer."""

    __slots__ = ("_frame", "token")

    def __init__(self, frame: Frame, token: str) -> None:
        self._frame = frame
        self.token = token

    @property
    def request_id(self) -> str:
        """The id of the request."""
        return self._frame.metadata.id

    def answer(self) -> Frame:
        """That it was the right one."""
        asked = self._frame.metadata
        return Frame(
            kind="reply",
            type=Authenticate.message_type,
            data=Raw(msgspec.json.encode(Authenticated(ok=True))),
            metadata=Metadata(_ids(), _ids.last_ms, asked.id, asked.correlation),
        )


def read_greeting(line: bytes) -> Greeting | None:
    """Read a line; None if it is no greeting."""
    try:
        frame = read_frame(line)
        if frame.kind != "command" or frame.type != Authenticate.message_type:
            return None
        return Greeting(frame, msgspec.json.decode(frame.data, type=Authenticate).token)
    except (BadMessage, *DECODE_ERRORS):
        return None
