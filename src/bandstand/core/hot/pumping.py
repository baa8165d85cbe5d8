"""The pump: a tick whenever the host calls, and what it takes to be called again.

If something is left to do it asks to be called soon, else it sleeps: the host is armed for the next deadline of the wheel, a
send rouses it, and so does another thread. What the runtime's own code raises ends the loop.

Compiled, because whatever comes from outside pays for it: a request, a line from a socket, a future that is done. There is
one call of the host for each, and written in Python the pump takes longer than the message.
"""

# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from bandstand.core.enums import MAX_INLINE_TICKS, MILLISECOND
from bandstand.core.hot.performing import Performing

if TYPE_CHECKING:
    from bandstand.core.asyncio_host import AsyncioHost

Count: TypeAlias = int
Nanoseconds: TypeAlias = int


class Pumping(Performing):
    """The kernel, for its host. `Loop` is what to use."""

    __slots__ = ("_host", "_is_armed", "_mentioned", "_on_idle", "_on_park", "_until_idle")

    # Who calls; None while nobody drives the loop.
    _host: AsyncioHost | None
    # Whether the host has been asked to call at a time.
    _is_armed: bool
    # Dead letters and drops when all was said of them, or -1.
    _mentioned: Count
    # Called after each round; and when there is nothing to do, with how long there will be nothing: True if time has passed.
    _on_park: Callable[[], object] | None
    _on_idle: Callable[[int], bool] | None
    # Whether to stop when there is nothing left to do.
    _until_idle: bool

    def _pump(self) -> None:
        """What the host calls: a tick, and then whatever is needed to be called again."""
        host = self._host
        if host is None or self._ticking:
            return  # a call that was under way when we left the host
        self._awake = True
        self._inline_left = MAX_INLINE_TICKS
        if not self._closed:
            self._work(host)
        if self._closed:
            self._end_ride(host)

    def _work(self, host: AsyncioHost | None) -> None:
        """Run a tick, and see to the next one if there is a host for it. What comes out is no actor's failure, and ends the loop."""
        self._ticking = True
        try:
            self._tick()
            if self._on_park is not None:
                self._on_park()
            if self._dead + self._dropped != self._mentioned:  # nearly every tick has nothing to say
                self._gossip()
            if host is not None and not self._closed:
                self._sleep_or_go_on(host)
        except BaseException as error:  # noqa: BLE001  # whatever it is, the loop cannot go on
            self._forget_current()
            self._break(error)
        finally:
            self._ticking = False

    def _sleep_or_go_on(self, host: AsyncioHost) -> None:
        """Be called again at once, or go to sleep until the next deadline."""
        if self._has_ready():
            host.call_soon()
            return
        if (
            self._on_idle is not None
            and not self._is_by_hand
            and self._in_flight == self._paused
            and self._watched_fds == 0
        ):
            wait = self._wake_in()
            if wait > 0 and self._on_idle(wait):
                host.call_soon()
                return
        self._awake = False
        self._rearm()
        if self._until_idle and self._is_idle():
            host.stop()

    def _rearm(self) -> None:
        """Have the host call at the next deadline of the wheel, or at no time if there is none."""
        host = self._host
        if host is None:
            return
        wait = self._wake_in()
        if wait >= 0:
            # Whole milliseconds, rounded up: a host that rounds down would wake us early, over and over, until it has come.
            self._is_armed = True
            host.arm(self._armed, (wait + MILLISECOND - 1) // MILLISECOND / 1000.0)
        elif self._is_armed:
            self._is_armed = False
            host.disarm()

    def _rouse(self) -> None:
        host = self._host
        if host is not None:
            host.call_soon()

    def _be_called(self) -> None:
        host = self._host
        if host is not None:
            host.wakeups += 1
            self._pump()

    def _gossip(self, *, is_last: bool = False) -> None:
        """Say what has become of messages that nobody handled. The loop above overrides it."""

    def _end_ride(self, host: Any) -> None:
        """The loop is closed: have whoever drives it know. The storeys above override it."""
