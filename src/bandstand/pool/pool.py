"""A pool: its options, and the object that a program holds."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, cast, final, overload

from bandstand.actor import child, id_of
from bandstand.actor.declaration import checked_actor_class, checked_actor_loop
from bandstand.actor.dispatch import MailboxGauge
from bandstand.actor.handle import class_of
from bandstand.actor.reply import UNSET_TIMEOUT, check_ask_timeout
from bandstand.actor.status import make_report
from bandstand.core import ActorId, ExitReason
from bandstand.errors import (
    BandstandError,
    ChannelClosedError,
    ChannelTimeoutError,
    InvalidArgumentError,
    LoopClosedError,
    NoSuchActorError,
)
from bandstand.errors.formatting import safe_repr
from bandstand.errors.validation import Seconds, check_member
from bandstand.pool.dispatcher import Dispatcher, WorkerSlot
from bandstand.pool.routing import ByKey, OnDeath, Routing
from bandstand.pool.status import JobOutcome, PoolStatus
from bandstand.scope import Channel
from bandstand.supervision import Backoff, ChildSpec, DynamicSpec, Shutdown, spawn_supervisor
from bandstand.supervision.restart import DEFAULT_PERIOD
from bandstand.supervision.spec import required_init

if TYPE_CHECKING:
    from bandstand.actor import Actor, ActorReport, ActorSystem, Implements
    from bandstand.core import Context

__all__ = ("Pool", "PoolOptions", "Resizing", "pooled")

A = TypeVar("A", bound="Actor")
H = TypeVar("H")
I = TypeVar("I")  # noqa: E741  # I for interface
P = ParamSpec("P")

MAX_SIZE = 10_000
# For `ahead` and `max_tries`.
MAX_COUNT = 1 << 20


def checked_size(size: object) -> int:
    """Return the size of a pool.

    Raises:
        InvalidArgumentError: it is not an int from 1 to 10,000.
    """
    if type(size) is not int or not 1 <= size <= MAX_SIZE:
        raise InvalidArgumentError(f"size is {safe_repr(size)}: pass an int from 1 to {MAX_SIZE}")
    return size


@final
class Resizing:
    """The result of `Pool.resize`, which has taken effect: await it to wait until surplus workers have left."""

    __slots__ = ("_leaving",)

    def __init__(self, leaving: list[WorkerSlot]) -> None:
        self._leaving = leaving

    def __await__(self) -> Generator[Any, Any, None]:
        """Wait until the surplus workers have handled their messages and ended, or the pool has ended."""
        for slot in self._leaving:
            with suppress(ChannelClosedError):
                yield from slot.gone.receive().__await__()


@final
class Pool(Generic[H]):
    """Several supervised workers behind one handle, created by `pooled(...).spawn(...)`.

    Any thread may use `handle`, as it would a worker's handle. The rest is for the owner of the pool, on the loop's thread.
    """

    __slots__ = ("_dispatcher", "_ended", "_gauge", "_handle", "_loop", "_name", "_settings", "_supervisor")

    def __init__(
        self, loop: ActorSystem, kind: type[Any], spec: ChildSpec[Any], settings: PoolSettings
    ) -> None:
        loop.kernel.check_open()
        self._loop = loop
        self._settings = settings
        self._name = settings.name or f"pool of {kind.__name__}"
        self._ended: Channel[None] = Channel()
        self._dispatcher = dispatcher = Dispatcher(
            loop,
            kind,
            self._name,
            settings.routing,
            settings.on_death,
            settings.max_tries,
            self._retire,
            self._report,
        )
        dispatcher.actor = loop.spawn_raw(
            dispatcher,
            name=self._name,
            mailbox_cap=loop.kernel.actors.cap_for(settings.mailbox),
            supervisor=settings.supervisor,
        )
        self._gauge = MailboxGauge(dispatcher.actor)
        self._handle = cast(
            "H",
            loop.handle_at(
                kind, None, actor=dispatcher.actor, name=self._name, ask_timeout=settings.ask_timeout
            ),
        )
        try:
            self._supervisor = spawn_supervisor(
                loop,
                DynamicSpec(
                    child=replace(spec, init=self._init_of(spec)),
                    max_restarts=settings.max_restarts,
                    period=settings.period,
                ),
                name=f"{self._name} workers",
                parent=dispatcher.actor,
            )
            loop.kernel.actors.on_exit(dispatcher.actor, self._dispatcher_ended)
            loop.kernel.actors.on_exit(self._supervisor.actor, self._workers_ended)
            self._grow(settings.size)
        except BaseException:  # if a worker does not start, there is no pool
            loop.kernel.actors.stop_or_kill(dispatcher.actor)
            raise

    # -- for the owner ---------------------------------------------------------------------------------------------

    @property
    def handle(self) -> H:
        """The handle to send to, typed as the handle of one worker. Any thread may use it.

        The pool accepts or refuses a call as one actor does: it is full when the messages that wait in the pool and those that workers have
        fill its mailbox. `stop` and `kill` of this handle end the pool.
        """
        return self._handle

    @property
    def name(self) -> str:
        """The name of the pool."""
        return self._name

    def __actor_id__(self) -> ActorId:
        """Return the id of the pool's actor, for functions that take any actor."""
        return self._dispatcher.actor

    def status(self) -> PoolStatus:
        """Return the state of the pool, also after its end. The counters balance.

        Raises:
            WrongThreadError: called from another thread.
        """
        self._loop.kernel.check_thread()
        dispatcher = self._dispatcher
        unread = self._unread
        outcomes = dispatcher.counters.outcomes
        workers = tuple(slot.status() for slot in dispatcher.all_slots)
        return PoolStatus(
            workers=workers,
            accepted=dispatcher.counters.accepted + unread,
            waiting=dispatcher.waiting + unread,
            outstanding=sum(worker.outstanding for worker in workers),
            handled=outcomes[JobOutcome.HANDLED],
            failed=outcomes[JobOutcome.FAILED],
            withdrawn=outcomes[JobOutcome.WITHDRAWN],
            dead=outcomes[JobOutcome.DEAD],
            requeued=dispatcher.counters.requeued,
        )

    def resize(self, size: int) -> Resizing:
        """Change the number of workers: start missing ones, or let surplus ones, the last, leave.

        A leaving worker takes no new messages, handles those it has, and ends. No message is lost, and messages of one key stay in order.
        Await the result to wait until they have left.

        Raises:
            StartError: a worker did not start; those that started stay.
            InvalidArgumentError: it is not an int from 1 to 10,000.
            NoSuchActorError: the pool has ended.
            LoopClosedError, WrongThreadError, MaxActorsError: as for a spawn.
        """
        self._loop.kernel.check_open()
        checked_size(size)
        dispatcher = self._dispatcher
        if not dispatcher.is_open:
            raise NoSuchActorError(f"the pool {self._name!r} has ended and has no workers")
        surplus = dispatcher.slots[size:]
        del dispatcher.slots[size:]
        for slot in surplus:
            slot.is_leaving = True
            dispatcher.leaving.append(slot)
        try:
            self._grow(size)
        finally:
            dispatcher.resized()
        return Resizing(surplus)

    def stop(self, *, drain: bool = False) -> None:
        """End the pool and all workers: messages that wait become dead letters, asks are answered with `TargetEndedError`. A second call does nothing.

        With `drain` the pool accepts no more messages and ends when it has handled those it has.

        Raises:
            WrongThreadError: called from another thread.
        """
        self._loop.kernel.check_thread()
        with suppress(NoSuchActorError, LoopClosedError):
            (self._loop.kernel.actors.close_mailbox if drain else self._loop.stop_actor)(
                self._dispatcher.actor
            )

    async def drain(self, timeout: Seconds | None = 5.0) -> bool:
        """Accept no more messages, handle those in the pool, and end. Return whether that was done in time; if not, the rest is dead letters.

        Args:
            timeout: how long to wait at most; None for no limit.

        Raises:
            InvalidArgumentError: `timeout` is not a duration.
            WrongThreadError: called from another thread.
        """
        check_ask_timeout("timeout", timeout)
        self.stop(drain=True)
        if await self.ended(timeout):
            return True
        self.stop()
        await self.ended(None)
        return False

    async def ended(self, timeout: Seconds | None = None) -> bool:
        """Wait until the pool and its workers have ended. Return False at the timeout."""
        try:
            await self._ended.receive(timeout=timeout)
        except ChannelTimeoutError:
            return False
        except ChannelClosedError:
            pass
        return True

    def __repr__(self) -> str:
        return f"<Pool {self._name!r} of {len(self._dispatcher.slots)}>"

    def _report(self) -> ActorReport:
        workers = tuple(slot.name for slot in self._dispatcher.all_slots)
        handle: Any = self._handle
        return make_report(handle, class_of(handle).__qualname__, None, workers)

    @property
    def _unread(self) -> int:
        """How many user messages are in the mailbox of the pool's actor."""
        return max(0, self._gauge.depth() - self._dispatcher.system_messages)

    # -- workers -------------------------------------------------------------------------------------------------------------------

    def _init_of(self, spec: ChildSpec[Any]) -> Callable[..., object]:
        make = required_init(
            cast("Callable[[Any], object]", spec.init), f"a worker of the pool {self._name!r}"
        )

        def init(ctx: Context[Any], slot: WorkerSlot) -> object:
            state = make(ctx)
            actor = ctx.self_id
            self._loop.kernel.actors.on_exit(actor, lambda _reason, _cause: self._worker_ended(slot, actor))
            self._dispatcher.worker_started(slot, actor)
            return state

        return init

    def _grow(self, size: int) -> None:
        slots = self._dispatcher.slots
        while len(slots) < size:
            slot = WorkerSlot(self._settings.ahead)
            actor = self._supervisor.start_child(slot)
            # The slot stays: without a restart it would never have a worker.
            self._supervisor.restart_if_start_fails(actor)
            slot.name = self._supervisor.name_of(actor)
            slots.append(slot)

    def _worker_ended(self, slot: WorkerSlot, actor: ActorId) -> None:
        if slot.actor is actor:
            slot.actor = None

    def _retire(self, slot: WorkerSlot) -> None:
        """End a leaving worker that has nothing left to do."""
        self._dispatcher.leaving.remove(slot)
        actor = slot.actor
        # A supervisor that is ending ends the worker itself.
        with suppress(BandstandError):
            self._supervisor.stop_child(slot.name)
        if actor is None:
            slot.gone.close()
        else:
            self._loop.kernel.actors.on_exit(actor, lambda _reason, _cause: slot.gone.close())

    # -- the end -------------------------------------------------------------------------------------------------------------------

    def _dispatcher_ended(self, reason: ExitReason, cause: BaseException | None) -> None:
        dispatcher = self._dispatcher
        # The loop reports these as dead letters: they were never jobs.
        dispatcher.counters.write_off(self._unread)
        self._gauge.close()
        dispatcher.close((dispatcher.actor, self._name, reason.value, cause))
        # Not inside this exit, which may run inside a worker's turn.
        self._loop.kernel.inbox.call_soon(self._stop_workers)

    def _stop_workers(self) -> None:
        try:
            self._supervisor.stop()
        except BandstandError:
            # The supervisor or the loop is ending already.
            self._loop.kernel.actors.stop_or_kill(self._supervisor.actor)

    def _workers_ended(self, _reason: ExitReason, _cause: BaseException | None) -> None:
        self._dispatcher.has_lost_workers = True
        for slot in self._dispatcher.all_slots:
            slot.gone.close()
        self._ended.close()


