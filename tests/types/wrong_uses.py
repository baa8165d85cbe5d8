"""What a user must not write: both type checkers have an error on each marked line, and on no other. Never run."""

from __future__ import annotations

from bandstand.core import ActorId, Context, Lane, Loop, LoopConfig, Observer, Verdict
from bandstand.supervise import (
    Backoff,
    ChildMode,
    ChildSpec,
    DynamicSpec,
    DynamicSupervisor,
    PartitionSpec,
    PartitionSupervisor,
    Shutdown,
    Strategy,
    Supervisor,
    SupervisorSpec,
    spawn_supervisor,
)


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

    def on_actor_restart(self, supervisor: ActorId, child: ActorId) -> None:  # E:
        pass

    def on_supervisor_escalate(self, supervisor: ActorId, child: ActorId) -> None:  # E:
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


def new_counter(ctx: Context[Counter]) -> Counter:
    return Counter()


def new_text(ctx: Context[str]) -> str:
    return ""


async def new_text_later(ctx: Context[str]) -> str:
    return ""


def no_context() -> Counter:
    return Counter()


def use_specs() -> None:
    ChildSpec("child")  # E:
    ChildSpec(5, count, new_counter)  # E:
    ChildSpec("child", 5)  # E:
    ChildSpec("child", None)  # E:
    ChildSpec("child", bad_arity)  # E:
    ChildSpec("child", bad_verdict)  # E:
    ChildSpec("child", SupervisorSpec)  # E:
    ChildSpec("child", count, new_text)  # E:
    ChildSpec("child", count, init=new_text)  # E:
    ChildSpec("child", count, init=new_text_later)  # E:
    ChildSpec("child", count, init=Counter())  # E:
    ChildSpec("child", count, init=no_context)  # E:
    ChildSpec("child", count, init=lambda ctx: "text")  # E:
    ChildSpec("child", count, init=lambda: Counter())  # E:
    ChildSpec("child", count, new_counter, ChildMode.PERMANENT, 64, "kept")  # E:
    ChildSpec("child", count, new_counter, mode="permanent")  # E:
    ChildSpec("child", count, new_counter, mailbox_cap="64")  # E:
    ChildSpec("child", count, new_counter, mailbox_cap=64.5)  # E:
    ChildSpec("child", count, new_counter, mailbox=True)  # E:
    ChildSpec("child", count, new_counter, backoff=100)  # E:
    ChildSpec("child", count, new_counter, shutdown="kill")  # E:
    ChildSpec("child", count, new_counter, significant="yes")  # E:
    ChildSpec("child", count, new_counter, restart=ChildMode.PERMANENT)  # E:
    ChildSpec("child", count, new_counter).name = "other"  # E:
    ChildSpec("child", count, new_counter).mode = ChildMode.TRANSIENT  # E:
    wrong: ChildSpec[str] = ChildSpec("child", count, new_counter)  # E:
    SupervisorSpec([])  # E:
    SupervisorSpec(children=ChildSpec("child", count, new_counter))  # E:
    SupervisorSpec(children=[count])  # E:
    SupervisorSpec(children=[SupervisorSpec()])  # E:
    SupervisorSpec(strategy="one_for_one")  # E:
    SupervisorSpec(strategy=ChildMode.PERMANENT)  # E:
    SupervisorSpec(intensity=2.5)  # E:
    SupervisorSpec(period_ms="5")  # E:
    SupervisorSpec(auto_shutdown=True)  # E:
    SupervisorSpec().strategy = Strategy.ONE_FOR_ALL  # E:
    DynamicSpec()  # E:
    DynamicSpec(child=count)  # E:
    DynamicSpec(child=SupervisorSpec())  # E:
    DynamicSpec(child=ChildSpec("child", count, new_counter), max_children="5")  # E:
    DynamicSpec(child=ChildSpec("child", count, new_counter), strategy=Strategy.ONE_FOR_ALL)  # E:
    PartitionSpec(child=ChildSpec("child", count, new_counter))  # E:
    PartitionSpec(child=ChildSpec("child", count, new_counter), partitions="4")  # E:
    PartitionSpec(child=ChildSpec("child", count, new_counter), partitions=None)  # E:
    Backoff(100)  # E:
    Backoff(initial_ms="100")  # E:
    Backoff(factor=None)  # E:
    Backoff(limit=5)  # E:
    Backoff().max_ms = 5  # E:
    Backoff().after("100")  # E:
    Backoff().after(100, True)  # E:
    print(wrong, Shutdown.NEVER)  # E:


def use_supervisors(loop: Loop, root: Supervisor, crowd: DynamicSupervisor, shards: PartitionSupervisor) -> None:
    spawn_supervisor(SupervisorSpec())  # E:
    spawn_supervisor(loop, ChildSpec("child", count, new_counter))  # E:
    spawn_supervisor(loop, [SupervisorSpec()])  # E:
    spawn_supervisor(loop, SupervisorSpec, name="root")  # E:
    spawn_supervisor(loop, SupervisorSpec(), "root")  # E:
    spawn_supervisor(loop, SupervisorSpec(), name=None)  # E:
    spawn_supervisor(loop, SupervisorSpec(), parent="boss")  # E:
    spawn_supervisor(loop, SupervisorSpec(), parent=root)  # E:
    spawn_supervisor(loop, SupervisorSpec()).route("key")  # E:
    spawn_supervisor(loop, DynamicSpec(child=ChildSpec("child", count, new_counter))).delete_child("x")  # E:
    as_dynamic: DynamicSupervisor = spawn_supervisor(loop, SupervisorSpec())  # E:
    root.child(5)  # E:
    root.address(5)  # E:
    root.supervisor("below")  # E:
    root.supervisor("below", SupervisorSpec)  # E:
    root.supervisor("below", root)  # E:
    root.supervisor("below", ActorId)  # E:
    below: DynamicSupervisor | None = root.supervisor("below", Supervisor)  # E:
    certain: Supervisor = root.supervisor("below", Supervisor)  # E:
    root.start_child(count)  # E:
    root.start_child("child")  # E:
    root.start_child(SupervisorSpec())  # E:
    root.stop_child(root.actor)  # E:
    root.restart_child(5)  # E:
    root.delete_child()  # E:
    root.name = "other"  # E:
    root.actor = root.actor  # E:
    loop.send(root.child("child"), 1)  # E:
    loop.send(root, 1)  # E:
    root.count_children().active = 5  # E:
    root.children()[0].missing  # E:
    crowd.name_of("session-1")  # E:
    crowd.delete_child("session-1")  # E:
    shards.route(2.5)  # E:
    shards.route(None)  # E:
    shards.partitions = 5  # E:
    shards.start_child("one")  # E:
    print(as_dynamic, below, certain)
