"""One world: a loop, its players, and the storm; driven as its plan says, ended, and its books compared."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
import weakref
from random import Random

from bandstand.core import ActorId, ActorStatus, Context, Lane, Loop, Overflow, Verdict
from bandstand.errors import LoopClosedError
from bandstand.errors.validation import to_seconds
from bandstand.testing import Leaks, leaks_of, pending_tasks, shuffle
from tests.soak import deeds
from tests.soak.actors import Behaviors, Player
from tests.soak.auditor import Auditor
from tests.soak.books import FIRST_THREAD, Books, Fail
from tests.soak.flood import Flooder
from tests.soak.inner import Inner
from tests.soak.kin import Kin
from tests.soak.pipes import Pipes
from tests.soak.plan import Plan
from tests.soak.timers import DELAYS, Timers
from tests.soak.troupes import Troupes

PATIENCE = 15.0
"""Seconds within which a quiet world must have run dry, on the busiest machine."""
NAPS = tuple(DELAYS.index(ms) for ms in (3, 11, 23, 70))
SOON = tuple(DELAYS.index(ms) for ms in (0, 0, 1, 2))


class World:
    """The hub: everybody finds everybody through it. It belongs to the thread that makes it."""

    def __init__(self, name: str, plan: Plan, fail: Fail) -> None:
        self.name = name
        self.plan = plan
        self.fail = fail
        self.random = Random(name)
        self.thread = threading.get_ident()
        self.loop = Loop(plan.config)
        self.books = Books(fail)
        self.timers = Timers(self.loop, self.books)
        self.kin = Kin(fail)
        self.pipes = Pipes(self.loop, self.random, self.books)
        self.behaviors = Behaviors(self)
        self.troupes = Troupes(self)
        self.stranger = _stranger()
        self.spawning: dict[str, Player] = {}
        # Those whom deeds may befall, the ended ones among them until somebody stumbles over them.
        self.stage: list[Player] = []
        self.inners: list[Inner] = []
        self.serial = 0
        self.spawned = 0
        self.sums: dict[str, int] = {}
        self.turns = self.deeds = self.notes = self.full = self.knocks = self.inner_loops = 0
        self.deadline = time.monotonic() + plan.seconds
        # Begun; no new deeds; on its way to its end; over.
        self.is_begun = self.is_quiet = self.is_ending = self.is_destroyed = False
        if plan.is_observed:
            self.loop.set_observer(Auditor(self, plan.mischief))
        if plan.is_shuffled:
            shuffle(self.loop, self.random.getrandbits(32))
        self.conductor = self._spawn_staff(self._conduct)
        self.doorman = self._spawn_staff(self.behaviors.plain)
        self._threads = [
            Flooder(self, FIRST_THREAD + i, f"{name}/thread/{i}", is_ender=plan.end == "thread" and i == 0)
            for i in range(max(plan.threads, plan.end == "thread"))
        ]

    # -- what deeds need -----------------------------------------------------------------------------------------------

    def next_serial(self) -> int:
        self.serial += 1
        return self.serial

    def spawn(self, player: Player, *, mailbox_cap: int | None = None, behavior: object = None) -> None:
        """Spawn a player; what spawn raises comes out."""
        name = f"player {player.serial}"
        if self.plan.is_observed:
            self.spawning[name] = player
        try:
            actor = self.loop.spawn(
                behavior or self.behaviors.of[player.kind],  # type: ignore[arg-type]  # one of ours
                player,
                name=name,
                mailbox_cap=mailbox_cap,
                supervisor=None if player.supervisor is None else player.supervisor.actor,
                overflow=player.overflow,
            )
        finally:
            self.spawning.pop(name, None)
        player.maybe_actor = actor
        self.kin.admit(actor, player)

    def _spawn_staff(self, behavior: object) -> Player:
        player = Player(self.next_serial(), "plain", Overflow.REJECT, is_staff=True)
        self.spawn(player, behavior=behavior)
        return player

    def pick(self) -> Player:
        """Somebody on the stage. One who has ended may be picked, and then leaves it."""
        stage, random = self.stage, self.random
        if not stage:
            return self.doorman
        index = random.randrange(len(stage))
        player = stage[index]
        if self.loop.status(player.actor) >= ActorStatus.STOPPING:
            stage[index] = stage[-1]
            stage.pop()
        return player

    def check_refusal(self, player: Player | None) -> None:
        """A call was refused because a player is not there: then it must not be, or the loop must be closed."""
        if player is None or self.is_ending:
            return
        if self.loop.status(player.actor) < ActorStatus.STOPPING:
            self.fail(f"{player} lives, and a call to it was refused")

    def do_deed(self) -> None:
        """Do something, whatever the Random says."""
        (deed,) = self.random.choices(deeds.CHOICES, cum_weights=deeds.WEIGHTS)
        self.deeds += 1
        deed(self)

    # -- the conductor -------------------------------------------------------------------------------------------------

    def _conduct(self, ctx: Context[Player], data: object) -> Verdict | None:
        """The one actor that no deed befalls: it does deeds by timer until the time is over, then ends the world."""
        self.behaviors.plain(ctx, data)
        self.turns += 1
        if self.turns % 20 == 0:
            self._compare()
        if self.is_quiet:
            self._wind_down()
        elif time.monotonic() >= self.deadline and self.plan.end != "thread":
            self.end(self.plan.end)
            if self.plan.end == "settle":
                self._again(SOON[-1])
        else:
            for _ in range(self.random.choice((1, 5, 40, 150))):
                self.do_deed()
            self._again(self.random.choice(NAPS if self.random.random() < 0.03 else SOON))
        return None

    def _again(self, delay: int) -> None:
        self.timers.start(self.conductor, delay, Lane.CONTROL)

    def _wind_down(self) -> None:
        """Wait for the threads and for those who must still hear of a lost descriptor; then fall silent."""
        for inner in self.inners:
            inner.finish()
        self.inners.clear()
        is_late = time.monotonic() > self.deadline + PATIENCE
        if not is_late and (any(thread.is_alive() for thread in self._threads) or self.pipes.missing()):
            self._again(SOON[-1])
            return
        for pipe in self.pipes.missing():
            self.fail(f"{pipe} was closed behind its owner's back, and {pipe.owner} was never told")
        self.pipes.unwatch_all()
        self.timers.cancel_long()

    def end(self, how: str) -> None:
        """Begin the end."""
        self.is_quiet = True
        if how == "settle":
            return
        self.is_ending = True
        if how == "actor":
            self.loop.request_stop()
        elif how == "exit":
            raise SystemExit(7)

    # -- from beginning to end -----------------------------------------------------------------------------------------

    def play(self) -> None:
        """Drive the loop to its end, destroy it, and compare."""
        before = Leaks.now()
        self.is_begun = True
        for _ in range(5):
            deeds.spawn(self)
        self._again(SOON[0])
        for thread in self._threads:
            thread.start()
        try:
            self._drive()
        finally:
            self.is_quiet = self.is_ending = True
            for thread in self._threads:
                thread.join(PATIENCE)
            for inner in self.inners:
                inner.finish()
            self.loop.destroy()
            self.is_destroyed = True
            self.pipes.close()
        self._close(before)

    def _drive(self) -> None:
        if self.plan.drive == "ride":
            with asyncio.Runner(loop_factory=self.plan.loop_factory) as runner:
                runner.run(self._ride())
            return
        try:
            if self.plan.drive == "poll":
                self._poll()
            elif self.plan.end == "settle":
                self.loop.run(until_idle=True)
                self._check_dry()
            else:
                self.loop.run()
        except SystemExit:
            if self.plan.end != "exit":
                raise
        else:
            if self.plan.end == "exit":
                self.fail("SystemExit in a behavior did not come out")

    async def _ride(self) -> None:
        async with self.loop:
            while not self._is_done():  # noqa: ASYNC110  # the loop itself is what is asked, not an event of ours
                await asyncio.sleep(0.002)
            if self.plan.end == "settle":
                self._check_dry()
        host = asyncio.get_running_loop()
        patience = time.monotonic() + PATIENCE
        if to_seconds("stop_timeout", self.plan.config.stop_timeout) < 1:
            # The time for stopping may really have run out: what was still in flight was cancelled, and ends by itself.
            while _left_in(host) and time.monotonic() < patience:  # noqa: ASYNC110  # tasks that nobody may wait for
                await asyncio.sleep(0.002)
        if left := _left_in(host):
            self.fail(f"left in the host: {left}")

    def _poll(self) -> None:
        try:
            while not self._is_done():
                if self.loop.poll_once() == 0:
                    time.sleep(0.0002)
        except LoopClosedError:
            if not self.is_ending:
                raise
        if self.plan.end == "settle":
            self._check_dry()

    def _is_done(self) -> bool:
        """For those who drive by hand: whether the world has ended, or has run dry."""
        if self.plan.end != "settle" or not self.is_quiet:
            return self.is_ending
        stats = self.loop.statistics()
        held = stats.waiting + stats.in_flight + stats.timers_pending + stats.fds
        is_late = time.monotonic() > self.deadline + 2 * PATIENCE
        return held == 0 or is_late

    # -- comparing -----------------------------------------------------------------------------------------------------

    def _compare(self) -> None:
        stats = self.loop.statistics()
        self.books.compare(stats, is_observed=self.plan.is_observed)
        self.timers.compare(stats)

    def _check_dry(self) -> None:
        """Nothing is to be done any more, and everybody lives who has not ended."""
        left = [sentence for sentence in leaks_of(self.loop) if not sentence.endswith("actors are alive")]
        if left:
            self.fail(f"the world has run dry, and still {left}")
        self.troupes.check_rest()
        if self.plan.is_observed:
            self.kin.close()
            living = sum(not player.is_over for player in self.kin.all.values())
            if (alive := self.loop.statistics().alive) != living:
                self.fail(f"{living} actors live, the loop says {alive}")

    def _close(self, before: Leaks) -> None:
        stats = self.loop.statistics()
        if left := leaks_of(self.loop):
            self.fail(f"the loop was destroyed, and still {left}")
        ended = stats.ended_normal + stats.ended_fail + stats.ended_panic
        if stats.spawned != ended or stats.spawned != len(self.kin.all):
            self.fail(
                f"{len(self.kin.all)} were spawned; the loop says {stats.spawned}, of which {ended} ended"
            )
        self.books.close(stats, is_observed=self.plan.is_observed)
        if self.plan.is_observed:
            self.timers.close(stats)
        for sentence in before.since():
            self.fail(f"left behind: {sentence}")

    def sum_up(self) -> None:
        """Keep the counts of what is about to be forgotten."""
        self.spawned = len(self.kin.all)
        self.sums = {
            "timers_set": self.timers.set,
            "timers_delivered": self.timers.delivered,
            "timers_cancelled": self.timers.cancelled,
            "io_events": self.pipes.events,
            "io_errors": self.pipes.errors,
            "restarts": self.troupes.restarts,
        }


def play(name: str, plan: Plan, fail: Fail) -> World:
    """Play a world to its end and see that its loop is garbage then; what is left of it are its counts."""
    world = World(name, plan, fail)
    world.play()
    world.sum_up()
    ghost = weakref.ref(world.loop)
    _forget(world)
    gc.collect()
    if ghost() is not None:
        fail(f"a loop that was destroyed is still referred to by {_referrers(ghost())}")
    return world


def _forget(world: World) -> None:
    for name in (
        "loop",
        "timers",
        "kin",
        "pipes",
        "behaviors",
        "troupes",
        "stage",
        "conductor",
        "doorman",
        "spawning",
        "_threads",
    ):
        delattr(world, name)
    world.inners.clear()
    world.books.outstanding.clear()


def _referrers(what: object) -> list[str]:
    return [repr(one)[:80] for one in gc.get_referrers(what)][:5]


def _left_in(host: asyncio.AbstractEventLoop) -> list[str]:
    return [name for name in pending_tasks(host) if "Task-" not in name]


def _stranger() -> ActorId:
    """An id of another loop."""
    with Loop() as other:
        return other.spawn(lambda _ctx, _data: None)
