"""What a group says: who came and went, and who took a message."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

__all__ = ("Change", "Told")

A = TypeVar("A")


@dataclass(frozen=True, slots=True)
class Change(Generic[A]):
    """Somebody has joined a group, or has left it: by itself, or by its end."""

    group: str
    """The name of the group."""
    member: A
    """Whose handle it is; one that has ended is good for telling who it was."""
    has_joined: bool
    """Whether it has come; else it has gone."""


class Told(NamedTuple):
    """What became of a message to a group."""

    taken: int
    """How many members have it."""
    refused: int
    """How many had no room for it, or took nothing any more."""
