"""The configuration of a loop: its limits, and the clock it uses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic_ns
from typing import TYPE_CHECKING, Protocol

from bandstand.core.enums import MAX_INDEX
from bandstand.errors import InvalidArgumentError
from bandstand.errors.formatting import safe_repr
from bandstand.errors.validation import Seconds, check_int, to_seconds

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

__all__ = (
    "Clock",
    "IdleClock",
    "LoopConfig",
    "MonotonicClock",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopConfig:
    """The limits of a loop. Frozen, and validated when it is made. Durations are kept in seconds, as floats.

    Raises:
        InvalidArgumentError: a value, or a combination of values, is invalid. The message names the fields.
    """

    max_actors: int = 65_536
    """How many actors may be alive at a time; one more spawn raises `MaxActorsError`."""
    default_mailbox_cap: int = 1024
    """The slots of a mailbox if the spawn gives no cap, including the system's reserve."""
    sys_reserved: int = 4
    """The slots of every mailbox that are reserved for system messages."""
    max_msgs_per_actor: int = 64
    """How many messages an actor may handle before the next actor runs; fewer when the time of the tick is used up."""
    max_actors_per_tick: int = 1024
    """How many actors a tick visits before timers and I/O are checked again."""
    max_tick: Seconds = 0.005
    """How long a tick may run before timers and I/O are checked again, plus or minus 8 messages; 1 if they are slow."""
    stop_timeout: Seconds = 5.0
    """How long a stop waits for suspended coroutines before it ends their actors without them."""
    stall_timeout: Seconds | None = None
    """Report a behavior that blocks the thread for longer than this; None for no watchdog, which costs nothing. An `ActorSystem` without a config has 1 s."""
    fd_sweep_period: Seconds = 1.0
    """How often the loop checks, a part at a time, whether watched descriptors were closed without `unwatch_fd`."""
    loop_factory: Callable[[], AbstractEventLoop] | None = None
    """Makes the event loop for `run()`; None for uvloop if it is installed, otherwise asyncio's own."""

    def __post_init__(self) -> None:
        check_int("max_actors", self.max_actors, 1, MAX_INDEX)
        check_int("sys_reserved", self.sys_reserved, 1, 1 << 30)
        check_int("default_mailbox_cap", self.default_mailbox_cap, 1, 1 << 30)
        check_int("max_msgs_per_actor", self.max_msgs_per_actor, 1, 1 << 30)
        check_int("max_actors_per_tick", self.max_actors_per_tick, 1, 1 << 30)
        self._keep_seconds("max_tick", most=60_000)
        self._keep_seconds("stop_timeout", most=86_400_000)
        self._keep_seconds("fd_sweep_period", most=1 << 30)
        if self.stall_timeout is not None:
            self._keep_seconds("stall_timeout", most=86_400_000)
        if self.default_mailbox_cap <= self.sys_reserved:
            raise InvalidArgumentError(
                f"default_mailbox_cap is {self.default_mailbox_cap} and sys_reserved is {self.sys_reserved}: "
                f"the cap must be above the reserve, or no user message ever fits"
            )
        if self.loop_factory is not None and not callable(self.loop_factory):
            raise InvalidArgumentError(
                f"loop_factory is {safe_repr(self.loop_factory)}: pass a function that makes an event loop"
            )

    def _keep_seconds(self, field: str, *, most: int) -> None:
        seconds = to_seconds(field, getattr(self, field), is_zero_allowed=False, most=most)
        object.__setattr__(self, field, seconds)


# -- the clock -------------------------------------------------------------------------------------------------------


class Clock(Protocol):
    """The source of a loop's time. Pass one to `Loop(clock=...)`; `bandstand.testing` has a virtual clock."""

    def now_ns(self) -> int:
        """Return the nanoseconds since a fixed moment. Must never decrease."""
        ...


class IdleClock(Clock, Protocol):
    """A clock that is called when the loop has nothing to do but wait: it may advance its time instead."""

    def on_idle(self, wait_ns: int) -> bool:
        """Called when nothing is ready, suspended or watched, and the next deadline is `wait_ns` away.

        Return True if the time has advanced: the loop then continues at once. Return False to let it wait.
        """
        ...


class MonotonicClock:
    """The machine's monotonic clock."""

    now_ns = staticmethod(monotonic_ns)
