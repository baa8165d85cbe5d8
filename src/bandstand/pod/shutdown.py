"""How a troupe stops, in phases that share one deadline.

1. Intake: the handles of the calling program are closed.
2. Drain: all pods handle the messages they have, and those that they send each other meanwhile, until all are quiet. Each pod has its
   own time limit; together they have that of the troupe.
3. Stop: the pods end one after the other, the last declared first. Earlier pods still run, so messages that a pod sends them while it
   ends arrive.
4. Kill: pods that have not ended are ended without waiting for their handlers; processes with SIGKILL.
5. A thread that is stuck in a handler cannot be killed. It is logged, with its location, and abandoned.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from time import monotonic
from typing import TYPE_CHECKING, Protocol, final

from bandstand.core.logs import SafeLogger
from bandstand.pod.enums import PodPhase
from bandstand.pod.restart import PodEnding
from bandstand.pod.threads import wait_done

if TYPE_CHECKING:
    from bandstand.pod.placement import PodActivity

__all__ = ("KILL_TIMEOUT_S", "Deadline", "Stoppable", "shut_down")

logger = SafeLogger("bandstand.pod")

# A pod gets this much more than its own time before the next one is stopped.
GRACE_S = 0.25
KILL_TIMEOUT_S = 1.0
"""How long killed pods may take to end."""
# Pods report whether they are quiet only when they are asked. This is the delay between two rounds of asking.
POLL_S = 0.002
# If a pod keeps sending, for example from a timer, this many quiet rounds in a row end the drain.
QUIET_ROUNDS = 5
# How long one round waits for pods that are busy.
ROUND_TIMEOUT_MS = 100.0


class Stoppable(Protocol):
    """A pod or a nested troupe, over all its incarnations, as the shutdown sees it."""

    @property
    def name(self) -> str:
        """For logs: "pod 'engine'"."""
        ...

    @property
    def stop_ms(self) -> float:
        """How long it may take to stop."""
        ...

    @property
    def task(self) -> asyncio.Task[None]:
        """The task that supervises it. Done when it has ended and will not be restarted."""
        ...

    def activity(self) -> Future[PodActivity] | None:
        """Ask whether it is quiet; None if it does not run."""
        ...

    def stop(self, within_ms: float) -> None:
        """Have it handle the messages it has, and end."""
        ...

    def kill(self, ending: PodEnding) -> None:
        """End it at once."""
        ...

    def abandon(self, ending: PodEnding) -> None:
        """Stop waiting for it, because it cannot be killed."""
        ...

    def location(self) -> str:
        """Return the line that its thread is executing, or an empty string if that is not known."""
        ...


@final
class Deadline:
    """When the shutdown must be over. It can be moved forward while tasks wait for it."""

    def __init__(self, within_ms: float) -> None:
        self._at = monotonic() + within_ms / 1000
        self._moved = asyncio.Event()

    def shorten(self, within_ms: float) -> None:
        """Leave this much time from now on, unless less is left already."""
        at = monotonic() + within_ms / 1000
        if at < self._at:
            self._at = at
            self._moved.set()
            self._moved = asyncio.Event()

    @property
    def left_ms(self) -> float:
        """How much time is left."""
        return max(0.0, (self._at - monotonic()) * 1000)

    async def wait(self, task: asyncio.Task[None], within_ms: float) -> bool:
        """Wait for a task until the timeout or the deadline, whichever is first. Return whether the task is done."""
        until = monotonic() + within_ms / 1000
        while not task.done():
            left = min(until, self._at) - monotonic()
            if left <= 0:
                return False
            moved = asyncio.ensure_future(self._moved.wait())
            await asyncio.wait((task, moved), timeout=left, return_when=asyncio.FIRST_COMPLETED)
            moved.cancel()
        return True


async def shut_down(
    troupe: str,
    parts: Sequence[Stoppable],
    deadline: Deadline,
    feeds: Sequence[Callable[[], Future[PodActivity]]] = (),
) -> None:
    """Run phases 2 to 5 of the module docstring. The caller has closed the intake.

    Args:
        troupe: the name of the troupe, for logs.
        parts: its nested troupes and pods, in the order in which they were started.
        deadline: when to kill the rest.
        feeds: ask others, which do not stop here, whether what they have sent has arrived.
    """
    parts = [part for part in reversed(parts) if not part.task.done()]
    if parts:
        logger.info(
            "troupe %r is stopping, within %.0f ms: %s",
            troupe,
            deadline.left_ms,
            ", ".join(part.name for part in parts),
        )
    began = monotonic()
    await _drain(parts, deadline, feeds)
    for part in parts:
        # The drain has used some of its time.
        ms = max(0.0, min(part.stop_ms - (monotonic() - began) * 1000, deadline.left_ms))
        part.stop(ms)
        await deadline.wait(part.task, ms + GRACE_S * 1000)
    left = [part for part in parts if not part.task.done()]
    if left:
        await _kill(troupe, left)
    logger.info("troupe %r has stopped", troupe)


async def _drain(
    parts: Sequence[Stoppable], deadline: Deadline, feeds: Sequence[Callable[[], Future[PodActivity]]]
) -> None:
    """Wait until all parts are quiet, each at most as long as its own limit.

    A part that was quiet when it was asked may receive a message from one that is asked later. So the drain ends when all parts are
    quiet in two rounds with nothing sent in between, or in several rounds in a row if a timer keeps sending.
    """
    began = monotonic()
    sent_before, quiet_rounds = -1, 0
    while deadline.left_ms > 0:
        spent = (monotonic() - began) * 1000
        busy = [part for part in parts if not part.task.done() and spent < part.stop_ms]
        asked = [answer for part in busy if (answer := part.activity()) is not None]
        if not asked:
            return
        asked += [ask() for ask in feeds]
        left_ms = min(max(part.stop_ms for part in busy) - spent, deadline.left_ms, ROUND_TIMEOUT_MS)
        answers = await _collect_answers(asked, left_ms / 1000)
        sent = sum(answer.stats.sent for answer in answers)
        if len(answers) == len(asked) and all(answer.is_quiet for answer in answers):
            if quiet_rounds and (sent == sent_before or quiet_rounds == QUIET_ROUNDS):
                return
            quiet_rounds += 1
        else:
            quiet_rounds = 0
        sent_before = sent
        await asyncio.sleep(POLL_S)


async def _collect_answers(asked: Sequence[Future[PodActivity]], timeout_s: float) -> list[PodActivity]:
    """Return the answers that arrive in time."""
    waiting = [asyncio.create_task(wait_done(answer)) for answer in asked]
    await asyncio.wait(waiting, timeout=timeout_s)
    for task in waiting:
        task.cancel()
    return [answer.result() for answer in asked if answer.done()]


async def _kill(troupe: str, parts: Sequence[Stoppable]) -> None:
    logger.warning(
        "troupe %r: killed, because they did not end in time: %s",
        troupe,
        ", ".join(part.name for part in parts),
    )
    for part in parts:
        part.kill(PodEnding(PodPhase.FAILED, "killed: it did not end in time when it was stopped"))
    await asyncio.wait([part.task for part in parts], timeout=KILL_TIMEOUT_S)
    for part in parts:
        if part.task.done():
            continue
        location = part.location()
        logger.error(
            "troupe %r: %s cannot be killed, and is abandoned%s",
            troupe,
            part.name,
            location and f": it is at {location}",
        )
        part.abandon(PodEnding(PodPhase.FAILED, "abandoned: its thread is stuck, and did not end"))
    if stuck := [part.task for part in parts if not part.task.done()]:
        await asyncio.wait(stuck, timeout=KILL_TIMEOUT_S)
