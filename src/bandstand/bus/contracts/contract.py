"""The contract of a capability: what it takes, what it says, and how to make one. Frozen data.

It can be written out, as here, or as a class that derives from `Capability`, whose annotated methods say the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bandstand.bus.contracts.retry import Retry
from bandstand.bus.ports import Elsewhere
from bandstand.errors import InvalidArgument
from bandstand.errors.formatting import safe_repr
from bandstand.supervision import Backoff

__all__ = ("Contract", "RestartLimits")


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartLimits:
    """How often a capability that fails is started again before it is out of service.

    One that is out of service is tried again by itself after `window_ms`. If it fails within `window_ms` after that, it is out of
    service for `window_ms` more.

    Raises:
        InvalidArgument: a value has no sense.
    """

    max_restarts: int = 3
    """How many restarts are allowed within `window_ms`; one more, and the capability is unhealthy."""
    window_ms: float = 60_000
    """The time in which they are counted."""
    backoff_ms: float = 1000
    """How long to wait before each; 0 for not at all."""

    def __post_init__(self) -> None:
        if type(self.max_restarts) is not int or not 0 <= self.max_restarts <= 1_000_000:
            raise InvalidArgument(
                f"RestartLimits: max_restarts is {safe_repr(self.max_restarts)}: pass an int from 0 on"
            )
        for name in ("window_ms", "backoff_ms"):
            value = getattr(self, name)
            least = 0 if name == "backoff_ms" else 1
            if (
                not isinstance(value, (int, float))
                or isinstance(value, bool)
                or not least <= value <= 86_400_000
            ):
                raise InvalidArgument(
                    f"RestartLimits: {name} is {safe_repr(value)}: pass milliseconds, from {least} to 86400000"
                )

    @property
    def backoff(self) -> Backoff | None:
        """The same for a supervisor: each wait as long as the one before."""
        return (
            Backoff(initial_ms=self.backoff_ms, max_ms=self.backoff_ms, factor=1.0)
            if self.backoff_ms
            else None
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Contract:
    """A capability, written out.

    Args are checked at boot, all together, with the field named that is wrong.
    """

    id: str
    """Its name: `Memory`."""
    description: str
    """What it is for, in a sentence, for people and language models."""
    # Any: a type, a union of types, or an annotated one; Python has no type for those.
    inbound: Any
    """What it takes: message classes, or classes with `kind`, `type` and `data`, or a union of such."""
    outbound: Any = None
    """What it may say, likewise: replies, events, errors, and commands and queries to others. None for nothing but empty replies."""
    subscribes: Sequence[str] = ()
    """Types of events it wants to get besides those in `inbound`, with their data as plain values."""
    # Any: see `Worker` and `Handler`.
    spawn: Callable[[], Any]
    """Makes what does the work, anew for each start: an object shaped like a Worker, or a function of one message that gives back
    what is to be said."""
    policy: RestartLimits = field(default_factory=RestartLimits)
    """How often it is started again."""
    refuses: tuple[type[Exception], ...] = ()
    """Exceptions that are refusals: a request whose handler raises one is answered with `Sys.Refused`, and the incarnation goes on."""
    retry: Mapping[str, Retry] = field(default_factory=dict[str, Retry])
    """Which of its commands and queries are tried again when they fail, by type, in place of what their classes say."""
    remember: Mapping[str, bool] = field(default_factory=dict[str, bool])
    """Whether repeats of its commands and queries get the first one's answer, by type, in place of what their classes say."""
    mailbox_cap: int | None = None
    """How many messages may wait for it; None for the node's default."""
    timeout_ms: int | None = None
    """How long a request to it may take if the request itself does not say; None for the node's default."""
    elsewhere: Elsewhere | None = None
    """Where it runs, if not on the node itself: see `bandstand.isolation`."""
