"""One thing that one capability handles: what the indexes of the router lead to."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from bandstand.bus.contracts.blueprint import Entry
    from bandstand.bus.seat import Seat

Count: TypeAlias = int
Flag: TypeAlias = bool


class Route:
    """A (kind, type) with the capability that handles it, and what is needed on the way, looked up once."""

    __slots__ = (
        "entry",
        "method",
        "place",
        "read",
        "remembers",
        "reply",
        "retry",
        "seat",
        "shape",
        "timeout_ms",
        "type",
    )

    def __init__(self, seat: Seat, entry: Entry, place: Count, timeout_ms: Count, remembers: Flag) -> None:
        self.seat = seat
        self.entry = entry
        self.type = entry.type
        # Its number among the routes of its capability.
        self.place = place
        # Decodes data into the capability's own type.
        self.read = entry.payload.read
        self.shape = entry.shape
        self.method = entry.method
        self.reply = entry.reply
        self.timeout_ms = timeout_ms
        # When it is tried again; None for never.
        self.retry = entry.retry
        # Whether a request with an id that was used is the same request.
        self.remembers = remembers and entry.is_remembered
