"""A second set of books: every message by its own number, what became of it, and whether the loop counts the same.

A message is a `Note` with a number that is used once. The number's upper part is its *source*, one for the loop's own
thread, one for each other thread, one for each delay of a timer; its lower part counts up. So "in order" is "growing", for
every source, actor and lane, and "twice" is a number that is no longer outstanding.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from bandstand.core import Lane, Overflow, Statistics

if TYPE_CHECKING:
    from tests.soak.actors import Player

Fail: TypeAlias = Callable[[str], None]

SOURCE_SHIFT = 40
LOOP_SOURCE = 0
FIRST_THREAD = 1
FIRST_DELAY = 16


@dataclass(frozen=True, slots=True, eq=False)
class Note:
    """One message of a user."""

    number: int
    player: Player
    lane: Lane
    due: int = 0
    """The moment before which a timer's note must not come, in nanoseconds of the clock; 0 for others."""
    bell: threading.Event | None = None
    """Rung when it has been handled: a thread waits for that."""

    @property
    def source(self) -> int:
        return self.number >> SOURCE_SHIFT

    @property
    def tag(self) -> int:
        return self.number & 0xFFFF


@dataclass(slots=True)
class Tally:
    """What one thread has sent. Each thread writes its own, so nobody needs a lock."""

    source: int
    tried: int = 0
    refused: int = 0

    def next_number(self) -> int:
        self.tried += 1
        return self.source << SOURCE_SHIFT | self.tried


@dataclass(slots=True, eq=False)
class Books:
    """What was sent and what became of it, by our own counting."""

    fail: Fail
    own: Tally = field(default_factory=lambda: Tally(LOOP_SOURCE))
    others: list[Tally] = field(default_factory=list[Tally])
    system_refused: int = 0
    handled: int = 0
    system_handled: int = 0
    dead: int = 0
    system_dead: int = 0
    dropped: int = 0
    unwatched: int = 0
    timer_refused: int = 0
    outstanding: dict[int, Note] = field(default_factory=dict[int, Note])
    _last: Statistics | None = None

    @property
    def tried(self) -> int:
        return self.own.tried + sum(tally.tried for tally in self.others) + self.timer_refused

    @property
    def refused(self) -> int:
        """What was refused, a refused system message included."""
        mine = self.own.refused + self.timer_refused + self.system_refused
        return mine + sum(tally.refused for tally in self.others)

    def begin(self, tally: Tally, player: Player, lane: Lane, bell: threading.Event | None = None) -> Note:
        """Note that a message is about to be sent."""
        note = Note(tally.next_number(), player, lane, bell=bell)
        self.outstanding[note.number] = note
        return note

    def refuse(self, tally: Tally, note: Note) -> None:
        """Note that the send has raised, or answered False."""
        tally.refused += 1
        if self.outstanding.pop(note.number, None) is None:
            self.fail(f"{note} was refused, and yet it was seen")

    def settle(self, note: Note, how: str) -> bool:
        """Note what became of a message: handled, dead or dropped, once; timers have books of their own."""
        if self.outstanding.pop(note.number, None) is not None:
            return True
        self.fail(f"{note} was {how}, but it is not outstanding: it came twice, or was never accepted")
        return False

    # -- comparing -----------------------------------------------------------------------------------------------------

    def compare(self, stats: Statistics, *, is_observed: bool) -> None:
        """Compare with the loop's own books, in the middle of things; on the loop's thread, in a behavior."""
        fates = stats.handled + stats.refused + stats.dead + stats.dropped + stats.waiting
        self.expect(stats.sent == fates, f"the books do not balance: {stats}")
        self.expect(stats.waiting >= 0, f"fewer than no messages wait: {stats}")
        # An async behavior is counted when it is called and notes it when it has begun, which may be a moment later.
        self.expect(
            stats.handled >= self.handled, f"{self.handled} were handled, the loop says {stats.handled}"
        )
        timers = stats.timers_fired + stats.timers_cancelled + stats.timers_released + stats.timers_pending
        self.expect(stats.timers_set == timers, f"the timers' books do not balance: {stats}")
        if is_observed:
            self.expect(stats.dead == self.dead, f"{self.dead} dead letters were told of, of {stats.dead}")
            silent = stats.dropped - self.dropped
            most = self.unwatched + len(self._surplus())
            self.expect(
                0 <= silent <= most,
                f"{self.dropped} were told to be dropped and {most} may have been without a word; the loop dropped "
                f"{stats.dropped}",
            )
        self._compare_with_last(stats)

    def _compare_with_last(self, stats: Statistics) -> None:
        last, self._last = self._last, stats
        if last is None:
            return
        for name in (
            "sent",
            "handled",
            "refused",
            "dead",
            "dropped",
            "spawned",
            "timers_set",
            "ticks",
            "wakeups",
        ):
            before, now = getattr(last, name), getattr(stats, name)
            self.expect(before <= now, f"{name} went back from {before} to {now}")

    def close(self, stats: Statistics, *, is_observed: bool) -> None:
        """Compare at the very end, when the loop is destroyed and every thread has ended."""
        self.compare(stats, is_observed=is_observed)
        self.expect(
            stats.refused == self.refused, f"{self.refused} were refused, the loop says {stats.refused}"
        )
        unbegun = stats.handled - self.handled
        tried = self.tried + self.system_refused + stats.timers_fired
        system = stats.sent - tried
        if not is_observed:
            gone = stats.dead + stats.dropped + unbegun
            left = len(self.outstanding)
            self.expect(
                left <= gone, f"{left} messages have no fate, but only {gone} were dead, dropped or unbegun"
            )
            self.expect(
                system >= self.system_handled, f"{tried} were sent by users, {stats.sent} in all: {stats}"
            )
            return
        surplus = self._surplus()
        for note in surplus:
            del self.outstanding[note.number]
        silent = stats.dropped - self.dropped - len(surplus)
        known = self.system_handled + self.system_dead + silent
        # A message whose coroutine was cancelled before its first step counts as handled, and nobody saw it.
        unseen = system - known
        self.expect(
            unseen >= 0, f"{tried} were sent by users and {known} by the system; the loop says {stats.sent}"
        )
        stray = [note for note in self.outstanding.values() if not note.player.is_coroutine]
        self.expect(not stray, f"{len(stray)} messages were lost, {stray[:1]} for one")
        lost = len(self.outstanding) + unseen
        self.expect(lost <= unbegun, f"{lost} messages were lost; only {unbegun} were never begun")

    def _surplus(self) -> list[Note]:
        """Messages of other threads, without a fate so far, to those who give up messages: a flood's are only counted."""
        if not self.others:
            return []
        return [
            note
            for note in list(self.outstanding.values())
            if FIRST_THREAD <= note.source < FIRST_DELAY and note.player.overflow is not Overflow.REJECT
        ]

    def expect(self, is_so: bool, sentence: str) -> None:
        if not is_so:
            self.fail(sentence)
