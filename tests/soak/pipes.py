"""The descriptors of a world: pipes and socket pairs that are written, read, closed, and closed behind the loop's back."""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

from bandstand.core import ActorStatus, Interest, IoEvent, Readiness
from bandstand.errors import IoNotWatchedError, IoRegistrationError, LoopClosedError, NoSuchActorError
from tests.soak.books import Books

if TYPE_CHECKING:
    from bandstand.core import Loop
    from tests.soak.actors import Player

MOST = 40
CHUNK = b"la" * 16


@dataclass(slots=True, eq=False)
class Pipe:
    """Two descriptors, one of them watched. A number is -1 once it is closed."""

    reader: int
    writer: int
    owner: Player
    number: int
    """What the reader's number was, for when it is closed."""
    is_watched: bool = False


class Pipes:
    """All pipes of a world."""

    def __init__(self, loop: Loop, random: Random, books: Books) -> None:
        self._loop = loop
        self._random = random
        self._books = books
        self._open: dict[int, Pipe] = {}
        # Closed behind the loop's back, and their owner has not been told yet.
        self._lost: list[Pipe] = []
        self._spares: list[int] = []
        self.events = 0
        self.errors = 0

    # -- deeds ---------------------------------------------------------------------------------------------------------

    def open(self, owner: Player) -> None:
        """Open a pair and have its reading end watched."""
        if len(self._open) >= MOST:
            self.tidy()
            return
        if self._random.random() < 0.5:
            reader, writer = os.pipe()
        else:
            ends = socket.socketpair()
            reader, writer = (end.detach() for end in ends)
        os.set_blocking(reader, False)
        os.set_blocking(writer, False)
        pipe = self._open[reader] = Pipe(reader, writer, owner, reader)
        self._watch(pipe)

    def _watch(self, pipe: Pipe) -> None:
        try:
            self._loop.watch_fd(pipe.reader, pipe.owner.actor, Interest.READ)
        except (NoSuchActorError, LoopClosedError):
            return
        pipe.is_watched = True
        with suppress(IoRegistrationError, LoopClosedError):
            self._loop.watch_fd(pipe.reader, pipe.owner.actor, Interest.READ)
            self._books.fail(f"descriptor {pipe.reader} could be watched twice")

    def write(self) -> None:
        """Write into one of them."""
        if (pipe := self._any()) is not None and pipe.writer >= 0:
            with suppress(BlockingIOError, BrokenPipeError, ConnectionResetError):
                os.write(pipe.writer, CHUNK)

    def hang_up(self) -> None:
        """Close one writing end: its reader sees the end of the file."""
        if (pipe := self._any()) is not None and pipe.writer >= 0:
            os.close(pipe.writer)
            pipe.writer = -1

    def close_behind(self) -> None:
        """Close a reading end without a word; sometimes a duplicate keeps the file open."""
        pipe = self._any()
        if pipe is None:
            return
        if self._random.random() < 0.2:
            self._spares.append(os.dup(pipe.reader))
        if pipe.is_watched and self._is_alive(pipe.owner):
            self._lost.append(pipe)
        self._close(pipe)

    def unwatch(self) -> None:
        """Watch one no more; sometimes it is watched again at once."""
        pipe = self._any()
        if pipe is None:
            return
        self._unwatch(pipe)
        if self._random.random() < 0.5:
            self._watch(pipe)
        else:
            self._close(pipe)

    def tidy(self) -> None:
        """Close those whose owner has ended."""
        for pipe in list(self._open.values()):
            if not self._is_alive(pipe.owner):
                self._close(pipe)

    # -- what comes ----------------------------------------------------------------------------------------------------

    def hear(self, player: Player, event: IoEvent) -> None:
        """A player has been given an event."""
        self.events += 1
        if event.readiness is Readiness.ERROR:
            self.errors += 1
            self._hear_error(player, event)
            return
        pipe = self._open.get(event.fd)
        if pipe is None or pipe.owner is not player or not pipe.is_watched:
            # It may have been on its way when the descriptor was closed behind its back; and a coroutine may have been
            # called with it, but not have begun, when the descriptor was unwatched.
            was_lost = any(lost.owner is player and lost.number == event.fd for lost in self._lost)
            if not was_lost and not player.is_coroutine:
                self._books.fail(f"{player} was given {event} of a descriptor that it does not watch")
            return
        try:
            data = os.read(pipe.reader, 4096)
        except BlockingIOError:
            return
        except ConnectionResetError:
            data = b""
        if not data:
            self._unwatch(pipe)
            self._close(pipe)

    def _hear_error(self, player: Player, event: IoEvent) -> None:
        for index, lost in enumerate(self._lost):
            if lost.owner is player and lost.number == event.fd:
                del self._lost[index]
                break
        else:
            self._books.fail(
                f"{player} was given {event}, but that descriptor was not closed behind its back"
            )
            return
        is_used = event.fd in self._open or any(lost.number == event.fd for lost in self._lost)
        if not is_used and self._random.random() < 0.5:
            # Its number was not used again, so this forgets it.
            with suppress(IoNotWatchedError):
                self._loop.unwatch_fd(event.fd)
                self._books.unwatched += 1

    def miss(self, player: Player, event: IoEvent) -> None:
        """An event has become a dead letter: its owner has ended."""

    def abandon(self, player: Player) -> None:
        """A player has ended: its watches are over."""
        self._lost = [pipe for pipe in self._lost if pipe.owner is not player]
        for pipe in self._open.values():
            if pipe.owner is player:
                pipe.is_watched = False

    # -- the end -------------------------------------------------------------------------------------------------------

    def missing(self) -> list[Pipe]:
        """Those that were closed behind the back of an owner who lives and has not been told."""
        self._lost = [pipe for pipe in self._lost if self._is_alive(pipe.owner)]
        return self._lost

    def unwatch_all(self) -> None:
        """Watch none any more, and close them."""
        for pipe in list(self._open.values()):
            self._unwatch(pipe)
            self._close(pipe)

    def close(self) -> None:
        """Close whatever is open."""
        for pipe in list(self._open.values()):
            self._close(pipe)
        for spare in self._spares:
            os.close(spare)
        self._spares.clear()

    def _any(self) -> Pipe | None:
        return self._random.choice(list(self._open.values())) if self._open else None

    def _is_alive(self, player: Player) -> bool:
        return self._loop.status(player.actor) < ActorStatus.STOPPING

    def _unwatch(self, pipe: Pipe) -> None:
        is_alive = self._is_alive(pipe.owner)
        if not pipe.is_watched and any(lost.number == pipe.reader for lost in self._lost):
            # The number's last owner has not been told yet that it lost it; this would take back that watch.
            return
        try:
            self._loop.unwatch_fd(pipe.reader)
        except IoNotWatchedError:
            if pipe.is_watched and is_alive:
                self._books.fail(f"descriptor {pipe.reader} of {pipe.owner} is not watched any more")
        else:
            self._books.unwatched += 1
        pipe.is_watched = False

    def _close(self, pipe: Pipe) -> None:
        del self._open[pipe.reader]
        os.close(pipe.reader)
        pipe.reader = -1
        if pipe.writer >= 0:
            os.close(pipe.writer)
            pipe.writer = -1
