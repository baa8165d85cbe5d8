"""One run of the loop: actors and threads that do random things to it, and a record of what became of every message.

Everything that a run decides comes from its seed. A run ends its loop in one of several ways, and then compares the loop's counters with its own
record: each accepted message was handled once, or was reported once as dead or dropped; messages of one source to one lane of one actor
came in order; no timer was early, and none came after it was cancelled; each exit was reported once to the supervisor and to each monitor; and no
actor, task, thread or descriptor is left.
"""

from __future__ import annotations

import asyncio
import gc
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import Any, Literal, TypeAlias, get_args

from bandstand.core import (
    FAIL,
    OK,
    STOP,
    ActorId,
    ActorStatus,
    ChildExit,
    Context,
    Down,
    ExitReason,
    Lane,
    Loop,
    LoopConfig,
    MonitorId,
    Observer,
    Overflow,
    TimerId,
)
from bandstand.errors import (
    ChildStateError,
    InvalidTimerError,
    LoopClosedError,
    MailboxFullError,
    MaxActorsError,
    NoSuchActorError,
    NoSuchChildError,
    StartError,
    WrongThreadError,
)
from bandstand.supervision import (
    ChildSpec,
    Phase,
    RestartPolicy,
    Shutdown,
    Strategy,
    Supervisor,
    SupervisorSpec,
    spawn_supervisor,
)
from bandstand.testing import Leaks, leaks_of, pending_tasks, shuffle
from tests.core.support import USER_LANES, check_statistics
from tests.soak.checks import Fail, IntentionalError

LoopFactory: TypeAlias = Callable[[], asyncio.AbstractEventLoop]
Drive: TypeAlias = Literal["run", "async with", "poll"]
End: TypeAlias = Literal["idle", "actor", "thread", "exit", "destroy"]
"""The loop becomes idle; `request_stop()` by an actor or a thread; SystemExit in a behavior; destroyed in the middle."""
Kind: TypeAlias = Literal["function", "coroutine", "both"]

