"""One end of a socket on the running event loop: what is queued for it, and how its bytes become frames.

Three parts. A `WriteQueue` holds what is not written yet and decides what goes next: acknowledgements and answers, then
messages by lane, then a chunk of a large buffer. Nothing is encoded before the socket takes it, so an urgent message that
comes late still overtakes data that waits. A `FrameReader` splits the received bytes into frames. The `Transport` owns the
socket: it writes once for everything that one turn of the event loop has queued, and reads and writes a limited number of
bytes per turn, so a flood does not block the thread.

Large buffers are sent in chunks, so that other messages fit between them. A message follows when all its buffers are sent. The
bytes of a chunk are received where they stay; with them, only the header of the next frame is received, so that the bytes of the
next chunk are not copied either.

Refused: a thread for the socket, whose handover costs more than the write; asyncio's streams, which copy the bytes and add a
turn of the event loop; one write for each message.
"""

# The functions below have one definition for each mode, of which pyright sees one.
# pyright: reportPossiblyUnboundVariable=false

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from errno import ECONNRESET, EPIPE
from typing import TYPE_CHECKING, Any, TypeAlias

from bandstand.core.logs import SafeLogger
from bandstand.errors import InvalidMessageError
from bandstand.pod.link.codec import Packet, encode_into, plain_size
from bandstand.pod.link.large_buffers import IncomingBuffers, OutgoingBuffers
from bandstand.pod.link.protocol import (
    ACKS,
    ANSWER_LANE,
    ANSWERS,
    CANCEL,
    CHUNK,
    CHUNK_HEADER,
    HEADER,
    LANES,
    MAX_FRAME,
    MESSAGES,
)

try:
    import cython
except ModuleNotFoundError:  # interpreted, where Cython is not installed
    from bandstand.core import _cython as cython  # type: ignore[no-redef]  # one of the two

if TYPE_CHECKING:
    from bandstand.core.kernel import Kernel
    from bandstand.pod.link.receiver import FrameDispatcher, Receiver

Count: TypeAlias = int
Kind: TypeAlias = int
LaneNumber: TypeAlias = int

logger = SafeLogger("bandstand.pod")

# The room for received bytes.
READ_SIZE = 262_144
# A frame of messages is closed at about this many entries or bytes: small enough to let others pass, large enough to be cheap.
BATCH_ENTRIES = 512
BATCH_BYTES = 65_536
# How many bytes are encoded at a time, and written in one turn of the event loop.
WRITE_BYTES = 131_072
TURN_BYTES = 1_048_576
# A call with fewer bytes keeps the interpreter lock; a frame with fewer bytes is copied rather than viewed.
SHORT_CALL = 16_384
SHORT_FRAME = 1024
# With more loops on one event loop than this, each read would cost more than it saves.
MAX_HELD = 8

HEADER_SIZE = HEADER.size
CHUNK_HEADER_SIZE = CHUNK_HEADER.size
# What is received together with a chunk: the headers of the next one.
NEXT_HEADERS = HEADER_SIZE + CHUNK_HEADER_SIZE

# The error codes of a socket whose other end is closed.
PEER_GONE = (EPIPE, ECONNRESET)
# Which side has failed.
OURS = True
THEIRS = False
NOT_RECEIVED = "received data could not be processed"
NOT_WRITTEN = "queued data could not be written"

