"""A whole loop on both builds: random programs give the same transcript; arguments that C would bend are refused alike."""

from __future__ import annotations

import math
from contextvars import copy_context
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bandstand.testing import VirtualClock
from tests.core.support import idle
from tests.parity.builds import Build
from tests.parity.test_structures import outcome, same

Step = tuple[str, int, int, int]

STEPS = (
    "spawn", "send", "send", "send", "try_send", "send_async", "timer", "timer", "cancel", "stop", "fail", "monitor", "demonitor",
    "link", "link", "unlink", "trap", "kill", "child", "child", "started", "system later", "tree",
    "tick", "tick", "advance", "system", "status",
)  # fmt: skip
DEEDS = (
    "note",
    "note",
    "note",
    "note",
    "stop",
    "fail",
    "panic",
    "bad",
    "self",
    "pass on",
    "timer",
    "stop itself",
    "kill itself",
    "link",
    "give birth",
)
INITS = (
    "gives a state",
    "raises",
    "stops itself",
    "kills itself",
    "ends another",
    "is not ready yet",
    "none",
)


def short(value: object) -> object:
    """A value that means the same in both builds: ids without their loop's tag, enums and signals by name."""
    kind = type(value).__name__
    if kind == "ActorId":
        return f"actor {int(value) & ((1 << 48) - 1):x}"  # type: ignore[call-overload]
    if isinstance(value, tuple):
        return (kind, *map(short, cast("tuple[object, ...]", value)))
    if isinstance(value, BaseException):
        return kind
    if isinstance(value, int):
        return int(value)
    return getattr(value, "name", value)


