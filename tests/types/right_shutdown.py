"""What a user may write of events and shutdowns: both type checkers accept it and infer what is asserted here. Never run."""

from __future__ import annotations

from typing import assert_type

from bandstand.actor import Actor, ActorSystem, tell
from bandstand.core import (
    DeadLetter,
    Dropped,
    Escalated,
    EventSubscription,
    Lagged,
    Restarted,
    RuntimeEvent,
    Stalled,
    Unhandled,
)
from bandstand.shutdown import GracefulShutdown, ShutdownPhase, ShutdownReport
from bandstand.supervision import Supervisor


class Tally(Actor):
    @tell
    def add(self, n: int) -> None: ...


def describe(event: RuntimeEvent) -> str:
    match event:
        case DeadLetter() | Dropped() | Unhandled():
            return event.what
        case Restarted():
            return str(assert_type(event.attempt, int))
        case Escalated():
            return repr(event.supervisor)
        case Lagged():
            return event.source
        case Stalled():
            return f"{event.timeout}"


def events(loop: ActorSystem) -> None:
    assert_type(loop.events.listen(describe), EventSubscription)


async def shut_down(loop: ActorSystem, supervisor: Supervisor) -> None:
    shutdown = GracefulShutdown(loop, deadline=10.0, drain_timeout=None)
    tally = loop.spawn(Tally)
    shutdown.intake(tally, loop.spawn_raw(lambda _ctx, _data: None))
    shutdown.drain_only(tally, supervisor)

    @shutdown.on(ShutdownPhase.INTAKE)
    async def close() -> int:
        return 1

    assert_type(await close(), int)
    shutdown.on(ShutdownPhase.KILL)(lambda: None)
    with shutdown.on_signals() as same:
        assert_type(same, GracefulShutdown)
    assert_type(await shutdown.run("why"), ShutdownReport)
