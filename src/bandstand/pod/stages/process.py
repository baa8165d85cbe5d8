"""Process: in an interpreter of its own, with an event loop of its own."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from concurrent.futures import Future
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING, final

from bandstand.core.logs import SafeLogger
from bandstand.errors import BadMessage, BandstandError
from bandstand.errors.formatting import safe_repr, safe_str
from bandstand.pod.books import PodBooks
from bandstand.pod.ending import Ending
from bandstand.pod.process import spawn_child
from bandstand.pod.process.player import PLAY
from bandstand.pod.process.words import (
    Announce,
    Attach,
    Begin,
    Books,
    Ended,
    Entered,
    Failing,
    Known,
    LinkLost,
    Lost,
    Retire,
    Stop,
    TellBooks,
    Withdraw,
)
from bandstand.pod.stages.stage import ENDED, Look, Where
from bandstand.pod.travel import luggage_for
from bandstand.pod.vocabulary import PodPhase

if TYPE_CHECKING:
    import socket

    from bandstand.core import ActorId
    from bandstand.pod.process import Child, Exit
    from bandstand.pod.spec import PodSpec, TroupeSpec
    from bandstand.pod.stages.stage import Told

__all__ = ("ProcessStage",)

logger = SafeLogger("bandstand.pod")

# How long a process may take to exit after its pod has ended, in seconds.
EXIT_S = 2.0
# How long after the end of a link, or of the control channel, the end of the process may come: then that is the reason.
ENDING_S = 1.0


def cores_of(pid: int) -> set[int]:
    """The cores that a process may run on; none, where the platform does not tell."""
    try:
        return os.sched_getaffinity(pid)
    except (AttributeError, OSError):
        return set()


@final
class ProcessStage:
    """A process that plays a pod.

    Args:
        spec: the whole troupe.
        pod: the pod.
        number: which incarnation it is.
        told: who hears of what happens there.
        address: where the class of the troupe is found; None if nothing of it is needed there.
    """

    is_apart = True

    def __init__(self, spec: TroupeSpec, pod: PodSpec, number: int, told: Told, address: str | None) -> None:
        self.number = number
        self.exposed: Mapping[str, ActorId] = {}
        self.final = PodBooks()
        self._begin = Begin(spec=luggage_for(spec, pod.name), pod=pod.name, number=number, troupe=address)
        self._name = f"{spec.name}.{pod.name}"
        self._core = pod.core
        self._told = told
        self._child: Child | None = None
        self._spawning: asyncio.Task[Child] | None = None
        self._looks: dict[int, Future[Look]] = {}
        self._numbers = count(1)
        # What we have ended it for; it counts more than what a dead process can say.
        self._ending: Ending | None = None
        # What ends it if it goes on living without a link.
        self._failing: asyncio.Task[None] | None = None
        # Whether it was asked to stop.
        self._is_asked = False

    @property
    def pod(self) -> str:
        """The pod's name."""
        return self._begin.pod

    @property
    def where(self) -> Where:
        """Where it runs, as the system confirms."""
        if self._child is None or self._child.exit is not None:
            return Where()
        core = self._core
        is_pinned = core is not None and cores_of(self._child.pid) == {core}
        return Where(process=self._child.pid, core=core if is_pinned else None)

    async def play(self) -> Ending:
        """Start the process, and wait for its end."""
        self._spawning = asyncio.create_task(
            spawn_child(PLAY, name=self._name, payload=self._begin), name=f"bandstand starts {self._name}"
        )
        try:
            self._child = child = await self._spawning
        except asyncio.CancelledError:
            if self._ending is None:
                # It was not we who gave it up.
                raise
            return self._ending
        except (BandstandError, TypeError, OSError) as error:
            return Ending(PodPhase.FAILED, f"its process did not start: {safe_str(error)}", "", error)
        async with child:
            if self._ending is not None:
                # It was given up in the very moment in which it came up.
                return self._ending
            self._make_known()
            try:
                ended = await self._listen(child)
                if ended is not None:
                    # It exits by itself, unless something of the program's keeps it.
                    with suppress(TimeoutError):
                        async with asyncio.timeout(EXIT_S):
                            await child.wait()
                    child.kill()
                exit_ = await child.wait()
            finally:
                if self._failing is not None:
                    self._failing.cancel()
            for answer in self._looks.values():
                answer.set_result(ENDED)
            return self._ended(ended, exit_)

    def _make_known(self) -> None:
        try:
            self._told.begun(self)
        except Exception as error:
            logger.exception("pod %r cannot be made known to the others", self.pod)
            self.kill(
                Ending(
                    PodPhase.FAILED,
                    f"it could not be made known to the others: {safe_repr(error)}",
                    "",
                    error,
                )
            )

    async def _listen(self, child: Child) -> Ended | None:
        """Hear what it says, until it has said its last word, or is gone."""
        while True:
            try:
                letter = await child.control.receive()
            except EOFError as error:
                self.fail_alive(f"its control channel ended while its process was alive ({safe_str(error)})")
                return None
            except BadMessage as error:
                self.kill(
                    Ending(PodPhase.FAILED, f"it has said what cannot be read: {safe_str(error)}", "", error)
                )
                continue
            if isinstance(letter.word, Ended):
                return letter.word
            self._take(letter.word)

    def _take(self, said: object) -> None:
        """It has said something that is not its last word."""
        match said:
            case Entered(phase, reason):
                self._told.phase(self, phase, reason)
            case Known(peer):
                self._told.known(self, peer)
            case Failing() as failing:
                self._told.failing(self, failing.ending())
            case LinkLost(number, reason, is_ours):
                self._told.lost(self, number, reason, is_ours)
            case Lost(dead):
                self._told.dead(dead)
            case Books() as books:
                self._hear(books)
            case word:
                self.kill(Ending(PodPhase.FAILED, f"it has said {word!r}: nobody here knows what that means"))

    def _ended(self, ended: Ended | None, exit_: Exit) -> Ending:
        if ended is not None:
            self.final = ended.total
            ending = ended.ending()
            is_wanted = self._is_asked or self._told.is_stopping()
            if ended.is_terminated and not ending.is_failure and not is_wanted:
                return Ending(PodPhase.FAILED, "its process was sent SIGTERM, and has stopped")
            return ending
        if self._ending is not None:
            return self._ending
        return Ending(PodPhase.FAILED, f"its process is gone: {exit_.sentence}", "", exit_.cause)

    # -- what it is told -------------------------------------------------------------------------------------------------------

    def publish(self, pod: str, addresses: Mapping[str, ActorId]) -> None:
        """Nothing: whoever is in another process is reached by a link."""

    def withdraw(self, pod: str, reason: str) -> None:
        """An incarnation of a pod has ended."""
        self._say(Withdraw(pod, reason))

    def retire(self, pod: str, reason: str) -> None:
        """A pod is gone for good."""
        self._say(Retire(pod, reason))

    def attach(self, peer: str | None, end: socket.socket, *, is_running: bool, number: int = 0) -> None:
        """Here is the end of a link."""
        with end:
            if self._child is not None:
                self._child.control.send(Attach(peer, is_running, number), (end.fileno(),))

    def announce(self, peer: str) -> None:
        """The pod at the other end of a link runs now."""
        self._say(Announce(peer))

    def stop(self, within_ms: float) -> None:
        """Have it handle what it has, and end."""
        self._is_asked = True
        if self._child is None:
            self.kill(Ending(PodPhase.COMPLETED, "stopped before it ran"))
        else:
            self._say(Stop(within_ms))

    def kill(self, ending: Ending) -> None:
        """End it at once."""
        self._ending = self._ending or ending
        if self._child is not None:
            self._child.kill()
        elif self._spawning is not None:
            self._spawning.cancel()

    def fail_alive(self, reason: str) -> None:
        """It has lost a link, or its control channel, and cannot go on. If its process is just ending, that says more."""
        if self._failing is None and self._child is not None and self._child.exit is None:
            self._failing = asyncio.create_task(
                self._fail_alive(self._child, reason), name=f"bandstand ends {self._name}"
            )

    async def _fail_alive(self, child: Child, reason: str) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(ENDING_S):
                await child.wait()
        if child.exit is None:
            self.kill(Ending(PodPhase.FAILED, reason))

    def abandon(self, ending: Ending) -> None:
        """Nobody survives a kill: it will be gone as soon as the system has the time."""
        self.kill(ending)

    def look(self) -> Future[Look]:
        """Ask it how it is."""
        answer: Future[Look] = Future()
        number = next(self._numbers)
        if self._child is None or self._child.exit is not None:
            answer.set_result(ENDED)
        else:
            self._looks[number] = answer
            self._say(TellBooks(number))
        return answer

    def _hear(self, books: Books) -> None:
        answer = self._looks.pop(books.number, None)
        if answer is not None and answer.set_running_or_notify_cancel():
            answer.set_result(Look(books.is_quiet, books.waiting, books.total))

    def _say(self, word: object) -> None:
        if self._child is not None:
            self._child.control.send(word)
