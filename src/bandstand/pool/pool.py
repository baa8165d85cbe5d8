"""A running pool: what a program holds of it."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast, final

from bandstand.core import ActorId, ExitReason
from bandstand.core.lifelines import mourn
from bandstand.core.lowlevel import call_afar, check_open, check_thread, close_mailbox, end_actor
from bandstand.errors import (
    BandstandError,
    ChannelClosed,
    ChannelTimeout,
    InvalidArgument,
    LoopClosed,
    NoSuchActor,
)
from bandstand.pool.bench import Bench
from bandstand.pool.router import Router
from bandstand.pool.status import Fate, PoolStatus
from bandstand.scope import Channel
from bandstand.service.lowlevel import check_ask_ms, class_of, gauge_of, handle_of, report_of
from bandstand.supervise import ChildSpec, DynamicSpec, spawn_supervisor

if TYPE_CHECKING:
    from bandstand.core import Context
    from bandstand.pool.options import Settings
    from bandstand.service import ActorReport, Loop

__all__ = ("Pool", "Resizing", "checked_size")

H = TypeVar("H")

LARGEST = 10_000


def checked_size(size: object) -> int:
    """How many workers a pool is to have.

    Raises:
        InvalidArgument: it is no int from 1 to 10,000.
    """
    if type(size) is not int or not 1 <= size <= LARGEST:
        raise InvalidArgument(f"size is {size!r}: pass how many workers, from 1 to {LARGEST}")
    return size


@final
class Resizing:
    """That a pool has another size. It has it already; to await it is to wait until those that leave have left."""

    __slots__ = ("_leaving",)

    def __init__(self, leaving: list[Bench]) -> None:
        self._leaving = leaving

    def __await__(self) -> Generator[Any, Any, None]:
        """Wait until the last of the surplus has handled what it had, and has ended; or the pool has."""
        for bench in self._leaving:
            with suppress(ChannelClosed):
                yield from bench.gone.receive().__await__()


@final
class Pool(Generic[H]):
    """Several supervised workers behind one handle. `pooled(...)` makes one.

    `handle` is what one uses: as a handle of one worker. The rest is for whoever owns the pool, on the loop's own thread.
    """

    __slots__ = ("_gauge", "_handle", "_loop", "_name", "_over", "_router", "_settings", "_supervisor")

    def __init__(self, loop: Loop, kind: type[Any], spec: ChildSpec[Any], settings: Settings) -> None:
        check_open(loop)
        self._loop = loop
        self._settings = settings
        self._name = settings.name or f"pool of {kind.__name__}"
        self._over: Channel[None] = Channel()
        self._router = router = Router(
            loop,
            kind,
            self._name,
            settings.routing,
            settings.on_death,
            settings.max_tries,
            self._retire,
            self._report,
        )
        router.actor = loop.spawn(
            router, name=self._name, mailbox_cap=settings.mailbox_cap, supervisor=settings.supervisor
        )
        self._gauge = gauge_of(router.actor)
        self._handle = cast("H", handle_of(kind, loop, router.actor, self._name, settings.ask_ms))
        try:
            self._supervisor = spawn_supervisor(
                loop,
                DynamicSpec(
                    child=replace(spec, init=self._init_of(spec)),
                    intensity=settings.intensity,
                    period_ms=settings.period_ms,
                ),
                name=f"{self._name} workers",
                parent=router.actor,
            )
            mourn(loop, router.actor, self._router_ended)
            mourn(loop, self._supervisor.actor, self._workers_ended)
            self._grow(settings.size)
        except BaseException:  # a worker that does not start, or no room: then there is no pool
            end_actor(loop, router.actor)
            raise

    # -- what a program does with it ---------------------------------------------------------------------------------------------

    @property
    def handle(self) -> H:
        """What to send to: typed and used as the handle of one worker. From any thread.

        A call is accepted or refused as by one actor: the pool's mailbox is full when as many messages are in the pool, waiting or with
        workers, as it has room for. Its `stop` and `kill` are the pool's.
        """
        return self._handle

    @property
    def name(self) -> str:
        """For people."""
        return self._name

    def __actor_id__(self) -> ActorId:
        """The id of the pool's actor, for what takes any kind of actor."""
        return self._router.actor

    def status(self) -> PoolStatus:
        """A picture of it; its books balance. Also when it has ended.

        Raises:
            WrongThread: called off the loop's thread.
        """
        check_thread(self._loop)
        router = self._router
        unread = self._unread
        fates = router.books.fates
        workers = tuple(bench.status() for bench in router.everyone)
        return PoolStatus(
            workers=workers,
            accepted=router.books.accepted + unread,
            waiting=router.waiting + unread,
            outstanding=sum(worker.outstanding for worker in workers),
            handled=fates[Fate.HANDLED],
            failed=fates[Fate.FAILED],
            withdrawn=fates[Fate.WITHDRAWN],
            dead=fates[Fate.DEAD],
            requeued=router.books.requeued,
        )

    def resize(self, size: int) -> Resizing:
        """Have so many workers from now on: those that are missing are started, those that are too many, the last ones, leave.

        Who leaves takes nothing new, handles what it has, and ends. Nothing is lost, and the order of a key holds. Await what this
        returns to wait for them.

        Raises:
            StartFailed: a worker did not start; those that did stay.
            InvalidArgument: it is no int from 1 to 10,000.
            NoSuchActor: the pool has ended.
            LoopClosed, WrongThread, MaxActors: as for a spawn.
        """
        check_open(self._loop)
        checked_size(size)
        router = self._router
        if not router.is_open:
            raise NoSuchActor(f"the pool {self._name!r} has ended, and has no workers any more")
        surplus = router.benches[size:]
        del router.benches[size:]
        for bench in surplus:
            bench.is_leaving = True
            router.leaving.append(bench)
        try:
            self._grow(size)
        finally:
            router.rearrange()
        return Resizing(surplus)

    def stop(self, *, drain: bool = False) -> None:
        """End, with all workers: what waits is dead letters, asks are answered with `TargetEnded`. If it has ended, nothing happens.

        With `drain` it accepts nothing from now on, and ends when everything it has is handled.

        Raises:
            WrongThread: called off the loop's thread.
        """
        check_thread(self._loop)
        with suppress(NoSuchActor, LoopClosed):
            (close_mailbox if drain else type(self._loop).stop_actor)(self._loop, self._router.actor)

    async def drain(self, within_ms: float | None = 5000) -> bool:
        """Accept nothing any more, handle everything, and end; whether that was done in time. Else the rest is dead letters.

        Args:
            within_ms: how long that may take; None for ever.

        Raises:
            InvalidArgument: that is no time.
            WrongThread: called off the loop's thread.
        """
        check_ask_ms("within_ms", within_ms)
        self.stop(drain=True)
        if await self.ended(within_ms):
            return True
        self.stop()
        await self.ended(None)
        return False

    async def ended(self, within_ms: float | None = None) -> bool:
        """Wait until it has ended, and its workers with it; False if that takes longer."""
        try:
            await self._over.receive(timeout_ms=within_ms)
        except ChannelTimeout:
            return False
        except ChannelClosed:
            pass
        return True

    def __repr__(self) -> str:
        return f"<Pool {self._name!r} of {len(self._router.benches)}>"

    def _report(self) -> ActorReport:
        workers = tuple(bench.name for bench in self._router.everyone)
        handle: Any = self._handle
        return report_of(handle, class_of(handle).__qualname__, None, workers)

    @property
    def _unread(self) -> int:
        """What has not had its turn yet, but for what is no message of a user."""
        return max(0, self._gauge.depth() - self._router.signals)

    # -- its workers ---------------------------------------------------------------------------------------------------------------

    def _init_of(self, spec: ChildSpec[Any]) -> Callable[..., object]:
        make = cast("Callable[[Any], object]", spec.init)

        def init(ctx: Context[Any], bench: Bench) -> object:
            state = make(ctx)
            actor = ctx.self_id
            mourn(self._loop, actor, lambda _reason, _cause: self._worker_ended(bench, actor))
            self._router.came(bench, actor)
            return state

        return init

    def _grow(self, size: int) -> None:
        benches = self._router.benches
        while len(benches) < size:
            bench = Bench(self._settings.ahead)
            actor = self._supervisor.start_child(bench)
            bench.name = self._supervisor.name_of(actor)
            benches.append(bench)

    def _worker_ended(self, bench: Bench, actor: ActorId) -> None:
        if bench.actor is actor:
            bench.actor = None

    def _retire(self, bench: Bench) -> None:
        """Have a worker end that has nothing left to do, and is not wanted any more."""
        self._router.leaving.remove(bench)
        actor = bench.actor
        # Its supervisor may be ending, and ends it, too.
        with suppress(BandstandError):
            self._supervisor.stop_child(bench.name)
        if actor is None:
            bench.gone.close()
        else:
            mourn(self._loop, actor, lambda _reason, _cause: bench.gone.close())

    # -- its end -------------------------------------------------------------------------------------------------------------------

    def _router_ended(self, reason: ExitReason, cause: BaseException | None) -> None:
        router = self._router
        # The loop tells of these: they were not passed on.
        router.books.write_off(self._unread)
        self._gauge.forget()
        router.close((router.actor, self._name, reason.value, cause))
        # Not inside this exit, which may be part of a worker's own turn.
        call_afar(self._loop, self._stop_workers)

    def _stop_workers(self) -> None:
        try:
            self._supervisor.stop()
        except BandstandError:
            # It is ending, or the loop is: they end as all do.
            end_actor(self._loop, self._supervisor.actor)

    def _workers_ended(self, _reason: ExitReason, _cause: BaseException | None) -> None:
        self._router.is_bereft = True
        for bench in self._router.everyone:
            bench.gone.close()
        self._over.close()
