"""Frames as lines of JSON, and what to say when a line is none.

msgspec finds what is wrong and where. Two things it does not find itself and lets through as errors of Python's own: text
that is no UTF-8, and nesting too deep for the stack (there is a limit of our own, far below: see `hot.nesting`). Here they are `BadMessage` like all the rest.
"""

from __future__ import annotations

import msgspec
from msgspec import Raw, Struct

from bandstand.bus.frame import KINDS, Frame, Kind, Metadata, TypeName
from bandstand.bus.hot.lines import read_plain, write_frame
from bandstand.bus.hot.nesting import is_deeper
from bandstand.bus.numbers import DEEPEST, LONG
from bandstand.bus.whole import is_about_fractions, with_whole_numbers
from bandstand.errors import BadMessage

__all__ = ("DECODE_ERRORS", "read_frame", "split_problem", "write_frame")

DECODE_ERRORS = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""All that decoding can raise over what a stranger has sent."""


# Characters of what is said to be wrong.
LONGEST_PROBLEM = 300

_decode = msgspec.json.Decoder(Frame).decode


class _Parts(Struct, kw_only=True):
    """A frame whose metadata has not been read."""

    kind: Kind
    type: TypeName
    data: Raw = Raw(b"{}")
    metadata: Raw


class _Skeleton(Struct):
    """As much of a message as is needed to say whose error it was."""

    metadata: Raw = Raw(b"null")


class _SkeletonMetadata(Struct):
    id: str | None = None


def read_frame(line: bytes, deepest: int = DEEPEST) -> Frame:
    """Read a line, in which no more than so many levels are nested.

    Raises:
        BadMessage: it is no message; says what is wrong, where, and which id it had if that can be made out.
    """
    plain = read_plain(line)
    if plain is not None:
        return plain
    try:
        # The data is only skipped over by the decoder, but goes on to others as it is.
        line.decode()
        if is_deeper(line, deepest):
            raise RecursionError  # as the decoder would, only sooner
        frame = _decode(line)
    except DECODE_ERRORS as error:
        if is_about_fractions(error) and (whole := _read_whole(line)) is not None:
            return whole
        problem, path = split_problem(error, deepest)
        if path == "$.kind":
            problem = f"{problem}; a kind is one of {', '.join(KINDS)}"
        raise BadMessage.of(f"not a message: {problem}", path, _salvage_id(line)) from None
    if len(line) > LONG and len(line) > 2 * len(frame.data):
        # The data is a view of its line. Whoever keeps it must not keep a megabyte of unknown fields along with it.
        return Frame(kind=frame.kind, type=frame.type, data=frame.data.copy(), metadata=frame.metadata)
    return frame


def split_problem(error: Exception, deepest: int = DEEPEST) -> tuple[str, str]:
    """What decoding found: what is wrong, and the path to it (empty if it has none)."""
    if isinstance(error, UnicodeDecodeError):
        return f"not UTF-8: {error.reason} at byte {error.start}", ""
    if isinstance(error, RecursionError):
        return f"nested too deeply: {deepest} levels are the limit", ""
    problem, _, path = str(error).partition(" - at `")
    if len(problem) > LONGEST_PROBLEM:
        # It repeats what it refuses, which may be a megabyte.
        problem = f"{problem[:LONGEST_PROBLEM]}…"
    if path:
        return problem, path.rstrip("`")
    # What is missing, or of the wrong kind, at the top of it.
    return problem, "$" if isinstance(error, msgspec.ValidationError) else ""


def _read_whole(line: bytes) -> Frame | None:
    """Read a line once more, with whole numbers in its metadata as integers: 1.0 is one, for JSON Schema. The data stays as it came."""
    try:
        parts = msgspec.json.decode(line, type=_Parts)
        metadata = msgspec.json.decode(with_whole_numbers(bytes(parts.metadata)), type=Metadata)
    except (*DECODE_ERRORS, ValueError):
        return None
    return Frame(kind=parts.kind, type=parts.type, data=parts.data.copy(), metadata=metadata)


def _salvage_id(line: bytes) -> str | None:
    try:
        skeleton = msgspec.json.decode(line, type=_Skeleton)
        found = msgspec.json.decode(skeleton.metadata, type=_SkeletonMetadata).id
    except DECODE_ERRORS:
        return None
    return found[:200] if found else None