if not cython.compiled:
    # Compiled, these are C functions in the .pxd that call the system directly. The socket never blocks, so a short call keeps
    # the interpreter lock: releasing it costs more than the call.

    def send_now(sock: socket.socket, fd: int, data: bytearray) -> Count:  # noqa: ARG001  # compiled, the descriptor
        """Send bytes. Return how many the socket took; -1 if it takes none now."""
        try:
            return sock.send(data)
        except (BlockingIOError, InterruptedError):
            return -1

    def receive_now(
        sock: socket.socket,
        fd: int,  # noqa: ARG001  # compiled, the descriptor
        store: bytearray,
        start: Count,
        is_long: bool,  # noqa: ARG001  # compiled, whether to release the interpreter lock
    ) -> Count:
        """Receive bytes into `store` from `start`. Return how many came; -1 if there are none now, 0 at the end."""
        try:
            return sock.recv_into(memoryview(store)[start:])
        except (BlockingIOError, InterruptedError):
            return -1

    def has_socket_error(sock: socket.socket, fd: int) -> bool:  # noqa: ARG001  # compiled, the descriptor
        """Return whether the socket has an error that was not reported yet."""
        return bool(sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))

    def copy_range(store: bytearray, start: Count, size: Count) -> bytes | bytearray:
        """Return a copy of some bytes."""
        return store[start : start + size]


# -- writing -----------------------------------------------------------------------------------------------------------


@cython.freelist(16)
@cython.cclass
class MessageBatch:
    """The messages of one frame.

    Attributes:
        entries: the messages, flat.
        size: about how many bytes they take.
        end: where the frame ends in the bytes that are being written.
    """

    __slots__ = ("end", "entries", "size")

    def __init__(self) -> None:
        self.entries: list[Any] = []
        self.size: Count = 0
        self.end: Count = 0


