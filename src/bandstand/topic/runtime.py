"""The loop's own events as a topic.

Whoever listens to what a runtime tells must not become the cause of more of it. A subscriber that lags would be told that it lags,
which it has no room for, and so on for ever; one whose mailbox drops what it is sent would be sent that, too. So what the runtime tells
about the delivery of its own events is told to everybody but these topics: to `loop.events`, and to `on_lag`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast, final

from bandstand.core import Lagged, RuntimeEvent
from bandstand.topic.topic import Topic

if TYPE_CHECKING:
    from bandstand.core import Listening
    from bandstand.service import Loop

__all__ = ("NAME", "runtime_events")

NAME = "the loop's events"


@final
class RuntimeTopic(Topic[RuntimeEvent]):
    """What `loop.events` tells."""

    __slots__ = ("_listening",)

    def __init__(self, loop: Loop) -> None:
        # A union is no class, but can be asked what is one of it.
        super().__init__(loop, cast("Any", RuntimeEvent), name=NAME)
        self._listening: Listening = loop.events.listen(self._hear)

    def close(self) -> bool:
        """End it, and listen no more."""
        self._listening.cancel()
        return super().close()

    def _hear(self, event: RuntimeEvent) -> None:
        if self._takers and not is_about_itself(event):
            # Also while the loop ends: its last events are the most wanted.
            self._pass_on(event)


def is_about_itself(event: RuntimeEvent) -> bool:
    """Whether an event is about the delivery of such an event."""
    if isinstance(event, Lagged):
        return event.source == NAME
    data: object = getattr(event, "data", None)
    parts = cast("tuple[object, ...]", data) if isinstance(data, tuple) else (data,)
    return any(isinstance(part, RuntimeEvent) for part in parts)


def runtime_events(loop: Loop) -> Topic[RuntimeEvent]:
    """What the runtime tells of itself (`loop.events`), as a topic: each subscriber with a room and a policy of its own.

    Not published are a `Lagged` about a subscriber of such a topic, and what became of a message that was such an event: these would
    feed on themselves. `loop.events` tells them, and so does `on_lag`.

    Each call makes a topic of its own, which listens until it is closed or the loop has ended.

    Raises:
        InvalidArgument: it is no loop of typed actors.
        WrongThread: called off the loop's thread.
    """
    return RuntimeTopic(loop)
