"""Plans of random supervision trees, and a model that predicts what happens in them.

The model follows guarantees G46 to G57, for children whose inits and behaviors are plain functions. It predicts who is alive, in which
order children start and end, and what happens to each message.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count, product
from typing import Literal, TypeAlias

from hypothesis import strategies as st

from bandstand.core import ExitReason
from bandstand.supervision import AutoShutdown, RestartPolicy, Shutdown, Strategy

NORMAL, FAIL, PANIC = ExitReason.NORMAL, ExitReason.FAIL, ExitReason.PANIC

Kind = Literal["worker", "tree", "many", "shards"]
Phase = Literal["down", "waiting", "starting", "up"]
Event: TypeAlias = tuple[str, str, object]
"""What happened, to which, and a detail."""


# --- plans ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Delays:
    """A backoff."""

    initial: int
    most: int
    factor: int


@dataclass(frozen=True, slots=True)
class Plan:
    """A child, and its own children if it is a supervisor."""

    kind: Kind
    restart: RestartPolicy = RestartPolicy.ALWAYS
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
        """Whether its supervisor stops it without waiting."""
        return self.shutdown is Shutdown.KILL or self.shutdown == 0


def sane(plan: Plan, auto: AutoShutdown) -> Plan:
    """Return the plan without options that exclude each other."""
    if plan.restart is RestartPolicy.NEVER:
        plan = replace(plan, delays=None, keeps=False)
    if plan.restart is RestartPolicy.ALWAYS or auto is AutoShutdown.NEVER:
        plan = replace(plan, significant=False)
    return plan


# All combinations of options: one draw of a combination costs much less than a draw for each option.
DELAYS = [None, *(Delays(*each) for each in product([5, 10], [10, 40], [1, 2, 3]))]
RESTARTS = [RestartPolicy.ALWAYS, RestartPolicy.ON_FAILURE, RestartPolicy.ON_FAILURE, RestartPolicy.NEVER]
SHUTDOWNS = [None, None, 20, 0, Shutdown.KILL, Shutdown.INFINITY]
CHILDREN = st.sampled_from(list(product(RESTARTS, DELAYS, SHUTDOWNS, [False, True])))
SUPERVISORS = st.sampled_from(
    list(product(Strategy, [0, 1, 2, 4, 8, 8], [50, 1000], [*AutoShutdown, AutoShutdown.ALL_SIGNIFICANT]))
)
KINDS: tuple[Kind, ...] = ("tree", "tree", "tree", "many", "shards")


@st.composite
def workers(draw: st.DrawFn, *, may_be_async: bool = False) -> Plan:
    restart, delays, shutdown, significant = draw(CHILDREN)
    keeps, is_async = draw(
        st.sampled_from([(keeps, way) for keeps in (True, False) for way in (False, may_be_async)])
    )
    return Plan("worker", restart, delays, keeps, shutdown, significant, is_async)


@st.composite
def trees(
    draw: st.DrawFn, depth: int, kinds: tuple[Kind, ...] = KINDS, *, may_be_async: bool = False
) -> Plan:
    """Plans of supervisors with up to `depth` levels of actors below them."""
    kind = draw(st.sampled_from(kinds))
    restart, delays, shutdown, significant = draw(CHILDREN)
    strategy, intensity, period, auto = draw(SUPERVISORS)
    worker = workers(may_be_async=may_be_async)
    if kind != "tree":
        strategy, auto = Strategy.ONE_FOR_ONE, AutoShutdown.NEVER
        children = [draw(worker)]
    else:
        # Two workers for each supervisor below.
        below = (
            worker if depth <= 1 else st.one_of(worker, worker, trees(depth - 1, may_be_async=may_be_async))
        )
        children = draw(st.lists(below, min_size=1, max_size=5))
    return Plan(
        kind,
        restart,
        delays,
        shutdown=shutdown,
        significant=significant,
        strategy=strategy,
        intensity=intensity,
        period=period,
        auto=auto,
        children=tuple(sane(child, auto) for child in children),
        shards=draw(st.integers(1, 3)) if kind == "shards" else 0,
        most=draw(st.sampled_from([None, 1, 2, 3])) if kind == "many" else None,
    )


# --- the model --------------------------------------------------------------------------------------------------------


class Child:
    """A child through all its incarnations."""

    def __init__(self, parent: ParentModel | None, name: str, plan: Plan) -> None:
        self.parent = parent
        self.name = name
        self.plan = plan
        self.phase: Phase = "down"
        # Whether it is alive: its supervisor may not know yet that it has ended.
        self.is_alive = False
        # Changes with every start and stop: messages about another incarnation are ignored.
        self.life = 0
        self.restarts = 0
        self.is_again = False
        self.is_held = False
        self.stored = 0
        self.started = 0
        self.due = 0
        self.mailbox: deque[tuple[int, str]] = deque()
        self.kept: list[tuple[int, str]] = []
        self.own_model: ParentModel | None = None

    def __repr__(self) -> str:
        return f"<{self.name} {self.phase}>"


class ParentModel:
    """One incarnation of a supervisor."""

    def __init__(self, world: TreeModel, name: str, plan: Plan, seat: Child) -> None:
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
        self.inbox: deque[tuple[str, Child, int, ExitReason]] = deque()
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
        """Whether a group restart is under way, so that requests to start a child are refused."""
        return self.is_group and any(child.phase == "waiting" for child in self.children)

    def find_child(self, name: str) -> Child:
        return next(child for child in self.children if child.name == name)

    # Starting and stopping.

    def start_all(self) -> bool:
        """Start all children in order; if one fails, stop those before it."""
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
        if not world.begin_child(child):
            return False
        child.phase = "up"
        child.is_alive = True
        child.started = world.now
        if child.is_again:
            child.is_again = False
            world.note("restart", child.name, child.restarts)
        child.mailbox, child.kept = deque(child.kept), []
        if child.mailbox:
            world.make_ready(child)
        return True

    def stop(self, child: Child) -> None:
        """Stop a child."""
        child.life += 1
        self.leave(child)
        if child.is_alive:
            self.world.end_child(child, FAIL if child.plan.is_killed else NORMAL, in_order=True)

    def leave(self, child: Child) -> None:
        """End an incarnation; one that lasted the whole period resets the backoff."""
        if child.phase == "up" and self.world.now - child.started >= self.plan.period:
            child.stored = 0
        child.phase = "down"

    def drop_kept(self, child: Child) -> None:
        self.world.dead.update(number for number, _ in child.kept)
        child.kept = []

    def remove(self, child: Child) -> None:
        self.drop_kept(child)
        self.children.remove(child)

    def finish(self, reason: ExitReason) -> None:
        """Stop the children in order, and report the end."""
        self.close(reason)
        self.world.report_end(self.seat, reason)

    def close(self, reason: ExitReason) -> None:
        self.has_ended = True
        for child in reversed(self.children):
            self.stop(child)
            self.drop_kept(child)
        self.world.note("stop", self.name, reason)

    def crash(self, reason: ExitReason) -> None:
        """End at once, and with it all children."""
        self.has_ended = True
        for child in reversed(self.children):
            self.drop_kept(child)
            if child.is_alive:
                self.world.end_child(child, NORMAL, in_order=False)
            self.drop_kept(child)
        self.world.note("stop", self.name, reason)

    # Messages.

    def receive(self, what: str, child: Child, stamp: int, reason: ExitReason) -> None:
        if self.has_ended:
            return
        if what == "exit" and child.life == stamp:
            self.leave(child)
            self.handle_exit(child, reason)
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

    def handle_exit(self, child: Child, reason: ExitReason) -> None:
        world, plan, mode = self.world, self.plan, child.plan.restart
        is_abnormal = reason is not NORMAL
        if mode is RestartPolicy.NEVER or (mode is RestartPolicy.ON_FAILURE and not is_abnormal):
            self.drop_kept(child)
            if mode is RestartPolicy.NEVER or plan.kind == "many":
                self.remove(child)
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
            if other.plan.restart is RestartPolicy.NEVER:
                self.remove(other)
                continue
            other.phase = "waiting"
            other.restarts += not other.is_again
            other.is_again = True
        if not self.gate:
            self.open_gate()

    def open_gate(self) -> None:
        """Start the children that wait, until one fails to start."""
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
                    self.drop_kept(other)
        child.is_held = True
        child.is_again = False
        child.due = 0
        if child.phase == "up":
            self.stop(child)
        child.phase = "down"
        self.drop_kept(child)
        if child.plan.restart is RestartPolicy.NEVER or self.plan.kind == "many":
            self.remove(child)

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


class TreeModel:
    """The whole tree, and the order in which things happen."""

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
        self._timers: list[tuple[int, int, ParentModel, Child]] = []
        self._ready: deque[ParentModel | Child] = deque()

    def note(self, what: str, name: str, detail: object) -> None:
        write(self.logs, what, name, detail)

    # Queries.

    def parents(self, below: Child | None = None) -> Iterator[ParentModel]:
        """Yield every supervisor that is alive."""
        child = below or self.root
        if child is not None and child.is_alive and child.own_model is not None:
            yield child.own_model
            for one in child.own_model.children:
                yield from self.parents(one)

    def alive(self) -> list[Child]:
        """Return every child that is alive, supervisors included."""
        return [child for parent in self.parents() for child in parent.children if child.is_alive]

    # Changes of one child.

    def begin_child(self, child: Child) -> bool:
        self.note("start", child.name, None)
        if child.plan.kind != "worker":
            child.own_model = ParentModel(self, child.name, child.plan, child)
            return child.own_model.start_all()
        if self.fails[child.name]:
            self.fails[child.name] -= 1
            self.note("stop", child.name, PANIC)
            return False
        return True

    def end_child(self, child: Child, reason: ExitReason, *, in_order: bool) -> None:
        child.is_alive = False
        if child.own_model is not None:
            if in_order and reason is NORMAL:
                child.own_model.close(NORMAL)
            else:
                child.own_model.crash(reason)
            return
        self.note("stop", child.name, reason)
        if child.plan.keeps:
            child.kept = list(child.mailbox)
        else:
            self.dead.update(number for number, _ in child.mailbox)
        child.mailbox.clear()

    def report_end(self, child: Child, reason: ExitReason) -> None:
        """A child has ended by itself: tell its supervisor."""
        child.is_alive = False
        if child.parent is None:
            self.root_ends.append(reason)
        else:
            self.post(child.parent, "exit", child, child.life, reason)

    def end(self, child: Child, reason: ExitReason) -> None:
        """End a child from outside."""
        self.end_child(child, reason, in_order=False)
        self.report_end(child, reason)

    # Time and turns.

    def set_timer(self, delay: int, parent: ParentModel, child: Child) -> int:
        stamp = next(self._stamps)
        self._timers.append((self.now + delay, stamp, parent, child))
        return stamp

    def advance(self, ms: int) -> None:
        self.now += ms
        due = sorted(timer[:2] for timer in self._timers if timer[0] <= self.now)
        by_stamp = {timer[1]: timer for timer in self._timers}
        self._timers = [timer for timer in self._timers if timer[0] > self.now]
        for _, stamp in due:
            _, _, parent, child = by_stamp[stamp]
            self.post(parent, "wake", child, stamp, NORMAL)
        self.run()

    def post(self, parent: ParentModel, what: str, child: Child, stamp: int, reason: ExitReason) -> None:
        parent.inbox.append((what, child, stamp, reason))
        self.make_ready(parent)

    def make_ready(self, one: ParentModel | Child) -> None:
        if one not in self._ready:
            self._ready.append(one)

    def run(self) -> None:
        """Run all actors until nothing is left to do."""
        while self._ready:
            one = self._ready[0]
            if isinstance(one, ParentModel):
                while one.inbox:
                    one.receive(*one.inbox.popleft())
            else:
                self._work(one)
            self._ready.popleft()

    def _work(self, child: Child) -> None:
        while child.is_alive and child.mailbox:
            number, action = child.mailbox.popleft()
            self.handled.append((child.name, number))
            if action in REASONS:
                self.end(child, REASONS[action])


REASONS = {"stop": NORMAL, "fail": FAIL, "panic": PANIC}
"""How an actor ends that is sent such a message."""


def write(logs: defaultdict[str, list[Event]], what: str, name: str, detail: object) -> None:
    """Record an event in the log of the actor, and in that of its supervisor."""
    logs[name].append((what, name, detail))
    above = name.rpartition(".")[0]
    if above:
        logs[above].append((what, name, detail))
