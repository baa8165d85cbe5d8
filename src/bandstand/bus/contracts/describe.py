"""The answer to `Syscall.Describe`: everything that a node accepts and sends, so that a program or a language model needs no other manual."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from functools import cache
from typing import Final

from msgspec import Struct

from bandstand.bus.contracts.capability import CapabilitySpec, HandlerSpec
from bandstand.bus.contracts.messages import Message, Retry
from bandstand.bus.contracts.schema import Schema, schema_of
from bandstand.bus.faults import FAULTS, Fault
from bandstand.bus.frame import Frame, IdGenerator, Kind, Metadata
from bandstand.errors.validation import to_ms

__all__ = (
    "CapabilityDescription",
    "Description",
    "EventDescription",
    "FaultDescription",
    "MessageDescription",
    "RetryDescription",
    "describe",
)

FIELD_DESCRIPTIONS: Final = {
    "kind": "Send commands, queries and events; the node answers with replies and errors.",
    "type": "The message type, as in Memory.Set. A reply has the type of its request.",
    "data": "The payload, as the type requires; may be omitted if the type has no required fields.",
    "metadata": "The identity of the message, and its cause.",
    "id": "Chosen by you, and unique: the answer has it as its causation. A command sent again with the same id is handled once.",
    "timestamp": "Milliseconds since 1970.",
    "causation": "The id of the message that caused this one.",
    "correlation": "Groups the messages of one task: every message caused by this one has the same correlation.",
    "timeout": "The deadline of a command or query in milliseconds; the node has a default.",
}
"""The descriptions of the envelope's fields."""


class RetryDescription(Struct, rename="camel"):
    """The retry policy of a request; all attempts are made before its deadline."""

    attempts: int
    """The maximum number of attempts, the first one included."""
    on: list[str]
    """The errors to retry after."""
    initial_ms: float
    """The delay before the second attempt."""
    factor: float
    """The factor by which each delay is longer than the previous one."""
    max_ms: float
    """The longest delay."""


class MessageDescription(Struct, rename="camel", omit_defaults=True):
    """A command or query that clients can send."""

    kind: Kind
    type: str
    description: str
    schema: Schema
    """The JSON Schema of its data."""
    reply: Schema
    """The JSON Schema of the reply's data."""
    example: Message | None = None
    """A complete message, ready to send."""
    retry: RetryDescription | None = None
    """The retry policy of the node; omitted if there are no retries."""
    is_remembered: bool = True
    """Whether a repeated request with the same id gets the first answer; omitted if True."""
    retry_safe: bool = False
    """Whether it may be handled again if the node has died meanwhile; omitted if False."""


class EventDescription(Struct, rename="camel", omit_defaults=True):
    """An event or an error that a capability sends, or an event that it subscribes to."""

    kind: Kind
    type: str
    schema: Schema
    description: str = ""


class CapabilityDescription(Struct, rename="camel"):
    """One capability."""

    id: str
    description: str
    handles: list[MessageDescription]
    emits: list[EventDescription]
    subscribes: list[EventDescription]
    refuses: list[str] = []
    """The exceptions that its handlers may raise to refuse a request: the answer is `Sys.Refused`."""
    concurrency: int = 1
    """How many messages it handles at a time; others wait."""
    key: str | None = None
    """The field of its messages that says which of its entities they are for; null if it has none."""


class FaultDescription(Struct, rename="camel"):
    """An error of the runtime."""

    type: str
    description: str


class Description(Struct, rename="camel"):
    """The requested part of a node's description."""

    capabilities: list[CapabilityDescription]
    envelope: Schema
    """The JSON Schema of a complete message."""
    faults: list[FaultDescription]
    """The errors that any request can be answered with."""
    fault: Schema
    """The JSON Schema of the data of these errors."""


def describe(
    specs: Iterable[CapabilitySpec],
    *,
    type: str | None = None,  # noqa: A002  # its name on the wire
    capability: str | None = None,
    new_id: Callable[[], str] | None = None,
    now_ms: Callable[[], int] | None = None,
) -> Description:
    """Describe capabilities.

    Args:
        specs: the capabilities of the node.
        type: describe only messages of this type; None for all.
        capability: describe only the capability with this id; None for all.
        new_id: generates the ids of the examples.
        now_ms: returns their timestamp, in milliseconds since 1970.
    """
    found = [
        _describe_capability(
            spec, type, new_id or IdGenerator(), now_ms or (lambda: time.time_ns() // 1_000_000)
        )
        for spec in specs
        if capability is None or spec.id == capability
    ]
    return Description(
        capabilities=[
            each for each in found if type is None or each.handles or each.emits or each.subscribes
        ],
        envelope=_envelope_schema(),
        faults=[FaultDescription(name, text) for name, text in FAULTS.items()],
        fault=schema_of(Fault, "a fault"),
    )


@cache
def _envelope_schema() -> Schema:
    schema = schema_of(Frame, "the envelope")
    schema |= {"title": "Message", "description": "One line of JSON."}
    objects: tuple[Schema, Schema] = (schema, schema["$defs"]["Metadata"])
    for name, text in FIELD_DESCRIPTIONS.items():
        for each in objects:
            if name in each["properties"]:
                each["properties"][name]["description"] = text
    return schema


def _describe_capability(
    spec: CapabilitySpec, type_name: str | None, new_id: Callable[[], str], now_ms: Callable[[], int]
) -> CapabilityDescription:
    handlers = [handler for handler in spec.handlers.values() if type_name in {None, handler.type}]
    return CapabilityDescription(
        id=spec.id,
        description=spec.description,
        handles=[_describe_request(each, new_id, now_ms) for each in handlers if each.kind != "event"],
        emits=[
            EventDescription(kind, name, codec.schema, str(codec.schema.get("description", "")))
            for (kind, name), codec in spec.outbound.items()
            if kind in {"event", "error"} and type_name in {None, name}
        ],
        subscribes=[
            EventDescription("event", each.type, each.codec.schema, each.description)
            for each in handlers
            if each.kind == "event"
        ],
        refuses=[kind.__name__ for kind in spec.refuses],
        concurrency=spec.concurrency,
        key=None if spec.entity is None else spec.entity.key,
    )


def _describe_request(
    handler: HandlerSpec, new_id: Callable[[], str], now_ms: Callable[[], int]
) -> MessageDescription:
    assert handler.reply_codec is not None
    example = None
    if handler.codec.example is not None:
        example = Message(
            kind=handler.kind,
            type=handler.type,
            data=handler.codec.example,
            metadata=Metadata(new_id(), now_ms()),
        )
    return MessageDescription(
        handler.kind,
        handler.type,
        handler.description,
        handler.codec.schema,
        handler.reply_codec.schema,
        example,
        None if handler.retry is None else _describe_retry(handler.retry),
        handler.is_remembered,
        handler.is_retry_safe,
    )


def _describe_retry(retry: Retry) -> RetryDescription:
    backoff = retry.backoff
    return RetryDescription(
        retry.attempts,
        list(retry.on),
        to_ms("initial", backoff.initial),
        backoff.factor,
        to_ms("maximum", backoff.maximum),
    )
