"""What a user must not write: both type checkers have an error on each marked line, and on no other. Never run."""

from __future__ import annotations

from bandstand.core import ActorId, Context, Lane, Loop, LoopConfig, Observer, Verdict


class Counter:
    total = 0


def count(ctx: Context[Counter], data: int) -> Verdict | None:
    ctx.state.missing = 1  # E:
    ctx.state = "a string"  # E:
    ctx.tag = 5  # E:
    ctx.lane = Lane.DATA  # E:
    ctx.self_id = ctx.self_id  # E:
    ctx.nothing  # E:
    return None


def bad_verdict(ctx: Context[None], data: int) -> str:
    return "ok"


def bad_arity(ctx: Context[None]) -> None:
    pass


class Clockless:
    pass


class Misspelt(Observer):
    def on_actor_stop(self, id: int) -> None:  # E:
        pass


def use(loop: Loop, actor: ActorId) -> None:
    loop.spawn(count, "not a Counter")  # E:
    loop.spawn(count, 5)  # E:
    loop.spawn(bad_verdict)  # E:
    loop.spawn(bad_arity)  # E:
    loop.spawn(None)  # E:
    loop.spawn("name")  # E:
    loop.spawn(count, Counter(), name=5)  # E:
    loop.spawn(count, Counter(), mailbox_cap="64")  # E:
    loop.spawn(count, Counter(), mailbox_cap=2.5)  # E:
    loop.spawn(count, Counter(), supervisor="boss")  # E:
    loop.spawn(count, Counter(), overflow="drop_oldest")  # E:
    loop.spawn(count, Counter(), cap=64)  # E:
    loop.spawn(count, Counter(), "positional")  # E:
    loop.send("actor", 1)  # E:
    loop.send(None, 1)  # E:
    loop.send(actor)  # E:
    loop.send(actor, 1, 2)  # E:
    loop.send(actor, 1, tag="tag")  # E:
    loop.send(actor, 1, tag=2.5)  # E:
    loop.send(actor, 1, lane=3)  # E:
    loop.send(actor, 1, lane="DATA")  # E:
    loop.send(actor, 1, lane=None)  # E:
    loop.send(actor, 1, priority=1)  # E:
    loop.try_send(actor, 1, lane=0)  # E:
    loop.try_send([], 1)  # E:
    loop.send_after(actor, "5", 1)  # E:
    loop.send_after(actor, 1)  # E:
    loop.send_after(actor, None, 1)  # E:
    loop.cancel_timer(5)  # E:
    loop.cancel_timer(actor)  # E:
    loop.demonitor(5)  # E:
    loop.monitor(actor)  # E:
    loop.stop_actor("actor")  # E:
    loop.fail_actor(actor, 5)  # E:
    loop.status("actor")  # E:
    loop.run(True)  # E:
    loop.config = LoopConfig()  # E:
    LoopConfig(5)  # E:
    LoopConfig(max_actors="5")  # E:
    LoopConfig(max_tick_ms="5")  # E:
    LoopConfig(maximum=5)  # E:
    LoopConfig().max_actors = 6  # E:
    Loop({})  # E:
    Loop(clock=Clockless())  # E:
    Loop(LoopConfig(), Clockless())  # E:
    loop.statistics().sent = 5  # E:
    value: str = loop.poll_once()  # E:
    other: bool = loop.send(actor, 1)  # E:
    with loop as inner:
        inner.nothing()  # E:
    print(value, other)


async def use_async(loop: Loop) -> None:
    with loop.run():  # E:
        pass
    await loop.send(1, 1)  # E:
