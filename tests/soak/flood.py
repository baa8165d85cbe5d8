"""Threads that send into a world from outside, each with a Random of its own."""

from __future__ import annotations

import threading
import time
from random import Random
from typing import TYPE_CHECKING

from bandstand.core import Lane, Overflow
from bandstand.errors import LoopClosedError, MailboxFullError, NoSuchActorError, WrongThreadError
from tests.soak.books import Note, Tally

if TYPE_CHECKING:
    from tests.soak.actors import Player
    from tests.soak.world import World

USER_LANES = (Lane.CONTROL, Lane.MANAGEMENT, Lane.DATA)
PATIENCE = 10.0
"""Seconds in which a sleeping loop must have woken up for a message, on the busiest machine."""


class Flooder(threading.Thread):
    """Sends bursts until the world is quiet or closed; now and then it knocks and waits to be heard."""

    def __init__(self, world: World, source: int, seed: str, *, is_ender: bool) -> None:
        super().__init__(name=f"flooder {source}", daemon=True)
        self._world = world
        self._random = Random(seed)
        self._tally = Tally(source)
        self._is_ender = is_ender
        world.books.others.append(self._tally)

    def run(self) -> None:
        world, random = self._world, self._random
        while not world.is_quiet:
            if self._is_ender and time.monotonic() >= world.deadline:
                world.end("thread")
                world.loop.request_stop()
                return
            chance = random.random()
            if chance < 0.03:
                is_open = self._knock()
            elif chance < 0.05:
                is_open = self._trespass()
            else:
                is_open = self._burst()
            if not is_open:
                return
            time.sleep(random.choice((0, 0.0002, 0.002, 0.02)))

    def _burst(self) -> bool:
        world, random = self._world, self._random
        for _ in range(random.choice((1, 3, 20, 200))):
            try:
                player = random.choice(world.stage)
            except IndexError:
                return True
            if not self._send(player, random.choice(USER_LANES)):
                return False
        return True

    def _send(self, player: Player, lane: Lane, bell: threading.Event | None = None) -> bool:
        """Send a note; False if the loop is closed."""
        world = self._world
        note = world.books.begin(self._tally, player, lane, bell)
        target = int(player.actor) if note.number & 7 == 0 else player.actor
        try:
            world.loop.send_async(target, note, lane=lane, tag=note.tag)
        except MailboxFullError:
            self._refused(note)
            if player.overflow is not Overflow.REJECT:
                world.fail(f"{player} gives up messages, and yet it refused {note}")
        except NoSuchActorError:
            self._refused(note)
        except LoopClosedError:
            self._refused(note)
            return False
        return True

    def _refused(self, note: Note) -> None:
        self._world.books.refuse(self._tally, note)
        if note.bell is not None:
            note.bell.set()

    def _knock(self) -> bool:
        """Send one message to the doorman and wait until it was handled: a wake-up that is lost shows here."""
        world, bell = self._world, threading.Event()
        is_open = self._send(world.doorman, Lane.DATA, bell)
        until = time.monotonic() + PATIENCE
        while not bell.wait(0.02) and not world.is_ending:
            if time.monotonic() > until:
                world.fail(f"{self.name} knocked, and nobody came for {PATIENCE} s: a wake-up was lost")
                return False
        world.knocks += 1
        return is_open

    def _trespass(self) -> bool:
        world = self._world
        try:
            world.loop.send(world.doorman.actor, None)
        except WrongThreadError:
            return True
        world.fail("a send from another thread was not WrongThreadError")
        return False
