"""A hundred thousand restarts leave nothing behind."""

from __future__ import annotations

import gc
import logging
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from bandstand import _build_mode
from bandstand.core import ActorId, Context, ExitReason, Loop, LoopConfig
from bandstand.errors import RestartLimitError
from bandstand.supervision import (
    Backoff,
    ChildSpec,
    DynamicSpec,
    DynamicSupervisor,
    Overseer,
    Strategy,
    Supervisor,
    SupervisorSpec,
    spawn_supervisor,
)
from bandstand.supervision.restart import History, Intensity, plan_restart
from bandstand.testing import VirtualClock, leaks_of
from tests.core.support import Boom, check_statistics
from tests.supervision.helpers import supervise

pytestmark = pytest.mark.guarantee("G48", "G51")

RESTARTS = 100_000 if _build_mode.mode() == "compiled" else 20_000
# Interpreted or not, a leak of one block for every twenty restarts would show.
TOLERANCE = RESTARTS // 20


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Each restart is a line in the log; here they would be all there is."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


class Storm:
    """Children that fail as soon as they are started, as often as wanted, and how much was held on the way."""

    def __init__(self, loop: Loop) -> None:
        self.loop = loop
        self.left = 0
        self.starts = 0

    def init(self, ctx: Context[list[int]], *arguments: object) -> list[int]:
        self.starts += 1
        if self.left > 0:
            self.left -= 1
            ctx.loop.send(ctx.self_id, "fail")
        return [0] * 10

    def behavior(self, ctx: Context[list[int]], data: object) -> None:
        if data == "fail":
            raise Boom(data)

    def rage(self, supervisor: Overseer, times: int) -> int:
        """Have children fail until there were so many restarts; how many blocks are held then."""
        self.left = times - 1
        for info in supervisor.children():
            assert info.actor is not None
            self.loop.send(info.actor, "fail")
        self.loop.run(until_idle=True)
        gc.collect()
        return sys.getallocatedblocks()


def unlimited(period: float = 0.001) -> dict[str, Any]:
    return {"max_restarts": 1 << 40, "period": period}


def one(loop: Loop, storm: Storm) -> Supervisor:
    child = ChildSpec("one", storm.behavior, init=storm.init)
    return spawn_supervisor(loop, SupervisorSpec(children=[child], **unlimited()))


def one_with_mail(loop: Loop, storm: Storm) -> Supervisor:
    child = ChildSpec("one", storm.behavior, init=storm.init, keep_mailbox=True)
    return spawn_supervisor(loop, SupervisorSpec(children=[child], **unlimited()))


def one_that_waits(loop: Loop, storm: Storm) -> Supervisor:
    child = ChildSpec(
        "one", storm.behavior, init=storm.init, backoff=Backoff(initial=0.001, maximum=0.008, jitter=0.001)
    )
    return spawn_supervisor(loop, SupervisorSpec(children=[child], **unlimited(1.0)))


def group(loop: Loop, storm: Storm) -> Supervisor:
    children = [
        ChildSpec("one", storm.behavior, init=storm.init),
        ChildSpec("two", storm.behavior, backoff=Backoff(initial=0.001)),
    ]
    return spawn_supervisor(
        loop, SupervisorSpec(children=children, strategy=Strategy.ONE_FOR_ALL, **unlimited())
    )


def many(loop: Loop, storm: Storm) -> DynamicSupervisor[ActorId]:
    child = ChildSpec("some", storm.behavior, init=storm.init)
    supervisor = spawn_supervisor(loop, DynamicSpec(child=child, **unlimited()))
    for number in range(10):
        supervisor.start_child(number)
    return supervisor


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("make", "times"),
    [
        (one, RESTARTS),
        (many, RESTARTS),
        (one_with_mail, RESTARTS // 5),
        (one_that_waits, RESTARTS // 5),
        (group, RESTARTS // 5),
    ],
)
def test_memory_is_flat(make: Callable[[Loop, Storm], Overseer], times: int) -> None:
    # Time stands still unless there is nothing to do: the window of restarts that count must not be the leak.
    clock = VirtualClock()
    loop = Loop(LoopConfig(loop_factory=clock.new_event_loop), clock=Ticking(clock))
    storm = Storm(loop)
    supervisor = make(loop, storm)
    before = storm.rage(supervisor, times // 10)
    started = storm.starts
    after = storm.rage(supervisor, times)
    assert storm.starts - started >= times
    assert after - before < TOLERANCE
    books = loop.statistics()
    assert (books.waiting, books.timers_pending) == (0, 0)
    check_statistics(loop)
    supervisor.stop()
    loop.run(until_idle=True)
    loop.destroy()
    assert leaks_of(loop) == []


class Ticking:
    """A virtual clock in which every look takes a little time."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock

    def now_ns(self) -> int:
        self.clock.advance(0.000001)
        return self.clock.now_ns()

    def on_idle(self, wait_ns: int) -> bool:
        return self.clock.on_idle(wait_ns)


@pytest.mark.heavy
def test_a_window_of_many_restarts_is_not_kept_for_ever() -> None:
    """As many restarts as are allowed are remembered, and no more than that, however long it goes on."""
    clock = VirtualClock()
    loop = Loop(LoopConfig(loop_factory=clock.new_event_loop), clock=Ticking(clock))
    storm = Storm(loop)
    child = ChildSpec("one", storm.behavior, init=storm.init, backoff=Backoff(initial=0.001, maximum=0.001))
    # Each waits for a millisecond, so that about a hundred fall into a period.
    supervisor = supervise(loop, child, max_restarts=200, period=0.1)
    before = storm.rage(supervisor, 1000)
    after = storm.rage(supervisor, RESTARTS // 10)
    assert after - before < 1000
    assert supervisor.child("one") is not None
    loop.destroy()


def test_a_storm_that_is_too_much_ends_in_one_error() -> None:
    clock = VirtualClock()
    loop = Loop(clock=clock)
    storm = Storm(loop)
    child = ChildSpec("one", storm.behavior, init=storm.init)
    storm.left = 5000
    supervise(loop, child, max_restarts=1000)
    with pytest.raises(RestartLimitError, match="restart 1001 ") as caught:
        loop.run()
    assert "the last 10 failures" in str(caught.value.__cause__)
    assert storm.starts == 1001
    assert leaks_of(loop) == []


def test_delays_lengthen_the_period_by_a_thousand_of_them_at_most() -> None:
    intensity, backoff = Intensity(1 << 40, 1.0), Backoff(initial=1.0, maximum=1.0, factor=1.0)
    history, stored = History(), 0.0
    for number in range(3000):
        plan = plan_restart(intensity, history, number * 1000.0, backoff, ExitReason.PANIC, stored, 0.0, 0.5)
        history, stored = plan.history, plan.stored_ms
        assert not plan.gives_up
    assert history.count == 1001
