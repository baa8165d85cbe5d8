"""How much one client may ask of a node, and how many of them an adapter lets in, before they have to wait or are refused."""

from __future__ import annotations

from dataclasses import dataclass

from bandstand.errors import InvalidArgument
from bandstand.errors.formatting import safe_repr

__all__ = ("Limits",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much one client may ask of a node, and how many there may be of them at each adapter that listens.

    Raises:
        InvalidArgument: a value can never work; the message names the field.
    """

    line_bytes: int = 1024 * 1024
    """The longest line; a longer one is answered with an error, and skipped."""
    window: int = 512
    """How many of its requests may be without an answer; it is not read from until there are fewer."""
    write_high: int = 256 * 1024
    """How many bytes of answers may wait for it; it is not read from, and gets no events, until it has taken most of them."""
    write_most: int = 64 * 1024 * 1024
    """How many may wait for it at all: one for which more waits is dropped."""
    connections: int = 1024
    """How many clients an adapter has at a time; one more is answered with `Sys.TooManyConnections`, and let go."""
    strangers: int = 256
    """How many of those who have not shown their token yet it listens to; for one more, the one that has waited longest is let go."""
    handshake_ms: int = 5000
    """How long a stranger has to show its token."""
    half_line_ms: int = 30_000
    """How long a line may take from its beginning to its end, while it is read from; 0 for as long as it likes. Pipes have no such limit."""

    def __post_init__(self) -> None:
        self._check("line_bytes", self.line_bytes, 64, 1 << 30)
        self._check("window", self.window, 1, 1 << 20)
        self._check("write_high", self.write_high, 1, 1 << 30)
        self._check("write_most", self.write_most, 1, 1 << 40)
        self._check("connections", self.connections, 1, 1 << 20)
        self._check("strangers", self.strangers, 1, 1 << 20)
        self._check("handshake_ms", self.handshake_ms, 1, 3_600_000)
        self._check("half_line_ms", self.half_line_ms, 0, 86_400_000)
        if self.write_most < self.write_high:
            raise InvalidArgument(
                f"Limits: write_high is {self.write_high} and write_most is {self.write_most}: the most cannot be less than what is much"
            )

    @staticmethod
    def _check(field: str, value: object, least: int, most: int) -> None:
        if type(value) is not int or not least <= value <= most:
            raise InvalidArgument(
                f"Limits: {field} is {safe_repr(value)}: pass an int from {least} to {most}"
            )
