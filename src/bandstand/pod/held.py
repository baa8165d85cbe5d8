"""A message that waits for its pod."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Context
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bandstand.actor.dispatch import Method
    from bandstand.actor.handle import Handle
    from bandstand.actor.reply import ReplyCallback

__all__ = ("Held",)


@dataclass(slots=True, eq=False)
class Held:
    """What was sent while nobody was there, and all it takes to send it later."""

    role: str
    handle: Handle
    method: Method
    data: object
    asked: ReplyCallback | None
    """Who waits for an answer; good on any thread."""
    context: Context | None
    """The context in which it was sent; None if its data is packed already."""
    timers: list[Callable[[], object]] = field(default_factory=list[Callable[[], object]])
    """Each takes back a timer that ends its wait."""

    @property
    def left_ms(self) -> float:
        """How long whoever waits for an answer still does; infinite if nobody does, or for ever."""
        left: float = getattr(self.asked, "left_ms", float("inf"))
        return left

    def stop_timers(self) -> None:
        """Its wait is over."""
        for forget in self.timers:
            forget()

    def expire(self) -> bool:
        """Its time is up: tell whoever waits for an answer if that is his own time; False if it is not."""
        if self.left_ms > 0 or self.asked is None:
            return False
        self.asked.expire()  # type: ignore[attr-defined]  # whoever has a time of his own has this
        return True

    def fail(self, error: BaseException) -> bool:
        """It will not be sent; whether somebody is told."""
        if self.asked is None:
            return False
        self.asked.fail(error)
        return True

    def __str__(self) -> str:
        return f"{self.method.owner}.{self.method.name}() for {self.role!r}"
