"""What is written to one client: frames become lines, and the lines of one burst one write.

A frame that goes to many is written as JSON once: the last one that was no answer is remembered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from bandstand.bus.hot.lines import write_frame

if TYPE_CHECKING:
    from bandstand.bus.frame import Frame
    from bandstand.bus.hot.intake import Intake

Count: TypeAlias = int
Flag: TypeAlias = bool


class Memo:
    """The last event that was written, and its line."""

    __slots__ = ("last",)

    def __init__(self) -> None:
        # The two as one: nodes of two threads may write at the same time.
        self.last: tuple[Frame, bytes] | None = None


MEMO = Memo()


def write_event(frame: Frame) -> bytes:
    """Write a frame that others get too."""
    memo = MEMO
    last = memo.last
    if last is not None and last[0] is frame:
        return last[1]
    line = write_frame(frame)
    memo.last = (frame, line)
    return line


class Outbox:
    """The way out of one line."""

    __slots__ = ("has_left", "intake", "is_gone", "is_unread", "is_woken", "out", "out_bytes", "write_high")

    def __init__(self, intake: Intake, write_high: Count) -> None:
        self.intake = intake
        self.write_high: Count = write_high
        # What was delivered and not written yet.
        self.out: list[bytes] = []
        self.out_bytes: Count = 0
        # Nothing more can be written to it.
        self.is_gone: Flag = False
        # It will be called soon.
        self.is_woken: Flag = False
        # It is not read from, now or any more: so nothing tells that it has left, if it has.
        self.is_unread: Flag = False
        # It has left: nobody reads what is written.
        self.has_left: Flag = False

    def deliver(self, frame: Frame, settles: Flag) -> bool:
        """Write a frame to the client, soon. False if it has left."""
        # Looked at once for all that is delivered in one turn of the event loop.
        if self.is_gone or self.has_left or (self.is_unread and not self.is_woken and self.look()):
            if settles:
                self.intake.settle(0)
            if not self.is_gone and not self.is_woken:
                # What it has said before it left is still handed in.
                self.resume()
            return False
        if settles:
            line = write_frame(frame)
            self.intake.settle(len(line))
        else:
            line = write_event(frame)
        self.out.append(line)
        self.out_bytes += len(line)
        if self.out_bytes > self.write_high:
            # So much at once must not wait: only the transport can tell that it is too much.
            self.flush()
        if not self.is_woken:
            self.resume()
        return True

    def look(self) -> Flag:
        """Look whether the client has left; True if it has."""
        raise NotImplementedError  # a hook: who derives from this fills it in

    def flush(self) -> None:
        """Write what was delivered."""
        raise NotImplementedError  # a hook: who derives from this fills it in

    def resume(self) -> None:
        """Go on with what was not handed in, soon."""
        raise NotImplementedError  # a hook: who derives from this fills it in
