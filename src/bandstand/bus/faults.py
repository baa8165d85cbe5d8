"""Faults: the errors of the runtime. A fault is a message of kind `error` whose type begins with `Sys.`.

Its data is a `Fault`. `retryable` means that nothing was done, and that the same request may succeed later.
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
    "IN_DOUBT",
    "OVERLOADED",
    "REFUSED",
    "ROUTING_ERROR",
    "SCHEMA_ERROR",
    "SHUTTING_DOWN",
    "TIMEOUT",
    "TOO_MANY_CONNECTIONS",
    "TRANSIENT",
    "UNAUTHORIZED",
    "UNAVAILABLE",
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
IN_DOUBT: Final = "Sys.InDoubt"
OVERLOADED: Final = "Sys.Overloaded"
REFUSED: Final = "Sys.Refused"
ROUTING_ERROR: Final = "Sys.RoutingError"
SCHEMA_ERROR: Final = "Sys.SchemaError"
SHUTTING_DOWN: Final = "Sys.ShuttingDown"
TIMEOUT: Final = "Sys.Timeout"
TOO_MANY_CONNECTIONS: Final = "Sys.TooManyConnections"
UNAUTHORIZED: Final = "Sys.Unauthorized"
UNAVAILABLE: Final = "Sys.Unavailable"
UNHEALTHY: Final = "Sys.Unhealthy"

FAULTS: Final = {
    ACTOR_CRASH: "The handler raised an unexpected exception; the capability is restarted.",
    ACTOR_FAULT: "The capability sent a message that its contract does not allow; it is restarted.",
    CONFLICT: "Another request has the same id and different content. That request is not affected: send this one with a new id.",
    CYCLE: "The request would wait for a capability that waits for this request.",
    IN_DOUBT: "The node has died while the command was handled, so it may have been carried out or not. Find out, then settle it with Dead.Settle, or send it with a new id.",
    OVERLOADED: "The node has no capacity for the request. Nothing was done: try again later.",
    REFUSED: "The handler refuses the request; the message says why.",
    ROUTING_ERROR: "No capability handles this kind and type. Do not retry; Syscall.Describe lists the types.",
    SCHEMA_ERROR: "The message, or its data, does not match its type; `path` says where.",
    SHUTTING_DOWN: "The node is shutting down. Nothing was done.",
    TIMEOUT: "No answer before the deadline. The handler may still be running; its answer will be discarded.",
    TOO_MANY_CONNECTIONS: "The adapter has reached its limit of connections and closes this one. Nothing was done: try again later.",
    UNAUTHORIZED: "The client is not allowed to connect, or has not sent the token; the connection is closed.",
    UNAVAILABLE: "The node cannot write its journal, so it accepts no commands. Nothing was done: try again later.",
    UNHEALTHY: "The capability has failed too often and is out of service. It is restarted after its restart window, or immediately with Syscall.Reset. Nothing was done.",
}
"""Every fault that can be an answer, and its meaning."""

RETRYABLE = frozenset({OVERLOADED, SHUTTING_DOWN, TOO_MANY_CONNECTIONS, UNAVAILABLE, UNHEALTHY})

TRANSIENT: Final = frozenset(
    {
        CONFLICT,
        CYCLE,
        IN_DOUBT,
        OVERLOADED,
        ROUTING_ERROR,
        SCHEMA_ERROR,
        SHUTTING_DOWN,
        TIMEOUT,
        UNAVAILABLE,
        UNHEALTHY,
    }
)
"""Faults that are not remembered as answers: nothing was done, or the outcome is unknown. A repeated request is handled again; not so a command in
doubt on a node with a journal, which stays in doubt until it is settled."""


class Fault(Struct, omit_defaults=True, rename="camel"):
    """The data of an error of the runtime."""

    message: str
    """What happened, and what to do about it."""
    original_id: str | None = None
    """The id of the failed request."""
    retryable: bool = False
    """Whether nothing was done, and the same request may succeed later."""
    path: str | None = None
    """The path of the wrong value in the message, as in `$.data.key`."""
    capability_id: str | None = None
    """The capability concerned."""


class FaultAnswer(NamedTuple):
    """A fault that a built-in capability answers with: `raise RefusedError(FaultAnswer(...))`."""

    type: str
    message: str
    path: str | None = None


class FaultMaker:
    """Builds the frames of faults.

    Args:
        new_id: generates message ids.
        now_ms: returns the time in milliseconds since 1970.
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
        """Return a frame of kind `error`. With `request`, it is the answer to that request."""
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
