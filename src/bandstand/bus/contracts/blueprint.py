"""A capability as the runtime sees it: both ways to declare one end here, and nothing after this knows which it was."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from bandstand.bus.contracts.contract import RestartLimits
from bandstand.bus.contracts.payload import Payload
from bandstand.bus.contracts.retry import Retry
from bandstand.bus.contracts.shape import Shape
from bandstand.bus.frame import Kind
from bandstand.bus.ports import Elsewhere

__all__ = ("Blueprint", "Entry")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One kind and type of message that a capability takes."""

    kind: Kind
    type: str
    # Any, here and below: which type it is, the capability knows; the runtime only hands it on.
    payload: Payload[Any]
    """Reads its data."""
    shape: Shape | None = None
    """Makes of the data what the handler takes; None if that is the data itself."""
    description: str = ""
    """What it does, for people and language models."""
    method: str | None = None
    """The method that handles it; None if there is one function for all."""
    reply: Payload[Any] | None = None
    """Writes the reply; None for an event, which has none."""
    retry: Retry | None = None
    """When it is tried again; None for never."""
    is_remembered: bool = True
    """Whether a repeat gets the first one's answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Blueprint:
    """What a capability takes and says, and how to make one."""

    id: str
    description: str
    entries: Mapping[tuple[Kind, str], Entry]
    """What it takes, by kind and type."""
    outbound: Mapping[tuple[Kind, str], Payload[Any]]
    """What it may say, by kind and type; a reply has the type of its request."""
    subscribes: tuple[str, ...]
    """The types of events it wants."""
    # Any: an object of the capability's class, or what a contract's `spawn` gives.
    make: Callable[[], Any]
    """Makes what does the work, anew for each start."""
    is_class: bool
    """Whether `make` gives an object whose methods handle the messages."""
    policy: RestartLimits
    mailbox_cap: int | None
    timeout_ms: int | None
    elsewhere: Elsewhere | None = None
    """Where it runs, if not on the node itself."""
    refuses: tuple[type[Exception], ...] = ()
    """Exceptions of its handlers that are refusals."""

    @property
    def handles(self) -> tuple[str, ...]:
        """The commands and queries it handles, as `command:Memory.Set`."""
        return tuple(f"{kind}:{type_name}" for kind, type_name in self.entries if kind != "event")
