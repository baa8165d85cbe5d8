"""The limits of an adapter: how much one client may use, and how many clients there may be."""

from __future__ import annotations

from dataclasses import dataclass

from bandstand.errors import InvalidArgumentError
from bandstand.errors.formatting import safe_repr
from bandstand.errors.validation import Seconds, to_seconds

__all__ = ("Limits",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits for each client of an adapter, and for the number of clients. Durations are kept in seconds, as floats.

    Raises:
        InvalidArgumentError: a value is out of range; the message names the field.
    """

    line_bytes: int = 1024 * 1024
    """The maximum length of a line; a longer one is skipped and answered with an error."""
    window: int = 512
    """The maximum number of requests without a reply; at the limit the adapter does not read from the client."""
    write_high: int = 256 * 1024
    """The unsent bytes above which the adapter does not read from the client, and sends it no events, until most are sent."""
    write_most: int = 64 * 1024 * 1024
    """The maximum number of unsent bytes; a client with more is disconnected."""
    connections: int = 1024
    """The maximum number of clients of an adapter; one more gets `Sys.TooManyConnections` and is disconnected."""
    unauthenticated: int = 256
    """The maximum number of unauthenticated connections where a token is required; over the limit the oldest one is dropped."""
    handshake_timeout: Seconds = 5.0
    """The seconds that a connection has to send its token."""
    line_timeout: Seconds = 30.0
    """The time for one line in seconds, from its first byte to its last, while the adapter reads from the client; 0 for no limit. Pipes have no limit."""

    def __post_init__(self) -> None:
        self._check("line_bytes", self.line_bytes, 64, 1 << 30)
        self._check("window", self.window, 1, 1 << 20)
        self._check("write_high", self.write_high, 1, 1 << 30)
        self._check("write_most", self.write_most, 1, 1 << 40)
        self._check("connections", self.connections, 1, 1 << 20)
        self._check("unauthenticated", self.unauthenticated, 1, 1 << 20)
        handshake_timeout = to_seconds(
            "Limits: handshake_timeout", self.handshake_timeout, is_zero_allowed=False, most=3_600_000
        )
        object.__setattr__(self, "handshake_timeout", handshake_timeout)
        line_timeout = to_seconds("Limits: line_timeout", self.line_timeout, most=86_400_000)
        object.__setattr__(self, "line_timeout", line_timeout)
        if self.write_most < self.write_high:
            raise InvalidArgumentError(
                f"Limits: write_most is {self.write_most}: pass at least write_high, which is {self.write_high}"
            )

    @staticmethod
    def _check(field: str, value: object, least: int, most: int) -> None:
        if type(value) is not int or not least <= value <= most:
            raise InvalidArgumentError(
                f"Limits: {field} is {safe_repr(value)}: pass an int from {least} to {most}"
            )
