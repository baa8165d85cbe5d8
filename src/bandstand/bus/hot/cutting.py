r"""Bytes cut into lines, at the cost of a split.

Bytes come in chunks that know nothing of lines. They are cut some hundreds of lines at a time and not all at once: what waits to be
handled is then one chunk as it came, and not a hundred thousand little objects. The beginning of a line whose end has not come is
kept; when it gets too long it is given up at once, and the rest of that line is dropped as it comes. So a line of a gigabyte takes
no more memory than the longest that is allowed, and one chunk.
"""

from __future__ import annotations

from typing import TypeAlias

from bandstand.bus.numbers import BATCH, OVERLONG

Count: TypeAlias = int
Flag: TypeAlias = bool


class Cutter:
    r"""Takes chunks and gives lines, without their `\n`.

    Args:
        longest: how many bytes a line may have.
    """

    __slots__ = ("_has_ended", "_is_skipping", "_longest", "_partial", "_rest")

    def __init__(self, longest: Count) -> None:
        self._longest: Count = longest
        self._rest = b""
        # The beginning of a line. An array, because it may come a byte at a time.
        self._partial = bytearray()
        # Inside a line that is too long.
        self._is_skipping: Flag = False
        self._has_ended: Flag = False

    def feed(self, chunk: bytes) -> None:
        """Some more bytes."""
        self._rest = self._rest + chunk if self._rest else chunk

    def end(self) -> None:
        """No more bytes: what has come of the last line is all of it."""
        self._has_ended = True

    def held(self) -> Count:
        """How many bytes are kept."""
        return len(self._rest) + len(self._partial)

    def clear(self) -> None:
        """Forget everything that was fed."""
        self._rest = b""
        self._partial = bytearray()

    def cut(self) -> list[bytes]:
        """The next lines, at most `BATCH` of them; none if no further line is complete."""
        rest = self._rest
        if not rest and not self._has_ended and len(self._partial) <= self._longest:
            return []
        lines = rest.split(b"\n", BATCH)
        tail = lines.pop()
        if not lines:
            self._rest = b""
            return self._keep(tail)
        is_all = len(lines) < BATCH
        may_be_long = len(rest) + len(self._partial) > self._longest
        if self._is_skipping:
            # Here ends the line that was too long. An empty one in its place does no harm.
            self._is_skipping = False
            lines[0] = b""
        elif self._partial:
            self._partial += lines[0]
            lines[0] = bytes(self._partial)
            self._partial = bytearray()
        if is_all:
            # Whether it is too long already is asked when the lines before it have been handled.
            self._partial += tail
            self._rest = b""
        else:
            self._rest = tail
        if may_be_long:
            return [line if len(line) <= self._longest else OVERLONG for line in lines]
        return lines

    def _keep(self, tail: bytes) -> list[bytes]:
        """Keep the beginning of a line, unless it is known to be a line already, or to be too long for one."""
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
