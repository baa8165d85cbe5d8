"""Random families of actors: plans of them, and a model of what becomes of them that knows nothing of the real thing.

The model is written from the promises (G46 to G57), for children whose inits and behaviors are plain functions. It is told
what happens, and says who lives then, in which order everybody started and ended, and which message met which fate.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count
from typing import Literal, TypeAlias

from hypothesis import strategies as st

from bandstand.core import ExitReason
from bandstand.supervision import AutoShutdown, RestartPolicy, Shutdown, Strategy

NORMAL, FAIL, PANIC = ExitReason.NORMAL, ExitReason.FAIL, ExitReason.PANIC

Kind = Literal["worker", "tree", "many", "shards"]
Phase = Literal["down", "waiting", "starting", "up"]
Event: TypeAlias = tuple[str, str, object]
"""What happened, to whom, and a detail."""


# --- plans ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Delays:
    """A backoff."""

    initial: int
    most: int
    factor: int


@dataclass(frozen=True, slots=True)
class Plan:
    """One child, and whom it supervises if it is a supervisor."""

    kind: Kind
    mode: RestartPolicy = RestartPolicy.ALWAYS
    delays: Delays | None = None
    keeps: bool = False
    shutdown: int | Shutdown | None = None
    significant: bool = False
    is_async: bool = False
    strategy: Strategy = Strategy.ONE_FOR_ONE
    intensity: int = 3
    period: int = 5000
    auto: AutoShutdown = AutoShutdown.NEVER
    children: tuple[Plan, ...] = ()
    shards: int = 0
    most: int | None = None

    @property
    def is_killed(self) -> bool:
        """Whether whoever stops it does not wait."""
        return self.shutdown is Shutdown.KILL or self.shutdown == 0


def sane(plan: Plan, auto: AutoShutdown) -> Plan:
    """A plan without what does not go together."""
    if plan.mode is RestartPolicy.NEVER:
        plan = replace(plan, delays=None, keeps=False)
    if plan.mode is RestartPolicy.ALWAYS or auto is AutoShutdown.NEVER:
        plan = replace(plan, significant=False)
    return plan


delays = st.none() | st.builds(Delays, st.sampled_from([5, 10]), st.sampled_from([10, 40]), st.integers(1, 3))
modes = st.sampled_from(
    [RestartPolicy.ALWAYS, RestartPolicy.ON_FAILURE, RestartPolicy.ON_FAILURE, RestartPolicy.NEVER]
)
shutdowns = st.sampled_from([None, None, 20, 0, Shutdown.KILL, Shutdown.INFINITY])
intensities = st.sampled_from([0, 1, 2, 4, 8, 8])
periods = st.sampled_from([50, 1000])


def workers(is_async: st.SearchStrategy[bool]) -> st.SearchStrategy[Plan]:
    return st.builds(
        Plan,
        kind=st.just("worker"),
        mode=modes,
        delays=delays,
        keeps=st.booleans(),
        shutdown=shutdowns,
        significant=st.booleans(),
        is_async=is_async,
    )


KINDS: tuple[Kind, ...] = ("tree", "tree", "tree", "many", "shards")


def trees(
    depth: int, is_async: st.SearchStrategy[bool], kinds: tuple[Kind, ...] = KINDS
) -> st.SearchStrategy[Plan]:
    """Plans of supervisors with up to `depth` storeys of actors below them."""
    worker = workers(is_async)
    below = worker if depth <= 1 else st.one_of(worker, worker, trees(depth - 1, is_async))

    def build(plan: Plan, children: list[Plan], worker: Plan, shards: int, most: int | None) -> Plan:
        if plan.kind == "tree":
            kept = tuple(sane(child, plan.auto) for child in children)
            return replace(plan, children=kept)
        template = sane(worker, AutoShutdown.NEVER)
        plan = replace(plan, strategy=Strategy.ONE_FOR_ONE, auto=AutoShutdown.NEVER, children=(template,))
        return replace(plan, shards=shards) if plan.kind == "shards" else replace(plan, most=most)

    supervisor = st.builds(
        Plan,
        kind=st.sampled_from(kinds),
        mode=modes,
        delays=delays,
        shutdown=shutdowns,
        significant=st.booleans(),
        strategy=st.sampled_from(Strategy),
        intensity=intensities,
        period=periods,
        auto=st.sampled_from([*AutoShutdown, AutoShutdown.ALL_SIGNIFICANT]),
    )
    return st.builds(
        build,
        supervisor,
        st.lists(below, min_size=1, max_size=5),
        worker,
        st.integers(1, 3),
        st.none() | st.integers(1, 3),
    )


# --- the model --------------------------------------------------------------------------------------------------------


class Child:
    """One child, through all its lives."""

    def __init__(self, boss: Boss | None, name: str, plan: Plan) -> None:
        self.boss = boss
        self.name = name
        self.plan = plan
        self.phase: Phase = "down"
        # Whether it really lives: its boss may not have heard of its end yet.
        self.lives = False
        # Changes with every start and stop: news of another life is old.
        self.life = 0
        self.restarts = 0
        self.is_again = False
        self.is_held = False
        self.stored = 0
        self.started = 0
        self.due = 0
        self.mail: deque[tuple[int, str]] = deque()
        self.estate: list[tuple[int, str]] = []
        self.boss_of: Boss | None = None

    def __repr__(self) -> str:
        return f"<{self.name} {self.phase}>"


class Boss:
    """One life of a supervisor."""

    def __init__(self, world: World, name: str, plan: Plan, seat: Child) -> None:
        self.world = world
        self.name = name
        self.plan = plan
        self.seat = seat
        self.children: list[Child] = []
        self.restarts: list[int] = []
        self.gate = 0
        self.gate_of: Child | None = None
        self.has_ended = False
        self.serial = 0
        self.news: deque[tuple[str, Child, int, ExitReason]] = deque()
        if plan.kind == "tree":
            self.children = [Child(self, f"{name}.{n}", child) for n, child in enumerate(plan.children)]
        elif plan.kind == "shards":
            self.children = [Child(self, f"{name}.k-{n}", plan.children[0]) for n in range(plan.shards)]

    def __repr__(self) -> str:
        return f"<{self.name} of {self.children}>"

    @property
    def is_group(self) -> bool:
        return self.plan.strategy is not Strategy.ONE_FOR_ONE

    @property
    def is_in_sequence(self) -> bool:
        """Whether requests to start somebody are refused: an order is being kept."""
        return self.is_group and any(child.phase == "waiting" for child in self.children)

    def find(self, name: str) -> Child:
        return next(child for child in self.children if child.name == name)

    # Starting and stopping.

    def open(self) -> bool:
        """Start all, from the first to the last; if one does not start, the others end again."""
        for place, child in enumerate(self.children):
            if not self.start(child):
                self.has_ended = True
                for before in reversed(self.children[:place]):
                    self.stop(before)
                self.world.note("stop", self.name, FAIL)
                return False
        return True

    def start(self, child: Child) -> bool:
        world = self.world
        child.life += 1
        child.phase = "starting"
        if not world.bring_up(child):
            return False
        child.phase = "up"
        child.lives = True
        child.started = world.now
        if child.is_again:
            child.is_again = False
            world.note("restart", child.name, child.restarts)
        child.mail, child.estate = deque(child.estate), []
        if child.mail:
            world.make_ready(child)
        return True

    def stop(self, child: Child) -> None:
        """Have a child end, as it is told to by its boss."""
        child.life += 1
        self.leave(child)
        if child.lives:
            self.world.take_down(child, FAIL if child.plan.is_killed else NORMAL, in_order=True)

    def leave(self, child: Child) -> None:
        """A life is over; after a whole period of it, what came before is forgiven."""
        if child.phase == "up" and self.world.now - child.started >= self.plan.period:
            child.stored = 0
        child.phase = "down"

    def bury(self, child: Child) -> None:
        self.world.dead.update(number for number, _ in child.estate)
        child.estate = []

    def forget(self, child: Child) -> None:
        self.bury(child)
        self.children.remove(child)

    def finish(self, reason: ExitReason) -> None:
        """End in good order, and tell whoever is above."""
        self.close(reason)
        self.world.tell_end(self.seat, reason)

    def close(self, reason: ExitReason) -> None:
        self.has_ended = True
        for child in reversed(self.children):
            self.stop(child)
            self.bury(child)
        self.world.note("stop", self.name, reason)

    def fall(self, reason: ExitReason) -> None:
        """End at once: whoever is below ends normally, whatever its plan says about stopping."""
        self.has_ended = True
        for child in reversed(self.children):
            self.bury(child)
            if child.lives:
                self.world.take_down(child, NORMAL, in_order=False)
            self.bury(child)
        self.world.note("stop", self.name, reason)

    # News.

    def hear(self, what: str, child: Child, stamp: int, reason: ExitReason) -> None:
        if self.has_ended:
            return
        if what == "exit" and child.life == stamp:
            self.leave(child)
            self.judge(child, reason)
        elif what == "wake" and self.gate == stamp:
            self.open_gate()
        elif what == "wake" and child.due == stamp:
            child.due = 0
            self.start_again(child)

    def start_again(self, child: Child) -> bool:
        if self.start(child):
            return True
        reason = PANIC if child.plan.kind == "worker" else FAIL
        self.world.post(self, "exit", child, child.life, reason)
        return False

    def judge(self, child: Child, reason: ExitReason) -> None:
        world, plan, mode = self.world, self.plan, child.plan.mode
        is_abnormal = reason is not NORMAL
        if mode is RestartPolicy.NEVER or (mode is RestartPolicy.ON_FAILURE and not is_abnormal):
            self.bury(child)
            if mode is RestartPolicy.NEVER or plan.kind == "many":
                self.forget(child)
            if child.plan.significant:
                others = [one for one in self.children if one is not child and one.plan.significant]
                is_last = all(one.phase == "down" for one in others)
                if plan.auto is AutoShutdown.ANY_SIGNIFICANT or is_last:
                    self.finish(NORMAL)
            return
        delay = 0
        if child.plan.delays is not None and is_abnormal:
            rule = child.plan.delays
            delay = min(child.stored * rule.factor, rule.most) or rule.initial
        # Delays lengthen the period.
        period = plan.period + (plan.intensity * child.stored if delay else 0)
        self.restarts = [*(at for at in self.restarts if world.now - at < period), world.now]
        if len(self.restarts) > plan.intensity:
            world.note("escalate", self.name, None)
            self.finish(FAIL)
            return
        child.phase = "waiting"
        child.restarts += 1
        child.is_again = True
        if delay:
            child.stored = delay
        if not self.is_group:
            if delay:
                child.due = world.set_timer(delay, self, child)
            else:
                self.start_again(child)
            return
        # If the group waits already, the latest failure decides.
        self.gate, self.gate_of = (world.set_timer(delay, self, child), child) if delay else (0, None)
        self.restart_group(child)

    def restart_group(self, child: Child) -> None:
        place = self.children.index(child)
        group = self.children if self.plan.strategy is Strategy.ONE_FOR_ALL else self.children[place:]
        for other in reversed(list(group)):
            if other is child or other.is_held:
                continue
            if other.phase in {"up", "starting"}:
                self.stop(other)
            if other.plan.mode is RestartPolicy.NEVER:
                self.forget(other)
                continue
            other.phase = "waiting"
            other.restarts += not other.is_again
            other.is_again = True
        if not self.gate:
            self.open_gate()

    def open_gate(self) -> None:
        """Start whoever waits, until one does not start: the news of that comes behind the news there is."""
        self.gate, self.gate_of = 0, None
        if any(child.phase == "starting" for child in self.children):
            return
        for child in list(self.children):
            if child.phase == "waiting" and not self.start_again(child):
                return

    # Requests.

    def stop_on_request(self, child: Child) -> None:
        if self.gate_of is child:
            # Those that were to start with it stay down.
            self.gate, self.gate_of = 0, None
            place = self.children.index(child)
            group = self.children if self.plan.strategy is Strategy.ONE_FOR_ALL else self.children[place:]
            for other in group:
                if other is not child and other.phase == "waiting":
                    other.phase = "down"
                    other.is_again = False
                    self.bury(other)
        child.is_held = True
        child.is_again = False
        child.due = 0
        if child.phase == "up":
            self.stop(child)
        child.phase = "down"
        self.bury(child)
        if child.plan.mode is RestartPolicy.NEVER or self.plan.kind == "many":
            self.forget(child)

    def start_on_request(self, child: Child) -> bool:
        was_held, child.is_held = child.is_held, False
        if self.start(child):
            return True
        child.life += 1
        child.phase = "down"
        child.is_held = was_held
        return False

    def add(self, name: str, plan: Plan) -> bool:
        child = Child(self, name, plan)
        self.children.append(child)
        if self.start_on_request(child):
            return True
        self.children.remove(child)
        return False


class World:
    """Everybody there is, and the order in which things happen."""

    def __init__(self) -> None:
        self.now = 0
        self.root: Child | None = None
        self.root_ends: list[ExitReason] = []
        # How often the next inits of a child fail.
        self.fails: Counter[str] = Counter()
        # What happened to each supervisor and its own children, in order.
        self.logs: defaultdict[str, list[Event]] = defaultdict(list)
        self.handled: list[tuple[str, int]] = []
        self.dead: set[int] = set()
        self._stamps = count(1)
        self._timers: list[tuple[int, int, Boss, Child]] = []
        self._ready: deque[Boss | Child] = deque()

    def note(self, what: str, name: str, detail: object) -> None:
        write(self.logs, what, name, detail)

    # Who is there.

    def bosses(self, below: Child | None = None) -> Iterator[Boss]:
        """Every living supervisor."""
        child = below or self.root
        if child is not None and child.lives and child.boss_of is not None:
            yield child.boss_of
            for one in child.boss_of.children:
                yield from self.bosses(one)

    def living(self) -> list[Child]:
        """Every living child, supervisors included, the root not."""
        return [child for boss in self.bosses() for child in boss.children if child.lives]

    # What happens to one.

    def bring_up(self, child: Child) -> bool:
        self.note("start", child.name, None)
        if child.plan.kind != "worker":
            child.boss_of = Boss(self, child.name, child.plan, child)
            return child.boss_of.open()
        if self.fails[child.name]:
            self.fails[child.name] -= 1
            self.note("stop", child.name, PANIC)
            return False
        return True

    def take_down(self, child: Child, reason: ExitReason, *, in_order: bool) -> None:
        child.lives = False
        if child.boss_of is not None:
            if in_order and reason is NORMAL:
                child.boss_of.close(NORMAL)
            else:
                child.boss_of.fall(reason)
            return
        self.note("stop", child.name, reason)
        if child.plan.keeps:
            child.estate = list(child.mail)
        else:
            self.dead.update(number for number, _ in child.mail)
        child.mail.clear()

    def tell_end(self, child: Child, reason: ExitReason) -> None:
        """A child has ended by itself: whoever is above hears of it."""
        child.lives = False
        if child.boss is None:
            self.root_ends.append(reason)
        else:
            self.post(child.boss, "exit", child, child.life, reason)

    def end(self, child: Child, reason: ExitReason) -> None:
        """Somebody, or it itself, ends a child: not its boss."""
        self.take_down(child, reason, in_order=False)
        self.tell_end(child, reason)

    # Time and turns.

    def set_timer(self, delay: int, boss: Boss, child: Child) -> int:
        stamp = next(self._stamps)
        self._timers.append((self.now + delay, stamp, boss, child))
        return stamp

    def advance(self, ms: int) -> None:
        self.now += ms
        due = sorted(timer[:2] for timer in self._timers if timer[0] <= self.now)
        by_stamp = {timer[1]: timer for timer in self._timers}
        self._timers = [timer for timer in self._timers if timer[0] > self.now]
        for _, stamp in due:
            _, _, boss, child = by_stamp[stamp]
            self.post(boss, "wake", child, stamp, NORMAL)
        self.run()

    def post(self, boss: Boss, what: str, child: Child, stamp: int, reason: ExitReason) -> None:
        boss.news.append((what, child, stamp, reason))
        self.make_ready(boss)

    def make_ready(self, one: Boss | Child) -> None:
        if one not in self._ready:
            self._ready.append(one)

    def run(self) -> None:
        """Give everybody a turn until all is quiet."""
        while self._ready:
            one = self._ready[0]
            if isinstance(one, Boss):
                while one.news:
                    one.hear(*one.news.popleft())
            else:
                self._work(one)
            self._ready.popleft()

    def _work(self, child: Child) -> None:
        while child.lives and child.mail:
            number, deed = child.mail.popleft()
            self.handled.append((child.name, number))
            if deed in REASONS:
                self.end(child, REASONS[deed])


REASONS = {"stop": NORMAL, "fail": FAIL, "panic": PANIC}
"""How an actor ends that is sent such a message."""


def write(logs: defaultdict[str, list[Event]], what: str, name: str, detail: object) -> None:
    """Write an event down where it belongs: with the supervisor of whom it is about, and with itself if it is one."""
    logs[name].append((what, name, detail))
    above = name.rpartition(".")[0]
    if above:
        logs[above].append((what, name, detail))
