"""bandstand's raw loop as a stage: an actor is a behavior, called by its id."""

from __future__ import annotations

from bandstand.core import STOP, ActorId, Loop, LoopConfig
from bench import raw
from bench.case import Outcome, Setting, WrongResultError
from bench.stage import Handler, Program, Send

MAX_ACTORS = 1 << 21


class RawStage:
    """A loop on its real host."""

    end = STOP

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self.send: Send = loop.send

    def spawn(self, handler: Handler, room: int = 1024) -> ActorId:
        return self._loop.spawn(handler, mailbox_cap=room + 8)

    def finish(self) -> None:
        """It runs until nothing is left to do, and so finds out by itself."""


def play(program: Program, setting: Setting) -> Outcome:
    """Play a program until the loop is idle; its books must say that all that was sent has been handled."""
    loop = raw.make(LoopConfig(max_actors=MAX_ACTORS))
    play = program(RawStage(loop), setting)
    elapsed = raw.drain(loop, play.begin)
    books = loop.statistics()
    loop.destroy()
    if books.ended_fail or books.ended_panic:
        raise WrongResultError(f"a handler failed: {books.ended_fail + books.ended_panic} actors ended by it")
    if books.sent != books.handled:
        raise WrongResultError(f"{books.sent} were sent and {books.handled} handled, by the loop's own books")
    return play.outcome(elapsed, books.ended_normal)
