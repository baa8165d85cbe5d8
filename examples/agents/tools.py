"""The tools for a model: one for each command and query, with its JSON Schema, as the node describes them.

This module does not know the office. A capability that is added to the node becomes a tool at the next discovery.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bandstand.bus import Connection

# Capabilities of the runtime, which the model does not need.
RUNTIME = frozenset({"Syscall", "Timer", "Reminder", "Memory", "Dead", "Step"})


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool that a model can call."""

    name: str
    description: str
    parameters: dict[str, Any]
    """The JSON Schema of its arguments."""
    is_read_only: bool
    """True if a call changes nothing, so that it may be repeated."""


async def discover(bus: Connection) -> dict[str, Tool]:
    """Return all tools of a node, by their names."""
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
    """Call a tool, and return the answer as plain data."""
    send = bus.query if tool.is_read_only else bus.call
    return await send(tool.name, arguments)
