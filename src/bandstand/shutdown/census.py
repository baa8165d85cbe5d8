"""The actors of a loop during a shutdown: which are busy, which are alive, and how to stop and kill them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, TypeAlias, cast, final

from bandstand.core import ActorId, ActorStatus
from bandstand.errors import ActorKilled, ActorNotLocal, BandstandError, InvalidArgument, NoSuchActor
from bandstand.errors.formatting import safe_repr
from bandstand.shutdown.report import Busy
from bandstand.supervision.supervisor_actor import is_supervisor_actor, stop_supervisor

if TYPE_CHECKING:
    from bandstand.core import Loop
    from bandstand.scope import HasActorId

__all__ = ("ActorCensus", "ActorLike", "Root")

# An actor may start another one while it is killed, so killing is repeated.
KILL_ROUNDS = 3


ActorLike: TypeAlias = "ActorId | HasActorId"
# An actor, and whether it is a supervisor.
Root: TypeAlias = tuple[ActorId, bool]


@final
class ActorCensus:
    """The actors of one loop. Loop thread only."""

    __slots__ = ("_drained", "_intake", "_loop")

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._intake: list[ActorLike] = []
        self._drained: list[ActorLike] = []

    def add_intake(self, actors: Iterable[ActorLike]) -> None:
        """Note actors that accept messages from outside."""
        for actor in actors:
            who = id_of(actor)
            self._check_local(who)
            known = {row[0]: row for row in self._loop.kernel.rows()}
            row = known.get(who)
            above = None if row is None or row[2] is None else known.get(row[2])
            if above is not None and is_supervisor_actor(above[5]):
                raise InvalidArgument(
                    f"{safe_repr(actor)} is a supervisor's child and would be started again as soon as it ends: stop its source of messages "
                    f"in a hook of ShutdownPhase.INTAKE instead"
                )
            self._intake.append(actor)

    def drain_only(self, actors: Iterable[ActorLike]) -> None:
        """Note the actors that the drain waits for; without any, it waits for all."""
        for actor in actors:
            self._check_local(id_of(actor))
            self._drained.append(actor)

    def close_intake(self) -> None:
        """Let the intake actors accept nothing more, handle what they have, and end."""
        for actor in self._intake:
            with suppress(NoSuchActor):
                self._loop.kernel.actors.close_mailbox(id_of(actor))

    @property
    def is_quiet(self) -> bool:
        """Whether no actor that the drain waits for has work."""
        if not self._drained:
            # A pool keeps a message in no mailbox while its worker is down, so an empty loop is not enough.
            return self._loop.kernel.is_quiet() and all(
                self._loop.kernel.is_actor_idle(actor) for actor in self.ids()
            )
        return all(self._loop.kernel.is_actor_idle(id_of(actor)) for actor in self._drained)

    def busy(self) -> tuple[Busy, ...]:
        """Return the actors with work, of those that the drain waits for."""
        chosen = {id_of(actor) for actor in self._drained}
        return tuple(
            self._as_busy(row)
            for row in self._loop.kernel.rows()
            if (not chosen or row[0] in chosen) and not self._loop.kernel.is_actor_idle(row[0])
        )

    def alive(self) -> tuple[Busy, ...]:
        """Return the actors that have not ended."""
        return tuple(map(self._as_busy, self._loop.kernel.rows()))

    def ids(self) -> list[ActorId]:
        """Return the ids of the actors that have not ended."""
        return [row[0] for row in self._loop.kernel.rows()]

    def roots(self) -> list[Root]:
        """Return the running actors that no parent will end, the youngest first."""
        known = self._loop.kernel.rows()
        families = {row[0]: row[5] for row in known}

        def is_root(above: ActorId | None, family: object) -> bool:
            # A parent without a family gets a child's exit but does not end the child.
            return (
                above is None
                or above not in families
                or (families[above] is None and not is_supervisor_actor(family))
            )

        return [
            (actor, is_supervisor_actor(family))
            for actor, _, above, status, _, family in reversed(known)
            if is_root(above, family) and status < ActorStatus.STOPPING
        ]

    def stop(self, root: Root) -> None:
        """Stop an actor and everything below it. Does nothing if it has ended."""
        actor, is_supervisor = root
        with suppress(BandstandError):
            if is_supervisor:
                stop_supervisor(self._loop, actor)
            else:
                self._loop.stop_actor(actor)

    def has_ended(self, actor: ActorId) -> bool:
        """Return whether an actor has ended."""
        return self._loop.status(actor) >= ActorStatus.STOPPED

    def kill(self) -> tuple[Busy, ...]:
        """Kill all actors, supervisors before their children so that they do not restart them. Return those that were killed."""
        killed: list[Busy] = []
        for _ in range(KILL_ROUNDS):
            if self._loop.kernel.is_closed:
                break
            left = self._loop.kernel.rows()
            if not left:
                break
            killed.extend(map(self._as_busy, left))
            # The shutdown reports them in one line; the loop need not report each.
            for actor, *_ in left:
                self._loop.kernel.actors.set_exit_handled(actor)
            for actor, *_ in left:
                self._loop.kernel.actors.stop_or_kill(
                    actor, ActorKilled(f"actor {safe_repr(actor)} had not ended at the end of a shutdown")
                )
        return tuple(killed)

    def _as_busy(self, row: Sequence[object]) -> Busy:
        actor, name, waiting = cast("ActorId", row[0]), cast("str | None", row[1]), cast("int", row[4])
        is_at_work = waiting == 0 and not self._loop.kernel.is_actor_idle(actor)
        return Busy(name or repr(actor), waiting, is_at_work)

    def _check_local(self, actor: ActorId) -> None:
        if actor.home is not self._loop.kernel:
            raise ActorNotLocal(f"{safe_repr(actor)} does not live on the loop that is shut down")


def id_of(actor: ActorLike) -> ActorId:
    """Return the id of an actor.

    Raises:
        InvalidArgument: it is not an actor.
    """
    if isinstance(actor, ActorId):
        return actor
    if hasattr(type(actor), "__actor_id__"):
        return actor.__actor_id__()
    raise InvalidArgument(f"{safe_repr(actor)} is not an actor: pass a handle, an ActorId or a supervisor")
