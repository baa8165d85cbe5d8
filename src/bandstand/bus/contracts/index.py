"""Who handles what: built once at boot, never changed, and asked for every message.

The destination of a message is a function of its kind and type alone. Commands and queries have one handler; an event has as many
subscribers as want it, none included.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from bandstand.bus.contracts.blueprint import Blueprint, Entry
from bandstand.bus.frame import Kind
from bandstand.errors import BadContract

__all__ = ("Index",)

NEAR_MISSES = 3


@dataclass(frozen=True, slots=True)
class Index:
    """Handlers and subscriptions."""

    handlers: Mapping[tuple[Kind, str], tuple[str, Entry]]
    """The capability's id and its entry, for each command and query."""
    subscriptions: Mapping[str, tuple[tuple[str, Entry], ...]]
    """The same for each type of event, in the order in which the capabilities were given."""

    @classmethod
    def build(cls, blueprints: Iterable[Blueprint]) -> Index:
        """Build the index.

        Raises:
            BadContract: two capabilities have the same id, or handle the same; names both.
        """
        handlers: dict[tuple[Kind, str], tuple[str, Entry]] = {}
        subscriptions: dict[str, list[tuple[str, Entry]]] = {}
        seen: dict[str, Blueprint] = {}
        for blueprint in blueprints:
            other = seen.get(blueprint.id)
            if other is not None:
                raise BadContract(
                    f"two capabilities have the id {blueprint.id!r} ({other.description!r} and {blueprint.description!r}): "
                    f"give one of them another id"
                )
            seen[blueprint.id] = blueprint
            for key, entry in blueprint.entries.items():
                if entry.kind == "event":
                    subscriptions.setdefault(entry.type, []).append((blueprint.id, entry))
                    continue
                first, _ = handlers.setdefault(key, (blueprint.id, entry))
                if first != blueprint.id:
                    raise BadContract(
                        f"both {first} and {blueprint.id} handle {entry.kind} {entry.type}: exactly one may"
                    )
        return cls(
            MappingProxyType(handlers),
            MappingProxyType({name: tuple(who) for name, who in subscriptions.items()}),
        )

    def nearest(self, kind: Kind, type: str) -> tuple[str, ...]:  # noqa: A002  # its name on the wire
        """Up to three handles that somebody may have meant, as `query:Memory.Get`; the best first."""
        other: Kind = "query" if kind == "command" else "command"
        found = [f"{other}:{type}"] if (other, type) in self.handlers else []
        names = {f"{each}:{name}": name for each, name in self.handlers}
        close = difflib.get_close_matches(f"{kind}:{type}", names, n=NEAR_MISSES, cutoff=0.7)
        folded = [handle for handle, name in names.items() if name.casefold() == type.casefold()]
        return tuple(dict.fromkeys([*found, *folded, *close]))[:NEAR_MISSES]

    def similar(self, type: str, said: Iterable[str] = ()) -> tuple[str, ...]:  # noqa: A002  # its name on the wire
        """Up to three types that somebody may have meant: those that are handled or listened to, and those that are `said`."""
        known = {name for _, name in self.handlers} | set(self.subscriptions) | set(said)
        return tuple(difflib.get_close_matches(type, sorted(known), n=NEAR_MISSES))