# -- options -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolSettings:
    """The checked settings of a pool."""

    size: int
    routing: Routing | ByKey
    ahead: int
    on_death: OnDeath
    max_tries: int
    name: str | None
    mailbox: int | None
    ask_timeout: Seconds | None
    max_restarts: int | None
    period: Seconds
    backoff: Backoff | None
    shutdown: Seconds | Shutdown | None
    supervisor: ActorId | None

    def __post_init__(self) -> None:
        checked_size(self.size)
        if not isinstance(self.routing, Routing | ByKey):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers without types
            raise InvalidArgumentError(
                f"routing is {safe_repr(self.routing)}: pass a member of Routing, or ByKey(function)"
            )
        check_member("a pool: on_death", self.on_death, OnDeath)
        for field, value in (("ahead", self.ahead), ("max_tries", self.max_tries)):
            if type(value) is not int or not 1 <= value <= MAX_COUNT:
                raise InvalidArgumentError(
                    f"{field} is {safe_repr(value)}: pass an int from 1 to {MAX_COUNT}"
                )
        if self.on_death is OnDeath.REQUEUE_ALL and self.ahead > 1:
            raise InvalidArgumentError(
                f"ahead is {self.ahead} and on_death is REQUEUE_ALL: a message that is put back would come after those behind it. Leave "
                f"ahead at 1, or choose REQUEUE_WAITING."
            )
        check_ask_timeout("ask_timeout", self.ask_timeout)


