r"""Frames as lines of JSON.

**Reading.** `read_plain` decodes the lines that are obviously fine; everything else goes to `read_frame`, which says what is wrong, and
where. msgspec reports most problems. Two it raises as Python's own errors: text that is not UTF-8, and nesting too deep for the stack. A decoder
recurses into a value, and so does whatever encodes or prints it later, from a deeper stack. So `MAX_DEPTH` is far below what any of them
can take, and it is checked before anything is decoded.

Compiled, `read_canonical` comes first. It reads requests as programs write them (the fields in order, no white space, no escapes, only integers) in two thirds
of the instructions, and leaves every other line to msgspec: it never rejects one. What it accepts, msgspec reads the same.

**Writing.** An envelope has few fields, and nearly always nothing in them has to be escaped. Compiled, `write_unescaped` then copies the parts of the line one
after the other, for a fifth of what the general encoder takes; any other frame is left to that. Both write the same bytes.

**Whole numbers.** JSON has one kind of number: for JSON Schema `1.0` and `1e3` are integers, for msgspec they are not. When a decoder expects
an integer and gets a fraction, the line is rewritten with every whole number as an integer, and decoded once more. That is slow, and
happens only to lines that would be rejected otherwise.

**Splitting.** Chunks of bytes do not respect lines. `LineSplitter` splits them some lines at a time, so that what waits is one chunk and not a hundred
thousand small objects. It keeps the start of an unfinished line, and gives it up as soon as it is too long: the rest of that line is dropped as it
arrives. So a line of a gigabyte takes no more memory than the longest line allowed, plus one chunk.
"""

# The checker sees one of the two definitions of `is_ascii`, `read_canonical` and `write_unescaped`.
# pyright: reportPossiblyUnboundVariable=false

from __future__ import annotations

import json
from decimal import Decimal
from math import isfinite
from typing import Final, NoReturn, TypeAlias

import msgspec
from msgspec import Raw, Struct

from bandstand.bus.frame import KINDS, Frame, Kind, Metadata, TypeName
from bandstand.errors import InvalidMessageError

try:
    import cython
except ModuleNotFoundError:  # interpreted, without Cython installed
    from bandstand.core import _cython as cython  # type: ignore[no-redef]  # one of the two

__all__ = (
    "DECODE_ERRORS",
    "LINES_PER_BATCH",
    "MAX_DEPTH",
    "OVERLONG",
    "LineSplitter",
    "is_deeper",
    "read_frame",
    "read_plain",
    "split_problem",
    "write_frame",
)

Count: TypeAlias = int
Flag: TypeAlias = bool