def transcript(build: Build, limits: tuple[int, int, int, int], steps: list[Step]) -> list[Any]:
    core = build.core
    log: list[Any] = []
    clock = VirtualClock()
    budget, visits, max_actors, cap = limits
    lanes = [core.Lane.CONTROL, core.Lane.MANAGEMENT, core.Lane.DATA]
    policies = list(core.Overflow)

    base: Any = core.Observer

    class Observer(base):  # type: ignore[misc]  # known at run time only
        def __getattribute__(self, name: str) -> Any:
            if name.startswith("on_"):

                def hook(*arguments: object) -> None:
                    log.append((name, *map(short, arguments)))

                return hook
            return object.__getattribute__(self, name)

    def behavior(ctx: Any, data: Any) -> Any:
        log.append(
            ("handle", short(ctx.self_id), short(data), ctx.tag, short(ctx.sender), ctx.lane.name, ctx.state)
        )
        ctx.state += 1
        if type(data).__name__ != "tuple":
            return None
        number, deed = data
        if deed == "panic":
            raise ValueError(number)
        if deed == "self":
            ctx.loop.try_send(ctx.self_id, (number, "note"), lane=lanes[number % 3])
        elif deed == "pass on":
            ctx.loop.send(actors[number % len(actors)], (number, "note"), tag=number, sender=ctx.self_id)
        elif deed == "timer":
            timers.append(ctx.loop.send_after(ctx.self_id, number % 70 / 1000, (number, "note")))
        elif deed == "stop itself":
            ctx.loop.stop_actor(ctx.self_id)
        elif deed == "kill itself":
            ctx.loop.kill_actor(ctx.self_id)
        elif deed == "link":
            ctx.loop.link(ctx.self_id, actors[number % len(actors)])
        elif deed == "give birth":
            bear(ctx.self_id, number)
        return {"stop": core.STOP, "fail": core.FAIL, "bad": "bad", "note": core.OK}.get(deed)

    def bear(boss: Any, number: int) -> None:
        """Start a child whose init does one thing or another."""
        kind = INITS[number % len(INITS)]

        def init(ctx: Any) -> Any:
            log.append(("init", short(ctx.self_id), loop.status(ctx.self_id).name))
            ctx.loop.send(ctx.self_id, (number, "note"))
            if kind == "raises":
                raise ValueError(number)
            if kind == "stops itself":
                ctx.loop.stop_actor(ctx.self_id)
            elif kind == "kills itself":
                ctx.loop.kill_actor(ctx.self_id)
            elif kind == "ends another":
                ctx.loop.fail_actor(actors[number % len(actors)])
            return kernel.NOT_YET if kind == "is not ready yet" else number

        child = loop.kernel.actors.spawn_child(
            behavior, None if kind == "none" else init, name=f"c{number}", cap=cap, supervisor=boss,
            context=copy_context(),
        )  # fmt: skip
        if kind == "none":
            # Its state is None, and the behavior counts.
            loop.stop_actor(child)
        actors.append(child)

    kernel = build["bandstand.core.kernel"]
    config = core.LoopConfig(
        max_msgs_per_actor=budget, max_actors_per_tick=visits, max_actors=max_actors, default_mailbox_cap=cap
    )
    with core.Loop(config, clock=clock) as loop:
        loop.set_observer(Observer())
        actors: list[Any] = [loop.spawn(behavior, 0)]
        timers: list[Any] = []
        monitors: list[Any] = []

        def take(step: str, a: int, b: int, c: int) -> Any:
            actor = actors[a % len(actors)]
            data = (c, DEEDS[b % len(DEEDS)])
            match step:
                case "spawn":
                    boss = actor if b % 2 else None
                    actors.append(
                        loop.spawn(behavior, 0, supervisor=boss, overflow=policies[c % 4], name=f"n{c}")
                    )
                case "send":
                    loop.send(actor, data, lane=lanes[c % 3], tag=c, sender=actors[b % len(actors)])
                case "try_send":
                    return loop.try_send(int(actor) if b % 2 else actor, data, lane=lanes[c % 3])
                case "send_async":
                    loop.send_async(actor, data, lane=lanes[c % 3])
                case "timer":
                    timers.append(loop.send_after(actor, c / 2000, data, lane=lanes[b % 3]))
                case "cancel":
                    loop.cancel_timer(timers[a % len(timers)])
                case "stop":
                    loop.stop_actor(actor)
                case "fail":
                    loop.fail_actor(actor, "because" if b % 2 else ValueError(c))
                case "monitor":
                    monitors.append(loop.monitor(actor, actors[b % len(actors)]))
                case "demonitor":
                    return loop.demonitor(monitors[a % len(monitors)])
                case "link":
                    loop.link(actor, int(actors[b % len(actors)]) if c % 3 == 0 else actors[b % len(actors)])
                case "unlink":
                    return loop.unlink(actor, actors[b % len(actors)])
                case "trap":
                    loop.trap_exits(actor, c % 4 > 0)
                case "kill":
                    loop.kill_actor(int(actor) if b % 2 else actor)
                case "child":
                    bear(actor if b % 2 else None, c)
                case "started":
                    loop.kernel.actors.declare_started(actor)
                case "system later":
                    timer = loop.kernel.start_system_timer(actor, c, "later", core.SystemTag.CHILD_RESTART)
                    return timer is not None and timer.pending
                case "tree":
                    return [(node.status.name, node.waiting, len(node.children)) for node in loop.tree()]
                case "tick":
                    return loop.poll_once()
                case "advance":
                    clock.advance(c / 1000)
                case "system":
                    return loop.kernel.send_system(actor, "sys", core.SystemTag.SHUTDOWN)
                case _:
                    return loop.status(actor).name
            return None

        for step in steps:
            log.append((step[0], outcome(take, *step)))
            log.append(repr(loop.statistics()))
        clock.advance(10.0)
        for _ in range(50):
            loop.poll_once()
        log.append(repr(loop.statistics()))
    log.append(repr(loop.statistics()))
    return log


@pytest.mark.slow
@pytest.mark.spec("J4", "J7", "J13")
@given(
    limits=st.tuples(st.integers(1, 5), st.integers(1, 5), st.integers(1, 8), st.integers(5, 10)),
    steps=st.lists(
        st.tuples(st.sampled_from(STEPS), st.integers(0, 20), st.integers(0, 20), st.integers(0, 300)),
        max_size=80,
    ),
)
def test_a_random_program_has_one_transcript(limits: tuple[int, int, int, int], steps: list[Step]) -> None:
    same(lambda build: transcript(build, limits, steps))


BENT: tuple[Any, ...] = (
    2.5, 2.0, -2.5, None, "2", True, math.nan, math.inf, -1, 0, 1, 1 << 30, 1 << 31, 1 << 32, 1 << 42, 1 << 43,
    (1 << 63) - 1, 1 << 63, 1 << 64, -(1 << 63), -(1 << 63) - 1, 1e18, 1e30, b"2", [2], object,
)  # fmt: skip


