"""What `Syscall.Describe` answers: everything that can be said to a node, so that a program or a language model needs no other manual."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from functools import cache
from typing import Final

from msgspec import Struct

from bandstand.bus.contracts.blueprint import Blueprint, Entry
from bandstand.bus.contracts.messages import Message
from bandstand.bus.contracts.retry import Retry
from bandstand.bus.contracts.scalars import Schema
from bandstand.bus.contracts.schema import schema_of
from bandstand.bus.faults import FAULTS, Fault
from bandstand.bus.frame import Frame, Kind, Metadata
from bandstand.bus.hot.idmaker import IdMaker

__all__ = (
    "CapabilityDescription",
    "Description",
    "FaultDescription",
    "MessageDescription",
    "RetryDescription",
    "SaidDescription",
    "describe",
)

PARTS: Final = {
    "kind": "Send commands and queries, and events; replies and errors are what comes back.",
    "type": "What it is about, as Memory.Set. A reply has the type of its request.",
    "data": "What its type asks for; may be left out if that is nothing.",
    "metadata": "Who the message is, and what it follows from.",
    "id": "Your own, and unique: the answer has it as its causation. The same command sent again with the same id is handled once.",
    "timestamp": "Milliseconds since 1970.",
    "causation": "The id of the message that this one follows from.",
    "correlation": "What groups the messages of one piece of work; all that follows from this one carries it on.",
    "timeout": "Milliseconds that a command or query may take; by default what the node says.",
}
"""The parts of a message, for those who write one."""


class RetryDescription(Struct, rename="camel"):
    """How a request that has failed is tried again, within its deadline."""

    attempts: int
    """How often at most, the first time included."""
    on: list[str]
    """After which errors."""
    initial_ms: float
    """How long is waited before the second attempt."""
    factor: float
    """By how much each wait is longer than the one before."""
    max_ms: float
    """The longest wait."""


class MessageDescription(Struct, rename="camel", omit_defaults=True):
    """A command or query that can be sent."""

    kind: Kind
    type: str
    description: str
    schema: Schema
    """The JSON Schema of its data."""
    reply: Schema
    """The JSON Schema of the data of the reply."""
    example: Message | None = None
    """A whole message, ready to be sent."""
    retry: RetryDescription | None = None
    """When the node tries it again by itself; left out if it does not."""
    is_remembered: bool = True
    """Whether a repeat with the same id gets the first one's answer; left out if so."""


class SaidDescription(Struct, rename="camel", omit_defaults=True):
    """An event or an error that a capability says, or an event that it listens to."""

    kind: Kind
    type: str
    schema: Schema
    description: str = ""


class CapabilityDescription(Struct, rename="camel"):
    """One capability."""

    id: str
    description: str
    handles: list[MessageDescription]
    emits: list[SaidDescription]
    subscribes: list[SaidDescription]
    refuses: list[str] = []
    """The exceptions of its handlers that are answered with `Sys.Refused`."""


class FaultDescription(Struct, rename="camel"):
    """An error of the runtime's own."""

    type: str
    description: str


class Description(Struct, rename="camel"):
    """A node, as far as it was asked for."""

    capabilities: list[CapabilityDescription]
    envelope: Schema
    """The JSON Schema of a whole message."""
    faults: list[FaultDescription]
    """The errors that every request can be answered with."""
    fault: Schema
    """The JSON Schema of their data."""


def describe(
    blueprints: Iterable[Blueprint],
    *,
    type: str | None = None,  # noqa: A002  # its name on the wire
    capability: str | None = None,
    new_id: Callable[[], str] | None = None,
    now_ms: Callable[[], int] | None = None,
) -> Description:
    """Describe capabilities.

    Args:
        blueprints: which there are.
        type: only what has to do with this type; None for all.
        capability: only the one with this id; None for all.
        new_id: what makes the ids of the examples.
        now_ms: what makes their time: milliseconds since 1970.
    """
    found = [
        _describe_capability(
            blueprint, type, new_id or IdMaker(), now_ms or (lambda: time.time_ns() // 1_000_000)
        )
        for blueprint in blueprints
        if capability is None or blueprint.id == capability
    ]
    return Description(
        capabilities=[
            each for each in found if type is None or each.handles or each.emits or each.subscribes
        ],
        envelope=_envelope(),
        faults=[FaultDescription(name, text) for name, text in FAULTS.items()],
        fault=schema_of(Fault, "a fault"),
    )


@cache
def _envelope() -> Schema:
    schema = schema_of(Frame, "the envelope")
    schema |= {"title": "Message", "description": "What is written on each line."}
    parts: tuple[Schema, Schema] = (schema, schema["$defs"]["Metadata"])
    for name, text in PARTS.items():
        for part in parts:
            if name in part["properties"]:
                part["properties"][name]["description"] = text
    return schema


def _describe_capability(
    blueprint: Blueprint, type_name: str | None, new_id: Callable[[], str], now_ms: Callable[[], int]
) -> CapabilityDescription:
    entries = [entry for entry in blueprint.entries.values() if type_name in {None, entry.type}]
    return CapabilityDescription(
        id=blueprint.id,
        description=blueprint.description,
        handles=[_describe_entry(entry, new_id, now_ms) for entry in entries if entry.kind != "event"],
        emits=[
            SaidDescription(kind, name, payload.schema, str(payload.schema.get("description", "")))
            for (kind, name), payload in blueprint.outbound.items()
            if kind in {"event", "error"} and type_name in {None, name}
        ],
        subscribes=[
            SaidDescription("event", entry.type, entry.payload.schema, entry.description)
            for entry in entries
            if entry.kind == "event"
        ],
        refuses=[kind.__name__ for kind in blueprint.refuses],
    )


def _describe_entry(entry: Entry, new_id: Callable[[], str], now_ms: Callable[[], int]) -> MessageDescription:
    assert entry.reply is not None
    example = None
    if entry.payload.example is not None:
        example = Message(
            kind=entry.kind,
            type=entry.type,
            data=entry.payload.example,
            metadata=Metadata(new_id(), now_ms()),
        )
    return MessageDescription(
        entry.kind,
        entry.type,
        entry.description,
        entry.payload.schema,
        entry.reply.schema,
        example,
        None if entry.retry is None else _describe_retry(entry.retry),
        entry.is_remembered,
    )


def _describe_retry(retry: Retry) -> RetryDescription:
    backoff = retry.backoff
    return RetryDescription(
        retry.attempts, list(retry.on), backoff.initial_ms, backoff.factor, backoff.max_ms
    )
