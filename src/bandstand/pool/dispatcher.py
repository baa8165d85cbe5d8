"""The dispatcher: the actor behind a pool's handle. It gives each message to a worker and counts its outcome.

The problem. A pool must look like one actor: the same methods and types, asks, deadlines, a full mailbox that refuses. And each message must
have exactly one outcome, whatever happens to its worker.

The choice. The handle's actor is the dispatcher. Each message becomes a `Job`, which keeps its slot in the dispatcher's mailbox until it has
an outcome. So the mailbox cap bounds everything a pool has, senders that wait for room get it in order, and a dispatcher whose mailbox is
closed ends after its last job. A job goes to a worker as a plain message with itself as the delivery callback. The dispatcher decides in a turn
of its own what a worker that has finished gets next, after the other workers had theirs; otherwise the first worker would take everything.

A worker's messages survive it in the mailbox that its supervisor keeps; nothing is copied, and their order holds. The kernel tells the
message that was being handled apart from those that had not started (`DeliveryCallback.interrupted`).

Refused: workers that pull (one more message for each message); a queue of the pool beside the mailbox, with a second bound; several messages
at a time for a worker whose current message is put back, since it would then come after those behind it.
Cost: one object and one more turn for each message.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Protocol, final

from bandstand.actor.context_vars import Envelope
from bandstand.actor.declaration import methods_of
from bandstand.actor.dispatch import Method
from bandstand.actor.handle import post_or_wait
from bandstand.actor.reply import ReplyCallback, cancel_handler
from bandstand.actor.status import answer_inquiry
from bandstand.core import ChildExit, ExitReason, Lane
from bandstand.core.enums import NO_ACTOR
from bandstand.core.events import DeadLetter, Unhandled
from bandstand.errors import InvalidArgumentError
from bandstand.errors.formatting import safe_repr
from bandstand.pool.routing import ByKey, KeyRouter, OnDeath, Routing, WorkerPicker
from bandstand.pool.status import JobOutcome, PoolCounters, WorkerStatus
from bandstand.scope import Channel
from bandstand.supervision.supervisor import consistent_hash

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from bandstand.actor import ActorReport, ActorSystem
    from bandstand.core import ActorId, Context

__all__ = ("Dispatcher", "Job", "WorkerSlot")

LANES = tuple(Lane)

Ending = tuple["ActorId | None", "str | None", int, BaseException | None]
"""How an actor ended: its id, name, exit reason and cause."""


class Broadcast:
    """What the copies of one broadcast message share: its sender, and its slot in the mailbox."""

    __slots__ = ("asked", "ending", "left")

    def __init__(self, count: int, asked: ReplyCallback | None) -> None:
        self.left = count
        self.asked = asked
        self.ending: Ending | None = None

    def settle(self, ending: Ending | None) -> bool:
        """Note the outcome of one copy. Return whether it was the last; then the sender is notified, of a loss if there was one."""
        self.left -= 1
        self.ending = self.ending or ending
        if self.left:
            return False
        if self.asked is not None:
            if self.ending is None:
                self.asked.answer(None)
            else:
                self.asked.lost(*self.ending)
        return True


class JobOwner(Protocol):
    """What a job reports to: the dispatcher of a pool, or that of a pod with replicas."""

    def settle(self, job: Job, outcome: JobOutcome, ending: Ending | None = None) -> None:
        """The job has ended."""
        ...

    def recall(self, job: Job) -> None:
        """The asker has taken a waiting job back."""
        ...

    def skipped(self, job: Job) -> None:
        """The worker does not start the job, because the asker has taken it back."""
        ...

    def worker_lost(self, job: Job, ending: Ending, *, was_started: bool) -> None:
        """The worker that had the job has ended."""
        ...

    def reroute(self, job: Job) -> bool:
        """Take a job back that was not sent to its worker before the link to it was lost. Return False if it cannot be taken back."""
        ...


@final
class Job(ReplyCallback):
    """One message of a pool: it waits in the pool (`slot` is None), a worker has it, or it is over.

    It is the delivery callback of the message that goes to the worker. So the dispatcher and the original sender both learn the outcome, and an
    asker that takes its ask back reaches the worker.
    """

    __slots__ = (
        "_dispatcher",
        "asked",
        "broadcast",
        "data",
        "is_over",
        "is_reported",
        "key",
        "method",
        "number",
        "slot",
        "tries",
    )

    def __init__(
        self,
        dispatcher: JobOwner,
        actor: ActorId,
        method: Method,
        data: object,
        asked: ReplyCallback | None,
        broadcast: Broadcast | None = None,
    ) -> None:
        super().__init__(actor)
        self._dispatcher = dispatcher
        self.method = method
        self.data = data
        self.asked = asked
        self.broadcast = broadcast
        self.key: str | bytes | int = 0
        # Its place in the order of its dispatcher, if that needs one.
        self.number = 0
        # The place of the worker that has it.
        self.slot: Any = None
        # How many workers have died while handling it.
        self.tries = 0
        self.is_over = False
        # Whether the loop has reported it as a dead letter already.
        self.is_reported = False
        if asked is not None:
            asked.relay = self.take_back

    @property
    def arguments(self) -> object:
        """The message as it was sent, without context variables."""
        return self.data.data if isinstance(self.data, Envelope) else self.data

    def redirect(self, actor: ActorId) -> None:
        """Note which actor has the job now: the asker waits for that one."""
        self.actor = actor
        if self.asked is not None:
            self.asked.actor = actor

    # -- outcomes ----------------------------------------------------------------------------------------------------------

    def answer(self, value: object) -> None:
        """The worker has handled the job."""
        if self.is_over:
            return
        if self.asked is not None:
            self.asked.relay = None
            self.asked.answer(value)
        self._dispatcher.settle(self, JobOutcome.HANDLED)

    def fail(self, error: BaseException) -> None:
        """The answer is an error; the worker has not failed."""
        if self.is_over:
            return
        if self.asked is not None:
            self.asked.relay = None
            self.asked.fail(error)
        self._dispatcher.settle(self, JobOutcome.FAILED)

    def lost(self, actor: ActorId | None, name: str | None, reason: int, cause: BaseException | None) -> None:
        """The worker ended before it had started the job."""
        if not self.is_over:
            self._dispatcher.worker_lost(self, (actor, name, reason, cause), was_started=False)

    def interrupted(
        self, actor: ActorId | None, name: str | None, reason: int, cause: BaseException | None
    ) -> None:
        """The worker ended while it was handling the job."""
        if not self.is_over:
            self._dispatcher.worker_lost(self, (actor, name, reason, cause), was_started=True)

    def is_cancelled(self) -> bool:
        """Return whether the asker has taken the ask back. The worker calls this before it starts, and skips the job if so."""
        if not self.is_recalled():
            return False
        self._dispatcher.skipped(self)
        return True

    def withdrawn(self) -> None:
        """The worker, which runs in another process, does not answer, because the asker has taken the ask back."""
        self._dispatcher.settle(self, JobOutcome.WITHDRAWN)

    def done(self) -> bool:
        """Return whether the job is over, or its asker has a result already."""
        return self.is_over or (self.asked is not None and self.asked.done())

    def reroute(self) -> bool:
        """Return whether the job goes to another worker, after the link was lost and before it was sent."""
        return self._dispatcher.reroute(self)

    def is_recalled(self) -> bool:
        """Return whether the asker has taken the ask back, without settling the job."""
        return self.method.is_ask and self.asked is not None and self.asked.is_cancelled()

    def take_back(self) -> None:
        """The asker takes the ask back: the job never starts, or its handler is cancelled at its next await."""
        if self.is_over:
            return
        if self.slot is None:
            self._dispatcher.recall(self)
        else:
            cancel_handler(self.actor, self)

    def give_up(self, ending: Ending) -> None:
        """Notify the sender that no worker will handle the job."""
        if self.asked is not None and self.broadcast is None:
            self.asked.relay = None
            self.asked.lost(*ending)


@final
class JobQueue:
    """Jobs that wait: a queue for each lane, the highest lane first. The mailbox cap of the pool bounds it."""

    __slots__ = ("_lanes",)

    def __init__(self) -> None:
        self._lanes: tuple[deque[Job], ...] = tuple(deque() for _ in LANES)

    def push(self, job: Job) -> None:
        """Add a job at the end of its lane."""
        self._lanes[job.method.lane].append(job)

    def push_front(self, job: Job) -> None:
        """Put a job back at the front of its lane."""
        self._lanes[job.method.lane].appendleft(job)

    def pop(self) -> Job:
        """Remove and return the next job. The queue must not be empty."""
        return next(lane for lane in self._lanes if lane).popleft()

    def discard(self, job: Job) -> bool:
        """Remove a job; return whether it was there."""
        lane = self._lanes[job.method.lane]
        if job not in lane:
            return False
        lane.remove(job)
        return True

    def clear(self) -> list[Job]:
        """Remove and return all jobs, in order."""
        found = list(self)
        for lane in self._lanes:
            lane.clear()
        return found

    def __iter__(self) -> Iterator[Job]:
        for lane in self._lanes:
            yield from lane

    def __len__(self) -> int:
        return sum(map(len, self._lanes))


@final
class WorkerSlot:
    """A worker's place in the pool, over all its incarnations."""

    __slots__ = ("actor", "ahead", "gone", "is_ending", "is_leaving", "jobs", "name", "waiting")

    def __init__(self, ahead: int) -> None:
        self.ahead = ahead
        # The worker's name under its supervisor.
        self.name = ""
        self.actor: ActorId | None = None
        # The current incarnation refused a job: it is about to end.
        self.is_ending = False
        self.is_leaving = False
        # The jobs that the worker has, and those that wait for this worker: of its keys, or copies of broadcasts.
        self.jobs: dict[Job, None] = {}
        self.waiting = JobQueue()
        # Closed when the worker has left for good.
        self.gone: Channel[None] = Channel()

    @property
    def is_ready(self) -> bool:
        """Whether the worker may get another job."""
        return self.actor is not None and not self.is_ending and len(self.jobs) < self.ahead

    @property
    def is_idle(self) -> bool:
        """Whether the worker has no jobs, and none wait for it."""
        return not self.jobs and not self.waiting

    def started(self, actor: ActorId) -> None:
        """Note a new incarnation. It inherits the jobs that the one before had not started."""
        self.actor = actor
        self.is_ending = False
        for job in self.jobs:
            job.redirect(actor)

    def status(self) -> WorkerStatus:
        """Return the worker's state."""
        return WorkerStatus(self.name, self.actor, len(self.jobs), self.is_leaving)


