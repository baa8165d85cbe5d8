"""What the tests of specs, arithmetic and visibility play with: an observer of everything, and time in even steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bandstand.core import ActorId, Context, Loop
from bandstand.supervision import Overseer, Phase
from bandstand.testing import VirtualClock
from tests.core.stage import Boom, Diary, settle


class Ledger(Diary):
    """A diary that hears of supervisors, too."""

    def __init__(self) -> None:
        super().__init__()
        self.restarted: list[tuple[ActorId, ActorId, int]] = []
        self.escalated: list[ActorId] = []

    def on_actor_restart(self, supervisor: ActorId, child: ActorId, attempt: int) -> None:
        self.restarted.append((supervisor, child, attempt))
        self.entries.append("restart")

    def on_supervisor_escalate(self, supervisor: ActorId) -> None:
        self.escalated.append(supervisor)
        self.entries.append("escalate")


def watched(loop: Loop) -> Ledger:
    """A ledger that the loop writes into from now on."""
    ledger = Ledger()
    loop.set_observer(ledger)
    return ledger


def pass_time(loop: Loop, clock: VirtualClock, ms: float, step: float = 100) -> None:
    """Let time pass in even steps, and the loop come to rest after each of them."""
    for _ in range(round(ms / step)):
        clock.advance(step)
        settle(loop)


def since(clock: VirtualClock) -> Callable[[], float]:
    """A stopwatch: milliseconds since this call."""
    start = clock.now_ns()
    return lambda: (clock.now_ns() - start) / 1_000_000


def fails_at_once(
    times: list[float], watch: Callable[[], float]
) -> tuple[Any, Callable[[Context[None]], None]]:
    """The behavior and the init of a child that fails as soon as it has started, and notes when."""

    def init(ctx: Context[None]) -> None:
        ctx.loop.send(ctx.self_id, "fail")

    def behavior(ctx: Context[None], data: object) -> None:
        times.append(watch())
        raise Boom(data)

    return behavior, init


def alive(supervisor: Overseer, name: str) -> ActorId:
    """A child that has to be there."""
    actor = supervisor.child(name)
    assert actor is not None, f"{name} is down"
    return actor


def phases(supervisor: Overseer) -> dict[str, Phase]:
    return {info.name: info.phase for info in supervisor.children()}


def restarts(supervisor: Overseer) -> dict[str, int]:
    return {info.name: info.restarts for info in supervisor.children()}
