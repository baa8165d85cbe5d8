"""A method: one kind of message of a typed actor, as dispatch sees it.

It travels in the tag of every message of its kind, so that a message needs no envelope: its tag is the method, its data the
arguments, its sender, if somebody waits for an answer, the reply.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from bandstand.actor.enums import NO_ARGUMENTS, ONE_ARGUMENT, POSITIONAL_ARGUMENTS

LaneNumber: TypeAlias = int
Shape: TypeAlias = int
Count: TypeAlias = int


class Method:
    """What to call for one kind of message, and how."""

    __slots__ = (
        "arity",
        "awaits",
        "function",
        "is_ask",
        "is_async",
        "is_reentrant",
        "lane",
        "limit",
        "name",
        "owner",
        "raises",
        "shape",
    )

    def __init__(
        self,
        owner: str,
        name: str,
        function: Callable[..., Any],
        lane: LaneNumber,
        shape: Shape,
        arity: Shape,
        is_ask: bool,
        is_async: bool,
        raises: tuple[type[BaseException], ...],
        limit: Count = 0,
        is_reentrant: bool = False,
    ) -> None:
        self.owner = owner
        self.name = name
        self.function = function
        self.lane = lane
        self.shape = shape
        # How many arguments, passed by position, make the message without looking at the signature.
        self.arity = arity
        self.is_ask = is_ask
        # Whether the function is a coroutine function; and whether it goes the longer way: one that is, or takes a list.
        self.awaits = is_async
        self.is_async = is_async or limit > 0
        # What an ask may raise as its answer; everything else is a failure of the actor.
        self.raises = raises
        # How many messages its function takes at once, as a list; 0 if it takes one, by itself.
        self.limit: Count = limit
        # Whether it may be handled out of turn, where its asker is one of those that the actor itself waits for.
        self.is_reentrant = is_reentrant

    def call(self, instance: object, data: object) -> Any:
        """Call the function on an actor, with the arguments that a message carries."""
        if self.shape == ONE_ARGUMENT:
            return self.function(instance, data)
        if self.shape == NO_ARGUMENTS:
            return self.function(instance)
        arguments: Any = data
        if self.shape == POSITIONAL_ARGUMENTS:
            return self.function(instance, *arguments)
        return self.function(instance, *arguments[0], **arguments[1])

    def __repr__(self) -> str:
        return f"<{self.owner}.{self.name}>"
