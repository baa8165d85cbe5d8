"""Helpers for the tests of supervisors: recorders, specs of obedient children, and virtual time in steps."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Self, cast

from bandstand.core import ActorId, Context, ExitReason, Loop, Observer, Verdict
from bandstand.errors import ActorFailedError, ActorKilledError, InvalidVerdictError
from bandstand.supervision import (
    AnySupervisorSpec,
    ChildSpec,
    Overseer,
    Phase,
    Supervisor,
    SupervisorSpec,
    spawn_supervisor,
)
from bandstand.testing import VirtualClock
from tests.core.support import Boom, RecordingObserver, call_in, run_message, settle

PASSES = 30  # ticks, and turns of the host, in which everything that can go on by itself has gone on


class NameRecorder(Observer):
    """Who came and went, by name, in order."""

    def __init__(self) -> None:
        self.names: dict[ActorId, str] = {}
        self.entries: list[str] = []
        self.restarts: list[tuple[str, str, int]] = []
        self.escalated: list[str] = []
        self.dead: list[object] = []

    def on_actor_start(self, id: ActorId, name: str | None) -> None:  # noqa: A002 -- the hook's own name
        self.names[id] = name or "?"
        self.entries.append(f"+{self.names[id]}")

    def on_actor_stop(self, id: ActorId, reason: ExitReason) -> None:  # noqa: A002 -- the hook's own name
        self.entries.append(f"-{self.names.get(id, '?')}")

    def on_actor_restart(self, supervisor: ActorId, child: ActorId, attempt: int) -> None:
        self.restarts.append((self.names[supervisor], self.names[child], attempt))

    def on_supervisor_escalate(self, supervisor: ActorId) -> None:
        self.escalated.append(self.names[supervisor])
        self.entries.append(f"!{self.names[supervisor]}")

    def on_dead_letter(self, target: ActorId, lane: Any, data: object, tag: int, sender: Any) -> None:
        self.dead.append(data)

    def take(self) -> list[str]:
        """What was written since the last time."""
        entries, self.entries = self.entries, []
        return entries


class StubbornCoroutine:
    """A coroutine that takes no notice of a cancellation, until it is opened. Opened at the end of its block."""

    def __init__(self, *, ignores: int = 1_000_000) -> None:
        self.ignores = ignores
        self.cancels = 0
        self.entered = 0
        self._is_open = False
        self._events: list[asyncio.Event] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.open()

    def open(self) -> None:
        self._is_open = True
        for event in self._events:
            event.set()

    async def wait(self) -> None:
        self.entered += 1
        while not self._is_open:
            event = asyncio.Event()
            self._events.append(event)
            try:
                await event.wait()
            except asyncio.CancelledError:
                self.cancels += 1
                if self.cancels > self.ignores and not self._is_open:
                    raise

    async def __call__(self, ctx: Context[Any], data: object) -> None:
        """Be a behavior that never ends its first message."""
        await self.wait()


def crash(ctx: Context[Any]) -> Verdict | None:
    raise Boom("crash")


def fail(ctx: Context[Any]) -> Verdict | None:
    return Verdict.FAIL


def leave(ctx: Context[Any]) -> Verdict | None:
    return Verdict.STOP


ENDS: dict[str, Callable[[Context[Any]], Verdict | None]] = {"crash": crash, "fail": fail, "leave": leave}


def nonsense(ctx: Context[Any]) -> Any:
    return "no verdict"


def _told(deed: Callable[[Context[Any]], Any]) -> Callable[[Loop, ActorId], None]:
    return lambda loop, actor: call_in(loop, actor, deed)


EVERY_END: dict[str, tuple[Callable[[Loop, ActorId], None], ExitReason, type[BaseException] | None]] = {
    "STOP": (_told(leave), ExitReason.NORMAL, None),
    "stop_actor": (lambda loop, actor: loop.stop_actor(actor), ExitReason.NORMAL, None),
    "FAIL": (_told(fail), ExitReason.FAIL, None),
    "fail_actor": (lambda loop, actor: loop.fail_actor(actor), ExitReason.FAIL, None),
    "in words": (lambda loop, actor: loop.fail_actor(actor, "in words"), ExitReason.FAIL, ActorFailedError),
    "kill_actor": (lambda loop, actor: loop.kill_actor(actor), ExitReason.FAIL, ActorKilledError),
    "exception": (_told(crash), ExitReason.PANIC, Boom),
    "bad verdict": (_told(nonsense), ExitReason.PANIC, InvalidVerdictError),
}
"""Every way in which an actor ends, with its reason and the type of its cause."""


def child(name: str, run: Any = run_message, **fields: Any) -> ChildSpec[Any]:
    """A child that does what its messages say."""
    spec: ChildSpec[Any] = ChildSpec(name, run, **fields)
    return spec


def below(name: str, spec: AnySupervisorSpec, **fields: Any) -> ChildSpec[Any]:
    """A child that is a supervisor."""
    nested: ChildSpec[Any] = ChildSpec(name, spec, **fields)
    return nested


def id_of(supervisor: Overseer, name: str) -> ActorId:
    actor = supervisor.child(name)
    assert actor is not None, f"{name} is not running"
    return actor


def nested(supervisor: Overseer, name: str) -> Supervisor:
    """A child that is a supervisor of a list."""
    found = supervisor.supervisor(name, Supervisor)
    assert found is not None, f"{name} is not running"
    return found


def supervise(
    loop: Loop,
    *children: ChildSpec[Any],
    name: str = "root",
    parent: ActorId | int | None = None,
    **fields: Any,
) -> Supervisor:
    """Start a supervisor of these children."""
    return spawn_supervisor(loop, SupervisorSpec(children=children, **fields), name=name, parent=parent)


def start(loop: Loop, *children: ChildSpec[Any], **fields: Any) -> Supervisor:
    """The same, with more restarts than most tests make."""
    fields.setdefault("max_restarts", 10)
    return supervise(loop, *children, **fields)


def begin(loop: Loop, supervisor: Overseer, name: str) -> None:
    """Have a child begin its coroutine."""
    loop.send(id_of(supervisor, name), "begin")
    spin(loop)


def order(
    loop: Loop, supervisor: Overseer, name: str, deed: Callable[[Context[Any]], Verdict | None]
) -> None:
    """Have a child do something, at once and with all that follows."""
    loop.send(id_of(supervisor, name), deed)
    settle(loop)


def spin(loop: Loop, passes: int = PASSES) -> None:
    """Let ticks and turns of the host go by: for coroutines, which `settle` does not wait for."""
    for _ in range(passes):
        loop.poll_once()


def running(supervisor: Overseer) -> list[str]:
    """The names of the children that run, in order."""
    return [info.name for info in supervisor.children() if supervisor.child(info.name) is not None]


def phases(supervisor: Overseer) -> dict[str, str]:
    return {info.name: info.phase.value for info in supervisor.children()}


async def slow_init(ctx: Context[Any]) -> str:
    """An init that takes a few turns of the host."""
    for _ in range(3):
        await asyncio.sleep(0)
    return "slow"


async def failing_init(ctx: Context[Any]) -> str:
    """The same, and then it fails."""
    await slow_init(ctx)
    raise Boom("init")


def bad_init(ctx: Context[Any]) -> str:
    raise Boom("init")


class Fails:
    """An init that fails some times, counted from the second start on by default."""

    def __init__(self, times: int, *, skip: int = 1) -> None:
        self.times = times
        self.skip = skip
        self.calls = 0

    def __call__(self, ctx: Context[Any]) -> int:
        self.calls += 1
        if self.skip < self.calls <= self.skip + self.times:
            raise Boom(f"init {self.calls}")
        return self.calls


def causes_of(error: BaseException | None) -> Sequence[BaseException]:
    """What a supervisor that gave up has to tell."""
    cause = None if error is None else error.__cause__
    assert isinstance(cause, BaseExceptionGroup)
    return cast("BaseExceptionGroup[BaseException]", cause).exceptions


def place_init(ctx: Context[Any], place: int) -> int:
    """The init of a partition: its state is its place."""
    return place


class SupervisionRecorder(RecordingObserver):
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


def watched(loop: Loop) -> SupervisionRecorder:
    """A recorder that the loop writes into from now on."""
    recorder = SupervisionRecorder()
    loop.set_observer(recorder)
    return recorder


def pass_time(loop: Loop, clock: VirtualClock, ms: float, step: float = 100) -> None:
    """Let time pass in even steps, and the loop come to rest after each of them."""
    for _ in range(round(ms / step)):
        clock.advance(step / 1000)
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


def phases_of(supervisor: Overseer) -> dict[str, Phase]:
    return {info.name: info.phase for info in supervisor.children()}


def restarts(supervisor: Overseer) -> dict[str, int]:
    return {info.name: info.restarts for info in supervisor.children()}