DECODE_ERRORS = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""The exceptions that decoding can raise for untrusted input."""

MAX_DEPTH: Final[int] = 128
"""How many levels of arrays and objects a message may have, its envelope included."""
LINES_PER_BATCH: Final[int] = 64
"""How many lines are split at a time: enough that splitting costs nothing, few enough that the frames stay in the processor's cache until they
are answered (64 was up to 10 % faster than 512)."""
OVERLONG: Final = b"\0 a line that was too long"
"""Stands for a line that was too long. Compare by identity."""

# A line of more bytes takes the slow path: it is worth checking its depth, and whether its data is worth keeping the line for.
LONG_LINE = 2048
# The shortest line that can be nested more deeply than `MAX_DEPTH`: every level has two brackets.
DEEP_LINE = 2 * MAX_DEPTH
LONGEST_PROBLEM = 300
"""Characters of an error text."""
LONGEST_NUMBER: Final = 400
"""A number with more digits is rejected: a short line can name a number with a billion digits."""

REWRITE_ERRORS = (*DECODE_ERRORS, ValueError)

# For the .pxd. Not `Raw` itself: msgspec looks annotations up in the module, where compiled constants are not.
RAW = Raw

decode = msgspec.json.Decoder(Frame).decode
encode = msgspec.json.Encoder().encode


if not cython.compiled:
    # Compiled, these are C functions in the .pxd.
    def is_ascii(line: bytes) -> bool:
        """Return whether a line is ASCII."""
        return line.isascii()

    def read_canonical(line: bytes) -> Frame | None:  # noqa: ARG001  # the same signature
        """Return None: interpreted, the decoder is faster."""
        return None

    def write_unescaped(frame: Frame) -> bytes | None:  # noqa: ARG001  # likewise
        """Return None: interpreted, the encoder is faster."""
        return None


# -- frames ----------------------------------------------------------------------------------------------------------------


def read_plain(line: bytes) -> Frame | None:
    """Decode a line; return None if it is wrong, or has to be checked by `read_frame`."""
    size = len(line)
    if size > LONG_LINE:
        return None
    frame = read_canonical(line)
    if frame is not None:
        return frame
    # A decoder skips data without checking that it is UTF-8, so a line that is not ASCII takes the slow path.
    if not is_ascii(line) or (size > DEEP_LINE and is_deeper(line, DEEP_LINE // 2)):
        return None
    try:
        return decode(line)
    except Exception:  # noqa: BLE001  # read_frame says what is wrong
        return None


def write_frame(frame: Frame) -> bytes:
    """Encode a frame as JSON, without a line feed."""
    line = write_unescaped(frame)
    return encode(frame) if line is None else line


def is_deeper(line: bytes, limit: Count) -> bool:
    """Return whether arrays and objects are nested more than `limit` deep. Brackets inside of strings do not count."""
    size = len(line)
    place = 0
    depth = 0
    while place < size:
        byte = line[place]
        if byte == 34:  # a quotation mark: skip to the end of the string
            place += 1
            while place < size and line[place] != 34:
                place += 2 if line[place] == 92 else 1  # a backslash escapes the next byte
        elif byte == 91 or byte == 123:  # noqa: PLR1714  # [ and {; compiled, two comparisons
            depth += 1
            if depth > limit:
                return True
        elif byte == 93 or byte == 125:  # noqa: PLR1714  # ] and }; likewise
            depth -= 1
        place += 1
    return False


class _Parts(Struct, kw_only=True):
    """A frame whose metadata is not decoded."""

    kind: Kind
    type: TypeName
    data: Raw = Raw(b"{}")
    metadata: Raw


class _Skeleton(Struct):
    """The part of a message that contains its id."""

    metadata: Raw = Raw(b"null")


class _SkeletonMetadata(Struct):
    id: str | None = None


def read_frame(line: bytes, deepest: int = MAX_DEPTH) -> Frame:
    """Decode a line, nested at most `deepest` levels deep.

    Raises:
        InvalidMessageError: it is not a message; says what is wrong, where, and the id of the message if that can be read.
    """
    plain = read_plain(line)
    if plain is not None:
        return plain
    try:
        # The decoder only skips over the data, which is forwarded as it is.
        line.decode()
        if is_deeper(line, deepest):
            raise RecursionError  # as the decoder would, for deeper nesting
        frame: Frame = decode(line)
    except DECODE_ERRORS as error:
        if is_about_fractions(error) and (whole := _read_whole(line)) is not None:
            return whole
        problem, path = split_problem(error, deepest)
        if path == "$.kind":
            problem = f"{problem}; a kind is one of {', '.join(KINDS)}"
        raise InvalidMessageError.of(f"not a message: {problem}", path, _salvage_id(line)) from None
    if len(line) > LONG_LINE and len(line) > 2 * len(frame.data):
        # The data is a view of its line. To keep the data must not mean to keep a megabyte of unknown fields.
        return Frame(kind=frame.kind, type=frame.type, data=frame.data.copy(), metadata=frame.metadata)
    return frame


def split_problem(error: Exception, max_depth: int = MAX_DEPTH) -> tuple[str, str]:
    """Return what a decoder found: the problem, and the path to it (empty if there is none)."""
    if isinstance(error, UnicodeDecodeError):
        return f"not UTF-8: {error.reason} at byte {error.start}", ""
    if isinstance(error, RecursionError):
        return f"nested too deeply: {max_depth} levels are the limit", ""
    problem, _, path = str(error).partition(" - at `")
    if len(problem) > LONGEST_PROBLEM:
        # It quotes the value, which may have a megabyte.
        problem = f"{problem[:LONGEST_PROBLEM]}…"
    if path:
        return problem, path.rstrip("`")
    # A missing field, or a value of the wrong kind, at the top level.
    return problem, "$" if isinstance(error, msgspec.ValidationError) else ""


def _read_whole(line: bytes) -> Frame | None:
    """Decode a line with the whole numbers of its metadata as integers. The data stays as it is."""
    try:
        parts = msgspec.json.decode(line, type=_Parts)
        metadata = msgspec.json.decode(with_whole_numbers(bytes(parts.metadata)), type=Metadata)
    except REWRITE_ERRORS:
        return None
    return Frame(kind=parts.kind, type=parts.type, data=parts.data.copy(), metadata=metadata)


def _salvage_id(line: bytes) -> str | None:
    try:
        skeleton = msgspec.json.decode(line, type=_Skeleton)
        found = msgspec.json.decode(skeleton.metadata, type=_SkeletonMetadata).id
    except DECODE_ERRORS:
        return None
    return found[:200] if found else None


# -- whole numbers ---------------------------------------------------------------------------------------------------------


def is_about_fractions(error: Exception) -> bool:
    """Return whether a decoder found a fraction where it expected something else."""
    # For the tag of a struct, the error names only the expected type.
    return "got `float`" in str(error) or str(error).startswith("Expected `int`")


def with_whole_numbers(line: bytes) -> bytes:
    """Return the same JSON with every whole number as an integer.

    Raises:
        ValueError: it is not JSON, or contains a number that is too large.
    """
    return msgspec.json.encode(json.loads(line, parse_float=_parse_number, parse_constant=_reject_number))


def _reject_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a JSON number")


def _parse_number(text: str) -> int | float:
    try:
        exact = Decimal(text)
    except ArithmeticError:
        # The exponent is too large for a decimal.
        _reject_number(text)
    if exact.adjusted() < LONGEST_NUMBER and exact == exact.to_integral_value():
        return int(exact)
    number = float(text)
    if not isfinite(number):
        _reject_number(text)
    return number


# -- lines -----------------------------------------------------------------------------------------------------------------


class LineSplitter:
    r"""Splits chunks of bytes into lines, without their `\n`.

    Args:
        longest: how many bytes a line may have.
    """

    __slots__ = ("_has_ended", "_is_skipping", "_longest", "_partial", "_rest")

    def __init__(self, longest: Count) -> None:
        self._longest: Count = longest
        self._rest = b""
        # The start of an unfinished line. An array, because it may come one byte at a time.
        self._partial = bytearray()
        # Inside a line that is too long.
        self._is_skipping: Flag = False
        self._has_ended: Flag = False

    def feed(self, chunk: bytes) -> None:
        """Add bytes."""
        self._rest = self._rest + chunk if self._rest else chunk

    def end(self) -> None:
        """No more bytes will come: an unfinished line is complete."""
        self._has_ended = True

    def held(self) -> Count:
        """Return how many bytes are held."""
        return len(self._rest) + len(self._partial)

    def clear(self) -> None:
        """Drop all bytes."""
        self._rest = b""
        self._partial = bytearray()

    def cut(self) -> list[bytes]:
        """Return the next lines, at most `LINES_PER_BATCH`; none if no line is complete. A line that is too long is `OVERLONG`."""
        rest = self._rest
        if not rest and not self._has_ended and len(self._partial) <= self._longest:
            return []
        lines = rest.split(b"\n", LINES_PER_BATCH)
        tail = lines.pop()
        if not lines:
            self._rest = b""
            return self._keep(tail)
        is_all = len(lines) < LINES_PER_BATCH
        may_be_long = len(rest) + len(self._partial) > self._longest
        if self._is_skipping:
            # The end of the line that was too long. An empty line in its place does no harm.
            self._is_skipping = False
            lines[0] = b""
        elif self._partial:
            self._partial += lines[0]
            lines[0] = bytes(self._partial)
            self._partial = bytearray()
        if is_all:
            # The next call checks whether it is too long, after the lines before it have been handled.
            self._partial += tail
            self._rest = b""
        else:
            self._rest = tail
        if may_be_long:
            return [line if len(line) <= self._longest else OVERLONG for line in lines]
        return lines

    def _keep(self, tail: bytes) -> list[bytes]:
        """Keep the start of a line, unless it is the last line or too long."""
        if self._is_skipping:
            return []
        self._partial += tail
        if len(self._partial) > self._longest:
            self._partial = bytearray()
            self._is_skipping = True
            return [OVERLONG]
        if self._has_ended and self._partial:
            last = bytes(self._partial)
            self._partial = bytearray()
            return [last]
        return []
