"""What a client sends, as lines: data from wherever it comes, in an envelope of its own."""

from __future__ import annotations

import msgspec
from msgspec import Raw

from bandstand.bus.frame import LONGEST_TIMEOUT_MS, Frame, Kind, Metadata
from bandstand.bus.hot.idmaker import IdMaker
from bandstand.bus.hot.nesting import is_deeper
from bandstand.bus.numbers import DEEPEST
from bandstand.bus.wire import DECODE_ERRORS, split_problem, write_frame
from bandstand.errors import InvalidArgument
from bandstand.errors.formatting import safe_repr, safe_str

__all__ = ("FrameMaker", "line_of", "raw_of")


class FrameMaker:
    """Makes the frames of one client."""

    __slots__ = ("_ids",)

    def __init__(self) -> None:
        self._ids = IdMaker()

    def make(self, kind: Kind, type_name: str, data: Raw, timeout_ms: int | None = None) -> Frame:
        """One more frame, with an id that no other has.

        Raises:
            InvalidArgument: it has no type, or its time is none.
        """
        if not 1 <= len(type_name) <= 200:
            raise InvalidArgument(f"{safe_repr(type_name)} is no type: pass a name, as 'Memory.Get'")
        if timeout_ms is not None and (
            type(timeout_ms) is not int or not 1 <= timeout_ms <= LONGEST_TIMEOUT_MS
        ):
            raise InvalidArgument(
                f"timeout_ms is {safe_repr(timeout_ms)}: pass an int from 1 to {LONGEST_TIMEOUT_MS}, or None"
            )
        made = self._ids()
        metadata = Metadata(made, self._ids.last_ms, timeout=timeout_ms)
        return Frame(kind=kind, type=type_name, data=data, metadata=metadata)


def line_of(frame: Frame) -> bytes:
    """A frame as the line that is sent.

    Raises:
        InvalidArgument: its data is nested so deep that no node would take it, nor be able to say whose it was.
    """
    line = write_frame(frame) + b"\n"
    if is_deeper(line, DEEPEST):
        raise InvalidArgument(f"the data is no JSON for a node: more than {DEEPEST} levels are nested in it")
    return line


def raw_of(data: object) -> Raw:
    """JSON without line ends, whatever it came as: bytes of JSON, or whatever msgspec can write as JSON.

    Raises:
        InvalidArgument: it is none.
    """
    try:
        if not isinstance(data, bytes):
            return Raw(msgspec.json.encode(data))
        data.decode()
        return Raw(msgspec.json.format(data, indent=-1))
    except DECODE_ERRORS as error:
        problem, _ = split_problem(error)
        raise InvalidArgument(
            f"the data is no JSON: {problem}; pass NAME=TEXT, as key=greeting, or all of the data as one JSON"
        ) from None
    except (TypeError, ValueError, NotImplementedError) as error:  # the last is how msgspec's hooks say no
        raise InvalidArgument(f"the data cannot be written as JSON: {safe_str(error)}") from None