class WriteQueue:
    """What is not written yet, in the order in which it has to go.

    Attributes:
        is_ready: whether there may be something to take.
        buffers: what to write now; filled by `take`, emptied by the transport.
        batches: the batches of messages in `buffers`.
    """

    __slots__ = (
        "_full",
        "_full_count",
        "_last_frame",
        "_next_number",
        "_open",
        "_outgoing",
        "_receiver",
        "_sending_count",
        "_store",
        "_transport",
        "_urgent",
        "batches",
        "buffers",
        "is_ready",
    )

    def __init__(self) -> None:
        self._receiver: Receiver | None = None
        self._transport: Transport | None = None
        self.is_ready = False
        self.buffers: list[bytes | bytearray | memoryview] = []
        self.batches: list[MessageBatch] = []
        # For each lane: the full batches, the one that takes the next message, and the large buffers.
        self._full: list[deque[MessageBatch]] = [deque() for _ in range(LANES)]
        self._full_count: Count = 0
        self._open: list[MessageBatch] = [MessageBatch() for _ in range(LANES)]
        self._outgoing = [OutgoingBuffers() for _ in range(LANES)]
        # How many messages have buffers that are being sent.
        self._sending_count: Count = 0
        self._next_number: Count = 0
        self._urgent: list[bytes] = []
        self._last_frame: bytes | None = None
        # Frames are encoded here; used again as soon as it is written.
        self._store = bytearray()

    def attach(self, receiver: Receiver, transport: Transport | None) -> None:
        """Connect the queue.

        Args:
            receiver: returns the acknowledgements that are due.
            transport: flushed as soon as a batch is full.
        """
        self._receiver = receiver
        self._transport = transport

    def append_urgent(self, frame: bytes) -> None:
        """Queue a frame ahead of everything else."""
        self.is_ready = True
        self._urgent.append(frame)

    def append_message(self, lane: LaneNumber, code: object, data: object) -> None:
        """Queue a one-way message for a method."""
        batch = self.open_batch(lane)
        batch.entries.append(code)
        batch.entries.append(data)
        batch.size += data.size if type(data) is Packet else plain_size(data)

    def append_ask(self, lane: LaneNumber, code: object, number: object, data: object) -> None:
        """Queue an ask. The code is negative, so that a reader can skip it without knowing the method."""
        batch = self.open_batch(lane)
        batch.entries.append(code)
        batch.entries.append(number)
        batch.entries.append(data)
        batch.size += data.size if type(data) is Packet else plain_size(data)

    def append_answer(self, number: object, outcome: object, value: object) -> None:
        """Queue the outcome of an ask."""
        batch = self.open_batch(ANSWER_LANE)
        batch.entries.append(number)
        batch.entries.append(outcome)
        batch.entries.append(value)
        batch.size += value.size if type(value) is Packet else plain_size(value)

    def append_cancel(self, lane: LaneNumber, number: object) -> None:
        """Queue the cancellation of an ask, behind the ask."""
        batch = self.open_batch(lane)
        batch.entries.append(CANCEL)
        batch.entries.append(number)

    def open_batch(self, lane: LaneNumber) -> MessageBatch:
        """Return the batch that takes the next message of a lane."""
        self.is_ready = True
        batch = self._open[lane]
        if len(batch.entries) >= BATCH_ENTRIES or batch.size >= BATCH_BYTES:
            self._full[lane].append(batch)
            self._full_count += 1
            self._open[lane] = MessageBatch()
            if self._transport is not None:
                # This may queue messages whose buffers are sent by now. They come before this one, as they should.
                self._transport.flush()
            batch = self._open[lane]
        return batch

    def send_parts(self, lane: LaneNumber, packet: Packet, on_sent: Callable[[], None]) -> None:
        """Send the large buffers of a packet. `on_sent` is called when the packet itself has to follow."""
        first = self._next_number
        self._next_number += len(packet.parts)
        packet.part_numbers = tuple(range(first, self._next_number))
        self._outgoing[lane].add(packet.part_numbers, packet.parts, on_sent)
        self._sending_count += 1
        self.is_ready = True
        # The packet lives until it is acknowledged; the buffers need not.
        packet.parts = ()

    def take(self) -> bool:
        """Encode what goes next into `buffers`, which are empty. Return False if there is nothing."""
        if self.batches:
            self.batches.clear()
        if not self.is_ready:
            return False
        store = self._store
        size = 0
        if self._urgent:
            store[:] = b"".join(self._urgent)
            self._urgent.clear()
            size = len(store)
        receiver = self._receiver
        if receiver is not None and receiver.has_acks:
            size = encode_frame(store, size, ACKS, receiver.take_acks())
        lane = ANSWER_LANE
        while lane < LANES:
            while size < WRITE_BYTES and self.has_batch(lane):
                batch = self.take_batch(lane)
                size = encode_frame(store, size, MESSAGES if lane else ANSWERS, batch.entries)
                if lane != ANSWER_LANE:
                    batch.end = size
                    self.batches.append(batch)
            lane += 1
        # After a full write there may be more; a large buffer has more chunks.
        self.is_ready = size >= WRITE_BYTES or self._sending_count > 0
        if self._last_frame is not None and size < WRITE_BYTES:
            if size == 0:
                store.clear()
            store += self._last_frame
            size = len(store)
            self._last_frame = None
        if size:
            self.buffers.append(store)
        if self._sending_count and size < WRITE_BYTES:
            self.take_chunk()
        return len(self.buffers) > 0

    def replace_store(self) -> None:
        """Encode the next frames elsewhere: the socket did not take all bytes, and they stay where they are."""
        self._store = bytearray()

    def has_batch(self, lane: LaneNumber) -> bool:
        """Return whether messages of a lane wait."""
        batch = self._open[lane]
        return len(batch.entries) > 0 or (self._full_count > 0 and len(self._full[lane]) > 0)

    def take_batch(self, lane: LaneNumber) -> MessageBatch:
        """Return the next batch of a lane that has one."""
        if self._full_count and len(self._full[lane]) > 0:
            self._full_count -= 1
            return self._full[lane].popleft()
        batch = self._open[lane]
        self._open[lane] = MessageBatch()
        return batch

    def take_chunk(self) -> None:
        """Append one chunk of the most urgent lane that has any to `buffers`."""
        lane = ANSWER_LANE
        while not self._outgoing[lane]:
            lane += 1
        buffer, chunk = self._outgoing[lane].take_chunk()
        header = CHUNK_HEADER.pack(buffer.number, buffer.size, buffer.is_frozen)
        self.buffers.append(HEADER.pack(len(header) + chunk.nbytes, CHUNK) + header)
        self.buffers.append(chunk)
        if buffer.is_sent and buffer.on_sent is not None:
            self._sending_count -= 1
            buffer.on_sent()

    def close(self, last_frame: bytes) -> list[MessageBatch]:
        """Drop all messages; keep acknowledgements and answers, and this frame as the last. Return what was dropped."""
        dropped: list[MessageBatch] = []
        for lane in range(ANSWER_LANE + 1, LANES):
            self._full_count -= len(self._full[lane])
            dropped += self._full[lane]
            dropped.append(self._open[lane])
            self._full[lane] = deque()
            self._open[lane] = MessageBatch()
        self._sending_count = 0
        self.is_ready = True
        self._last_frame = last_frame
        return dropped


