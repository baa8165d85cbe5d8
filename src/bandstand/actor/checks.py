"""What is refused before anything starts: things that are no class of actors, no loop for them, or none of their objects."""

from __future__ import annotations

from inspect import CO_VARARGS, CO_VARKEYWORDS
from typing import TYPE_CHECKING, Any

from bandstand.errors import InvalidArgument
from bandstand.errors.formatting import safe_repr

if TYPE_CHECKING:
    from bandstand.actor.actor import Performer
    from bandstand.actor.loop import Loop

__all__ = ("check_instance", "checked_kind", "checked_loop", "refuse_factory")


def check_instance(kind: type[Performer], instance: object) -> None:
    """Refuse what a class has made if it cannot be its actor.

    Raises:
        InvalidArgument: it is of another class, or is an actor already.
    """
    if not isinstance(instance, kind):
        raise InvalidArgument(
            f"{kind.__qualname__} made {safe_repr(instance)}, which is none of its objects: it cannot be an actor of it"
        )
    if hasattr(instance, "_bs_me"):
        raise InvalidArgument(
            f"{kind.__qualname__} made an object that is an actor already: an object is one actor at most"
        )


def refuse_factory(behavior: Any) -> None:
    """Refuse what makes typed actors, or is one, where a behavior is meant: a mistake that checkers let pass.

    Raises:
        InvalidArgument: it is an object of a class of actors, or cannot take a context and a message.
    """
    makes: object = getattr(behavior, "func", None)
    code = getattr(behavior, "__code__", None)
    takes = 2 if code is None or code.co_flags & (CO_VARARGS | CO_VARKEYWORDS) else code.co_argcount
    if hasattr(behavior, "_bs_schema") or hasattr(makes, "_bs_schema") or takes < 2:
        raise InvalidArgument(
            f"{safe_repr(behavior)} is no behavior of (ctx, data): for a typed actor pass the class, and then the arguments of its "
            f"constructor, loop.spawn(Counter, 10)"
        )


def checked_kind(kind: Any) -> type[Performer]:
    """A class of actors, or an error.

    Raises:
        InvalidArgument: it is none.
    """
    # Of a generic class with its arguments, the class.
    kind = getattr(kind, "__origin__", kind)
    if not isinstance(kind, type) or not hasattr(kind, "_bs_schema"):
        raise InvalidArgument(
            f"{safe_repr(kind)} is no class of actors: pass a class that derives from Actor, or from Implements[TheInterface]"
        )
    known: type[Performer] = kind
    return known


def checked_loop(loop: Any) -> Loop:
    """A loop that has typed actors, or an error.

    Raises:
        InvalidArgument: it is one of the core's own.
    """
    if not hasattr(loop, "_asks"):
        raise InvalidArgument(f"{safe_repr(loop)} has no typed actors: make it with bandstand.actor.Loop")
    typed: Loop = loop
    return typed
