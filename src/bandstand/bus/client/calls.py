"""Calls under way: which have been sent, which wait their turn, and what each of them ends with.

A call outlives its connection. When one is lost, what was sent by it and not answered is sent again by the next, under the same id: so a
node that remembers what it has answered does nothing twice. Its deadline is its own, and stays what it was.

Every call ends: by its answer, at its deadline, by its caller's going away, or with the client.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias, final

import msgspec

from bandstand.bus.client.frames import line_of
from bandstand.bus.faults import OVERLOADED
from bandstand.bus.frame import Frame
from bandstand.errors import AskTimeout, NodeGone
from bandstand.supervision import Backoff

if TYPE_CHECKING:
    from bandstand.bus.client.line import ClientLine

__all__ = ("Ask", "Calls")

# What a node is given beyond a call's own time, for its answer that the time is over: it is the node that knows why.
GRACE_S = 2.0
# What share of its time a call may wait before it is sent, until the node has to be told that there is less.
WAITED = 0.99
# How long to wait before a call is sent again for which the node had no room.
BACKOFF = Backoff(initial_ms=10, max_ms=1000, jitter_ms=10)

Sentence: TypeAlias = str


@final
class Ask:
    """One call.

    Args:
        frame: the request.
        witness: a request that is sent behind it, and whose answer shows that the first has been taken in; for events, which are owed none.
    """

    __slots__ = (
        "deadline",
        "frame",
        "future",
        "is_forgotten",
        "is_sent",
        "line",
        "pause",
        "stored_ms",
        "timer",
        "tries",
        "witness",
    )

    def __init__(
        self, frame: Frame, deadline: float, future: asyncio.Future[Frame], witness: Frame | None = None
    ) -> None:
        self.frame = frame
        self.witness = witness
        self.deadline = deadline
        self.future = future
        # Written now: what can never be sent is told to whoever says it.
        self.line = line_of(frame) + (b"" if witness is None else line_of(witness))
        self.is_sent = False
        self.is_forgotten = False
        self.tries = 0
        self.timer: asyncio.TimerHandle | None = None
        # While it waits to be sent again because the node was overloaded; and how long the last wait was, for the next one.
        self.pause: asyncio.TimerHandle | None = None
        self.stored_ms = 0.0

    @property
    def ids(self) -> tuple[str, ...]:
        """What an answer to it may name."""
        own = self.frame.metadata.id
        return (own,) if self.witness is None else (own, self.witness.metadata.id)

    @property
    def name(self) -> Sentence:
        """For sentences."""
        return f"{self.frame.kind} {self.frame.type}"

    @property
    def doubt(self) -> Sentence:
        """Whether it may have been done."""
        return "whether it was done is not known" if self.tries else "it was never sent"

    def fail(self, error: Exception) -> None:
        """End it with an error."""
        if not self.future.done():
            self.future.set_exception(error)
            # Whoever asked may be gone: then it is nobody's.
            self.future.exception()

    def end_pause(self) -> None:
        """Do not wait any longer to be sent again."""
        if self.pause is not None:
            self.pause.cancel()
            self.pause = None

    def trim(self, now: float) -> None:
        """The same request, with what is left of its time, if it has waited for long."""
        timeout = self.frame.metadata.timeout
        left = max(1, int((self.deadline - now) * 1000))
        if timeout is None or left > timeout * WAITED:
            return
        metadata = msgspec.structs.replace(self.frame.metadata, timeout=left)
        self.frame = Frame(
            kind=self.frame.kind, type=self.frame.type, data=self.frame.data, metadata=metadata
        )
        self.line = line_of(self.frame)


@final
class Calls:
    """All calls of one client.

    Args:
        window: how many may be sent and not answered.
        absence: says why there is no connection, for sentences.
        retries_overloaded: whether a call that was answered with `Sys.Overloaded` is sent again, within its time.
    """

    def __init__(
        self, window: int, absence: Callable[[], Sentence], *, retries_overloaded: bool = True
    ) -> None:
        self._window = window
        self._retries_overloaded = retries_overloaded
        self._absence = absence
        self._event_loop = asyncio.get_running_loop()
        # By each id that an answer may name, in the order in which they were made.
        self._open: dict[str, Ask] = {}
        self._waiting: deque[Ask] = deque()
        self._sent = 0
        self._line: ClientLine | None = None

    @property
    def sent(self) -> int:
        """How many were sent by the connection there is, and have no answer."""
        return self._sent

    def __len__(self) -> int:
        return sum(ask.frame.metadata.id == key for key, ask in self._open.items())

    # --- calls --------------------------------------------------------------------------------------------------------

    def begin(self, frame: Frame, timeout_ms: int, witness: Frame | None = None) -> Ask:
        """Send a request, now or when it is its turn; `Ask.future` has the answer."""
        deadline = self._event_loop.time() + timeout_ms / 1000
        ask = Ask(frame, deadline, self._event_loop.create_future(), witness)
        ask.timer = self._event_loop.call_at(deadline, self._expire, ask)
        self._open.update(dict.fromkeys(ask.ids, ask))
        self._waiting.append(ask)
        self.pump()
        return ask

    async def wait(self, ask: Ask) -> Frame:
        """The answer. If whoever waits is cancelled, the call is forgotten: if it was not sent, it never is."""
        try:
            return await ask.future
        except asyncio.CancelledError:
            self._forget(ask)
            raise

    def settle(self, frame: Frame) -> bool:
        """An answer has come. False if it answers nothing that is known."""
        causation = frame.metadata.causation
        ask = self._longest() if causation is None else self._open.get(causation)
        if ask is None:
            return False
        if frame.type == OVERLOADED and frame.kind == "error" and self._goes_again(ask):
            self.pump()
            return True
        self._close(ask)
        if not ask.future.done():
            ask.future.set_result(frame)
        self.pump()
        return True

    def _goes_again(self, ask: Ask) -> bool:
        """Have a call sent again for which the node had no room: nothing was done. False if its time would be over."""
        if not self._retries_overloaded or ask.witness is not None or ask.is_forgotten or ask.future.done():
            return False
        wait = BACKOFF.after(ask.stored_ms, chance=random.random())  # noqa: S311  # nobody gains by guessing it
        now = self._event_loop.time()
        if now + wait.ms / 1000 >= ask.deadline:
            return False
        ask.stored_ms = wait.stored_ms
        ask.is_sent = False
        self._sent -= 1
        ask.pause = self._event_loop.call_later(wait.ms / 1000, self._again, ask)
        return True

    def _again(self, ask: Ask) -> None:
        ask.pause = None
        self._waiting.append(ask)
        self.pump()

    def _longest(self) -> Ask | None:
        """The call that an error without causation is about: all that a node cannot make out the id of is a line that is too long."""
        sent = [ask for ask in self._open.values() if ask.is_sent]
        return max(sent, key=lambda ask: len(ask.line), default=None)

    def _forget(self, ask: Ask) -> None:
        if ask.is_sent:
            # Its answer will come, and until then it counts: it does for the node too.
            ask.is_forgotten = True
        else:
            self._close(ask)

    def _close(self, ask: Ask) -> None:
        if ask.timer is not None:
            ask.timer.cancel()
        ask.end_pause()
        if self._open.pop(ask.frame.metadata.id, None) is None:
            return
        if ask.witness is not None:
            self._open.pop(ask.witness.metadata.id, None)
        if ask.is_sent:
            self._sent -= 1
        else:
            ask.is_forgotten = True

    def _expire(self, ask: Ask) -> None:
        if ask.is_sent and self._line is not None and self._event_loop.time() < ask.deadline + GRACE_S:
            ask.timer = self._event_loop.call_at(ask.deadline + GRACE_S, self._expire, ask)
            return
        is_sent = ask.is_sent
        self._close(ask)
        if self._line is None:
            ask.fail(NodeGone(f"{ask.name} was not answered in its time: {self._absence()}; {ask.doubt}"))
        elif is_sent:
            ask.fail(
                AskTimeout(
                    f"{ask.name} was not answered in its time, and the node has not said why: it may be stuck, or be something else "
                    f"than a node"
                )
            )
        else:
            ask.fail(
                AskTimeout(
                    f"{ask.name} was not sent in its time: as many calls were without an answer as the window of {self._window} allows"
                )
            )
        self.pump()

    # --- connections --------------------------------------------------------------------------------------------------

    def attach(self, line: ClientLine) -> None:
        """There is a connection: send what is to be sent by it."""
        self._line = line
        self.pump()

    def detach(self) -> None:
        """It is lost: what was sent by it and not answered is to be sent again, before everything else."""
        self._line = None
        now = self._event_loop.time()
        for ask in dict.fromkeys(self._open.values()):
            ask.end_pause()
            if not ask.is_sent:
                continue
            if ask.is_forgotten or ask.witness is not None:
                self._close(ask)
                ask.fail(
                    NodeGone(
                        f"the node has hung up while {ask.name} was on its way: whether anybody has heard it is not known"
                    )
                )
            elif ask.deadline <= now:
                self._close(ask)
                ask.fail(
                    NodeGone(f"{ask.name} was not answered in its time: the node has hung up; {ask.doubt}")
                )
            else:
                ask.is_sent = False
        self._sent = 0
        self._waiting = deque(dict.fromkeys(self._open.values()))

    def fail_all(self, make: Callable[[Ask], Exception]) -> None:
        """There will be no connection any more."""
        self._line = None
        self._waiting.clear()
        for ask in dict.fromkeys(self._open.values()):
            self._close(ask)
            ask.fail(make(ask))

    def pump(self) -> None:
        """Send as many as may be."""
        line = self._line
        if line is None:
            return
        while self._waiting and self._sent < self._window and line.is_writable:
            ask = self._waiting.popleft()
            if ask.is_forgotten:
                continue
            ask.trim(self._event_loop.time())
            ask.is_sent = True
            ask.tries += 1
            self._sent += 1
            line.send(ask.line)
