"""Playing a pod in a process of its own: an ensemble, conducted over the control channel by the kubelet that has started it."""

from __future__ import annotations

import asyncio
import socket
import sys
from dataclasses import replace
from functools import partial
from pkgutil import resolve_name
from typing import final

from bandstand.core.logs import SafeLogger
from bandstand.errors import BadMessage
from bandstand.pod.affinity import pin
from bandstand.pod.books import PodBooks
from bandstand.pod.ending import Ending
from bandstand.pod.ensemble import Ensemble
from bandstand.pod.forks import reserve
from bandstand.pod.link import Undelivered
from bandstand.pod.process.control import Control
from bandstand.pod.process.letters import Letter
from bandstand.pod.process.outgoing import close_all
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
from bandstand.pod.vocabulary import PodPhase

__all__ = ("PLAY", "play")

logger = SafeLogger("bandstand.pod")

PLAY = "bandstand.pod.process.player:play"
"""The target of a process that plays a pod."""


async def play(control: Control, begin: Begin) -> None:
    """Play a pod until it ends, and say how. The exit code is 1 if it has failed. SIGTERM stops it, and the kubelet is told so."""
    carries = () if begin.troupe is None else resolve_name(begin.troupe).carries
    player = _Player(control, replace(begin, spec=replace(begin.spec, carries=carries)))
    ending = await player.play()
    control.send(Ended.of(ending, player.books, is_terminated=player.is_terminated))
    if ending.is_failure:
        sys.exit(1)


@final
class _Player:
    """An ensemble, and the channel to those who conduct it."""

    __slots__ = ("_control", "_ensemble", "_is_asked", "_stop_ms", "_stopping", "is_terminated")

    def __init__(self, control: Control, begin: Begin) -> None:
        self._control = control
        self._ensemble = Ensemble(
            begin.spec,
            begin.pod,
            begin.number,
            on_phase=self._tell_phase,
            on_dead=self._tell_dead,
            on_known=self._tell_known,
            on_failing=self._tell_failing,
            on_lost=self._tell_lost_link,
        )
        self._stopping: asyncio.Task[None] | None = None
        self._stop_ms = 0.0
        # Whether the kubelet has asked it to stop; and whether a SIGTERM did, without that.
        self._is_asked = False
        self.is_terminated = False
        if (pod := self._ensemble.pod) is not None:
            self._stop_ms = pod.stop_ms
            if pod.core is not None:
                # All threads that are started from now on are where this one is.
                pin(pod.core, f"pod {pod.name!r}")

    @property
    def books(self) -> PodBooks:
        """What became of its messages."""
        return self._ensemble.books()

    async def play(self) -> Ending:
        """Play to the end."""
        playing = asyncio.create_task(self._ensemble.run(), name="bandstand pod")
        listening = asyncio.create_task(self._listen(), name="bandstand control")
        try:
            try:
                return await asyncio.shield(playing)
            except asyncio.CancelledError:
                if playing.done():
                    # Somebody inside has cancelled it.
                    raise
                self.is_terminated = not self._is_asked
                self._stop(self._stop_ms)
                return await playing
        finally:
            listening.cancel()
            if self._stopping is not None:
                self._stopping.cancel()

    async def _listen(self) -> None:
        try:
            async for letter in self._control:
                # In the ensemble's own turn: until it has begun, there is nobody to attach anybody to.
                self._ensemble.porch.kernel.inbox.call_soon(partial(self._heed, letter))
        except BadMessage as error:
            self._give_up(str(error))
        except Exception as error:
            # Nobody hears what the kubelet says any more.
            logger.exception("what the kubelet says cannot be received any more")
            self._give_up(f"what its kubelet says could not be received ({type(error).__name__})")

    def _heed(self, letter: Letter) -> None:
        try:
            self._obey(letter)
        except Exception as error:
            # It may have been a link, without which this pod could never be reached.
            close_all(letter.fds)
            word = type(letter.word).__name__
            logger.exception("what the kubelet has said could not be done: %s", word)
            self._give_up(f"what its kubelet has said could not be done: {word} ({type(error).__name__})")

    def _obey(self, letter: Letter) -> None:
        if self._ensemble.porch.kernel.is_closed:
            # It has ended meanwhile.
            close_all(letter.fds)
            return
        match letter.word, letter.fds:
            case Attach(peer, is_running, number), (fd,):
                end = socket.socket(fileno=fd)
                # What an actor forks off must not keep the link alive when this process is gone.
                reserve(end)
                self._ensemble.attach(peer, end, is_running=is_running, number=number)
            case Announce(peer), ():
                self._ensemble.announce(peer)
            case Withdraw(pod, reason), ():
                self._ensemble.registry.withdraw(pod)
                self._ensemble.detach(pod, reason)
            case Retire(pod, reason), ():
                self._ensemble.registry.retire(pod, reason)
            case Stop(within_ms), ():
                self._is_asked = True
                self.is_terminated = False
                self._stop(within_ms)
            case TellBooks(number), ():
                self._tell_books(number)
            case word, fds:
                close_all(fds)
                self._give_up(
                    f"its kubelet has said {word!r}, with {len(fds)} descriptors: nobody here knows what that means"
                )

    def _stop(self, within_ms: float) -> None:
        if self._stopping is None:
            self._stopping = asyncio.create_task(self._ensemble.stop(within_ms), name="bandstand stop")

    def _give_up(self, sentence: str) -> None:
        self._ensemble.end(Ending(PodPhase.FAILED, sentence))

    def _tell_phase(self, phase: PodPhase, reason: str) -> None:
        # How it ends is told when everything of it is over.
        if not phase.is_end:
            self._control.send(Entered(phase, reason))

    def _tell_known(self, peer: str) -> None:
        self._control.send(Known(peer))

    def _tell_failing(self, ending: Ending) -> None:
        self._control.send(Failing.of(ending))

    def _tell_lost_link(self, number: int, reason: str, is_ours: bool) -> None:
        self._control.send(LinkLost(number, reason, is_ours))

    def _tell_dead(self, letter: Undelivered) -> None:
        self._control.send(Lost(replace(letter, data=None)))

    def _tell_books(self, number: int) -> None:
        self._control.send(Books(number, self._ensemble.is_quiet, self._ensemble.waiting(), self.books))
