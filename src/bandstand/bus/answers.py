"""From message classes to bytes and back, for those who ask and are no capability: the program around a node, and its clients."""

from __future__ import annotations

from functools import cache
from typing import Any, cast

import msgspec

from bandstand.bus.contracts.discover import UNSAID, branches_of
from bandstand.bus.contracts.payload import Payload
from bandstand.bus.frame import Frame
from bandstand.errors import RequestFailed

__all__ = ("failure_of", "payload_of", "reply_of")

ANY: Payload[Any] = Payload(Any, "any data")


@cache
def payload_of(kind: type) -> Payload[Any]:
    """The codec of a message class that no contract names: what a program around a node says."""
    return Payload(kind, kind.__name__)


@cache
def reply_of(kind: type) -> Payload[Any]:
    """What is answered to a class of requests, as it says in its brackets; anything if it does not say."""
    (branch,) = branches_of(kind, kind.__name__)
    return ANY if branch.reply is UNSAID else Payload(branch.reply, f"the reply to {branch.type}")


def failure_of(type_name: str, answer: Frame) -> RequestFailed:
    """What is raised for an error that was answered."""
    # Any: whatever JSON can say.
    data: Any = msgspec.json.decode(answer.data)
    fields = cast("dict[str, object]", data) if isinstance(data, dict) else {}
    said, path = fields.get("message"), fields.get("path")
    words = said if isinstance(said, str) else bytes(answer.data).decode()
    if isinstance(said, str) and isinstance(path, str):
        # Without it, whoever reads the sentence knows what is wrong, and not where.
        words = f"{words}, at {path}"
    return RequestFailed.of(type_name, answer.type, cast("object", data), words)
