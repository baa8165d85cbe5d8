"""Shutdown: with any actors and limits it ends in time, no actor is left, and every message has its fate."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bandstand.actor import ActorSystem, child
from bandstand.core import LoopConfig
from bandstand.shutdown import GracefulShutdown, PhaseEnd, ShutdownPhase, ShutdownReport
from bandstand.shutdown.shutdown_run import STUBBORN_MS, ShutdownLimits
from bandstand.supervision import SupervisorSpec, spawn_supervisor
from bandstand.testing import VirtualClock
from tests.shutdown.actors import Book, PingPong, Slow, Stubborn, Worker

SLACK_MS = 250

times = st.one_of(st.none(), st.integers(0, 3000))
actors = st.lists(
    st.tuples(
        st.sampled_from(["worker", "slow", "supervised", "pingpong", "stubborn"]), st.integers(0, 1500)
    ),
    max_size=6,
)
hooks = st.lists(
    st.tuples(
        st.sampled_from(ShutdownPhase), st.sampled_from(["well", "raises", "ignores"]), st.integers(0, 3000)
    ),
    max_size=4,
)


def seconds(ms: float | None) -> float | None:
    return None if ms is None else ms / 1000


def spawn_actor(loop: ActorSystem, log: Book, kind: str, ms: int) -> None:
    if kind == "worker":
        worker = loop.spawn(Worker, log, ms=ms)
        worker.work("a")
        worker.work("b")
    elif kind == "slow":
        loop.spawn(Slow, log, "slow", ms).work("a")
    elif kind == "supervised":
        spec = SupervisorSpec(children=[child(name).of(Slow, log, name, ms) for name in ("one", "two")])
        spawn_supervisor(loop, spec)
    elif kind == "pingpong":
        loop.spawn(PingPong).ping()
    else:
        loop.spawn(Stubborn, log).work()


def add(shutdown: GracefulShutdown, phase: ShutdownPhase, kind: str, ms: int) -> None:
    @shutdown.on(phase)
    async def hook() -> None:
        until = asyncio.get_running_loop().time() + ms / 1000
        while (left := until - asyncio.get_running_loop().time()) > 1e-6:
            try:
                await asyncio.sleep(left)
            except asyncio.CancelledError:
                if kind != "ignores":
                    raise
        if kind == "raises":
            raise ValueError(kind)


@pytest.mark.guarantee("G263", "G264")
@given(
    troupe=actors,
    hooks=hooks,
    deadline_ms=st.integers(1, 8000),
    limits=st.tuples(times, times, times, times, times),
    hurry_ms=st.one_of(st.none(), st.integers(0, 4000)),
)
def test_it_is_over_in_time_and_nobody_is_left(
    troupe: list[tuple[str, int]],
    hooks: list[tuple[ShutdownPhase, str, int]],
    deadline_ms: int,
    limits: tuple[int | None, ...],
    hurry_ms: int | None,
) -> None:
    clock = VirtualClock()
    loop = ActorSystem(LoopConfig(), clock=clock)
    log = Book(clock)
    intake_ms, drain_ms, stop_ms, actor_ms, hook_ms = limits

    async def main() -> ShutdownReport:
        async with loop:
            shutdown = GracefulShutdown(
                loop,
                deadline=deadline_ms / 1000,
                intake_timeout=seconds(intake_ms),
                drain_timeout=seconds(drain_ms),
                stop_timeout=seconds(stop_ms),
                actor_timeout=seconds(actor_ms),
                hook_timeout=seconds(hook_ms),
            )
            for kind, ms in troupe:
                spawn_actor(loop, log, kind, ms)
            for phase, kind, ms in hooks:
                add(shutdown, phase, kind, ms)
            if hurry_ms is not None:
                asyncio.get_running_loop().call_later(hurry_ms / 1000, shutdown.hurry)
            report = await shutdown.run("law")
        left_after.append(log.now)
        return report

    left_after: list[float] = []
    report = clock.run(main())
    assert report.duration * 1000 <= deadline_ms + SLACK_MS
    if hurry_ms is not None:
        assert report.duration * 1000 <= max(hurry_ms, 0) + SLACK_MS
    assert left_after[0] <= report.duration * 1000 + STUBBORN_MS + 1, (
        "the loop does not wait for those who were killed"
    )
    assert [each.phase for each in report.phases] == list(ShutdownPhase)
    books = loop.statistics()
    assert books.alive == 0
    assert books.sent == books.handled + books.refused + books.dead + books.dropped
    assert report.dead_letters == loop.events.counts().dead_letters
    assert report.is_clean == (
        all(each.end is PhaseEnd.COMPLETE and not each.failed_hooks for each in report.phases)
        and not report.killed
        and report.dead_letters == 0
    )


@pytest.mark.guarantee("G262")
@given(
    troupe=st.lists(
        st.tuples(st.sampled_from(["worker", "slow", "supervised"]), st.integers(0, 1500)), max_size=8
    )
)
def test_with_time_enough_everything_that_was_accepted_is_handled(troupe: list[tuple[str, int]]) -> None:
    clock = VirtualClock()
    loop = ActorSystem(LoopConfig(), clock=clock)
    log = Book(clock)

    async def main() -> ShutdownReport:
        async with loop:
            for kind, ms in troupe:
                spawn_actor(loop, log, kind, ms)
            return await GracefulShutdown(loop, deadline=600.0, stop_timeout=None, actor_timeout=None).run()

    report = clock.run(main())
    assert report.is_clean, str(report)
    kinds = [kind for kind, _ in troupe]
    assert sum(word in {"worker: a", "worker: b"} for word in log.words) == 2 * kinds.count("worker")
    assert sum(word == "slow: a" for word in log.words) == kinds.count("slow")


ms = st.one_of(st.none(), st.floats(0, 1e6))


@pytest.mark.guarantee("G263")
@given(deadline=st.floats(0.001, 1e6), own=st.tuples(ms, ms, ms), spent=st.floats(0, 2e6))
def test_no_phase_has_more_than_is_left_and_the_stop_keeps_its_share(
    deadline: float, own: tuple[float | None, ...], spent: float
) -> None:
    limits = ShutdownLimits(deadline, own[0], own[1], own[2], None, None, 1000)
    left = max(0.0, deadline - spent)
    for phase in ShutdownPhase:
        assert 0 <= limits.of(phase, spent) <= left
    for phase, limit in zip(
        (ShutdownPhase.INTAKE, ShutdownPhase.DRAIN, ShutdownPhase.STOP), own, strict=True
    ):
        if limit is not None:
            assert limits.of(phase, spent) <= limit
    if spent == 0:
        after = limits.of(ShutdownPhase.INTAKE, 0) + limits.of(
            ShutdownPhase.DRAIN, limits.of(ShutdownPhase.INTAKE, 0)
        )
        assert limits.of(ShutdownPhase.STOP, after) >= min(limits.stop_share_ms, deadline) - 1e-6
