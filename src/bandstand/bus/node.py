"""A node: capabilities, the router between them, and the adapters that connect clients to it.

    async with Node([Memory, Greeter], adapters=[UnixAdapter("/run/x.sock")]) as node:
        value = await node.bus.ask(Get(key="greeting"))

A node boots in seven phases: LOAD, DISCOVER, BUILD, SPAWN, ATTACH, ADAPT, READY. With a journal there is RECOVER before SPAWN. If a phase fails, the node stops what it has started,
in reverse order, and leaves nothing behind. It stops in reverse order too: the adapters accept no more input, requests in flight are
finished or answered, the capabilities stop, and the adapters get time to write their output.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

import msgspec
from msgspec import Raw

from bandstand.actor import ActorSystem
from bandstand.bus.admission import CapabilityCapacity, CapacityTimer
from bandstand.bus.boot_summary import BootSummary, summarize
from bandstand.bus.bus_client import Bus
from bandstand.bus.capability_monitor import CapabilityMonitor, TrialDue
from bandstand.bus.capability_set import CapabilitySet
from bandstand.bus.config import NodeConfig
from bandstand.bus.contracts.capability import (
    Capability,
    Contract,
    HandlerIndex,
    Provision,
    provide,
    read_capability,
)
from bandstand.bus.dead_letters import dead_letters_contract
from bandstand.bus.durable.node_journal import NodeJournal
from bandstand.bus.durable.steps import STEPS
from bandstand.bus.durations import to_whole_ms
from bandstand.bus.entity_host import EntityHosts
from bandstand.bus.fanout import EventFanout
from bandstand.bus.frame import Frame, IdGenerator, Metadata
from bandstand.bus.health import HealthTicker
from bandstand.bus.ingress import ClientEvent, ClientIngress, CreditCheck
from bandstand.bus.protocols import Adapter, Log
from bandstand.bus.reminders.book import OWNER as REMINDERS
from bandstand.bus.reminders.capability import ReminderCapability
from bandstand.bus.reminders.reminders import Reminders, RemindersDue
from bandstand.bus.request_table import RetryDue
from bandstand.bus.router import Router
from bandstand.bus.scheduler import ScheduledMessage, Scheduler, TimerCapability
from bandstand.bus.step_capability import StepCapability
from bandstand.bus.steps import StepRunner
from bandstand.bus.syscall import NodeInternals, Syscall
from bandstand.bus.tap import Filter, Tap, TapFunction
from bandstand.core import ChildExit, ChildStart, Clock, Down, MonotonicClock
from bandstand.core.logs import SafeLogger
from bandstand.errors import BootError, ContractError, InvalidArgumentError
from bandstand.errors.formatting import describe_exception, safe_repr, safe_str
from bandstand.errors.validation import to_seconds

if TYPE_CHECKING:
    import os
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from bandstand.bus.contracts.capability import CapabilitySpec

__all__ = ("Node",)

logger = SafeLogger("bandstand.bus")

# How often `wait_quiet` checks whether the node is idle, in seconds.
_QUIET_CHECK_S: Final = 0.005


class Node:
    """A node of the bus. Use it once, as `async with Node(...) as node`.

    Every node has the capabilities `Syscall`, `Timer`, `Reminder` and `Dead`; one with a journal also has `Step`.

    Args:
        capabilities: subclasses of `Capability`, results of `provide(...)`, or `Contract`s.
        adapters: connect clients to the node; none for a node that only its own program uses.
        config: the limits of the node; None for the defaults.
        log: keeps the last messages, for traces; None for a ring buffer in memory.
        journal: the directory of the node's journal. What the node accepts is on the disk before it is handled, and a node that dies
            continues where it was: see the guide. None for no journal.
        clock: the source of time; None for the clock of the system.
        wall_clock: the time in nanoseconds since 1970: that of messages, of the journal and of reminders.
        load: returns more capabilities; called when the node boots.
        on_ready: called with the node when it is ready, before it accepts the first client.

    Raises:
        InvalidArgumentError: `config` is not a `NodeConfig`.
    """

    def __init__(
        self,
        capabilities: Iterable[type[Capability] | Provision | Contract] = (),
        *,
        adapters: Iterable[Adapter] = (),
        config: NodeConfig | None = None,
        log: Log | None = None,
        journal: str | os.PathLike[str] | None = None,
        clock: Clock | None = None,
        wall_clock: Callable[[], int] = time.time_ns,
        load: Callable[[], Iterable[type[Capability] | Provision | Contract]] | None = None,
        on_ready: Callable[[Node], object] | None = None,
    ) -> None:
        config = NodeConfig() if config is None else config
        if not isinstance(config, NodeConfig):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers without types
            raise InvalidArgumentError(f"config is {safe_repr(config)}: pass a NodeConfig")
        self._sources = tuple(capabilities)
        self._load = load
        self._on_ready = on_ready
        self._adapters = tuple(adapters)
        self._started: list[Adapter] = []
        self._config = config
        self.loop = ActorSystem(config.loop_config, clock=clock)
        """The loop that the node runs on. You can spawn actors there."""
        self._loop_context: AbstractAsyncContextManager[ActorSystem] | None = None
        self._router = Router(self.loop, config, log, wall_clock=wall_clock)
        self._taps = self._router.taps
        self._fanout = EventFanout(self._router, MonotonicClock() if clock is None else clock)
        self._ingress = ClientIngress(self._router, self._fanout)
        self._scheduler = self._router.scheduler = Scheduler(self._router)
        self._reminders = self._router.reminders = Reminders(self._router)
        now_ms = self.loop.kernel.timers.elapsed_ms
        self._monitor = CapabilityMonitor(self._router)
        self._internals = NodeInternals(
            self._router, self._fanout, self._ingress, self._scheduler, self._monitor, now_ms
        )
        self._health_ticker = HealthTicker(
            self._router, self._fanout, now_ms, to_whole_ms("health_period", config.health_period)
        )
        self._journal = None if journal is None else NodeJournal(self._router, journal)
        if self._journal is not None:
            self._internals.history = self._journal.history
            self._journal.owners[REMINDERS] = self._reminders.book
            self._journal.requester_of = self._reminders.requester_of
            self._router.steps = StepRunner(self._router)
            self._journal.owners[STEPS] = self._router.steps.table
        self._router.on_event = self._fanout.publish
        self._router.on_durable_event = self._fanout.send
        self._router.check_event = self._fanout.check
        self._capabilities = CapabilitySet(self._router, self._monitor)
        self._router.handlers = {
            Down: self._monitor.handle_down,
            ChildExit: self._monitor.handle_supervisor_exit,
            TrialDue: self._monitor.start_trial,
            # The slot of the capability has reported its start already.
            ChildStart: lambda _start: None,
            ClientEvent: self._ingress.route_event,
            CreditCheck: self._ingress.check_credit,
            CapabilityCapacity: self._ingress.admission.grant,
            CapacityTimer: self._ingress.admission.check_waiting,
            ScheduledMessage: self._scheduler.fire,
            RemindersDue: self._reminders.send_due,
            HealthTicker: self._health_ticker.tick,
            RetryDue: self._router.retries.fire,
        }
        self._phase = "LOAD"
        self._summary: BootSummary | None = None
        self._boot_frame: Frame | None = None
        self.bus = Bus(self._router)
        """The client of this program: `await node.bus.ask(...)`."""

    @property
    def summary(self) -> BootSummary:
        """The summary of what has started.

        Raises:
            InvalidArgumentError: the node has not started.
        """
        if self._summary is None:
            raise InvalidArgumentError("the node has not started: enter it with `async with`")
        return self._summary

    @property
    def boot_message(self) -> Frame:
        """The `Sys.BootComplete` event that the node has published."""
        assert self._boot_frame is not None
        return self._boot_frame

    @property
    def journal(self) -> Path | None:
        """The directory of its journal; None if it has none."""
        return None if self._journal is None else self._journal.directory

    def tap(self, function: TapFunction, where: Filter | None = None) -> Tap:
        """Call a function with every message that passes, or those that `where` selects, and with their destinations.

        A node without taps has no cost for them.
        """
        return self._taps.add(function, where)

    def recent(self, limit: int = 100) -> Sequence[Frame]:
        """Return the last messages in the log, the oldest first."""
        return self._router.log.recent(limit)

    # --- start and stop -----------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        """Boot the node.

        Raises:
            BootError: a phase failed; the text says which, and why. Nothing is left behind.
        """
        loop_context: AbstractAsyncContextManager[ActorSystem] = self.loop
        await loop_context.__aenter__()
        self._loop_context = loop_context
        try:
            await self._boot()
        except BaseException as error:
            await self._stop(drain_timeout=0)
            if isinstance(error, Exception):
                raise BootError.of(self._phase, _error_text(error)) from error
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop the node gracefully."""
        await self._stop(drain_timeout=to_seconds("drain_timeout", self._config.drain_timeout))

    async def _boot(self) -> None:
        self._phase = "LOAD"
        sources = [*self._sources, *(self._load() if self._load is not None else ())]
        self._phase = "DISCOVER"
        internals = self._internals
        builtin = (
            provide(Syscall, internals),
            provide(TimerCapability, self._scheduler),
            provide(ReminderCapability, self._reminders),
            dead_letters_contract(self._router, self._fanout),
            *(() if self._router.steps is None else (provide(StepCapability, self._router.steps),)),
        )
        specs = (
            *(read_capability(each) for each in sources),
            *(read_capability(each, is_builtin=True) for each in builtin),
        )
        self._phase = "BUILD"
        specs = _with_entity_hosts(specs, self._journal)
        index = HandlerIndex.build(specs)
        self._internals.specs = specs
        # Before the capabilities start: they can send messages to each other while they do.
        slots = self._capabilities.create_slots(specs)
        self._router.install_slots(index, slots)
        self._fanout.install_subscribers()
        if self._journal is not None:
            # Before the capabilities start: what was open comes before what they send then.
            self._phase = "RECOVER"
            await self._journal.open()
            self._reminders.restore()
        self._phase = "SPAWN"
        self._router.is_running = True
        await self._capabilities.start(slots)
        if self._journal is not None:
            self._reminders.start()
        self._phase = "ATTACH"
        self._health_ticker.start()
        self._phase = "ADAPT"
        for adapter in self._adapters:
            await adapter.start(self._ingress)
            self._started.append(adapter)
        self._phase = "READY"
        subscriptions = {name: [found[0] for found in heard] for name, heard in index.subscriptions.items()}
        self._summary = summarize(
            specs,
            subscriptions,
            [adapter.name for adapter in self._started],
            to_whole_ms("timeout", self._config.timeout),
        )
        self._boot_frame = _boot_frame(self._summary, self._router.ids)
        self._router.post_event(self._boot_frame)
        if self._on_ready is not None:
            self._on_ready(self)
        self._ingress.unlock()

    async def _stop(self, *, drain_timeout: float) -> None:
        loop_context, self._loop_context = self._loop_context, None
        if loop_context is None:
            return
        self._router.is_draining = True
        self._ingress.lock()
        self._health_ticker.stop()
        self._reminders.stop()
        try:
            for adapter in self._started:
                await self._attempt(f"stop {adapter.name}", adapter.stop)
            if self._router.actor.is_alive:
                await self._drain(drain_timeout)
                self._scheduler.cancel_all()
                self._router.dismiss_all()
                if self._journal is not None:
                    await self._attempt("write its journal", self._journal.drain)
                    await self._attempt("stop the followers of its journal", self._journal.history.close)
                await self._attempt("stop the capabilities", self._capabilities.stop)
        finally:
            # Also if the task that stops the node is cancelled.
            await self._close(loop_context)

    async def _close(self, loop_context: AbstractAsyncContextManager[ActorSystem]) -> None:
        self._router.is_running = False
        self._fanout.flush_log()
        try:
            await self._attempt("remove the capabilities", self._capabilities.wait_killed)
            for adapter in self._started:
                await self._attempt(
                    f"close {adapter.name}",
                    partial(adapter.close, to_seconds("flush_timeout", self._config.flush_timeout)),
                )
        finally:
            if self._journal is not None:
                await self._attempt("close its journal", self._journal.close)
            try:
                self._router.log.close()
            except Exception:
                logger.exception("could not close the log %r", self._router.log)
            await loop_context.__aexit__(None, None, None)

    @staticmethod
    async def _attempt(what: str, step: Callable[[], Awaitable[None]]) -> None:
        """Run a step of the stop; if it fails, log the exception and continue."""
        try:
            await step()
        except Exception:
            logger.exception("the node could not %s; it continues to stop", what)

    async def _drain(self, timeout: float) -> None:
        """Wait until all requests in flight are answered, for at most `timeout` seconds."""
        if not self._router.in_flight or not timeout:
            return
        drained = asyncio.Event()

        def check() -> None:
            if not self._router.in_flight:
                drained.set()

        self._ingress.watch_credit(check)
        try:
            await asyncio.wait_for(drained.wait(), timeout)
        except TimeoutError:
            logger.warning(
                "the node stops with %d requests unanswered after %g s", self._router.in_flight, timeout
            )
        finally:
            self._ingress.watch_credit(None)

    async def wait_quiet(self) -> None:
        """Wait until the node is idle for good: no more input, no request in flight, no timer, and all output written."""
        # Polling is simpler here: idle means that many things are absent, and each would have to report its end.
        while not self._is_quiet():  # noqa: ASYNC110  # see above
            await asyncio.sleep(_QUIET_CHECK_S)

    def _is_quiet(self) -> bool:
        stats = self.loop.statistics()
        return (
            not any(adapter.can_produce for adapter in self._started)
            and self._router.is_quiet
            and not len(self._scheduler)
            and not stats.waiting
            and not stats.in_flight
            and all(adapter.is_flushed for adapter in self._started)
        )


