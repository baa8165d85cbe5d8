"""What one client says, on its way in: bytes become lines, lines become messages, and messages are handed in on credit.

Each line is read only when it can be handed in, without a task, a future or a queue; what cannot be stays as it came. There are
three reasons not to go on:

- **credit**: as many requests as `Limits.window` allows have no answer yet.
- **room**: the node would not take the last message.
- **writing**: the client does not take its answers, so it gets no chance to cause more of them.

And after some hundreds of lines others have their turn.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from bandstand.bus.hot.cutting import Cutter
from bandstand.bus.hot.fields import kind_of
from bandstand.bus.hot.lines import read_plain
from bandstand.bus.numbers import ANSWER_BYTES, FIRST_WINDOW, OVERLONG
from bandstand.errors import BadMessage

if TYPE_CHECKING:
    from bandstand.bus.frame import Frame
    from bandstand.bus.ports import Ingress, Line

# What a request of HTTP's begins with, or one of its lines that none is without.
HTTP = re.compile(rb"(?i)(?:[a-z]+ \S+ http/1\.[01]|host: ?\S+)\r?$")

Count: TypeAlias = int
Flag: TypeAlias = bool


class Intake:
    """The way in of one line.

    `in_flight` is how many of its requests have no answer yet; `is_stopped`, whether nothing more is taken in;
    `is_foreign`, whether it has turned out that the client speaks something else.

    Args:
        line: whose.
        ingress: where messages are handed in.
        window: how many requests may be without an answer.
        line_bytes: how long a line may be.
        read: reads a line that is not plainly a message, and says what is wrong with it.
    """

    __slots__ = (
        "_admit",
        "_at",
        "_batch",
        "_cutter",
        "_has_spoken",
        "_allowed",
        "_held",
        "_ingress",
        "_largest",
        "_line",
        "_read",
        "_window",
        "in_flight",
        "is_foreign",
        "is_stopped",
        "is_writable",
        "line_bytes",
    )

    def __init__(
        self, line: Line, ingress: Ingress, window: Count, line_bytes: Count, read: Callable[[bytes], Frame]
    ) -> None:
        self._line = line
        self._ingress = ingress
        # Looked up once: it is called for every message.
        self._admit = ingress.admit
        self._window: Count = window
        self.line_bytes: Count = line_bytes
        self._read = read
        self.in_flight: Count = 0
        # How many may be without an answer now: a client that has shown that it takes its answers may have more. And how
        # large an answer to it was of late.
        self._allowed: Count = min(window, FIRST_WINDOW)
        self._largest: Count = 0
        self.is_stopped: Flag = False
        self.is_foreign: Flag = False
        # Whether the client takes what is written to it.
        self.is_writable: Flag = True
        # Whether a message has come from it.
        self._has_spoken: Flag = False
        # What was read, in the order in which it is handed in: the message that there was no room for, the lines that were
        # cut already, from `_at` on, and the bytes that were not.
        self._held: Frame | None = None
        self._batch: list[bytes] = []
        self._at: Count = 0
        self._cutter = Cutter(line_bytes)

    def feed(self, chunk: bytes) -> None:
        """Some more bytes."""
        if not self.is_stopped:
            self._cutter.feed(chunk)

    def end(self) -> None:
        """No more bytes: what has come of the last line is all of it."""
        self._cutter.end()

    def stop(self) -> None:
        """Take in nothing more, not even what was read already."""
        self.is_stopped = True
        self._held = None
        self._batch = []
        self._at = 0
        self._cutter.clear()

    def hand_in(self) -> Flag:
        """Hand in what was read. False if there may be more of it, for which it is not the time now."""
        return self._hand_in_held() and self._hand_in_lines()

    def _hand_in_lines(self) -> Flag:
        line = self._line
        is_first = True
        while self._has_credit():
            while self._at < len(self._batch):
                text = self._batch[self._at]
                self._at += 1
                frame = read_plain(text)
                if frame is None and (frame := self._read_closely(text)) is None:
                    # It was no message; the client has been told.
                    if self.is_stopped:
                        return False
                    continue
                self._has_spoken = True
                # Counted before it is handed in: the answer may come before `admit` is back.
                kind = kind_of(frame)
                is_request = kind == "command" or kind == "query"  # noqa: PLR1714  # compiled, two comparisons
                self.in_flight += is_request
                if not self._admit(line, frame):
                    self.in_flight -= is_request
                    self._held = frame
                    return False
                if not self._has_credit():
                    return False
            self._batch = self._cutter.cut()
            self._at = 0
            if not self._batch:
                return True
            if not is_first:
                # So much for now: others are to have their turn.
                line.resume()
                break
            is_first = False
        return False

    def _read_closely(self, text: bytes) -> Frame | None:
        """Read a line that is not plainly a message; None if it is none."""
        if not text or text.isspace():
            return None
        if not self._has_spoken and HTTP.match(text):
            # A web page has had its browser post something to a port of this machine. What follows is not meant for us.
            self.is_foreign = True
            self._ingress.refuse(
                self._line, BadMessage.of("not a message: this is no web server; the connection is closed")
            )
            self.stop()
            return None
        try:
            if text is OVERLONG:
                raise BadMessage.of(
                    f"not a message: the line has more than {self.line_bytes} bytes, which is the limit here; it was skipped"
                )
            return self._read(text)
        except BadMessage as problem:
            self._ingress.refuse(self._line, problem)
        return None

    def _hand_in_held(self) -> Flag:
        """Hand in again what the node had no room for, if there is something. False if it still has none."""
        frame = self._held
        if frame is None:
            return True
        if not self._has_credit():
            return False
        is_request = frame.is_request
        self.in_flight += is_request
        if self._ingress.admit(self._line, frame):
            self._held = None
            return True
        self.in_flight -= is_request
        return False

    def settle(self, size: Count) -> None:
        """A request has had its answer, of so many bytes."""
        self.in_flight -= 1
        if self._allowed < self._window:
            self._allowed += 1
        # The largest counts, and is forgotten by and by.
        self._largest = size if size >= self._largest else self._largest - self._largest // 16

    def _has_credit(self) -> Flag:
        return (
            self.in_flight < self._allowed
            and (self.in_flight == 0 or self.in_flight * self._largest < ANSWER_BYTES)
            and self.is_writable
            and not self.is_stopped
        )