ENDS: dict[Drive, tuple[End, ...]] = {
    "run": ("idle", "idle", "actor", "thread", "exit"),
    "async with": ("idle", "idle", "actor", "thread", "destroy"),
    "poll": ("idle", "idle", "actor", "exit", "destroy"),
}
DELAYS = (0, 0.0002, 0.001, 0.0015, 0.002, 0.003, 0.005, 0.011, 0.023, 0.07, 0.3, 60, 10_000)
LONG = 1.0
"""Seconds from which on a run does not wait for a timer, but cancels it."""
FIRST_DELAY = 16
"""Sources below are threads; from here on there is one for each delay of a timer."""
PATIENCE = 15.0
"""Seconds in which a message must be handled and a loop become idle, on the busiest machine."""
MAX_TREES = 5
GONE = (NoSuchActorError, LoopClosedError)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What is decided before a run begins."""

    drive: Drive
    end: End
    seconds: float
    config: LoopConfig
    actors: int = 60
    threads: int = 0
    is_observed: bool = True
    is_shuffled: bool = False

    @classmethod
    def draw(cls, random: Random, seconds: float, factories: tuple[LoopFactory, ...]) -> Settings:
        drive: Drive = random.choice(get_args(Drive))
        config = LoopConfig(
            max_actors=random.choice((48, 500, 65_536)),
            default_mailbox_cap=random.choice((8, 64, 1024)),
            sys_reserved=random.choice((1, 4)),
            max_msgs_per_actor=random.choice((1, 7, 64)),
            max_actors_per_tick=random.choice((1, 32, 1024)),
            max_tick=random.choice((0.000_2, 0.001, 0.005)),
            stop_timeout=random.choice((0.001, 3.0, 3.0)),
            stall_timeout=random.choice((None, None, None, 20.0)),
            loop_factory=random.choice(factories),
        )
        return cls(
            drive=drive,
            end=random.choice(ENDS[drive]),
            seconds=seconds * random.uniform(0.5, 1.0),
            config=config,
            actors=random.choice((20, 60, 400)),
            threads=random.choice((0, 1, 2, 3)),
            is_observed=random.random() < 0.8,
            is_shuffled=random.random() < 0.25,
        )

    def __str__(self) -> str:
        host = getattr(self.config.loop_factory, "__module__", "?").partition(".")[0]
        flags = [name for name in ("is_observed", "is_shuffled") if getattr(self, name)]
        return " ".join([f"{self.drive} on {host}, ends by {self.end}, {self.threads} threads", *flags])


@dataclass(slots=True, eq=False)
class Worker:
    """An actor, and what the run knows about it."""

    serial: int
    kind: Kind = "function"
    overflow: Overflow = Overflow.REJECT
    supervisor: Worker | None = None
    is_permanent: bool = False
    """Whether nothing is done to it, and it does nothing on its own."""
    actor: Any = None
    is_busy: bool = False
    reason: ExitReason | None = None
    """Why it ended; None while it lives, and in a run without an observer."""
    is_exit_heard: bool = False
    last: dict[tuple[int, Lane], int] = field(default_factory=dict[tuple[int, Lane], int])
    downs: Counter[int] = field(default_factory=Counter[int])
    """How many `Down` messages about each actor it must still receive."""
    timers: set[Message] = field(default_factory=set["Message"])

    def __repr__(self) -> str:
        return f"<Worker {self.serial}, {self.kind}, {self.overflow.value}>"


@dataclass(slots=True, eq=False, frozen=True)
class Message:
    """One message, with a number that grows for each source."""

    source: int
    number: int
    target: Worker
    lane: Lane
    due: int = 0
    """The moment before which a timer must not fire, in nanoseconds of the clock."""
    handled: threading.Event | None = None

    @property
    def tag(self) -> int:
        return self.number & 0xFFFF


class LoopRun:
    """A loop with its workers and threads, and the record of what happened to them."""

    def __init__(self, name: str, settings: Settings, fail: Fail) -> None:
        self.name, self.settings, self.fail = name, settings, fail
        self.random = Random(name)
        self.loop = Loop(settings.config)
        self.thread = threading.get_ident()
        self.counts: Counter[str] = Counter()
        self.stage: list[Worker] = []
        """The workers that actions choose from; those that have ended leave it when they are chosen."""
        self.workers: dict[int, Worker] = {}
        self.outstanding: dict[Message, None] = {}
        """Accepted messages that were neither handled nor reported."""
        self.timers: dict[Message, TimerId] = {}
        self.monitors: list[tuple[MonitorId, Worker, Worker]] = []
        self.trees: list[Supervisor] = []
        self.leaders: set[int] = set()
        self.serial = 0
        self.numbers: Counter[int] = Counter()
        self.deadline = time.monotonic() + settings.seconds
        self.is_quiet = self.is_ending = self.is_destroyed = False
        if settings.is_observed:
            self.loop.set_observer(RecordingHooks(self))
        if settings.is_shuffled:
            shuffle(self.loop, self.random.getrandbits(32))
        self.driver = self._spawn_permanent(self._drive_run)
        self.listener = self._spawn_permanent(self._handle)
        count = max(settings.threads, settings.end == "thread")
        self.threads = [
            Sender(self, 1 + place, ends_run=settings.end == "thread" and place == 0)
            for place in range(count)
        ]

    def play(self) -> None:
        """Run to the end, and check."""
        before = Leaks.now()
        for _ in range(5):
            self.spawn()
        self._start_timer(self.driver, 0, Lane.CONTROL)
        for thread in self.threads:
            thread.start()
        try:
            self._drive()
        finally:
            self.is_quiet = self.is_ending = True
            for thread in self.threads:
                thread.join(PATIENCE)
            self.loop.destroy()
            self.is_destroyed = True
        self._check_end()
        for sentence in before.since():
            self.fail(f"left behind: {sentence}")

    # -- driving the loop ------------------------------------------------------------------------------------------------

    def _drive(self) -> None:
        how, end = self.settings.drive, self.settings.end
        if how == "async with":
            with asyncio.Runner(loop_factory=self.settings.config.loop_factory) as runner:
                runner.run(self._drive_inside())
            return
        try:
            if how == "poll":
                self._poll()
            else:
                self.loop.run(until_idle=end == "idle")
            if end == "idle":
                self._check_idle()
        except SystemExit:
            if end != "exit":
                raise
        else:
            if end == "exit":
                self.fail("SystemExit in a behavior was not raised to the caller")

    async def _drive_inside(self) -> None:
        async with self.loop:
            while not self._is_done():  # noqa: ASYNC110  # the loop itself is asked, there is no event
                await asyncio.sleep(0.002)
            if self.settings.end == "idle":
                self._check_idle()
        host = asyncio.get_running_loop()
        until = time.monotonic() + PATIENCE
        # If the time for stopping was short, coroutines in flight were cancelled and end a little later.
        while (left := _runtime_tasks(host)) and time.monotonic() < until:  # noqa: ASYNC110  # nothing else may wait for them
            await asyncio.sleep(0.002)
        if left:
            self.fail(f"tasks are left in the event loop: {left}")

    def _poll(self) -> None:
        try:
            while not self._is_done():
                if self.loop.poll_once() == 0:
                    time.sleep(0.0002)
        except LoopClosedError:
            if not self.is_ending:
                raise

    def _is_done(self) -> bool:
        if self.settings.end != "idle" or not self.is_quiet:
            return self.is_ending
        stats = self.loop.statistics()
        held = stats.waiting + stats.in_flight + stats.timers_pending
        return held == 0 or time.monotonic() > self.deadline + 2 * PATIENCE

    def _drive_run(self, ctx: Context[Worker], data: object) -> Any:
        """The behavior of the permanent actor that acts by timer until the time is up, and then ends the run."""
        self._handle(ctx, data)
        self.counts["turns"] += 1
        if self.counts["turns"] % 20 == 0:
            check_statistics(self.loop)
        if self.is_quiet:
            return self._wind_down()
        if time.monotonic() < self.deadline or self.settings.end == "thread":
            for _ in range(self.random.choice((1, 5, 40, 150))):
                self.act()
            self._start_timer(self.driver, self.random.choice((0, 0, 2, 4, 4, 9)), Lane.CONTROL)
            return None
        return self.end(self.settings.end)

    def end(self, how: End) -> None:
        """End the run, on whichever thread."""
        if how == "idle":
            self.is_quiet = True
            self._start_timer(self.driver, 4, Lane.CONTROL)
            return
        self.is_quiet = self.is_ending = True
        if how == "exit":
            raise SystemExit
        if how != "destroy":
            self.loop.request_stop()

    def _wind_down(self) -> None:
        """Wait for the threads, and then cancel long timers."""
        is_late = time.monotonic() > self.deadline + PATIENCE
        if not is_late and any(thread.is_alive() for thread in self.threads):
            self._start_timer(self.driver, 4, Lane.CONTROL)
            return
        for message in list(self.timers):
            if DELAYS[message.source - FIRST_DELAY] >= LONG:
                self._cancel(message)

    # -- behaviors -------------------------------------------------------------------------------------------------------

    def behavior_of(self, kind: Kind) -> Any:
        if kind == "function":
            return self._handle
        return self._handle_async if kind == "coroutine" else self._handle_either

    def _handle(self, ctx: Context[Worker], data: object) -> Any:
        self._enter(ctx, data)
        ctx.state.is_busy = False
        return self._respond(ctx.state)

    def _handle_async(self, ctx: Context[Worker], data: object) -> Any:
        # Recorded before the coroutine starts, for it may be cancelled before its first step.
        self._enter(ctx, data)
        return self._go_on(ctx)

    def _handle_either(self, ctx: Context[Worker], data: object) -> Any:
        return (self._handle if self.random.random() < 0.5 else self._handle_async)(ctx, data)

    async def _go_on(self, ctx: Context[Worker]) -> Any:
        worker, tag, lane = ctx.state, ctx.tag, ctx.lane
        try:
            await pause(self.random, is_quiet=self.is_quiet)
            if (ctx.tag, ctx.lane) != (tag, lane):
                self.fail(f"the context of {worker} has changed while it waited")
            return self._respond(worker)
        finally:
            worker.is_busy = False

    def _enter(self, ctx: Context[Worker], data: object) -> None:
        worker = ctx.state
        self.counts["handled"] += 1
        if worker.is_busy and worker.reason is None and self._lives(worker):
            self.fail(f"{worker} was called while it was handling another message")
        worker.is_busy = True
        if worker.reason is not None or ctx.self_id != worker.actor:
            self.fail(f"{worker} of {ctx.self_id} was given {data!r} after its end")
        if isinstance(data, Message):
            self._receive(ctx, data)
        elif ctx.lane is not Lane.SYSTEM or ctx.tag >= 0:
            self.fail(f"{worker} was given {data!r} on {ctx.lane!r} with tag {ctx.tag}")
        elif isinstance(data, (ChildExit, Down)):
            self._hear_end(worker, data)

    def _receive(self, ctx: Context[Worker], message: Message) -> None:
        worker, place = ctx.state, (message.source, ctx.lane)
        if (message.target, message.lane, message.tag) != (worker, ctx.lane, ctx.tag):
            self.fail(f"{worker} was given {message} on {ctx.lane!r} with tag {ctx.tag}")
        if worker.last.get(place, -1) >= message.number:
            self.fail(f"{worker} was given {message} after {worker.last[place]}: out of order")
        worker.last[place] = message.number
        self.settle(message, "handled")
        if message.handled is not None:
            message.handled.set()

    def _respond(self, worker: Worker) -> Any:
        chance = self.random.random()
        if self.is_quiet or worker.is_permanent or chance > 0.1:
            return None
        if chance < 0.05:
            self.act()
        elif chance < 0.06:
            return STOP
        elif chance < 0.065:
            return FAIL
        elif chance < 0.07:
            raise IntentionalError
        elif chance < 0.072:
            return "no verdict"
        elif chance < 0.077:
            # Something else may have ended it, or a thread the whole loop, while it was in flight.
            with suppress(*GONE):
                (self.loop.stop_actor if chance < 0.075 else self.loop.fail_actor)(worker.actor)
        return OK

    # -- the record ------------------------------------------------------------------------------------------------------

    def settle(self, message: Message, how: str) -> None:
        """Record what became of a message."""
        if message.due and message.due > time.monotonic_ns():
            self.fail(f"{message} was {how} {message.due - time.monotonic_ns()} ns early")
        self.timers.pop(message, None)
        message.target.timers.discard(message)
        if self.outstanding.pop(message, 0) == 0:
            self.fail(f"{message} was {how}: it came twice, after its cancellation, or was never accepted")

    def hear_exit(self, worker: Worker, reason: ExitReason) -> None:
        if worker.reason is not None:
            self.fail(f"{worker} ended twice")
        worker.reason = reason
        for message in worker.timers:
            del self.timers[message], self.outstanding[message]
        worker.timers.clear()

    def _hear_end(self, worker: Worker, data: ChildExit | Down) -> None:
        target = self.workers.get(int(data.child if isinstance(data, ChildExit) else data.actor))
        if target is None:
            if worker is not self.listener:
                self.fail(f"{worker} was told of an unknown actor: {data}")
            return
        if target.reason not in {None, data.reason}:
            self.fail(f"{target} ended with {target.reason!r}, and {worker} was told {data.reason!r}")
        if isinstance(data, Down):
            worker.downs[int(data.actor)] -= 1
            if worker.downs[int(data.actor)] < 0:
                self.fail(f"{worker} was told too often of the end of {target}")
            return
        if target.supervisor is not worker or target.is_exit_heard:
            self.fail(f"{worker} was told of the end of {target} twice, or is not its supervisor")
        target.is_exit_heard = True

    def _check_idle(self) -> None:
        """Check that nothing is left to do in a loop that lives, and that everyone was told of every end."""
        left = [leak for leak in leaks_of(self.loop) if not leak.endswith("actors are alive")]
        if left:
            self.fail(f"the loop is idle, and still {left}")
        for tree in self.trees:
            if self._tree_lives(tree):
                phases = {info.phase for info in tree.children()}
                if not phases <= {Phase.UP, Phase.DOWN}:
                    self.fail(
                        f"the loop is idle, and a child of {tree.name} is neither up nor down: {phases}"
                    )
        if not self.settings.is_observed:
            return
        for worker in self.workers.values():
            boss = worker.supervisor
            if worker.reason is None:
                unheard = [
                    n for n, count in worker.downs.items() if count and self.workers[n].reason is not None
                ]
                if unheard:
                    self.fail(f"{worker} never heard of the end of {unheard}, which it monitors")
            elif boss is not None and boss.reason is None and not worker.is_exit_heard:
                self.fail(f"{boss} never heard of the end of {worker}")

    def _check_end(self) -> None:
        """Compare the counters of the destroyed loop with the record."""
        check_statistics(self.loop)
        stats, counts = self.loop.statistics(), self.counts
        if left := leaks_of(self.loop):
            self.fail(f"the loop is destroyed, and still {left}")
        counts["spawned"] += stats.spawned
        refused = counts["refused"] + sum(thread.refused for thread in self.threads)
        counts.update(
            sent=stats.sent, refused=refused - counts["refused"], dead=stats.dead, dropped=stats.dropped
        )
        expected = {
            "refused": (refused, stats.refused),
            "timers cancelled": (counts["timers_cancelled"], stats.timers_cancelled),
            "timers set": (counts["timers_set"], stats.timers_set),
        }
        for what, (mine, theirs) in expected.items():
            if mine != theirs:
                self.fail(f"{what}: the record says {mine}, the loop {theirs}")
        if counts["handled"] > stats.handled:
            self.fail(f"{counts['handled']} were handled, the loop says {stats.handled}")
        if not self.settings.is_observed:
            if len(self.outstanding) > stats.dead + stats.dropped + stats.timers_released:
                self.fail(f"{len(self.outstanding)} messages were lost: {stats}")
            return
        if counts["dead told"] != stats.dead:
            self.fail(f"{counts['dead told']} dead letters were reported, the loop says {stats.dead}")
        # What a full mailbox drops of another thread's messages is counted, but not always reported.
        silent = [
            m
            for m in self.outstanding
            if 0 < m.source < FIRST_DELAY and m.target.overflow is not Overflow.REJECT
        ]
        if len(silent) > stats.dropped - counts["dropped told"]:
            self.fail(f"{len(silent)} messages were dropped without a report; the loop says {stats.dropped}")
        lost = len(self.outstanding) - len(silent)
        if lost:
            self.fail(
                f"{lost} messages were lost, such as {next(m for m in self.outstanding if m not in silent)}"
            )

    # -- actions ---------------------------------------------------------------------------------------------------------

    def act(self) -> None:
        """Do something at random."""
        (action,) = self.random.choices(ACTIONS, WEIGHTS)
        self.counts["actions"] += 1
        action(self)

    def next_serial(self) -> int:
        self.serial += 1
        return self.serial

    def _lives(self, worker: Worker) -> bool:
        return self.loop.status(worker.actor) < ActorStatus.STOPPING

    def choose(self) -> Worker:
        """Choose a worker, which may have ended; such a one is not chosen again."""
        if not self.stage:
            return self.listener
        place = self.random.randrange(len(self.stage))
        worker = self.stage[place]
        if not self._lives(worker):
            self.stage[place] = self.stage[-1]
            self.stage.pop()
        return worker

    def _check_refusal(self, worker: Worker | None) -> None:
        if worker is not None and not self.is_ending and self._lives(worker):
            self.fail(f"{worker} lives, and a call to it was refused")

    def _spawn_permanent(self, behavior: Any) -> Worker:
        worker = Worker(self.next_serial(), is_permanent=True)
        worker.actor = self.loop.spawn(behavior, worker)
        self.workers[int(worker.actor)] = worker
        return worker

    def spawn(self) -> None:
        if len(self.stage) >= self.settings.actors:
            return None
        random = self.random
        boss = self.choose() if self.stage and random.random() < 0.5 else None
        kind: Kind = random.choice(get_args(Kind))
        worker = Worker(self.next_serial(), kind, random.choice(tuple(Overflow)), boss)
        try:
            worker.actor = self.loop.spawn(
                self.behavior_of(kind),
                worker,
                mailbox_cap=random.choice((None, 5, 6, 9, 40, 5000)),
                supervisor=None if boss is None else boss.actor,
                overflow=worker.overflow,
            )
        except GONE:
            return self._check_refusal(boss)
        except MaxActorsError:
            if (alive := self.loop.statistics().alive) != self.settings.config.max_actors:
                self.fail(f"MaxActorsError at {alive} of {self.settings.config.max_actors} actors")
            return None
        self.workers[int(worker.actor)] = worker
        self.stage.append(worker)
        return None

    def send(self) -> None:
        self._send_to(self.choose(), self.random.choice(USER_LANES))

    def burst(self) -> None:
        worker, lane = self.choose(), self.random.choice(USER_LANES)
        for _ in range(self.random.choice((10, 60, 400))):
            self._send_to(worker, lane)

    def begin(
        self, source: int, worker: Worker, lane: Lane, handled: threading.Event | None = None
    ) -> Message:
        """Make the next message of a source, and record it as accepted."""
        self.numbers[source] += 1
        message = Message(source, self.numbers[source], worker, lane, handled=handled)
        self.outstanding[message] = None
        return message

    def refuse(self, message: Message) -> None:
        """Record that a message was refused."""
        if self.outstanding.pop(message, 0) == 0:
            self.fail(f"{message} was refused, and was delivered nevertheless")

    def _send_to(self, worker: Worker, lane: Lane) -> None:
        message = self.begin(0, worker, lane)
        target = int(worker.actor) if self.random.random() < 0.2 else worker.actor
        try:
            if self.random.random() < 0.7:
                self.loop.send(target, message, lane=lane, tag=message.tag)
                return
            if self.loop.try_send(target, message, lane=lane, tag=message.tag):
                return
        except MailboxFullError:
            if worker.overflow is not Overflow.REJECT:
                self.fail(f"the mailbox of {worker} drops messages, and it refused {message}")
        except GONE:
            self._check_refusal(worker)
        self.counts["refused"] += 1
        self.refuse(message)

    def start_timer(self) -> None:
        worker = self.choose()
        if not self._start_timer(worker, self.random.randrange(len(DELAYS)), self.random.choice(USER_LANES)):
            self._check_refusal(worker)

    def start_many_timers(self) -> None:
        worker, lane, delay = self.choose(), self.random.choice(USER_LANES), self.random.randrange(8)
        for _ in range(self.random.choice((5, 50, 300))):
            self._start_timer(worker, delay, lane)

    def _start_timer(self, worker: Worker, delay: int, lane: Lane) -> bool:
        source = FIRST_DELAY + delay
        self.numbers[source] += 1
        due = time.monotonic_ns() + int(DELAYS[delay] * 1e9)
        message = Message(source, self.numbers[source], worker, lane, due)
        try:
            timer = self.loop.send_after(worker.actor, DELAYS[delay], message, lane=lane, tag=message.tag)
        except GONE:
            self.counts["refused"] += 1
            return False
        self.counts["timers_set"] += 1
        self.outstanding[message] = None
        self.timers[message] = timer
        worker.timers.add(message)
        return True

    def cancel_timer(self) -> None:
        if self.timers:
            newest = self.random.random() < 0.7
            message = next(reversed(self.timers)) if newest else next(iter(self.timers))
            if message.target is not self.driver:
                self._cancel(message)

    def _cancel(self, message: Message) -> None:
        timer = self.timers[message]
        try:
            self.loop.cancel_timer(timer)
        except InvalidTimerError:
            if self._lives(message.target) and message.due > time.monotonic_ns():
                self.fail(f"{message} is not due, and cannot be cancelled")
            return
        self.counts["timers_cancelled"] += 1
        del self.timers[message], self.outstanding[message]
        message.target.timers.discard(message)
        with suppress(InvalidTimerError):
            self.loop.cancel_timer(timer)
            self.fail(f"{message} was cancelled twice")

    def end_worker(self) -> None:
        worker = self.choose()
        if worker.is_permanent:
            return None
        try:
            self.random.choice((self.loop.stop_actor, self.loop.stop_actor, self.loop.fail_actor))(
                worker.actor
            )
        except GONE:
            return self._check_refusal(worker)
        if self._lives(worker):
            self.fail(f"{worker} was ended, and lives")
        return None

    def monitor(self) -> None:
        watcher, target = self.choose(), self.choose()
        watcher.downs[int(target.actor)] += 1
        try:
            made = self.loop.monitor(watcher.actor, target.actor)
        except GONE:
            watcher.downs[int(target.actor)] -= 1
            return self._check_refusal(watcher)
        self.monitors.append((made, watcher, target))
        del self.monitors[:-200]
        return None

    def demonitor(self) -> None:
        if self.monitors:
            made, watcher, target = self.monitors.pop(self.random.randrange(len(self.monitors)))
            if self.loop.demonitor(made):
                watcher.downs[int(target.actor)] -= 1
                if self.loop.demonitor(made):
                    self.fail("a monitor could be removed twice")

    # -- supervision trees -----------------------------------------------------------------------------------------------

    def _tree_lives(self, tree: Supervisor) -> bool:
        return self.loop.status(tree.actor) < ActorStatus.STOPPED

    def start_tree(self) -> None:
        random = self.random
        self.trees = [tree for tree in self.trees if self._tree_lives(tree)]
        # With few places for actors, a restart might find none and would wait by a timer that is not recorded.
        if len(self.trees) >= MAX_TREES or self.settings.config.max_actors < 500:
            return
        spec = SupervisorSpec(
            children=[self._child_spec() for _ in range(random.randrange(4))],
            strategy=random.choice(tuple(Strategy)),
            max_restarts=random.choice((0, 3, 100)),
            period=1.0,
        )
        with suppress(LoopClosedError, StartError):
            tree = spawn_supervisor(
                self.loop, spec, name=f"tree {self.next_serial()}", parent=self.listener.actor
            )
            self.trees.append(tree)

    def _child_spec(self) -> ChildSpec[Any]:
        kind: Kind = self.random.choice(get_args(Kind))
        starts = 0

        def init(ctx: Context[Worker]) -> Worker:
            nonlocal starts
            starts += 1
            worker = Worker(self.next_serial(), kind, actor=ctx.self_id)
            self.workers[int(ctx.self_id)] = worker
            self.counts["restarts"] += starts > 1
            if starts > 1 and not self.is_quiet and self.random.random() < 0.1:
                raise IntentionalError
            self.stage.append(worker)
            return worker

        return ChildSpec(
            f"child {self.next_serial()}",
            self.behavior_of(kind),
            init=init,
            restart=self.random.choice(tuple(RestartPolicy)),
            mailbox_cap=self.random.choice((None, 6, 40)),
            shutdown=Shutdown.INFINITY,
        )

    def change_tree(self) -> None:
        if not self.trees:
            return
        tree = self.random.choice(self.trees)
        names = [info.name for info in tree.children()]
        name = self.random.choice(names) if names else ""
        calls: list[Callable[[], object]] = [
            lambda: tree.start_child(self._child_spec()) if len(names) < 6 else None,
            lambda: tree.stop_child(name),
            lambda: tree.restart_child(name),
            lambda: tree.delete_child(name),
            tree.stop if self.random.random() < 0.3 else tree.count_children,
            lambda: self.loop.kill_actor(tree.actor) if self.random.random() < 0.2 else None,
        ]
        with suppress(ChildStateError, NoSuchChildError, StartError, *GONE):
            self.random.choice(calls)()
        for info in tree.children():
            actor = tree.child(info.name)
            if actor is not None and (info.phase is Phase.DOWN or not self._tree_lives(tree)):
                self.fail(f"{info} of {tree.name} lives, and should not")


ACTIONS: list[Callable[[LoopRun], None]] = [
    *(LoopRun.send, LoopRun.spawn, LoopRun.start_timer, LoopRun.cancel_timer, LoopRun.end_worker),
    *(LoopRun.monitor, LoopRun.change_tree, LoopRun.burst, LoopRun.demonitor, LoopRun.start_tree),
    LoopRun.start_many_timers,
]
WEIGHTS = [400, 150, 120, 60, 30, 30, 30, 25, 20, 12, 10]


async def pause(random: Random, *, is_quiet: bool) -> None:
    """Wait, or not, in one of many ways."""
    chance = random.random()
    if chance < 0.5:
        return
    if chance < 0.8:
        await asyncio.sleep(0)
    elif chance < 0.9:
        await asyncio.sleep(random.choice((0.0005, 0.002, 0.006)))
    elif chance < 0.93:
        with suppress(TimeoutError):
            async with asyncio.timeout(0.001):
                await asyncio.sleep(1)
    elif chance < 0.96:
        try:
            await asyncio.sleep(0.004)
        except asyncio.CancelledError:
            await asyncio.sleep(0.003)
            raise
    elif chance < 0.97:
        await asyncio.to_thread(time.sleep, 0.001)
    elif chance < 0.98:
        await asyncio.gather(asyncio.sleep(0), asyncio.sleep(0.001))
    elif not is_quiet:
        # A cancellation that the runtime did not ask for is a panic, and is not passed on to the next message.
        task = asyncio.current_task()
        if chance < 0.99 or task is None:
            raise asyncio.CancelledError
        task.cancel()
        await asyncio.sleep(0)


class Sender(threading.Thread):
    """Sends from its own thread until the run is quiet; sometimes it waits until a message was handled."""

    def __init__(self, run: LoopRun, source: int, *, ends_run: bool) -> None:
        super().__init__(name=f"sender {source}", daemon=True)
        self._run, self._source, self._ends_run = run, source, ends_run
        self._random = Random(f"{run.name}/thread/{source}")
        self.refused = 0

    def run(self) -> None:
        run, random = self._run, self._random
        while not run.is_quiet:
            if self._ends_run and time.monotonic() >= run.deadline:
                return run.end("thread")
            chance = random.random()
            if chance < 0.03:
                self._send_and_wait()
            elif chance < 0.05:
                with suppress(WrongThreadError):
                    run.loop.send(run.listener.actor, None)
                    run.fail("send() on another thread did not raise WrongThreadError")
            else:
                for _ in range(random.choice((1, 3, 20, 200))):
                    with suppress(IndexError):
                        self._send(random.choice(run.stage), random.choice(USER_LANES))
            time.sleep(random.choice((0, 0.0002, 0.002, 0.02)))
        return None

    def _send(self, worker: Worker, lane: Lane, handled: threading.Event | None = None) -> bool:
        run = self._run
        message = run.begin(self._source, worker, lane, handled)
        try:
            run.loop.send_async(worker.actor, message, lane=lane, tag=message.tag)
        except (MailboxFullError, *GONE) as error:
            self.refused += 1
            run.refuse(message)
            if isinstance(error, MailboxFullError) and worker.overflow is not Overflow.REJECT:
                run.fail(f"the mailbox of {worker} drops messages, and it refused {message}")
            return False
        return True

    def _send_and_wait(self) -> None:
        """A lost wake-up shows here."""
        run, handled = self._run, threading.Event()
        if not self._send(run.listener, Lane.DATA, handled):
            return
        until = time.monotonic() + PATIENCE
        while not handled.wait(0.02) and not run.is_ending:
            if time.monotonic() > until:
                run.fail(f"a message of {self.name} was not handled within {PATIENCE} s: a wake-up was lost")
                return
        run.counts["answered"] += 1


class RecordingHooks(Observer):
    """The observer of a run: records dead and dropped messages and exits."""

    def __init__(self, run: LoopRun) -> None:
        self._run = run

    def on_actor_stop(self, id: ActorId, reason: ExitReason) -> None:  # noqa: A002
        worker = self._check("on_actor_stop").workers.get(int(id))
        if worker is not None:
            self._run.hear_exit(worker, reason)

    def on_dead_letter(
        self, target: ActorId, lane: Lane, data: object, tag: int, sender: ActorId | int
    ) -> None:
        run = self._check("on_dead_letter")
        run.counts["dead told"] += 1
        if isinstance(data, Message):
            run.settle(data, "dead")
            if data.handled is not None:
                data.handled.set()

    def on_dropped(self, target: ActorId, lane: Lane, data: object, tag: int, sender: ActorId | int) -> None:
        run = self._check("on_dropped")
        run.counts["dropped told"] += 1
        if isinstance(data, Message):
            run.settle(data, "dropped")
        else:
            run.fail(f"the system message {data!r} was dropped")

    def _check(self, hook: str) -> LoopRun:
        run = self._run
        if threading.get_ident() != run.thread or run.is_destroyed:
            run.fail(f"{hook} was called on thread {threading.current_thread().name!r}, or after destroy()")
        return run


def play(name: str, settings: Settings, fail: Fail) -> Counter[str]:
    """Run once, check that the loop is garbage afterwards, and return the counts."""
    run = LoopRun(name, settings, fail)
    run.play()
    loop, counts = weakref.ref(run.loop), run.counts
    del run
    gc.collect()
    if loop() is not None:
        fail(
            f"a destroyed loop is still referred to by {[repr(one)[:80] for one in gc.get_referrers(loop())][:5]}"
        )
    return counts


def _runtime_tasks(host: asyncio.AbstractEventLoop) -> list[str]:
    return [name for name in pending_tasks(host) if "Task-" not in name]
