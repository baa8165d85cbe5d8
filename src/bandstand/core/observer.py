"""Watching a loop from outside: hooks for births, ends and overflows.

A hook that nobody overrides is not called at all. A hook that raises is logged and goes no further: an observer never
hurts the loop. All hooks run on the loop's thread, inside the event they tell of, and should be quick.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import TYPE_CHECKING, Any

from bandstand.errors import InvalidArgument
from bandstand.errors.formatting import safe_repr

if TYPE_CHECKING:
    from bandstand.core.enums import ExitReason, Lane
    from bandstand.core.ids import ActorId

__all__ = ("Observer",)


class Observer:
    """Derive from this and override what you want to hear of. Any object with methods of these names will do as well."""

    def on_actor_start(self, id: ActorId, name: str | None) -> None:
        """An actor was spawned; its status is still `INIT`."""

    def on_actor_stop(self, id: ActorId, reason: ExitReason) -> None:
        """An actor has ended. Its id is stale already."""

    def on_actor_restart(self, supervisor: ActorId, child: ActorId, attempt: int) -> None:
        """A supervisor has started a child again; `attempt` counts from 1."""

    def on_supervisor_escalate(self, supervisor: ActorId) -> None:
        """A supervisor has given up."""

    def on_mailbox_full(self, target: ActorId) -> None:
        """A message was refused because the target's lane, or for a system message its whole mailbox, is full.

        Not told of a `send_async` that was refused: that is between it and its own thread.
        """

    def on_dead_letter(
        self, target: ActorId, lane: Lane, data: object, tag: int, sender: ActorId | int
    ) -> None:
        """An accepted message was not handled because its actor ended first."""

    def on_dropped(self, target: ActorId, lane: Lane, data: object, tag: int, sender: ActorId | int) -> None:
        """A message was given up by the overflow policy its target was spawned with."""


HOOKS = tuple(name for name in vars(Observer) if name.startswith("on_"))


def hooks_of(observer: object) -> dict[str, Callable[..., Any] | None]:
    """What of an observer is to be called, by name; None for what it leaves as it is.

    Raises:
        InvalidArgument: it has no hook at all, or one of a name that is never called: most likely a misspelling.
    """
    unknown = [name for name in dir(observer) if name.startswith("on_") and name not in HOOKS]
    if unknown:
        raise InvalidArgument(
            f"the observer has {', '.join(unknown)}, which nothing ever calls: the hooks are {', '.join(HOOKS)}"
        )
    hooks = {name: _own(observer, name) for name in HOOKS}
    if not isinstance(observer, Observer) and not any(hooks.values()):
        raise InvalidArgument(f"{safe_repr(observer)} is no observer: it has none of {', '.join(HOOKS)}")
    return hooks


def _own(observer: object, name: str) -> Callable[..., Any] | None:
    hook = getattr(observer, name, None)
    if getattr(hook, "__func__", None) is vars(Observer)[name]:
        return None
    if hook is not None and not callable(hook):
        raise InvalidArgument(f"the observer's {name} is {safe_repr(hook)}: a hook is a method")
    return hook


def joined(
    first: Mapping[str, Callable[..., Any] | None], second: Mapping[str, Callable[..., Any] | None]
) -> dict[str, Callable[..., Any] | None]:
    """Two sets of hooks as one: where both have one, they are called one after the other. The first must not raise."""
    hooks = dict(second)
    for name, hook in first.items():
        other = hooks.get(name)
        hooks[name] = hook if other is None or hook is None else _in_turn(hook, other)
    return hooks


def _in_turn(first: Callable[..., Any], second: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(second)
    def both(*arguments: object) -> None:
        first(*arguments)
        second(*arguments)

    return both
