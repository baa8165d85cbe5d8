"""Observers: hooks for the starts and exits of actors, restarts, and messages that are not delivered.

A hook that is not overridden is not called and costs nothing. An exception in a hook is logged and does not affect the loop. Hooks run on the
loop's thread, at the moment of the event, and should be fast.
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
    """Derive from this class and override the hooks you need. Any object with methods of these names works as well."""

    def on_actor_start(self, id: ActorId, name: str | None) -> None:
        """An actor was spawned; its status is still `INIT`."""

    def on_actor_stop(self, id: ActorId, reason: ExitReason) -> None:
        """An actor has exited. Its id is stale already."""

    def on_actor_restart(self, supervisor: ActorId, child: ActorId, attempt: int) -> None:
        """A supervisor has restarted a child; `attempt` counts from 1."""

    def on_supervisor_escalate(self, supervisor: ActorId) -> None:
        """A supervisor has escalated: it has exceeded its restart limit."""

    def on_mailbox_full(self, target: ActorId) -> None:
        """A message was rejected because the target's lane is full, or for a system message its whole mailbox.

        Not called for a rejected `send_async`, which raises on its own thread.
        """

    def on_dead_letter(
        self, target: ActorId, lane: Lane, data: object, tag: int, sender: ActorId | int
    ) -> None:
        """An accepted message was not handled because its actor exited first."""

    def on_dropped(self, target: ActorId, lane: Lane, data: object, tag: int, sender: ActorId | int) -> None:
        """The overflow policy of the target dropped a message."""


HOOKS = tuple(name for name in vars(Observer) if name.startswith("on_"))


def hooks_of(observer: object) -> dict[str, Callable[..., Any] | None]:
    """Return the hooks of an observer by name; None for those it does not override.

    Raises:
        InvalidArgument: the observer has no hook, or an `on_` method that is not a hook, most likely a misspelling.
    """
    unknown = [name for name in dir(observer) if name.startswith("on_") and name not in HOOKS]
    if unknown:
        raise InvalidArgument(
            f"the observer has {', '.join(unknown)}, which is never called: the hooks are {', '.join(HOOKS)}"
        )
    hooks = {name: _own(observer, name) for name in HOOKS}
    if not isinstance(observer, Observer) and not any(hooks.values()):
        raise InvalidArgument(f"{safe_repr(observer)} is not an observer: it has none of {', '.join(HOOKS)}")
    return hooks


def _own(observer: object, name: str) -> Callable[..., Any] | None:
    hook = getattr(observer, name, None)
    if getattr(hook, "__func__", None) is vars(Observer)[name]:
        return None
    if hook is not None and not callable(hook):
        raise InvalidArgument(f"the observer's {name} is {safe_repr(hook)}: pass a method")
    return hook


def merge_hooks(
    first: Mapping[str, Callable[..., Any] | None], second: Mapping[str, Callable[..., Any] | None]
) -> dict[str, Callable[..., Any] | None]:
    """Combine two sets of hooks: where both have one, both are called, the first one first. The first must not raise."""
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
