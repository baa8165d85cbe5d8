"""Frames on a control socket: how long, what kind, how many descriptors come along; then the pickled word.

Descriptors travel beside the bytes, with the first byte of their frame, and in order; so a frame just says how many are its own.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from struct import Struct
from typing import Any, NamedTuple, final

from bandstand.errors import BadMessage

__all__ = ("LETTER_FDS", "LONGEST", "NOTICE", "WORD", "Frame", "Inbox", "Letter", "frame_head")

HEAD = Struct(">IBB")

WORD = 0
"""A frame of the program's, for whoever receives."""
NOTICE = 1
"""A frame of the machinery's own."""

LETTER_FDS = 16
"""How many descriptors one letter may bring. The operating system would take some more."""

# A length beyond this is no length.
LONGEST = 1 << 30


class Letter(NamedTuple):
    """What has come: a word, and descriptors, which now belong to whoever has received it."""

    word: Any
    """Whatever was sent."""
    fds: tuple[int, ...] = ()


class Frame(NamedTuple):
    """One frame, whole."""

    kind: int
    body: bytes
    fds: tuple[int, ...]


def frame_head(length: int, kind: int, fds: int) -> bytes:
    """What comes before a body of so many bytes."""
    return HEAD.pack(length, kind, fds)


@final
class Inbox:
    """Makes frames of bytes and descriptors, in whatever pieces they come."""

    __slots__ = ("_bytes", "_fds")

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._fds: deque[int] = deque()

    def feed(self, data: bytes, fds: list[int]) -> Iterator[Frame]:
        """The frames that are whole now, one by one.

        Raises:
            BadMessage: this is not what our own end writes. Nothing can be read after that.
        """
        self._bytes += data
        self._fds.extend(fds)
        at = 0
        while len(self._bytes) - at >= HEAD.size:
            length, kind, brings = HEAD.unpack_from(self._bytes, at)
            if length > LONGEST or kind not in {WORD, NOTICE}:
                raise BadMessage(f"a frame of kind {kind} and {length} bytes: the other end is none of ours")
            begin = at + HEAD.size
            if len(self._bytes) - begin < length:
                break
            if brings > len(self._fds):
                raise BadMessage(
                    f"{brings} descriptors were sent and {len(self._fds)} have come: this process may have no more (ulimit -n)"
                )
            at = begin + length
            with memoryview(self._bytes) as view:
                body = bytes(view[begin:at])
            yield Frame(kind, body, tuple(self._fds.popleft() for _ in range(brings)))
        del self._bytes[:at]

    def close(self) -> None:
        """Close the descriptors that no frame has claimed."""
        while self._fds:
            os.close(self._fds.popleft())
