"""Lines of JSON that are plainly messages, read and written. What to say about all others is in `wire`."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from bandstand.bus.frame import Frame
from bandstand.bus.hot.nesting import is_deeper
from bandstand.bus.numbers import DEEPEST, LONG

Count: TypeAlias = int

decode = msgspec.json.Decoder(Frame).decode
encode = msgspec.json.Encoder().encode


def read_plain(line: bytes) -> Frame | None:
    """Read a line; None if something is wrong with it, or has to be looked at more closely."""
    size = len(line)
    # A decoder works its way into a value by calling itself: see `nesting`. What is not ASCII may be no text at all, which
    # it does not notice inside of data that it skips.
    if size > LONG or not line.isascii() or (size > 2 * DEEPEST and is_deeper(line, DEEPEST)):
        return None
    try:
        return decode(line)
    except Exception:  # noqa: BLE001  # whatever it is, the long way says what
        return None


def write_frame(frame: Frame) -> bytes:
    """Write a frame as JSON, without a line's end."""
    return encode(frame)
