"""Queries about actor classes, for packages that forward, route or wrap their messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bandstand.actor.actor import BaseActor
from bandstand.actor.declaration import checked_actor_class
from bandstand.actor.handle import Handle
from bandstand.actor.interface import Implements, interface_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bandstand.actor.dispatch import Method
    from bandstand.actor.handle import HandleMethod

__all__ = ("handle_methods_of", "has_park_hook", "method_name_of", "methods_of")


def handle_methods_of(kind: type[Any]) -> Mapping[str, HandleMethod]:
    """Return the methods of a class's handles, by name."""
    return checked_actor_class(kind).__actor_schema__.handle_methods


def methods_of(what: type[Any] | Handle) -> list[Method]:
    """Return every method that an actor class or a handle takes messages for, in an order that is the same in every process."""
    # In the order of declaration. Subclasses of message classes, which are found later, share the same methods.
    if isinstance(what, Handle):
        known: Any = type(what)
        methods, messages = known.__handle_methods__, known.__handle_messages__
    else:
        schema = checked_actor_class(what).__actor_schema__
        methods, messages = schema.handle_methods, schema.messages
    return list({each.method: None for each in (*methods.values(), *messages.values())})


def method_name_of(kind: type[Any], declared: object) -> str | None:
    """Return the name that a class's handles have a declared method under: `Counter.add` of a Counter. None if they have none.

    The method may be declared in a base class, or in the interface.
    """
    known = checked_actor_class(kind)
    interface = interface_of(known) if Implements in known.__mro__ else None
    for base in (*known.__mro__, *(() if interface is None else interface.__mro__)):
        for name, value in vars(base).items():
            if value is declared and name in known.__actor_schema__.handle_methods:
                return name
    return None


def has_park_hook(kind: type[Any]) -> bool:
    """Return whether actors of a class override `Actor.on_park`."""
    return checked_actor_class(kind).on_park is not BaseActor.on_park
