"""What the runtime answers when something goes wrong: messages of kind `error` whose type begins with Sys.

Their data is always a `Fault`. `retryable` means: nothing was done, and the same request may work later.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

import msgspec
from msgspec import Raw, Struct

from bandstand.bus.frame import Frame, Metadata

__all__ = (
    "ACTOR_CRASH",
    "ACTOR_FAULT",
    "BOOT_FAILED",
    "CONFLICT",
    "CYCLE",
    "FAULTS",
    "OVERLOADED",
    "PASSING",
    "REFUSED",
    "ROUTING_ERROR",
    "SCHEMA_ERROR",
    "SHUTTING_DOWN",
    "TIMEOUT",
    "TOO_MANY_CONNECTIONS",
    "UNAUTHORIZED",
    "UNHEALTHY",
    "Fault",
    "FaultAnswer",
    "FaultMaker",
)

ACTOR_CRASH: Final = "Sys.ActorCrash"
ACTOR_FAULT: Final = "Sys.ActorFault"
BOOT_FAILED: Final = "Sys.BootFailed"
CONFLICT: Final = "Sys.Conflict"
CYCLE: Final = "Sys.Cycle"
OVERLOADED: Final = "Sys.Overloaded"
REFUSED: Final = "Sys.Refused"
ROUTING_ERROR: Final = "Sys.RoutingError"
SCHEMA_ERROR: Final = "Sys.SchemaError"
SHUTTING_DOWN: Final = "Sys.ShuttingDown"
TIMEOUT: Final = "Sys.Timeout"
TOO_MANY_CONNECTIONS: Final = "Sys.TooManyConnections"
UNAUTHORIZED: Final = "Sys.Unauthorized"
UNHEALTHY: Final = "Sys.Unhealthy"

FAULTS: Final = {
    ACTOR_CRASH: "The handler raised an exception it was not expected to raise; the capability is started again.",
    ACTOR_FAULT: "The capability said something that its contract does not allow; it is started again.",
    CONFLICT: "Another request has this id, with other content, and is not disturbed: send this one with an id of its own.",
    CYCLE: "The request would wait for a capability that waits for it.",
    OVERLOADED: "There is no room for the request now. Nothing was done: try again later.",
    REFUSED: "The handler will not do it; the message says why.",
    ROUTING_ERROR: "Nobody handles this kind and type. Do not retry; ask Syscall.Describe what there is.",
    SCHEMA_ERROR: "The message, or its data, is not what its type asks for; `path` says where.",
    SHUTTING_DOWN: "The node is stopping. Nothing was done.",
    TIMEOUT: "No answer in time. The handler may still be at it; its answer will be discarded.",
    TOO_MANY_CONNECTIONS: "The adapter has as many connections as it may have; this one is closed. Nothing was done: try again later.",
    UNAUTHORIZED: "Whoever connected may not, or has not shown the token; the connection is closed.",
    UNHEALTHY: "The capability has failed too often and is out of service. It is tried again by itself after its restart window, or at once with Syscall.Reset. Nothing was done.",
}
"""Every fault that can be an answer, and what it means."""

RETRYABLE = frozenset({OVERLOADED, SHUTTING_DOWN, TOO_MANY_CONNECTIONS, UNHEALTHY})

PASSING: Final = frozenset(
    {
        CONFLICT,
        CYCLE,
        OVERLOADED,
        ROUTING_ERROR,
        SCHEMA_ERROR,
        SHUTTING_DOWN,
        TIMEOUT,
        UNHEALTHY,
    }
)
"""Faults after which nothing was done, or nobody knows: they are not remembered as answers, and the same request is handled anew."""


class Fault(Struct, omit_defaults=True, rename="camel"):
    """The data of every error of the runtime's own."""

    message: str
    """In a sentence: what happened, and what to do."""
    original_id: str | None = None
    """The id of the request that it answers."""
    retryable: bool = False
    """Whether nothing was done, and the same request may work later."""
    path: str | None = None
    """Where in the message the problem is, as `$.data.key`."""
    capability_id: str | None = None
    """The capability in question."""


class FaultAnswer(NamedTuple):
    """What a capability of the runtime's own refuses a request with: `raise Refused(FaultAnswer(...))`."""

    type: str
    message: str
    path: str | None = None


class FaultMaker:
    """Makes frames of faults.

    Args:
        new_id: what makes ids.
        now_ms: milliseconds since 1970.
    """

    __slots__ = ("_new_id", "_now_ms")

    def __init__(self, new_id: Callable[[], str], now_ms: Callable[[], int]) -> None:
        self._new_id = new_id
        self._now_ms = now_ms

    def make(
        self,
        type_name: str,
        message: str,
        *,
        request: Frame | None = None,
        request_id: str | None = None,
        path: str | None = None,
        capability: str | None = None,
    ) -> Frame:
        """A frame of kind `error`, as the answer to a request if there is one."""
        correlation = None
        if request is not None:
            request_id, correlation = request.metadata.id, request.metadata.correlation
        fault = Fault(message, request_id, type_name in RETRYABLE, path, capability)
        return Frame(
            kind="error",
            type=type_name,
            data=Raw(msgspec.json.encode(fault)),
            metadata=Metadata(self._new_id(), self._now_ms(), request_id, correlation),
        )
