"""A slot of a registry: what is known of one pod, and what waits for it, role by role."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, final

from bandstand.actor.handle import deliver, has_room, is_draining
from bandstand.core.enums import ACCEPTED

if TYPE_CHECKING:
    from bandstand.core import ActorId
    from bandstand.pod.held import Held

__all__ = ("NO_ROOM_MS", "Slot", "takes")

# How long to wait before those are tried again for whom a mailbox had no room, in milliseconds.
NO_ROOM_MS = 5.0


@final
class Slot:
    """One pod, as a registry knows it. Everything but reading it needs the registry's lock."""

    __slots__ = ("addresses", "gone", "is_retrying", "lines")

    def __init__(self) -> None:
        self.addresses: Mapping[str, ActorId] = {}
        """Who plays what, as far as we have heard."""
        self.gone: str | None = None
        """Why it will not be back."""
        self.lines: dict[str, deque[Held]] = {}
        """What waits, role by role."""
        self.is_retrying = False
        """Whether somebody will come back to those for whom there was no room."""

    def find(self, role: str) -> ActorId | None:
        """Who plays a role, and takes messages from anybody. Without the lock."""
        if self.lines.get(role):
            # Those who have waited come first.
            return None
        actor = self.addresses.get(role)
        # It may have ended without our having heard of it yet.
        return actor if actor is not None and takes(actor) else None

    def state(self, role: str) -> str:
        """What keeps whoever plays a role from taking a message, for people: "it is being started"."""
        if self.gone is not None:
            return f"its pod has ended for good: {self.gone}"
        actor = self.addresses.get(role)
        if actor is None:
            return "its pod is being started"
        if not actor.is_alive:
            return "it has ended by itself, and its pod runs on"
        if is_draining(actor):
            return "it is ending: it handles what it has, and accepts nothing any more"
        return "it has been started, and takes first the messages that wait for it"

    def flush(self, failed: list[tuple[Held, BaseException]]) -> bool:
        """Deliver what waits, in order; False if there was no room for all of it. What cannot be sent at all is added to `failed`."""
        is_done = True
        for role, line in self.lines.items():
            actor = self.addresses.get(role)
            while line and actor is not None and takes(actor):
                held = line[0]
                if not has_room(actor, held.method):
                    # Asked first: a message that is refused would be in the books.
                    is_done = False
                    break
                try:
                    fate = deliver(held.handle, actor, held.method, held.data, held.asked, held.context)
                except Exception as error:  # noqa: BLE001  # whatever its packing raises is its sender's to hear
                    line.popleft()
                    failed.append((held, error))
                    continue
                if fate != ACCEPTED:
                    is_done = False
                    break
                # Only now: from here on others find the actor, and come after it.
                line.popleft()
                held.stop_timers()
        return is_done


def takes(actor: ActorId) -> bool:
    """Whether an actor takes messages from anybody."""
    return actor.is_alive and not is_draining(actor)
