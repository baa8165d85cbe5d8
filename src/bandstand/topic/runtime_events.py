"""The loop's own events as a topic.

A subscriber to the runtime's events must not cause more of them. If it lags, a report of that lag would need room in the queue that is full;
if its mailbox drops an event, the report of that drop would be dropped too. So events about the delivery of runtime events are not published
on these topics. `loop.events` and `on_lag` get them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast, final

from bandstand.core import Lagged, RuntimeEvent
from bandstand.topic.topic import Topic

if TYPE_CHECKING:
    from bandstand.actor import Loop
    from bandstand.core import EventSubscription

__all__ = ("NAME", "runtime_events")

NAME = "the loop's events"


@final
class RuntimeTopic(Topic[RuntimeEvent]):
    """Publishes what `loop.events` reports."""

    __slots__ = ("_subscription",)

    def __init__(self, loop: Loop) -> None:
        # The checker does not take a union for a type; isinstance() does.
        super().__init__(loop, cast("Any", RuntimeEvent), name=NAME)
        self._subscription: EventSubscription = loop.events.listen(self._on_event)

    def close(self) -> bool:
        """Close the topic and stop listening to the loop's events."""
        self._subscription.cancel()
        return super().close()

    def _on_event(self, event: RuntimeEvent) -> None:
        if self._subscribers and not is_about_delivery(event):
            # Also while the loop ends: its last events matter most.
            self._publish(event)


def is_about_delivery(event: RuntimeEvent) -> bool:
    """Return whether an event is about the delivery of a runtime event."""
    if isinstance(event, Lagged):
        return event.source == NAME
    data: object = getattr(event, "data", None)
    parts = cast("tuple[object, ...]", data) if isinstance(data, tuple) else (data,)
    return any(isinstance(part, RuntimeEvent) for part in parts)


def runtime_events(loop: Loop) -> Topic[RuntimeEvent]:
    """Return the runtime's own events (`loop.events`) as a topic: each subscriber has its own queue and policy.

    The topic does not publish a `Lagged` about its own subscribers, or the fate of a message that was such an event: these would cause
    more of themselves. `loop.events` and `on_lag` report them.

    Each call creates a topic, which publishes until it is closed or the loop has ended.

    Raises:
        InvalidArgument: it is not a loop of typed actors.
        WrongThread: called from another thread.
    """
    return RuntimeTopic(loop)