@final
class PoolOptions:
    """Spawns pools with these options, returned by `pooled`."""

    __slots__ = ("_loop", "_settings")

    def __init__(self, loop: ActorSystem, settings: PoolSettings) -> None:
        self._loop = loop
        self._settings = settings

    @overload
    def spawn(self, kind: Callable[P, Implements[I]], /, *args: P.args, **kwargs: P.kwargs) -> Pool[I]: ...
    @overload
    def spawn(self, kind: Callable[P, A], /, *args: P.args, **kwargs: P.kwargs) -> Pool[A]: ...
    def spawn(self, kind: Any, /, *args: Any, **kwargs: Any) -> Pool[Any]:
        """Start a pool of workers of a class. Each worker, and each restart of it, is constructed with these arguments.

        Raises:
            StartError: the constructor or `on_start` of a worker failed. Then there is no pool.
            InvalidArgumentError: it is not a class of actors, or an option is not valid.
            MaxActorsError, OutOfMemoryError, LoopClosedError, WrongThreadError: as for `loop.spawn`.
        """
        settings = self._settings
        known = checked_actor_class(kind)
        options = child(
            settings.name or known.__name__,
            keep_mailbox=settings.on_death is not OnDeath.DEAD_LETTER,
            backoff=settings.backoff,
            shutdown=settings.shutdown,
        )
        return Pool(self._loop, known, options.of(kind, *args, **kwargs), settings)


