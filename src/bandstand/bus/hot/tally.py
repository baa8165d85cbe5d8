"""Counters. What each of them counts is said where they are read: `Stats`."""

from __future__ import annotations

from typing import TypeAlias

Count: TypeAlias = int


class Tally:
    """What a router has counted so far."""

    __slots__ = (
        "abandoned",
        "admitted",
        "answered",
        "conflicting",
        "crashes",
        "deliveries",
        "events",
        "expired",
        "joined",
        "lagged",
        "late",
        "refused",
        "repeated",
        "restarts",
        "retries",
        "sunk",
        "timers_cancelled",
        "timers_fired",
        "timers_scheduled",
        "unclaimed",
        "undelivered",
        "withdrawn",
    )

    def __init__(self) -> None:
        self.abandoned: Count = 0
        self.admitted: Count = 0
        self.answered: Count = 0
        self.conflicting: Count = 0
        self.crashes: Count = 0
        self.deliveries: Count = 0
        self.events: Count = 0
        self.expired: Count = 0
        self.joined: Count = 0
        self.lagged: Count = 0
        self.late: Count = 0
        self.refused: Count = 0
        self.repeated: Count = 0
        self.restarts: Count = 0
        self.retries: Count = 0
        self.sunk: Count = 0
        self.timers_cancelled: Count = 0
        self.timers_fired: Count = 0
        self.timers_scheduled: Count = 0
        self.unclaimed: Count = 0
        self.undelivered: Count = 0
        self.withdrawn: Count = 0
