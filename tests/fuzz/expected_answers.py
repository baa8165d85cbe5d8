"""The answers that a client must get for what it has sent: how many, to which id.

`read_frame` decides whether a line is a message, as in the node: the parser has tests of its own. What is compared here is the rest: each request
is answered once, each bad line is one error, an event is nothing or one error, and nothing else ever comes.
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

# The first line of a browser.
HTTP = re.compile(rb"(?i)(?:[a-z]+ \S+ http/1\.[01]|host: ?\S+)\r?$")

Answers = Counter[str | None]


@dataclass
class Expected:
    """What must come, and what may come."""

    answers: Answers = field(default_factory=Counter[str | None])
    """How often each id must be answered; None for lines without a readable id."""
    maybe: Answers = field(default_factory=Counter[str | None])
    """How often each id may be answered too: an event that its subscribers cannot read is an error, and a scheduled message
    is answered if it is due before the connection ends."""
    is_refused: bool = False
    """Whether it is not authenticated: then there is one `Sys.Unauthorized`, and nothing else."""

    def complaints(self, heard: list[dict[str, Any]]) -> list[str]:
        """Return what is wrong with the answers."""
        if self.is_refused:
            kinds = [message["type"] for message in heard]
            return [] if kinds == ["Sys.Unauthorized"] else [f"an unauthenticated client was sent {kinds}"]
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


def expected_for(text: bytes, line_bytes: int) -> Expected:
    """Return what a client must get that sends this and nothing more."""
    expected = Expected()
    has_begun = False
    first, _, rest = text.partition(b"\n")
    greeting = None if len(first) > min(MAX_AUTH_LINE, line_bytes) else read_auth_request(first)
    if greeting is not None:
        # Answered before the node sees anything, even where no token is needed.
        expected.answers[greeting.request_id] += 1
        text = rest
    for line in text.split(b"\n"):
        if len(line) > line_bytes:
            expected.answers[None] += 1
            continue
        if not line or line.isspace():
            continue
        if not has_begun and HTTP.match(line):
            expected.answers[None] += 1
            break
        try:
            frame = read_frame(line)
        except InvalidMessageError as problem:
            expected.answers[problem.request_id] += 1
            continue
        has_begun = True
        (expected.maybe if frame.kind == "event" else expected.answers)[frame.metadata.id] += 1
        if frame.type == "Timer.Schedule":
            expected.maybe.update(_ids(_parsed(bytes(frame.data))))
    return expected


def expected_after_authentication(text: bytes, line_bytes: int, token: str) -> Expected:
    """The same where a token must be shown first."""
    if not text:
        return Expected()
    first, _, rest = text.partition(b"\n")
    greeting = None if len(first) > MAX_AUTH_LINE else read_auth_request(first)
    if greeting is None or greeting.token != token:
        return Expected(is_refused=True)
    expected = expected_for(rest, line_bytes)
    expected.answers[greeting.request_id] += 1
    return expected


def _parsed(data: bytes) -> Any:
    try:
        return msgspec.json.decode(data)
    except DECODE_ERRORS:
        # Nor will the node schedule it.
        return None


def _ids(value: Any) -> list[str]:
    """Return everything that might be the id of a message in there."""
    if isinstance(value, dict):
        found: list[str] = []
        for key, each in value.items():  # pyright: ignore[reportUnknownVariableType]
            found += [each] if key == "id" and isinstance(each, str) else _ids(each)
        return found
    if isinstance(value, list):
        return [name for each in value for name in _ids(each)]  # pyright: ignore[reportUnknownVariableType]
    return []
