"""What is to be written next: acknowledgements and answers, then messages by their lanes, then a chunk of something large.

Nothing is encoded before it can be written. While the other side does not read, messages wait here as they are, and one of a higher
lane that comes later still goes first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, TypeAlias

from bandstand.pod.link.codec import Packet, encode
from bandstand.pod.link.hot.plain import plain_weight
from bandstand.pod.link.numbers import ACKS, ANSWER_LANE, ANSWERS, CHUNK, CHUNK_HEAD, HEAD, MESSAGES
from bandstand.pod.link.streams import Departures

LANES = 4
# Of how many entries and bytes a frame is made, more or less: small enough for others to come in between, large enough to be cheap.
MOST_ENTRIES = 512
MOST_BYTES = 65_536
# How much is made ready at a time.
BATCH = 131_072

Count: TypeAlias = int
LaneNumber: TypeAlias = int
Flat: TypeAlias = list[Any]
"""Messages or answers, one after the other, each of them a few entries: what they hold is the user's."""


def framed(kind: Count, body: bytes) -> bytes:
    """A frame."""
    return HEAD.pack(len(body), kind) + body


class Piece:
    """What will be one frame. `weight` is how many bytes its messages take, more or less."""

    __slots__ = ("flat", "weight")

    def __init__(self) -> None:
        self.flat: Flat = []
        self.weight: Count = 0


class Writing:
    """Something that is being written: the buffers, and the pieces of messages in them with the offsets where they end."""

    __slots__ = ("buffers", "pieces")

    def __init__(self, buffers: list[bytes | memoryview], pieces: list[tuple[int, Piece]]) -> None:
        self.buffers = buffers
        self.pieces = pieces


class Tray:
    """What is to be written."""

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

    def __init__(self) -> None:
        self._acks: Callable[[], Flat] = list
        self._hurry: Callable[[], object] = list
        # Whether there may be something to take.
        self.is_ready = False
        # The pieces of each lane that are full, and the one that is not.
        self._full: list[deque[Piece]] = [deque() for _ in range(LANES)]
        self._open: list[Piece] = [Piece() for _ in range(LANES)]
        self._departures = [Departures() for _ in range(LANES)]
        # How many messages have parts under way.
        self._departing: Count = 0
        self._next_stream: Count = 0
        self._preface: list[bytes] = []
        self._last: bytes | None = None

    def join(self, acks: Callable[[], Flat], hurry: Callable[[], object]) -> None:
        """Join it with the rest of its link.

        Args:
            acks: gives the acknowledgements that are due, flat, and forgets them.
            hurry: called when a piece is full: it need not wait for the end of the turn.
        """
        self._acks = acks
        self._hurry = hurry

    def preface(self, frame: bytes) -> None:
        """Have a frame written before everything else."""
        self.is_ready = True
        self._preface.append(frame)

    def flat(self, lane: LaneNumber) -> Flat:
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

    def weigh(self, lane: LaneNumber, data: object) -> None:
        """Count the bytes of data that were appended to a lane: a frame is closed before it has too many."""
        piece = self._open[lane]
        piece.weight += data.weight if type(data) is Packet else plain_weight(data)

    def depart(self, lane: LaneNumber, packet: Packet, last: Callable[[], None]) -> None:
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
        size = 0
        for frame in frames:
            size += len(frame)
        pieces: list[tuple[int, Piece]] = []
        lane = ANSWER_LANE
        while lane < LANES:
            while size < BATCH and self.has_piece(lane):
                piece = self.take_piece(lane)
                frame = framed(MESSAGES if lane else ANSWERS, encode(piece.flat))
                frames.append(frame)
                size += len(frame)
                if lane != ANSWER_LANE:
                    pieces.append((size, piece))
            lane += 1
        # A batch that is full has left something, perhaps; whoever has parts under way has more.
        self.is_ready = size >= BATCH or self._departing > 0
        if self._last is not None and size < BATCH:
            frames.append(self._last)
            self._last = None
        buffers: list[bytes | memoryview] = []
        if frames:
            buffers.append(frames[0] if len(frames) == 1 else b"".join(frames))
        if self._departing and size < BATCH:
            self.take_chunk(buffers)
        return Writing(buffers, pieces) if buffers else None

    def has_piece(self, lane: LaneNumber) -> bool:
        """Whether something of a lane waits."""
        piece = self._open[lane]
        return len(piece.flat) > 0 or len(self._full[lane]) > 0

    def take_piece(self, lane: LaneNumber) -> Piece:
        """The next piece of a lane that has one."""
        if len(self._full[lane]) > 0:
            return self._full[lane].popleft()
        piece = self._open[lane]
        self._open[lane] = Piece()
        return piece

    def take_chunk(self, buffers: list[bytes | memoryview]) -> None:
        """One chunk of the most urgent lane that has any."""
        lane = ANSWER_LANE
        while not self._departures[lane]:
            lane += 1
        stream, chunk = self._departures[lane].take()
        head = CHUNK_HEAD.pack(stream.number, stream.size, stream.is_frozen)
        buffers.append(HEAD.pack(len(head) + chunk.nbytes, CHUNK) + head)
        buffers.append(chunk)
        if stream.is_over and stream.last is not None:
            self._departing -= 1
            stream.last()

    def seal(self, last: bytes) -> list[Piece]:
        """Write no message any more, only acknowledgements, answers, and this frame as the last; the pieces that were not taken."""
        left: list[Piece] = []
        for lane in range(ANSWER_LANE + 1, LANES):
            left += self._full[lane]
            left.append(self._open[lane])
            self._full[lane] = deque()
            self._open[lane] = Piece()
        self._departing = 0
        self.is_ready = True
        self._last = last
        return left
