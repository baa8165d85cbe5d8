"""A kernel and its hosts: being attached to one and leaving it, and coroutines that begin when there is none.

What it does while it is attached is `hot.pumping`.
"""

from __future__ import annotations

import threading
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from bandstand.core.asyncio_host import AsyncioHost, new_event_loop
from bandstand.core.coroutines import PendingCoroutine, TaskPool
from bandstand.core.enums import MAX_INLINE_TICKS
from bandstand.core.hot.pumping import Pumping
from bandstand.core.logs import SafeLogger
from bandstand.core.watchdog import Watchdog
from bandstand.errors import BandstandError, InternalError, LoopBusy
from bandstand.errors.formatting import safe_repr

if TYPE_CHECKING:
    from contextvars import Context

    from bandstand.core.clock import Clock
    from bandstand.core.config import LoopConfig
    from bandstand.core.ids import ActorId
    from bandstand.core.mailbox import ActorCell

__all__ = ("Pumped",)

logger = SafeLogger("bandstand.core")


class Pumped(Pumping):
    """The kernel on a host. `Loop` is what to use."""

    def __init__(self, loop_tag: int, config: LoopConfig, clock: Clock) -> None:
        super().__init__(
            loop_tag,
            config.max_actors,
            config.sys_reserved,
            config.max_msgs_per_actor,
            config.max_actors_per_tick,
            int(config.max_tick_ms * 1_000_000),
            clock.now_ns,
        )
        self._config = config
        self._default_cap = config.default_mailbox_cap
        self._owner_thread = threading.current_thread()
        self._host = None
        self._own_host: AsyncioHost | None = None
        self._guest_host: AsyncioHost | None = None
        self._drivers = None
        self._unbegun: dict[PendingCoroutine, None] = {}  # coroutines that wait for somebody to drive us
        self._watchdog: Watchdog | None = None
        self._past_wakeups = self._mentioned = 0
        self._on_park = None
        self._until_idle = self._is_destroyed = self._is_armed = False
        self._is_by_hand = False
        self._broken: BandstandError | None = None
        self._stop_by: float | None = None  # when a stop that has begun must be over, on the host's clock
        self._leftover: list[Any] = []  # driver tasks of somebody's event loop that nobody has waited for yet
        self._on_idle = getattr(clock, "on_idle", None)

    @property
    def config(self) -> LoopConfig:
        """The limits it was made with."""
        return self._config

    def _owned(self) -> AsyncioHost:
        if self._own_host is None:
            self._own_host = AsyncioHost.own(self.config.loop_factory or new_event_loop, self._pump)
        return self._own_host

    def _attach(self, host: AsyncioHost) -> None:
        if self._drivers is not None and self._drivers.host is not host.loop:
            if self._in_flight > len(self._unbegun):
                raise LoopBusy(
                    "async behaviors of this loop are in flight on another event loop: finish them there"
                )
            # Only parked ones are left there; they end with that event loop.
            self._drivers.close()
            self._drivers = None
        host.attach(self)
        self._host = host
        self._ride_context = host.context
        self._until_idle = False
        self._looking = self._on_idle is not None
        self._awake = True
        self._may_inline = True
        self._inline_left = MAX_INLINE_TICKS
        if self._unbegun:
            self._begin_unbegun()
        if self.config.stall_ms is not None:
            self._watching = True
            self._watchdog = Watchdog(self._at_hand, self.config.stall_ms, logger, self._note_stall)

    def _detach(self) -> None:
        """Leave the host: nothing of ours stays under way there."""
        self._may_inline = False
        host = self._host
        if host is not None:
            host.detach()
            self._is_armed = False
            self._past_wakeups += host.wakeups
            host.wakeups = 0
            self._host = None
        self._looking = False
        if self._watchdog is not None:
            self._watching = False
            self._watchdog.stop()
            self._watchdog = None
        self._awake = True

    def _is_running(self) -> bool:
        return self._host is not None and self._host.owned

    def _take_thread(self) -> None:
        self._claim()
        self._owner_thread = threading.current_thread()

    def _break(self, error: BaseException) -> None:
        """End the loop: the runtime itself has failed."""
        # By its type: isinstance() asks the exception for its __class__, which may raise.
        if issubclass(type(error), (KeyboardInterrupt, SystemExit)):
            self._leave(error)
            return
        self._broken = InternalError(f"the loop cannot go on: {safe_repr(error)} came out of a tick")
        self._broken.__cause__ = error
        self._closed = True
        if self._host is not None:
            self._host.call_soon()

    def _note_stall(self, actor: ActorId, name: str | None, message: object) -> str:
        """From the watchdog's thread: an actor blocks the loop; what with, for people. The loop above overrides it."""
        raise NotImplementedError

    def _wake_from_afar(self) -> None:
        if host := self._host or (self._guest_host if self._closed else None):
            host.call_soon_threadsafe(None if self._host else self._drain)  # without a host no tick comes

    def _perform_later(
        self, cell: ActorCell, coroutine: Coroutine[Any, Any, Any], context: Context | None
    ) -> None:
        if self._drivers is not None and self._drivers.is_closing:
            # The loop has ended, and an actor whose handler was in flight ends now: this is waited for, too.
            self._drivers.start_later(cell, coroutine, context)
        elif self._host is None:
            # Whoever will drive us may do it on any event loop.
            unbegun = PendingCoroutine(cell, coroutine, context, self._withdraw_unbegun)
            self._unbegun[unbegun] = None
            self._suspend(cell, unbegun)
        else:
            # Never stepped here, inside somebody's task or another actor's turn.
            self._drivers_of_host().start_later(cell, coroutine, context)

    def _withdraw_unbegun(self, unbegun: PendingCoroutine) -> None:
        del self._unbegun[unbegun]
        self._unsuspend(unbegun.cell)

    def _begin_unbegun(self) -> None:
        """Somebody drives us: what could not begin can."""
        for unbegun in list(self._unbegun):
            self._withdraw_unbegun(unbegun)
            self._perform_later(unbegun.cell, unbegun.job, unbegun.context)

    def _begin_epilogues(self) -> None:
        """What actors still have to do when they end can be a coroutine: it is given its chance, if need be by a host of ours."""
        if self._unbegun and (self._guest_host or self._own_host or not AsyncioHost.is_any_running()):
            drivers = self._drivers_of_host()
            drivers.begin_closing()
            for unbegun in list(self._unbegun):
                self._withdraw_unbegun(unbegun)
                drivers.start_later(unbegun.cell, unbegun.job, unbegun.context)

    def _close_unbegun(self) -> None:
        """Nobody drives the loop any more: what has not begun never does."""
        for unbegun in list(self._unbegun):
            del self._unbegun[unbegun]
            unbegun.job.close()

    def _drivers_of_host(self) -> TaskPool:
        """Who performs coroutines on the present host; made when they are first needed."""
        if self._drivers is None:
            host = self._host or self._guest_host or self._owned()
            self._drivers = TaskPool(self, host.loop)
        return self._drivers

    def _raise_failure(self) -> None:
        """Raise what the loop must end with, once."""
        if self._leaving is not None:
            leaving, self._leaving = self._leaving, None
            raise leaving
        if self._broken is not None:
            broken, self._broken = self._broken, None
            raise broken
