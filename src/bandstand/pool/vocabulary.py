"""The words of pools: how messages are shared out, and what becomes of them when a worker dies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from bandstand.errors import InvalidArgument

__all__ = ("ByKey", "OnDeath", "Routing")


class Routing(Enum):
    """Which worker gets a message. All of them skip workers that are down, or have as many as they may."""

    ROUND_ROBIN = "round_robin"
    """One after the other."""
    LEAST_LOADED = "least_loaded"
    """The one that has the fewest; among equals, one after the other."""
    BROADCAST = "broadcast"
    """Each of them, those that are down when they are back. One-way methods only: an ask is answered with `InvalidArgument`."""


@dataclass(frozen=True, slots=True)
class ByKey:
    """Everything of one key goes to one worker, and is handled in the order of its lane, over deaths and resizes too.

    The worker of a key depends on the key and the size of the pool alone: it is the same in the next run. When a pool of n grows by one,
    one key in n + 1 moves, to the new worker; when it shrinks, the keys of the last worker move, and no others. A key that moves waits
    until what its old worker has of it is done.

    Raises:
        InvalidArgument: it cannot be called.
    """

    key: Callable[..., str | bytes | int]
    """Called with the arguments of each message, as its method would be; quickly, and on the loop's thread."""

    def __post_init__(self) -> None:
        if not callable(self.key):
            raise InvalidArgument(
                f"ByKey: key is {self.key!r}: pass a function of a message's arguments that gives a str, bytes or an int"
            )

    def of(self, arguments: tuple[Any, ...], named: dict[str, Any]) -> str | bytes | int:
        """The key of a message."""
        return self.key(*arguments, **named)


class OnDeath(Enum):
    """What becomes of the messages of a worker that ends before it has handled them, and is started again."""

    REQUEUE_WAITING = "requeue_waiting"
    """What it had not begun waits for its next incarnation, in order; what it was at is a dead letter. At most once."""
    REQUEUE_ALL = "requeue_all"
    """What it was at goes back to the front, up to `max_tries` times: at least once. A worker has one message at a time."""
    DEAD_LETTER = "dead_letter"
    """All that it had are dead letters; what the pool still had goes on."""
