"""A caller: the little client that blocks, for a command line that asks one thing and is done.

It needs no event loop and no node of its own: a socket, one line out, and lines in until the one comes that answers. Everything else that
comes in between, such as events, is passed over.

What can go wrong between two processes is told as a sentence: nobody listens, it hung up, it does not answer.
"""

from __future__ import annotations

import socket
import time
from typing import TYPE_CHECKING, NoReturn, Self, final

import msgspec
from msgspec import Raw

from bandstand.bus.frame import Frame, Kind, Metadata
from bandstand.bus.hot.idmaker import IdMaker
from bandstand.bus.wire import DECODE_ERRORS, read_frame, split_problem, write_frame
from bandstand.errors import BadMessage, InvalidArgument

if TYPE_CHECKING:
    from types import TracebackType

    from bandstand.bus.client.address import Address

__all__ = ("Caller",)

# More than the thirty seconds after which a node gives up by itself: it is the node that knows why.
PATIENCE_S = 35.0
# What a node is given beyond the request's own time, for its answer that the time is over.
GRACE_S = 2.0
CHUNK = 1 << 16


@final
class Caller:
    """A connection to a node, for one request after the other. Use it by `with`.

    Args:
        address: where the node listens.
        timeout_s: how long to wait for the connection, and for an answer to a request that does not say how long it may take.

    Raises:
        InvalidArgument: the time has no sense.
    """

    def __init__(self, address: Address, timeout_s: float = PATIENCE_S) -> None:
        if not timeout_s > 0:
            raise InvalidArgument(f"Caller: timeout_s is {timeout_s!r}: pass seconds above 0")
        self._address = address
        self._timeout_s = timeout_s
        self._socket: socket.socket | None = None
        self._ids = IdMaker()
        # What has come and is not yet a line.
        self._rest = bytearray()

    def __enter__(self) -> Self:
        """Connect.

        Raises:
            TimeoutError: it takes too long.
            ConnectionError: nobody listens there.
            OSError: it cannot connect for another reason.
        """
        self._address.check()
        try:
            self._socket = self._connect()
        except OSError as error:
            self._explain(error)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        self._rest.clear()

    def request(self, kind: Kind, type: str, data: object = b"{}", timeout_ms: int | None = None) -> Frame:  # noqa: A002  # its name on the wire
        """Send a command or a query, and wait for its answer.

        Args:
            kind: `command` or `query`.
            type: the type, as `Memory.Get`.
            data: its data: JSON as bytes, or whatever msgspec can write as JSON.
            timeout_ms: how long it may take; None for what the node says.

        Returns:
            The answer, a frame of kind `reply` or `error`.

        Raises:
            InvalidArgument: it is no request, or its data is no JSON.
            TimeoutError: nothing has come in time, not even that the time is over.
            ConnectionError: the node has hung up.
            BadMessage: what has come is no message.
        """
        if self._socket is None:
            raise InvalidArgument(
                "Caller.request: it is not connected: use it by `with Caller(address) as caller:`"
            )
        if kind not in {"command", "query"}:
            raise InvalidArgument(f"Caller.request: {kind!r} is owed no answer: pass 'command' or 'query'")
        made = self._ids()
        raw = _raw(data)
        frame = Frame(
            kind=kind,
            type=type,
            data=raw,
            metadata=Metadata(made, time.time_ns() // 1_000_000, timeout=timeout_ms),
        )
        wait_s = self._timeout_s if timeout_ms is None else timeout_ms / 1000 + GRACE_S
        deadline = time.monotonic() + wait_s
        try:
            self._socket.settimeout(wait_s)
            self._socket.sendall(write_frame(frame) + b"\n")
            while True:
                answer = self._read(self._socket, deadline)
                if _answers(answer, made):
                    return answer
        except TimeoutError:
            raise TimeoutError(
                f"the node at {self._address} has not answered {kind} {type} in {wait_s:g} s, and has not said why: it may be "
                f"stuck, or be something else than a node"
            ) from None
        except ConnectionError as error:
            raise ConnectionError(
                f"the node at {self._address} has hung up before it answered {kind} {type}; whether it was done is not known"
            ) from error

    def _connect(self) -> socket.socket:
        address = self._address
        if not address.path:
            try:
                return socket.create_connection((address.host, address.port), self._timeout_s)
            except UnicodeError as error:
                raise OSError(f"{address.host!r} is no name of a host: {error}") from None
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            made.settimeout(self._timeout_s)
            made.connect(address.path)
        except BaseException:  # whatever it was, the socket is ours
            made.close()
            raise
        return made

    def _explain(self, error: OSError) -> NoReturn:
        where = self._address
        if isinstance(error, (FileNotFoundError, ConnectionRefusedError)):
            raise ConnectionRefusedError(
                f"nobody listens at {where}: start a node with `bandstand serve`, or say with --to or BANDSTAND_BUS where one is"
            ) from error
        if isinstance(error, TimeoutError):
            raise TimeoutError(f"no connection to {where} in {self._timeout_s:g} s") from error
        if isinstance(error, PermissionError):
            raise PermissionError(f"you may not connect to {where}: it is somebody else's node") from error
        raise OSError(f"cannot connect to {where}: {error}") from error

    def _read(self, connection: socket.socket, deadline: float) -> Frame:
        """One frame more."""
        rest = self._rest
        seen = 0
        while (end := rest.find(b"\n", seen)) < 0:
            # What was looked through once is not looked through again.
            seen = len(rest)
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError
            connection.settimeout(left)
            chunk = connection.recv(CHUNK)
            if not chunk:
                raise ConnectionResetError("the end of the stream")
            rest += chunk
        line = bytes(rest[:end])
        del rest[: end + 1]
        try:
            return read_frame(line)
        except BadMessage as error:
            raise BadMessage.of(
                f"what listens at {self._address} is no node, or a broken one: {error}",
                error.path,
                error.request_id,
            ) from None


def _answers(frame: Frame, made: str) -> bool:
    if frame.kind == "reply":
        return frame.metadata.causation == made
    # An error that answers nothing in particular is about what could not be read: and that was ours.
    return frame.kind == "error" and frame.metadata.causation in {made, None}


def _raw(data: object) -> Raw:
    """JSON without line ends, whatever it came as."""
    try:
        if not isinstance(data, bytes):
            return Raw(msgspec.json.encode(data))
        data.decode()
        return Raw(msgspec.json.format(data, indent=-1))
    except DECODE_ERRORS as error:
        problem, _ = split_problem(error)
        raise InvalidArgument(
            f"the data is no JSON: {problem}; pass NAME=TEXT, as key=greeting, or all of the data as one JSON"
        ) from None
    except (TypeError, ValueError, NotImplementedError) as error:  # the last is how msgspec's hooks say no
        raise InvalidArgument(f"the data cannot be written as JSON: {error}") from None
