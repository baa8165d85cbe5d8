"""`Memory`: values by key, for as long as the node runs. The reference of how a capability is written."""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import Annotated, Any, TypeAlias

import msgspec
from msgspec import Meta, Struct

from bandstand.bus.contracts.capability import Capability
from bandstand.bus.contracts.messages import Command, Event, Query
from bandstand.errors import Refused

__all__ = ("Changed", "Delete", "Deleted", "Get", "Keys", "List", "Memory", "Set", "Value")

Key: TypeAlias = Annotated[
    str, Meta(min_length=1, max_length=1000, description="The name of a value.", examples=["greeting"])
]
# Any: whatever JSON can say.
Json: TypeAlias = Annotated[Any, Meta(description="Any JSON value.", examples=["hello"])]

# A client that fills a node's memory harms all others.
MOST_KEYS = 100_000
MOST_BYTES = 256 << 20


class Value(Struct, omit_defaults=True, gc=False):
    """What lies under a key."""

    value: Json
    found: Annotated[bool, Meta(description="False if there is no value; left out if there is one.")] = True


class Keys(Struct, omit_defaults=True, gc=False):
    """Keys, in their order."""

    keys: list[str]
    more: Annotated[
        bool,
        Meta(description="Whether there are more: ask again, with `after` as the last key. Left out if not."),
    ] = False


class Deleted(Struct, gc=False):
    """Whether there was something to delete."""

    deleted: bool


class Changed(Event, type="Memory.Changed", omit_defaults=True):
    """A value was set or deleted."""

    key: Key
    value: Json = None
    deleted: bool = False


class Set(Command[None], type="Memory.Set"):
    """Keep a value under a key, in place of the one that lies there."""

    key: Key
    value: Json


class Get(Query[Value], type="Memory.Get"):
    """Read the value under a key."""

    key: Key


class Delete(Command[Deleted], type="Memory.Delete"):
    """Forget the value under a key."""

    key: Key


class List(Query[Keys], type="Memory.List"):
    """List keys, in their order."""

    prefix: Annotated[str, Meta(description="Only keys that begin so.")] = ""
    after: Annotated[str, Meta(description="Only keys that come after this one.")] = ""
    limit: Annotated[int, Meta(ge=1, le=10_000, description="At most so many.")] = 1000


class Memory(Capability):
    """Keeps values under keys, for as long as the node runs."""

    outbound = Changed

    def __init__(self, most_keys: int = MOST_KEYS) -> None:
        self._most_keys = most_keys
        self._values: dict[str, Any] = {}
        self._sizes: dict[str, int] = {}
        self._bytes = 0
        self._keys: list[str] = []

    def set(self, msg: Set) -> None:
        """Keep it, and tell whoever wants to know."""
        size = len(msgspec.json.encode(msg.value))
        if self._bytes - self._sizes.get(msg.key, 0) + size > MOST_BYTES:
            raise Refused(
                f"the values are {self._bytes} bytes, and {MOST_BYTES} are all there is room for; delete some first"
            )
        if msg.key not in self._values:
            if len(self._values) >= self._most_keys:
                raise Refused(
                    f"{self._most_keys} keys are kept, which is all there is room for; delete some first"
                )
            insort(self._keys, msg.key)
        self._values[msg.key] = msg.value
        self._bytes += size - self._sizes.get(msg.key, 0)
        self._sizes[msg.key] = size
        self.bus.emit(Changed(key=msg.key, value=msg.value))

    def get(self, msg: Get) -> Value:
        """Read it."""
        if msg.key in self._values:
            return Value(self._values[msg.key])
        return Value(None, found=False)

    def delete(self, msg: Delete) -> Deleted:
        """Forget it."""
        if msg.key not in self._values:
            return Deleted(deleted=False)
        del self._values[msg.key]
        self._bytes -= self._sizes.pop(msg.key)
        del self._keys[bisect_left(self._keys, msg.key)]
        self.bus.emit(Changed(key=msg.key, deleted=True))
        return Deleted(deleted=True)

    def list(self, msg: List) -> Keys:
        """List them."""
        keys = self._keys
        start = bisect_left(keys, max(msg.prefix, msg.after))
        if start < len(keys) and keys[start] == msg.after:
            start += 1
        found: list[str] = []
        for key in keys[start : start + msg.limit + 1]:
            if not key.startswith(msg.prefix):
                break
            found.append(key)
        return Keys(found[: msg.limit], more=len(found) > msg.limit)
