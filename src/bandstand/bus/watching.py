"""Watching a node from outside: what passes its router, copied to a connection that has asked for it.

A copy is an event of its own, `Sys.Traffic`, with the whole message in it: so it cannot be taken for an answer to whoever watches. Copies
do not pass the router, and are not watched in turn. Nobody is waited for: what a watcher does not take in time it misses, and is
told how much, by `Sys.Lagged`, as for events.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, final

import msgspec
from msgspec import Meta, Raw, Struct

from bandstand.bus.contracts.capability import Capability
from bandstand.bus.contracts.messages import Command, Event
from bandstand.bus.frame import Frame, Kind, Metadata
from bandstand.bus.gate import Client
from bandstand.bus.hot.pending import Pending
from bandstand.bus.tap import Filter
from bandstand.errors import Refused

if TYPE_CHECKING:
    from bandstand.bus.backstage import Backstage
    from bandstand.bus.tap import Tap

__all__ = ("Pattern", "Traffic", "Unwatch", "Watch", "Watching", "Watchman")

Pattern = Annotated[
    str,
    Meta(
        # What is behind the end: for Python, a newline may still follow it.
        pattern=r"^(\*|[A-Za-z][A-Za-z0-9_.-]{0,150}(\.\*)?)$(?!\n)",
        description="A type, or the beginning of some, as Memory.*; * for all.",
        examples=["Memory.*"],
    ),
]

# How many connections may watch at once: each costs every message something.
MOST_WATCHERS = 64


class Watching(Struct):
    """What a connection is shown from now on."""

    types: list[str]
    kinds: list[Kind]


class Watch(Command[Watching], type="Syscall.Watch", remember=False):
    """Have a copy of every message that passes sent to this connection, as Sys.Traffic; instead of what it was shown before."""

    types: Annotated[list[Pattern], Meta(max_length=1000)] = msgspec.field(default_factory=list[str])
    kinds: Annotated[list[Kind], Meta(description="Only these kinds; none for all.")] = msgspec.field(
        default_factory=list[Kind]
    )


class Unwatch(Command[None], type="Syscall.Unwatch", remember=False):
    """Do not have them sent any more."""


class Traffic(Event, type="Sys.Traffic"):
    """A message has passed the router. Only those connections get it that have asked for it by Syscall.Watch."""

    message: Frame
    to: Annotated[str, Meta(description="Who it went to.")] = ""


@final
class Watcher:
    """One connection that watches."""

    def __init__(self, backstage: Backstage, client: Client, where: Filter) -> None:
        self._backstage = backstage
        self._client = client
        self._where = where
        # Not with the filter: what it does not pick must still show that the client is gone.
        self._tap: Tap = backstage.router.taps.add(self._see)

    def end(self) -> None:
        """Show it nothing more."""
        self._tap.remove()
        watchers = self._backstage.watchers
        if watchers.get(self._client) is self:
            del watchers[self._client]

    def _see(self, frame: Frame, destination: str) -> None:
        client = self._client
        if not client.is_open:
            self.end()
        elif self._where.matches(frame):
            ids = self._backstage.router.ids
            data = Raw(msgspec.json.encode(Traffic(frame, destination)))
            metadata = Metadata(ids(), ids.last_ms, frame.metadata.id)
            client.publish(Frame(kind="event", type=Traffic.message_type, data=data, metadata=metadata))


class Watchman(Capability):
    """The part of `Syscall` that shows what passes."""

    def __init__(self, backstage: Backstage) -> None:
        self._backstage = backstage

    def watch(self, msg: Watch) -> Watching:
        """Show a connection what passes."""
        client = self._client()
        watchers = self._backstage.watchers
        if (before := watchers.get(client)) is not None:
            before.end()
        if len(watchers) >= MOST_WATCHERS:
            raise Refused(f"{MOST_WATCHERS} connections watch already, and no more may")
        where = Filter(types=msg.types, kinds=msg.kinds)
        watchers[client] = Watcher(self._backstage, client, where)
        return Watching(sorted(msg.types) or ["*"], sorted(msg.kinds))

    def unwatch(self, _msg: Unwatch) -> None:
        """Show it no more."""
        watcher = self._backstage.watchers.get(self._client())
        if watcher is not None:
            watcher.end()

    def _client(self) -> Client:
        item = self.bus.at_hand
        if not isinstance(item, Pending) or not isinstance(item.origin, Client):
            raise Refused(
                "only a connection can subscribe or watch: a capability says in its contract what it listens to"
            )
        if not item.origin.is_open:
            raise Refused("the connection that was to listen is gone")
        return item.origin
