"""The players: what they remember, and the three ways to write a behavior (a function, a coroutine function, both)."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from bandstand.core import (
    FAIL,
    OK,
    STOP,
    ActorId,
    ChildExit,
    ChildStart,
    Context,
    Down,
    ExitReason,
    IoEvent,
    Lane,
    Overflow,
    SystemTag,
)
from bandstand.errors import LoopClosedError, NoSuchActorError
from tests.soak.alarms import Mishap
from tests.soak.books import FIRST_DELAY, Note
from tests.soak.pauses import pause

if TYPE_CHECKING:
    from tests.soak.world import World

Kind: TypeAlias = Literal["plain", "coroutine", "both"]


@dataclass(slots=True, eq=False)
class Player:
    """One actor's state, and what we know of it from outside."""

    serial: int
    kind: Kind
    overflow: Overflow
    supervisor: Player | None = None
    is_staff: bool = False
    """Does no deeds of its own accord and never ends before its world does."""
    maybe_actor: ActorId | None = None
    is_busy: bool = False
    is_over: bool = False
    """Told by the observer; never set in an unobserved world."""
    reason: ExitReason | None = None
    is_exit_heard: bool = False
    last: dict[tuple[int, Lane], int] = field(default_factory=dict[tuple[int, Lane], int])
    """The last number handled, by source and lane."""
    downs: dict[int, int] = field(default_factory=dict[int, int])
    timers: set[int] = field(default_factory=set[int])

    @property
    def actor(self) -> ActorId:
        assert self.maybe_actor is not None, "spawn() has not returned"
        return self.maybe_actor

    @property
    def is_coroutine(self) -> bool:
        """Whether a call of its behavior runs no line of it."""
        return self.kind == "coroutine"

    def __repr__(self) -> str:
        return f"<Player {self.serial}, {self.kind}, {self.overflow.value}>"


class Behaviors:
    """What players do with a message: note it, check it, now and then do a deed, now and then end."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.of: dict[Kind, Any] = {"plain": self.plain, "coroutine": self.coroutine, "both": self.both}

    def plain(self, ctx: Context[Player], data: object) -> Any:
        self._enter(ctx, data)
        try:
            return self._respond(ctx.state)
        finally:
            ctx.state.is_busy = False

    async def coroutine(self, ctx: Context[Player], data: object) -> Any:
        self._enter(ctx, data)
        return await self._go_on(ctx, data)

    def both(self, ctx: Context[Player], data: object) -> Any:
        """Note it as a function, go on as a coroutine: so even one that never begins was noted."""
        self._enter(ctx, data)
        if self._world.random.random() < 0.5:
            return self._go_on(ctx, data)
        ctx.state.is_busy = False
        return None

    # -- noting --------------------------------------------------------------------------------------------------------

    def _enter(self, ctx: Context[Player], data: object) -> None:
        world, player = self._world, ctx.state
        world.books.handled += 1
        if player.is_busy:
            world.fail(f"{player} was entered while another message of its was being handled")
        player.is_busy = True
        if player.is_over:
            world.fail(f"{player} was given {data!r} after its end")
        if ctx.self_id != player.actor:
            world.fail(f"{player} is {player.actor}, but the context says {ctx.self_id}")
        if isinstance(data, Note):
            self._hear(ctx, player, data)
        else:
            self._hear_system(ctx, player, data)

    def _hear(self, ctx: Context[Player], player: Player, note: Note) -> None:
        world, source, lane = self._world, note.source, ctx.lane
        if note.player is not player or note.lane is not lane or note.tag != ctx.tag:
            world.fail(f"{player} was given {note} on {lane!r} with tag {ctx.tag}")
        if source >= FIRST_DELAY:
            world.timers.settle(note, "handled")
        elif world.books.settle(note, "handled"):
            world.notes += 1
        if player.last.get((source, lane), -1) >= note.number:
            world.fail(f"{player} was given {note} after {player.last[source, lane]}: out of order")
        player.last[source, lane] = note.number
        if note.bell is not None:
            note.bell.set()

    def _hear_system(self, ctx: Context[Player], player: Player, data: object) -> None:
        world = self._world
        world.books.system_handled += 1
        if ctx.lane is not Lane.SYSTEM or ctx.tag >= 0:
            world.fail(f"{player} was given {data!r} on {ctx.lane!r} with tag {ctx.tag}")
        if isinstance(data, (ChildExit, Down)):
            world.kin.hear(player, data)
        elif isinstance(data, IoEvent):
            world.pipes.hear(player, data)
        elif isinstance(data, ChildStart):
            if player is not world.doorman or world.kin.all[int(data.child)] not in world.troupes.leaders:
                world.fail(f"{player} was told of the start of {data.child}")
        elif ctx.tag != SystemTag.SHUTDOWN:
            world.fail(f"{player} was given {data!r}, which nobody sent")

    # -- doing ---------------------------------------------------------------------------------------------------------

    def _respond(self, player: Player) -> Any:
        world, chance = self._world, self._world.random.random()
        if world.is_quiet or player.is_staff:
            return None
        if chance < 0.05:
            world.do_deed()
        elif chance < 0.06:
            return STOP
        elif chance < 0.065:
            return FAIL
        elif chance < 0.07:
            raise Mishap("a panic, on purpose")
        elif chance < 0.072:
            return "no verdict"
        elif chance < 0.077:
            # Somebody else may have ended it, or a thread the whole loop, while it was in flight.
            with suppress(NoSuchActorError, LoopClosedError):
                if chance < 0.075:
                    world.loop.stop_actor(player.actor)
                else:
                    world.loop.fail_actor(player.actor, "it asked for it")
        elif chance < 0.1:
            return OK
        return None

    async def _go_on(self, ctx: Context[Player], data: object) -> Any:
        player = ctx.state
        tag, lane = ctx.tag, ctx.lane
        try:
            await pause(self._world.random, is_quiet=self._world.is_quiet)
            if ctx.tag != tag or ctx.lane is not lane:
                self._world.fail(f"the context of {player} has changed under {data!r}")
            return self._respond(player)
        finally:
            player.is_busy = False
