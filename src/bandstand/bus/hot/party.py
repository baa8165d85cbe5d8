"""A client, as far as its answers come by."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from bandstand.bus.frame import Frame
    from bandstand.bus.ports import Line

Flag: TypeAlias = bool


class Party:
    """Whoever is at the other end of a line, from when it opens until it closes."""

    __slots__ = ("is_open", "line")

    def __init__(self, line: Line) -> None:
        self.line = line
        self.is_open: Flag = True

    def settle(self, frame: Frame, settles: Flag) -> Flag:
        """Write an answer to it; False if it is gone."""
        # A line that does not tell is taken to have written it.
        return self.is_open and self.line.deliver(frame, settles) is not False