@final
class Dispatcher:
    """The pool's actor: its behavior, its jobs and its workers.

    Args:
        loop: the loop of the pool.
        kind: the class of the workers.
        name: the name of the pool.
        routing: which worker gets a message.
        on_death: what happens to the messages of a worker that dies.
        max_tries: how many workers may die while handling one job, with `OnDeath.REQUEUE_ALL`.
        retire: ends a leaving worker that has nothing left to do.
        report: returns the pool's status for `status_of`.
    """

    __slots__ = (
        "_keys",
        "_loop",
        "_max_tries",
        "_methods",
        "_name",
        "_on_death",
        "_picker",
        "_report",
        "_retire",
        "_routing",
        "_shared",
        "actor",
        "counters",
        "has_lost_workers",
        "is_open",
        "is_wake_pending",
        "leaving",
        "slots",
    )

    actor: ActorId
    """The pool's own id, set after the spawn."""

    def __init__(
        self,
        loop: ActorSystem,
        kind: type[Any],
        name: str,
        routing: Routing | ByKey,
        on_death: OnDeath,
        max_tries: int,
        retire: Callable[[WorkerSlot], None],
        report: Callable[[], ActorReport],
    ) -> None:
        self._loop = loop
        self._name = name
        self._methods = frozenset(methods_of(kind))
        self._routing = routing
        self._on_death = on_death
        self._max_tries = max_tries
        self._retire = retire
        self._report = report
        self._picker = WorkerPicker(routing) if isinstance(routing, Routing) else None
        self._keys = KeyRouter()
        # Jobs that any worker may take.
        self._shared = JobQueue()
        self.slots: list[WorkerSlot] = []
        self.leaving: list[WorkerSlot] = []
        self.counters = PoolCounters()
        self.is_open = True
        # Whether a wake-up message to itself is in the mailbox.
        self.is_wake_pending = False
        # Whether the workers' supervisor has ended; then its ChildExit is in the mailbox.
        self.has_lost_workers = False

    @property
    def system_messages(self) -> int:
        """How many of the messages in the mailbox are not a user's."""
        return int(self.is_wake_pending) + int(self.has_lost_workers)

    @property
    def waiting(self) -> int:
        """How many jobs wait for a worker."""
        return len(self._shared) + len(self._keys) + sum(len(slot.waiting) for slot in self.all_slots)

    @property
    def all_slots(self) -> list[WorkerSlot]:
        """All workers; those that leave come last."""
        return [*self.slots, *self.leaving]

    # -- messages ----------------------------------------------------------------------------------------------------------

    def __call__(self, ctx: Context[Any], data: object) -> None:
        """Handle a message to the pool's actor."""
        # A typed message has its method as tag and, if its sender waits, a ReplyCallback as sender.
        tag: object = ctx.tag
        sender: object = ctx.sender
        if isinstance(tag, Method) and tag in self._methods:
            self._accept(tag, data, sender if isinstance(sender, ReplyCallback) else None)
        elif isinstance(data, ChildExit):
            # The workers' supervisor has given up or was stopped.
            if data.reason is ExitReason.NORMAL:
                self._loop.stop_actor(self.actor)
            else:
                self._loop.fail_actor(self.actor, data.cause)
        elif ctx.lane is Lane.SYSTEM:
            self.is_wake_pending = False
            self.pump()
            for slot in [slot for slot in self.leaving if slot.is_idle]:
                self._retire(slot)
        elif not isinstance(sender, ReplyCallback) or not answer_inquiry(tag, sender, self._report):
            what = type(data).__name__
            self._loop.events.tell(Unhandled(self.actor, self._name, data, what))

    def _accept(self, method: Method, data: object, asked: ReplyCallback | None) -> None:
        self._loop.kernel.hold_slot(self.actor, method.lane)
        if self._routing is Routing.BROADCAST and not method.is_ask:
            self._broadcast(method, data, asked)
            return
        job = Job(self, self.actor, method, data, asked)
        self.counters.accepted += 1
        if self._routing is Routing.BROADCAST:
            job.fail(
                InvalidArgumentError(
                    f"{method.owner}.{method.name}() was asked of the pool {self._name!r}, which broadcasts: there would be an answer from each "
                    f"worker. Make it one-way, or ask another pool."
                )
            )
        elif job.is_recalled():
            self.settle(job, JobOutcome.WITHDRAWN)
        elif not isinstance(self._routing, ByKey):
            self._shared.push(job)
            self.pump()
        elif self._set_key(job, self._routing):
            self._route(job)

    def _broadcast(self, method: Method, data: object, asked: ReplyCallback | None) -> None:
        broadcast = Broadcast(len(self.slots), asked)
        for slot in self.slots:
            slot.waiting.push(Job(self, self.actor, method, data, None, broadcast))
            self.counters.accepted += 1
        for slot in self.slots:
            self._serve(slot)

    def _set_key(self, job: Job, routing: ByKey) -> bool:
        """Compute the key of a job. If that fails, settle the job and return False."""
        try:
            job.key = routing.of(*job.method.arguments(job.arguments))
            consistent_hash(job.key, 1)
        except Exception as error:  # noqa: BLE001  # a user's function may raise anything
            wrong = InvalidArgumentError(
                f"the key of {job.method.owner}.{job.method.name}() could not be computed: {safe_repr(error)}; the pool {self._name!r} did not pass it on"
            )
            wrong.__cause__ = error
            if job.method.is_ask:
                job.fail(wrong)
            else:
                self._loop.kernel.reporter.error(str(wrong), error)  # the loop's log
                self.drop(job, (self.actor, self._name, ExitReason.FAIL.value, wrong))
            return False
        return True

    # -- giving jobs to workers --------------------------------------------------------------------------------------------

    def _route(self, job: Job) -> None:
        slot = self._keys.route(job, self.slots)
        if slot is not None:
            self._serve(slot)

    def pump(self) -> None:
        """Give shared jobs to workers as long as one can take a job."""
        while self._shared and self.is_open:
            slot = None if self._picker is None else self._picker.pick(self.slots)
            if slot is None:
                return
            # A worker that refuses because it is ending is not picked again.
            self._give(slot, self._shared.pop(), self._shared)

    def _serve(self, slot: WorkerSlot) -> None:
        """Give a worker the jobs that wait for it."""
        while slot.waiting and slot.is_ready and self.is_open:
            if not self._give(slot, slot.waiting.pop(), slot.waiting):
                return

    def _give(self, slot: WorkerSlot, job: Job, origin: JobQueue) -> bool:
        """Give a job to a worker. If the worker is ending, put the job back and return False."""
        assert slot.actor is not None
        before = job.actor
        slot.jobs[job] = None
        job.slot = slot
        job.is_reported = False
        job.redirect(slot.actor)
        if isinstance(self._routing, ByKey):
            self._keys.begin(job, slot)
        if post_or_wait(slot.actor, job.method, job.data, job) != NO_ACTOR:
            return True
        slot.is_ending = True
        self._release(job)
        job.redirect(before)
        origin.push_front(job)
        return False

    def _release(self, job: Job) -> list[Job]:
        """Take a job from its worker; return the parked jobs that can be routed now."""
        slot, job.slot = job.slot, None
        if slot is None:
            return []
        slot.jobs.pop(job)
        return self._keys.end(job) if isinstance(self._routing, ByKey) else []

    def worker_started(self, slot: WorkerSlot, actor: ActorId) -> None:
        """Note that a worker was started or restarted, and give it work."""
        slot.started(actor)
        self._attend(slot)

    def _attend(self, slot: WorkerSlot) -> None:
        self._serve(slot)
        has_work = slot.is_idle if slot.is_leaving else bool(self._shared)
        if has_work and self.is_open and not self.is_wake_pending:
            # In a turn of its own: this may run inside a worker's turn.
            self.is_wake_pending = True
            self._loop.kernel.notify_channel(self.actor)

    def resized(self) -> None:
        """Route again what waits for single workers: the workers have changed."""
        if isinstance(self._routing, ByKey):
            for job in [job for slot in self.all_slots for job in slot.waiting.clear()]:
                self._keys.route(job, self.slots)
        for slot in self.all_slots:
            self._attend(slot)

    # -- outcomes ----------------------------------------------------------------------------------------------------------

    def settle(self, job: Job, outcome: JobOutcome, ending: Ending | None = None) -> None:
        """Count the outcome of a job and free its mailbox slot."""
        if job.is_over:
            return
        job.is_over = True
        self.counters.outcomes[outcome] += 1
        slot = job.slot
        parked = self._release(job)
        if job.broadcast is None or job.broadcast.settle(ending):
            self._loop.kernel.free_slots(self.actor, job.method.lane, 1)
        for following in parked:
            self._route(following)
        if slot is not None:
            self._attend(slot)

    def recall(self, job: Job) -> None:
        """Withdraw a waiting job whose asker has taken it back."""
        found = self._shared.discard(job) or self._keys.discard(job)
        if found or any(slot.waiting.discard(job) for slot in self.all_slots):
            self.settle(job, JobOutcome.WITHDRAWN)

    def skipped(self, job: Job) -> None:
        """End a job that its worker does not start, because the asker has taken it back."""
        self.settle(job, JobOutcome.WITHDRAWN)

    def reroute(self, job: Job) -> bool:  # noqa: ARG002  # as JobOwner declares it
        """Return False: the workers are on the same loop, without a link that can be lost."""
        return False

    def worker_lost(self, job: Job, ending: Ending, *, was_started: bool) -> None:
        """Decide about a job whose worker has ended. Jobs not started come here only if the worker's mailbox was not kept."""
        job.is_reported = not was_started
        may_return = self.is_open and self._on_death is not OnDeath.DEAD_LETTER
        if was_started:
            job.tries += 1
            may_return = may_return and self._on_death is OnDeath.REQUEUE_ALL and job.tries < self._max_tries
        if job.is_recalled():
            self.settle(job, JobOutcome.WITHDRAWN)
        elif may_return:
            self._requeue(job)
        else:
            self.drop(job, ending)

    def _requeue(self, job: Job) -> None:
        self.counters.requeued += 1
        slot = job.slot
        parked = self._release(job)
        job.redirect(self.actor)
        if isinstance(self._routing, ByKey):
            # In front of the jobs that were parked behind it.
            target = self._keys.put_back(job, self.slots)
            for following in parked:
                self._keys.route(following, self.slots)
            if target is not None:
                self._serve(target)
        elif job.broadcast is not None and slot is not None:
            slot.waiting.push_front(job)
        else:
            self._shared.push_front(job)
            self.pump()

    def drop(self, job: Job, ending: Ending) -> None:
        """Report a job as a dead letter and notify its sender."""
        if not job.is_reported:
            method = job.method
            what = f"{method.owner}.{method.name}()"
            self._loop.events.tell(DeadLetter(job.actor, LANES[method.lane], job.arguments, what))
        job.give_up(ending)
        self.settle(job, JobOutcome.DEAD, ending)

    def close(self, ending: Ending) -> None:
        """Drop the jobs that wait: the pool has ended. The end of each worker decides about the jobs that it has."""
        self.is_open = False
        waiting = [*self._shared.clear(), *self._keys.clear()]
        for slot in self.all_slots:
            waiting += slot.waiting.clear()
        for job in waiting:
            self.drop(job, ending)
