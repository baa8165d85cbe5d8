"""One client over standard input and output, or any other pair of descriptors: pipes, files and terminals alike.

This is how a node is used in a pipeline: `bandstand serve --batch < questions > answers`.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, final

from bandstand.bus.adapters.descriptors import DescriptorTransport
from bandstand.bus.adapters.limits import Limits
from bandstand.bus.adapters.lines import Lines
from bandstand.bus.adapters.ndjson import NdjsonLine
from bandstand.errors import CannotListen, InvalidArgument
from bandstand.errors.formatting import safe_repr, safe_str

if TYPE_CHECKING:
    from bandstand.bus.ports import Ingress

__all__ = ("PipeAdapter",)


@final
class PipeAdapter:
    """NDJSON from one descriptor, and answers to another.

    When its input has ended it stays for what is still to be said: the answers, and what timers bring about.

    Args:
        reader: what to read from; standard input by default.
        writer: what to write to; standard output by default.
        limits: how much may be asked at a time.

    Raises:
        InvalidArgument: a descriptor is no number.
    """

    def __init__(self, reader: int = 0, writer: int = 1, *, limits: Limits | None = None) -> None:
        for field, value in (("reader", reader), ("writer", writer)):
            if type(value) is not int or value < 0:
                raise InvalidArgument(f"{field} is {safe_repr(value)}: pass the number of a descriptor")
        if limits is not None and not isinstance(limits, Limits):
            raise InvalidArgument(f"limits is {safe_repr(limits)}: pass Limits(...)")
        self.limits = limits or Limits()
        self._reader = reader
        self._writer = writer
        self._lines: Lines | None = None
        self._transport: DescriptorTransport | None = None

    @property
    def write_error(self) -> OSError | None:
        """Why answers were lost: the descriptor could not be written to. None if none were, or if the reader has gone."""
        return None if self._transport is None else self._transport.write_error

    @property
    def name(self) -> str:
        """Where it is: `stdio`, or the numbers of its descriptors."""
        standard = self._reader == 0 and self._writer == 1
        return "stdio" if standard else f"pipe:{self._reader},{self._writer}"

    @property
    def can_produce(self) -> bool:
        """Whether anything can still come in by it: no more once the input has ended and all of it was handed in."""
        return self._lines is not None and self._lines.can_produce

    @property
    def is_flushed(self) -> bool:
        """Whether all that was delivered has been written out."""
        return self._lines is None or self._lines.is_flushed

    async def start(self, ingress: Ingress) -> None:
        """Begin to read.

        Raises:
            CannotListen: a descriptor is not open, or is of a kind that nobody can wait for.
        """
        if self._lines is not None:
            raise InvalidArgument(f"{self.name} has been started already: close it first")
        for descriptor in (self._reader, self._writer):
            try:
                os.fstat(descriptor)
            except OSError as error:
                raise CannotListen(f"cannot use {self.name}: descriptor {descriptor} is not open") from error
        lines = Lines()
        line = NdjsonLine(
            ingress, self.limits, self.name, is_welcome=lines.is_welcome, end=lines.end, closes_at_eof=False
        )
        lines.add(line)
        transport = DescriptorTransport(self._reader, self._writer, line)
        try:
            transport.start()
        except OSError as error:
            transport.abort()
            await lines.close(0)
            raise CannotListen(
                f"cannot use {self.name}: descriptor {self._reader} cannot be watched: {safe_str(error)}"
            ) from error
        self._lines, self._transport = lines, transport

    async def stop(self) -> None:
        """Take in nothing more."""
        if self._lines is not None:
            self._lines.stop()

    async def close(self, within_s: float) -> None:
        """Write out what was delivered, for at most so long; the descriptors stay open."""
        try:
            if self._lines is not None:
                await self._lines.close(within_s)
        finally:
            self._lines = None
