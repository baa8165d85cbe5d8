"""Replicas of a pod: several processes behind one handle.

A pod with `replicas=4` runs four times, as `workers-0` to `workers-3`. For the kubelet these are four pods, each with its own process,
phase and restarts. Handles see one. In each pod that sends to them, and in the calling program, a handle of one of their roles leads to
a `ReplicaDispatcher`: an actor on the proxy loop that gives each message to a replica, by the routing of the role. It has the parts of
the dispatcher of an actor pool, and differs in two points: a worker is the proxy of a remote actor, and a message that was sent to
a process is never sent again.

    PodLinks ── ReplicaPool ── ReplicaDispatcher   one for each exposed role; the handles of the role lead to it
                     │               │
                     │          ReplicaSlot        one for each replica: the messages it has, and those that wait for it
                     │               │
                   links ─────── RemoteProxy       one for each role and link

A replica gets `ahead` messages at a time. The others wait in the dispatcher, so they have not been sent when a process dies, and go to
another one. As long as one replica can be reached the pool is up; without any, its dispatchers end, and handles do what they
do for any pod that is down.

Each dispatcher only knows what its own process has sent: "least loaded" is the fewest messages of this sender.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, final

from bandstand.actor.declaration import methods_of
from bandstand.actor.dispatch import Method
from bandstand.actor.reply import ReplyCallback
from bandstand.core import ExitReason
from bandstand.core.enums import Lane
from bandstand.core.events import DeadLetter
from bandstand.core.logs import SafeLogger
from bandstand.errors import ActorKilledError, InvalidArgumentError, PodTimeoutError
from bandstand.errors.formatting import safe_repr
from bandstand.errors.validation import to_ms
from bandstand.pod.link.codec import Packet
from bandstand.pod.link.sender import refuse_unknown
from bandstand.pod.status import PodStats
from bandstand.pool.dispatcher import Broadcast, Ending, Job, JobQueue
from bandstand.pool.routing import ByKey, Routing, WorkerPicker
from bandstand.pool.status import JobOutcome
from bandstand.supervision.supervisor import consistent_hash

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from bandstand.actor import ActorSystem
    from bandstand.actor.handle import Handle
    from bandstand.core import ActorId, Context
    from bandstand.pod.address_book import AddressBook
    from bandstand.pod.link import Packer
    from bandstand.pod.link.sender import RemoteProxy
    from bandstand.pod.spec import PodSpec, RoleSpec, TroupeSpec
    from bandstand.pool.routing import Key

__all__ = ("KeyedData", "ReplicaDispatcher", "ReplicaPool", "key_packing")

logger = SafeLogger("bandstand.pod")

LANES = tuple(Lane)


# -- keys ------------------------------------------------------------------------------------------------------------------------


@final
class KeyedData:
    """The packed arguments of a message, and its key."""

    __slots__ = ("data", "key")

    def __init__(self, key: Key, data: object) -> None:
        self.key = key
        self.data = data


def key_packing(packer: Packer, spec: TroupeSpec) -> Callable[[Handle, Method, object], object]:
    """Return a function that packs messages, those to roles that are routed by key with their key.

    The key is computed in the call: the dispatcher only gets packed arguments.
    """
    keyed = {
        (pod.name, role.name): role
        for pod in spec.pods
        for role in pod.roles
        if pod.replicas is not None and isinstance(role.routing, ByKey)
    }
    if not keyed:
        return packer.pack

    def pack(handle: Handle, method: Method, data: object) -> object:
        """Pack a message.

        Raises:
            InvalidArgumentError: its key cannot be computed.
            TypeError: it cannot be pickled.
        """
        ref = handle.__handle_ref__
        role = keyed.get((getattr(ref, "pod", ""), getattr(ref, "role", "")))
        if role is None or role.is_broadcast(method.name):
            return packer.pack(handle, method, data)
        routing: Any = role.routing
        arguments, named = method.arguments(data)
        try:
            key = routing.of(arguments, named)
            consistent_hash(key, 1)
        except Exception as error:
            raise InvalidArgumentError(
                f"the key of {method.owner}.{method.name}() of {safe_repr(handle)} could not be computed: {safe_repr(error)}"
            ) from error
        return KeyedData(key, packer.pack(handle, method, data))

    return pack


# -- broadcasts and slots --------------------------------------------------------------------------------------------------------


@final
class ReplicaBroadcast(Broadcast):
    """What the copies of one broadcast message share. It keeps the arguments, whose bytes count until all copies have ended."""

    __slots__ = ("data",)

    def __init__(self, count: int, asked: ReplyCallback | None, data: object) -> None:
        super().__init__(count, asked)
        self.data = data


@final
class ReplicaSlot:
    """The place of one replica in a dispatcher, over all its incarnations."""

    __slots__ = ("ahead", "has_ended", "jobs", "name", "proxy", "returned", "waiting")

    def __init__(self, name: str, ahead: int) -> None:
        self.name = name
        self.ahead = ahead
        self.proxy: RemoteProxy | None = None
        """The proxy of its current incarnation; None while it cannot be reached."""
        self.has_ended = False
        """Whether an ask has shown that its actor has ended."""
        self.jobs: dict[Job, None] = {}
        """The messages that were given to its proxy."""
        self.waiting = JobQueue()
        """The messages that wait for this replica: of its keys, and copies of broadcasts."""
        self.returned: list[Job] = []
        """The messages that were given to a proxy whose link was lost before they were sent."""

    @property
    def is_ready(self) -> bool:
        """Whether the replica may get another message."""
        return (
            self.proxy is not None
            and not self.has_ended
            and len(self.jobs) < self.ahead
            and self.proxy.is_open
        )


@final
class StatsCorrection:
    """Corrects the counters of a proxy loop and its links for the messages that pass through dispatchers."""

    __slots__ = ("accepted", "dead", "handled", "turns")

    def __init__(self) -> None:
        # The proxy loop counts each message to a dispatcher as sent; a link counts it again when the dispatcher sends it.
        self.turns = 0
        # Each copy of a broadcast counts.
        self.accepted = 0
        # Messages that ended in a dispatcher, so that no link counts them: taken back by their askers, and others.
        self.handled = 0
        self.dead = 0

    def stats(self, waiting: int) -> PodStats:
        """Return what to add to the counts of the proxy loop and its links."""
        return PodStats(
            sent=self.accepted - self.turns, handled=self.handled, dead=self.dead, waiting=waiting
        )


# -- the dispatcher --------------------------------------------------------------------------------------------------------------


@final
class ReplicaDispatcher:
    """The actor behind the handles of one role whose pod has replicas. On the proxy loop.

    Args:
        loop: the proxy loop.
        pod: the pod, as it was declared.
        role: the role.
        names: the names of the replicas.
        correction: corrects the counts of the proxy loop and its links.
        why_gone: returns why a replica will not be restarted; None if it may be.
        on_end: called when the actor has ended, with the role and the reason.

    Attributes:
        actor: its id.
    """

    __slots__ = (
        "_correction",
        "_is_open",
        "_loop",
        "_methods",
        "_name",
        "_picker",
        "_pod",
        "_role",
        "_shared",
        "_slots",
        "_timers",
        "_why_gone",
        "actor",
    )

    def __init__(
        self,
        loop: ActorSystem,
        pod: PodSpec,
        role: RoleSpec,
        names: Sequence[str],
        correction: StatsCorrection,
        why_gone: Callable[[str], str | None],
        on_end: Callable[[str, ExitReason], object],
    ) -> None:
        self._loop = loop
        self._pod = pod
        self._role = role
        self._name = f"{role.name} in {pod.name}"
        self._methods = frozenset(methods_of(role.kind))
        self._correction = correction
        self._why_gone = why_gone
        routing = role.routing
        self._picker = WorkerPicker(routing if isinstance(routing, Routing) else Routing.LEAST_LOADED)
        # Messages that any replica may take.
        self._shared = JobQueue()
        self._slots = [ReplicaSlot(name, role.ahead) for name in names]
        # What cancels the limit of a wait for one replica that is down.
        self._timers: dict[Job, Callable[[], None]] = {}
        self._is_open = True
        self.actor: ActorId = loop.spawn_raw(
            self, name=self._name, mailbox_cap=loop.kernel.actors.cap_for(role.mailbox)
        )
        # Its exit is reported elsewhere: by the links, or by what has ended it.
        loop.kernel.actors.set_exit_handled(self.actor)

        def ended(reason: ExitReason, cause: BaseException | None) -> None:
            self._close((self.actor, self._name, reason.value, cause))
            on_end(role.name, reason)

        loop.kernel.actors.on_exit(self.actor, ended)

    @property
    def waiting(self) -> int:
        """How many messages wait for a replica."""
        return len(self._shared) + sum(len(slot.waiting) + len(slot.returned) for slot in self._slots)

    # -- messages ----------------------------------------------------------------------------------------------------------------

    def __call__(self, turn: Context[Any], data: object) -> None:
        """Handle a message to the role."""
        self._correction.turns += 1
        method: object = turn.tag
        sender: object = turn.sender
        if not isinstance(method, Method) or method not in self._methods:
            refuse_unknown(self._role.name, turn)
            return
        # The message counts as if it were still in the mailbox, until it has its outcome.
        self._loop.kernel.hold_slot(self.actor, method.lane)
        asked = sender if isinstance(sender, ReplyCallback) else None
        if isinstance(data, KeyedData):
            job = self._make_job(method, data.data, asked)
            job.key = data.key
            self._queue_by_key(job)
        elif self._role.is_broadcast(method.name):
            self._broadcast(method, data, asked)
        else:
            self._shared.push(self._make_job(method, data, asked))
            self._pump()

    def _make_job(
        self, method: Method, data: object, asked: ReplyCallback | None, broadcast: Broadcast | None = None
    ) -> Job:
        self._correction.accepted += 1
        job = Job(self, self.actor, method, data, asked, broadcast)
        job.number = self._correction.accepted
        return job

    def _broadcast(self, method: Method, data: object, asked: ReplyCallback | None) -> None:
        slots = [slot for slot in self._slots if self._why_gone(slot.name) is None]
        broadcast = ReplicaBroadcast(len(slots), asked, data)
        for slot in slots:
            # A packet belongs to one link: sending it takes its buffers.
            copy = Packet(data.body, data.parts) if isinstance(data, Packet) else data
            self._queue_for(slot, self._make_job(method, copy, None, broadcast))

    def _queue_by_key(self, job: Job) -> None:
        """Queue a message for the replica of its key. The keys of a replica that is gone for good are spread over the others."""
        slot = self._slots[consistent_hash(job.key, len(self._slots))]
        if self._why_gone(slot.name) is not None:
            left = [slot for slot in self._slots if self._why_gone(slot.name) is None]
            # While all are gone, this actor is about to end, and the message with it.
            slot = left[consistent_hash(job.key, len(left))] if left else slot
        self._queue_for(slot, job)

    def _queue_for(self, slot: ReplicaSlot, job: Job) -> None:
        slot.waiting.push(job)
        if slot.proxy is None:
            self._limit_wait(slot, job)
        self._serve(slot)

    # -- giving messages to replicas ---------------------------------------------------------------------------------------------

    def _pump(self) -> None:
        """Give messages to replicas as long as one can take a message."""
        while self._shared and self._is_open:
            slot = self._picker.pick(self._slots)
            if slot is None:
                return
            self._give(slot, self._shared.pop())

    def _serve(self, slot: ReplicaSlot) -> None:
        """Give a replica the messages that wait for it, and then others."""
        while slot.waiting and slot.is_ready and self._is_open:
            self._give(slot, slot.waiting.pop())
        self._pump()

    def _give(self, slot: ReplicaSlot, job: Job) -> None:
        if job.is_recalled():
            self.settle(job, JobOutcome.WITHDRAWN)
            return
        proxy = slot.proxy
        assert proxy is not None
        self._stop_timer(job)
        slot.jobs[job] = None
        job.slot = slot
        job.redirect(proxy.actor)
        proxy.send(job.method, job.data, job)
        if job.slot is slot and job.asked is not None and job.relay is not None:
            # What forwards the ask finds cycles of asks, too.
            job.asked.relay = job.relay

    # -- outcomes ----------------------------------------------------------------------------------------------------------------

    def settle(self, job: Job, outcome: JobOutcome, ending: Ending | None = None) -> None:
        """End a message, and free its slot. If a link has it, the link counts the outcome."""
        if job.is_over:
            return
        job.is_over = True
        self._stop_timer(job)
        slot, job.slot = job.slot, None
        if slot is not None:
            slot.jobs.pop(job)
        elif outcome is JobOutcome.DEAD:
            self._correction.dead += 1
        else:
            self._correction.handled += 1
        if job.broadcast is None or job.broadcast.settle(ending):
            self._loop.kernel.free_slots(self.actor, job.method.lane, 1)
        if slot is not None:
            self._serve(slot)

    def recall(self, job: Job) -> None:
        """Withdraw a waiting message whose asker has taken it back."""
        if self._shared.discard(job) or any(slot.waiting.discard(job) for slot in self._slots):
            self.settle(job, JobOutcome.WITHDRAWN)

    def skipped(self, job: Job) -> None:
        """Do nothing: the outcome follows, with `withdrawn`."""

    def worker_lost(self, job: Job, ending: Ending, *, was_started: bool) -> None:  # noqa: ARG002  # it may have been
        """End a message whose replica has ended, or has lost its actor. It was sent, so it is not sent again."""
        if job.method.is_ask and job.slot is not None:
            # Otherwise a replica that answers each ask at once like this would be the one with the fewest messages.
            job.slot.has_ended = True
        job.give_up(ending)
        self.settle(job, JobOutcome.DEAD, ending)

    def reroute(self, job: Job) -> bool:
        """Take back a message that was not sent before its link was lost; return False if that is not possible.

        It is queued again when the link is down: see `replica_down`.
        """
        slot = job.slot
        # Buffers that were taken for sending are gone.
        is_sent_in_part = isinstance(job.data, Packet) and bool(job.data.part_numbers)
        if job.is_over or slot is None or is_sent_in_part or not self._is_open:
            return False
        slot.jobs.pop(job)
        slot.returned.append(job)
        job.slot = None
        job.redirect(self.actor)
        if job.asked is not None:
            job.asked.relay = job.take_back
        return True

    def _drop(self, job: Job, ending: Ending) -> None:
        """End a message that was never sent."""
        method = job.method
        self._loop.events.tell(
            DeadLetter(self.actor, LANES[method.lane], None, f"{method.owner}.{method.name}()")
        )
        job.give_up(ending)
        self.settle(job, JobOutcome.DEAD, ending)

    # -- replicas ----------------------------------------------------------------------------------------------------------------

    def replica_up(self, name: str, proxy: RemoteProxy) -> None:
        """Note that a replica can be reached."""
        slot = self._slot(name)
        slot.proxy = proxy
        slot.has_ended = False
        for job in slot.waiting:
            self._stop_timer(job)
        self._serve(slot)

    def replica_down(self, name: str) -> None:
        """Note that a replica cannot be reached any more, and queue the messages again that were not sent to it."""
        slot = self._slot(name)
        slot.proxy = None
        returned, slot.returned = slot.returned, []
        # In front of later messages, in their order.
        for job in sorted(returned, key=lambda job: job.number, reverse=True):
            is_bound = isinstance(self._role.routing, ByKey) or job.broadcast is not None
            (slot.waiting if is_bound else self._shared).push_front(job)
        gone = self._why_gone(name)
        if gone is not None:
            self.replica_gone(name, gone)
        for waiting in slot.waiting:
            self._limit_wait(slot, waiting)
        self._pump()

    def replica_gone(self, name: str, reason: str) -> None:
        """Note that a replica will not be restarted: messages that wait for it go elsewhere, or end."""
        slot = self._slot(name)
        for job in slot.waiting.clear():
            self._stop_timer(job)
            if job.broadcast is None:
                self._queue_by_key(job)
            else:
                cause = ActorKilledError(f"pod {name!r} has ended for good: {reason}")
                self._drop(job, (self.actor, self._name, ExitReason.FAIL.value, cause))

    def _slot(self, name: str) -> ReplicaSlot:
        return next(slot for slot in self._slots if slot.name == name)

    def _limit_wait(self, slot: ReplicaSlot, job: Job) -> None:
        """Limit how long a message waits for a replica that is down."""
        if job not in self._timers:
            ms = to_ms("down_timeout", self._pod.down_timeout)
            self._timers[job] = self._loop.kernel.call_later(int(ms), partial(self._expire, slot, job))

    def _stop_timer(self, job: Job) -> None:
        cancel = self._timers.pop(job, None)
        if cancel is not None:
            cancel()

    def _expire(self, slot: ReplicaSlot, job: Job) -> None:
        del self._timers[job]
        if not slot.waiting.discard(job):
            return
        error = PodTimeoutError(
            f"role {self._role.name!r} accepted no message: pod {slot.name!r}, which the message is for, was not back within "
            f"{self._pod.down_timeout:g} s: see troupe.status() for its phase"
        )
        if job.asked is not None:
            job.asked.relay = None
            job.asked.fail(error)
        else:
            logger.warning("%s.%s() was not delivered: %s", job.method.owner, job.method.name, error)
        self.settle(job, JobOutcome.DEAD, (self.actor, self._name, ExitReason.FAIL.value, error))

    def _close(self, ending: Ending) -> None:
        """End the messages that wait: this actor has ended."""
        self._is_open = False
        waiting = self._shared.clear()
        for slot in self._slots:
            waiting += slot.returned
            waiting += slot.waiting.clear()
            slot.returned = []
        for job in waiting:
            self._drop(job, ending)


# -- the replicas of a pod, as one sender sees them --------------------------------------------------------------------------------


@final
class ReplicaPool:
    """The replicas of one pod that a runtime can reach, and the dispatchers of their roles. On the thread of the proxy loop.

    Args:
        pod: the pod, as it was declared.
        names: the names of its replicas.
        loop: the proxy loop.
        address_book: where the dispatchers are published.
        packer: has the byte limits of the roles.
    """

    def __init__(
        self,
        pod: PodSpec,
        names: Sequence[str],
        loop: ActorSystem,
        address_book: AddressBook,
        packer: Packer,
    ) -> None:
        self._pod = pod
        self._names = tuple(names)
        self._roles = [role for role in pod.roles if role.is_exposed]
        self._loop = loop
        self._address_book = address_book
        self._packer = packer
        self._correction = StatsCorrection()
        # The proxies of the replicas that can be reached, by name and role.
        self._proxies: dict[str, Mapping[str, RemoteProxy]] = {}
        self._dispatchers: dict[str, ReplicaDispatcher] = {}
        self._published: Mapping[str, ActorId] = {}

    def add(self, name: str, proxies: Mapping[str, RemoteProxy]) -> None:
        """Add a replica that runs and can be reached. The first one publishes the pod."""
        self._proxies[name] = proxies
        is_changed = False
        for role in self._roles:
            dispatcher = self._dispatchers.get(role.name)
            if dispatcher is not None and dispatcher.actor.is_alive:
                dispatcher.replica_up(name, proxies[role.name])
                continue
            self._make_dispatcher(role)
            is_changed = True
        if is_changed:
            self._published = {role: each.actor for role, each in self._dispatchers.items()}
            self._address_book.publish(self._pod.name, self._published)

    def remove(self, name: str, reason: str) -> None:
        """Remove a replica that cannot be reached any more. Without any, the pod is down."""
        if self._proxies.pop(name, None) is None:
            return
        for dispatcher in self._dispatchers.values():
            dispatcher.replica_down(name)
        if self._proxies:
            return
        self._address_book.withdraw(self._pod.name, self._published)
        cause = ActorKilledError(
            f"no replica of pod {self._pod.name!r} can be reached (the last one was {name!r}: {reason}): the message did not reach it"
        )
        for dispatcher in self._dispatchers.values():
            self._loop.kernel.actors.stop_or_kill(dispatcher.actor, cause)
        self._dispatchers.clear()

    def retire(self, name: str, reason: str) -> None:
        """Note that a replica will not be restarted."""
        for dispatcher in self._dispatchers.values():
            dispatcher.replica_gone(name, reason)

    @property
    def is_idle(self) -> bool:
        """Whether no message waits for a replica."""
        return not self._waiting

    def stats(self) -> PodStats:
        """Return what to add to the counts of the proxy loop and its links."""
        return self._correction.stats(self._waiting)

    @property
    def _waiting(self) -> int:
        return sum(each.waiting for each in list(self._dispatchers.values()))

    def _make_dispatcher(self, role: RoleSpec) -> None:
        dispatcher = ReplicaDispatcher(
            self._loop,
            self._pod,
            role,
            self._names,
            self._correction,
            self._address_book.why_gone,
            self._on_dispatcher_end,
        )
        self._dispatchers[role.name] = dispatcher
        self._packer.attach(role.name, self._loop, dispatcher.actor)
        for name, proxies in self._proxies.items():
            dispatcher.replica_up(name, proxies[role.name])

    def _on_dispatcher_end(self, role: str, reason: ExitReason) -> None:
        """End the role in all replicas that can be reached, as its handle was ended."""
        actors = self._loop.kernel.actors
        for proxies in self._proxies.values():
            cause = None if reason is ExitReason.NORMAL else ActorKilledError(f"role {role!r} was ended")
            actors.stop_or_kill(proxies[role].actor, cause)
