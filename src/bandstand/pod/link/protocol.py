"""The wire protocol of a link: frames, and the codes in them. Both ends must use the same version.

A frame is a length, a kind, and a body. All bodies are MessagePack, except the bytes of a chunk.

    HELLO     version, pod name, and the remote methods that this end calls, in the order of their codes; once, first
    MESSAGES  messages of one lane, flat: method code and data; an ask has a negative code and its number before the data
    ANSWERS   results of asks, flat: number, outcome and value
    ACKS      how many one-way messages have ended, flat: method code, handled, dead, dropped
    CHUNK     part of a large buffer: its number, its total size, whether it is immutable, and the bytes
    END       a role that has to stop, and how
    BYE       why this end closes the link, whether it has reported everything, and whether it has failed; last
    PING      a number; the other end returns it in a PONG
    BUSY      an ask has reached an actor that waits for another process (see `wait_probes`)
    PROBE     follows an ask to find a cycle of waits
    SERVE     handle an ask out of turn, because it is part of a cycle and its method is reentrant
"""

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
    "CHUNK_HEADER",
    "DRAIN",
    "DROPPED",
    "END",
    "FAILED",
    "HEADER",
    "HELLO",
    "KILL",
    "LANES",
    "LOST",
    "MAX_FRAME",
    "MESSAGES",
    "PING",
    "PONG",
    "PROBE",
    "SERVE",
    "STOP",
    "VERSION",
    "WITHDRAWN",
    "frame",
)

VERSION: Final = 1

# Kinds of frames.
HELLO: Final = 1
MESSAGES: Final = 2
ANSWERS: Final = 3
ACKS: Final = 4
CHUNK: Final = 5
BYE: Final = 6
END: Final = 7
PING: Final = 8
PONG: Final = 9
BUSY: Final = 10
PROBE: Final = 11
SERVE: Final = 12

# Before each frame, and before the bytes of a chunk.
HEADER: Final = Struct("<IB")
CHUNK_HEADER: Final = Struct("<IQB")
# No sender comes near this limit: a longer frame means that the peer speaks another protocol.
MAX_FRAME: Final = 16_777_216

# How a role has to stop: now, after the messages it has, or killed.
STOP: Final = 0
DRAIN: Final = 1
KILL: Final = 2

# In the place of a method code: the ask with this number is cancelled.
CANCEL: Final = 0

# The outcome of an ask.
ANSWERED: Final = 0
FAILED: Final = 1
LOST: Final = 2
DROPPED: Final = 3
WITHDRAWN: Final = 4

# The lanes of a write queue. Answers use the place of the system lane, ahead of all messages.
LANES: Final = 4
ANSWER_LANE: Final = 0


def frame(kind: int, body: bytes) -> bytes:
    """Return a frame with this body."""
    return HEADER.pack(len(body), kind) + body