def encode_frame(store: bytearray, at: Count, kind: Kind, entries: list[Any]) -> Count:
    """Encode a frame into `store` from `at`, and cut what was behind it. Return where it ends."""
    encode_into(entries, store, at + HEADER_SIZE)
    end = len(store)
    size = end - at - HEADER_SIZE
    # As HEADER packs it, without the objects.
    store[at] = size & 255
    store[at + 1] = (size >> 8) & 255
    store[at + 2] = (size >> 16) & 255
    store[at + 3] = (size >> 24) & 255
    store[at + 4] = kind
    return end


# -- reading -----------------------------------------------------------------------------------------------------------


class FrameReader:
    """Splits received bytes into frames.

    Args:
        dispatcher: takes the kind and the body of each frame. The body is valid until it returns.
        buffers: where the bytes of chunks go.
    """

    __slots__ = ("_buffers", "_chunk", "_dispatcher", "_end", "_last_count", "_start", "_store", "_view")

    def __init__(self, dispatcher: FrameDispatcher, buffers: IncomingBuffers) -> None:
        self._dispatcher = dispatcher
        self._buffers = buffers
        self._store = bytearray(READ_SIZE)
        self._view = memoryview(self._store)
        # What was received and is not a whole frame yet.
        self._start: Count = 0
        self._end: Count = 0
        self._last_count: Count = 0
        # Where the rest of a chunk goes; None between chunks.
        self._chunk: memoryview | None = None

    def receive(self, sock: socket.socket, fd: int) -> Count:
        """Receive bytes. Return how many came; -1 if there are none now, 0 at the end."""
        chunk = self._chunk
        if chunk is not None:
            try:
                return sock.recvmsg_into((chunk, self._view[:NEXT_HEADERS]))[0]
            except (BlockingIOError, InterruptedError):
                return -1
        count = receive_now(sock, fd, self._store, self._end, self._last_count >= SHORT_CALL)
        self._last_count = count
        return count

    def dispatch_received(self, count: Count) -> None:
        """Dispatch the frames that `count` more bytes have completed.

        Raises:
            InvalidMessageError: a frame is not valid.
        """
        chunk = self._chunk
        if chunk is not None:
            size = len(chunk)
            if count < size:
                self._chunk = chunk[count:]
                return
            self._chunk = None
            count -= size
        self._end += count
        try:
            while self._end - self._start >= HEADER_SIZE and self.dispatch_next():
                pass
        finally:
            self.move_rest()

    def dispatch_next(self) -> bool:
        """Dispatch one frame, whose header has arrived. Return False if it is not complete."""
        store = self._store
        at = self._start
        start = at + HEADER_SIZE
        available = self._end - start
        # As HEADER unpacks it, without the objects.
        size = store[at + 3]
        size = size << 8 | store[at + 2]
        size = size << 8 | store[at + 1]
        size = size << 8 | store[at]
        kind = store[at + 4]
        if kind == CHUNK:
            return available >= CHUNK_HEADER_SIZE and self.start_chunk(start, size - CHUNK_HEADER_SIZE)
        if size > MAX_FRAME:
            raise InvalidMessageError(
                f"the link received a frame of {size} bytes: the longest allowed has {MAX_FRAME}"
            )
        if available < size:
            if size > len(store) - HEADER_SIZE:
                self.grow(size)
            return False
        self._start = start + size
        if size <= SHORT_FRAME:
            self._dispatcher.dispatch(kind, copy_range(store, start, size))
        else:
            self._dispatcher.dispatch(kind, self._view[start : start + size])
        return True

    def start_chunk(self, start: Count, size: Count) -> bool:
        """Move what has arrived of a chunk to its place; the rest is received there. Return whether the chunk is complete."""
        number, total, is_frozen = CHUNK_HEADER.unpack_from(self._store, start)
        start += CHUNK_HEADER_SIZE
        place = self._buffers.reserve(number, total, bool(is_frozen), size)
        available = min(size, self._end - start)
        place[:available] = self._view[start : start + available]
        self._start = start + available
        if available == size:
            return True
        self._chunk = place[available:]
        return False

    def move_rest(self) -> None:
        """Make room: move an incomplete frame to the beginning."""
        rest = self._end - self._start
        if rest and self._start:
            self._store[:rest] = self._store[self._start : self._end]
        self._start, self._end = 0, rest

    def grow(self, size: Count) -> None:
        """Make room for a frame that is larger than the store."""
        grown = bytearray(size + HEADER_SIZE)
        grown[: self._end] = self._view[: self._end]
        self._store, self._view = grown, memoryview(grown)


