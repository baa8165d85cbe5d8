"""What every handle has besides its messages, and which names are taken by that."""

from __future__ import annotations

from inspect import getattr_static, signature
from typing import TYPE_CHECKING, Any

from bandstand.actor import outside
from bandstand.actor.decorators import Mark
from bandstand.errors import BadDeclaration
from bandstand.errors.formatting import safe_repr, safe_str

if TYPE_CHECKING:
    from bandstand.actor.actor import Performer

__all__ = ("NOTES", "OURS", "RESERVED", "TOOLS", "facade", "refuse_hook")

# Names that no message may have: they are the actor's own, or every handle's.
HOOKS = frozenset({"on_park", "on_signal", "on_start", "on_stop"})
TOOLS = frozenset(
    {"after", "background", "ended", "every", "every_after", "kill", "me", "options", "spawn", "stop"}
)
RESERVED = HOOKS | TOOLS
# What we note on a class.
NOTES = frozenset(
    {"_bs_ask_ms", "_bs_has_epilogue", "_bs_is_plain", "_bs_plan", "_bs_postpone_limit", "_bs_schema"}
)

# The modules whose classes make up what every actor has.
OURS = frozenset(
    {
        "bandstand.actor.actor",
        "bandstand.actor.interface",
        "bandstand.actor.state_machine",
        "bandstand.actor.messages",
    }
)


def refuse_hook(cls: type[Performer], name: str, takes: int) -> None:
    """Refuse a hook that could not be called."""
    hook = getattr_static(cls, name)
    try:
        signature(hook).bind(None, *(None for _ in range(takes)))
    except TypeError as error:
        raise BadDeclaration(
            f"{cls.__qualname__}.{name} is {safe_repr(hook)}, which cannot be called with {takes} arguments besides self: {safe_str(error)}"
        ) from None


def facade(cls: type[Performer]) -> dict[str, Any]:
    """What every handle of a class has besides its methods."""
    face: dict[str, Any] = {
        "stop": outside.stop,
        "kill": outside.kill,
        "ended": property(outside.End),
        "me": property(lambda handle: handle),
    }
    # No __getattr__: with one, Python would make a bound object for every call. So what the class has is explained name by name.
    for name in dir(cls):
        if (
            not name.startswith(("__", "_bs_"))
            and name not in face
            and not isinstance(getattr_static(cls, name), Mark)
        ):
            face[name] = outside.Hidden(cls.__qualname__, name)
    for name in ("stop", "kill"):
        face[name].__doc__ = getattr(cls, name).__doc__
    return face
