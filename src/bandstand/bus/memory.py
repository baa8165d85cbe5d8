"""`Memory`: a key-value store that lives as long as the node. It is also the reference example of a capability."""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import Annotated, Any, TypeAlias

import msgspec
from msgspec import Meta, Struct

from bandstand.bus.contracts.capability import Capability
from bandstand.bus.contracts.messages import Command, Event, Query
from bandstand.errors import RefusedError

__all__ = ("Changed", "Delete", "Deleted", "Get", "Keys", "List", "Memory", "Set", "Value")

Key: TypeAlias = Annotated[
    str, Meta(min_length=1, max_length=1000, description="The name of a value.", examples=["greeting"])
]
# Any: any JSON value.
Json: TypeAlias = Annotated[Any, Meta(description="Any JSON value.", examples=["hello"])]

# Without limits, one client could use up the memory of the node.
MAX_KEYS = 100_000
MAX_BYTES = 256 << 20


class Value(Struct, omit_defaults=True, gc=False):
    """The value of a key."""

    value: Json
    found: Annotated[bool, Meta(description="False if the key has no value; omitted otherwise.")] = True


class Keys(Struct, omit_defaults=True, gc=False):
    """Keys, in sorted order."""

    keys: list[str]
    more: Annotated[
        bool,
        Meta(
            description="True if there are more keys: ask again, with `after` set to the last key. Omitted otherwise."
        ),
    ] = False


class Deleted(Struct, gc=False):
    """Whether the key had a value."""

    deleted: bool


class Changed(Event, type="Memory.Changed", omit_defaults=True):
    """A value was set or deleted."""

    key: Key
    value: Json = None
    deleted: bool = False


class Set(Command[None], type="Memory.Set"):
    """Store a value under a key, and replace the previous value."""

    key: Key
    value: Json


class Get(Query[Value], type="Memory.Get"):
    """Read the value of a key."""

    key: Key


class Delete(Command[Deleted], type="Memory.Delete"):
    """Delete the value of a key."""

    key: Key


class List(Query[Keys], type="Memory.List"):
    """List keys, in sorted order."""

    prefix: Annotated[str, Meta(description="Only keys with this prefix.")] = ""
    after: Annotated[str, Meta(description="Only keys after this one.")] = ""
    limit: Annotated[int, Meta(ge=1, le=10_000, description="The maximum number of keys.")] = 1000


class Memory(Capability):
    """Stores values by key, as long as the node runs."""

    outbound = Changed

    def __init__(self, max_keys: int = MAX_KEYS) -> None:
        self._max_keys = max_keys
        self._values: dict[str, Any] = {}
        self._sizes: dict[str, int] = {}
        self._bytes = 0
        self._keys: list[str] = []

    def set(self, msg: Set) -> None:
        """Store a value, and publish the change."""
        size = len(msgspec.json.encode(msg.value))
        if self._bytes - self._sizes.get(msg.key, 0) + size > MAX_BYTES:
            raise RefusedError(
                f"the store has {self._bytes} bytes of values, and its limit is {MAX_BYTES}: delete some values first"
            )
        if msg.key not in self._values:
            if len(self._values) >= self._max_keys:
                raise RefusedError(
                    f"the store has {self._max_keys} keys, which is its limit: delete some keys first"
                )
            insort(self._keys, msg.key)
        self._values[msg.key] = msg.value
        self._bytes += size - self._sizes.get(msg.key, 0)
        self._sizes[msg.key] = size
        self.bus.emit(Changed(key=msg.key, value=msg.value))

    def get(self, msg: Get) -> Value:
        """Return the value of a key."""
        if msg.key in self._values:
            return Value(self._values[msg.key])
        return Value(None, found=False)

    def delete(self, msg: Delete) -> Deleted:
        """Delete a value, and publish the change."""
        if msg.key not in self._values:
            return Deleted(deleted=False)
        del self._values[msg.key]
        self._bytes -= self._sizes.pop(msg.key)
        del self._keys[bisect_left(self._keys, msg.key)]
        self.bus.emit(Changed(key=msg.key, deleted=True))
        return Deleted(deleted=True)

    def list(self, msg: List) -> Keys:
        """Return the keys that match, one page at a time."""
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
