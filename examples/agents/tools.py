"""What a model is told: one tool for each command and query, with its JSON Schema, as the node itself describes them.

Nothing about the office is written here. A capability that is added to the node is a tool the next time somebody looks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bandstand.bus import Connection

# What a model that helps in an office has no business with.
RUNTIME = frozenset({"Syscall", "Timer", "Reminder", "Memory", "Dead"})


@dataclass(frozen=True, slots=True)
class Tool:
    """Something that can be called."""

    name: str
    description: str
    parameters: dict[str, Any]
    """The JSON Schema of its arguments. Any: a schema is whatever JSON Schema allows."""
    is_read_only: bool
    """Whether it changes nothing: then it may be called to have a look, and called again."""


async def discover(bus: Connection) -> dict[str, Tool]:
    """All tools of a node, by their names."""
    described = await bus.query("Syscall.Describe")
    return {
        message["type"]: Tool(
            message["type"], message["description"], message["schema"], message["kind"] == "query"
        )
        for capability in described["capabilities"]
        if capability["id"] not in RUNTIME
        for message in capability["handles"]
        if message["kind"] in {"command", "query"}
    }


async def call(bus: Connection, tool: Tool, arguments: dict[str, Any]) -> Any:
    """Call one; the answer, as plain data."""
    send = bus.query if tool.is_read_only else bus.call
    return await send(tool.name, arguments)