def pooled(
    loop: ActorSystem,
    size: int = 4,
    *,
    routing: Routing | ByKey = Routing.ROUND_ROBIN,
    ahead: int = 1,
    on_death: OnDeath = OnDeath.REQUEUE_WAITING,
    max_tries: int = 3,
    name: str | None = None,
    mailbox: int | None = None,
    ask_timeout: Seconds | None = UNSET_TIMEOUT,
    max_restarts: int | None = None,
    period: Seconds = DEFAULT_PERIOD,
    backoff: Backoff | None = None,
    shutdown: Seconds | Shutdown | None = None,
    supervisor: object = None,
) -> PoolOptions:
    """Return options for pools of supervised workers: `pooled(loop, 8).spawn(Renderer, quality=3).handle.render(page)`.

    Args:
        loop: the loop of the workers.
        size: the number of workers; `Pool.resize` changes it.
        routing: which worker gets a message.
        ahead: how many messages a worker may have at a time, including the one it is handling. With 1, no message waits behind a slow one
            while another worker is free; with more, methods that take a list get longer lists.
        on_death: what happens to the messages of a worker that dies.
        max_tries: how many workers may die while handling one message before it is a dead letter, with `OnDeath.REQUEUE_ALL`.
        name: the name of the pool; a worker's name is this with a number.
        mailbox: how many messages the pool takes before it is full. It bounds all messages of the pool, including those that workers have.
        ask_timeout: the timeout of asks; None for no limit. The default is that of the worker's class.
        max_restarts: how many restarts of all workers together are allowed within `period`; None is as in `SupervisorSpec`. One more ends the pool.
        period: the time window in which restarts are counted.
        backoff: the delay before a worker is restarted.
        shutdown: how long a worker has to end, as for `ChildSpec`.
        supervisor: a handle or an actor's id that gets a `ChildExit` when the pool ends. Without one, a pool that gives up is logged.

    Raises:
        InvalidArgumentError: an option is not valid.
    """
    settings = PoolSettings(
        size=size,
        routing=routing,
        ahead=ahead,
        on_death=on_death,
        max_tries=max_tries,
        name=name,
        mailbox=mailbox,
        ask_timeout=ask_timeout,
        max_restarts=max_restarts,
        period=period,
        backoff=backoff,
        shutdown=shutdown,
        supervisor=supervisor if supervisor is None or isinstance(supervisor, ActorId) else id_of(supervisor),
    )
    return PoolOptions(checked_actor_loop(loop), settings)
