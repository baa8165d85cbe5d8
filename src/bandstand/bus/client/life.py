"""The life of a client: it connects, is lost, looks for its node again, and ends.

A connection that is lost is made again, at growing intervals. The new one is first asked for what the old one was told by itself, so that
subscriptions go on, and then for all that had no answer. Only what can never work ends a client by itself: a node that does not let it in,
somebody at the other end who is no node, or nobody there for too long.
"""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, final

from bandstand.bus.answers import failure_of
from bandstand.bus.client.calls import Ask, Calls
from bandstand.bus.client.dialing import dial
from bandstand.bus.client.frames import FrameMaker, line_of, raw_of
from bandstand.bus.client.line import ClientLine
from bandstand.bus.client.stream import Gap
from bandstand.bus.faults import ROUTING_ERROR, SCHEMA_ERROR
from bandstand.bus.frame import Kind
from bandstand.core.logs import SafeLogger
from bandstand.errors import BadMessage, NodeGone, RequestFailed
from bandstand.errors.formatting import safe_str

if TYPE_CHECKING:
    from bandstand.bus.client.address import Address
    from bandstand.bus.client.config import ClientConfig
    from bandstand.bus.client.subscribing import Roster
    from bandstand.bus.frame import Frame

__all__ = ("Life",)

logger = SafeLogger("bandstand.bus")

UNAUTHORIZED = "Sys.Unauthorized"
DISMISSALS = frozenset({UNAUTHORIZED, "Sys.TooManyConnections"})
# Seconds to wait for the end of a connection that was ended: one turn of the event loop, as a rule.
LAST_S = 1.0
PING: tuple[Kind, str, object] = ("query", "Syscall.Ping", {})


