"""Runs entities: routes each message to the instance of its key, loads instances, and removes those that are idle.

**The problem.** There are more entities than memory, and each needs its events before its first message. To load one takes as long as a hundred messages, and the messages for others must not
wait for it. A command waits for its page, and a thousand commands for one key should share pages.

**The choice.** All instances of a class run in the one actor of their capability. A message for an instance in memory is handled at once. The others wait beside the actor, in their order, while a task
loads the instance.

**A decision counts at once.** The events of a command are applied before they are durable, so the next command for the same key need not wait for the disk. That is sound because
a page with an answer is never given up: a full disk delays it, and a failing disk ends the node. Nothing that follows from the state is shown before it is durable: answers to commands and what they send
are in the same page or in a later one, and the answer to a query waits for the page of the last event it has seen.

**Before the point of no return.** The reply is encoded, the events are encoded, and `apply` has taken them, before the first record is given to the journal. If any of it fails, nothing is written, and the
instance is dropped: what is in its memory is not to be trusted.

**Failures.** The handler of one message fails one message, and the instance that it was for is loaded anew. The capability is not restarted and its restart limits do not count it, because
the other instances have nothing to do with it: with a limit for all of them, one broken entity would take a million others out of service.

**An instance that was dropped is loaded when its events are durable.** Otherwise the load would miss them.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable, Coroutine, Iterable, Sequence
from functools import partial
from itertools import islice
from math import ceil
from typing import TYPE_CHECKING, Any, Final, final

from msgspec import Struct

from bandstand.actor.timers import DeferredCall
from bandstand.bus.bus_client import Bus
from bandstand.bus.contracts.entity import LONGEST_KEY, Decision, Entity
from bandstand.bus.faults import SCHEMA_ERROR, UNAVAILABLE
from bandstand.bus.frame import new_frame
from bandstand.bus.request import DONE, DeferredTurn, PendingRequest
from bandstand.core import Lane
from bandstand.core.logs import SafeLogger
from bandstand.errors import (
    ActorFailedError,
    ContractViolationError,
    JournalFullError,
)
from bandstand.errors.formatting import describe_exception, safe_str
from bandstand.persistence.records import stream_name

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from bandstand.bus.capability_slot import CapabilitySlot
    from bandstand.bus.contracts.entity import EntitySpec
    from bandstand.bus.durable.lane import DurableLane
    from bandstand.bus.request import Delivery, Route
    from bandstand.core import TimerId
    from bandstand.persistence import EventStore, EventStream

__all__ = ("EntityHealth", "EntityHost", "EntityHosts")

logger = SafeLogger("bandstand.bus")

# How many messages that have waited for a load are handled, and how many idle instances removed, before others get a turn.
_AT_ONCE: Final = 64
# How many of the instances that were idle for the longest time are looked at, to find one that can leave memory.
_LOOK_AT: Final = 16


class EntityHealth(Struct, rename="camel"):
    """The instances of one class of entities."""

    in_memory: int
    """How many are in memory."""
    loading: int
    """How many are being loaded."""
    loads: int
    """How many were loaded since the node has started."""
    evictions: int
    """How many have left memory because they were idle, or because there were too many."""


@final
class EntityHosts:
    """What the entities of a node share. It creates the hosts of their capabilities: see `HostFactory`."""

    def __init__(self) -> None:
        self.store: EventStore | None = None
        """Where their events are; None until the journal is open."""
        self.leaving: dict[str, _Instance] = {}
        """The instances that were dropped before their events were durable, by the name of their stream."""
        # By capability: an incarnation continues the figures of the one before.
        self._figures: dict[str, EntityHealth] = {}

    def create_host(self, slot: CapabilitySlot) -> EntityHost:
        """Create the host of one incarnation of a capability."""
        spec = slot.spec.entity
        assert spec is not None
        figures = self._figures.setdefault(slot.id, EntityHealth(0, 0, 0, 0))
        return EntityHost(slot, spec, self, figures)


@final
class _Instance:
    """One entity in memory."""

    __slots__ = (
        "_host",
        "_on_drained",
        "_waiting",
        "committed",
        "entity",
        "is_dropped",
        "stream",
        "used_ms",
        "written",
    )

    def __init__(self, host: EntityHost, entity: Entity[Any], stream: EventStream) -> None:
        self._host = host
        self.entity = entity
        self.stream = stream
        # When it has got its last message, on the loop's clock.
        self.used_ms = 0.0
        # How many decisions with events it has made, and how many of these are durable.
        self.committed = 0
        self.written = 0
        # Whether it is used no more: a handler or `apply` has failed, or its host has ended.
        self.is_dropped = False
        # Answers to queries, each with the number of decisions that it has seen.
        self._waiting: deque[tuple[int, Callable[[], object]]] | None = None
        self._on_drained: asyncio.Future[None] | None = None

    @property
    def is_durable(self) -> bool:
        """Whether everything that it has decided is durable."""
        return self.written == self.committed

    def when_durable(self, answer: Callable[[], object]) -> None:
        """Call a function when everything that was decided until now is durable."""
        if self.written == self.committed:
            answer()
            return
        if self._waiting is None:
            self._waiting = deque()
        self._waiting.append((self.committed, answer))

    def note_written(self) -> None:
        """Take note that the oldest decision that was not durable is durable now. Called in a turn of the router."""
        self.written += 1
        while self._waiting and self._waiting[0][0] <= self.written:
            self._waiting.popleft()[1]()
        if self.is_dropped:
            if self.written == self.committed:
                self._host.forget_dropped(self)
                if self._on_drained is not None and not self._on_drained.done():
                    self._on_drained.set_result(None)
        elif self.stream.is_snapshot_due:
            self._host.want_snapshot(self)
        elif self._host.is_crowded:
            self._host.wake()

    async def drained(self) -> None:
        """Wait until everything that it has decided is durable. One task at a time waits: the next load of the entity."""
        if self.written != self.committed:
            self._on_drained = asyncio.get_running_loop().create_future()
            await self._on_drained


@final
class _Loading:
    """An entity that is being loaded, and the messages that wait for it."""

    __slots__ = ("failure", "instance", "key", "task", "waiting")

    def __init__(self, key: str) -> None:
        self.key = key
        self.waiting: deque[PendingRequest] = deque()
        self.task: asyncio.Task[None] | None = None
        # One of them is set when the task has ended.
        self.instance: _Instance | None = None
        self.failure: BaseException | None = None


@final
class EntityHost:
    """Hosts the entities of one capability: see `CapabilityHost`."""

    __slots__ = (
        "_bus",
        "_figures",
        "_functions",
        "_held",
        "_hosts",
        "_idle_ms",
        "_idle_timer",
        "_instances",
        "_is_woken",
        "_key_of",
        "_lane",
        "_loaded",
        "_loading",
        "_parked",
        "_router",
        "_slot",
        "_snapshots",
        "_spec",
        "_store",
        "is_crowded",
    )

    handlers = None

    def __init__(
        self, slot: CapabilitySlot, spec: EntitySpec, hosts: EntityHosts, figures: EntityHealth
    ) -> None:
        store, lane = hosts.store, slot.router.durable
        assert store is not None
        assert lane is not None
        self._slot = slot
        self._router = slot.router
        self._lane: DurableLane = lane
        self._hosts = hosts
        self._store = store
        self._spec = spec
        self._figures = figures
        self._bus = Bus(slot.router, slot)
        self._key_of = spec.key
        self._idle_ms = None if spec.idle_after is None else spec.idle_after * 1000
        # By the place of their routes. They are called with an instance.
        self._functions: tuple[Callable[[Any, Any], object], ...] = tuple(
            getattr(spec.kind, str(route.method)) for route in slot.routes
        )
        # In the order in which they have got their last messages.
        self._instances: OrderedDict[str, _Instance] = OrderedDict()
        self._loading: dict[str, _Loading] = {}
        # Those of them that have ended; and how many messages wait for all.
        self._loaded: deque[_Loading] = deque()
        self._parked = 0
        # The queries whose answers wait until what they have seen is durable.
        self._held: dict[PendingRequest, None] = {}
        self._snapshots: list[_Instance] = []
        # Whether a turn of the actor is on its way, for loaded entities and snapshots.
        self._is_woken = False
        self._idle_timer: TimerId | None = None
        # Whether there are more than the class allows, because their events wait for the disk.
        self.is_crowded = False

    @property
    def is_busy(self) -> bool:
        """Whether messages wait for entities that are being loaded, or answers to queries wait for the disk."""
        return bool(self._loading or self._held)

    def health(self) -> EntityHealth:
        """Return the figures of its entities."""
        figures = self._figures
        return EntityHealth(len(self._instances), len(self._loading), figures.loads, figures.evictions)

    def start(self) -> Awaitable[None] | None:
        """Do nothing: entities are loaded when messages for them arrive."""

    # -- messages ----------------------------------------------------------------------------------------------------------

    def handle(self, item: PendingRequest | Delivery) -> Coroutine[Any, Any, None] | None:
        """Handle a message, or let it wait for its entity."""
        assert isinstance(item, PendingRequest)
        key: str = getattr(item.payload, self._key_of)
        instance = self._instances.get(key)
        if instance is None:
            self._park(key, item)
        else:
            self._instances.move_to_end(key)
            instance.used_ms = self._router.now_ms()
            self._run(instance, item)
        self._slot.current_message = None
        return None

    def _run(self, instance: _Instance, item: PendingRequest) -> None:
        """Call the handler of a message."""
        slot, route = self._slot, item.route
        assert route is not None
        slot.sync_message = item
        try:
            try:
                result = self._functions[route.place](instance.entity, item.payload)
            except Exception as error:
                if not slot.is_refusal(error):
                    raise
                self._refuse(instance, item, error)
            else:
                if route.is_durable:
                    self._commit(instance, item, route, result)
                else:
                    self._show(instance, item, route, result)
        except (Exception, SystemExit) as error:  # noqa: BLE001  # any exception is the failure of this message
            self._fail(instance, item, error)
        finally:
            slot.sync_message = None
        slot.note_answer()

    def _commit(self, instance: _Instance, item: PendingRequest, route: Route, result: Any) -> None:
        """Write what a command has decided: its events, its answer and what it has sent are in one page."""
        events: Sequence[Struct] = ()
        kind = type(result)  # pyright: ignore[reportUnknownVariableType]  # any class
        if kind is Decision:
            result, events = result.reply, result.events
        assert route.reply is not None
        data = route.reply.write(result)
        lane = self._lane
        if events:
            records = instance.stream.take(events)
            # From here on nothing fails.
            instance.committed += 1
            lane.write_records(records, instance.note_written)
        asked, ids = item.frame.metadata, self._router.ids
        name = ids.make()
        answer = new_frame("reply", route.type, data, name, ids.last_ms, asked.id, asked.correlation)
        # Not by way of the router's mailbox: it must be in the same page, also if the requester goes away meanwhile.
        lane.answer(item, answer, True)  # noqa: FBT003  # by position: it is compiled

    def _show(self, instance: _Instance, item: PendingRequest, route: Route, result: Any) -> None:
        """Answer a query when what it has seen is durable."""
        slot = self._slot
        if type(result) is Decision:
            raise ContractViolationError(
                f"{slot.id}: the handler of query {route.type} returned a Decision: a query changes nothing, return the reply"
            )
        assert route.reply is not None
        self._hold(instance, item, partial(slot.answer, item, "reply", route.type, route.reply.write(result)))

    def _hold(self, instance: _Instance, item: PendingRequest, answer: Callable[[], object]) -> None:
        if instance.is_durable:
            answer()
            return

        def release() -> None:
            self._held.pop(item, None)
            answer()

        self._held[item] = None
        instance.when_durable(release)

    def _refuse(self, instance: _Instance, item: PendingRequest, error: Exception) -> None:
        """Answer a message that its handler has refused.

        Raises:
            ContractViolationError: the contract does not declare the error in the refusal.
        """
        if item.entry is not None:
            # The answer is in a later page than what it has seen.
            self._slot.answer_refusal(item, error)
            return

        def refuse() -> None:
            try:
                self._slot.answer_refusal(item, error)
            except ContractViolationError as violation:
                self._fail(instance, item, violation)

        self._hold(instance, item, refuse)

    def _fail(self, instance: _Instance, item: PendingRequest, error: BaseException) -> None:
        """Answer a message whose handler has failed. Its entity is loaded anew for the next message."""
        self._drop(instance)
        logger.error("%s: %s failed", instance.stream.name, item.frame.type, exc_info=error)
        slot = self._slot
        fault_type, text = slot.note_crash(error)
        fault = self._router.faults.make(fault_type, text, request=item.frame, capability=slot.id)
        if item.entry is not None:
            self._router.answer(item, fault)
        else:
            self._hold(instance, item, partial(self._router.answer, item, fault))

    def _drop(self, instance: _Instance) -> None:
        """Remove an entity from memory whose state is not to be trusted."""
        key = instance.stream.key
        instance.is_dropped = True
        if self._instances.get(key) is instance:
            del self._instances[key]
        if not instance.is_durable:
            self._hosts.leaving[instance.stream.name] = instance

    def forget_dropped(self, instance: _Instance) -> None:
        """Take note that all events of a dropped entity are durable: it can be loaded."""
        self._hosts.leaving.pop(instance.stream.name, None)

    # -- loading -----------------------------------------------------------------------------------------------------------

    def _park(self, key: str, item: PendingRequest) -> None:
        """Let a message wait until its entity is loaded."""
        slot, router = self._slot, self._router
        loading = self._loading.get(key)
        if loading is None and (problem := _problem_of(key)):
            text, path = f"{item.frame.type}: the key {problem}", f"$.data.{self._key_of}"
            router.answer(
                item,
                router.faults.make(SCHEMA_ERROR, text, request=item.frame, path=path, capability=slot.id),
            )
            return
        if self._parked >= slot.mailbox:
            slot.reject(item)
            return
        if loading is None:
            loading = self._loading[key] = _Loading(key)
            self._load(loading)
        loading.waiting.append(item)
        self._parked += 1
        if item.entry is not None:
            # Commands for other entities may have its place.
            self._lane.pause(item)

    def _load(self, loading: _Loading) -> None:
        loading.instance = loading.failure = None
        loading.task = asyncio.get_running_loop().create_task(self._load_instance(loading))

    async def _load_instance(self, loading: _Loading) -> None:
        spec = self._spec
        name = stream_name(spec.types.entity, loading.key)
        try:
            leaving = self._hosts.leaving.get(name)
            if leaving is not None:
                await leaving.drained()
            entity: Entity[Any] = self._slot.spec.make()
            entity.key, entity.bus = loading.key, self._bus
            stream = self._store.stream(
                spec.types.entity, loading.key, entity, snapshot_every=spec.snapshot_every
            )
            await stream.recover()
            loading.instance = _Instance(self, entity, stream)
            self._figures.loads += 1
        except (Exception, SystemExit) as error:  # noqa: BLE001  # the messages that wait are answered with it
            loading.failure = error
        self._loaded.append(loading)
        self.wake()

    def wake(self) -> None:
        """Have `_take_turn` called in a turn of the actor."""
        actor, loop = self._slot.actor, self._router.loop
        if self._is_woken or actor is None:
            return
        self._is_woken = True
        turn = DeferredTurn(None, None, DeferredCall(self._take_turn, (), {}), actor)
        if not loop.try_send(actor, turn, lane=Lane.CONTROL):
            # A timer that is due waits for room.
            loop.kernel.start_timer(actor, 0, Lane.CONTROL.value, turn, 0)

    def _take_turn(self) -> None:
        """Handle the messages of entities that were loaded, and write snapshots."""
        self._is_woken = False
        snapshots, self._snapshots = self._snapshots, []
        for instance in snapshots:
            self._write_snapshot(instance)
        if self.is_crowded:
            self._shrink()
        left = _AT_ONCE
        while self._loaded and left > 0:
            loading = self._loaded.popleft()
            left -= self._serve(loading, left)
        if self._loaded:
            self.wake()

    def _serve(self, loading: _Loading, most: int) -> int:
        """Handle messages that have waited for an entity. Return how many."""
        instance, waiting = loading.instance, loading.waiting
        if instance is None:
            assert loading.failure is not None
            del self._loading[loading.key]
            self._parked -= len(waiting)
            self._fail_all(loading.key, waiting, loading.failure)
            return len(waiting)
        slot, count = self._slot, 0
        while waiting and count < most and not instance.is_dropped:
            item = waiting.popleft()
            self._parked -= 1
            count += 1
            if item.stage == DONE or item.is_answered:
                # It has timed out, or its requester has gone.
                self._router.counters.expired += 1
                continue
            slot.current_message = item
            self._run(instance, item)
        if waiting and instance.is_dropped:
            self._load(loading)
        elif waiting:
            self._loaded.append(loading)
        else:
            del self._loading[loading.key]
            if not instance.is_dropped:
                self._keep(loading.key, instance)
        return count

    def _fail_all(self, key: str, waiting: Iterable[PendingRequest], failure: BaseException) -> None:
        """Answer the messages for an entity that cannot be loaded. The next message for it tries again."""
        router, slot = self._router, self._slot
        name = stream_name(self._spec.types.entity, key)
        error: BaseException
        if isinstance(failure, JournalFullError):
            fault_type, text = (
                UNAVAILABLE,
                f"{name} cannot be loaded: {safe_str(failure)}; nothing was done: try again later",
            )
        else:
            logger.error("%s cannot be loaded", name, exc_info=failure)
            error = ActorFailedError(f"{name} cannot be loaded: {describe_exception(failure)}")
            fault_type, text = slot.note_crash(error)
        for item in waiting:
            if item.stage != DONE and not item.is_answered:
                router.answer(
                    item, router.faults.make(fault_type, text, request=item.frame, capability=slot.id)
                )

    # -- memory ------------------------------------------------------------------------------------------------------------

    def _keep(self, key: str, instance: _Instance) -> None:
        """Keep an entity in memory."""
        instance.used_ms = self._router.now_ms()
        self._instances[key] = instance
        self._shrink()
        if self._idle_timer is None and self._idle_ms is not None:
            self._start_idle_timer(self._idle_ms)

    def _shrink(self) -> None:
        """Remove entities while there are too many, those first that were idle for the longest time."""
        excess = len(self._instances) - self._spec.max_in_memory
        if excess > 0:
            oldest = list(islice(self._instances.items(), excess + _LOOK_AT))
            removable = [key for key, instance in oldest if instance.is_durable][:excess]
            for key in removable:
                self._evict(key)
            excess -= len(removable)
        self.is_crowded = excess > 0

    def _evict(self, key: str) -> None:
        del self._instances[key]
        self._figures.evictions += 1

    def _start_idle_timer(self, delay_ms: float) -> None:
        actor = self._slot.actor
        if actor is not None:
            turn = DeferredTurn(None, None, DeferredCall(self._remove_idle, (), {}), actor)
            self._idle_timer = self._router.loop.kernel.start_timer(
                actor, ceil(delay_ms), Lane.CONTROL.value, turn, 0
            )

    def _remove_idle(self) -> None:
        """Remove the entities that were idle for long enough."""
        self._idle_timer = None
        assert self._idle_ms is not None
        now = self._router.now_ms()
        for _ in range(_AT_ONCE):
            if not self._instances:
                return
            key, instance = next(iter(self._instances.items()))
            if instance.used_ms + self._idle_ms > now:
                break
            if instance.is_durable:
                self._evict(key)
            else:
                # The disk is full.
                instance.used_ms = now
                self._instances.move_to_end(key)
        if self._instances:
            oldest = next(iter(self._instances.values()))
            self._start_idle_timer(max(0, oldest.used_ms + self._idle_ms - now))

    def want_snapshot(self, instance: _Instance) -> None:
        """Write a snapshot of an entity soon. Its command does not wait for that."""
        self._snapshots.append(instance)
        self.wake()

    def _write_snapshot(self, instance: _Instance) -> None:
        # One that is not in memory any more may have a successor that has written later events.
        if self._instances.get(instance.stream.key) is instance:
            try:
                record = instance.stream.snapshot_record()
            except SystemExit:
                logger.exception("%s: no snapshot was taken", instance.stream.name)
                return
            if record is not None:
                # Behind all its events, which are in this batch or in earlier ones.
                self._lane.write_records([record], _do_nothing)

    # -- the end -----------------------------------------------------------------------------------------------------------

    def forget(self, item: PendingRequest) -> None:
        """Do nothing: a message that has ended is skipped in its turn."""

    def stop(self) -> Awaitable[None] | None:
        """Stop loading."""
        tasks = [
            each.task for each in self._loading.values() if each.task is not None and not each.task.done()
        ]
        for task in tasks:
            task.cancel()
        return _wait_for(tasks) if tasks else None

    def unanswered(self) -> Sequence[PendingRequest]:
        """Return the messages that wait for their entities, and the queries whose answers wait for the disk."""
        waiting = [item for each in self._loading.values() for item in each.waiting]
        return [*waiting, *self._held]

    def terminate(self) -> None:
        """Forget all entities. Those with events that are not durable yet are loaded when they are."""
        for loading in self._loading.values():
            if loading.task is not None:
                loading.task.cancel()
            if loading.instance is not None:
                self._drop(loading.instance)
        for instance in list(self._instances.values()):
            self._drop(instance)
        self._loading.clear()
        self._loaded.clear()
        self._held.clear()
        timer, self._idle_timer = self._idle_timer, None
        if timer is not None and timer.pending:
            self._router.loop.cancel_timer(timer)


def _problem_of(key: str) -> str:
    """Return what is wrong with a key; empty if nothing is."""
    if not key:
        return "is empty"
    if len(key) > LONGEST_KEY:
        return f"has {len(key)} characters: at most {LONGEST_KEY} are allowed"
    return ""


def _do_nothing() -> None:
    """Take no notice that a snapshot is durable."""


async def _wait_for(tasks: list[asyncio.Task[None]]) -> None:
    await asyncio.wait(tasks)