def _with_entity_hosts(
    specs: tuple[CapabilitySpec, ...], journal: NodeJournal | None
) -> tuple[CapabilitySpec, ...]:
    """Return the specs with the hosts of those that have entities.

    Raises:
        ContractError: the node has no journal for them.
    """
    types = [spec.entity.types for spec in specs if spec.entity is not None]
    if not types:
        return specs
    if journal is None:
        name = next(spec.id for spec in specs if spec.entity is not None)
        raise ContractError(
            f"{name} has entities, whose events are in the journal of the node, and this node has none: pass Node(..., journal='data/journal'), or "
            f"start it with bandstand serve --journal data/journal"
        )
    hosts = EntityHosts()
    journal.keep_entities(hosts, types)
    return tuple(spec if spec.entity is None else replace(spec, host_factory=hosts) for spec in specs)


def _boot_frame(summary: BootSummary, ids: IdGenerator) -> Frame:
    """Return the summary as an event."""
    return Frame(
        kind="event",
        type=BootSummary.message_type,
        data=Raw(msgspec.json.encode(summary)),
        metadata=Metadata(ids(), ids.last_ms),
    )


def _error_text(error: Exception) -> str:
    """Return the text of an error, with its cause if that says more."""
    cause = error.__cause__
    more = (
        f" ({describe_exception(cause)})"
        if cause is not None and safe_str(cause) not in safe_str(error)
        else ""
    )
    return f"{safe_str(error)}{more}"
