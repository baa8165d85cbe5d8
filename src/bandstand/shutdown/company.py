"""Everybody on a loop, as a shutdown sees them: who is busy, who lives, how to stop and how to kill them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, TypeAlias, cast, final

from bandstand.core import ActorId, ActorStatus
from bandstand.core.lifelines import answer_for, is_at_rest, is_quiet, rows
from bandstand.core.lowlevel import close_mailbox, end_actor, is_open
from bandstand.errors import ActorKilled, ActorNotLocal, BandstandError, InvalidArgument, NoSuchActor
from bandstand.errors.formatting import safe_repr
from bandstand.shutdown.report import Busy
from bandstand.supervise.lowlevel import end_supervisor, is_supervised

if TYPE_CHECKING:
    from bandstand.core import Loop
    from bandstand.scope import HasActorId

__all__ = ("Anybody", "Company", "Root")

# How often those that are left are killed: one that is killed may start another in its end.
ROUNDS = 3


Anybody: TypeAlias = "ActorId | HasActorId"
# An actor, and whether it is a supervisor.
Root: TypeAlias = tuple[ActorId, bool]


@final
class Company:
    """The actors of one loop. Loop thread only."""

    __slots__ = ("_chosen", "_intake", "_loop")

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._intake: list[Anybody] = []
        self._chosen: list[Anybody] = []

    def let_in_by(self, actors: Iterable[Anybody]) -> None:
        """Note through whom messages come from outside."""
        for actor in actors:
            who = id_of(actor)
            self._check_local(who)
            known = {row[0]: row for row in rows(self._loop)}
            row = known.get(who)
            above = None if row is None or row[2] is None else known.get(row[2])
            if above is not None and is_supervised(above[5]):
                raise InvalidArgument(
                    f"{safe_repr(actor)} is a supervisor's child, and would be started again as soon as it has ended: stop in a hook of "
                    f"ShutdownPhase.INTAKE what sends to it from outside"
                )
            self._intake.append(actor)

    def choose(self, actors: Iterable[Anybody]) -> None:
        """Note whom the drain waits for; everybody, if nobody is chosen."""
        for actor in actors:
            self._check_local(id_of(actor))
            self._chosen.append(actor)

    def close_intake(self) -> None:
        """Have those through whom messages come in accept nothing more, handle what they have, and end."""
        for actor in self._intake:
            with suppress(NoSuchActor):
                close_mailbox(self._loop, id_of(actor))

    @property
    def is_quiet(self) -> bool:
        """Whether nobody whom the drain waits for has anything to do."""
        if not self._chosen:
            # A message that was passed on is in no mailbox while the worker it is for is down: the pool still has it.
            return is_quiet(self._loop) and all(is_at_rest(self._loop, actor) for actor in self.ids())
        return all(is_at_rest(self._loop, id_of(actor)) for actor in self._chosen)

    def busy(self) -> tuple[Busy, ...]:
        """Who has something to do, of those whom the drain waits for."""
        chosen = {id_of(actor) for actor in self._chosen}
        return tuple(
            self._as_busy(row)
            for row in rows(self._loop)
            if (not chosen or row[0] in chosen) and not is_at_rest(self._loop, row[0])
        )

    def living(self) -> tuple[Busy, ...]:
        """Whoever has not ended."""
        return tuple(map(self._as_busy, rows(self._loop)))

    def ids(self) -> list[ActorId]:
        """Whoever has not ended."""
        return [row[0] for row in rows(self._loop)]

    def roots(self) -> list[Root]:
        """Those that nobody above will end and that are not ending, the youngest first."""
        known = rows(self._loop)
        families = {row[0]: row[5] for row in known}

        def is_root(above: ActorId | None, family: object) -> bool:
            # An actor without a family hears of a child's end, and ends nobody. What a supervisor below it is for, ends first.
            return (
                above is None
                or above not in families
                or (families[above] is None and not is_supervised(family))
            )

        return [
            (actor, is_supervised(family))
            for actor, _, above, status, _, family in reversed(known)
            if is_root(above, family) and status < ActorStatus.STOPPING
        ]

    def stop(self, root: Root) -> None:
        """Have an actor end in good order, with all below it. Nothing, if it has ended."""
        actor, is_supervisor = root
        with suppress(BandstandError):
            if is_supervisor:
                end_supervisor(self._loop, actor)
            else:
                self._loop.stop_actor(actor)

    def has_ended(self, actor: ActorId) -> bool:
        """Whether an actor has ended."""
        return self._loop.status(actor) >= ActorStatus.STOPPED

    def kill(self) -> tuple[Busy, ...]:
        """End everybody without waiting, supervisors before their children, lest they start them again; who that was."""
        killed: list[Busy] = []
        for _ in range(ROUNDS):
            if not is_open(self._loop):
                break
            left = rows(self._loop)
            if not left:
                break
            killed.extend(map(self._as_busy, left))
            # The shutdown names them, in one line.
            for actor, *_ in left:
                answer_for(self._loop, actor)
            for actor, *_ in left:
                end_actor(
                    self._loop,
                    actor,
                    ActorKilled(f"actor {safe_repr(actor)} had not ended at the end of a shutdown"),
                )
        return tuple(killed)

    def _as_busy(self, row: Sequence[object]) -> Busy:
        actor, name, waiting = cast("ActorId", row[0]), cast("str | None", row[1]), cast("int", row[4])
        is_at_work = waiting == 0 and not is_at_rest(self._loop, actor)
        return Busy(name or repr(actor), waiting, is_at_work)

    def _check_local(self, actor: ActorId) -> None:
        if actor.home is not self._loop:
            raise ActorNotLocal(f"{safe_repr(actor)} lives on another loop than the one that is shut down")


def id_of(actor: Anybody) -> ActorId:
    """The id of whatever has one.

    Raises:
        InvalidArgument: it has none.
    """
    if isinstance(actor, ActorId):
        return actor
    if hasattr(type(actor), "__actor_id__"):
        return actor.__actor_id__()
    raise InvalidArgument(f"{safe_repr(actor)} is no actor: pass a handle, an ActorId or a supervisor")
