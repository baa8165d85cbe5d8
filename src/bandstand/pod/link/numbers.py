"""The numbers of a link: what the other side is told in their place. Both ends must have the same."""

from __future__ import annotations

from struct import Struct
from typing import Final

__all__ = (
    "ACKS",
    "ANSWERED",
    "ANSWERS",
    "ANSWER_LANE",
    "BUSY",
    "BYE",
    "CANCEL",
    "CHUNK",
    "CHUNK_HEAD",
    "DRAIN",
    "DROPPED",
    "END",
    "FAILED",
    "HEAD",
    "HELLO",
    "KILL",
    "LONGEST",
    "LOST",
    "MESSAGES",
    "PING",
    "PONG",
    "PROBE",
    "SERVE",
    "STOP",
    "WITHDRAWN",
)

# The kinds of frames.
HELLO: Final = 1
MESSAGES: Final = 2
ANSWERS: Final = 3
ACKS: Final = 4
CHUNK: Final = 5
BYE: Final = 6
END: Final = 7
PING: Final = 8
PONG: Final = 9
# The three that find cycles of asks: an ask has met an actor that waits; whom does that one wait for; handle an ask out of turn.
BUSY: Final = 10
PROBE: Final = 11
SERVE: Final = 12

# Before each frame; and before the bytes of a chunk.
HEAD: Final = Struct("<IB")
CHUNK_HEAD: Final = Struct("<IQB")
# Far above what a frame can have: whoever says more speaks another language.
LONGEST: Final = 16_777_216

# How a role is to end: at once, when it has handled what it has, or without being asked.
STOP: Final = 0
DRAIN: Final = 1
KILL: Final = 2

# In a method's place: the ask of that number is taken back.
CANCEL: Final = 0

# What an ask ended with.
ANSWERED: Final = 0
FAILED: Final = 1
LOST: Final = 2
DROPPED: Final = 3
WITHDRAWN: Final = 4

# Where answers stand, before all messages: the place that the system has in mailboxes.
ANSWER_LANE: Final = 0
