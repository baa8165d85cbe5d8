"""The observer of a world: settles what dies or is dropped, on the loop's thread only, and is a nuisance at times."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from bandstand.core import ActorId, ActorStatus, ChildExit, Down, ExitReason, IoEvent, Lane, Observer
from tests.soak.alarms import Mishap
from tests.soak.books import FIRST_DELAY, Note

if TYPE_CHECKING:
    from tests.soak.world import World


class Auditor(Observer):
    """Hears of everything."""

    def __init__(self, world: World, mischief: float) -> None:
        self._world = world
        self._mischief = mischief
        self._depth = 0

    def on_actor_start(self, id: ActorId, name: str | None) -> None:  # noqa: A002
        self._check("on_actor_start")
        assert name is not None
        player = self._world.spawning.pop(name, None) or self._world.troupes.player_of(name)
        player.maybe_actor = id
        self._world.kin.admit(id, player)
        if self._world.loop.status(id) is not ActorStatus.INIT:
            self._world.fail(f"{player} starts, but is {self._world.loop.status(id)!r}")
        if not player.is_staff and self._depth == 0 and self._world.random.random() < self._mischief:
            self._world.loop.stop_actor(id)
        self._nag()

    def on_actor_stop(self, id: ActorId, reason: ExitReason) -> None:  # noqa: A002
        self._check("on_actor_stop")
        player = self._world.kin.all[int(id)]
        if player.is_over:
            self._world.fail(f"{player} ended twice")
        player.is_over = True
        player.reason = reason
        self._world.timers.release(player)
        self._world.pipes.abandon(player)
        self._nag()

    def on_mailbox_full(self, target: ActorId) -> None:
        self._check("on_mailbox_full")
        self._world.full += 1
        self._nag()

    def on_dead_letter(
        self, target: ActorId, lane: Lane, data: object, tag: int, sender: ActorId | int
    ) -> None:
        self._check("on_dead_letter")
        world = self._world
        world.books.dead += 1
        if isinstance(data, Note):
            self._settle(data, target, lane, "dead")
            if data.bell is not None:
                data.bell.set()
            return
        world.books.system_dead += 1
        player = world.kin.all[int(target)]
        if isinstance(data, (ChildExit, Down)) and player not in world.troupes.leaders:
            world.kin.hear(player, data)
        elif isinstance(data, IoEvent):
            world.pipes.miss(player, data)

    def on_dropped(self, target: ActorId, lane: Lane, data: object, tag: int, sender: ActorId | int) -> None:
        self._check("on_dropped")
        self._world.books.dropped += 1
        if isinstance(data, Note):
            self._settle(data, target, lane, "dropped")
        else:
            self._world.fail(f"the system's own {data!r} was dropped")
        self._nag()

    def _settle(self, note: Note, target: ActorId, lane: Lane, how: str) -> None:
        if note.player.actor != target or note.lane is not lane:
            self._world.fail(f"{note} was {how} as one for {target} on {lane!r}")
        if note.source >= FIRST_DELAY:
            self._world.timers.settle(note, how)
        else:
            self._world.books.settle(note, how)

    def _check(self, hook: str) -> None:
        world = self._world
        if threading.get_ident() != world.thread:
            world.fail(f"{hook} was called on thread {threading.current_thread().name!r}")
        if world.is_destroyed:
            world.fail(f"{hook} was called after destroy()")

    def _nag(self) -> None:
        """Now and then do from inside a hook what one should not, but may."""
        world = self._world
        if self._depth > 0 or not world.is_begun or world.is_quiet or world.random.random() >= self._mischief:
            return
        self._depth += 1
        try:
            for _ in range(world.random.randrange(3)):
                world.do_deed()
        finally:
            self._depth -= 1
        if world.random.random() < 0.3:
            raise Mishap("a hook, on purpose")
