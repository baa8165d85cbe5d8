"""What a user may write: both type checkers accept it and infer what is asserted here. Read by checkers, never run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import assert_type

from bandstand.core import (
    FAIL,
    OK,
    STOP,
    ActorId,
    ActorStatus,
    Behavior,
    ChildExit,
    Clock,
    Context,
    ExitReason,
    Lane,
    Loop,
    LoopConfig,
    MonitorId,
    MonotonicClock,
    Observer,
    Overflow,
    Statistics,
    TimerId,
    Verdict,
)
from bandstand.testing import VirtualClock


@dataclass
class Counter:
    total: int = 0
    notes: list[str] = field(default_factory=list[str])


def count(ctx: Context[Counter], data: int) -> Verdict | None:
    assert_type(ctx.state, Counter)
    assert_type(ctx.state.total, int)
    assert_type(ctx.self_id, ActorId)
    assert_type(ctx.loop, Loop)
    assert_type(ctx.tag, int)
    assert_type(ctx.lane, Lane)
    ctx.state.total += data
    ctx.state = Counter(data)
    if data < 0:
        return FAIL
    if data == 0:
        return STOP
    return OK


def silent(ctx: Context[None], data: str) -> None:
    assert_type(ctx.state, None)


def any_data(ctx: Context[int], data: object) -> Verdict:
    if isinstance(data, ChildExit):
        assert_type(data.child, ActorId)
        assert_type(data.reason, ExitReason)
        assert_type(data.cause, BaseException | None)
    return OK


class Callable:
    """A behavior may be an object."""

    def __call__(self, ctx: Context[Counter], data: int) -> Verdict | None:
        return None


class Louder(Observer):
    def on_actor_stop(self, id: ActorId, reason: ExitReason) -> None:  # noqa: A002 -- the hook's own name
        assert_type(reason, ExitReason)


class Stopped:
    """A clock of the user's own."""

    def now_ns(self) -> int:
        return 0


def use() -> None:
    loop = Loop(LoopConfig(max_actors=10), clock=VirtualClock())
    Loop(clock=MonotonicClock())
    clock: Clock = Stopped()
    Loop(None, clock=clock)
    counter = loop.spawn(count, Counter())
    assert_type(counter, ActorId)
    loop.spawn(
        count, state=Counter(3), name="three", mailbox_cap=64, supervisor=counter, overflow=Overflow.CONFLATE
    )
    loop.spawn(silent)
    loop.spawn(silent, None)
    loop.spawn(any_data, 5)
    loop.spawn(Callable(), Counter())
    loop.spawn(lambda ctx, data: None)
    stored: Behavior[Counter] = count
    loop.spawn(stored, Counter())
    loop.send(counter, 1)
    loop.send(int(counter), 1, tag=7, lane=Lane.CONTROL, sender=counter)
    assert_type(loop.try_send(counter, 1), bool)
    timer = loop.send_after(counter, 1.5, 1, lane=Lane.MANAGEMENT)
    assert_type(timer, TimerId)
    assert_type(timer.pending, bool)
    loop.cancel_timer(timer)
    monitor = loop.monitor(counter, counter)
    assert_type(monitor, MonitorId)
    assert_type(loop.demonitor(monitor), bool)
    assert_type(loop.status(counter), ActorStatus)
    loop.fail_actor(counter, "in words")
    loop.fail_actor(counter, ValueError())
    loop.set_observer(Louder())
    loop.set_observer(None)
    assert_type(loop.statistics(), Statistics)
    assert_type(loop.statistics().sent, int)
    assert_type(loop.poll_once(), int)
    loop.run(until_idle=True)
    with Loop() as inner:
        assert_type(inner, Loop)
    assert_type(sorted([counter, counter]), list[ActorId])
    assert_type(counter < int(counter), bool)
    assert_type({counter: 1}[counter], int)


async def use_async() -> None:
    async with Loop() as loop:
        assert_type(loop, Loop)
