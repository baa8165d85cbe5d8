"""Supervised players: small trees whose members take part in the storm like everybody else, and are started again.

A member's incarnation is a player of its own, so the books know it as they know the others. Supervisors are players that no deed
befalls; what they say among themselves is the system's. They set no timers here (no backoff, no shutdown time): the timers' books
are about what players set.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from bandstand.core import ActorId, ActorStatus, Context, Overflow
from bandstand.errors import ChildStateError, LoopClosedError, NoSuchActorError, NoSuchChildError, StartError
from bandstand.supervision import (
    ChildSpec,
    Overseer,
    Phase,
    RestartPolicy,
    Shutdown,
    Strategy,
    Supervisor,
    SupervisorSpec,
    spawn_supervisor,
)
from tests.soak.actors import Kind, Player
from tests.soak.alarms import Mishap

if TYPE_CHECKING:
    from tests.soak.world import World

MOST = 5
"""How many trees there are at one time."""
ROOM = 500
"""Where fewer actors are allowed, a restart may find no room, and would wait for it by a timer."""
KINDS: tuple[Kind, ...] = ("plain", "plain", "coroutine", "both")
REFUSED = (ChildStateError, LoopClosedError, NoSuchActorError, NoSuchChildError, StartError)


class Troupes:
    """The trees of one world."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._kinds: dict[str, Kind] = {}
        self._trees: list[Supervisor] = []
        # The supervisors: they hear of their members' ends themselves, and we do not hear what they hear.
        self.leaders: set[Player] = set()
        self.restarts = 0

    # -- who is who ----------------------------------------------------------------------------------------------------

    def player_of(self, name: str) -> Player:
        """A player for an actor that a supervisor is starting, or for a supervisor, by its name."""
        world, kind = self._world, self._kinds.get(name)
        if kind is None:
            leader = Player(world.next_serial(), "plain", Overflow.REJECT, world.doorman, is_staff=True)
            self.leaders.add(leader)
            return leader
        return Player(world.next_serial(), kind, Overflow.REJECT)

    def _admit(self, actor: ActorId, name: str) -> Player:
        """The player of an actor; the observer, if there is one, has met it before."""
        kin = self._world.kin
        player = kin.all.get(int(actor))
        if player is None:
            player = self.player_of(name)
            player.maybe_actor = actor
            kin.admit(actor, player)
        return player

    def _init(self, name: str) -> Callable[[Context[Player]], Player]:
        first = True

        def init(ctx: Context[Player]) -> Player:
            nonlocal first
            world, was_first = self._world, first
            first = False
            player = self._admit(ctx.self_id, name)
            self.restarts += not was_first
            if not was_first and not world.is_quiet and world.random.random() < 0.1:
                raise Mishap("an init, on purpose")
            world.stage.append(player)
            return player

        return init

    # -- deeds ---------------------------------------------------------------------------------------------------------

    def form(self) -> None:
        """Start a tree."""
        world, random = self._world, self._world.random
        self._trees = [tree for tree in self._trees if _lives(world, tree)]
        is_full = len(self._trees) >= MOST or len(world.stage) >= world.plan.population
        if is_full or world.plan.config.max_actors < ROOM:
            return
        name = f"troupe {world.next_serial()}"
        spec = SupervisorSpec(
            children=[self._member(f"{name} member {n}") for n in range(random.randrange(4))],
            strategy=random.choice(tuple(Strategy)),
            max_restarts=random.choice((0, 3, 100)),
            period=1.0,
        )
        with suppress(LoopClosedError, StartError):
            tree = spawn_supervisor(world.loop, spec, name=name, parent=world.doorman.actor)
            self._admit(tree.actor, name)
            self._trees.append(tree)

    def _member(self, name: str) -> ChildSpec[Any]:
        random = self._world.random
        kind = self._kinds[name] = random.choice(KINDS)
        return ChildSpec(
            name,
            self._world.behaviors.of[kind],
            init=self._init(name),
            restart=random.choice(tuple(RestartPolicy)),
            mailbox_cap=random.choice((None, 6, 40)),
            shutdown=Shutdown.INFINITY,
        )

    def direct(self) -> None:
        """Ask something of a tree."""
        world, random = self._world, self._world.random
        if not self._trees:
            return
        tree = random.choice(self._trees)
        members = [info.name for info in tree.children()]
        name = random.choice(members) if members else ""
        added = f"{tree.name} member {world.next_serial()}"
        requests: list[Callable[[], object]] = [
            lambda: tree.start_child(self._member(added)) if len(members) < 6 else None,
            lambda: tree.stop_child(name),
            lambda: tree.restart_child(name),
            lambda: tree.restart_child(name),
            lambda: tree.delete_child(name),
            tree.stop if random.random() < 0.3 else tree.count_children,
            lambda: world.loop.kill_actor(tree.actor) if random.random() < 0.2 else None,
        ]
        with suppress(*REFUSED):
            random.choice(requests)()
        self._look_at(tree)

    def _look_at(self, tree: Overseer) -> None:
        """See that the names point to members that live."""
        world = self._world
        for info in tree.children():
            actor = tree.child(info.name)
            if actor is None:
                continue
            if world.loop.status(actor) >= ActorStatus.STOPPING or int(actor) not in world.kin.all:
                world.fail(f"{tree.name} has {info}, which is {world.loop.status(actor)!r}")
            if info.phase is Phase.DOWN or not _lives(world, tree):
                world.fail(f"{info} lives, and should not")

    def check_rest(self) -> None:
        """When nothing happens any more, nobody is on the way up or down."""
        for tree in self._trees:
            if _lives(self._world, tree):
                for info in tree.children():
                    if info.phase not in {Phase.UP, Phase.DOWN}:
                        self._world.fail(f"the world has run dry, and {info} is still {info.phase.value}")


def _lives(world: World, tree: Overseer) -> bool:
    return world.loop.status(tree.actor) < ActorStatus.STOPPED
