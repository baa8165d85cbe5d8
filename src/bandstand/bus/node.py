"""A node: capabilities behind one router, and the adapters by which the world reaches them.

    async with Node([Memory, Greeter], adapters=[UnixAdapter("/run/x.sock")]) as node:
        value = await node.bus.ask(Get(key="greeting"))

It starts in seven phases, each of which can fail: then what had been started is ended again, the last first, and nothing is left
behind. It stops the other way round: adapters take in nothing more, requests under way are finished or answered, capabilities are
stopped, and what was written to clients is given time to reach them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Self

from bandstand.actor import Loop
from bandstand.bus.admission import Room, Waited
from bandstand.bus.backstage import Backstage
from bandstand.bus.books import Books
from bandstand.bus.company import Company
from bandstand.bus.config import NodeConfig
from bandstand.bus.contracts.capability import Capability, Provision, provide
from bandstand.bus.contracts.contract import Contract
from bandstand.bus.contracts.declare import blueprint_of
from bandstand.bus.contracts.index import Index
from bandstand.bus.dead import dead_of
from bandstand.bus.fanout import Fanout
from bandstand.bus.frame import Frame
from bandstand.bus.gate import Credit, Gate, Said
from bandstand.bus.hot.idmaker import IdMaker
from bandstand.bus.hot.log import MemoryLog
from bandstand.bus.outlet import Outlet
from bandstand.bus.ports import Adapter, Log
from bandstand.bus.pulse import Pulse
from bandstand.bus.retries import Again
from bandstand.bus.router import Router
from bandstand.bus.schedule import Due, Schedule
from bandstand.bus.summary import BootSummary, boot_frame, said_of, summarize
from bandstand.bus.syscall import Syscall
from bandstand.bus.tap import Filter, Tap, Taps, Watch
from bandstand.bus.timer import Timer
from bandstand.bus.ward import Trial, Ward
from bandstand.core import ChildExit, ChildStart, Clock, Down
from bandstand.core.logs import SafeLogger
from bandstand.errors import BootFailed, InvalidArgument
from bandstand.errors.formatting import safe_repr

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

__all__ = ("Node",)

logger = SafeLogger("bandstand.bus")

# How often it is looked whether a node that runs until it has nothing to do has nothing to do, in seconds.
LOOK = 0.005


class Node:
    """A node of the bus. Use it as `async with Node(...) as node`, once.

    `Syscall`, `Timer` and `Dead` are always there.

    Args:
        capabilities: classes that derive from `Capability`, `provide(...)` of such, or `Contract`s.
        adapters: by what the world reaches it; none for a node inside a program.
        config: its limits; None for the defaults.
        log: where everything that passes is written down; None for a ring in memory.
        clock: where its time comes from; None for the machine's own.
        load: finds more capabilities when the node boots.
        on_ready: called with the node when it is ready, before the first client is let in.
    """

    def __init__(
        self,
        capabilities: Iterable[type[Capability] | Provision | Contract] = (),
        *,
        adapters: Iterable[Adapter] = (),
        config: NodeConfig | None = None,
        log: Log | None = None,
        clock: Clock | None = None,
        load: Callable[[], Iterable[type[Capability] | Provision | Contract]] | None = None,
        on_ready: Callable[[Node], object] | None = None,
    ) -> None:
        config = NodeConfig() if config is None else config
        if not isinstance(config, NodeConfig):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers without types
            raise InvalidArgument(f"config is {safe_repr(config)}: pass a NodeConfig")
        self._sources = tuple(capabilities)
        self._load = load
        self._on_ready = on_ready
        self._adapters = tuple(adapters)
        self._started: list[Adapter] = []
        self._config = config
        self.loop = Loop(config.loop_config, clock=clock)
        """The loop it lives on; actors of one's own can be spawned there."""
        self._riding: AbstractAsyncContextManager[Loop] | None = None
        ids = IdMaker()
        self._taps = Taps()
        self._router = Router(
            self.loop,
            config,
            ids=ids,
            log=MemoryLog(config.log_count, config.log_bytes) if log is None else log,
            taps=self._taps,
            books=Books(),
        )
        self._fanout = Fanout(self._router)
        self._gate = Gate(self._router, self._fanout)
        self._schedule = self._router.schedule = Schedule(self._router)
        now_ms = self.loop.kernel.timers.elapsed_ms
        self._ward = Ward(self._router)
        self._backstage = Backstage(
            self._router, self._fanout, self._gate, self._schedule, self._ward, now_ms
        )
        self._pulse = Pulse(self._backstage, config.health_ms)
        self._router.on_event = self._fanout.pass_on
        self._router.check_event = self._fanout.check
        self._company = Company(self._router, self._ward)
        self._router.handlers = {
            Down: self._ward.take_fall,
            ChildExit: self._ward.take_exit,
            Trial: self._ward.try_again,
            # The seat has told already.
            ChildStart: lambda _start: None,
            Said: self._gate.route_event,
            Credit: self._gate.look_again,
            Room: self._gate.admission.look,
            Waited: self._gate.admission.take_time,
            Due: self._schedule.fire,
            Pulse: self._pulse.beat,
            Again: self._router.retries.fire,
        }
        self._phase = "LOAD"
        self._summary: BootSummary | None = None
        self._boot_frame: Frame | None = None
        self.bus = Outlet(self._router)
        """Where a program says something: `await node.bus.ask(...)`."""

    # -- what can be seen ------------------------------------------------------------------------------------------------------

    @property
    def summary(self) -> BootSummary:
        """What has started. An `InvalidArgument` if nothing has yet."""
        if self._summary is None:
            raise InvalidArgument("the node has not started: enter it with `async with`")
        return self._summary

    @property
    def boot_message(self) -> Frame:
        """The `Sys.BootComplete` that it has published."""
        assert self._boot_frame is not None
        return self._boot_frame

    def tap(self, function: Watch, where: Filter | None = None) -> Tap:
        """Have a function see everything that passes, or what `where` says, and where it goes. It costs nothing while there is none."""
        return self._taps.add(function, where)

    def recent(self, limit: int = 100) -> Sequence[Frame]:
        """The last messages that have passed, the oldest first."""
        return self._router.log.recent(limit)

    # -- life ------------------------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        """Boot.

        Raises:
            BootFailed: it did not start; says in which phase, and why. Nothing is left behind.
        """
        riding: AbstractAsyncContextManager[Loop] = self.loop
        await riding.__aenter__()
        self._riding = riding
        try:
            await self._boot()
        except BaseException as error:
            await self._end(drain_ms=0)
            if isinstance(error, Exception):
                raise BootFailed.of(self._phase, said_of(error)) from error
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop in good order."""
        await self._end(drain_ms=self._config.drain_ms)

    async def _boot(self) -> None:
        self._phase = "LOAD"
        sources = [*self._sources, *(self._load() if self._load is not None else ())]
        self._phase = "DISCOVER"
        backstage = self._backstage
        own = (provide(Syscall, backstage), provide(Timer, backstage), dead_of(backstage))
        blueprints = (
            *(blueprint_of(each) for each in sources),
            *(blueprint_of(each, is_builtin=True) for each in own),
        )
        self._phase = "BUILD"
        index = Index.build(blueprints)
        self._backstage.blueprints = blueprints
        # Before anybody starts: what a capability says while it does goes to whom it is for.
        seats = self._company.seat(blueprints)
        self._router.seat_all(index, seats)
        self._fanout.seat_all()
        self._phase = "SPAWN"
        self._router.is_running = True
        await self._company.start(seats)
        self._phase = "ATTACH"
        self._pulse.begin()
        self._phase = "ADAPT"
        for adapter in self._adapters:
            await adapter.start(self._gate)
            self._started.append(adapter)
        self._phase = "READY"
        subscriptions = {name: [found[0] for found in heard] for name, heard in index.subscriptions.items()}
        self._summary = summarize(
            blueprints, subscriptions, [adapter.name for adapter in self._started], self._config.timeout_ms
        )
        self._boot_frame = boot_frame(self._summary, self._router.ids)
        self._router.post_event(self._boot_frame)
        if self._on_ready is not None:
            self._on_ready(self)
        self._gate.unlock()

    async def _end(self, *, drain_ms: float) -> None:
        riding, self._riding = self._riding, None
        if riding is None:
            return
        self._router.is_draining = True
        self._gate.lock()
        self._pulse.end()
        try:
            for adapter in self._started:
                await self._attempt(f"stop {adapter.name}", adapter.stop)
            if self._router.actor.is_alive:
                await self._drain(drain_ms)
                self._schedule.cancel_all()
                self._router.dismiss_all()
                await self._attempt("stop the capabilities", self._company.stop)
        finally:
            # Also if whoever waits for the end is cancelled meanwhile.
            await self._let_go(riding)

    async def _let_go(self, riding: AbstractAsyncContextManager[Loop]) -> None:
        self._router.is_running = False
        try:
            await self._attempt("clear out", self._company.clear)
            for adapter in self._started:
                await self._attempt(
                    f"close {adapter.name}", partial(adapter.close, self._config.flush_ms / 1000)
                )
        finally:
            try:
                self._router.log.close()
            except Exception:
                logger.exception("the log %r could not be closed", self._router.log)
            await riding.__aexit__(None, None, None)

    @staticmethod
    async def _attempt(what: str, step: Callable[[], Awaitable[None]]) -> None:
        """One step of the end: whatever comes of it, the others are taken too."""
        try:
            await step()
        except Exception:
            logger.exception("the node could not %s; it goes on to stop", what)

    async def _drain(self, within_ms: float) -> None:
        """Wait for requests that are under way, but not for ever."""
        if not self._router.in_flight or not within_ms:
            return
        drained = asyncio.Event()

        def look() -> None:
            if not self._router.in_flight:
                drained.set()

        self._gate.watch_credit(look)
        try:
            await asyncio.wait_for(drained.wait(), within_ms / 1000)
        except TimeoutError:
            logger.warning("not answered in time, and given up: %d", self._router.in_flight)
        finally:
            self._gate.watch_credit(None)

    async def wait_quiet(self) -> None:
        """Wait until nothing can happen any more: nothing comes in, nothing is under way, nothing is scheduled, all is written."""
        # Quiescence is the absence of everything: to look now and then is simpler than to have everything report its end.
        while not self._is_quiet():  # noqa: ASYNC110  # see above
            await asyncio.sleep(LOOK)

    def _is_quiet(self) -> bool:
        books = self.loop.statistics()
        return (
            not any(adapter.can_produce for adapter in self._started)
            and self._router.is_quiet
            and not len(self._schedule)
            and not books.waiting
            and not books.in_flight
            and all(adapter.is_flushed for adapter in self._started)
        )