# -- the socket --------------------------------------------------------------------------------------------------------


class Transport:
    """One end of a socket. It belongs to the thread of the running event loop.

    Args:
        sock: the socket; the transport closes it.
        reader: takes the received bytes.
        queue: returns what to write next.
        receiver: called after each read, so that the answers go out in the same turn.
        on_lost: called once, in a later turn, when the socket cannot be used any more, with the reason and whether this side
            has failed.
        kernel: the kernel of a loop on this event loop. All loops there may run a tick at the end of each read.

    Attributes:
        fd: the file descriptor of the socket.
        event_loop: the event loop that serves it.
        is_write_blocked: whether the peer does not read as fast as this side writes.
        is_closed: whether the socket cannot be used any more.
    """

    __slots__ = (
        "_call_soon",
        "_has_failed",
        "_has_written",
        "_held",
        "_is_flush_scheduled",
        "_is_flushing",
        "_is_peer_gone",
        "_kernel",
        "_on_lost",
        "_queue",
        "_reader",
        "_receiver",
        "_sock",
        "_waiters",
        "_written",
        "event_loop",
        "fd",
        "is_closed",
        "is_write_blocked",
    )

    def __init__(
        self,
        sock: socket.socket,
        reader: FrameReader,
        queue: WriteQueue,
        receiver: Receiver,
        on_lost: Callable[[str, bool], None],
        kernel: Kernel,
    ) -> None:
        self._kernel = kernel
        # The kernels that run their ticks at the end of this read.
        self._held: list[Kernel] = []
        self.event_loop = asyncio.get_running_loop()
        self._call_soon: Callable[..., object] = self.event_loop.call_soon
        self._sock = sock
        self._reader = reader
        self._queue = queue
        self._receiver = receiver
        self._on_lost = on_lost
        # Whether what is queued will be written in this turn anyway.
        self._is_flush_scheduled = False
        # Prevents a flush inside a flush.
        self._is_flushing = False
        # Whether bytes were written since the last read began.
        self._has_written = False
        # How many bytes of `queue.batches` are written.
        self._written: Count = 0
        self.is_write_blocked = False
        self.is_closed = False
        # The peer does not read any more; what it has sent may still be there.
        self._is_peer_gone = False
        # This side has closed after an error of its own. The peer may still read the reason.
        self._has_failed = False
        self._waiters: list[asyncio.Future[None]] = []
        sock.setblocking(False)  # noqa: FBT003  # positional in the standard library
        self.fd = sock.fileno()
        self.event_loop.add_reader(self.fd, self.on_readable)

    # -- writing -------------------------------------------------------------------------------------------------------

    def schedule_flush(self) -> None:
        """Write what is queued at the end of this turn of the event loop."""
        if not self._is_flush_scheduled:
            self._is_flush_scheduled = True
            self._call_soon(self.flush_scheduled)

    def flush_scheduled(self) -> None:
        """Write at the end of the turn."""
        self._is_flush_scheduled = False
        self.flush()

    def flush(self) -> None:
        """Write what is queued now, as far as the peer reads."""
        if self.is_closed or self.is_write_blocked or self._is_flushing or self._is_peer_gone:
            return
        self._is_flushing = True
        is_done = True
        try:
            is_done = self.write(TURN_BYTES)
        except Exception as error:  # noqa: BLE001  # what was taken from the queue is lost, so the link is lost
            self.fail(error, NOT_WRITTEN)
        finally:
            self._is_flushing = False
        if not is_done:
            self.wait_writable()

    def write(self, limit: Count) -> bool:
        """Write about `limit` bytes. Return whether nothing is left."""
        while limit > 0:
            if not self._queue.buffers:
                self._written = 0
                if not self._queue.take():
                    return True
            count = self.write_once()
            if count <= 0:
                return False
            limit -= count
        return False

    def write_once(self) -> Count:
        """Make one write. Return how many bytes the socket took; 0 or less if none."""
        buffers = self._queue.buffers
        data: Any = buffers[0]
        try:
            if len(buffers) > 1:
                count = self._sock.sendmsg(buffers)
            elif type(data) is bytearray and len(data) <= SHORT_CALL:
                count = send_now(self._sock, self.fd, data)
            else:
                count = self._sock.send(data)
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError as error:
            self._is_peer_gone = True
            if error.errno not in PEER_GONE:
                # The peer may be alive: the descriptor is not ours any more, or the system is out of memory.
                self.lose(f"writing to it failed: {error.strerror}", OURS)
            # Otherwise the peer is gone. Its last answers, and its reason, are still to be read; the end of the stream follows.
            return 0
        if count <= 0:
            return count
        self._has_written = True
        self._written += count
        if count == len(data) and len(buffers) == 1:
            buffers.clear()
            return count
        self._queue.replace_store()
        rest = count
        while buffers and rest >= len(buffers[0]):
            rest -= len(buffers[0])
            del buffers[0]
        if rest:
            buffers[0] = memoryview(buffers[0])[rest:]
        return count

    @property
    def is_writable(self) -> bool:
        """Whether the peer can still receive something."""
        return not (self.is_closed or self._is_peer_gone)

    @property
    def is_writing(self) -> bool:
        """Whether a write was begun and is not complete."""
        return bool(self._queue.buffers)

    def unsent_batches(self) -> list[MessageBatch]:
        """Return the batches whose write was begun and is not complete: the peer cannot have read them."""
        if not self._queue.buffers:
            return []
        return [batch for batch in self._queue.batches if batch.end > self._written]

    def wait_writable(self) -> None:
        """Continue to write when the peer reads again."""
        if not self.is_closed and not self.is_write_blocked and not self._is_peer_gone:
            self.is_write_blocked = True
            self.event_loop.add_writer(self.fd, self._resume_writing)

    def _resume_writing(self) -> None:
        self.event_loop.remove_writer(self.fd)
        self.is_write_blocked = False
        self.flush()
        if not self.is_write_blocked:
            self._release_waiters()

    async def wait_unblocked(self) -> None:
        """Wait until the peer reads again, or the transport is closed."""
        while self.is_write_blocked and not self.is_closed:
            waiter = self.event_loop.create_future()
            self._waiters.append(waiter)
            await waiter

    def _release_waiters(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    # -- reading -------------------------------------------------------------------------------------------------------

    def read_all(self) -> None:
        """Read everything that has arrived. The peer is gone, so nothing follows."""
        while not self.is_closed and self.read():
            pass

    def on_readable(self) -> None:
        """Read once, so that others get their turn. If the peer is gone, read everything."""
        self._has_written = False
        self.hold_kernels()
        try:
            has_read = self.read()
        finally:
            self.run_held_kernels()
        if not has_read or self.is_closed or self._has_written:
            # After a successful write the peer was still there when the event loop reported the socket.
            return
        if has_socket_error(self._sock, self.fd):
            # The peer is gone and has left data unread. libuv reports such a socket once, and then never again.
            self.read_all()

    def hold_kernels(self) -> None:
        """Let the loops on this event loop run what is received in this read, not in a later iteration of the event loop."""
        kernel = self._kernel
        siblings = kernel.siblings
        if len(siblings) > MAX_HELD:
            return
        # The last one to run its tick, because the actors of the others send to the proxies.
        if kernel.begin_host_call():
            self._held.append(kernel)
        for sibling in siblings:
            if sibling is not kernel and sibling.begin_host_call():
                self._held.append(sibling)

    def run_held_kernels(self) -> None:
        """Run the ticks of the loops that this read has woken."""
        while self._held:
            kernel = self._held.pop()
            kernel.end_host_call()

    def read(self) -> bool:
        """Read once. Return whether something had arrived."""
        try:
            count = self._reader.receive(self._sock, self.fd)
        except OSError as error:
            self.lose(f"reading from it failed: {error.strerror}", error.errno not in PEER_GONE)
            return False
        except Exception as error:  # noqa: BLE001  # for example, no memory for the buffer
            self.fail(error, NOT_RECEIVED)
            return False
        if count < 0:
            return False
        if count == 0:
            self.lose("the other side has closed it", THEIRS)
            return False
        # What is queued meanwhile is written below, and needs no turn of its own.
        was_scheduled = self._is_flush_scheduled
        self._is_flush_scheduled = True
        try:
            self._reader.dispatch_received(count)
            self.run_held_kernels()
            self._receiver.run_actors()
        except Exception as error:  # noqa: BLE001  # `fail` tells a bad frame from an error of ours
            self.fail(error, NOT_RECEIVED)
        finally:
            self._is_flush_scheduled = was_scheduled
        self.flush()
        return True

    # -- the end -------------------------------------------------------------------------------------------------------

    def fail(self, error: Exception, what: str) -> None:
        """Close after an error while reading or writing; `what` describes what could not be done."""
        self._has_failed = True
        if isinstance(error, InvalidMessageError):
            self.lose(str(error), OURS)
            return
        # What was being read or written may be lost, so the link cannot continue.
        logger.error("a link is lost: %s", what, exc_info=error)
        self.lose(f"{what} ({type(error).__name__}); see the log", OURS)

    def lose(self, reason: str, is_ours: bool) -> None:
        """Stop, and report the reason in a later turn, because the caller may be in the middle of something."""
        if self.is_closed:
            return
        self._stop()
        self.event_loop.call_soon(self._on_lost, reason, is_ours)

    def _stop(self) -> None:
        if self.is_closed:
            return
        self.is_closed = True
        self.event_loop.remove_reader(self.fd)
        self.event_loop.remove_writer(self.fd)
        self._release_waiters()

    def close(self) -> None:
        """Write what the socket takes now, and close it. Never waits."""
        if self.is_closed and not self._has_failed:
            self.event_loop.call_soon(self._sock.close)
            return
        self.is_closed = False
        with suppress(OSError):
            self.event_loop.remove_writer(self.fd)
            self.is_write_blocked = False
            self.flush()
        self._stop()
        # In the next turn: until then the event loop may still report the descriptor, which must not belong to another file.
        self.event_loop.call_soon(self._sock.close)
