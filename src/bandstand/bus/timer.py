"""`Timer`: messages that are sent later. What a browser has as setTimeout, for commands, queries and events."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Raw, Struct

from bandstand.bus.backstage import Backstage
from bandstand.bus.contracts.capability import Capability
from bandstand.bus.contracts.messages import Command
from bandstand.bus.frame import LONGEST_DELAY_MS, Frame, Metadata
from bandstand.bus.gate import Client
from bandstand.bus.hot.pending import Pending
from bandstand.bus.origin import NOBODY
from bandstand.bus.schedule import inherit

__all__ = ("Cancel", "Cancelled", "Schedule", "Scheduled", "Timer")


class Inner(Struct):
    """A message as it is to be sent: a command, a query or an event."""

    kind: Annotated[Literal["command", "query", "event"], Meta(examples=["query"])]
    type: Annotated[str, Meta(min_length=1, max_length=200, examples=["Syscall.Ping"])]
    metadata: Annotated[Metadata, Meta(examples=[{"id": "ping-1", "timestamp": 0}])]
    data: Raw = Raw(b"{}")


class Scheduled(Struct, rename="camel"):
    """What a scheduled message can be cancelled by."""

    timer_id: str


class Schedule(Command[Scheduled], type="Timer.Schedule"):
    """Send a message later: never before `delay` milliseconds have passed. Its answer comes to the connection that scheduled it."""

    delay: Annotated[int, Meta(ge=0, le=LONGEST_DELAY_MS, description="Milliseconds to wait.")]
    message: Annotated[
        Inner, Meta(description="The whole message. Its timestamp may be 0: it is set when it is sent.")
    ]


class Cancelled(Struct):
    """Whether there was something to cancel."""

    cancelled: bool
    """False if it has been sent already, or was never scheduled."""


class Cancel(Command[Cancelled], type="Timer.Cancel", rename="camel"):
    """Take back a scheduled message, if it has not been sent."""

    timer_id: Annotated[str, Meta(description="What Timer.Schedule has answered.")]


class Timer(Capability):
    """Sends messages later."""

    def __init__(self, backstage: Backstage) -> None:
        self._schedule = backstage.schedule
        self._router = backstage.router

    def schedule(self, msg: Schedule) -> Scheduled:
        """Check the message as if it were sent now, and set a timer."""
        item = self.bus.at_hand
        assert isinstance(item, Pending)
        # Whoever awaits an answer inside the process has it with the timer's id; only a connection hears of more.
        origin = item.origin if isinstance(item.origin, Client) else NOBODY
        inner = msg.message
        frame = Frame(kind=inner.kind, type=inner.type, data=inner.data, metadata=inner.metadata)
        asked = item.frame.metadata
        timer_id = self._schedule.add(inherit(frame, asked), msg.delay, origin, "$.data.message")
        return Scheduled(timer_id)

    def cancel(self, msg: Cancel) -> Cancelled:
        """Take it back."""
        return Cancelled(self._schedule.cancel(msg.timer_id))