@final
class Life:
    """Keeps one client connected.

    Args:
        address: where its node is.
        config: how long to wait for what.
        frames: makes its frames.
    """

    def __init__(self, address: Address, config: ClientConfig, frames: FrameMaker) -> None:
        self._address = address
        self._config = config
        self._frames = frames
        self._event_loop = asyncio.get_running_loop()
        self.calls = Calls(config.window, lambda: self._problem, retries_overloaded=config.retry_overloaded)
        self._roster: Roster | None = None
        self._line: ClientLine | None = None
        self._task: asyncio.Task[None] | None = None
        self._problem = f"there was no connection to {address} yet"
        # What the node has said last about the connection itself.
        self._words = ""
        # What a new connection is asked for before anything else.
        self._greetings: dict[str, asyncio.Future[Frame]] = {}
        self.error: Exception | None = None
        """Why it is over; None while it is not."""
        self.connections = 0
        """How many times it was connected."""

    @property
    def is_connected(self) -> bool:
        """Whether there is a connection now."""
        return self._line is not None and self._line.is_open

    async def begin(self, roster: Roster) -> None:
        """Connect.

        Raises:
            NodeGone: nobody is there, within the time that the configuration gives.
            RequestFailed: the node does not let it in.
            PermissionError: the node is somebody else's.
        """
        self._roster = roster
        try:
            self._line = await self._look(self._config.wait_ms / 1000)
        except BaseException:  # whatever it was, whoever wants can try again
            self._finish(NodeGone(self._problem))
            raise
        self._task = self._event_loop.create_task(self._keep(self._line), name=f"client of {self._address}")

    async def end(self, error: Exception) -> None:
        """Hang up; what is open fails with a sentence."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
        self._finish(error)
        if self._line is not None:
            self._line.close()
            await asyncio.wait([self._line.gone], timeout=LAST_S)
            self._line.abort()

    # --- connecting ---------------------------------------------------------------------------------------------------

    async def _keep(self, line: ClientLine) -> None:
        while True:
            # Shielded: whoever hangs up cancels this, and then waits for the same.
            await asyncio.shield(line.gone)
            if isinstance(line.problem, (BadMessage, RequestFailed)):
                # It is no node, or one that does not let us in: it would be the same the next time.
                self._finish(line.problem)
                return
            if self.error is not None:
                return
            try:
                if not self._config.give_up_ms:
                    raise NodeGone(self._problem)
                line = self._line = await self._look(self._config.give_up_ms / 1000, is_again=True)
            except (OSError, BadMessage, RequestFailed) as error:
                self._finish(error)
                return

    async def _look(self, within_s: float, *, is_again: bool = False) -> ClientLine:
        """Connect, as often as it takes."""
        until = self._event_loop.time() + within_s
        stored = 0.0
        while True:
            if is_again:
                wait = self._config.backoff.after(stored, chance=random.random())  # noqa: S311  # nobody gains by guessing it
                stored = wait.stored_ms
                await asyncio.sleep(max(0.0, min(wait.ms / 1000, until - self._event_loop.time())))
            try:
                return await self._open()
            except NodeGone as error:
                self._problem = str(error)
                if self._event_loop.time() >= until:
                    raise
            is_again = True

    async def _open(self) -> ClientLine:
        """Connect once, and greet."""
        config, address = self._config, self._address
        line = await dial(
            address, lambda: ClientLine(address, self._take, self._lose, self.calls.pump), config.dial_ms
        )
        try:
            async with asyncio.timeout(config.dial_ms / 1000):
                await self._introduce(line)
        except TimeoutError:
            line.abort()
            raise NodeGone(
                f"what listens at {address} does not answer in {config.dial_ms} ms: it is stuck, or no node"
            ) from None
        except BaseException:  # whatever it was, the connection is ours
            line.abort()
            raise
        self.connections += 1
        self._line = line
        self.calls.attach(line)
        return line

    async def _introduce(self, line: ClientLine) -> None:
        """See that it is a node, and that it serves us; have it told what the last connection was told by itself."""
        assert self._roster is not None
        if self._config.token is not None and self._address.host:
            answer = await self._greet(line, "command", "Syscall.Authenticate", {"token": self._config.token})
            # A node that has never heard of it asks for none.
            if answer.kind == "error" and answer.type != ROUTING_ERROR:
                raise failure_of("Syscall.Authenticate", answer)
        for kind, type_name, data in (PING, *self._roster.wishes()):
            answer = await self._greet(line, kind, type_name, data)
            if answer.kind == "error":
                raise NodeGone(f"the node at {self._address} does not serve: {failure_of(type_name, answer)}")
        if self.connections:
            self._roster.skip(Gap("reconnected"))

    async def _greet(self, line: ClientLine, kind: Kind, type_name: str, data: object) -> Frame:
        frame = self._frames.make(kind, type_name, raw_of(data))
        name = frame.metadata.id
        answer: asyncio.Future[Frame] = self._event_loop.create_future()
        self._greetings[name] = answer
        try:
            line.send(line_of(frame))
            if not line.is_open:
                raise NodeGone(self._said(line))
            return await answer
        finally:
            self._greetings.pop(name, None)

    # --- for its lines ------------------------------------------------------------------------------------------------

    def _take(self, frame: Frame) -> None:
        assert self._roster is not None
        causation = frame.metadata.causation
        if frame.kind == "event":
            self._roster.hear(frame)
        elif frame.type in DISMISSALS and frame.kind == "error":
            self._dismiss(frame)
        elif causation in self._greetings:
            greeting = self._greetings[causation]
            if not greeting.done():
                greeting.set_result(frame)
        elif causation is None and frame.type != SCHEMA_ERROR:
            self._words = str(failure_of("the connection", frame))
        elif not self.calls.settle(frame) and frame.kind == "error":
            # What was only mentioned, or given up meanwhile.
            logger.warning("%s", failure_of(causation or "something", frame))

    def _dismiss(self, frame: Frame) -> None:
        """The node ends the connection, and says why."""
        error = failure_of("the connection", frame)
        self._words = str(error)
        if self._line is not None and frame.type == UNAUTHORIZED:
            self._line.abort(error)
        for greeting in self._greetings.values():
            if not greeting.done():
                greeting.set_exception(error if frame.type == UNAUTHORIZED else NodeGone(str(error)))

    def _lose(self, line: ClientLine) -> None:
        self._problem = self._words or self._said(line)
        self._words = ""
        for greeting in self._greetings.values():
            if not greeting.done():
                is_final = isinstance(line.problem, BadMessage)
                greeting.set_exception(line.problem if is_final and line.problem else NodeGone(self._problem))
        if line is self._line:
            self.calls.detach()

    def _said(self, line: ClientLine) -> str:
        if line.problem is None:
            return f"the node at {self._address} has hung up"
        return f"the connection to {self._address} is lost: {line.problem}"

    def _finish(self, error: Exception) -> None:
        """Nothing more will come of it."""
        if self.error is not None:
            return
        self.error = error

        def made(ask: Ask) -> Exception:
            if not isinstance(error, NodeGone):
                return error
            return NodeGone(f"{safe_str(error)}, before it answered {ask.name}; {ask.doubt}")

        self.calls.fail_all(made)
        if self._roster is not None:
            self._roster.end(error if self._task is not None else None)
