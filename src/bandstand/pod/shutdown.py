"""How a troupe stops: in phases, within one time for all of them.

1. Intake: the program's handles find nobody any more.
2. Drain: all pods handle what they have, and what that makes them send each other, until all of them are quiet. Each has its own time
   for that, and all together have the troupe's.
3. Stop: pod after pod, the last declared first, ends. Those before it are still there, so what it has to say to them at its end arrives.
4. Kill: what has not ended is ended without waiting for what it was doing; a process, by SIGKILL.
5. What cannot even be killed, a thread that is stuck in somebody's handler, is named in the log and left behind.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import Future
from time import monotonic
from typing import TYPE_CHECKING, Protocol, final

from bandstand.core.logs import SafeLogger
from bandstand.pod.ending import Ending
from bandstand.pod.settled import settled
from bandstand.pod.vocabulary import PodPhase

if TYPE_CHECKING:
    from bandstand.pod.stages import Look

__all__ = ("Deadline", "Life", "shut_down")

logger = SafeLogger("bandstand.pod")

# How much longer than its own time a pod is waited for before the next one has its turn, in seconds.
SLACK_S = 0.25
# How long those that were killed may take, in seconds.
KILL_S = 1.0
# How long to wait before everybody is looked at again, in seconds: quiet is the absence of everything, and nothing tells of it.
LOOK_S = 0.002
# How often all must be found quiet if somebody keeps sending.
CALM = 5
# How long one look waits for those who are busy, in milliseconds.
PATIENCE_MS = 100.0


class Life(Protocol):
    """The life of a pod, or of a troupe inside."""

    @property
    def name(self) -> str:
        """For people: "pod 'engine'"."""
        ...

    @property
    def stop_ms(self) -> float:
        """How long it has to stop."""
        ...

    @property
    def task(self) -> asyncio.Task[None]:
        """Its life itself: done when it has ended for good."""
        ...

    def look(self) -> Future[Look] | None:
        """Ask it how it is; None if nobody is there to be asked."""
        ...

    def stop(self, within_ms: float) -> None:
        """Have it handle what it has, and end."""
        ...

    def kill(self, ending: Ending) -> None:
        """Have it end at once."""
        ...

    def abandon(self, ending: Ending) -> None:
        """Leave it behind."""
        ...

    def whereabouts(self) -> str:
        """What it is doing, for people: the last line of its stack, if that can be seen. Else empty."""
        ...


@final
class Deadline:
    """When everything must be over. It can come nearer while somebody waits for it."""

    def __init__(self, within_ms: float) -> None:
        self._at = monotonic() + within_ms / 1000
        self._moved = asyncio.Event()

    def shorten(self, within_ms: float) -> None:
        """So much time is left from now on, unless it was less already."""
        at = monotonic() + within_ms / 1000
        if at < self._at:
            self._at = at
            self._moved.set()
            self._moved = asyncio.Event()

    @property
    def left_ms(self) -> float:
        """How much is left."""
        return max(0.0, (self._at - monotonic()) * 1000)

    async def wait(self, task: asyncio.Task[None], within_ms: float) -> bool:
        """Wait for a task, so long at most, and not past the deadline; whether it is done."""
        until = monotonic() + within_ms / 1000
        while not task.done():
            left = min(until, self._at) - monotonic()
            if left <= 0:
                return False
            moved = asyncio.ensure_future(self._moved.wait())
            await asyncio.wait((task, moved), timeout=left, return_when=asyncio.FIRST_COMPLETED)
            moved.cancel()
        return True


async def shut_down(troupe: str, lives: Sequence[Life], deadline: Deadline) -> None:
    """End everybody, as the text above says. The intake is closed already."""
    lives = [life for life in reversed(lives) if not life.task.done()]
    if lives:
        logger.info(
            "troupe %r is stopping, within %.0f ms: %s",
            troupe,
            deadline.left_ms,
            ", ".join(life.name for life in lives),
        )
    began = monotonic()
    await _drain(lives, deadline)
    for life in lives:
        # What it had to do with others has had its time.
        ms = max(0.0, min(life.stop_ms - (monotonic() - began) * 1000, deadline.left_ms))
        life.stop(ms)
        await deadline.wait(life.task, ms + SLACK_S * 1000)
    left = [life for life in lives if not life.task.done()]
    if left:
        await _kill(troupe, left)
    logger.info("troupe %r has stopped", troupe)


async def _drain(lives: Sequence[Life], deadline: Deadline) -> None:
    """Wait until nobody has anything to do, for as long as each may take.

    One that is quiet may get something from one that was not, after it was looked at. So all must be quiet twice, with nothing sent in
    between; or, where somebody has a timer that always sends, a few times running.
    """
    began = monotonic()
    sent, calm = -1, 0
    while deadline.left_ms > 0:
        spent = (monotonic() - began) * 1000
        busy = [life for life in lives if not life.task.done() and spent < life.stop_ms]
        looks = [look for life in busy if (look := life.look()) is not None]
        if not looks:
            return
        left_ms = min(max(life.stop_ms for life in busy) - spent, deadline.left_ms, PATIENCE_MS)
        answered = await _answers(looks, left_ms / 1000)
        now = sum(look.books.sent for look in answered)
        if len(answered) == len(looks) and all(look.is_quiet for look in answered):
            if calm and (now == sent or calm == CALM):
                return
            calm += 1
        else:
            calm = 0
        sent = now
        # They are on threads and in processes of their own, and say how they are when they are asked: nothing tells when to ask again.
        await asyncio.sleep(LOOK_S)


async def _answers(looks: Sequence[Future[Look]], seconds: float) -> list[Look]:
    """What those say who answer in time."""
    waiting = [asyncio.create_task(settled(look)) for look in looks]
    await asyncio.wait(waiting, timeout=seconds)
    for task in waiting:
        task.cancel()
    return [look.result() for look in looks if look.done()]


async def _kill(troupe: str, lives: Sequence[Life]) -> None:
    logger.warning(
        "troupe %r: killed, because they have not ended in time: %s",
        troupe,
        ", ".join(life.name for life in lives),
    )
    for life in lives:
        life.kill(Ending(PodPhase.FAILED, "killed: it had not ended in time when it was stopped"))
    await asyncio.wait([life.task for life in lives], timeout=KILL_S)
    for life in lives:
        if life.task.done():
            continue
        at = life.whereabouts()
        logger.error(
            "troupe %r: %s cannot be ended, and is left behind%s",
            troupe,
            life.name,
            at and f": it is at {at}",
        )
        life.abandon(Ending(PodPhase.FAILED, "left behind: its thread is stuck, and did not end"))
    if stuck := [life.task for life in lives if not life.task.done()]:
        await asyncio.wait(stuck, timeout=KILL_S)