@pytest.mark.parametrize("value", BENT, ids=repr)
def test_an_argument_that_c_would_bend_has_one_fate(value: Any) -> None:
    """2.5 for an int, None for a typed argument, what does not fit 64 bits: the same answer from both builds."""

    def play(build: Build) -> list[str]:
        core = build.core
        log: list[str] = []
        with core.Loop(clock=VirtualClock()) as loop:
            actor = loop.spawn(idle)
            for call in (
                lambda: loop.send(actor, 1, tag=value),
                lambda: loop.send(actor, 1, lane=value),
                lambda: loop.send(actor, 1, sender=value),
                lambda: loop.try_send(value, 1),
                lambda: loop.send(value, 1),
                lambda: loop.send_async(value, 1),
                lambda: loop.send_after(actor, value, 1).pending,
                lambda: loop.send_after(value, 1, 1),
                lambda: loop.cancel_timer(value),
                lambda: loop.demonitor(value),
                lambda: loop.monitor(actor, value),
                lambda: loop.monitor(value, actor),
                lambda: loop.status(value),
                lambda: loop.stop_actor(value),
                lambda: loop.fail_actor(value),
                lambda: loop.kill_actor(value),
                lambda: loop.link(actor, value),
                lambda: loop.link(value, actor),
                lambda: loop.unlink(actor, value),
                lambda: loop.unlink(value, actor),
                lambda: loop.trap_exits(value),
                lambda: loop.trap_exits(actor, value),
                lambda: bool(loop.spawn(value)),
                lambda: bool(loop.spawn(idle, mailbox_cap=value)),
                lambda: bool(loop.spawn(idle, name=value)),
                lambda: loop.spawn(idle, supervisor=value) is None,
                lambda: loop.spawn(idle, overflow=value),
                lambda: loop.set_observer(value),
                lambda: core.LoopConfig(max_actors=value).max_actors,
                lambda: core.LoopConfig(max_msgs_per_actor=value).max_msgs_per_actor,
                lambda: core.LoopConfig(max_tick=value).max_tick,
                lambda: bool(core.Loop(value)),
                lambda: bool(core.Loop(clock=value)),
            ):
                log.append(outcome(call))  # noqa: PERF401 -- the calls act on one loop, in order
            log.append(repr(loop.statistics()))
        return log

    same(play)


@pytest.mark.parametrize("verdict", [*BENT, "stop", object()], ids=repr)
def test_a_behavior_may_return_anything_with_one_fate(verdict: Any) -> None:
    def answering(ctx: object, data: object) -> Any:
        return verdict

    def play(build: Build) -> str:
        with build.core.Loop(clock=VirtualClock()) as loop:
            actor = loop.spawn(answering)
            loop.send(actor, 1)
            loop.poll_once()
            return str(loop.status(actor).name)

    same(play)


def test_a_context_shows_the_same_and_keeps_state() -> None:
    def play(build: Build) -> list[Any]:
        log: list[Any] = []

        def behavior(ctx: Any, data: Any) -> None:
            log.append([short(getattr(ctx, name)) for name in ("self_id", "state", "tag", "sender", "lane")])
            log.append(ctx.loop is loop)
            ctx.state = data
            log.append(outcome(lambda: setattr(ctx, "anything", 1)))

        with build.core.Loop(clock=VirtualClock()) as loop:
            actor = loop.spawn(behavior, "first")
            loop.send(actor, "second", tag=3, lane=build.core.Lane.CONTROL, sender=5)
            loop.send(actor, None)
            loop.poll_once()
        return log

    same(play)


@pytest.mark.parametrize("now", [0, 5, -5, 1 << 62, 1 << 63, 1 << 64, 2.5, 1e18, None, "5"], ids=repr)
def test_a_clock_may_say_anything_with_one_fate(now: Any) -> None:
    """What does not fit 64 bits, or is no int at all, is told when the loop is made, not when C meets it."""

    class Odd:
        def now_ns(self) -> Any:
            return now

    def play(build: Build) -> list[str]:
        log: list[str] = []
        log.append(outcome(lambda: str(build.core.Loop(clock=Odd()).destroy())))
        if log == ["'None'"]:
            with build.core.Loop(clock=Odd()) as loop:
                actor = loop.spawn(idle)
                log.append(outcome(lambda: loop.send_after(actor, 0.001, "x").pending))
                log.append(outcome(loop.poll_once))
            log.append(repr(loop.statistics()))
        return log

    same(play)
