"""A worker around a function: the ready-made one.

It handles one message after the other, in the order in which they came. It takes no Task for a handler that does not wait;
for one that does, it takes one Task for all that waits in the mailbox, and not one for each message. (A coroutine is never stepped
outside a Task: `asyncio.timeout` and its kin do not work there.)

What the handler raises is told by an `ErrorEvent`, and the worker goes on with the next message: it is for the listener to say
whether that ends it. A worker that was terminated says nothing any more, whatever its handler still does.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterable, Iterator
from contextlib import aclosing
from time import monotonic
from typing import TypeAlias, cast, final

from bandstand.bus.contracts.messages import Message
from bandstand.bus.worker import ErrorEvent, Listeners, MessageEvent
from bandstand.core.logs import SafeLogger
from bandstand.errors import WrongThread

__all__ = ("BufferedWorker",)

logger = SafeLogger("bandstand.bus")

# What a handler gives back that has to be awaited. (object: what comes of it is looked at when it comes.)
Work: TypeAlias = Awaitable[object] | AsyncGenerator[object, None]

# How many messages are handled before others have their turn on the event loop.
BUDGET = 64
# For how long they are handled at most, in seconds.
BUDGET_S = 0.005
# What comes because the worker itself has asked for something.
ANSWERS = frozenset({"reply", "error"})


@final
class BufferedWorker(Listeners):
    """A worker around a function: a mailbox, and one message after the other.

    Args:
        handler: called with each message; `def` or `async def`. It returns None, what is to be said, or a list, a tuple or an
            iterator of that; a generator, plain or async, is heard while it goes on.
        soon: how to have a function called later, on this thread; by default the running event loop's `call_soon`.
        hears_answers: whether the handler is called with the answers to requests of its own too, which are of kind `reply` or
            `error`.
    """

    def __init__(
        self,
        # object: None, an output or several, or a promise of those; it is looked at when it comes.
        handler: Callable[[Message], object],
        *,
        soon: Callable[[Callable[[], None]], object] | None = None,
        hears_answers: bool = False,
    ) -> None:
        self._handler = handler
        self._hears_answers = hears_answers
        self._soon = soon
        self._mailbox: deque[Message] = deque()
        # Whether something runs, or will run, that looks into the mailbox.
        self._is_busy = False
        self._is_terminated = False
        # What waits for the handler, while it does.
        self._driver: asyncio.Task[None] | None = None
        # What the driver is to await first, while it has not.
        self._unbegun: Work | None = None

    def __repr__(self) -> str:
        return f"BufferedWorker({getattr(self._handler, '__qualname__', self._handler)!s})"

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits for it and nothing is being handled."""
        return not self._is_busy

    @property
    def backlog(self) -> int:
        """How many messages wait for it: past the capability's `mailbox_cap` it is given no more."""
        return len(self._mailbox)

    @property
    def is_terminated(self) -> bool:
        """Whether it has ended, and takes nothing any more."""
        return self._is_terminated

    def post_message(self, message: Message, /) -> None:
        """Take a message, and return at once. One that is terminated ignores it.

        Raises:
            WrongThread: no event loop runs here, and nothing else was said about how to call later.
        """
        if self._is_terminated or (message.kind in ANSWERS and not self._hears_answers):
            return
        if not self._is_busy:
            self._call_soon()
            self._is_busy = True
        self._mailbox.append(message)

    def terminate(self) -> None:
        """End at once: what waits is forgotten, and a handler that waits for something is cancelled.

        Whoever posted the messages knows them, and answers for them.
        """
        self._is_terminated = True
        self._mailbox.clear()
        if self._driver is not None:
            self._driver.cancel()
            unbegun, self._unbegun = self._unbegun, None
            if isinstance(unbegun, Coroutine):
                # The task has not come to its first step, and now never awaits it.
                unbegun.close()
        else:
            self._is_busy = False

    def _call_soon(self) -> None:
        soon = self._soon
        if soon is None:
            try:
                soon = asyncio.get_running_loop().call_soon
            except RuntimeError:
                raise WrongThread(
                    f"{self!r} was posted a message where no event loop runs: post it on the loop's own thread, or make the worker "
                    f"with soon=..., which says how to call a function later"
                ) from None
        soon(self._run)

    def _run(self) -> None:
        """Handle what waits, until a handler has to be awaited, or others shall have their turn."""
        try:
            end = monotonic() + BUDGET_S
            for _ in range(BUDGET):
                if not self._mailbox:
                    break
                message = self._mailbox.popleft()
                work = self._begin(message)
                if work is not None:
                    self._unbegun = work
                    self._driver = asyncio.get_running_loop().create_task(self._drive(message, work))
                    break
                if monotonic() >= end:
                    break
        finally:
            if self._driver is None:
                self._rest()

    async def _drive(self, message: Message, work: Work) -> None:
        """Await what a handler has begun, and handle on from there as long as anything waits."""
        turns = 0
        end = monotonic() + BUDGET_S
        self._unbegun = None
        try:
            await self._finish(message, work)
            while self._mailbox:
                message = self._mailbox.popleft()
                following = self._begin(message)
                if following is not None:
                    await self._finish(message, following)
                turns += 1
                if turns >= BUDGET or monotonic() >= end:
                    await asyncio.sleep(0)
                    turns = 0
                    end = monotonic() + BUDGET_S
        except asyncio.CancelledError:
            # Terminated; or whoever owns the event loop ends all that runs on it, which comes to the same.
            self._is_terminated = True
            self._mailbox.clear()
            raise
        finally:
            self._driver = None
            self._rest()

    def _rest(self) -> None:
        if self._mailbox:
            self._call_soon()
        else:
            self._is_busy = False

    def _begin(self, message: Message) -> Work | None:
        """Call the handler. What it gives back is said, or returned if it has to be awaited."""
        try:
            result = self._handler(message)
            if isinstance(result, (Awaitable, AsyncGenerator)):
                return cast("Work", result)
            self._say_all(result, message)
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001  # whatever it is, the listener decides
            self._fail(error, message)
        return None

    async def _finish(self, message: Message, work: Work) -> None:
        try:
            if isinstance(work, AsyncGenerator):
                async with aclosing(work) as outputs:
                    async for output in outputs:
                        if not self._say(output, message):
                            break
            else:
                self._say_all(await work, message)
        except asyncio.CancelledError as error:
            driver = asyncio.current_task()
            is_ending = driver is not None and driver.cancelling() > 0
            # If nobody has cancelled us, then what the handler has waited for was cancelled: an error like others.
            if not (is_ending and self._is_terminated):
                self._fail(error, message)
            if is_ending:
                raise
        except Exception as error:  # noqa: BLE001  # whatever it is, the listener decides
            self._fail(error, message)

    def _say_all(self, result: object, message: Message) -> None:
        # A mapping, or a model, can be gone through as well: it is one output all the same.
        if isinstance(result, (list, tuple, Iterator)):
            for output in cast("Iterable[object]", result):
                if not self._say(output, message):
                    break
        elif result is not None:
            self._say(result, message)

    def _say(self, output: object, message: Message) -> bool:
        """Say one thing, unless nobody shall hear it any more."""
        if self._is_terminated:
            return False
        return self.dispatch_event(MessageEvent(output, _id_of(message)))

    def _fail(self, error: BaseException, message: Message) -> None:
        if self._is_terminated:
            logger.warning("%r raised after it was terminated; nobody hears of it.", self, exc_info=error)
        else:
            self.dispatch_event(ErrorEvent(error, _id_of(message)))


def _id_of(message: Message) -> str | None:
    return message.metadata.id if message.metadata is not None else None
