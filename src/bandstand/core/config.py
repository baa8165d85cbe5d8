"""The configuration of a loop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bandstand.core.enums import MAX_INDEX
from bandstand.errors import InvalidArgument
from bandstand.errors.formatting import safe_repr
from bandstand.errors.validation import check_int, check_ms

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

__all__ = ("LoopConfig",)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopConfig:
    """The limits of a loop. Frozen, and validated when it is made.

    Raises:
        InvalidArgument: a value, or a combination of values, is invalid. The message names the fields.
    """

    max_actors: int = 65_536
    """How many actors may be alive at a time; one more spawn raises `MaxActors`."""
    default_mailbox_cap: int = 1024
    """The slots of a mailbox if the spawn gives no cap, including the system's reserve."""
    sys_reserved: int = 4
    """The slots of every mailbox that are reserved for system messages."""
    max_msgs_per_actor: int = 64
    """How many messages an actor may handle before the next actor runs; fewer when the time of the tick is used up."""
    max_actors_per_tick: int = 1024
    """How many actors a tick visits before timers and I/O are checked again."""
    max_tick_ms: float = 5.0
    """How long a tick may run before timers and I/O are checked again, plus or minus 8 messages; 1 if they are slow."""
    stop_timeout_ms: float = 5000.0
    """How long a stop waits for suspended coroutines before it ends their actors without them."""
    stall_ms: float | None = None
    """Report a behavior that blocks the thread for longer than this; None for no watchdog, which costs nothing."""
    fd_sweep_ms: int = 1000
    """How often the loop checks, a part at a time, whether watched descriptors were closed without `unwatch_fd`."""
    loop_factory: Callable[[], AbstractEventLoop] | None = None
    """Makes the event loop for `run()`; None for uvloop if it is installed, otherwise asyncio's own."""

    def __post_init__(self) -> None:
        check_int("max_actors", self.max_actors, 1, MAX_INDEX)
        check_int("sys_reserved", self.sys_reserved, 1, 1 << 30)
        check_int("default_mailbox_cap", self.default_mailbox_cap, 1, 1 << 30)
        check_int("max_msgs_per_actor", self.max_msgs_per_actor, 1, 1 << 30)
        check_int("max_actors_per_tick", self.max_actors_per_tick, 1, 1 << 30)
        check_int("fd_sweep_ms", self.fd_sweep_ms, 1, 1 << 30)
        check_ms("max_tick_ms", self.max_tick_ms, is_zero_allowed=False, most=60_000)
        check_ms("stop_timeout_ms", self.stop_timeout_ms, is_zero_allowed=False, most=86_400_000)
        if self.stall_ms is not None:
            check_ms("stall_ms", self.stall_ms, is_zero_allowed=False, most=86_400_000)
        if self.default_mailbox_cap <= self.sys_reserved:
            raise InvalidArgument(
                f"default_mailbox_cap is {self.default_mailbox_cap} and sys_reserved is {self.sys_reserved}: "
                f"the cap must be above the reserve, or no user message ever fits"
            )
        if self.loop_factory is not None and not callable(self.loop_factory):
            raise InvalidArgument(
                f"loop_factory is {safe_repr(self.loop_factory)}: pass a function that makes an event loop"
            )
