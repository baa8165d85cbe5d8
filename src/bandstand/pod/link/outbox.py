"""What is to be written next: acknowledgements and answers, then messages by their lanes, then a chunk of something large.

Nothing is encoded before it can be written. While the other side does not read, messages wait here as they are, and one of a higher
lane that comes later still goes first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Final, TypeAlias, final

from bandstand.pod.link.codec import Packet, encode
from bandstand.pod.link.frames import ACKS, ANSWERS, CHUNK, CHUNK_HEAD, HEAD, MESSAGES, framed
from bandstand.pod.link.streams import Departures

__all__ = ("ANSWER_LANE", "Outbox", "Piece", "Writing")

# Where answers stand, before all messages: the place that the system has in mailboxes.
ANSWER_LANE: Final = 0
LANES: Final = (ANSWER_LANE, 1, 2, 3)
# Of how many entries and bytes a frame is made, more or less: small enough for others to come in between, large enough to be cheap.
MOST_ENTRIES: Final = 512
MOST_BYTES: Final = 65_536
# How much is made ready at a time.
BATCH: Final = 131_072

Flat: TypeAlias = list[Any]
"""Messages or answers, one after the other, each of them a few entries: what they hold is the user's."""


@final
class Piece:
    """What will be one frame."""

    __slots__ = ("flat", "weight")

    def __init__(self) -> None:
        self.flat: Flat = []
        self.weight = 0


@final
class Writing:
    """Something that is being written: the buffers, and the pieces of messages in them with the offsets where they end."""

    __slots__ = ("buffers", "pieces")

    def __init__(self, buffers: list[bytes | memoryview], pieces: list[tuple[int, Piece]]) -> None:
        self.buffers = buffers
        self.pieces = pieces


class Outbox:
    """What is to be written.

    Args:
        acks: gives the acknowledgements that are due, flat, and forgets them.
        hurry: called when a piece is full: it need not wait for the end of the turn.
    """

    __slots__ = (
        "_acks",
        "_departing",
        "_departures",
        "_full",
        "_hurry",
        "_last",
        "_next_stream",
        "_open",
        "_preface",
        "is_ready",
    )

    def __init__(self, acks: Callable[[], Flat], hurry: Callable[[], None]) -> None:
        self._acks = acks
        self._hurry = hurry
        # Whether there may be something to take.
        self.is_ready = False
        # The pieces of each lane that are full, and the one that is not.
        self._full: list[deque[Piece]] = [deque() for _ in LANES]
        self._open: list[Piece] = [Piece() for _ in LANES]
        self._departures = [Departures() for _ in LANES]
        # How many messages have parts under way.
        self._departing = 0
        self._next_stream = 0
        self._preface: list[bytes] = []
        self._last: bytes | None = None

    def preface(self, frame: bytes) -> None:
        """Have a frame written before everything else."""
        self.is_ready = True
        self._preface.append(frame)

    def flat(self, lane: int) -> Flat:
        """Where the next message of a lane is to be appended, all of its entries at once."""
        self.is_ready = True
        piece = self._open[lane]
        if len(piece.flat) >= MOST_ENTRIES or piece.weight >= MOST_BYTES:
            self._full[lane].append(piece)
            self._open[lane] = Piece()
            # Others may come in here, whose parts are written by now: they have their own order.
            self._hurry()
            piece = self._open[lane]
        return piece.flat

    def weigh(self, lane: int, packet: Packet) -> None:
        """Count the bytes of a packet that was appended to a lane."""
        self._open[lane].weight += packet.weight

    def depart(self, lane: int, packet: Packet, last: Callable[[], None]) -> None:
        """Send the parts of a packet; `last` is called when it is the packet's own turn."""
        first = self._next_stream
        self._next_stream += len(packet.parts)
        packet.streams = tuple(range(first, self._next_stream))
        self._departures[lane].add(packet.streams, packet.parts, last)
        self._departing += 1
        self.is_ready = True
        # Whoever keeps the packet does not keep what may be the largest thing in memory.
        packet.parts = ()

    def take(self) -> Writing | None:
        """Something to write; None if there is nothing."""
        if not self.is_ready:
            return None
        frames: list[bytes] = []
        if self._preface:
            frames, self._preface = self._preface, frames
        acks = self._acks()
        if acks:
            frames.append(framed(ACKS, encode(acks)))
        size = sum(map(len, frames)) if frames else 0
        pieces: list[tuple[int, Piece]] = []
        for lane in LANES:
            while (self._full[lane] or self._open[lane].flat) and size < BATCH:
                piece = self._take_piece(lane)
                frame = framed(MESSAGES if lane else ANSWERS, encode(piece.flat))
                frames.append(frame)
                size += len(frame)
                if lane != ANSWER_LANE:
                    pieces.append((size, piece))
        # A batch that is full has left something, perhaps; whoever has parts under way has more.
        self.is_ready = size >= BATCH or self._departing > 0
        if self._last is not None and size < BATCH:
            frames.append(self._last)
            self._last = None
        buffers: list[bytes | memoryview] = []
        if frames:
            buffers.append(frames[0] if len(frames) == 1 else b"".join(frames))
        if self._departing and size < BATCH:
            self._take_chunk(buffers)
        return Writing(buffers, pieces) if buffers else None

    def _take_piece(self, lane: int) -> Piece:
        if self._full[lane]:
            return self._full[lane].popleft()
        piece = self._open[lane]
        self._open[lane] = Piece()
        return piece

    def _take_chunk(self, buffers: list[bytes | memoryview]) -> None:
        departures = next(each for each in self._departures if each)
        stream, chunk = departures.take()
        head = CHUNK_HEAD.pack(stream.number, stream.size, stream.is_frozen)
        buffers.append(HEAD.pack(len(head) + chunk.nbytes, CHUNK) + head)
        buffers.append(chunk)
        if stream.is_over and stream.last is not None:
            self._departing -= 1
            stream.last()

    def seal(self, last: bytes) -> list[Piece]:
        """Write no message any more, only acknowledgements, answers, and this frame as the last; the pieces that were not taken."""
        left = [
            piece for lane in LANES if lane != ANSWER_LANE for piece in (*self._full[lane], self._open[lane])
        ]
        self._full = [self._full[ANSWER_LANE], *(deque() for _ in LANES[1:])]
        self._open = [self._open[ANSWER_LANE], *(Piece() for _ in LANES[1:])]
        self._departing = 0
        self.is_ready = True
        self._last = last
        return left
