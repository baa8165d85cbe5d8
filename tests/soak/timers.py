"""The timers of a world: each delivered once, or cancelled, or released with its target; never early, never out of turn."""

from __future__ import annotations

from time import monotonic_ns
from typing import TYPE_CHECKING

from bandstand.core import ActorStatus, Lane, Statistics, TimerId
from bandstand.errors import BandstandError, InvalidTimerError, LoopClosedError, NoSuchActorError
from tests.soak.books import FIRST_DELAY, SOURCE_SHIFT, Books, Note

if TYPE_CHECKING:
    from bandstand.core import Loop
    from tests.soak.actors import Player

DELAYS: tuple[float, ...] = (0, 0.2, 1, 1.5, 2, 3, 5, 11, 23, 70, 300, 60_000, 10_000_000)
LONG = 1_000
"""Milliseconds from which on a world does not wait for a timer, but cancels it when it settles."""


class Timers:
    """Every timer that is pending, and the counts of the others."""

    def __init__(self, loop: Loop, books: Books) -> None:
        self._loop = loop
        self._books = books
        self.pending: dict[int, tuple[TimerId, Note]] = {}
        self.set = 0
        self.cancelled = 0
        self.delivered = 0
        self.released = 0

    def start(self, player: Player, delay: int, lane: Lane) -> bool:
        """Set a timer; False if the target was not there."""
        number = (FIRST_DELAY + delay) << SOURCE_SHIFT | self.set
        ms = DELAYS[delay]
        note = Note(number, player, lane, due=monotonic_ns() + int(ms * 1_000_000))
        try:
            timer = self._loop.send_after(player.actor, ms / 1000, note, lane=lane, tag=note.tag)
        except (NoSuchActorError, LoopClosedError):
            self._books.timer_refused += 1
            return False
        self.set += 1
        self.pending[number] = timer, note
        player.timers.add(number)
        return True

    def cancel(self, number: int) -> None:
        """Cancel a timer that is pending, or has become a message already."""
        timer, note = self.pending[number]
        try:
            self._loop.cancel_timer(timer)
        except InvalidTimerError:
            if self._loop.status(note.player.actor) >= ActorStatus.STOPPED:
                # It went with its target, and no observer has told us.
                self._forget(note)
            elif note.due > monotonic_ns():
                self._books.fail(f"{note} cannot be cancelled, and is not due")
            return
        self.cancelled += 1
        self._forget(note)
        try:
            self._loop.cancel_timer(timer)
        except InvalidTimerError:
            return
        except BandstandError as error:
            self._books.fail(f"a second cancel_timer raised {error!r}")
        self._books.fail(f"{note} was cancelled twice")

    def settle(self, note: Note, how: str) -> None:
        """Note that a timer's message was handled, dead or dropped."""
        self.delivered += 1
        if not self._forget(note):
            self._books.fail(f"{note} of a timer was {how}, but the timer was over before")
        elif (early := note.due - monotonic_ns()) > 0:
            self._books.fail(f"{note} of a timer was {how} {early} ns early")

    def release(self, player: Player) -> None:
        """Note that a player has ended: what it had not received by now never comes."""
        for number in player.timers:
            del self.pending[number]
        self.released += len(player.timers)
        player.timers.clear()

    def cancel_long(self) -> None:
        """Cancel what nobody will wait for."""
        for number, (_, note) in list(self.pending.items()):
            if DELAYS[note.source - FIRST_DELAY] >= LONG:
                self.cancel(number)

    def compare(self, stats: Statistics) -> None:
        """Compare with the loop's own counts."""
        expect = self._books.expect
        expect(stats.timers_set == self.set, f"{self.set} timers were set, the loop says {stats.timers_set}")
        expect(
            stats.timers_cancelled == self.cancelled,
            f"{self.cancelled} timers were cancelled, the loop says {stats.timers_cancelled}",
        )
        expect(
            stats.timers_fired >= self.delivered,
            f"{self.delivered} timers were delivered, the loop says {stats.timers_fired}",
        )

    def close(self, stats: Statistics) -> None:
        """Compare at the very end of an observed world."""
        self.compare(stats)
        expect = self._books.expect
        expect(
            stats.timers_pending == 0,
            f"{stats.timers_pending} timers are pending in a loop that was destroyed",
        )
        # What fired into a coroutine that was cancelled before it began was never seen: we think it was released.
        unbegun = stats.handled - self._books.handled
        unseen = self.released - stats.timers_released
        expect(
            0 <= unseen <= unbegun and stats.timers_fired == self.delivered + unseen,
            f"{self.delivered} timers were delivered and {self.released} went with their actors; the loop says "
            f"{stats.timers_fired} and {stats.timers_released}, {unbegun} messages were never begun",
        )
        expect(not self.pending, f"{len(self.pending)} timers have no fate")

    def _forget(self, note: Note) -> bool:
        note.player.timers.discard(note.number)
        return self.pending.pop(note.number, None) is not None
