"""What a client is owed for what it has said: how many answers to which id.

Whether a line is a message is asked of `read_frame`, as the node does: the parser has tests of its own. What is held here is all that comes
of it: that each request is answered once, each bad line is one error, an event is nothing or one error, and nothing else ever comes.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import msgspec

from bandstand.bus.adapters.authentication import MAX_AUTH_LINE, read_auth_request
from bandstand.bus.wire import DECODE_ERRORS, read_frame
from bandstand.errors import InvalidMessageError

# What a browser begins with.
HTTP = re.compile(rb"(?i)(?:[a-z]+ \S+ http/1\.[01]|host: ?\S+)\r?$")

Answers = Counter[str | None]


@dataclass
class Owed:
    """What must come, and what may come besides."""

    answers: Answers = field(default_factory=Counter[str | None])
    """How often each id must be answered; None stands for lines whose id could not be made out."""
    maybe: Answers = field(default_factory=Counter[str | None])
    """How often each id may be answered besides: an event that its subscribers cannot read is an error, and a message that was scheduled
    is answered if its time comes before the connection ends."""
    is_stranger: bool = False
    """Whether it is not let in: then there is one `Sys.Unauthorized`, and nothing else."""

    def complaints(self, heard: list[dict[str, Any]]) -> list[str]:
        """What is wrong with what has come."""
        if self.is_stranger:
            kinds = [message["type"] for message in heard]
            return [] if kinds == ["Sys.Unauthorized"] else [f"a stranger was told {kinds}"]
        came = Answers(
            message["metadata"].get("causation") for message in heard if message["kind"] != "event"
        )
        missing = self.answers - came
        surplus = came - self.answers - self.maybe
        said: list[str] = []
        if missing:
            said.append(f"not answered: {dict(missing.most_common(3))}")
        if surplus:
            said.append(f"answered too often: {dict(surplus.most_common(3))}")
        return said


def owed_for(text: bytes, line_bytes: int) -> Owed:
    """What a client is owed that says this, and then nothing more."""
    owed = Owed()
    has_spoken = False
    first, _, rest = text.partition(b"\n")
    greeting = None if len(first) > min(MAX_AUTH_LINE, line_bytes) else read_auth_request(first)
    if greeting is not None:
        # Answered at the door, even where nobody asks for it: the node has not heard anything yet.
        owed.answers[greeting.request_id] += 1
        text = rest
    for line in text.split(b"\n"):
        if len(line) > line_bytes:
            owed.answers[None] += 1
            continue
        if not line or line.isspace():
            continue
        if not has_spoken and HTTP.match(line):
            owed.answers[None] += 1
            break
        try:
            frame = read_frame(line)
        except InvalidMessageError as problem:
            owed.answers[problem.request_id] += 1
            continue
        has_spoken = True
        (owed.maybe if frame.kind == "event" else owed.answers)[frame.metadata.id] += 1
        if frame.type == "Timer.Schedule":
            owed.maybe.update(_ids(_parsed(bytes(frame.data))))
    return owed


def owed_at_door(text: bytes, line_bytes: int, token: str) -> Owed:
    """What one is owed that says this where a token must be shown first."""
    if not text:
        return Owed()
    first, _, rest = text.partition(b"\n")
    greeting = None if len(first) > MAX_AUTH_LINE else read_auth_request(first)
    if greeting is None or greeting.token != token:
        return Owed(is_stranger=True)
    owed = owed_for(rest, line_bytes)
    owed.answers[greeting.request_id] += 1
    return owed


def _parsed(data: bytes) -> Any:
    try:
        return msgspec.json.decode(data)
    except DECODE_ERRORS:
        # Nor will the node schedule it.
        return None


def _ids(value: Any) -> list[str]:
    """Whatever might be the id of a message somewhere in there."""
    if isinstance(value, dict):
        found: list[str] = []
        for key, each in value.items():  # pyright: ignore[reportUnknownVariableType]
            found += [each] if key == "id" and isinstance(each, str) else _ids(each)
        return found
    if isinstance(value, list):
        return [name for each in value for name in _ids(each)]  # pyright: ignore[reportUnknownVariableType]
    return []
